"""What is believed, slot by slot: the current, planned, former and unsure values with the facts that hold them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any

import numpy as np

from agentmem.beliefs.belief import Belief, BeliefSet
from agentmem.beliefs.slots import NamedSlot, Slot, find_slot
from agentmem.core.arguments import check_arguments
from agentmem.core.clock import to_utc
from agentmem.core.columns import HIDDEN_STATUSES
from agentmem.core.local_time import LocalTime
from agentmem.core.record import Record
from agentmem.core.records import SLOT_KEY_PREFIX, Fact, Turn
from agentmem.core.truth_maintenance import find_stale
from agentmem.errors import InvalidRecord
from agentmem.memory.context import MemoryContext
from agentmem.memory.premises import read_grounds
from agentmem.memory.read_audit import audit_read
from agentmem.memory.semantic.beliefs import order_by_word, to_belief
from agentmem.memory.semantic.channel_beliefs import join_channels
from agentmem.stores.values import Where
from agentmem.text.plain_line import to_plain_line
from agentmem.text.relative_dates import render_day

Premises = tuple[frozenset[str], bool]
"""The slots that a belief was said to rest on, and whether one of these premises fell."""

STANDING_NAMES = ("current", "planned", "former", "stale", "doubtful", "guesses", "denied")
MAX_DOUBT_CHARS = 120  # of the words that cast doubt on a belief


@dataclass(frozen=True, slots=True)
class SlotBeliefs:
    """What is believed of one slot of one subject, each value as the fact that holds it, with its sources.

    `current` is what an agent may state, `planned` is to come, `former` is over (the latest first), `stale` rests on
    something that changed since, `doubtful` is in doubt by a later turn (`Fact.doubt_words`), `guesses` were not said
    plainly, `denied` is known to be false.
    """

    subject: str
    slot: str
    current: tuple[Fact, ...] = ()
    planned: tuple[Fact, ...] = ()
    former: tuple[Fact, ...] = ()
    stale: tuple[Fact, ...] = ()
    doubtful: tuple[Fact, ...] = ()
    guesses: tuple[Fact, ...] = ()
    denied: tuple[Fact, ...] = ()

    def facts(self) -> tuple[Fact, ...]:
        """The facts of all standings."""
        return tuple(fact for name in STANDING_NAMES for fact in getattr(self, name))

    def relocate(self, local: LocalTime) -> SlotBeliefs:
        """The same with the facts' moments in their zone, for texts that show days."""
        parts = (tuple(map(local.relocate, getattr(self, name))) for name in STANDING_NAMES)
        return SlotBeliefs(self.subject, self.slot, *parts)

    def to_dict(self) -> dict[str, Any]:
        """Subject and slot, and under each state the values with their facts' ids, times and sources."""
        return {"subject": self.subject, "slot": self.slot} | {
            name: [_describe(fact) for fact in getattr(self, name)] for name in STANDING_NAMES
        }

    def __str__(self) -> str:
        """One line: what holds, and in brackets what is planned, was, or is not known any more."""
        values = [", ".join(fact.value for fact in self.current) or "not known"]
        notes = [f"{fact.value} {render_doubt(fact)}" for fact in self.doubtful]
        notes += [
            f"{word} {', '.join(fact.value for fact in facts)}"
            for word, facts in (
                ("planned:", self.planned),
                ("before:", self.former),
                ("not known any more:", self.stale),
                ("not sure:", self.guesses),
                ("not:", self.denied),
            )
            if facts
        ]
        line = f"{self.subject}.{self.slot}: {values[0]}" + (f" ({'; '.join(notes)})" if notes else "")
        return to_plain_line(line)


