"""Facts: learned, changed, superseded, withdrawn, with their history."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Annotated, Any, TypedDict, Unpack

from agentmem.beliefs.slots import find_slot
from agentmem.core.arguments import check_arguments
from agentmem.core.changes import Change, WriteAttempt
from agentmem.core.clock import to_utc
from agentmem.core.lifecycle import DOUBT_TAG, DOUBTFUL
from agentmem.core.plain_values import describe_value
from agentmem.core.record import Key, MemoryType, Record, Status, TemporalContext, Tier
from agentmem.core.records import PROFILE_ID, Fact, Turn, build_profile, build_record, replace_validated
from agentmem.core.truth_maintenance import read_premises
from agentmem.errors import InvalidRecord
from agentmem.memory.context import MemoryContext
from agentmem.memory.read_audit import audit_read
from agentmem.memory.semantic.beliefs import ClaimReader, ClaimWords, name_user, resolve_subject, settle_fact
from agentmem.memory.semantic.entities import follow_merges
from agentmem.memory.semantic.slot_relations import find_ended_relations, name_relation_ends
from agentmem.stores.values import Where
from agentmem.text.normalization import hash_claim


async def find_global_copies(context: MemoryContext, records: Iterable[Record]) -> list[Fact]:
    """The copies that depend on these facts only; a copy with sources of its own is independent."""
    spread = {each.promoted_to: each for each in records if isinstance(each, Fact) and each.promoted_to}
    found = await context.engine.log.read_records("Fact", list(spread), context.scope) if spread else []
    return [copy for copy in found if isinstance(copy, Fact) and _is_pure_copy(copy, spread[copy.id])]


def _is_pure_copy(copy: Fact, fact: Fact) -> bool:
    return copy.promoted_from == fact.id and set(copy.source_turn_ids) <= set(fact.source_turn_ids)


class FactFields(TypedDict, total=False):
    """What may be said of a fact beside its claim; see `Fact`."""

    confidence: Annotated[float, "0 to 1."]
    certainty: str
    source: str
    subject: Annotated[str, "The subject of a belief: user, or a name."]
    temporal_context: Annotated[TemporalContext, "current, past or future."]
    salience: Annotated[float, "0 to 1."]
    importance: Annotated[float, "0 to 1. From `decay.spare_importance` (.8) on the fact is never put away by itself."]
    tier: Annotated[Tier, "long (only ranks lower with time) or short (fades)."]
    tags: Sequence[str]
    memory_type: Annotated[MemoryType, "fact, preference or context."]
    trust: float
    entity_ids: Sequence[str]
    source_turn_ids: Sequence[str]
    depends_on: Annotated[Sequence[str], "Ids of facts that this one rests on."]
    slot: Annotated[str, "The slot that it fills, such as home; needs a value."]
    value: str
    said_at: datetime | None
    valid_from: datetime | None
    valid_to: datetime | None


_PLAIN_WORDS = ClaimWords()
# What a corrected belief keeps of the wrong one beside its entities, tags, type, tier and subject.
CORRECTED_FIELDS = (
    "certainty",
    "confidence",
    "depends_on",
    "importance",
    "salience",
    "source",
    "source_turn_ids",
    "trust",
    "valid_from",
    "valid_to",
)


@check_arguments
@dataclass
class Facts:
    """The verbs over facts. A sentence given by hand fills the slot that the reader finds in it."""

    _context: MemoryContext
    _read_claim: ClaimReader | None = None

    async def learn_fact(self, claim: str, *, idempotency_key: str | None = None, **fields: Unpack[FactFields]) -> Fact:
        """Store a fact. The same claim again, while it is current, gains the new sources instead of a second copy.

        Known to be true from an earlier moment, or for the first time from a moment at all, it corrects the first one.
        A plain sentence about a slot, as "The user lives in Oslo", is a belief; what is given of a slot wins.
        """
        given = {name: value for name, value in _check_fields(fields).items() if value is not None}
        said = await self._fill_slot(claim, given)

        async def make(write: WriteAttempt) -> Change | Fact:
            change, unchanged = await self._build_spoken_change(write, claim, given, said)
            return unchanged or change

        asked = {"claim": claim, **given}
        return await self._context.write(Fact, "learn_fact", make, idempotency_key=idempotency_key, given=asked)

    async def _build_spoken_change(
        self, write: WriteAttempt, claim: str, given: Mapping[str, Any], said: tuple[Mapping[str, Any], ClaimWords]
    ) -> tuple[Change, Fact | None]:
        """The Change of a sentence given by hand; what ends or denies nothing that is known stays an open claim."""
        change, unchanged = await self.build_learn_change(write, claim, said[0], words=said[1])
        if said[1].operation != "is" and not change.upserts:
            return await self.build_learn_change(write, claim, given)
        return change, unchanged

    async def _fill_slot(self, claim: str | None, given: Mapping[str, Any]) -> tuple[Mapping[str, Any], ClaimWords]:
        """What was given, with what the claim plainly says of the slot; nothing where slot and value are given."""
        if self._read_claim is None or not claim or (given.get("slot") and given.get("value")):
            return given, _PLAIN_WORDS
        now = await self._context.engine.now(self._context.scope)
        spoken = await asyncio.to_thread(self._read_claim, claim, now)
        if spoken is None or any(
            given.get(name, spoken.fields[name]) != spoken.fields[name] for name in ("slot", "value")
        ):
            return given, _PLAIN_WORDS
        return {**spoken.fields, **given}, spoken.words

    async def _fill_value(self, claim: str | None, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """As `_fill_slot`, for a claim that takes the place of another: it must say what is so."""
        said, words = await self._fill_slot(claim, given)
        return said if words.operation == "is" else given

    async def build_learn_change(
        self,
        write: WriteAttempt,
        claim: str,
        given: Mapping[str, Any],
        channel: str | None = None,
        *,
        words: ClaimWords = _PLAIN_WORDS,
    ) -> tuple[Change, Fact | None]:
        """The Change that makes a claim known, and the fact that it leaves as it was, if it does."""
        fact, named = await self._build_draft(claim, given, channel)
        if fact.slot:
            return await self._build_belief_change(write, fact, named, words)
        if fact.value:
            raise InvalidRecord("slot: a value needs the slot that it fills, such as home or likes", field="slot")
        known = await self._find_duplicate(fact)
        if known is None:
            fact = fact.model_copy(update={"id": self._context.engine.ids.new_id()})
            return write.build_change(fact, expected_versions=named), None
        merged, named = await self._merge_restatement(known, fact, named)
        if _starts_earlier(fact, known):
            earlier = merged.model_copy(update={"valid_from": fact.valid_from})
            return await self._build_successor_change(write, known, earlier, named, is_correction=True), None
        change = write.build_change(merged, expected_versions={known.key: known.seq, **named})
        return change, known if merged == known else None

    async def _build_belief_change(
        self, write: WriteAttempt, fact: Fact, named: Mapping[Key, int], words: ClaimWords = _PLAIN_WORDS
    ) -> tuple[Change, Fact | None]:
        """The Change that a claim about a slot makes, by the decision table; see `agentmem.beliefs.table`."""
        head = (await self._context.engine.log.head(self._context.scope)).seq
        fact = await name_relation_ends(self._context, fact)
        settled = await settle_fact(self._context, fact, words, write.now)
        puts: list[Record] = list(settled.facts or ([settled.unchanged] if settled.unchanged else []))
        seen: dict[Key, int | None] = {put.key: put.seq or None for put in puts}
        puts += [settled.review] if settled.review else []
        ended = await find_ended_relations(self._context, settled.facts)
        puts += ended
        expected = {**named, **seen, **{edge.key: edge.seq for edge in ended}}
        # two claims about one slot at the same moment must see each other
        is_own = any(each.subject_entity_id == PROFILE_ID for each in settled.facts)
        profile = (build_profile(),) if is_own else ()
        change = write.build_change(
            *puts, inserts_if_absent=profile, expected_versions=expected, no_new_since={"Fact": head}
        )
        return change, settled.unchanged if settled.review is None else None

    async def _build_draft(
        self, claim: str, fields: Mapping[str, Any], channel: str | None = None
    ) -> tuple[Fact, dict[Key, int]]:
        fact = build_record(Fact, channel=channel or self._context.scope.channel, claim=claim, **fields)
        fact, named = await self._resolve_references(fact, fields)
        return name_user(fact.model_copy(update={"claim_hash": hash_claim(claim)})), named

    async def _resolve_references(self, fact: Fact, given: Mapping[str, Any]) -> tuple[Fact, dict[Key, int]]:
        """The fact with merged entities resolved, and the state of all records that it names.

        A write expects that state, or one could be merged or erased in between. Refuses an end before the beginning,
        unknown ids, and premises that rest on the fact itself.
        """
        named: dict[Key, int] = {}
        if fact.valid_from and fact.valid_to and fact.valid_to <= fact.valid_from:
            raise InvalidRecord("valid_to must be later than valid_from", field="valid_to")
        for name, kind in (("entity_ids", "Entity"), ("source_turn_ids", "Turn"), ("depends_on", "Fact")):
            if name in given:
                stored, expected = await self._context.resolve_existing_ids(name, kind, getattr(fact, name))
                fact, named = fact.model_copy(update={name: tuple(stored)}), {**named, **expected}
        about, passed = await follow_merges(self._context, fact.entity_ids)
        resting = await self._check_premise_cycle(fact) if "depends_on" in given and fact.id else {}
        named = {**passed, **resting, **named}  # of two looks at one record, the first is what the checks rest on
        return fact.model_copy(update={"entity_ids": tuple(dict.fromkeys(about))}), named

    async def _check_premise_cycle(self, fact: Fact) -> dict[Key, int]:
        """Refuse premises that rest, at any depth, on the fact itself; returns the state of all of them."""

        async def read(ids: Sequence[str]) -> Sequence[Record]:
            return await self._context.engine.log.read_records("Fact", ids, self._context.scope)

        resting = await read_premises([fact], read)
        for name, other in resting.items():
            if fact.id in other.depends_on:
                raise InvalidRecord(f"depends_on: {name!r} itself rests on {fact.id!r}", field="depends_on")
        return {other.key: other.seq for other in resting.values() if other.id != fact.id}

    async def _merge_restatement(
        self, known: Fact, fact: Fact, expected_versions: Mapping[Key, int]
    ) -> tuple[Fact, dict[Key, int]]:
        """The known fact with the additions of this one, and the state of all it names; its premises form no cycle."""
        merged = merge_sources(known, fact)
        resting = await self._check_premise_cycle(merged) if merged.depends_on else {}
        return merged, {**resting, **expected_versions}

    async def _find_duplicate(self, fact: Fact) -> Fact | None:
        """The current fact that says the same in this channel."""
        where = Where(kinds=("Fact",), channels=(fact.channel,), dedup_keys=(fact.dedup_key(),))
        for record in await self._context.engine.log.find(self._context.scope, where, limit=1):
            return record if isinstance(record, Fact) else None
        return None

    @audit_read
    async def get_fact(self, fact_id: str) -> Fact:
        """The fact of this id, retired or not; NotFound when this scope has none."""
        return await self._context.get_one(Fact, fact_id)

    @audit_read
    async def facts(self, where: Mapping[str, Any] | None = None, *, limit: int = 1000) -> list[Fact]:
        """Facts of the readable channels, oldest first: the current ones, or those that match `where`.

        `where` maps fields of Fact to the value wanted (one of `tags`, `entity_ids`, `source_turn_ids`, … for lists);
        `as_of` asks for what was true then, `retired: True` includes what is no longer true or known.
        """
        if limit < 0:
            raise InvalidRecord(f"limit must be 0 or more, got {limit}", field="limit")
        asked = dict(where or {})
        as_of = asked.pop("as_of", None)
        moment = await self._context.engine.now(self._context.scope) if as_of is None else to_utc(as_of, "as_of")
        retired = bool(asked.pop("retired", False)) or "status" in asked
        for name in asked:
            if name not in Fact.model_fields:
                raise InvalidRecord(f"facts(where): Fact has no field {name!r}", field=name)
        out = []
        for record in await self._context.list_readable("Fact"):
            if not isinstance(record, Fact) or not _matches(record, asked):
                continue
            begun = as_of is None or record.valid_from is None or record.valid_from <= moment
            if retired or (begun and is_current(record, moment)):
                out.append(record)
        return out[:limit]

    async def update_fact(
        self,
        fact_id: str,
        *,
        claim: str | None = None,
        idempotency_key: str | None = None,
        **fields: Unpack[FactFields],
    ) -> Fact:
        """Correct a fact. A changed claim or world time makes a new fact that supersedes the wrong one; else a version.

        A fact corrected before passes the call on to what corrected it, so that one of them remains. Another value of a
        slot is a correction by the decision table; without a claim the old one says the new value.
        """
        given = _check_fields(fields) | ({} if claim is None else {"claim": claim})
        spoken = await self._fill_value(claim, given)

        async def make(write: WriteAttempt) -> Change:
            old = await self.get_current_successor(fact_id, corrections_only=True)
            said = spoken if claim != old.claim else given
            if _is_other_belief(old, said):
                return await self._build_corrected_belief_change(write, old, said)
            # another claim without a value says nothing sure of the slot
            open_claim = {"slot": "", "value": ""} if old.slot and claim not in (None, old.claim) else {}
            changed = name_user(replace_validated(old, **{**open_claim, **said}))
            new, named = await self._resolve_references(changed, given)
            if (new.claim, new.valid_from, new.valid_to) == (old.claim, old.valid_from, old.valid_to):
                return write.build_change(new, expected_versions={**named, old.key: old.seq})
            return await self._build_successor_change(write, old, new, named, is_correction=True)

        return await self._context.write(
            Fact, "update_fact", make, idempotency_key=idempotency_key, given={"id": fact_id, **given}
        )

    async def _build_corrected_belief_change(self, write: WriteAttempt, old: Fact, given: Mapping[str, Any]) -> Change:
        """Another value in the place of a wrong one, with all else that the old fact says."""
        value = given.get("value") or old.value
        said = old.claim.replace(old.value, value) if old.value else old.claim
        carried = {name: getattr(old, name) for name in CORRECTED_FIELDS if getattr(old, name) not in (None, "", ())}
        fields = {**carried, **{name: field for name, field in given.items() if name != "claim"}, "value": value}
        return await self.build_supersede_change(write, old, given.get("claim") or said, fields, is_correction=True)

    async def supersede_fact(
        self,
        fact_id: str,
        claim: str,
        *,
        is_correction: Annotated[bool, "The old claim was never true, rather than true until now."] = False,
        idempotency_key: str | None = None,
        **fields: Unpack[FactFields],
    ) -> Fact:
        """Replace a fact by another claim, because the world changed or the fact was wrong; returns the new fact.

        The world changed (default): the old fact ends where the new one begins (`valid_from`, now when not given) and
        `as_of` before still finds it. It was `is_correction`: it is retired in record time, only `known_at` before
        finds it. A fact superseded before passes the call on to its current successor, so that one current fact
        remains; where another current fact says the same already, that one is the successor.
        """
        given = {name: value for name, value in _check_fields(fields).items() if value is not None}
        said = await self._fill_value(claim, given)

        async def make(write: WriteAttempt) -> Change:
            return await self.build_supersede_change(
                write, await self.get_current_successor(fact_id), claim, said, is_correction=is_correction
            )

        return await self._context.write(
            Fact,
            "supersede_fact",
            make,
            idempotency_key=idempotency_key,
            given={"id": fact_id, "claim": claim, "wrong": is_correction, **given},
        )

    async def build_supersede_change(
        self,
        write: WriteAttempt,
        old: Fact,
        claim: str,
        given: Mapping[str, Any],
        *,
        is_correction: bool,
        channel: str | None = None,
    ) -> Change:
        """The Change that puts a claim in the place of a fact, in the fact's channel unless another is given."""
        carried = {name: getattr(old, name) for name in ("entity_ids", "tags", "memory_type", "tier", "subject")}
        carried |= {"slot": old.slot} if old.slot and given.get("value") else {}
        begin = {} if is_correction else {"valid_from": given.get("valid_from") or write.now}
        draft, named = await self._build_draft(claim, {**carried, **begin, **given}, channel or old.channel)
        if draft.slot and find_slot(draft.slot, self._context.engine.settings.slots).kind != "set":
            return await self._build_belief_successor_change(write, old, draft, named, is_correction=is_correction)
        if draft.slot:
            draft = draft.model_copy(update={"subject": await resolve_subject(self._context, draft)})
        known = await self._find_duplicate(draft)
        if known is None:
            return await self._build_successor_change(write, old, draft, named, is_correction=is_correction)
        merged, named = await self._merge_restatement(known, draft, named)
        if known.id == old.id:
            return write.build_change(merged, expected_versions={**named, old.key: old.seq})
        ending = [old, *(copy for copy in await self._find_dependent_copies(old) if copy.id != known.id)]
        begins = draft.valid_from or write.now
        ended = [_retire(each, merged, begins=begins, is_correction=is_correction, now=write.now) for each in ending]
        seen = {each.key: each.seq for each in (*ending, known)}
        return write.build_change(merged, *ended, expected_versions={**seen, **named, old.key: old.seq})

    async def _build_belief_successor_change(
        self, write: WriteAttempt, old: Fact, draft: Fact, named: Mapping[Key, int], *, is_correction: bool
    ) -> Change:
        """A value in the place of another one by the decision table, so that all that the slot held ends with it."""
        words = ClaimWords(mark="correct" if is_correction else "change")
        change, unchanged = await self._build_belief_change(write, draft, {**named, old.key: old.seq}, words)
        new = next((put for put in change.upserts if isinstance(put, Fact)), unchanged)
        ending = [old, *await self._find_dependent_copies(old)]
        left = [each for each in ending if each.key not in {put.key for put in change.upserts}]
        if new is None or not left:
            return change
        begins = draft.valid_from or write.now
        retired = [_retire(each, new, begins=begins, is_correction=is_correction, now=write.now) for each in left]
        seen = {each.key: each.seq for each in left}
        expected = {**seen, **change.expected_versions}
        return replace(change, upserts=(*change.upserts, *retired), expected_versions=expected)

    async def _find_dependent_copies(self, fact: Fact) -> list[Fact]:
        """What ends with a fact: its copy in `_global`, unless that is independent."""
        found = await find_global_copies(self._context, [fact])
        return [copy for copy in found if copy.superseded_at is None and copy.superseded_by is None]

    async def _build_successor_change(
        self, write: WriteAttempt, old: Fact, draft: Fact, expected_versions: Mapping[Key, int], *, is_correction: bool
    ) -> Change:
        past = (
            is_correction and old.superseded_by is not None and draft.valid_to is not None
        )  # corrected, but over all the same
        stamp = {
            "id": self._context.engine.ids.new_id(),
            "claim_hash": hash_claim(draft.claim),
            "supersedes": old.id,
            "superseded_by": old.superseded_by if past else None,
            "superseded_at": None,
            "status": Status.SUPERSEDED if past else Status.ACTIVE,
        }
        new = draft.model_copy(update=stamp)
        ending = [old, *await self._find_dependent_copies(old)]
        begins = new.valid_from or write.now
        ended = [_retire(each, new, begins=begins, is_correction=is_correction, now=write.now) for each in ending]
        seen = {each.key: each.seq for each in ending}
        return write.build_change(new, *ended, expected_versions={**seen, **expected_versions, old.key: old.seq})

    async def get_current_successor(self, fact_id: str, *, corrections_only: bool = False) -> Fact:
        """The end of the chain of successors; with `corrections_only` only of those that put right what was wrong."""
        fact, seen = await self._context.get_one(Fact, fact_id), {fact_id}
        while fact.superseded_by is not None and fact.superseded_by not in seen:
            if corrections_only and fact.superseded_at is None:
                break
            seen.add(fact.superseded_by)
            found = await self._context.engine.log.read_records("Fact", [fact.superseded_by], self._context.scope)
            if not found or not isinstance(found[0], Fact):
                break
            fact = found[0]
        if fact.status is Status.FORGOTTEN:
            raise InvalidRecord(
                f"fact {fact.id!r} was forgotten; restore it first, or learn the new claim", field="fact_id"
            )
        return fact

    async def boost_salience(self, fact_id: str, by: float = 0.1, *, idempotency_key: str | None = None) -> Fact:
        """Raise (or lower) the salience of a fact; the result stays within 0 and 1."""
        step: object = by
        if not isinstance(step, int | float) or not math.isfinite(step):
            raise InvalidRecord(f"by must be a finite number, got {describe_value(by)}", field="by")

        async def make(write: WriteAttempt) -> Change:
            old = await self._context.get_one(Fact, fact_id)
            new = old.model_copy(update={"salience": min(1.0, max(0.0, old.salience + by))})
            return write.build_change(new, expected_versions={old.key: old.seq})

        return await self._context.write(
            Fact, "boost_salience", make, idempotency_key=idempotency_key, given={"id": fact_id, "by": by}
        )

    @audit_read
    async def provenance(self, fact_id: str) -> list[Turn]:
        """The turns a fact rests on, in the order it names them, those of readable channels; [] when it names none."""
        fact, readable = await self._context.get_one(Fact, fact_id), self._context.scope.readable_channels()
        found = await self._context.engine.log.read_records("Turn", fact.source_turn_ids, self._context.scope)
        return [turn for turn in found if isinstance(turn, Turn) and turn.channel in readable]

    @audit_read
    async def history(self, fact_id: str) -> list[Fact]:
        """Every kept version of a fact, and of the facts it superseded or was superseded by, oldest first.

        Those of channels that the scope does not read are left out.
        """
        keys, queue, out, readable = {fact_id}, [fact_id], [], self._context.scope.readable_channels()
        await self._context.get_one(Fact, fact_id)
        while queue:
            versions = await self._context.engine.log.versions(("Fact", queue.pop()), self._context.scope)
            for version in versions:
                if isinstance(version, Fact) and version.channel in readable:
                    out.append(version)
                    for linked in (version.supersedes, version.superseded_by):
                        if linked and linked not in keys:
                            keys.add(linked)
                            queue.append(linked)
        return sorted(out, key=lambda fact: (fact.seq, fact.id))


