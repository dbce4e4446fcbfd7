"""Facts as beliefs: a claim about a slot is settled with what is known of that slot, by the decision table."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from agentmem.beliefs.belief import Belief, Claim, Ground, Mark, Operation, Tense
from agentmem.beliefs.slots import OWN_NAME_SLOTS, THING_SUBJECT, USER_SUBJECT, NamedSlot, find_slot
from agentmem.beliefs.table import Settlement, settle
from agentmem.beliefs.values import is_same_value, normalize_value
from agentmem.core.lifecycle import DOUBT_TAG, DOUBTFUL, is_inferred
from agentmem.core.plain_values import has_visible
from agentmem.core.record import Status
from agentmem.core.records import (
    PROFILE_ID,
    RELATION_END_FIELDS,
    SLOT_KEY_PREFIX,
    Fact,
    Review,
    build_record,
    slot_prefix,
)
from agentmem.errors import InvalidRecord
from agentmem.memory.context import MemoryContext
from agentmem.stores.values import Where
from agentmem.text.normalization import hash_claim

MAX_VALUE_CHARS = 500
NOT_STORED_YET = 1 << 62  # behind every journal position
MAX_BELIEFS_PER_SLOT = 10_000  # values of one slot of one subject that are looked at
REPORTING_SOURCES = frozenset({"import", "tool", "agent"})


@dataclass(frozen=True, slots=True)
class ClaimWords:
    """What the words of a claim say beside slot and value; see `Claim`."""

    operation: Operation = "is"
    mark: Mark = ""
    is_subject_unsure: bool = False


@dataclass(frozen=True, slots=True)
class SpokenClaim:
    """What a sentence says of a slot: the fields of the fact that it makes, and its other words."""

    fields: Mapping[str, Any]
    words: ClaimWords = ClaimWords()


ClaimReader = Callable[[str, datetime], SpokenClaim | None]
"""Reads a sentence said at a moment; None where it says nothing plain of one slot."""


@dataclass(frozen=True, slots=True)
class SettledClaim:
    """What a claim changes: facts to write, the one that answers the claim first, and the review that it raises."""

    decision: Settlement
    facts: tuple[Fact, ...]
    review: Review | None = None
    unchanged: Fact | None = None


async def settle_fact(
    context: MemoryContext,
    draft: Fact,
    words: ClaimWords,
    now: datetime,
    pending: Collection[Fact] = (),
) -> SettledClaim:
    """Settle a fact that fills a slot. `pending` are facts that the same write puts, newer than what is stored.

    Raises InvalidRecord for a slot that is not known, and for a slot without a value that does not end anything.
    """
    slot = find_slot(draft.slot, context.engine.settings.slots)
    if words.operation == "is" and not has_visible(draft.value):
        raise InvalidRecord(f"value: the slot {slot.name} needs a value", field="value")
    if len(draft.value) > MAX_VALUE_CHARS:
        raise InvalidRecord(
            f"value must have at most {MAX_VALUE_CHARS} characters, got {len(draft.value):,}", field="value"
        )
    draft = name_user(draft.model_copy(update={"subject": await resolve_subject(context, draft, pending)}))
    draft, words = _affirm_end(draft, slot, words)
    known = await read_slot_facts(context, draft.channel, draft.subject, slot.name, pending)
    contrary = (
        await read_slot_facts(context, draft.channel, draft.subject, slot.opposite, pending) if slot.opposite else []
    )
    claim = _to_claim(draft, slot, words, draft.said_at or now)
    opposite = [each for each in map(to_belief, contrary) if each.standing(claim.said_at) == "held"]
    decision = settle(claim, [to_belief(fact) for fact in known], opposite)
    stored = {fact.id: fact for fact in (*known, *contrary)}
    facts = _apply_decision(decision, stored, draft, context.engine.ids.new_id, now)
    against = stored[decision.against.key] if decision.against else None
    review = await _ask(context, draft, decision, against) if decision.action == "review" else None
    unchanged = None if facts else (against or _find_answer(known, draft))
    return SettledClaim(decision, tuple(facts), review, unchanged)


async def read_slot_facts(
    context: MemoryContext, channel: str, subject: str, slot: str, pending: Collection[Fact] = ()
) -> list[Fact]:
    """The beliefs of a slot in a channel, oldest word first: those that ended, too, but not those that were retired."""
    prefix = slot_prefix(subject, slot)
    where = Where(kinds=("Fact",), channels=(channel,), dedup_prefix=prefix)
    stored = await context.engine.log.find(context.scope, where, limit=MAX_BELIEFS_PER_SLOT)
    found = {record.id: record for record in stored if isinstance(record, Fact)}
    for fact in pending:
        found.pop(fact.id, None)
        is_same = fact.slot == slot and fact.subject.casefold() == subject.casefold()  # cheaper than the key
        if is_same and fact.channel == channel and fact.dedup_key().startswith(prefix):
            found[fact.id] = fact
    return sorted(found.values(), key=order_by_word)


async def end_by_newer_word(context: MemoryContext, fact: Fact, leaving: Collection[str] = ()) -> Fact:
    """A returning belief, ended where its slot's present value began; unchanged where none is newer.

    `leaving` are ids of facts that are about to be removed.
    """
    slot = find_slot(fact.slot, context.engine.settings.slots)
    own = to_belief(fact)
    known = map(to_belief, await read_slot_facts(context, fact.channel, fact.subject, fact.slot))
    newer = [
        each
        for each in known
        if each.key != fact.id
        and each.key not in leaving
        and each.first_said_at > own.said_at
        and not (each.is_planned or each.is_denied)
    ]
    if slot.kind == "set" or own.is_planned or own.is_denied or own.until or not newer:
        return fact
    began = min(each.since or each.first_said_at for each in newer)
    return apply_belief(fact, replace(own, until=began, said_at=began)).model_copy(update={"said_at": fact.said_at})


async def resolve_subject(context: MemoryContext, draft: Fact, pending: Collection[Fact] = ()) -> str:
    """The subject as beliefs are kept under: the user's own names are the user."""
    subject = draft.subject.strip() or USER_SUBJECT
    if subject.casefold() == USER_SUBJECT:
        return USER_SUBJECT
    if subject == THING_SUBJECT:
        return await _find_owner(context, draft, pending)
    for slot in OWN_NAME_SLOTS:
        for fact in await read_slot_facts(context, draft.channel, USER_SUBJECT, slot, pending):
            own = fact.value.split()
            if not fact.is_denied and (is_same_value(fact.value, subject) or (own and is_same_value(own[0], subject))):
                return USER_SUBJECT
    return subject


