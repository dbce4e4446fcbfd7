"""`agentmem procedures` and `tools`: what holds always, and how tools fared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from agentmem.cli.context import CliContext, memory_options
from agentmem.cli.render import dim, echo, format_time, pluralize, show_json_lines, to_one_line

if TYPE_CHECKING:
    from agentmem.core.procedural_records import Procedure
    from agentmem.facade.async_memory import AsyncAgentMemory
    from agentmem.memory.procedural.tools import ToolStats


STATUSES = ("candidate", "active", "retired")
ACTIONS = ("stage", "accept", "retire")


@click.command("procedures", short_help="List standing instructions, or propose, accept and retire them.")
@click.option(
    "--status", type=click.Choice(STATUSES), help="Only those of this status. [default: active and candidate]"
)
@click.option("--stage", metavar="TEXT", help="Propose an instruction; with --trigger.")
@click.option("--trigger", metavar="TEXT", help="When the new instruction applies. [default: always]")
@click.option("--accept", metavar="ID", help="Put this candidate in force.")
@click.option("--retire", metavar="ID", help="Take this one out of force.")
@memory_options()
def procedures_command(cli: CliContext, **options: Any) -> None:
    """List what users asked for, oldest first, with --json one JSON document per line; or change one.

    Candidates wait: recall gives none of them until they are accepted or asked for again. See docs/procedural.md.

    \b
    Examples:
      agentmem procedures
      agentmem procedures --status candidate --json
      agentmem procedures --stage "Always answer in French" --trigger "when I write in French"
      agentmem procedures --accept 0197a6e2-8f10-7c3a-9d5e-2b1f0c4d6e8a
      agentmem procedures --retire 0197a6e2-8f10-7c3a-9d5e-2b1f0c4d6e8a
    """
    actions = [name for name in ACTIONS if options[name] is not None]
    if len(actions) > 1:
        raise click.UsageError(f"give only one of {', '.join('--' + name for name in ACTIONS)}")
    if options["trigger"] is not None and actions != ["stage"]:
        raise click.UsageError("--trigger goes with --stage")
    if actions:
        changed = cli.run(lambda memory: _run_action(memory, actions[0], options))
        cli.show(changed, "\n".join([*_render_procedure(changed), dim(f"    operation {changed.operation_id}")]))
        return
    found = cli.run(lambda memory: memory.procedural.procedures(options["status"]))
    if cli.json:
        show_json_lines(found)
        return
    for procedure in found:
        echo("\n".join(_render_procedure(procedure)))
    if not found:
        echo("no procedures")


async def _run_action(memory: AsyncAgentMemory, action: str, options: dict[str, Any]) -> Procedure:
    if action == "stage":
        return await memory.procedural.stage_candidate(options["stage"], trigger=options["trigger"] or "")
    if action == "accept":
        return await memory.procedural.accept_procedure(options["accept"])
    return await memory.procedural.retire_procedure(options["retire"])


def _render_procedure(procedure: Procedure) -> list[str]:
    occasion = f" ({to_one_line(procedure.trigger)})" if procedure.trigger else ""
    asked = f"asked for {pluralize(procedure.strength, 'time')}, last {format_time(procedure.last_asked)}"
    return [
        f"{procedure.procedure_status}: {to_one_line(procedure.instruction)}{occasion}",
        dim(f"    {procedure.id}  {asked}"),
    ]


@click.command("tools", short_help="Show how well each tool does.")
@click.option("--task-type", metavar="NAME", help="Only calls for this type of task.")
@click.option("--only-channel", metavar="NAME", help="Only calls of this channel. [default: all that can be read]")
@memory_options()
def tools_command(cli: CliContext, *, task_type: str | None, only_channel: str | None) -> None:
    """List the tools that agents called, the one called most first, with --json one JSON document per line.

    The rate of success comes with the bounds between which it lies with 95 % probability. See docs/procedural.md.

    \b
    Examples:
      agentmem tools
      agentmem tools --task-type deploy --json
      agentmem tools --only-channel website
    """
    found = cli.run(lambda memory: memory.procedural.tool_stats(task_type, only_channel))
    if cli.json:
        show_json_lines(found)
        return
    for stats in found:
        echo("\n".join(_render_tool_stats(stats)))
    if not found:
        echo("no calls")


def _render_tool_stats(stats: ToolStats) -> list[str]:
    rate = "success not known"
    if stats.success_rate is not None:
        rate = f"{stats.success_rate:.0%} succeeded ({stats.success_low:.0%} to {stats.success_high:.0%})"
    lines = [
        (
            f"{to_one_line(stats.tool_name)}: {pluralize(stats.calls, 'call')}, {rate}, last "
            f"{format_time(stats.last_called)}"
        )
    ]
    if stats.mean_ms is not None and stats.p50_ms is not None and stats.p95_ms is not None:
        lines.append(
            f"    {stats.mean_ms:.0f} ms on average, {stats.p50_ms:.0f} ms at p50, {stats.p95_ms:.0f} ms at p95"
        )
    if stats.last_error_at is not None:
        lines.append(
            f"    last error {format_time(stats.last_error_at)}: {to_one_line(stats.last_error) or 'without a message'}"
        )
    return lines


COMMANDS = (procedures_command, tools_command)
