"""Announcements: what agents of one user share in the channel `_swarm`.

An announcement is a Fact of the short tier with its author, its time and, if given, an end. While it holds, the same
text is one announcement: an agent that repeats recalled text adds nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import NamedTuple

from agentmem.core.changes import Change, JournalEntry, WriteAttempt, hash_request
from agentmem.core.clock import add_time, derive_id
from agentmem.core.plain_values import describe_value, has_visible
from agentmem.core.record import Key, Status
from agentmem.core.records import ANNOUNCEMENT_TAG, Fact, Turn, build_record
from agentmem.core.scope import SWARM
from agentmem.errors import InvalidRecord
from agentmem.memory.context import MemoryContext
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
    """Announce a claim to all agents of the user; see `AsyncAgentMemory.announce`."""
    words: object = text
    if not isinstance(words, str) or not has_visible(words):
        raise InvalidRecord("text must be non-empty text", field="text")
    lasting = _parse_lifetime(expires_in)

    async def make(write: WriteAttempt) -> Change:
        until = None if lasting is None else add_time(write.now, lasting)
        said = AnnouncementDraft(text.strip(), context.scope.agent_id or "user", write.now, until)
        puts, is_known = await _build_announcement_records(context, said)
        again[:] = [puts[0].id] if is_known else []
        return write.build_change(*puts, expected_versions=_expected_versions(puts))

    again: list[str] = []
    given = {"text": text, "expires_in": None if lasting is None else lasting.total_seconds()}
    fact = await context.write(Fact, "announce", make, idempotency_key=idempotency_key, given=given)
    if again:
        await _count_repetition(context, again[0], fact.operation_id)
    return fact


class Announced(NamedTuple):
    """The Change of an announcement, and whether it was known: then it gains sources and time."""

    change: Change
    is_known: bool


async def build_announcements(
    context: MemoryContext, changes: Sequence[Change], *, silent_mark: str
) -> list[Announced]:
    """What agents announce in turns that are about to be stored, for the same transaction; [] when nothing.

    Turns whose metadata hold the mark `silent_mark` announce nothing, and turns that are stored already nothing new.
    """
    said: dict[str, tuple[Change, AnnouncementDraft]] = {}
    announcing = [(change, *found) for change in changes for found in _find_announcing_turns(change, silent_mark)]
    for change, turn, lines in announcing[:MAX_ANNOUNCEMENTS]:
        if await context.engine.log.find_applied(change.change_id, change.request_hash, change.scope) is not None:
            continue  # what it announced was stored with it
        author, begins = turn.agent_id or turn.speaker or turn.role, turn.timestamp or context.engine.clock.now()
        for line in lines:
            name, span = hash_claim(line.text), (turn.id, line.start, line.end)
            first, each = said.get(name, (change, AnnouncementDraft(line.text, author, begins)))
            said[name] = first, replace(each, spans=(*each.spans, span))
    made = []
    for name, (change, each) in list(said.items())[:MAX_ANNOUNCEMENTS]:
        puts, is_known = await _build_announcement_records(context, each)
        made.append(Announced(_build_announcement_change(context, change, name, puts), is_known))
    return made


async def strengthen_repeated(
    context: MemoryContext, announced: Sequence[Announced], written: Mapping[str, JournalEntry]
) -> None:
    """Count that known announcements were repeated by what was just written, once."""
    for change, is_known in announced:
        if is_known and not written[change.change_id].already_applied:
            await _count_repetition(context, change.upserts[0].id, change.change_id)


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


async def _count_repetition(context: MemoryContext, fact_id: str, usage_key: str) -> None:
    await context.record_usage([fact_id], idempotency_key=f"announce {usage_key}")


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
