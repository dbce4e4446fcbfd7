"""`agentmem rebuild`: make vectors, words and graph again from what is stored."""

from __future__ import annotations

import click

from agentmem.cli.door import CliContext, memory_options
from agentmem.cli.progress import Progress
from agentmem.cli.render import pluralize, sanitize

_PARTS = ("vectors", "words", "graph")


@click.command(short_help="Build vectors, words and graph again, or with another embedder.")
@click.option("--embedder", metavar="NAME", help="Move the store, with all its users, to this embedder.")
@click.option("--prune", is_flag=True, help="Drop the vectors of the old embedder at the end.")
@click.option("--all-users", is_flag=True, help="For every user of the store.")
@click.option(
    "--what", type=click.Choice(_PARTS), multiple=True, help="Only this part; may be repeated. [default: all]"
)
@memory_options()
def command(cli: CliContext, *, embedder: str | None, prune: bool, all_users: bool, what: tuple[str, ...]) -> None:
    """Build again what is made from the journal and the records: nothing stored is lost or changed.

    The vectors of another embedder are built beside the old ones, which serve until the new ones have caught up.

    \b
    Examples:
      agentmem rebuild
      agentmem rebuild --embedder local --prune
      agentmem rebuild --what words --what graph
    """
    from agentmem.upkeep.rebuild import rebuild

    # A store has one embedder for all of its users.
    users = None if all_users or embedder else [cli.user]
    with Progress() as progress:
        report = cli.run(
            lambda memory: rebuild(
                memory.engine, users, targets=what or _PARTS, embedder=embedder, prune=prune, progress=progress
            )
        )
    done = f"{pluralize(report.users, 'user')}, {pluralize(report.changes, 'change')} read in {report.seconds:.1f} s"
    cli.show(report, sanitize("\n".join([f"{done}, embedder {report.embedder}", *report.notes])))
