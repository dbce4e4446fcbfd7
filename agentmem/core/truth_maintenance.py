"""Belief revision: which facts rest on a premise that no longer holds. Pure; who reads the premises is the caller.

A fact needs all of its premises (`depends_on`). When one is found to be wrong, is forgotten or ends, what rests on it
is stale, at any depth and however premises are entangled: nobody says that it is false, only that its ground is gone.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from agentmem.core.record import Record, Status
from agentmem.core.records import Fact

MAX_PREMISES = 10_000  # read for one question


@dataclass(frozen=True, slots=True)
class StaleReason:
    """Why a fact is stale: the premise at the root, and since when that no longer holds."""

    premise: Fact
    invalid_since: datetime


def invalid_since(fact: Fact, moment: datetime) -> datetime | None:
    """When a fact ceased to hold, by what is known and as of a moment; None while it holds. Archived ones hold."""
    if fact.superseded_at is not None or fact.status is Status.FORGOTTEN:
        return fact.superseded_at or fact.recorded_at or moment
    return fact.valid_to if fact.valid_to is not None and fact.valid_to <= moment else None


async def read_premises(
    facts: Iterable[Fact], read_facts: Callable[[Sequence[str]], Awaitable[Sequence[Record]]]
) -> dict[str, Fact]:
    """Facts by id, with all that they rest on at any depth; `read_facts` gives the facts of some ids, level by
    level.
    """
    known = {fact.id: fact for fact in facts}
    asked, wanted = set(known), [name for fact in known.values() for name in fact.depends_on]
    while (fresh := [name for name in dict.fromkeys(wanted) if name not in asked]) and len(asked) < MAX_PREMISES:
        asked.update(fresh)
        found = [record for record in await read_facts(fresh) if isinstance(record, Fact)]
        known.update((fact.id, fact) for fact in found)
        wanted = [name for fact in found for name in fact.depends_on]
    return known


def find_stale(
    facts: Mapping[str, Fact], moment: datetime, reasserted_ids: Collection[str] = ()
) -> dict[str, StaleReason]:
    """Of the facts in a mapping by id, those that are stale at a moment, with the premise that fell first.

    Facts named in `reasserted_ids` count as holding though they ended: what they claim is known anew.
    """
    resting: dict[str, list[str]] = {}
    for fact in facts.values():
        for name in fact.depends_on:
            resting.setdefault(name, []).append(fact.id)
    ends = {
        name: invalid_since(facts[name], moment) for name in resting if name in facts and name not in reasserted_ids
    }
    found: dict[str, StaleReason] = {}
    for since, root in sorted((end, name) for name, end in ends.items() if end is not None):
        reached = [root]
        while reached:
            for above in resting.get(reached.pop(), ()):
                if above not in found:  # else by a premise that fell before
                    found[above] = StaleReason(facts[root], since)
                    reached.append(above)
    return found


def find_unreplaced_stale(records: Iterable[Record]) -> set[str]:
    """Ids of the facts among these whose premise fell, where no other one is about the same entities, or about none."""
    facts = [record for record in records if isinstance(record, Fact)]
    current = [set(fact.entity_ids) for fact in facts if not fact.fallen_premise]
    return {fact.id for fact in facts if fact.fallen_premise and not _has_shared_entity(current, fact.entity_ids)}


def _has_shared_entity(entity_sets: Sequence[Collection[str]], entity_ids: Collection[str]) -> bool:
    return any(set(each) & set(entity_ids) if entity_ids else not each for each in entity_sets)
