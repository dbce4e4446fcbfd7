"""`agentmem stats`: how much is stored."""

from __future__ import annotations

import click

from agentmem.cli.door import Door, memory_options
from agentmem.cli.render import listing


@click.command(short_help="Show how much is stored, and where.")
@memory_options()
def command(door: Door) -> None:
    """Count the records of a user and measure the files.

    \b
    Examples:
      agentmem stats
      agentmem stats --user alice --json
    """
    from agentmem.upkeep.stats import stats

    found = door.run(lambda memory: stats(memory.resources, memory.scope))
    door.show(found, listing(found))
