"""`agentmem rebuild`: make vectors, words and graph again from what is stored."""

from __future__ import annotations

import click

from agentmem.cli.door import Door, memory_options
from agentmem.cli.progress import Progress
from agentmem.cli.render import safe

_PARTS = ("vectors", "words", "graph")


@click.command(short_help="Build vectors, words and graph again, or with another embedder.")
@click.option(
    "--embedder", metavar="NAME", help="Move to this embedder; until it has caught up, the old one serves too."
)
@click.option("--prune", is_flag=True, help="Drop the vectors of the old embedder at the end.")
@click.option("--all-users", is_flag=True, help="For every user of the store.")
@click.option(
    "--what", type=click.Choice(_PARTS), multiple=True, help="Only this part; may be repeated. [default: all]"
)
@memory_options()
def command(door: Door, *, embedder: str | None, prune: bool, all_users: bool, what: tuple[str, ...]) -> None:
    """Build again what is made from the journal and the records: nothing stored is lost or changed.

    \b
    Examples:
      agentmem rebuild
      agentmem rebuild --embedder local --all-users --prune
      agentmem rebuild --what words --what graph
    """
    from agentmem.upkeep.rebuild import rebuild

    users = None if all_users else [door.user]
    with Progress() as progress:
        report = door.run(
            lambda memory: rebuild(
                memory.resources, users, what=what or _PARTS, embedder=embedder, prune=prune, progress=progress
            )
        )
    counted = report.users if isinstance(report.users, int) else len(report.users)
    first = f"{counted:,} users, {report.changes:,} changes in {report.seconds:.1f} s, embedder {report.embedder}"
    door.show(report, safe("\n".join([first, *report.notes])))