@check_arguments
@dataclass
class BeliefView:
    """The question what is believed."""

    _context: MemoryContext

    @audit_read
    async def beliefs(
        self,
        subject: str | None = None,
        slot: str | None = None,
        *,
        as_of: datetime | None = None,
        known_at: datetime | None = None,
    ) -> list[SlotBeliefs]:
        """What is believed in the readable channels, by subject and slot in the order in which they came up.

        `subject` is `user` or a name, None for everybody; `slot` is one slot, None for all. `as_of` asks for a moment
        of the world (now when None), `known_at` for what memory held at a moment of the record. Empty when nothing is
        believed. Raises InvalidRecord for an unknown slot or a moment without a time zone.
        """
        if slot is not None:
            find_slot(slot, self._context.engine.settings.slots)
        now = await self._context.engine.now(self._context.scope)
        moment = now if as_of is None else to_utc(as_of, "as_of")
        last = None
        if known_at is not None:
            last = await self._context.engine.log.seq_at_time(self._context.scope, to_utc(known_at, "known_at"))
        facts = await (self._read_stored() if last is None else self._read_known(last))
        facts = await self._read_doubts(facts, last)
        rests = await self._read_premises(facts, moment, last)
        asked = [fact for fact in facts if subject is None or fact.subject.casefold() == subject.casefold()]
        return group_by_slot(asked, moment, self._context.engine.settings.slots, slot, rests)

    async def _read_doubts(self, facts: Sequence[Fact], last: int | None) -> list[Fact]:
        """The same with the words that cast doubt on them; a doubt ends with the turn that casts it."""
        names = {fact.doubt_spans[0][0] for fact in facts if fact.in_doubt_since}
        if not names:
            return [*facts]
        found = await self._context.engine.log.read_records("Turn", sorted(names), self._context.scope)
        turns = {turn.id: turn for turn in found if isinstance(turn, Turn) and turn.superseded_at is None}
        return [_with_doubt(fact, turns) for fact in facts]

    async def _read_premises(self, facts: Sequence[Fact], moment: datetime, last: int | None) -> dict[str, Premises]:
        """For the facts that were said to rest on others, by id: on which slots, and whether one fell.

        `last` is the journal position by which memory is asked, None for the newest.
        """
        resting = [fact for fact in facts if fact.depends_on]
        if not resting:
            return {}
        engine, scope = self._context.engine, self._context.scope
        read = None if last is None else partial(self._read_facts_at, last)
        known = await read_grounds(resting, engine.log, scope, scope.readable_channels(), read)
        fallen = find_stale(known, moment)
        return {
            fact.id: (
                frozenset(known[name].slot for name in fact.depends_on if name in known and known[name].slot),
                fact.id in fallen,
            )
            for fact in resting
        }

    async def _read_stored(self) -> list[Fact]:
        where = Where(kinds=("Fact",), channels=self._context.scope.readable_channels(), dedup_prefix=SLOT_KEY_PREFIX)
        return [record async for page in self._context.iter_pages(where) for record in page if isinstance(record, Fact)]

    async def _read_known(self, last: int) -> list[Fact]:
        """The beliefs as they were at a journal position."""
        scope = self._context.scope
        columns = await self._context.engine.read_columns(scope, last)
        facts = columns.kind == columns.kinds.find_code("Fact")
        facts &= columns.channels.mask_for(scope.readable_channels())[columns.channel]
        facts &= ~columns.statuses.mask_for(HIDDEN_STATUSES)[columns.status]
        found = await self._context.engine.log.read_by_ordinal(np.flatnonzero(facts).tolist(), scope, last)
        return [fact for fact in found if isinstance(fact, Fact) and fact.slot]

    async def _read_facts_at(self, last: int, ids: Sequence[str]) -> list[Record]:
        """Facts by id as they were at a journal position, the forgotten ones, too."""
        scope = self._context.scope
        places = (await self._context.engine.read_columns(scope, last)).ordinals_by_key
        ordinals = [places["Fact", name] for name in ids if ("Fact", name) in places]
        return await self._context.engine.log.read_by_ordinal(ordinals, scope, last)


def group_by_slot(
    facts: Collection[Fact],
    moment: datetime,
    own: Mapping[str, Slot] | None = None,
    only: str | None = None,
    rests: Mapping[str, Premises] | None = None,
) -> list[SlotBeliefs]:
    """What is believed by these facts at a moment, by subject and slot in the order in which they came up.

    `own` are an application's own slots, `only` a slot that is asked for alone, `rests` the premises that facts were
    said to have, by id. [] where no fact fills a slot.
    """
    slots = find_slots((fact.slot for fact in facts), own)
    found = {fact.id: fact for fact in sorted(join_channels(facts, slots), key=order_by_word)}
    beliefs = list(map(to_belief, found.values()))
    if rests:
        beliefs = [_with_premises(each, rests) for each in beliefs]
    known = BeliefSet(beliefs, slots)
    return [
        SlotBeliefs(state.subject, state.slot, *(tuple(found[each.key] for each in part) for part in parts))
        for state in known.states(moment)
        if only in (None, state.slot) and any(parts := [getattr(state, name) for name in STANDING_NAMES])
    ]


def _with_doubt(fact: Fact, turns: Mapping[str, Turn]) -> Fact:
    if not fact.in_doubt_since:
        return fact
    name, start, end = fact.doubt_spans[0]
    if name not in turns:
        return fact.model_copy(update={"doubted_at": None, "doubt_spans": ()})
    return fact.model_copy(update={"doubt_words": " ".join(turns[name].content[start:end].split())[:MAX_DOUBT_CHARS]})


def render_doubt(fact: Fact) -> str:
    """Since when a belief is in doubt, and the words that say so."""
    since = f" since {render_day(fact.in_doubt_since.date())}" if fact.in_doubt_since else ""
    return to_plain_line(f"in doubt{since}: '{fact.doubt_words}'" if fact.doubt_words else f"in doubt{since}")


def _with_premises(belief: Belief, rests: Mapping[str, Premises]) -> Belief:
    named, is_fallen = rests.get(belief.key, (frozenset(), False))
    return replace(belief, named_premises=named, is_fallen=is_fallen)


def find_slots(names: Iterable[str], own: Mapping[str, Slot] | None) -> dict[str, NamedSlot]:
    """The slots of these names and those that they rest on. One that an application took away has one value."""
    found = dict[str, NamedSlot]()
    wanted = [*names]
    while wanted:
        name = wanted.pop()
        if name not in found:
            try:
                found[name] = find_slot(name, own)
            except InvalidRecord:
                found[name] = NamedSlot(name=name)
            wanted += found[name].rests_on
    return found


def _describe(fact: Fact) -> dict[str, Any]:
    doubt = {"in_doubt_since": since.isoformat(), "words": fact.doubt_words} if (since := fact.in_doubt_since) else {}
    return doubt | {
        "value": fact.value,
        "fact_id": fact.id,
        "claim": fact.claim,
        "since": fact.valid_from and fact.valid_from.isoformat(),
        "until": fact.valid_to and fact.valid_to.isoformat(),
        "source_turn_ids": list(fact.source_turn_ids),
    }
