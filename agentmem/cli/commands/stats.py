"""`agentmem stats`: how much is stored."""

from __future__ import annotations

import click

from agentmem.cli.door import CliContext, memory_options
from agentmem.cli.render import render_mapping


@click.command(short_help="Show how much is stored, and where.")
@memory_options()
def command(cli: CliContext) -> None:
    """Count the records of a user and measure the files.

    \b
    Examples:
      agentmem stats
      agentmem stats --user alice --json
    """
    from agentmem.upkeep.stats import read_stats

    found = cli.run(lambda memory: read_stats(memory.engine, memory.scope))
    cli.show(found, render_mapping(found))
