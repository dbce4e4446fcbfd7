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

from agentmem.core.changes import Change, JournalEntry, WriteAttempt, hash_request
from agentmem.core.clock import add_time, derive_id
from agentmem.core.plain_values import describe_value, has_visible
from agentmem.core.record import Key, Status
from agentmem.core.records import ANNOUNCEMENT_TAG, Fact, Turn, build_record
from agentmem.core.scope import SWARM
from agentmem.engine.engine import MAX_WRITE_ATTEMPTS
from agentmem.errors import Conflict, InvalidRecord
from agentmem.memory.context import MemoryContext, get_written_record
from agentmem.stores.values import Where
from agentmem.text.normalization import hash_claim

ANNOUNCE_TAG = "[ANNOUNCE]"
MAX_ANNOUNCEMENTS = 20  # announcements of one write of turns

_ANNOUNCEMENT_LINE = re.compile(r" {0,3}\[ANNOUNCE\][ \t]+(\S.*?)\s*$")
_CODE_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
# What recall shows behind a claim, which an agent may have copied with it.
_RECALL_SUFFIX = re.compile(
    r"(?: \((?:from|until|past|future|confidence|stale|may be)\b[^()]*\))?(?: \[[0-9a-f]{8}\])?\.?$"
)

CommitChanges = Callable[[Sequence[Change]], Awaitable[list[JournalEntry]]]


class AnnouncementLine(NamedTuple):
    """An announcement in a turn: what it says, and from where to where."""

    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class AnnouncementDraft:
    """Something to be announced: the words, who says it, from when, until when, and in which turns."""

    text: str
    author: str
    valid_from: datetime
    valid_to: datetime | None = None
    spans: tuple[tuple[str, int, int], ...] = ()


def parse_announcement_lines(text: str) -> Iterator[AnnouncementLine]:
    """The lines of a text that begin with the tag and say something, outside of code blocks and quotes."""
    fence, at = "", 0
    for line in text.split("\n"):
        mark = _CODE_FENCE.match(line)
        if fence:
            if mark and mark[1].startswith(fence) and not line.strip().strip(fence[0]):
                fence = ""
        elif mark:
            fence = mark[1]
        elif found := _ANNOUNCEMENT_LINE.match(line):
            yield AnnouncementLine(found[1], at + found.start(1), at + found.end(1))
        at += len(line) + 1


def is_agent_turn(turn: Turn) -> bool:
    """Whether an agent says this turn."""
    return turn.role == "assistant"


async def announce(
    context: MemoryContext,
    text: str,
    *,
    expires_in: timedelta | float | None = None,
    idempotency_key: str | None = None,
) -> Fact:
    """Tell all agents of the user something; see `AsyncAgentMemory.announce`."""
    words: object = text
    if not isinstance(words, str) or not has_visible(words):
        raise InvalidRecord("text must be non-empty text", field="text")
    lasting = _parse_lifetime(expires_in)

    async def make(write: WriteAttempt) -> Change:
        until = None if lasting is None else add_time(write.now, lasting)
        said = AnnouncementDraft(text.strip(), context.scope.agent_id or "user", write.now, until)
        puts, known = await _build_announcement_records(context, said)
        again[:] = [puts[0].key] if known else []
        return write.build_change(*puts, expected_versions=_expected_versions(puts))

    again: list[Key] = []
    entry = await context.engine.write(
        context.scope,
        "announce",
        make,
        kind="Fact",
        idempotency_key=idempotency_key,
        request_hash=hash_request(text=text, expires_in=None if lasting is None else lasting.total_seconds()),
    )
    fact = get_written_record(entry, Fact)
    await _strengthen_repeated(context, [name for _, name in again], fact.operation_id)
    return fact


async def commit_with_announcements(
    context: MemoryContext, changes: Sequence[Change], commit: CommitChanges, *, silent_mark: str
) -> list[JournalEntry]:
    """Commit turns, and in the same transaction what their agents announce in them.

    Turns whose metadata hold the mark `silent_mark` announce nothing.
    """
    telling = [
        (change, turn, lines) for change in changes for turn, lines in _find_announcing_turns(change, silent_mark)
    ]
    if not telling:
        return await commit(changes)
    turn: asyncio.Lock | None = None
    for left in reversed(range(MAX_WRITE_ATTEMPTS)):
        try:
            async with turn or nullcontext():
                more, again = await _build_announcement_changes(context, telling)
                entries = await commit([*changes, *more])
        except Conflict as error:
            if not (error.stale and left):
                raise
            turn = context.engine.user_retry_lock(context.scope)
            continue
        written = {entry.change_id for entry in entries if not entry.already_applied}
        for change in more:
            if change.change_id in written:
                await _strengthen_repeated(
                    context, [fact.id for fact in change.upserts[:1] if fact.id in again], change.change_id
                )
        return entries
    raise AssertionError("unreachable: the last attempt returns or raises")


AnnouncingTurn = tuple[Change, Turn, list[AnnouncementLine]]


