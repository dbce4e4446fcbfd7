"""Titles for conversations that an earlier import stored without one."""

from __future__ import annotations

from collections.abc import Sequence

from agentmem.core.changes import Change, WriteAttempt
from agentmem.core.input_fields import TurnInput
from agentmem.core.record import Record
from agentmem.core.records import Conversation, Turn
from agentmem.importers.knowledge import ImportTarget


async def add_missing_titles(
    memory: ImportTarget, turns: Sequence[TurnInput], stored: Sequence[Record], head: int
) -> list[Record]:
    """Give the conversations of turns that were known before the import their titles, where they have none.

    `head` is the journal position at which the import began. Returns the conversations that gained a title.
    """
    known = {each.conversation_id for each in stored if isinstance(each, Turn) and each.seq <= head}
    named = [each for each in turns if each["conversation_id"] in known and "conversation_title" in each]
    titles = {each["conversation_id"]: each["conversation_title"] for each in reversed(named)}
    if not titles:
        return []

    async def build(write: WriteAttempt) -> Change | None:
        found = await memory.engine.log.read_records("Conversation", list(titles), memory.scope)
        bare = [
            each
            for each in found
            if isinstance(each, Conversation)
            and not each.title
            and each.superseded_at is None
            and each.channel == memory.scope.channel
        ]
        if not bare:
            return None
        return write.build_change(
            *(each.model_copy(update={"title": titles[each.id]}) for each in bare),
            expected_versions={each.key: each.seq for each in bare},
        )

    entry = await memory.engine.write(memory.scope, "add_titles", build, kind="Conversation")
    return [] if entry is None else [each.record for each in entry.upserts]