def name_user(fact: Fact) -> Fact:
    """The fact with the id of the User record where the user is its subject, and without it elsewhere."""
    is_own = fact.subject.casefold() == USER_SUBJECT
    if is_own == (fact.subject_entity_id == PROFILE_ID):
        return fact
    return fact.model_copy(update={"subject_entity_id": PROFILE_ID if is_own else None})


def _affirm_end(draft: Fact, slot: NamedSlot, words: ClaimWords) -> tuple[Fact, ClaimWords]:
    """The end of a habit as the value that holds from then on: "stopped drinking coffee" is "drinks no coffee"."""
    if words.operation == "is" or not slot.none_value or draft.temporal_context == "future":
        return draft, words
    mark: Mark = "change" if words.operation == "over" else words.mark
    begins = draft.valid_to or draft.valid_from
    since = {"value": slot.none_value, "valid_from": begins, "valid_to": None, "temporal_context": "current"}
    return draft.model_copy(update=since), replace(words, operation="is", mark=mark)


async def find_open_event(context: MemoryContext, draft: Fact, pending: Collection[Fact]) -> Fact | None:
    """The only planned event that an inexact name of one means: "the flight", "the operation" of a hip operation.

    `draft` has the slot `flight:?`, or that of a date. None where nothing or more than one fits.
    """
    kind, _, name = draft.slot.partition(":")
    known = await read_beliefs(context, draft.channel, pending)
    planned = [each for each in known if each.slot.startswith(f"{kind}:") and each.temporal_context == "future"]
    whose = {draft.subject.casefold()}
    if draft.subject == THING_SUBJECT and not draft.value:  # "the wedding is off" may mean the user's own
        whose |= {each.subject.casefold() for each in planned}
    mine = [each for each in planned if each.subject.casefold() in whose and not each.superseded_at]
    if name != "?":
        words = normalize_value(name).split()
        said = [(normalize_value(each.slot.partition(":")[2]).split(), each) for each in mine]
        mine = [each for own, each in said if own[-1:] == words[-1:] and set(words) <= set(own)]
    slots = {each.slot for each in mine}
    return mine[-1] if len(slots) == 1 else None


