"""`agentmem doctor`: is everything in order, and what to do if not."""

from __future__ import annotations

import click

from agentmem.cli.codes import FOUND
from agentmem.cli.door import Door, memory_options
from agentmem.cli.render import bold, coloured, safe

_COLOURS = {"ok": "green", "warning": "yellow", "error": "red"}


@click.command(short_help="Check the stores, the schema and the models.")
@memory_options()
def command(door: Door) -> int:
    """Check the memory and say how to mend what is wrong. Changes nothing. Exits with 3 when there is an error.

    \b
    Examples:
      agentmem doctor
      agentmem doctor --home /srv/agent/memory --json
    """
    import asyncio

    from agentmem.upkeep.doctor import doctor

    findings = asyncio.run(doctor(door.settings()))
    lines = []
    for finding in findings:
        level = coloured(f"{finding.level:<7}", _COLOURS.get(finding.level, "white"))
        lines.append(f"{level}  {bold(safe(finding.what))}  {safe(finding.detail)}".rstrip())
        if finding.fix:
            lines.append(f"         {safe(finding.fix)}")
    door.show(findings, "\n".join(lines))
    return FOUND if any(finding.level == "error" for finding in findings) else 0
