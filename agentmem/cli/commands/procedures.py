"""`agentmem procedures`: what agents are always to do, or never."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from agentmem.cli.door import CliContext, memory_options
from agentmem.cli.render import dim, echo, format_time, pluralize, show_json_lines, to_one_line

if TYPE_CHECKING:
    from agentmem.agent_memory import AsyncAgentMemory
    from agentmem.model.records import Procedure

STATUSES = ("candidate", "active", "retired")
ACTIONS = ("stage", "accept", "retire")


@click.command(short_help="List standing instructions, or propose, accept and retire them.")
@click.option(
    "--status", type=click.Choice(STATUSES), help="Only those of this status. [default: active and candidate]"
)
@click.option("--stage", metavar="TEXT", help="Propose an instruction; with --trigger.")
@click.option("--trigger", metavar="TEXT", help="When the new instruction applies. [default: always]")
@click.option("--accept", metavar="ID", help="Put this candidate in force.")
@click.option("--retire", metavar="ID", help="Take this one out of force.")
@memory_options()
def command(cli: CliContext, **options: Any) -> None:
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
