"""`agentmem procedures` and `tools`: what holds always, and how tools fared."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from agentmem.cli.context import CliContext, memory_options
from agentmem.cli.render import dim, format_time, pluralize, render_operation, to_one_line
from agentmem.cli.verbs import EXAMPLE_ID, VerbGroup, build_command

if TYPE_CHECKING:
    from agentmem.core.procedural_records import Procedure
    from agentmem.core.record import ProcedureStatus
    from agentmem.memory.procedural.tools import ToolStats


STATUSES = ("candidate", "active", "retired")


@click.command("list", short_help="List standing instructions.")
@click.option(
    "--status", type=click.Choice(STATUSES), help="Only those of this status. [default: active and candidate]"
)
@memory_options()
def list_procedures_command(cli: CliContext, *, status: ProcedureStatus | None) -> None:
    """List what users asked for, oldest first. With --json one JSON document per line.

    Candidates wait: recall gives none of them until they are accepted or asked for again. See docs/procedural.md.

    \b
    Examples:
      agentmem procedures
      agentmem procedures list --status candidate --json
    """
    found = cli.run_for_user(lambda memory: memory.procedural.procedures(status))
    cli.show_list(found, lambda procedure: "\n".join(_render_procedure(procedure)), "no procedures")


def _show_changed(cli: CliContext, procedure: Procedure) -> None:
    cli.show(procedure, "\n".join([*_render_procedure(procedure), render_operation(procedure.operation_id)]))


def _render_procedure(procedure: Procedure) -> list[str]:
    occasion = f" ({to_one_line(procedure.trigger)})" if procedure.trigger else ""
    asked = f"asked for {pluralize(procedure.strength, 'time')}, last {format_time(procedure.last_asked)}"
    return [
        f"{procedure.procedure_status}: {to_one_line(procedure.instruction)}{occasion}",
        dim(f"    {procedure.id}  {asked}"),
    ]


@click.command("tools", short_help="How well tools do.")
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
    found = cli.run_for_user(lambda memory: memory.procedural.tool_stats(task_type, only_channel))
    cli.show_list(found, lambda stats: "\n".join(_render_tool_stats(stats)), "no calls")


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


_PROCEDURE_ID = click.argument("procedure_id", metavar="ID")

procedures_group = VerbGroup(
    "procedures",
    (
        list_procedures_command,
        build_command(
            "stage",
            "Propose an instruction.",
            "Propose the instruction TEXT; it waits until it is accepted.",
            'procedures stage "Always answer in French" --trigger "when I write in French"',
            lambda memory, text, trigger: memory.procedural.stage_candidate(text, trigger=trigger),
            _show_changed,
            click.argument("text", metavar="TEXT"),
            click.option("--trigger", default="", metavar="TEXT", help="When it applies. [default: always]"),
        ),
        build_command(
            "accept",
            "Put a candidate in force.",
            "Put the candidate ID in force.",
            f"procedures accept {EXAMPLE_ID}",
            lambda memory, procedure_id: memory.procedural.accept_procedure(procedure_id),
            _show_changed,
            _PROCEDURE_ID,
        ),
        build_command(
            "retire",
            "Take an instruction out of force.",
            "Take the instruction ID out of force.",
            f"procedures retire {EXAMPLE_ID}",
            lambda memory, procedure_id: memory.procedural.retire_procedure(procedure_id),
            _show_changed,
            _PROCEDURE_ID,
        ),
    ),
    summary="Standing instructions.",
    text="What users asked to be done always. Without a verb it lists those in force and those that wait.",
    default="list",
)

COMMANDS = (procedures_group, tools_command)