def is_current(fact: Fact, moment: datetime) -> bool:
    """Whether a fact is known today and true at a moment."""
    if fact.superseded_at is not None or fact.status in (Status.FORGOTTEN, Status.ARCHIVED):
        return False
    return fact.valid_to is None or fact.valid_to > moment


def _is_other_belief(old: Fact, given: Mapping[str, Any]) -> bool:
    """Whether an update makes another belief of a fact: another slot, value or subject of one that has a value."""
    now = {name: given.get(name) or getattr(old, name) for name in ("slot", "value", "subject")}
    is_changed = any(now[name] != getattr(old, name) for name in now)
    return bool(now["slot"] and given.keys() & now.keys() and is_changed and now["value"])


def _check_fields(fields: FactFields) -> dict[str, Any]:
    for name, value in fields.items():
        if name not in FactFields.__annotations__:
            known = ", ".join(sorted(FactFields.__annotations__))
            raise InvalidRecord(f"a fact has no field {name!r} to set; it may have {known}", field=name)
        if isinstance(value, str) and name in ("tags", "entity_ids", "source_turn_ids", "depends_on"):
            raise InvalidRecord(f"{name} must be a list of strings, got a string", field=name)
    return {name: tuple(value) if isinstance(value, list | set) else value for name, value in fields.items()}


