"""What agents of one user tell each other: announcements in the channel `_swarm`.

An announcement is a Fact of the short tier with its author, its time and, if it was given one, an end. The same words,
while they hold, are one announcement however often they are said: an agent that repeats what it has recalled adds
nothing new.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import NamedTuple

from agentmem.errors import Conflict, InvalidRecord
from agentmem.memory import Seat, first_of
from agentmem.model.changes import Change, JournalEntry, Write, fingerprint
from agentmem.model.clock import derived_id
from agentmem.model.records import ANNOUNCEMENT, Fact, Key, Status, Turn, build
from agentmem.model.scope import SWARM
from agentmem.resources import RETRIES
from agentmem.stores import Where
from agentmem.text.names import claim_hash

TAG = "[ANNOUNCE]"
MOST = 20  # announcements of one write of turns
SPEAKERS = ("assistant", "agent")
OTHERS = ("user", "tool", "function", "system")  # whose words are data, whoever stored them

_LINE = re.compile(r" {0,3}\[ANNOUNCE\][ \t]+(\S.*?)\s*$")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
# What recall shows behind a claim, which an agent may have copied with it.
_SHOWN = re.compile(r"(?: \((?:from|until|past|future|confidence|stale|may be)\b[^()]*\))?(?: \[[0-9a-f]{8}\])?\.?$")

Commit = Callable[[Sequence[Change]], Awaitable[list[JournalEntry]]]


class Line(NamedTuple):
    """An announcement in a turn: what it says, and from where to where."""

    said: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Said:
    """Something to be announced: the words, who says it, from when, until when, and in which turns."""

    text: str
    author: str
    begins: datetime
    until: datetime | None = None
    spans: tuple[tuple[str, int, int], ...] = ()


def announced_lines(text: str) -> Iterator[Line]:
    """The lines of a text that begin with the tag and say something, outside of code blocks and quotes."""
    fence, at = "", 0
    for line in text.split("\n"):
        mark = _FENCE.match(line)
        if fence:
            if mark and mark[1].startswith(fence) and not line.strip().strip(fence[0]):
                fence = ""
        elif mark:
            fence = mark[1]
        elif found := _LINE.match(line):
            yield Line(found[1], at + found.start(1), at + found.end(1))
        at += len(line) + 1


def of_an_agent(turn: Turn) -> bool:
    """Whether an agent says this turn."""
    return turn.role in SPEAKERS or (turn.agent_id is not None and turn.role not in OTHERS)


async def announce(
    seat: Seat, text: str, *, expires_in: timedelta | float | None = None, key: str | None = None
) -> Fact:
    """Tell all agents of the user something; see `AsyncAgentMemory.announce`."""
    words: object = text
    if not isinstance(words, str) or not words.strip():
        raise InvalidRecord("text must be non-empty text", field="text")
    lasting = _lasting(expires_in)

    async def make(write: Write) -> Change:
        until = None if lasting is None else write.now + lasting
        said = Said(text.strip(), seat.scope.agent_id or "user", write.now, until)
        puts, known = await _records(seat, said)
        again[:] = [puts[0].key] if known else []
        return write.change(*puts, expects=_expected(puts))

    again: list[Key] = []
    entry = await seat.resources.write(
        seat.scope, "announce", make, kind="Fact", key=key,
        payload=fingerprint(text=text, expires_in=None if lasting is None else lasting.total_seconds()),
    )  # fmt: skip
    fact = first_of(entry, Fact)
    await _strengthen(seat, [name for _, name in again], fact.operation_id)
    return fact


async def with_announcements(
    seat: Seat, changes: Sequence[Change], commit: Commit, *, silent: str
) -> list[JournalEntry]:
    """Commit turns, and in the same transaction what their agents announce in them.

    Turns whose metadata hold the mark `silent` announce nothing.
    """
    telling = [(change, turn, lines) for change in changes for turn, lines in _tellings(change, silent)]
    if not telling:
        return await commit(changes)
    turn: asyncio.Lock | None = None
    for left in reversed(range(RETRIES)):
        try:
            async with turn or nullcontext():
                more, again = await _announcements(seat, telling)
                entries = await commit([*changes, *more])
        except Conflict as error:
            if not (error.stale and left):
                raise
            turn = seat.resources.one_by_one(seat.scope)
            continue
        written = {entry.change_id for entry in entries if not entry.repeated}
        for change in more:
            if change.change_id in written:
                await _strengthen(seat, [fact.id for fact in change.puts[:1] if fact.id in again], change.change_id)
        return entries
    raise AssertionError("unreachable: the last attempt returns or raises")


Telling = tuple[Change, Turn, list[Line]]


def _tellings(change: Change, silent: str) -> Iterator[tuple[Turn, list[Line]]]:
    for turn in change.puts:
        if isinstance(turn, Turn) and TAG in turn.content and of_an_agent(turn) and not turn.metadata.get(silent):
            lines = [_without_marks(line) for line in announced_lines(turn.content)]
            yield from [(turn, lines)] if lines else []


async def _announcements(seat: Seat, telling: Sequence[Telling]) -> tuple[list[Change], set[str]]:
    """A Change for each announcement of turns that are not stored yet, and the ids of those that were known."""
    said: dict[str, tuple[Change, Said]] = {}
    for change, turn, lines in telling[:MOST]:
        if await seat.resources.log.applied(change.change_id, change.payload, change.scope) is not None:
            continue  # what it announced was stored with it
        author, begins = turn.agent_id or turn.speaker or turn.role, turn.timestamp or seat.resources.clock.now()
        for line in lines:
            name, span = claim_hash(line.said), (turn.id, line.start, line.end)
            first, each = said.get(name, (change, Said(line.said, author, begins)))
            said[name] = first, replace(each, spans=(*each.spans, span))
    changes, again = [], set()
    for name, (change, each) in list(said.items())[:MOST]:
        puts, known = await _records(seat, each)
        again |= {puts[0].id} if known else set()
        changes.append(_change(seat, change, name, puts))
    return changes, again


def _change(seat: Seat, change: Change, name: str, puts: Sequence[Fact]) -> Change:
    return Change(
        scope=seat.scope, operation="announce", operation_id=change.operation_id, puts=tuple(puts),
        change_id=derived_id(change.change_id, "announce", name), expects=_expected(puts),
        payload=fingerprint(said=name), cause=change.change_id,
    )  # fmt: skip


async def _records(seat: Seat, said: Said) -> tuple[list[Fact], bool]:
    """What an announcement puts, first of all itself, and whether it was known: then it gains sources and time."""
    name = claim_hash(said.text)
    where = Where(kinds=("Fact",), channels=(SWARM,), key=(name,))
    found = [fact for fact in await seat.resources.log.find(seat.scope, where, limit=1) if isinstance(fact, Fact)]
    turns = tuple(dict.fromkeys(turn for turn, _, _ in said.spans))
    new = build(
        Fact, id=seat.resources.ids.new(), channel=SWARM, claim=said.text, claim_hash=name, source=said.author,
        tags=(ANNOUNCEMENT,), tier="short", valid_from=said.begins, valid_to=said.until, source_turn_ids=turns,
        source_spans=said.spans,
    )  # fmt: skip
    if not found:
        return [new], False
    from agentmem.memory.facts import holds

    known = found[0]
    if holds(known, said.begins):
        return [_merged(known, new)], True
    if known.status is Status.ARCHIVED:  # it had faded
        return [_merged(known, new).model_copy(update={"status": Status.ACTIVE, "reason": ""})], True
    over = {"superseded_by": new.id, "status": Status.SUPERSEDED}
    return [new.model_copy(update={"supersedes": known.id}), known.model_copy(update=over)], False


def _merged(known: Fact, new: Fact) -> Fact:
    """The known announcement with the new sources, and the new end if that is later."""
    later = known.valid_to is not None and new.valid_to is not None and new.valid_to > known.valid_to
    return known.model_copy(update={
        "source_turn_ids": tuple(dict.fromkeys((*known.source_turn_ids, *new.source_turn_ids))),
        "source_spans": tuple(dict.fromkeys((*known.source_spans, *new.source_spans))),
        "valid_to": new.valid_to if later else known.valid_to,
    })  # fmt: skip


async def _strengthen(seat: Seat, ids: Sequence[str], key: str) -> None:
    """Count that something was said again, once."""
    if ids:
        await seat.used(ids, key=f"announce {key}")


def _expected(puts: Sequence[Fact]) -> dict[Key, int | None]:
    return {fact.key: fact.seq or None for fact in puts}


def _without_marks(line: Line) -> Line:
    said = _SHOWN.sub("", line.said).strip() or line.said
    return Line(said, line.start, line.start + len(said))


def _lasting(expires_in: timedelta | float | None) -> timedelta | None:
    if expires_in is None:
        return None
    try:
        lasting = expires_in if isinstance(expires_in, timedelta) else timedelta(seconds=expires_in)
    except (TypeError, ValueError, OverflowError) as error:
        why = f"expires_in must be a timedelta or seconds, got {expires_in!r}"
        raise InvalidRecord(why, field="expires_in") from error
    if not timedelta(0) < lasting <= timedelta(days=36_500):
        raise InvalidRecord(f"expires_in must be above 0 and at most 100 years, got {expires_in!r}", field="expires_in")
    return lasting
