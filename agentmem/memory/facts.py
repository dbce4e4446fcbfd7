"""Facts with both times: learned, corrected, superseded. Every change of mind keeps what was believed before."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypedDict, Unpack

from agentmem.errors import InvalidRecord
from agentmem.memory import Seat, first_of
from agentmem.memory.copies import copies_of
from agentmem.memory.entities import ends
from agentmem.model.changes import Change, Write, fingerprint
from agentmem.model.clock import aware
from agentmem.model.premises import with_premises
from agentmem.model.records import Fact, Key, Record, Status, Turn, build, changed
from agentmem.stores import Where
from agentmem.text.names import claim_hash


class FactFields(TypedDict, total=False):
    """What may be said of a fact beside its claim; see `Fact`."""

    confidence: float
    certainty: str
    source: str
    subject: str
    temporal_context: str
    salience: float
    importance: float
    tier: str
    tags: Sequence[str]
    memory_type: str
    trust: float
    entity_ids: Sequence[str]
    source_turn_ids: Sequence[str]
    depends_on: Sequence[str]
    valid_from: datetime | None
    valid_to: datetime | None


@dataclass
class Facts:
    """The verbs over facts."""

    seat: Seat

    async def learn_fact(self, claim: str, *, key: str | None = None, **fields: Unpack[FactFields]) -> Fact:
        """Store a fact. The same claim again, while it is current, gains the new sources instead of a second copy.

        Known to be true from an earlier moment, or for the first time from a moment at all, it corrects the first one.
        """
        given = {name: value for name, value in _checked(fields).items() if value is not None}
        payload = fingerprint(claim=claim, **given)

        async def make(write: Write) -> Change | None:
            change, unchanged = await self.change_to_learn(write, claim, given)
            if unchanged is not None and key is None:  # with a key, a version that changes nothing notes its use
                found.append(unchanged)
                return None
            return change

        found: list[Fact] = []
        entry = await self.seat.resources.write(
            self.seat.scope, "learn_fact", make, kind="Fact", key=key, payload=payload
        )
        return first_of(entry, Fact) if entry is not None else found[-1]

    async def change_to_learn(
        self, write: Write, claim: str, given: Mapping[str, Any], channel: str | None = None
    ) -> tuple[Change, Fact | None]:
        """The Change that makes a claim known, and the fact that it leaves as it was, if it does."""
        fact, named = await self._draft(claim, given, channel)
        known = await self._same(fact)
        if known is None:
            fact = fact.model_copy(update={"id": self.seat.resources.ids.new()})
            return write.change(fact, expects=named), None
        merged, named = await self._said_again(known, fact, named)
        if _starts_earlier(fact, known):
            earlier = merged.model_copy(update={"valid_from": fact.valid_from})
            return await self._succession(write, known, earlier, named, wrong=True), None
        change = write.change(merged, expects={known.key: known.seq, **named})
        return change, known if merged == known else None

    async def _draft(
        self, claim: str, fields: Mapping[str, Any], channel: str | None = None
    ) -> tuple[Fact, dict[Key, int]]:
        fact = build(Fact, channel=channel or self.seat.scope.channel, claim=claim, **fields)
        fact, named = await self._checked(fact, fields)
        return fact.model_copy(update={"claim_hash": claim_hash(claim)}), named

    async def _checked(self, fact: Fact, given: Mapping[str, Any]) -> tuple[Fact, dict[Key, int]]:
        """The fact, about what the entities that it names have become by merging, and where all stands that it names.

        A write expects it there, or it could be merged or erased in between. Refuses an end before the beginning, ids
        in what was given that are not stored, and premises that rest on the fact itself.
        """
        named: dict[Key, int] = {}
        if fact.valid_from and fact.valid_to and fact.valid_to <= fact.valid_from:
            raise InvalidRecord("valid_to must be later than valid_from", field="valid_to")
        for name, kind in (("entity_ids", "Entity"), ("source_turn_ids", "Turn"), ("depends_on", "Fact")):
            if name in given:
                stored, expected = await self.seat.locate(name, kind, getattr(fact, name))
                fact, named = fact.model_copy(update={name: tuple(stored)}), {**named, **expected}
        about, passed = await ends(self.seat, fact.entity_ids)
        resting = await self._check_circle(fact) if "depends_on" in given and fact.id else {}
        named = {**passed, **resting, **named}  # of two looks at one record, the first is what the checks rest on
        return fact.model_copy(update={"entity_ids": tuple(dict.fromkeys(about))}), named

    async def _check_circle(self, fact: Fact) -> dict[Key, int]:
        """Refuse premises that rest, at any depth, on the fact itself; where all of them stand."""

        async def read(ids: Sequence[str]) -> Sequence[Record]:
            return await self.seat.resources.log.get("Fact", ids, self.seat.scope)

        resting = await with_premises([fact], read)
        for name, other in resting.items():
            if fact.id in other.depends_on:
                raise InvalidRecord(f"depends_on: {name!r} itself rests on {fact.id!r}", field="depends_on")
        return {other.key: other.seq for other in resting.values() if other.id != fact.id}

    async def _said_again(
        self, known: Fact, fact: Fact, named: Mapping[Key, int]
    ) -> tuple[Fact, dict[Key, int]]:  # fmt: skip
        """The known fact with what this one adds, and where all stands that it names; its premises close no circle."""
        merged = with_sources(known, fact)
        resting = await self._check_circle(merged) if merged.depends_on else {}
        return merged, {**resting, **named}

    async def _same(self, fact: Fact) -> Fact | None:
        """The current fact that says the same in this channel."""
        where = Where(kinds=("Fact",), channels=(fact.channel,), key=(fact.unique(),))
        for record in await self.seat.resources.log.find(self.seat.scope, where, limit=1):
            return record if isinstance(record, Fact) else None
        return None

    async def get_fact(self, fact_id: str) -> Fact:
        """The fact of this id, retired or not; NotFound when this scope has none."""
        return await self._current(fact_id)

    async def _current(self, fact_id: str) -> Fact:
        record = await self.seat.one("Fact", fact_id)
        assert isinstance(record, Fact)
        return record

    async def facts(self, where: Mapping[str, Any] | None = None, *, limit: int = 1000) -> list[Fact]:
        """Facts of the readable channels, oldest first: the current ones, or those that match `where`.

        `where` maps fields of Fact to the value wanted (one of `tags`, `entity_ids`, `source_turn_ids`, … for lists);
        `as_of` asks for what was true then, `retired: True` includes what is no longer true or known.
        """
        if limit < 0:
            raise InvalidRecord(f"limit must be 0 or more, got {limit}", field="limit")
        asked = dict(where or {})
        as_of = asked.pop("as_of", None)
        moment = await self.seat.resources.now(self.seat.scope) if as_of is None else aware(as_of, "as_of")
        retired = bool(asked.pop("retired", False)) or "status" in asked
        for name in asked:
            if name not in Fact.model_fields:
                raise InvalidRecord(f"facts(where): Fact has no field {name!r}", field=name)
        out = []
        for record in await self.seat.all("Fact"):
            if not isinstance(record, Fact) or not _matches(record, asked):
                continue
            begun = as_of is None or record.valid_from is None or record.valid_from <= moment
            if retired or (begun and holds(record, moment)):
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

        A fact corrected before passes the call on to what corrected it, so that one of them remains.
        """
        given = _checked(fields) | ({} if claim is None else {"claim": claim})

        async def make(write: Write) -> Change:
            old = await self.latest(fact_id, corrected=True)
            new, named = await self._checked(changed(old, **given), given)
            if (new.claim, new.valid_from, new.valid_to) == (old.claim, old.valid_from, old.valid_to):
                return write.change(new, expects={**named, old.key: old.seq})
            return await self._succession(write, old, new, named, wrong=True)

        entry = await self.seat.resources.write(
            self.seat.scope, "update_fact", make, kind="Fact", key=idempotency_key,
            payload=fingerprint(id=fact_id, **given),
        )  # fmt: skip
        return first_of(entry, Fact)

    async def supersede_fact(
        self, fact_id: str, claim: str, *, wrong: bool = False, idempotency_key: str | None = None,
        **fields: Unpack[FactFields],
    ) -> Fact:  # fmt: skip
        """Replace a fact by another claim and return the new one.

        The world changed (default): the old fact ends where the new one begins (`valid_from`, now when not given) and
        `as_of` before still finds it. It was `wrong`: it is retired in record time, only `known_at` before finds it.
        A fact superseded before passes the call on to its current successor, so that one current fact remains; where
        another current fact says the same already, that one is the successor.
        """
        given = {name: value for name, value in _checked(fields).items() if value is not None}

        async def make(write: Write) -> Change:
            return await self.change_to_supersede(write, await self.latest(fact_id), claim, given, wrong=wrong)

        entry = await self.seat.resources.write(
            self.seat.scope, "supersede_fact", make, kind="Fact", key=idempotency_key,
            payload=fingerprint(id=fact_id, claim=claim, wrong=wrong, **given),
        )  # fmt: skip
        return first_of(entry, Fact)

    async def change_to_supersede(
        self, write: Write, old: Fact, claim: str, given: Mapping[str, Any], *, wrong: bool, channel: str | None = None
    ) -> Change:
        """The Change that puts a claim in the place of a fact, in the fact's channel unless another is given."""
        carried = {name: getattr(old, name) for name in ("entity_ids", "tags", "memory_type", "tier", "subject")}
        begin = {} if wrong else {"valid_from": given.get("valid_from") or write.now}
        draft, named = await self._draft(claim, {**carried, **begin, **given}, channel or old.channel)
        known = await self._same(draft)
        if known is None:
            return await self._succession(write, old, draft, named, wrong=wrong)
        merged, named = await self._said_again(known, draft, named)
        if known.id == old.id:
            return write.change(merged, expects={**named, old.key: old.seq})
        ending = [old, *(copy for copy in await self._copies(old) if copy.id != known.id)]
        begins = draft.valid_from or write.now
        ended = [_ended(each, merged, begins=begins, wrong=wrong, now=write.now) for each in ending]
        seen = {each.key: each.seq for each in (*ending, known)}
        return write.change(merged, *ended, expects={**seen, **named, old.key: old.seq})

    async def _copies(self, fact: Fact) -> list[Fact]:
        """What ends with a fact: its copy in `_global`, unless that stands by itself."""
        found = await copies_of(self.seat, [fact])
        return [copy for copy in found if copy.superseded_at is None and copy.superseded_by is None]

    async def _succession(
        self, write: Write, old: Fact, draft: Fact, named: Mapping[Key, int], *, wrong: bool
    ) -> Change:  # fmt: skip
        past = (
            wrong and old.superseded_by is not None and draft.valid_to is not None
        )  # corrected, but over all the same
        stamp = {
            "id": self.seat.resources.ids.new(), "claim_hash": claim_hash(draft.claim), "supersedes": old.id,
            "superseded_by": old.superseded_by if past else None, "superseded_at": None,
            "status": Status.SUPERSEDED if past else Status.ACTIVE,
        }  # fmt: skip
        new = draft.model_copy(update=stamp)
        ending = [old, *await self._copies(old)]
        begins = new.valid_from or write.now
        ended = [_ended(each, new, begins=begins, wrong=wrong, now=write.now) for each in ending]
        seen = {each.key: each.seq for each in ending}
        return write.change(new, *ended, expects={**seen, **named, old.key: old.seq})

    async def latest(self, fact_id: str, *, corrected: bool = False) -> Fact:
        """The end of the chain of successors; with `corrected` only of those that put right what was wrong."""
        fact, seen = await self._current(fact_id), {fact_id}
        while fact.superseded_by is not None and fact.superseded_by not in seen:
            if corrected and fact.superseded_at is None:
                break
            seen.add(fact.superseded_by)
            found = await self.seat.resources.log.get("Fact", [fact.superseded_by], self.seat.scope)
            if not found or not isinstance(found[0], Fact):
                break
            fact = found[0]
        if fact.status is Status.FORGOTTEN:
            raise InvalidRecord(
                f"fact {fact.id!r} was forgotten; restore it first, or learn the new claim", field="fact_id"
            )
        return fact

    async def boost_salience(self, fact_id: str, by: float = 0.1, *, idempotency_key: str | None = None) -> Fact:
        """Raise (or lower) how much a fact stands out; the result stays within 0 and 1."""
        step: object = by
        if not isinstance(step, int | float) or not math.isfinite(step):
            raise InvalidRecord(f"by must be a finite number, got {by!r}", field="by")

        async def make(write: Write) -> Change:
            old = await self._current(fact_id)
            new = old.model_copy(update={"salience": min(1.0, max(0.0, old.salience + by))})
            return write.change(new, expects={old.key: old.seq})

        entry = await self.seat.resources.write(
            self.seat.scope, "boost_salience", make, kind="Fact", key=idempotency_key,
            payload=fingerprint(id=fact_id, by=by),
        )  # fmt: skip
        return first_of(entry, Fact)

    async def provenance(self, fact_id: str) -> list[Turn]:
        """The turns a fact rests on, in the order it names them, those of readable channels; [] when it names none."""
        fact, readable = await self._current(fact_id), self.seat.scope.readable()
        found = await self.seat.resources.log.get("Turn", fact.source_turn_ids, self.seat.scope)
        return [turn for turn in found if isinstance(turn, Turn) and turn.channel in readable]

    async def history(self, fact_id: str) -> list[Fact]:
        """Every kept version of a fact, and of the facts it superseded or was superseded by, oldest first."""
        keys, queue, out = {fact_id}, [fact_id], []
        await self._current(fact_id)
        while queue:
            versions = await self.seat.resources.log.versions(("Fact", queue.pop()), self.seat.scope)
            for version in versions:
                if isinstance(version, Fact):
                    out.append(version)
                    for linked in (version.supersedes, version.superseded_by):
                        if linked and linked not in keys:
                            keys.add(linked)
                            queue.append(linked)
        return sorted(out, key=lambda fact: (fact.seq, fact.id))


