"""Which held beliefs the turns of a window cast doubt on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from agentmem.beliefs.slots import PEOPLE_SLOTS, USER_SUBJECT, Slot
from agentmem.core.lifecycle import DOUBTFUL
from agentmem.core.records import Fact
from agentmem.extraction.doubt import ChangeSentence, Held, find_doubt
from agentmem.extraction.drafts import FactDraft
from agentmem.memory.semantic.belief_lines import find_named_slot
from agentmem.memory.semantic.beliefs import to_belief

Place = tuple[str, str]
"""A subject and a slot."""


@dataclass(frozen=True, slots=True)
class ChangingTurn:
    """A turn of the user with the sentences that state a change."""

    id: str
    said_at: datetime
    changes: Sequence[ChangeSentence]


def mark_doubted(
    known: Sequence[Fact], turns: Sequence[ChangingTurn], settled: Mapping[Place, datetime], slots: Mapping[str, Slot]
) -> Iterator[Fact]:
    """The held beliefs that come into doubt, each with the first turn that casts it.

    `settled` says when the window made a claim about a slot. That claim explains the turns up to then. What was said
    at the time of a turn or later is not in doubt, nor what was said for the new place: when a change of a slot that it
    rests on was planned or its value in doubt.
    """
    people = _name_people(known)
    moved: dict[Place, datetime] = {}
    for fact in known:
        since = to_belief(fact).first_said_at if fact.temporal_context == "future" else fact.in_doubt_since
        if since:
            moved[fact.subject, fact.slot] = since
    named = [(fact, find_named_slot(fact.slot, slots)) for fact in known]
    for fact, slot in sorted(named, key=lambda each: bool(each[1].rests_on)):  # premises first
        belief, premises = to_belief(fact), {(fact.subject, name) for name in slot.rests_on}
        places = premises | {(fact.subject, slot.name)}
        is_for_new = any(moved[place] <= belief.said_at for place in premises & moved.keys())
        if fact.in_doubt_since or slot.is_instruction or slot.kind == "fixed" or is_for_new:
            continue
        explained = max((settled[place] for place in places & settled.keys()), default=belief.said_at)
        held = Held(fact.subject, fact.slot, fact.value, people.get(fact.subject.casefold(), ()))
        told = ("held", "planned") if slot.kind == "event" else ("held",)
        for turn in turns:
            if max(explained, belief.said_at) >= turn.said_at or belief.standing(turn.said_at) not in told:
                continue
            if (span := find_doubt(held, turn.changes)) is not None:
                moved.setdefault((fact.subject, fact.slot), turn.said_at)
                yield fact.model_copy(update={"doubted_at": turn.said_at, "doubt_spans": ((turn.id, *span),)})
                break


def date_claims(claims: Iterable[tuple[FactDraft, datetime | None]]) -> dict[Place, datetime]:
    """When a window last claimed something of a slot, by the claims with their moments."""
    found: dict[Place, datetime] = {}
    for draft, moment in claims:
        place = (draft.subject or USER_SUBJECT, draft.slot)
        if draft.slot and draft.certainty != DOUBTFUL and moment is not None:
            found[place] = max(moment, found.get(place, moment))
    return found


def _name_people(facts: Iterable[Fact]) -> dict[str, tuple[str, ...]]:
    """What people and animals are to the user, by name: "sister" for Nora."""
    named: dict[str, tuple[str, ...]] = {}
    for fact in facts:
        if fact.slot in PEOPLE_SLOTS and fact.subject == USER_SUBJECT:
            name, _, kind = fact.value.partition(" (")
            named[name.casefold()] = (kind.removesuffix(")"),) if kind else ()
    return named
