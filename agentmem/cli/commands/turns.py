"""`agentmem add`, `announce` and `turns`: what is said."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import click

from agentmem.cli.context import CliContext, memory_options, parse_datetime, read_text_or_stdin
from agentmem.cli.render import dim, format_time, render_operation, render_record, to_one_line

if TYPE_CHECKING:
    from agentmem.core.records import Turn
    from agentmem.facade.async_memory import AsyncAgentMemory


@click.command("add", short_help="Store one turn.")
@click.argument("text", metavar="TEXT|-")
@click.option("--role", default="user", show_default=True, metavar="NAME", help="user, assistant, system or tool.")
@click.option("--speaker", metavar="NAME", help="The speaker, if the role is not enough.")
@click.option("--timestamp", type=parse_datetime, metavar="MOMENT", help="When it was said. [default: now]")
@click.option("--conversation", metavar="ID", help="The conversation it belongs to. [default: a new one]")
@click.option("--turn-id", metavar="ID", help="An id of your own; the same turn added again under it is stored once.")
@memory_options(with_embedder=True)
def add_command(
    cli: CliContext,
    *,
    text: str,
    role: str,
    speaker: str | None,
    timestamp: datetime | None,
    conversation: str | None,
    turn_id: str | None,
) -> None:
    """Store TEXT, or standard input for `-`, as one turn.

    \b
    Examples:
      agentmem add "I'm allergic to peanuts."
      agentmem add "We moved to Utrecht." --speaker Mira --timestamp 2025-06-14
      agentmem add "Noted." --role assistant --conversation trip --turn-id trip-2
      git log -1 --format=%B | agentmem add - --channel my-project
    """
    said = read_text_or_stdin(text)
    turn = cli.with_conversation(conversation).run(
        lambda memory: memory.store_turn(said, role=role, speaker=speaker, timestamp=timestamp, turn_id=turn_id)
    )
    place = f"turn {turn.index} of conversation {turn.conversation_id}"
    cli.show(turn, f"stored {turn.id}, {place}\n{render_operation(turn.operation_id)}")


@click.command("announce", short_help="Tell all agents.")
@click.argument("text", metavar="TEXT|-")
@click.option("--expires-in", type=float, metavar="SECONDS", help="For how long it holds. [default: until it fades]")
@memory_options(with_embedder=True)
def announce_command(cli: CliContext, *, text: str, expires_in: float | None) -> None:
    """Store TEXT, or standard input for `-`, as an announcement, which every agent of the user recalls.

    \b
    Examples:
      agentmem announce "The production API is experiencing 503 errors" --expires-in 7200
      agentmem facts --channel _swarm --tag announcement
    """
    said = read_text_or_stdin(text)
    fact = cli.run_for_user(lambda memory: memory.announce(said, expires_in=expires_in))
    until = "" if fact.valid_to is None else f", until {format_time(fact.valid_to)}"
    cli.show(fact, f"announced {fact.id}{until}: {to_one_line(fact.claim)}\n{render_operation(fact.operation_id)}")


@click.command("turns", short_help="List what was said.")
@click.option("--conversation", metavar="ID", help="All turns of this conversation. [default: the latest of all]")
@click.option("--hours", type=click.FloatRange(min=0), help="Only turns of so many hours back from now.")
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="How many at most.")
@memory_options()
def turns_command(cli: CliContext, *, conversation: str | None, hours: float | None, limit: int) -> None:
    """List turns, oldest first. With --json one JSON document per line.

    \b
    Examples:
      agentmem turns
      agentmem turns --hours 24 --limit 100
      agentmem turns --conversation trip --json
    """
    if conversation is not None and hours is not None:
        raise click.UsageError("give only one of --conversation, --hours")

    async def read(memory: AsyncAgentMemory) -> list[Turn]:
        if conversation is not None:
            return await memory.episodic.get_conversation(conversation, limit=limit)
        return await memory.episodic.recent_turns(limit, hours=hours)

    cli.show_list(cli.run_for_user(read), _render_turn, "no turns")


def _render_turn(turn: Turn) -> str:
    place = dim(f"    {turn.id}  turn {turn.index} of conversation {turn.conversation_id}")
    return f"{render_record(turn)}\n{place}"


COMMANDS = (add_command, announce_command, turns_command)