def holds(fact: Fact, moment: datetime) -> bool:
    """Whether a fact is known today and true at a moment."""
    if fact.superseded_at is not None or fact.status in (Status.FORGOTTEN, Status.ARCHIVED):
        return False
    return fact.valid_to is None or fact.valid_to > moment


def _checked(fields: FactFields) -> dict[str, Any]:
    for name, value in fields.items():
        if name not in FactFields.__annotations__:
            known = ", ".join(sorted(FactFields.__annotations__))
            raise InvalidRecord(f"a fact has no field {name!r} to set; it may have {known}", field=name)
        if isinstance(value, str) and name in ("tags", "entity_ids", "source_turn_ids", "depends_on"):
            raise InvalidRecord(f"{name} must be a list of strings, got a string", field=name)
    return {name: tuple(value) if isinstance(value, list | set) else value for name, value in fields.items()}


def _matches(record: Record, asked: Mapping[str, Any]) -> bool:
    for name, wanted in asked.items():
        have = getattr(record, name)
        if isinstance(have, tuple):
            if not ({wanted} if isinstance(wanted, str) else set(wanted)) <= set(have):
                return False
        elif have != wanted:
            return False
    return True


def with_sources(known: Fact, fact: Fact) -> Fact:
    """The known fact, said again: with the new sources, and resting on what it rests on by this newest word."""
    turns = tuple(dict.fromkeys((*known.source_turn_ids, *fact.source_turn_ids)))
    entities = tuple(dict.fromkeys((*known.entity_ids, *fact.entity_ids)))
    tags = tuple(dict.fromkeys((*known.tags, *fact.tags)))
    spans = tuple(dict.fromkeys((*known.source_spans, *fact.source_spans)))
    more = {"source_turn_ids": turns, "source_spans": spans, "entity_ids": entities, "tags": tags}
    ground = {"depends_on": fact.depends_on, "stale_since": None}
    return known.model_copy(update={**more, **ground, "confidence": max(known.confidence, fact.confidence)})


def _starts_earlier(fact: Fact, known: Fact) -> bool:
    """Whether a fact learned again says more of its beginning than is known: the first date, or an earlier one."""
    return fact.valid_from is not None and (known.valid_from is None or fact.valid_from < known.valid_from)


def _ended(old: Fact, new: Fact, *, begins: datetime, wrong: bool, now: datetime) -> Fact:
    """A fact as it stands once another took its place: at an end in the world, or known to be wrong."""
    end = begins if old.valid_to is None else min(old.valid_to, begins)
    never_true = old.valid_from is not None and end <= old.valid_from
    retired = {"superseded_at": old.superseded_at or now} if wrong or never_true else {"valid_to": end}
    return old.model_copy(update={**retired, "superseded_by": new.id, "status": Status.SUPERSEDED})
