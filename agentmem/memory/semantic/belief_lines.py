"""Beliefs as lines of a prompt: a line per slot of the user, per person and per plan, the newest value first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from agentmem.beliefs.slots import PEOPLE_SLOTS, THING_SUBJECT, USER_SUBJECT, NamedSlot, Slot, find_slot
from agentmem.core.lifecycle import DOUBTFUL
from agentmem.core.record import Key
from agentmem.core.records import Fact
from agentmem.errors import InvalidRecord
from agentmem.memory.semantic.belief_view import SlotBeliefs, render_doubt
from agentmem.text.plain_line import to_plain_line
from agentmem.text.relative_dates import render_day
from agentmem.text.tokenizer import tokenize

BeliefSection = Literal["instructions", "user", "people", "planned", "unknown", "known"]
FIRST_SLOTS = ("name", "call_me", "allergies", "home", "employer", "role", "diet", "partner", "children")
"""Slots of the user that come first where the question does not decide."""

Relations = Mapping[str, tuple[str, tuple[Fact, ...]]]
"""What each named person is to the user, with the facts that say so."""

MAX_VALUES = 12  # of one slot in a line; the newest count
MAX_FORMER = 1  # ended values, shown in brackets
_ARTICLE_LABELS = {"the": "{}", "version": "{} version", "flight": "flight to {}", "favourite": "favourite {}"}
_KNOWN_KEYS = ("the", "version", "about", "tool")  # open keys of things


@dataclass(frozen=True, slots=True)
class BeliefLine:
    """One line. `keys` are the facts that it shows, `values` what each of them says.

    `place` orders lines where the question does not decide: the lowest first. `is_private` lines are shown only when a
    question has a word of the line or of `cues`.
    """

    section: BeliefSection
    text: str
    keys: tuple[Key, ...]
    place: tuple[int, float]
    values: tuple[str, ...] = ()
    is_private: bool = False
    cues: tuple[str, ...] = ()

    def terms(self) -> set[str]:
        """The words by which a question asks for it: of the line, and what questions about its slot hold."""
        return set(tokenize(" ".join((self.text, *self.cues))))


def build_belief_lines(
    states: Sequence[SlotBeliefs], moment: datetime, slots: Mapping[str, Slot] | None = None
) -> list[BeliefLine]:
    """The lines of all that is believed at a moment, by section; [] where nothing is.

    `slots` are an application's own slots. Slots of one person share a line. Every value is on one line and harmless.
    """
    relations = _name_relations(states)
    people: dict[str, list[tuple[SlotBeliefs, NamedSlot]]] = {}
    lines: list[BeliefLine] = []
    for state in states:
        slot = find_named_slot(state.slot, slots)
        lines += _build_planned_lines(state, slot)
        if state.subject == USER_SUBJECT and not _is_of_thing(slot):
            lines += _build_user_lines(state, slot, moment)
        elif _is_of_thing(slot) or state.subject == THING_SUBJECT:
            lines += _build_thing_lines(state, slot, moment)
        else:
            people.setdefault(state.subject, []).append((state, slot))
    lines += _build_people_lines(people, relations, moment)
    return sorted(lines, key=lambda line: line.place)


def find_named_slot(name: str, slots: Mapping[str, Slot] | None) -> NamedSlot:
    """The slot of this name; one that an application took away holds one value."""
    try:
        return find_slot(name, slots)
    except InvalidRecord:
        return NamedSlot(name=name)


def _is_of_thing(slot: NamedSlot) -> bool:
    return slot.name.partition(":")[0] in _KNOWN_KEYS and ":" in slot.name


def label_slot(name: str) -> str:
    """A slot's name as words: `answer_language` as "answer language", `flight:Valencia` as "flight to Valencia"."""
    kind, colon, rest = name.partition(":")
    plain = to_plain_line(rest)
    return _ARTICLE_LABELS.get(kind, "{}").format(plain) if colon else kind.replace("_", " ")