def _find_announcing_turns(change: Change, silent_mark: str) -> Iterator[tuple[Turn, list[AnnouncementLine]]]:
    for turn in change.upserts:
        if (
            isinstance(turn, Turn)
            and ANNOUNCE_TAG in turn.content
            and is_agent_turn(turn)
            and not turn.metadata.get(silent_mark)
        ):
            lines = [_strip_recall_suffix(line) for line in parse_announcement_lines(turn.content)]
            yield from [(turn, lines)] if lines else []


async def _build_announcement_changes(
    context: MemoryContext, announcing: Sequence[AnnouncingTurn]
) -> tuple[list[Change], set[str]]:
    """A Change for each announcement of turns that are not stored yet, and the ids of those that were known."""
    said: dict[str, tuple[Change, AnnouncementDraft]] = {}
    for change, turn, lines in announcing[:MAX_ANNOUNCEMENTS]:
        if await context.engine.log.find_applied(change.change_id, change.request_hash, change.scope) is not None:
            continue  # what it announced was stored with it
        author, begins = turn.agent_id or turn.speaker or turn.role, turn.timestamp or context.engine.clock.now()
        for line in lines:
            name, span = hash_claim(line.text), (turn.id, line.start, line.end)
            first, each = said.get(name, (change, AnnouncementDraft(line.text, author, begins)))
            said[name] = first, replace(each, spans=(*each.spans, span))
    changes, again = [], set()
    for name, (change, each) in list(said.items())[:MAX_ANNOUNCEMENTS]:
        puts, known = await _build_announcement_records(context, each)
        again |= {puts[0].id} if known else set()
        changes.append(_build_announcement_change(context, change, name, puts))
    return changes, again


def _build_announcement_change(context: MemoryContext, change: Change, name: str, puts: Sequence[Fact]) -> Change:
    return Change(
        scope=context.scope,
        operation="announce",
        operation_id=change.operation_id,
        upserts=tuple(puts),
        change_id=derive_id(change.change_id, "announce", name),
        expected_versions=_expected_versions(puts),
        request_hash=hash_request(said=name),
        cause=change.change_id,
    )


async def _build_announcement_records(context: MemoryContext, draft: AnnouncementDraft) -> tuple[list[Fact], bool]:
    """What an announcement puts, first of all itself, and whether it was known: then it gains sources and time."""
    name = hash_claim(draft.text)
    where = Where(kinds=("Fact",), channels=(SWARM,), dedup_keys=(name,))
    found = [fact for fact in await context.engine.log.find(context.scope, where, limit=1) if isinstance(fact, Fact)]
    turns = tuple(dict.fromkeys(turn for turn, _, _ in draft.spans))
    new = build_record(
        Fact,
        id=context.engine.ids.new_id(),
        channel=SWARM,
        claim=draft.text,
        claim_hash=name,
        source=draft.author,
        tags=(ANNOUNCEMENT_TAG,),
        tier="short",
        valid_from=draft.valid_from,
        valid_to=draft.valid_to,
        source_turn_ids=turns,
        source_spans=draft.spans,
    )
    if not found:
        return [new], False
    from agentmem.memory.semantic.facts import is_current

    known = found[0]
    if is_current(known, draft.valid_from):
        return [_merge_announcement(known, new)], True
    if known.status is Status.ARCHIVED:  # it had faded
        return [_merge_announcement(known, new).model_copy(update={"status": Status.ACTIVE, "reason": ""})], True
    over = {"superseded_by": new.id, "status": Status.SUPERSEDED}
    return [new.model_copy(update={"supersedes": known.id}), known.model_copy(update=over)], False


def _merge_announcement(known: Fact, new: Fact) -> Fact:
    """The known announcement with the new sources, and the new end if that is later."""
    later = known.valid_to is not None and new.valid_to is not None and new.valid_to > known.valid_to
    return known.model_copy(
        update={
            "source_turn_ids": tuple(dict.fromkeys((*known.source_turn_ids, *new.source_turn_ids))),
            "source_spans": tuple(dict.fromkeys((*known.source_spans, *new.source_spans))),
            "valid_to": new.valid_to if later else known.valid_to,
        }
    )


async def _strengthen_repeated(context: MemoryContext, ids: Sequence[str], usage_key: str) -> None:
    """Count that something was said again, once."""
    if ids:
        await context.record_usage(ids, idempotency_key=f"announce {usage_key}")


def _expected_versions(puts: Sequence[Fact]) -> dict[Key, int | None]:
    return {fact.key: fact.seq or None for fact in puts}


def _strip_recall_suffix(line: AnnouncementLine) -> AnnouncementLine:
    said = _RECALL_SUFFIX.sub("", line.text).strip() or line.text
    return AnnouncementLine(said, line.start, line.start + len(said))


def _parse_lifetime(expires_in: timedelta | float | None) -> timedelta | None:
    if expires_in is None:
        return None
    try:
        lasting = expires_in if isinstance(expires_in, timedelta) else timedelta(seconds=expires_in)
    except (TypeError, ValueError, OverflowError) as error:
        why = f"expires_in must be a timedelta or seconds, got {describe_value(expires_in)}"
        raise InvalidRecord(why, field="expires_in") from error
    if not timedelta(0) < lasting <= timedelta(days=36_500):
        raise InvalidRecord(
            f"expires_in must be above 0 and at most 100 years, got {describe_value(expires_in)}", field="expires_in"
        )
    return lasting
