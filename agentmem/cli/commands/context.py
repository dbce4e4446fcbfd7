"""`agentmem context`: text for a prompt."""

from __future__ import annotations

import click

from agentmem.cli.door import Door, memory_options, spoken, tell
from agentmem.cli.render import safe


@click.command(short_help="Print what memory knows about a question, ready for a prompt.")
@click.argument("query", metavar="QUERY|-")
@click.option(
    "--max-tokens", type=int, default=4000, show_default=True, help="The most it may take; 4 characters count as one."
)
@memory_options(embedder=True)
def command(door: Door, *, query: str, max_tokens: int) -> None:
    """Print text for the prompt of a model that is to answer QUERY, or standard input for `-`.

    \b
    Examples:
      agentmem context "what should I cook for Aiko?"
      agentmem context "what is left to do?" --max-tokens 1000 --channel my-project
    """
    asked = spoken(query)
    context = door.run(lambda memory: memory.context(asked, max_tokens=max_tokens))
    tell(context.notices)
    door.show(context, safe(context.text))
