"""What counts as use: what was shown and fits is accessed, what an answer then says is used.

Shown records are kept in the process, by conversation, until the assistant's next turn is stored.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from agentmem.core.clock import derive_id
from agentmem.core.lru import LruDict
from agentmem.core.record import Key, Record
from agentmem.core.records import Entity, Fact, Turn
from agentmem.core.scope import Scope
from agentmem.engine.engine import Engine
from agentmem.errors import StoreUnavailable
from agentmem.text.tokenizer import tokenize

MAX_TRACKED_CONVERSATIONS = 1_000
MAX_SHOWN_RECORDS = 200  # of a conversation that wait for an answer
MIN_USED_SHARE = 1 / 3  # of the words of a claim that an answer must say
USED_KINDS = (Fact, Entity)
Place = tuple[str, str]  # user and conversation
# The user's word that what the assistant stated is so, and a question that states something.
_CONFIRMATION = re.compile(
    r"(?:(?:yes|yep|yeah|exactly|correct|that(?:'s| is) (?:right|correct|true|it)|right|true|precisely|ja|genau|richtig"
    r"|stimmt|sí|exacto|correcto|oui|exactement|c'est ça|sim|exato|isso)[\s,.!]*)+",
    re.IGNORECASE,
)
_ASKS_BACK = re.compile(
    r"\b(?:right|correct|isn't it|aren't you|is that so|stimmt's|oder|¿no|verdad|n'est-ce pas)\?\s*\Z"
)


@dataclass(frozen=True, slots=True)
class ShownRecord:
    """A record that was shown, and the words of its value that the question lacked."""

    key: Key
    terms: frozenset[str]

    def is_used_in(self, text: str, terms: set[str]) -> bool:
        """Whether a text of these words says its value, or cites it by its id."""
        said = len(self.terms & terms)
        return self.key[1] in text or (said > 0 and said >= MIN_USED_SHARE * len(self.terms))


@dataclass
class ShownRecords:
    """What was shown by user and conversation, in one process, and no assistant's turn followed yet."""

    _kept: LruDict[Place, dict[Key, ShownRecord]] = field(default_factory=lambda: LruDict(MAX_TRACKED_CONVERSATIONS))
    _stated: LruDict[Place, list[Key]] = field(default_factory=lambda: LruDict(MAX_TRACKED_CONVERSATIONS))

    def add(self, user_id: str, conversation_id: str, shown: Iterable[ShownRecord]) -> None:
        """Add records; the oldest of the conversation, and the conversation heard of longest ago, make room."""
        place = (user_id, conversation_id)
        merged = {**self._kept.pop(place, {}), **{each.key: each for each in shown}}
        self._kept[place] = dict(list(merged.items())[-MAX_SHOWN_RECORDS:])

    def take(self, user_id: str, conversation_id: str) -> Iterable[ShownRecord]:
        """What was shown in a conversation, which is kept no longer; empty for nothing."""
        return self._kept.pop((user_id, conversation_id), {}).values()

    def add_stated(self, user_id: str, conversation_id: str, keys: list[Key]) -> None:
        """Keep what the last turn of the assistant stated, until the next turn of the conversation."""
        self._stated[(user_id, conversation_id)] = keys

    def take_stated(self, user_id: str, conversation_id: str) -> list[Key]:
        """What was stated just before, which is kept no longer; [] for nothing."""
        return self._stated.pop((user_id, conversation_id), [])

    def forget(self, user_id: str) -> None:
        """Forget what was shown to a user."""
        for kept in (self._kept, self._stated):
            for place in [place for place in kept if place[0] == user_id]:
                del kept[place]


async def record_access(engine: Engine, scope: Scope, keys: Sequence[Key]) -> None:
    """Count an access of these records: once per record, conversation and day. Raises StoreUnavailable."""
    if keys:
        now = engine.clock.now()
        place = scope.conversation_id or f"session {scope.session_id or ''}"
        access_id = derive_id(scope.user_id, "accessed", place, now.date().isoformat())
        await engine.log.record_usage(keys, scope, access_id, used_at=now)


async def record_confirmation(engine: Engine, scope: Scope, keys: Sequence[Key], operation_id: str) -> None:
    """Count an access and a use of records that were said again, by the operation that read it; best effort."""
    if keys:
        access_id, use_id = (derive_id(scope.user_id, word, operation_id) for word in ("accessed", "confirmed"))
        with suppress(StoreUnavailable):
            await engine.log.record_usage(keys, scope, access_id, used_at=engine.clock.now())
            await engine.log.record_usage(keys, scope, use_id, used=True, used_at=engine.clock.now())


def track_shown(
    engine: Engine,
    scope: Scope,
    query: str,
    records: Iterable[Record],
    values: Iterable[tuple[Key, str]] = (),
) -> None:
    """Keep what a conversation showed until its next answer; nothing outside of conversations.

    `values` are those of beliefs shown besides the records, with the keys of their facts.
    """
    if scope.conversation_id is not None:
        asked = set(tokenize(query))
        told = dict(values)
        told |= {record.key: _get_value(record) for record in records if isinstance(record, USED_KINDS)}
        shown = [ShownRecord(key, frozenset(set(tokenize(value)) - asked)) for key, value in told.items()]
        engine.get_shared(ShownRecords).add(scope.user_id, scope.conversation_id, shown)


async def record_answers(engine: Engine, scope: Scope, turns: Sequence[Turn]) -> None:
    """Count a use of what was shown before and is said in an assistant's turn among these, and once more what the user
    confirms right after it ("exactly").

    Where that cannot be written the turns are stored all the same.
    """
    records = engine.get_shared(ShownRecords)
    for turn in turns:
        stated = records.take_stated(scope.user_id, turn.conversation_id)
        if turn.role == "user" and stated and _CONFIRMATION.fullmatch(turn.content.strip()):
            await record_confirmation(engine, scope, stated, turn.id)
        shown = records.take(scope.user_id, turn.conversation_id) if turn.role == "assistant" else ()
        terms = set(tokenize(turn.content)) if shown else set[str]()
        if used := [each.key for each in shown if each.is_used_in(turn.content, terms)]:
            use_id = derive_id(scope.user_id, "said in", turn.id)
            with suppress(StoreUnavailable):
                await engine.log.record_usage(used, scope, use_id, used=True, used_at=engine.clock.now())
            if not turn.content.rstrip().endswith("?") or _ASKS_BACK.search(turn.content):
                records.add_stated(scope.user_id, turn.conversation_id, used)


def _get_value(record: Fact | Entity) -> str:
    """What an answer says when it uses a record: a value, a name, or a claim without its subject."""
    if isinstance(record, Entity):
        return record.name
    return record.value or record.claim.removeprefix(record.subject)
