"""`agentmem goals`: what is to be reached."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from agentmem.cli.context import CliContext, memory_options, parse_datetime
from agentmem.cli.render import dim, echo, format_time, show_json_lines, to_one_line

if TYPE_CHECKING:
    from agentmem.core.records import Goal
    from agentmem.facade.async_memory import AsyncAgentMemory

STATUSES = ("active", "blocked", "completed", "abandoned")
ACTIONS = ("add", "complete", "abandon", "block", "unblock")


@click.command("goals", short_help="List goals, or add, end, block and free them.")
@click.option("--status", type=click.Choice(STATUSES), help="Only goals of this status. [default: active and blocked]")
@click.option("--add", metavar="TEXT", help="Add a goal; with --priority, --deadline and --parent.")
@click.option("--priority", type=click.IntRange(1, 5), help="How urgent the new goal is, 5 most. [default: 3]")
@click.option("--deadline", type=parse_datetime, metavar="MOMENT", help="Until when the new goal is to be reached.")
@click.option("--parent", metavar="ID", help="The goal that the new one is a part of.")
@click.option("--complete", metavar="ID", help="End this goal as completed.")
@click.option("--abandon", metavar="ID", help="End this goal as abandoned.")
@click.option("--result", default="", metavar="TEXT", help="What came of the goal that is ended.")
@click.option("--cascade", is_flag=True, help="Abandon the open parts of the goal that is ended.")
@click.option("--block", metavar="ID", help="Let this goal wait for the one given with --by.")
@click.option("--unblock", metavar="ID", help="Let this goal wait no longer, for the one given with --by or for any.")
@click.option("--by", metavar="ID", help="The goal that is waited for.")
@memory_options()
def goals_command(cli: CliContext, **options: Any) -> None:
    """List the open goals, most urgent first, with --json one JSON document per line; or change one.

    \b
    Examples:
      agentmem goals
      agentmem goals --add "Book a flight" --priority 5 --deadline 2026-05-01
      agentmem goals --block 0197a6e2-8f10-7c3a-9d5e-2b1f0c4d6e8a --by 0197a6e2-8f10-7c3a-9d5e-9a3b5c7d1e2f
      agentmem goals --complete 0197a6e2-8f10-7c3a-9d5e-2b1f0c4d6e8a --result "booked for May"
      agentmem goals --status completed --json
    """
    actions = [name for name in ACTIONS if options[name] is not None]
    if len(actions) > 1:
        raise click.UsageError(f"give only one of {', '.join('--' + name for name in ACTIONS)}")
    if options["by"] is not None and actions not in (["block"], ["unblock"]):
        raise click.UsageError("--by goes with --block or --unblock")
    if actions == ["block"] and options["by"] is None:
        raise click.UsageError("give --block and --by together")
    if actions:
        goal = cli.run(lambda memory: _run_action(memory, actions[0], options))
        cli.show(goal, "\n".join([f"{goal.goal_status}: {to_one_line(goal.description)}", dim(f"    {goal.id}")]))
        return
    found, now = cli.run(lambda memory: _list_goals(memory, options["status"]))
    if cli.json:
        show_json_lines(found)
        return
    for goal in found:
        echo("\n".join(_render_goal(goal, now)))
    if not found:
        echo("no goals")


async def _run_action(memory: AsyncAgentMemory, action: str, options: dict[str, Any]) -> Goal:
    if action == "add":
        fields = {"priority": options["priority"], "deadline": options["deadline"], "parent_id": options["parent"]}
        said = {name: value for name, value in fields.items() if value is not None}
        return await memory.add_goal({"description": options["add"], **said})
    if action == "block":
        return await memory.goals.block(options["block"], options["by"])
    if action == "unblock":
        return await memory.goals.unblock(options["unblock"], options["by"])
    status = "completed" if action == "complete" else "abandoned"
    return await memory.complete_goal(options[action], status, options["result"], cascade=options["cascade"])


async def _list_goals(memory: AsyncAgentMemory, status: str | None) -> tuple[list[Goal], datetime]:
    found = await memory.goals.all(status)
    return [goal for goal in found if status is not None or goal.is_open], memory.engine.clock.now()


def _render_goal(goal: Goal, now: datetime) -> list[str]:
    notes = [goal.goal_status, f"priority {goal.priority}"]
    if goal.progress:
        notes.append(f"{goal.progress:.0%} done")
    if goal.deadline is not None:
        notes.append(f"{'overdue since' if goal.is_overdue(now) else 'by'} {format_time(goal.deadline)}")
    ties = [f"part of {goal.parent_id}"] if goal.parent_id else []
    ties += [f"waits for {name}" for name in goal.blocked_by]
    ties += [f"result: {to_one_line(goal.result)}"] if goal.result else []
    first = f"{to_one_line(goal.description)} ({', '.join(notes)})"
    return [first, *(f"    {tie}" for tie in ties), dim(f"    {goal.id}")]


COMMANDS = (goals_command,)
