"""`agentmem facts`, `beliefs`, `learn` and `correct`: what is known."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import click

from agentmem.cli.context import CliContext, memory_options, parse_datetime, read_text_or_stdin
from agentmem.cli.render import dim, format_time, render_operation, render_record, to_one_line


@click.command("facts", short_help="List facts.")
@click.option("--all", "everything", is_flag=True, help="Also facts that ended or were retracted.")
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
        found = cli.run_for_user(lambda memory: memory.semantic.history(history))
    else:
        where: dict[str, Any] = {"retired": everything, "as_of": as_of, **({"tags": tags} if tags else {})}
        found = cli.run_for_user(lambda memory: memory.semantic.facts(where, limit=limit))
    cli.show_list(found, _render_fact, "no facts")


def _render_fact(fact: Any) -> str:
    tags = "".join(f"  #{tag}" for tag in fact.tags)
    return f"{render_record(fact)}\n{dim(f'    {fact.id}  recorded {format_time(fact.recorded_at)}{tags}')}"


@click.command("beliefs", short_help="What is believed.")
@click.argument("subject", required=False, metavar="[SUBJECT]")
@click.option("--slot", metavar="NAME", help="Only this slot, such as home or employer.")
@click.option("--as-of", type=parse_datetime, metavar="MOMENT", help="What was true at this moment.")
@click.option("--known-at", type=parse_datetime, metavar="MOMENT", help="What memory held at this moment.")
@memory_options()
def beliefs_command(
    cli: CliContext, *, subject: str | None, slot: str | None, as_of: datetime | None, known_at: datetime | None
) -> None:
    """Show what is believed of SUBJECT (user or a name), or of everybody, slot by slot.

    Each line shows what holds; brackets show what is in doubt, planned, over, or no longer known. With --json one JSON
    document per line, each value with its fact, its times and its sources.

    \b
    Examples:
      agentmem beliefs
      agentmem beliefs user --slot employer --json
      agentmem beliefs --as-of 2026-01-01
    """
    found = cli.run_for_user(lambda memory: memory.beliefs(subject, slot, as_of=as_of, known_at=known_at))
    shown = [each.to_dict() for each in found] if cli.json else found
    cli.show_list(shown, lambda each: to_one_line(str(each)), "no beliefs")


@click.command("profile", short_help="What is held of the user.")
@memory_options()
def profile_command(cli: CliContext) -> None:
    """Show what is believed of the user, with the turns that say so, and what a program set for the user.

    \b
    Examples:
      agentmem profile
      agentmem profile --user alice --json
    """
    found = cli.run_for_user(lambda memory: memory.profile())
    told = found.model_dump(mode="json", exclude={"beliefs"}) | {"beliefs": [each.to_dict() for each in found.beliefs]}
    cli.show(told, str(found) or "nothing is held of the user")


@click.command("learn", short_help="Store a fact.")
@click.argument("claim", metavar="CLAIM|-")
@click.option("--confidence", type=click.FloatRange(0, 1), help="How sure it is. [default: 0.8]")
@click.option("--importance", type=click.FloatRange(0, 1), help="How much it matters; from 0.8 on it is always kept.")
@click.option("--valid-from", type=parse_datetime, metavar="MOMENT", help="Since when it is true. [default: now]")
@click.option("--valid-to", type=parse_datetime, metavar="MOMENT", help="Until when it is true. [default: open]")
@click.option("--tag", "tags", multiple=True, metavar="NAME", help="A tag; may be repeated.")
@click.option("--subject", metavar="NAME", help="The subject of a belief. [default: user]")
@click.option("--slot", metavar="NAME", help="The slot that it fills, such as home or employer; needs --value.")
@click.option("--value", metavar="TEXT", help="The value of the slot.")
@memory_options(with_embedder=True)
def learn_command(
    cli: CliContext,
    *,
    claim: str,
    confidence: float | None,
    importance: float | None,
    valid_from: datetime | None,
    valid_to: datetime | None,
    tags: tuple[str, ...],
    subject: str | None,
    slot: str | None,
    value: str | None,
) -> None:
    """Store CLAIM, or standard input for `-`, as a fact. A repeated current claim adds no second fact.

    \b
    Examples:
      agentmem learn "Mira lives in Utrecht." --valid-from 2025-06-14 --tag home
      agentmem learn "The office is closed." --valid-to 2026-01-07
      agentmem learn "Mira lives in Porto." --subject Mira --slot home --value Porto
    """
    given: dict[str, Any] = {"confidence": confidence, "valid_from": valid_from, "valid_to": valid_to}
    given |= {"importance": importance, "tags": tags or None, "subject": subject, "slot": slot, "value": value}
    fields: Any = {name: value for name, value in given.items() if value is not None}
    said = read_text_or_stdin(claim)
    fact = cli.run_for_user(lambda memory: memory.learn_fact(said, **fields))
    cli.show(fact, f"learned {fact.id}: {to_one_line(fact.claim)}\n{render_operation(fact.operation_id)}")


@click.command("correct", short_help="Correct a fact.")
@click.argument("fact_id", metavar="ID")
@click.argument("claim", metavar="CLAIM|-")
@click.option("--changed", is_flag=True, help="The old claim was true until now, rather than never.")
@click.option("--valid-from", type=parse_datetime, metavar="MOMENT", help="Since when the new one is true.")
@memory_options(with_embedder=True)
def correct_command(cli: CliContext, *, fact_id: str, claim: str, changed: bool, valid_from: datetime | None) -> None:
    """Replace the fact ID with CLAIM: it was wrong or, with --changed, is no longer true.

    \b
    Examples:
      agentmem correct 0197a6e2-8f10-7c3a-9d5e-2b1f0c4d6e8a "Mira lives in Utrecht."
      agentmem correct 0197a6e2-8f10-7c3a-9d5e-2b1f0c4d6e8a "Mira lives in Porto." --changed --valid-from 2026-03-01
    """
    fields: Any = {} if valid_from is None else {"valid_from": valid_from}
    said = read_text_or_stdin(claim)
    fact = cli.run_for_user(
        lambda memory: memory.semantic.supersede_fact(fact_id, said, is_correction=not changed, **fields)
    )
    cli.show(fact, f"learned {fact.id}: {to_one_line(fact.claim)}\n{render_operation(fact.operation_id)}")


COMMANDS = (beliefs_command, correct_command, facts_command, learn_command, profile_command)
