"""`agentmem remember` and `context`: what matters for a question."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from agentmem.cli.context import (
    CliContext,
    memory_options,
    parse_datetime,
    parse_names,
    print_notices,
    read_text_or_stdin,
)
from agentmem.cli.render import bold, dim, render_record
from agentmem.text.terminal_text import neutralize

if TYPE_CHECKING:
    from agentmem.recall.bundle import MemoryBundle
    from agentmem.recall.request import RecallGroup


_GROUPS: tuple[RecallGroup, ...] = ("episodic", "semantic", "procedural", "documents")


@click.command("remember", short_help="Recall for a question.")
@click.argument("query", metavar="QUERY|-")
@click.option("--top-k", type=int, default=10, show_default=True, help="How many, of each kind and in all.")
@click.option("--as-of", type=parse_datetime, metavar="MOMENT", help="What was true at this moment.")
@click.option("--known-at", type=parse_datetime, metavar="MOMENT", help="What memory held at this moment.")
@click.option("--since", type=parse_datetime, metavar="MOMENT", help="Only what began at this moment or later.")
@click.option("--until", type=parse_datetime, metavar="MOMENT", help="Only what began before this moment.")
@click.option("--channels", type=parse_names, metavar="NAME,…", help="Read exactly these channels.")
@click.option("--include", type=click.Choice(_GROUPS), multiple=True, help="Only this part of memory; may be repeated.")
@click.option(
    "--techniques", type=parse_names, metavar="NAME,…", help="Use only these techniques, such as vector,keyword."
)
@click.option("--exclude", multiple=True, metavar="ID", help="Leave out this record; may be repeated.")
@click.option("--no-reinforce", is_flag=True, help="Leave no trace: what is found does not count as used.")
@click.option("--why", is_flag=True, help="Say of each result what spoke for it.")
@memory_options(with_embedder=True)
def remember_command(
    cli: CliContext,
    *,
    query: str,
    include: tuple[RecallGroup, ...],
    exclude: tuple[str, ...],
    no_reinforce: bool,
    why: bool,
    **options: Any,
) -> None:
    """Find what memory holds for QUERY, or for standard input with `-`, best first.

    \b
    Examples:
      agentmem remember "what must the chef avoid?"
      agentmem remember "where does Mira work?" --why --top-k 5
      agentmem remember "where did Mira work?" --as-of 2025-05-01
      agentmem remember "open questions" --include semantic --channels my-project --json
    """
    asked = read_text_or_stdin(query)
    bundle = cli.run_for_user(
        lambda memory: memory.remember(
            asked, include=include or _GROUPS, exclude=exclude or None, reinforce=not no_reinforce, **options
        )
    )
    print_notices(bundle.notices)
    cli.show(bundle.to_dict(), _render_bundle(bundle, why))


def _render_bundle(bundle: MemoryBundle, why: bool) -> str:
    if not bundle.items:
        return "nothing found"
    lines = []
    for rank, item in enumerate(bundle.items, start=1):
        label = f"{item.record.kind.lower()} {item.record.id}"
        mark = f" [{item.standing}]" if item.standing.is_marked else ""
        lines.append(f"{bold(f'{rank:>2}.')} {render_record(item.record)}{neutralize(mark)}")
        lines.append(dim(f"    {item.score:.3f}  {label}" + (f"  {item.why}" if why and item.why else "")))
    return "\n".join(lines)


@click.command("context", short_help="Text for a prompt.")
@click.argument("query", metavar="QUERY|-")
@click.option(
    "--max-tokens", type=int, default=4000, show_default=True, help="The most it may take; 4 characters count as one."
)
@click.option("--as-of", type=parse_datetime, metavar="MOMENT", help="What was true at this moment.")
@click.option("--known-at", type=parse_datetime, metavar="MOMENT", help="What memory held at this moment.")
@memory_options(with_embedder=True)
def context_command(cli: CliContext, *, query: str, **options: Any) -> None:
    """Print text for the prompt of a model that is to answer QUERY, or standard input for `-`.

    \b
    Examples:
      agentmem context "what should I cook for Aiko?"
      agentmem context "what is left to do?" --max-tokens 1000 --channel my-project
    """
    asked = read_text_or_stdin(query)
    context = cli.run_for_user(lambda memory: memory.context(asked, **options))
    print_notices(context.notices)
    cli.show(context.to_dict(), neutralize(context.text))


COMMANDS = (remember_command, context_command)
