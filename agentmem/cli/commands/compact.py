"""`agentmem compact`: give the space of what was deleted back."""

from __future__ import annotations

import click

from agentmem.cli.door import Door, memory_options
from agentmem.cli.render import complain


@click.command(short_help="Make the files as small as their content.")
@memory_options()
def command(door: Door) -> None:
    """Rewrite the files without their empty pages. Needs as much free disk space as they take now.

    \b
    Examples:
      agentmem compact
      agentmem compact --home /srv/agent/memory
    """
    from agentmem.upkeep.compact import compact

    report = door.run(lambda memory: compact(memory.resources))
    if report.pending:
        complain("note: a reader keeps the write-ahead log from being cut; run it again when the reader has ended")
    door.show(report, f"{report.before:,} bytes before, {report.after:,} after")
