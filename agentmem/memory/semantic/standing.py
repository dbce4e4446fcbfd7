"""The standing of records by present beliefs: their claim is current, outdated, planned or unknown."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from agentmem.beliefs.slots import USER_SUBJECT, NamedSlot, Slot
from agentmem.beliefs.values import is_same_value
from agentmem.core.lifecycle import DOUBTFUL
from agentmem.core.record import Record, Status
from agentmem.core.records import Fact, Goal, Turn
from agentmem.memory.semantic.belief_lines import find_named_slot, label_slot
from agentmem.memory.semantic.belief_view import SlotBeliefs
from agentmem.text.relative_dates import render_day
from agentmem.text.tokenizer import tokenize

_FIRST_PERSON = re.compile(
    r"\b(?:i|me|my|mine|we|us|our|ich|mein\w*|wir|unser\w*|yo|mis?|nuestr\w+|je|mon|ma|mes|eu|meus?|minhas?)\b|\bj'"
    r"|\b(?:vivo|trabajo|moro|trabalho)\b"
)
STANDING_HELP = (
    "current, outdated since, planned for, not known any more, in doubt since, uncertain, ends, withdrawn, or a goal's "
    "status."
)
_MARKS = {"outdated": "outdated since", "planned": "planned for", "unknown": "not known any more since"}
_OTHERS = {"doubtful": "in doubt since", "ends": "ends", "uncertain": "uncertain since"}


@dataclass(frozen=True, slots=True)
class Standing:
    """The present state of what a record says.

    `state` is `current`, `outdated`, `planned`, `unknown` (no longer known), `doubtful`, `uncertain` (its ground is
    gone), `ends` (on a future day), `withdrawn`, or the status of a goal. `since` is the first day of that state or, of
    a plan or an end, its day; None where no day is known. `by` is the id of the turn that said so, `slot` its slot, and
    `value` the present or planned value; "" where unknown. `is_partial` where the record also concerns other slots.
    """

    state: str = "current"
    since: datetime | None = None
    by: str = ""
    slot: str = ""
    value: str = ""
    is_partial: bool = False

    @property
    def is_marked(self) -> bool:
        """Whether contexts show it beside the record: a belief says that the record does not simply hold."""
        return self.state in _MARKS or self.state == "doubtful"

    def __str__(self) -> str:
        """In words, such as `outdated since 10 Jun 2026`."""
        words = {**_MARKS, **_OTHERS}.get(self.state, self.state)
        told = f"{words} {render_day(self.since.date())}" if self.since else words.removesuffix(" since")
        return f"{told} ({label_slot(self.slot)})" if self.is_partial else told


CURRENT = Standing()


@dataclass(frozen=True, slots=True)
class SlotValue:
    """A value of a slot: the fact that holds it, its interval, and its state.

    `turn_ids` are the turns that said it; a turn at `until` or later speaks of the past, or of the end. `terms` are the
    index terms by which a question asks for the slot.
    """

    fact: Fact
    standing: Standing
    is_held: bool
    terms: frozenset[str]

    @property
    def slot_key(self) -> tuple[str, str]:
        """Subject and slot."""
        return self.fact.subject.casefold(), self.fact.slot

    def covers(self, start: datetime, end: datetime) -> bool:
        """Whether it held within [start, end); what has no beginning began when it was first said."""
        begun = self.fact.valid_from or self.fact.first_said_at
        ended = self.fact.valid_to if not self.is_held else None
        return (begun is None or begun < end) and (ended is None or ended > start)

    def is_asked_for(self, terms: Collection[str]) -> bool:
        """Whether a question with these index terms names the slot."""
        return not self.terms.isdisjoint(terms)


@dataclass(frozen=True, slots=True)
class Standings:
    """The values of all slots, by slot, by turn and by fact."""

    by_slot: Mapping[tuple[str, str], Sequence[SlotValue]] = field(default_factory=dict)
    by_turn: Mapping[str, Sequence[SlotValue]] = field(default_factory=dict)
    by_fact: Mapping[str, SlotValue] = field(default_factory=dict)

    def read_values(self, record: Record) -> list[SlotValue]:
        """The values that a record states as current; a turn about the past or the end of a value has none."""
        if isinstance(record, Fact):
            return [self.by_fact[record.id]] if record.id in self.by_fact else []
        said = record.valid_interval()[0] if isinstance(record, Turn) else None
        told = self.by_turn.get(record.id, ()) if said else ()
        return [each for each in told if each.fact.valid_to is None or (said and said < each.fact.valid_to)]

    def holds_answer(self, text: str, terms: Collection[str]) -> bool:
        """Whether a value is held that a question about a present state asks for, by its text and index terms.

        That of the user's own slots is asked for in the first person, that of others by their names.
        """
        low = text.casefold()
        return any(
            each.is_held
            and each.is_asked_for(terms)
            and (_FIRST_PERSON.search(low) is not None if subject == USER_SUBJECT else subject in low)
            for (subject, _), values in self.by_slot.items()
            for each in values
        )

    def find(self, record: Record, moment: datetime) -> Standing:
        """The standing of a record at a moment."""
        values = self.read_values(record)
        marked = [each.standing for each in values if each.standing.is_marked]
        if marked and len({each.slot_key for each in values}) > 1:
            return replace(marked[0], is_partial=True)
        return marked[0] if marked else _find_own_standing(record, moment)


def _find_own_standing(record: Record, moment: datetime) -> Standing:
    """What a record says of itself."""
    if isinstance(record, Goal):
        return Standing(record.goal_status)
    if isinstance(record, Fact) and record.valid_to is not None:
        return Standing("outdated" if record.valid_to <= moment else "ends", record.valid_to)
    if record.superseded_at is not None or record.status in (Status.SUPERSEDED, Status.FORGOTTEN):
        return Standing("withdrawn")
    if isinstance(record, Fact) and record.in_doubt_since is not None:
        return Standing("doubtful", record.in_doubt_since, by=record.doubt_spans[0][0], slot=record.slot)
    if isinstance(record, Fact) and record.certainty == DOUBTFUL:
        return Standing("doubtful", record.said_at or record.recorded_at)
    if isinstance(record, Fact) and record.stale_since is not None:
        return Standing("uncertain", record.stale_since)
    return CURRENT


def build_standings(
    states: Iterable[SlotBeliefs], retired: Iterable[Fact] = (), own: Mapping[str, Slot] | None = None
) -> Standings:
    """The standings by what is believed; `retired` are facts that turned out wrong, or plans that were given up.

    `own` are an application's own slots.
    """
    found = [*states]
    known = {fact.id: fact for state in found for fact in state.facts()}
    by_slot: dict[tuple[str, str], list[SlotValue]] = {}
    for state in found:
        slot = find_named_slot(state.slot, own)
        by_slot[state.subject.casefold(), state.slot] = [
            _to_value(*each, slot) for each in _read_state(state, slot, known)
        ]
    for fact in retired:
        slot, successor = find_named_slot(fact.slot, own), known.get(fact.superseded_by or "")
        # what ended before it began was misread as often as it was wrong
        if fact.reason == "given up" or (fact.reason == "wrong" and successor is not None):
            standing = _describe_end(fact, successor.first_said_at if successor else None, successor, slot)
            by_slot.setdefault((fact.subject.casefold(), fact.slot), []).append(_to_value(fact, standing, False, slot))
    by_turn: dict[str, list[SlotValue]] = {}
    values = [value for each in by_slot.values() for value in each]
    for value in values:
        for turn_id in value.fact.source_turn_ids:
            by_turn.setdefault(turn_id, []).append(value)
    return Standings(by_slot, by_turn, {value.fact.id: value for value in values})


def _read_state(
    state: SlotBeliefs, slot: NamedSlot, known: Mapping[str, Fact]
) -> Iterator[tuple[Fact, Standing, bool]]:
    """Each fact of a slot, its state, and whether it is held."""
    newest = state.current[-1] if state.current else None
    for fact in state.current:
        yield fact, CURRENT, True
    for fact in state.former:
        came_back = any(is_same_value(fact.value, each.value) for each in state.current)
        by = newest or known.get(fact.superseded_by or "")
        yield fact, CURRENT if came_back else _describe_end(fact, fact.valid_to, by, slot), False
    for fact in state.planned:
        # an event already shows its day, and a plan without a day is complete
        if fact in state.current:
            continue
        if fact.valid_from is None or slot.kind == "event":
            yield fact, CURRENT, False
        else:
            yield fact, Standing("planned", fact.valid_from, slot=slot.name, value=_tell(fact, slot)), False
    for fact in state.stale:
        yield fact, Standing("unknown", fact.stale_since, slot=slot.name), False
    for fact in state.doubtful:
        yield fact, Standing("doubtful", fact.in_doubt_since, by=fact.doubt_spans[0][0], slot=slot.name), False
    for fact in (*state.guesses, *state.denied):
        is_doubtful = fact.certainty == DOUBTFUL
        yield fact, Standing("doubtful", fact.first_said_at, slot=slot.name) if is_doubtful else CURRENT, False


def _describe_end(fact: Fact, since: datetime | None, by: Fact | None, slot: NamedSlot) -> Standing:
    """Over, with the value and the turn that took its place where one is known."""
    over = Standing("outdated", since, slot=slot.name)
    if by is None or by.id == fact.id or slot.kind == "set":
        return over
    return replace(over, by=next(iter(by.source_turn_ids), ""), value=_tell(by, slot))


def _tell(fact: Fact, slot: NamedSlot) -> str:
    """The value; "" for a private one, which is shown only when asked for."""
    return "" if slot.is_private else fact.value


def _to_value(fact: Fact, standing: Standing, is_held: bool, slot: NamedSlot) -> SlotValue:
    return SlotValue(fact, standing, is_held, frozenset(tokenize(" ".join((label_slot(slot.name), *slot.cues)))))
