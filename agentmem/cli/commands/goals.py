"""`agentmem goals`: what is to be reached."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, time
from typing import TYPE_CHECKING, Any

import click

from agentmem.cli.context import CliContext, memory_options, parse_datetime
from agentmem.cli.render import dim, format_time, render_operation, to_one_line
from agentmem.cli.verbs import EXAMPLE_ID, VerbGroup, build_command

if TYPE_CHECKING:
    from agentmem.core.record import GoalStatus
    from agentmem.core.records import Goal
    from agentmem.facade.async_memory import AsyncAgentMemory

STATUSES = ("active", "blocked", "completed", "abandoned")


@click.command("list", short_help="List goals.")
@click.option("--status", type=click.Choice(STATUSES), help="Only goals of this status. [default: active and blocked]")
@memory_options()
def list_goals_command(cli: CliContext, *, status: GoalStatus | None) -> None:
    """List the open goals, most urgent first. With --json one JSON document per line.

    \b
    Examples:
      agentmem goals
      agentmem goals list --status completed --json
    """
    found, now = cli.run_for_user(lambda memory: _list_goals(memory, status))
    cli.show_list(found, lambda goal: "\n".join(_render_goal(goal, now)), "no goals")


@click.command("add", short_help="Add a goal.")
@click.argument("text", metavar="TEXT")
@click.option("--priority", type=click.IntRange(1, 5), help="How urgent it is, 5 most. [default: 3]")
@click.option("--deadline", metavar="MOMENT", help="Until when: a date, a time in ISO 8601, or words such as tomorrow.")
@click.option("--parent", metavar="ID", help="The goal that it is a part of.")
@memory_options()
def add_goal_command(
    cli: CliContext, *, text: str, priority: int | None, deadline: str | None, parent: str | None
) -> None:
    """Add the goal TEXT. A day in words is due at its end, in the user's time zone.

    \b
    Examples:
      agentmem goals add "Book a flight" --priority 5 --deadline 2026-05-01
      agentmem goals add "Call the bank" --deadline tomorrow
    """
    given = {"description": text, "priority": priority, "parent_id": parent}
    said = {name: value for name, value in given.items() if value is not None}
    _show_changed(cli, cli.run_for_user(lambda memory: _add_goal(memory, said, deadline)))


async def _add_goal(memory: AsyncAgentMemory, fields: Mapping[str, Any], deadline: str | None) -> Goal:
    if deadline is not None:
        fields = {**fields, "deadline": await _read_deadline(memory, deadline)}
    return await memory.add_goal(fields)


async def _read_deadline(memory: AsyncAgentMemory, words: str) -> datetime:
    """The moment that ISO 8601 or words name; of a day in words its last second, where the user is."""
    from agentmem.extraction.plain.dates import find_dates
    from agentmem.memory.context import MemoryContext
    from agentmem.memory.user_zone import read_local_time

    try:
        return parse_datetime(words)
    except click.BadParameter:
        local = await read_local_time(MemoryContext(memory.engine, memory.scope))
        now = local.localize(memory.engine.clock.now())
        found = find_dates(words.casefold(), now.replace(tzinfo=UTC), "future")
        if not found:
            raise
        day = (found[-1].end or found[-1].moment).date()
        return datetime.combine(day, time(23, 59, 59), tzinfo=now.tzinfo)


def _show_changed(cli: CliContext, goal: Any) -> None:
    lines = [f"{goal.goal_status}: {to_one_line(goal.description)}", dim(f"    {goal.id}")]
    cli.show(goal, "\n".join([*lines, render_operation(goal.operation_id)]))


async def _list_goals(memory: AsyncAgentMemory, status: GoalStatus | None) -> tuple[list[Goal], datetime]:
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


_GOAL_ID = click.argument("goal_id", metavar="ID")


goals_group = VerbGroup(
    "goals",
    (
        list_goals_command,
        add_goal_command,
        build_command(
            "complete",
            "End a goal as completed.",
            "End the goal ID as completed.",
            f'goals complete {EXAMPLE_ID} --result "booked for May"',
            lambda memory, goal_id, **given: memory.complete_goal(goal_id, "completed", **given),
            _show_changed,
            _GOAL_ID,
            click.option("--result", default="", metavar="TEXT", help="What came of it."),
            click.option("--cascade", is_flag=True, help="Abandon its open parts."),
        ),
        build_command(
            "abandon",
            "End a goal as abandoned.",
            "End the goal ID as abandoned.",
            f"goals abandon {EXAMPLE_ID} --cascade",
            lambda memory, goal_id, **given: memory.complete_goal(goal_id, "abandoned", **given),
            _show_changed,
            _GOAL_ID,
            click.option("--result", default="", metavar="TEXT", help="Why."),
            click.option("--cascade", is_flag=True, help="Abandon its open parts, too."),
        ),
        build_command(
            "block",
            "Let a goal wait for another.",
            "Let the goal ID wait for another one.",
            f"goals block {EXAMPLE_ID} --by 0197a6e2-8f10-7c3a-9d5e-9a3b5c7d1e2f",
            lambda memory, goal_id, by: memory.goals.block(goal_id, by),
            _show_changed,
            _GOAL_ID,
            click.option("--by", required=True, metavar="ID", help="The goal that is waited for."),
        ),
        build_command(
            "unblock",
            "Let a goal wait no longer.",
            "Let the goal ID wait no longer.",
            f"goals unblock {EXAMPLE_ID}",
            lambda memory, goal_id, by: memory.goals.unblock(goal_id, by),
            _show_changed,
            _GOAL_ID,
            click.option("--by", metavar="ID", help="The goal that is waited for. [default: all of them]"),
        ),
    ),
    summary="List, add, end goals.",
    text="What is to be reached. Without a verb it lists the open goals.",
    default="list",
)

COMMANDS = (goals_group,)