def _build_user_lines(state: SlotBeliefs, slot: NamedSlot, moment: datetime) -> Iterator[BeliefLine]:
    """What holds of the user, or that something is not known any more."""
    is_people = slot.name in PEOPLE_SLOTS and slot.name not in ("boss", "landlord")
    if is_people and state.current and not state.doubtful:
        return  # shown under the people themselves
    section: BeliefSection = "instructions" if slot.is_instruction else "user"
    told = _render_values(state, moment)
    if told:
        yield _build_line(section, f"{label_slot(slot.name)}: {told}", _list_told(state), state, slot)
    elif slot.is_instruction:
        return
    elif gone := _render_unknown(state, slot):
        yield _build_line("unknown", gone, (*state.stale, *state.former), state, slot)


def _build_thing_lines(state: SlotBeliefs, slot: NamedSlot, moment: datetime) -> Iterator[BeliefLine]:
    told = _render_values(state, moment)
    if not told:
        return
    owner = "" if state.subject in (THING_SUBJECT, USER_SUBJECT) else f"{to_plain_line(state.subject)}, "
    yield _build_line("known", f"{owner}{label_slot(slot.name)}: {told}", _list_told(state), state, slot)


def _build_planned_lines(state: SlotBeliefs, slot: NamedSlot) -> Iterator[BeliefLine]:
    """A line per plan, with its day where one is known."""
    for fact in state.planned:
        if fact in state.current:
            continue
        whose = "" if state.subject in (USER_SUBJECT, THING_SUBJECT) else f"{to_plain_line(state.subject)}: "
        day = f"{render_day(fact.valid_from)}: " if fact.valid_from else ""
        what = _render_event(fact, slot) if slot.kind == "event" else f"{label_slot(slot.name)} {_value(fact)}"
        yield _build_line("planned", f"{day}{whose}{what}", (fact,), state, slot)


def _render_event(fact: Fact, slot: NamedSlot) -> str:
    """An event by its name; with the value where it says more than the day."""
    if fact.valid_from is None:
        return f"{label_slot(slot.name)}, {_value(fact)}"
    more = _value(fact).partition(",")[2].strip()
    return f"{label_slot(slot.name)}, {more}" if more else label_slot(slot.name)


def _build_people_lines(
    people: Mapping[str, list[tuple[SlotBeliefs, NamedSlot]]], relations: Relations, moment: datetime
) -> Iterator[BeliefLine]:
    """A line per person: what they are to the user, and what is known of them, private values apart."""
    named = {name.casefold(): name for name in people}
    for name, relation in relations.items():
        if name.casefold() not in named:
            yield _to_line("people", f"{to_plain_line(name)} ({relation[0]})", relation[1], (4, 0.0))
    for name, states in people.items():
        known = next((found for other, found in relations.items() if other.casefold() == name.casefold()), None)
        head = f"{to_plain_line(name)} ({known[0]})" if known else to_plain_line(name)
        for private in (False, True):
            parts, cues = list[str](), list[str]()
            facts = list[Fact](known[1] if known and not private else ())
            said = 0.0
            for state, slot in states:
                if slot.is_private == private and (told := _render_values(state, moment)):
                    parts.append(f"{label_slot(slot.name)} {told}")
                    cues += slot.cues
                    facts += _list_told(state)
                    said = max(said, *map(_get_said_at, _list_told(state)))
            if parts or (known and not private):
                text = f"{head}: {'; '.join(parts)}" if parts else head
                place = (2 if known else 5, -said)
                yield _to_line("people", text, facts, place, private, cues)


def _name_relations(states: Sequence[SlotBeliefs]) -> dict[str, tuple[str, tuple[Fact, ...]]]:
    """What each named person is to the user, with the facts that say so."""
    found: dict[str, tuple[str, tuple[Fact, ...]]] = {}
    for state in states:
        if state.subject == USER_SUBJECT and state.slot in PEOPLE_SLOTS - {"boss", "landlord"}:
            for fact in state.current:
                name, _, more = fact.value.partition(" (")
                kind = more.removesuffix(")") if more else _singular(state.slot)
                found[name] = (to_plain_line(kind), (*found.get(name, ("", ()))[1], fact))
    return found


