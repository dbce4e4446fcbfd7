"""`agentmem schedules`: what is to be done at which time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from agentmem.cli.context import CliContext, memory_options
from agentmem.cli.render import dim, format_time, to_one_line
from agentmem.cli.verbs import VerbGroup, build_command
from agentmem.errors import Conflict
from agentmem.text.terminal_text import neutralize

if TYPE_CHECKING:
    from agentmem.core.procedural_records import Schedule
    from agentmem.facade.async_memory import AsyncAgentMemory


@click.command("list", short_help="List scheduled prompts.")
@click.option("--due", is_flag=True, help="Only what is due now.")
@memory_options()
def list_schedules_command(cli: CliContext, *, due: bool) -> None:
    """List the schedules by name. With --json one JSON document per line.

    A worker delivers due ones; without a receiver they stay due: see docs/schedules.md.

    \b
    Examples:
      agentmem schedules
      agentmem schedules list --due --json
    """
    found = cli.run_for_user(lambda memory: memory.schedules.due() if due else memory.schedules.list())
    cli.show_list(found, _render_schedule, "nothing is due" if due else "no schedules")


def _render_schedule(schedule: Schedule) -> str:
    rhythm = f"{schedule.cron} {schedule.timezone}" if schedule.cron else f"every {schedule.every_seconds:g} s"
    name, prompt = to_one_line(schedule.name), to_one_line(schedule.prompt)
    first = f"{name} ({rhythm}; {_render_next_run(schedule)}) {prompt}".rstrip()
    notes = f"    by {to_one_line(schedule.source)}, last {format_time(schedule.last_at)}, {schedule.id}"
    return f"{first}\n{dim(notes)}"


@click.command("add", short_help="Schedule a prompt.")
@click.argument("name", metavar="NAME")
@click.option("--cron", default="", metavar="TEXT", help="Minute, hour, day, month, weekday, such as '0 9 * * 1-5'.")
@click.option("--every", type=float, metavar="SECONDS", help="An interval in place of --cron.")
@click.option("--prompt", default="", metavar="TEXT", help="What is to be done; without one it is a heartbeat.")
@click.option("--source", default="user", show_default=True, metavar="NAME", help="Who schedules it.")
@click.option("--timezone", default="UTC", show_default=True, metavar="NAME", help="The time zone of --cron.")
@click.option(
    "--missed",
    type=click.Choice(["once", "skip"]),
    default="once",
    show_default=True,
    help="Of several missed runs, make up for one or for none.",
)
@memory_options()
def add_schedule_command(cli: CliContext, *, name: str, cron: str, prompt: str, source: str, **options: Any) -> None:
    """Add the schedule NAME: with --cron and --prompt, or with --every.

    \b
    Examples:
      agentmem schedules add summary --cron "0 9 * * *" --timezone Europe/Oslo --prompt "Summarize yesterday"
      agentmem schedules add pulse --every 300
    """
    _show_changed(cli, cli.run_for_user(lambda memory: memory.schedules.add(name, cron, prompt, source, **options)))


@click.command("take", short_help="Take a due prompt.")
@click.argument("name", metavar="NAME")
@memory_options()
def take_schedule_command(cli: CliContext, *, name: str) -> None:
    """Take the due run of the schedule NAME, print its prompt, and report it as done.

    No other process gets the run. Fails if it is not due.

    \b
    Examples:
      agentmem schedules take summary
    """
    taken = cli.run_for_user(lambda memory: _take_due(memory, name))
    cli.show(taken, neutralize(taken.prompt) or f"{to_one_line(taken.name)}: no prompt")


async def _take_due(memory: AsyncAgentMemory, name: str) -> Schedule:
    schedule = await memory.schedules.get(name)
    claimed = await memory.schedules.claim(schedule)
    if claimed is None:
        raise Conflict(f"schedule {name!r} is not due; it is next {format_time(schedule.next_at)}")
    await memory.schedules.mark_done(claimed)
    return claimed


def _show_changed(cli: CliContext, schedule: Schedule) -> None:
    cli.show(schedule, f"{to_one_line(schedule.name)}: {_render_next_run(schedule)}")


def _render_next_run(schedule: Schedule) -> str:
    return "paused" if schedule.paused else f"next {format_time(schedule.next_at)}"


_NAME = click.argument("name", metavar="NAME")

schedules_group = VerbGroup(
    "schedules",
    (
        list_schedules_command,
        add_schedule_command,
        take_schedule_command,
        build_command(
            "pause",
            "Let a schedule rest.",
            "Let the schedule NAME rest until it is resumed.",
            "schedules pause summary",
            lambda memory, name: memory.schedules.pause(name),
            _show_changed,
            _NAME,
        ),
        build_command(
            "resume",
            "Let a schedule go on.",
            "Let the schedule NAME go on.",
            "schedules resume summary",
            lambda memory, name: memory.schedules.resume(name),
            _show_changed,
            _NAME,
        ),
        build_command(
            "remove",
            "Take a schedule away.",
            "Take the schedule NAME away.",
            "schedules remove summary",
            lambda memory, name: memory.schedules.remove(name),
            lambda cli, removed: cli.show(removed, f"{to_one_line(removed.name)}: removed"),
            _NAME,
        ),
    ),
    summary="Scheduled prompts.",
    text="What is to be done at which time. Without a verb it lists all schedules.",
    default="list",
)

COMMANDS = (schedules_group,)
