"""`agentmem facts` and `forget`: what is known, and taking it back."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import click

from agentmem.cli.context import EXIT_NEEDS_ATTENTION, CliContext, memory_options, parse_datetime
from agentmem.cli.render import dim, echo, format_time, render_record, show_json_lines, to_one_line


@click.command("facts", short_help="List facts, or the history of one.")
@click.option("--all", "everything", is_flag=True, help="Also what is no longer true or was taken back.")
@click.option("--tag", "tags", multiple=True, metavar="NAME", help="Only facts with this tag; may be repeated.")
@click.option("--as-of", type=parse_datetime, metavar="MOMENT", help="What was true at this moment.")
@click.option("--history", metavar="ID", help="Every version of one fact, and of those before and after it.")
@click.option("--limit", type=click.IntRange(min=1), default=1000, show_default=True, help="How many at most.")
@memory_options()
def facts_command(
    cli: CliContext, *, everything: bool, tags: tuple[str, ...], as_of: datetime | None, history: str | None, limit: int
) -> None:
    """List the current facts, oldest first. With --json one JSON document per line.

    \b
    Examples:
      agentmem facts
      agentmem facts --tag diet --json
      agentmem facts --all
      agentmem facts --history 0197a6e2-8f10-7c3a-9d5e-2b1f0c4d6e8a
    """
    if history is not None:
        found = cli.run(lambda memory: memory.semantic.history(history))
    else:
        where: dict[str, Any] = {"retired": everything, "as_of": as_of, **({"tags": tags} if tags else {})}
        found = cli.run(lambda memory: memory.semantic.facts(where, limit=limit))
    if cli.json:
        show_json_lines(found)
        return
    for fact in found:
        echo(render_record(fact))
        echo(
            dim(f"    {fact.id}  recorded {format_time(fact.recorded_at)}" + "".join(f"  #{tag}" for tag in fact.tags))
        )
    if not found:
        echo("no facts")


@click.command("forget", short_help="Forget a record, or erase it for good.")
@click.argument("record_id", metavar="ID")
@click.option("--hard", is_flag=True, help="Erase it from every store, with what rests on it alone; cannot be undone.")
@click.option("--yes", is_flag=True, help="Do not ask before erasing.")
@click.option("--reason", default="", metavar="TEXT", help="Why; kept with what is forgotten softly.")
@memory_options()
def forget_command(cli: CliContext, *, record_id: str, hard: bool, yes: bool, reason: str) -> int:
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


COMMANDS = (facts_command, forget_command)
