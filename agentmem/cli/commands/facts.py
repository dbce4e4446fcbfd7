"""`agentmem facts`: what is known, and how it came to be."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import click

from agentmem.cli.door import CliContext, memory_options, parse_datetime
from agentmem.cli.render import dim, echo, format_time, render_record, show_json_lines


@click.command(short_help="List facts, or the history of one.")
@click.option("--all", "everything", is_flag=True, help="Also what is no longer true or was taken back.")
@click.option("--tag", "tags", multiple=True, metavar="NAME", help="Only facts with this tag; may be repeated.")
@click.option("--as-of", type=parse_datetime, metavar="MOMENT", help="What was true at this moment.")
@click.option("--history", metavar="ID", help="Every version of one fact, and of those before and after it.")
@click.option("--limit", type=click.IntRange(min=1), default=1000, show_default=True, help="How many at most.")
@memory_options()
def command(
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
