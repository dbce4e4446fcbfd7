"""Belief revision: which facts rest on a premise that no longer holds. Pure; the caller reads the premises.

A fact needs all of its premises (`depends_on`). A premise is a belief, not a record: it holds at a moment of the world
while any record of the same identity covers that moment, so a postponed end, a claim learned again and a value that
returns all support what rests on them. When no record covers it, everything that rests on the belief is stale, at any
depth, also in cycles: it is not false, but has lost its ground.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from agentmem.core.record import Record, Status
from agentmem.core.records import Fact

MAX_PREMISES = 10_000  # read for one question

ReadFacts = Callable[[Sequence[str]], Awaitable[Sequence[Record]]]
FindAlike = Callable[[Sequence[Fact]], Awaitable[Sequence[Fact]]]


@dataclass(frozen=True, slots=True)
class StaleReason:
    """Why a fact is stale: the premise at the root, and since when that no longer holds.

    `premise` is None where it is not there any more, or lost its own sources.
    """

    premise: Fact | None
    invalid_since: datetime


def find_end(fact: Fact) -> datetime | None:
    """When a record ceases to carry its belief: found wrong, forgotten, or over in the world; None for never."""
    if fact.superseded_at is not None or fact.status is Status.FORGOTTEN:
        retired = fact.superseded_at or fact.recorded_at
        return min(filter(None, (retired, fact.valid_to)), default=None) if _was_true(fact) else retired
    return fact.valid_to


def _was_true(fact: Fact) -> bool:
    """Whether a retired record is forgotten rather than wrong: what was wrong never held."""
    return fact.status is Status.FORGOTTEN


def covers(fact: Fact, moment: datetime) -> bool:
    """Whether a record makes its belief hold at a moment of the world. Archived ones do."""
    if fact.superseded_at is not None and not _was_true(fact):
        return False
    end = find_end(fact)
    return (fact.valid_from is None or fact.valid_from <= moment) and (end is None or moment < end)


async def read_premises(
    facts: Iterable[Fact], read_facts: ReadFacts, find_alike: FindAlike | None = None
) -> dict[str, Fact]:
    """Facts by id, with all that they rest on at any depth.

    `read_facts` gives the facts of some ids, level by level; `find_alike` other records of the beliefs of some facts.
    """
    known = {fact.id: fact for fact in facts}
    asked, wanted = set(known), [name for fact in known.values() for name in fact.depends_on]
    while (fresh := [name for name in dict.fromkeys(wanted) if name not in asked]) and len(asked) < MAX_PREMISES:
        asked.update(fresh)
        found = [record for record in await read_facts(fresh) if isinstance(record, Fact)]
        if find_alike is not None:
            found += [fact for fact in await find_alike(found) if fact.id not in known]
            asked.update(fact.id for fact in found)
        known.update((fact.id, fact) for fact in found)
        wanted = [name for fact in found for name in fact.depends_on]
    return known


def find_stale(facts: Mapping[str, Fact], moment: datetime) -> dict[str, StaleReason]:
    """Of the facts in a mapping by id, those that are stale at a moment, with the premise that fell first.

    The mapping holds their premises at any depth, and other records of the same beliefs. A premise that is not in it
    is gone.
    """
    alike: dict[str, list[Fact]] = {}
    for fact in facts.values():
        alike.setdefault(fact.identity(), []).append(fact)
    resting = {fact.id: fact for fact in facts.values() if fact.depends_on}
    roots = {name: _find_root(name, facts, alike, moment) for fact in resting.values() for name in fact.depends_on}
    found: dict[str, StaleReason] = {}
    grew = True
    while grew:  # reasons only become earlier, so this ends
        grew = False
        for fact in resting.values():
            falls = [
                _find_earlier(root, found)
                if (root := roots[name])
                else _find_inherited(facts[name], alike, moment, found)
                for name in fact.depends_on
            ]
            reason = min(filter(None, falls), key=_place, default=None)
            if reason is not None and (fact.id not in found or _place(reason) < _place(found[fact.id])):
                found[fact.id] = reason
                grew = True
    return found


def _find_root(
    name: str, facts: Mapping[str, Fact], alike: Mapping[str, Sequence[Fact]], moment: datetime
) -> StaleReason | None:
    """Why a premise fell by itself: no record carries it; None where one does, or where it only begins later."""
    premise = facts.get(name)
    if premise is None:
        return StaleReason(None, moment)
    group = alike[premise.identity()]
    if any(covers(each, moment) for each in group):
        return None
    is_wrong = all(each.superseded_at is not None and not _was_true(each) for each in group)
    ends = [(end, each.id) for each in group if (end := find_end(each)) is not None and (is_wrong or end <= moment)]
    if not ends:
        return None
    since, last = max(ends)
    return StaleReason(premise if premise.id == last or last not in facts else facts[last], since)


def _find_earlier(root: StaleReason, found: Mapping[str, StaleReason]) -> StaleReason:
    """The reason why a premise was stale before it ended, where it was."""
    before = found.get(root.premise.id) if root.premise is not None else None
    return min(root, before, key=_place) if before is not None else root


def _find_inherited(
    premise: Fact, alike: Mapping[str, Sequence[Fact]], moment: datetime, found: Mapping[str, StaleReason]
) -> StaleReason | None:
    """Why a premise that is carried fell nevertheless: each record that carries it is stale itself."""
    reasons = []
    for each in alike[premise.identity()]:
        if covers(each, moment):
            marked = StaleReason(None, each.stale_since) if each.stale_since is not None else found.get(each.id)
            if each.in_doubt_since is not None and each.in_doubt_since <= moment:
                marked = StaleReason(each, each.in_doubt_since)
            if marked is None:
                return None
            reasons.append(marked)
    return min(reasons, key=_place, default=None)


def _place(reason: StaleReason) -> tuple[datetime, str]:
    return reason.invalid_since, reason.premise.id if reason.premise is not None else ""


def find_unreplaced_stale(records: Iterable[Record]) -> set[str]:
    """Ids of the facts among these whose premise fell, where no other one is about the same entities, or about none."""
    facts = [record for record in records if isinstance(record, Fact)]
    current = [set(fact.entity_ids) for fact in facts if not fact.fallen_premise]
    return {fact.id for fact in facts if fact.fallen_premise and not _has_shared_entity(current, fact.entity_ids)}


def _has_shared_entity(entity_sets: Sequence[Collection[str]], entity_ids: Collection[str]) -> bool:
    return any(set(each) & set(entity_ids) if entity_ids else not each for each in entity_sets)
