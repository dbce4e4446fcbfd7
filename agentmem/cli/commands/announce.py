"""`agentmem announce`: tell all agents of a user something."""

from __future__ import annotations

import click

from agentmem.cli.door import CliContext, memory_options, read_text_or_stdin
from agentmem.cli.render import format_time, to_one_line


@click.command(short_help="Tell all agents of a user something.")
@click.argument("text", metavar="TEXT|-")
@click.option("--expires-in", type=float, metavar="SECONDS", help="For how long it holds. [default: until it fades]")
@memory_options(with_embedder=True)
def command(cli: CliContext, *, text: str, expires_in: float | None) -> None:
    """Store TEXT, or standard input for `-`, as an announcement, which every agent of the user recalls.

    \b
    Examples:
      agentmem announce "The production API is experiencing 503 errors" --expires-in 7200
      agentmem facts --channel _swarm --tag announcement
    """
    said = read_text_or_stdin(text)
    fact = cli.run(lambda memory: memory.announce(said, expires_in=expires_in))
    until = "" if fact.valid_to is None else f", until {format_time(fact.valid_to)}"
    cli.show(fact, f"announced {fact.id}{until}: {to_one_line(fact.claim)}")
