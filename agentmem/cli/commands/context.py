"""`agentmem context`: text for a prompt."""

from __future__ import annotations

import click

from agentmem.cli.door import CliContext, memory_options, print_notices, read_text_or_stdin
from agentmem.cli.render import sanitize


@click.command(short_help="Print what memory knows about a question, ready for a prompt.")
@click.argument("query", metavar="QUERY|-")
@click.option(
    "--max-tokens", type=int, default=4000, show_default=True, help="The most it may take; 4 characters count as one."
)
@memory_options(with_embedder=True)
def command(cli: CliContext, *, query: str, max_tokens: int) -> None:
    """Print text for the prompt of a model that is to answer QUERY, or standard input for `-`.

    \b
    Examples:
      agentmem context "what should I cook for Aiko?"
      agentmem context "what is left to do?" --max-tokens 1000 --channel my-project
    """
    asked = read_text_or_stdin(query)
    context = cli.run(lambda memory: memory.context(asked, max_tokens=max_tokens))
    print_notices(context.notices)
    cli.show(context, sanitize(context.text))
