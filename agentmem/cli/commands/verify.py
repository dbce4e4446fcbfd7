"""`agentmem verify`: prove a promise on the user's own data."""

from __future__ import annotations

import click

from agentmem.cli.codes import EXIT_NEEDS_ATTENTION
from agentmem.cli.door import CliContext, memory_options
from agentmem.cli.progress import Progress
from agentmem.cli.render import to_one_line


@click.command(short_help="Prove that other users' data changes nothing for this one.")
@click.argument("what", type=click.Choice(["isolation"]))
@click.option(
    "--strangers", type=click.IntRange(min=1), default=10_000, show_default=True,
    help="How many records of other users to put beside this user's.",
)  # fmt: skip
@click.option("--scratch-log-url", metavar="URL", help="Where the log is on servers: an empty one for the trial.")
@click.option("--scratch-graph-url", metavar="URL", help="Where the graph is on a server: an empty one for the trial.")
@memory_options()
def command(
    cli: CliContext, *, what: str, strangers: int, scratch_log_url: str | None, scratch_graph_url: str | None
) -> int:  # fmt: skip
    """Ask the same questions with and without many records of strangers, and compare the answers.

    An embedded store is copied for it. On servers the user's memory is copied to others, migrated and empty, which you
    name. Exits with 3 when an answer differs.

    \b
    Examples:
      agentmem verify isolation --user alice
      agentmem verify isolation --strangers 1000 --json
    """
    from agentmem.upkeep.isolation import verify_isolation

    scratch = (scratch_log_url, scratch_graph_url) if scratch_log_url and scratch_graph_url else None
    with Progress() as progress:
        report = cli.run(
            lambda memory: verify_isolation(
                memory.engine, memory.scope, strangers=strangers, progress=progress, scratch_urls=scratch
            )
        )
    first = f"{report.queries:,} queries, {strangers:,} records of strangers, {report.seconds:.1f} s: "
    text = "all answers are identical" if report.identical else "answers differ"
    cli.show(report, "\n".join([f"{what}: {first}{text}", *(to_one_line(str(item)) for item in report.differences)]))
    return 0 if report.identical else EXIT_NEEDS_ATTENTION