def _singular(slot: str) -> str:
    return {"children": "child", "siblings": "sibling", "parents": "parent", "friends": "friend", "pets": "pet"}.get(
        slot, slot
    )


def _render_values(state: SlotBeliefs, moment: datetime) -> str:
    """The values that hold, and those that are in doubt with the newer words; empty for none."""
    doubtful = [f"{_value(fact)} ({render_doubt(fact)})" for fact in state.doubtful[-MAX_VALUES:]]
    return ", ".join(filter(None, (_render_held(state, moment), *doubtful)))


def _render_held(state: SlotBeliefs, moment: datetime) -> str:
    """The values that hold, and in brackets since when, what was before, and what is not so; empty for none."""
    held = state.current[-MAX_VALUES:]
    if not held:
        told = [fact for fact in state.guesses if fact.certainty != DOUBTFUL]
        unsure = [f"{_value(fact)} (not sure)" for fact in told[-1:]]
        denied = [f"not {_value(fact)}" for fact in state.denied[-MAX_VALUES:] if fact.value]
        return ", ".join(unsure or denied)
    notes = []
    newest = held[-1]
    if len(held) == 1 and newest.temporal_context == "future" and newest.valid_from:
        notes.append(f"expected since {render_day(newest.valid_from)}")
    elif len(held) == 1 and newest.valid_from:
        notes.append(f"since {render_day(newest.valid_from)}")
    former = [_value(fact) for fact in state.former[:MAX_FORMER] if not _is_same(fact, held)]
    if former and len(held) == 1:
        notes.append(f"before: {', '.join(former)}")
    denied = [_value(fact) for fact in state.denied if fact.value and not _is_same(fact, held)]
    notes += [f"not {value}" for value in denied[-MAX_VALUES:]]
    values = ", ".join(dict.fromkeys(_value(fact) for fact in held))
    return f"{values} ({'; '.join(notes)})" if notes else values


def _render_unknown(state: SlotBeliefs, slot: NamedSlot) -> str:
    """That a value is not known any more, without the value that was: it would be read as one that holds."""
    label = label_slot(slot.name)
    if state.stale:
        reasons = " or ".join(label_slot(each) for each in slot.rests_on)
        return f"{label} (said before the {reasons} changed)" if reasons else label
    if state.former and slot.kind != "event":
        over = state.former[0]
        since = f" since {render_day(over.valid_to)}" if over.valid_to else ""
        return f"{label}: none known{since} (before: {_value(over)})"
    return ""


def _list_told(state: SlotBeliefs) -> tuple[Fact, ...]:
    """The facts in the line of a slot, without former ones."""
    return (*state.current, *state.doubtful, *state.guesses, *state.denied)


def _build_line(
    section: BeliefSection, text: str, facts: Sequence[Fact], state: SlotBeliefs, slot: NamedSlot
) -> BeliefLine:
    if section == "planned":
        days = [fact.valid_from.timestamp() for fact in facts if fact.valid_from]
        place = (3, min(days, default=float("inf")))
    else:
        newest = max(map(_get_said_at, state.facts()), default=0.0)
        order = float(FIRST_SLOTS.index(slot.name)) if slot.name in FIRST_SLOTS else 1e12 - newest
        place = ({"instructions": 0, "user": 1, "unknown": 6}.get(section, 7), order)
    return _to_line(section, text, facts, place, slot.is_private, slot.cues)


def _to_line(
    section: BeliefSection,
    text: str,
    facts: Sequence[Fact],
    place: tuple[int, float],
    is_private: bool = False,
    cues: Sequence[str] = (),
) -> BeliefLine:
    keys, values = tuple(fact.key for fact in facts), tuple(fact.value for fact in facts)
    return BeliefLine(section, text, keys, place, values, is_private, tuple(cues))


def _get_said_at(fact: Fact) -> float:
    moment = fact.said_at or fact.recorded_at
    return moment.timestamp() if moment else 0.0


def _value(fact: Fact) -> str:
    return to_plain_line(fact.value)


def _is_same(fact: Fact, held: Sequence[Fact]) -> bool:
    return any(fact.value.casefold() == other.value.casefold() for other in held)
