"""`agentmem compact`: give the space of what was deleted back."""

from __future__ import annotations

import click

from agentmem.cli.door import CliContext, memory_options
from agentmem.cli.render import echo_stderr


@click.command(short_help="Make the files as small as their content.")
@memory_options()
def command(cli: CliContext) -> None:
    """Rewrite the files without their empty pages. Needs as much free disk space as they take now.

    \b
    Examples:
      agentmem compact
      agentmem compact --home /srv/agent/memory
    """
    from agentmem.upkeep.compact import compact

    report = cli.run(lambda memory: compact(memory.engine))
    if report.pending:
        echo_stderr("note: a reader keeps the write-ahead log from being cut; run it again when the reader has ended")
    cli.show(report, f"{report.bytes_before:,} bytes before, {report.bytes_after:,} after")
