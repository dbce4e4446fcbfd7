"""`agentmem schedules`: what is to be done at which time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from agentmem.cli.context import CliContext, memory_options
from agentmem.cli.render import dim, echo, format_time, show_json_lines, to_one_line

if TYPE_CHECKING:
    from agentmem.core.procedural_records import Schedule
    from agentmem.facade.async_memory import AsyncAgentMemory

ACTIONS = ("add", "pause", "resume", "remove")


@click.command("schedules", short_help="List scheduled prompts, or add, pause, resume and remove them.")
@click.option("--due", is_flag=True, help="Only what is due now.")
@click.option("--add", metavar="NAME", help="Add a schedule; with --cron and --prompt, or with --every.")
@click.option("--cron", default="", metavar="TEXT", help="Minute, hour, day, month, weekday, such as '0 9 * * 1-5'.")
@click.option("--every", type=float, metavar="SECONDS", help="An interval in place of --cron.")
@click.option("--prompt", default="", metavar="TEXT", help="What is to be done; without one it is a heartbeat.")
@click.option("--source", default="user", show_default=True, metavar="NAME", help="Who schedules it.")
@click.option("--timezone", default="UTC", show_default=True, metavar="NAME", help="Where the clock of --cron hangs.")
@click.option(
    "--missed",
    type=click.Choice(["once", "skip"]),
    default="once",
    show_default=True,
    help="Of several missed runs, make up for one or for none.",
)
@click.option("--pause", metavar="NAME", help="Let this schedule rest.")
@click.option("--resume", metavar="NAME", help="Let this schedule go on.")
@click.option("--remove", metavar="NAME", help="Take this schedule away.")
@memory_options()
def schedules_command(cli: CliContext, **options: Any) -> None:
    """List the schedules by name, with --json one JSON document per line; or change one.

    A worker hands due ones over: see docs/schedules.md.

    \b
    Examples:
      agentmem schedules
      agentmem schedules --add summary --cron "0 9 * * *" --timezone Europe/Oslo --prompt "Summarize yesterday"
      agentmem schedules --add pulse --every 300
      agentmem schedules --pause summary
      agentmem schedules --due --json
    """
    actions = [name for name in ACTIONS if options[name] is not None]
    if len(actions) > 1 or (actions and options["due"]):
        raise click.UsageError(f"give only one of --due, {', '.join('--' + name for name in ACTIONS)}")
    if actions:
        changed = cli.run(lambda memory: _run_action(memory, actions[0], options))
        what = "removed" if actions == ["remove"] else _render_next_run(changed)
        cli.show(changed, f"{to_one_line(changed.name)}: {what}")
        return
    found = cli.run(lambda memory: memory.schedules.due() if options["due"] else memory.schedules.list())
    if cli.json:
        show_json_lines(found)
        return
    for schedule in found:
        rhythm = f"{schedule.cron} {schedule.timezone}" if schedule.cron else f"every {schedule.every_seconds:g} s"
        name, prompt = to_one_line(schedule.name), to_one_line(schedule.prompt)
        echo(f"{name} ({rhythm}; {_render_next_run(schedule)}) {prompt}".rstrip())
        echo(dim(f"    by {to_one_line(schedule.source)}, last {format_time(schedule.last_at)}, {schedule.id}"))
    if not found:
        echo("nothing is due" if options["due"] else "no schedules")


async def _run_action(memory: AsyncAgentMemory, action: str, options: dict[str, Any]) -> Schedule:
    if action == "add":
        fields = {name: options[name] for name in ("timezone", "missed", "every")}
        return await memory.schedules.add(
            options["add"], options["cron"], options["prompt"], options["source"], **fields
        )
    if action == "pause":
        return await memory.schedules.pause(options["pause"])
    if action == "resume":
        return await memory.schedules.resume(options["resume"])
    return await memory.schedules.remove(options["remove"])


def _render_next_run(schedule: Schedule) -> str:
    return "paused" if schedule.paused else f"next {format_time(schedule.next_at)}"


COMMANDS = (schedules_command,)
