"""`agentmem forget`: take a record out of recall, or out of the world."""

from __future__ import annotations

import click

from agentmem.cli.codes import EXIT_NEEDS_ATTENTION
from agentmem.cli.door import CliContext, memory_options
from agentmem.cli.render import to_one_line


@click.command(short_help="Forget a record, or erase it for good.")
@click.argument("record_id", metavar="ID")
@click.option("--hard", is_flag=True, help="Erase it from every store, with what rests on it alone; cannot be undone.")
@click.option("--yes", is_flag=True, help="Do not ask before erasing.")
@click.option("--reason", default="", metavar="TEXT", help="Why; kept with what is forgotten softly.")
@memory_options()
def command(cli: CliContext, *, record_id: str, hard: bool, yes: bool, reason: str) -> int:
    """Take the record ID out of recall. It stays in the history unless --hard is given.

    Exits with 3 when the scan after an erasure still found something.

    \b
    Examples:
      agentmem forget trip-2
      agentmem forget trip-2 --hard --yes
    """
    if hard and not (yes or _confirm(f"Erase {to_one_line(record_id)} and what rests on it alone, for good?")):
        raise click.UsageError("nothing was erased; answer y, or give --yes")
    receipt = cli.run(lambda memory: memory.forget(record_id, hard, reason=reason))
    scan = receipt.scan
    lines = [f"{'erased' if hard else 'forgotten'}: {', '.join(map(to_one_line, (*receipt.ids, *receipt.derived)))}"]
    if scan is not None:
        left = ", ".join(f"{place} {rows}" for place, rows in scan.leftovers.items())
        lines.append(f"scanned {len(scan.checked)} places: {f'still found in {left}' if left else 'nothing left'}")
        lines += [f"still waits: {place}" for place in scan.deferred]
    cli.show(receipt, "\n".join(lines))
    return EXIT_NEEDS_ATTENTION if scan is not None and scan.leftovers else 0


def _confirm(question: str) -> bool:
    """Whether somebody says yes; nobody there is a no."""
    try:
        return click.confirm(question, err=True)
    except click.Abort:
        return False