def name_event(fact: Fact, named: Fact) -> Fact:
    """The new date of an event under its known slot, with what the old value says beside the date (a flight's code)."""
    if not fact.value:  # it was cancelled
        return fact.model_copy(update={"slot": named.slot, "subject": named.subject})
    _date, _, more = named.value.partition(", ")
    value = f"{fact.value}, {more}" if more and "," not in fact.value else fact.value
    event = named.slot.partition(":")[2]
    claim = f"{fact.subject}'s {event} is on {value}" if fact.slot.endswith(":?") else fact.claim
    return fact.model_copy(update={"slot": named.slot, "value": value, "claim": claim, "claim_hash": hash_claim(claim)})


async def read_beliefs(context: MemoryContext, channel: str, pending: Collection[Fact]) -> list[Fact]:
    """Every belief of a channel, those of the same write last."""
    where = Where(kinds=("Fact",), channels=(channel,), dedup_prefix=SLOT_KEY_PREFIX)
    stored = await context.engine.log.find(context.scope, where, limit=MAX_BELIEFS_PER_SLOT)
    replaced = {fact.id for fact in pending}
    found = [record for record in stored if isinstance(record, Fact) and record.id not in replaced]
    return [*found, *(fact for fact in pending if fact.slot and fact.channel == channel)]


async def _find_owner(context: MemoryContext, draft: Fact, pending: Collection[Fact]) -> str:
    """The only known subject of a slot of things: "the staging server" is Heron's where nothing else has one."""
    known = [fact for fact in await read_beliefs(context, draft.channel, pending) if fact.slot == draft.slot]
    owners = {fact.subject for fact in known if fact.subject != USER_SUBJECT}
    return owners.pop() if len(owners) == 1 else THING_SUBJECT


def order_by_word(fact: Fact) -> tuple[datetime, int, str]:
    """The sort key by which the oldest word comes first; what is not stored yet is the newest of its moment."""
    return to_belief(fact).said_at, fact.seq or NOT_STORED_YET, fact.id


def to_belief(fact: Fact) -> Belief:
    """A stored fact as the table sees it."""
    said = fact.said_at or fact.recorded_at
    assert said is not None, "a fact that is stored or about to be"
    retired: Any = (fact.reason or "wrong") if fact.superseded_at is not None else ""
    return Belief(
        key=fact.id,
        subject=fact.subject,
        slot=fact.slot,
        value=fact.value,
        said_at=said,
        first_said_at=fact.first_said_at or said,
        since=fact.valid_from,
        until=fact.valid_to,
        is_planned=fact.temporal_context == "future",
        is_denied=fact.is_denied,
        ground=find_ground(fact),
        doubted_at=fact.in_doubt_since,
        retired=retired if retired in ("", "refined", "given up", "came true") else "wrong",
    )


def find_ground(fact: Fact) -> Ground:
    """How well a fact is founded, by how sure it was said and by whose word it is."""
    if fact.certainty == DOUBTFUL:
        return Ground.DOUBTFUL
    if is_inferred(fact.certainty, fact.source):
        return Ground.INFERRED
    return Ground.REPORTED if fact.certainty == "reported" or fact.source in REPORTING_SOURCES else Ground.SAID


def _to_claim(draft: Fact, slot: NamedSlot, words: ClaimWords, said_at: datetime) -> Claim:
    tense: Tense = "planned" if draft.temporal_context == "future" else "current"
    has_ended = draft.valid_to is not None and draft.valid_to <= said_at
    if words.operation == "is" and (draft.temporal_context == "past" or has_ended):
        tense = "past"
    return Claim(
        subject=draft.subject,
        slot=slot,
        value=draft.value,
        said_at=said_at,
        tense=tense,
        operation=words.operation,
        mark=words.mark,
        since=draft.valid_from,
        until=draft.valid_to,
        ground=find_ground(draft),
        is_subject_unsure=words.is_subject_unsure,
    )