def _matches(record: Record, criteria: Mapping[str, Any]) -> bool:
    for name, wanted in criteria.items():
        have = getattr(record, name)
        if isinstance(have, tuple):
            if not ({wanted} if isinstance(wanted, str) else set(wanted)) <= set(have):
                return False
        elif have != wanted:
            return False
    return True


def merge_sources(known: Fact, fact: Fact) -> Fact:
    """The known fact, said again: with the new sources, and resting on what it rests on by this newest word."""
    turns = tuple(dict.fromkeys((*known.source_turn_ids, *fact.source_turn_ids)))
    entities = tuple(dict.fromkeys((*known.entity_ids, *fact.entity_ids)))
    tags = tuple(dict.fromkeys((*known.tags, *fact.tags)))
    spans = tuple(dict.fromkeys((*known.source_spans, *fact.source_spans)))
    more: dict[str, Any] = {"source_turn_ids": turns, "source_spans": spans, "entity_ids": entities, "tags": tags}
    ground: dict[str, Any] = {"depends_on": fact.depends_on, "stale_since": None}
    said = [each.importance for each in (known, fact) if each.importance is not None]
    rank = {"confidence": max(known.confidence, fact.confidence), "importance": max(said, default=None)}
    if known.certainty == DOUBTFUL and fact.certainty != DOUBTFUL:  # said again without doubt
        more["tags"] = tuple(tag for tag in tags if not tag.startswith(DOUBT_TAG))
        ground["certainty"] = fact.certainty
    return known.model_copy(update={**more, **ground, **rank})


def _starts_earlier(fact: Fact, known: Fact) -> bool:
    """Whether a fact learned again says more of its beginning than is known: the first date, or an earlier one."""
    return fact.valid_from is not None and (known.valid_from is None or fact.valid_from < known.valid_from)


def _retire(old: Fact, new: Fact, *, begins: datetime, is_correction: bool, now: datetime) -> Fact:
    """A fact after another one replaced it: ended in the world, or known to be wrong."""
    end = begins if old.valid_to is None else min(old.valid_to, begins)
    never_true = old.valid_from is not None and end <= old.valid_from
    retired = {"superseded_at": old.superseded_at or now} if is_correction or never_true else {"valid_to": end}
    return old.model_copy(update={**retired, "superseded_by": new.id, "status": Status.SUPERSEDED})
