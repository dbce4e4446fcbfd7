"""`agentmem doctor`: is everything in order, and what to do if not."""

from __future__ import annotations

import click

from agentmem.cli.codes import EXIT_NEEDS_ATTENTION
from agentmem.cli.door import CliContext, memory_options
from agentmem.cli.render import bold, colorize, sanitize

_COLORS = {"ok": "green", "warning": "yellow", "error": "red"}


@click.command(short_help="Check the stores, the schema and the models.")
@memory_options()
def command(cli: CliContext) -> int:
    """Check the memory and say how to mend what is wrong. Changes nothing. Exits with 3 when there is an error.

    \b
    Examples:
      agentmem doctor
      agentmem doctor --home /srv/agent/memory --json
    """
    import asyncio

    from agentmem.upkeep.doctor import diagnose

    findings = asyncio.run(diagnose(cli.load_settings()))
    lines = []
    for finding in findings:
        level = colorize(f"{finding.level:<7}", _COLORS.get(finding.level, "white"))
        lines.append(f"{level}  {bold(sanitize(finding.check))}  {sanitize(finding.detail)}".rstrip())
        if finding.fix:
            lines.append(f"         {sanitize(finding.fix)}")
    cli.show(findings, "\n".join(lines))
    return EXIT_NEEDS_ATTENTION if any(finding.level == "error" for finding in findings) else 0
