"""`agentmem migrate`: bring the stores to this version's schema."""

from __future__ import annotations

import click

from agentmem.cli.door import CliContext, memory_options
from agentmem.cli.render import pluralize


@click.command(short_help="Bring the stores to this version's schema.")
@memory_options()
def command(cli: CliContext) -> None:
    """Make or update tables, constraints and indexes of the servers in log_url and graph_url.

    Agents never do that by themselves: they refuse a schema that is not theirs. Give the URLs of users who own the
    tables, for instance in the environment. Running it again, or twice at once, does nothing more. An embedded file is
    brought along whenever it is opened.

    \b
    Examples:
      agentmem migrate
      agentmem migrate --json
    """
    import asyncio

    from agentmem.upkeep.migrate import migrate

    report = asyncio.run(migrate(cli.load_settings()))
    lines = [
        f"{name}: {pluralize(steps, 'step') + ' applied' if steps else 'nothing to do'}"
        for name, steps in report.applied.items()
    ]
    cli.show(report, "\n".join(lines or ["the embedded file is at this version's schema"]))
