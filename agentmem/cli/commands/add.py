"""`agentmem add`: store one turn."""

from __future__ import annotations

from datetime import datetime

import click

from agentmem.cli.door import CliContext, memory_options, parse_datetime, read_text_or_stdin


@click.command(short_help="Store one turn of a conversation.")
@click.argument("text", metavar="TEXT|-")
@click.option("--role", default="user", show_default=True, metavar="NAME", help="user, assistant, system or tool.")
@click.option("--speaker", metavar="NAME", help="Who said it, where the role does not tell.")
@click.option("--timestamp", type=parse_datetime, metavar="MOMENT", help="When it was said. [default: now]")
@click.option("--conversation", metavar="ID", help="The conversation it belongs to. [default: a new one]")
@click.option("--turn-id", metavar="ID", help="An id of your own; the same turn added again under it is stored once.")
@memory_options(with_embedder=True)
def command(
    cli: CliContext, *, text: str, role: str, speaker: str | None, timestamp: datetime | None, conversation: str | None,
    turn_id: str | None,
) -> None:  # fmt: skip
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
    cli.show(turn, f"stored {turn.id}, turn {turn.index} of conversation {turn.conversation_id}")
