"""`agentmem remember`: what matters for a question, ranked, with reasons."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import click

from agentmem.cli.door import Door, memory_options, moment, names, spoken, tell
from agentmem.cli.render import bold, dim, plain, record_text

if TYPE_CHECKING:
    from agentmem.recall.bundle import MemoryBundle

_GROUPS = ("episodic", "semantic", "procedural")


@click.command(short_help="Recall what matters for a question.")
@click.argument("query", metavar="QUERY|-")
@click.option("--top-k", type=int, default=10, show_default=True, help="How many, of each kind and in all.")
@click.option("--as-of", type=moment, metavar="MOMENT", help="What was true at this moment.")
@click.option("--known-at", type=moment, metavar="MOMENT", help="What memory held at this moment.")
@click.option("--since", type=moment, metavar="MOMENT", help="Only what began at this moment or later.")
@click.option("--until", type=moment, metavar="MOMENT", help="Only what began before this moment.")
@click.option("--channels", type=names, metavar="NAME,…", help="Read exactly these channels.")
@click.option("--include", type=click.Choice(_GROUPS), multiple=True, help="Only this part of memory; may be repeated.")
@click.option("--techniques", type=names, metavar="NAME,…", help="Use only these techniques, such as vector,keyword.")
@click.option("--no-reinforce", is_flag=True, help="Leave no trace: what is found does not count as used.")
@click.option("--why", is_flag=True, help="Say of each result what spoke for it.")
@memory_options(embedder=True)
def command(door: Door, *, query: str, include: tuple[str, ...], no_reinforce: bool, why: bool, **options: Any) -> None:
    """Find what memory holds for QUERY, or for standard input with `-`, best first.

    \b
    Examples:
      agentmem remember "what must the chef avoid?"
      agentmem remember "where does Mira work?" --why --top-k 5
      agentmem remember "where did Mira work?" --as-of 2025-05-01
      agentmem remember "open questions" --include semantic --channels my-project --json
    """
    asked = spoken(query)
    bundle = door.run(
        lambda memory: memory.remember(asked, include=include or _GROUPS, reinforce=not no_reinforce, **options)
    )
    tell(bundle.notices)
    door.show(_document(bundle), _text(bundle, why))


def _document(bundle: MemoryBundle) -> dict[str, Any]:
    """The bundle without the depths of its receipt."""
    out = {field.name: plain(getattr(bundle, field.name)) for field in fields(bundle) if field.name != "receipt"}
    return {**out, "receipt": bundle.receipt.id}


def _text(bundle: MemoryBundle, why: bool) -> str:
    if not bundle.items:
        return "nothing found"
    lines = []
    for rank, item in enumerate(bundle.items, start=1):
        label = f"{item.record.kind.lower()} {item.record.id}"
        lines.append(f"{bold(f'{rank:>2}.')} {record_text(item.record)}")
        lines.append(dim(f"    {item.score:.3f}  {label}" + (f"  {item.why}" if why and item.why else "")))
    return "\n".join(lines)