def _apply_decision(
    decision: Settlement, stored: Mapping[str, Fact], draft: Fact, new_id: Any, now: datetime
) -> list[Fact]:
    """The facts after a decision, the new or repeated one first."""
    added = [each for each in decision.writes if not each.key]
    new = [apply_belief(draft, each).model_copy(update={"id": new_id()}) for each in added]
    successor = new[-1].id if new else None
    changed = []
    for belief in decision.writes:
        if belief.key:
            old = stored[belief.key]
            changed.append(_change_fact(old, belief, draft, successor, now, decision.action))
    replaced = next((fact.id for fact in changed if fact.superseded_by), None)
    new = [fact.model_copy(update={"supersedes": replaced}) for fact in new]
    return [*new, *changed]


def _change_fact(old: Fact, belief: Belief, draft: Fact, successor: str | None, now: datetime, action: str) -> Fact:
    fact = apply_belief(old, belief)
    if belief.retired:
        gone = {"superseded_at": now, "reason": belief.retired}
        return fact.model_copy(update={**gone, "superseded_by": successor, "status": Status.SUPERSEDED})
    if belief.until != old.valid_to and belief.until is not None:
        by = {"superseded_by": successor, "status": Status.SUPERSEDED} if successor and not draft.is_denied else {}
        return fact.model_copy(update=by)
    return add_sources(fact, draft) if action == "reinforce" else fact


def apply_belief(fact: Fact, belief: Belief) -> Fact:
    """A fact with the interval and the words of a belief; its claim stays, unless the value became more exact."""
    tense = "future" if belief.is_planned else "past" if belief.until and belief.until <= belief.said_at else "current"
    same = is_same_value(fact.value, belief.value)
    claim = fact.claim if same else fact.claim.replace(fact.value, belief.value)
    return fact.model_copy(
        update={
            "claim": claim,
            "claim_hash": hash_claim(claim),
            "value": fact.value if same else belief.value,
            "is_denied": belief.is_denied,
            "temporal_context": tense,
            "valid_from": belief.since,
            "valid_to": belief.until,
            "said_at": belief.said_at,
            "first_said_at": belief.first_said_at,
        }
    )


def add_sources(known: Fact, fact: Fact) -> Fact:
    """A belief said again: with the new sources, resting on what it rests on by this newest word."""
    lists = ("source_turn_ids", "source_spans", "entity_ids", "tags")
    more = {name: tuple(dict.fromkeys((*getattr(known, name), *getattr(fact, name)))) for name in lists}
    stronger = fact if find_ground(fact) > find_ground(known) else known
    ground = {"certainty": stronger.certainty, "source": stronger.source}
    ends = {name: getattr(known, name) or getattr(fact, name) for name in RELATION_END_FIELDS}
    if stronger.certainty != DOUBTFUL:
        more["tags"] = tuple(tag for tag in more["tags"] if not tag.startswith(DOUBT_TAG))
    return known.model_copy(
        update={
            **more,
            **ground,
            **ends,
            "depends_on": fact.depends_on,
            "stale_since": None,
            "confidence": max(known.confidence, fact.confidence),
        }
    )


def _find_answer(known: Sequence[Fact], draft: Fact) -> Fact | None:
    same: Iterable[Fact] = (fact for fact in known if is_same_value(fact.value, draft.value))
    return next(iter(same), known[-1] if known else None)


async def _ask(context: MemoryContext, draft: Fact, decision: Settlement, against: Fact | None) -> Review | None:
    """The review of a claim; None where the same question is open already."""
    review = _build_review(context, draft, decision, against)
    where = Where(kinds=("Review",), channels=(review.channel,), dedup_keys=(review.dedup_key(),))
    return None if await context.engine.log.count(context.scope, where) else review


def _build_review(context: MemoryContext, draft: Fact, decision: Settlement, against: Fact | None) -> Review:
    """The question for a person: which of two claims holds, or who a claim is about."""
    fields = draft.model_dump(
        mode="json", exclude={*Fact.NON_PAYLOAD_FIELDS, "claim_hash", "status", "reason", *RELATION_END_FIELDS}
    )
    proposed = {name: value for name, value in fields.items() if value not in (None, "", [], ()) and value is not False}
    doubt = f"Known: {against.claim!r}." if against else f"Which {draft.subject} is meant?"
    return build_record(
        Review,
        id=context.engine.ids.new_id(),
        channel=draft.channel,
        about="contradiction" if decision.cause == "contradiction" else "same_entity",
        question=f"Is it so that {draft.claim!r}? {doubt}",
        proposed=proposed,
        record_ids=() if against is None else (against.id,),
        source_turn_ids=draft.source_turn_ids,
    )
