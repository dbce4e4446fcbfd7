"""`agentmem goals`: what is to be reached."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from agentmem.cli.door import Door, memory_options, moment
from agentmem.cli.render import dim, one_line, say, show_json_lines, when

if TYPE_CHECKING:
    from agentmem.agent_memory import AsyncAgentMemory
    from agentmem.model.records import Goal

STATUSES = ("active", "blocked", "completed", "abandoned")
ACTIONS = ("add", "complete", "abandon", "block", "unblock")


@click.command(short_help="List goals, or add, end, block and free them.")
@click.option("--status", type=click.Choice(STATUSES), help="Only goals of this status. [default: active and blocked]")
@click.option("--add", metavar="TEXT", help="Add a goal; with --priority, --deadline and --parent.")
@click.option("--priority", type=click.IntRange(1, 5), help="How urgent the new goal is, 5 most. [default: 3]")
@click.option("--deadline", type=moment, metavar="MOMENT", help="Until when the new goal is to be reached.")
@click.option("--parent", metavar="ID", help="The goal that the new one is a part of.")
@click.option("--complete", metavar="ID", help="End this goal as completed.")
@click.option("--abandon", metavar="ID", help="End this goal as abandoned.")
@click.option("--result", default="", metavar="TEXT", help="What came of the goal that is ended.")
@click.option("--cascade", is_flag=True, help="Abandon the open parts of the goal that is ended.")
@click.option("--block", metavar="ID", help="Let this goal wait for the one given with --by.")
@click.option("--unblock", metavar="ID", help="Let this goal wait no longer, for the one given with --by or for any.")
@click.option("--by", metavar="ID", help="The goal that is waited for.")
@memory_options()
def command(door: Door, **given: Any) -> None:
    """List the open goals, most urgent first, with --json one JSON document per line; or change one.

    \b
    Examples:
      agentmem goals
      agentmem goals --add "Book a flight" --priority 5 --deadline 2026-05-01
      agentmem goals --block 0197a6e2-8f10-7c3a-9d5e-2b1f0c4d6e8a --by 0197a6e2-8f10-7c3a-9d5e-9a3b5c7d1e2f
      agentmem goals --complete 0197a6e2-8f10-7c3a-9d5e-2b1f0c4d6e8a --result "booked for May"
      agentmem goals --status completed --json
    """
    actions = [name for name in ACTIONS if given[name] is not None]
    if len(actions) > 1:
        raise click.UsageError(f"give only one of {', '.join('--' + name for name in ACTIONS)}")
    if given["by"] is not None and actions not in (["block"], ["unblock"]):
        raise click.UsageError("--by goes with --block or --unblock")
    if actions == ["block"] and given["by"] is None:
        raise click.UsageError("give --block and --by together")
    if actions:
        goal = door.run(lambda memory: _act(memory, actions[0], given))
        door.show(goal, "\n".join([f"{goal.goal_status}: {one_line(goal.description)}", dim(f"    {goal.id}")]))
        return
    found, now = door.run(lambda memory: _listed(memory, given["status"]))
    if door.json:
        show_json_lines(found)
        return
    for goal in found:
        say("\n".join(_lines(goal, now)))
    if not found:
        say("no goals")


async def _act(memory: AsyncAgentMemory, action: str, given: dict[str, Any]) -> Goal:
    if action == "add":
        fields = {"priority": given["priority"], "deadline": given["deadline"], "parent_id": given["parent"]}
        said = {name: value for name, value in fields.items() if value is not None}
        return await memory.add_goal({"description": given["add"], **said})
    if action == "block":
        return await memory.goals.block(given["block"], given["by"])
    if action == "unblock":
        return await memory.goals.unblock(given["unblock"], given["by"])
    status = "completed" if action == "complete" else "abandoned"
    return await memory.complete_goal(given[action], status, given["result"], cascade=given["cascade"])


async def _listed(memory: AsyncAgentMemory, status: str | None) -> tuple[list[Goal], datetime]:
    found = await memory.goals.all(status)
    return [goal for goal in found if status is not None or goal.open], memory.resources.clock.now()


def _lines(goal: Goal, now: datetime) -> list[str]:
    notes = [goal.goal_status, f"priority {goal.priority}"]
    if goal.progress:
        notes.append(f"{goal.progress:.0%} done")
    if goal.deadline is not None:
        notes.append(f"{'overdue since' if goal.overdue(now) else 'by'} {when(goal.deadline)}")
    ties = [f"part of {goal.parent_id}"] if goal.parent_id else []
    ties += [f"waits for {name}" for name in goal.blocked_by]
    ties += [f"result: {one_line(goal.result)}"] if goal.result else []
    first = f"{one_line(goal.description)} ({', '.join(notes)})"
    return [first, *(f"    {tie}" for tie in ties), dim(f"    {goal.id}")]
