"""Belief revision: which facts rest on a premise that no longer holds. Pure; who reads the premises is the caller.

A fact needs all of its premises (`depends_on`). When one is found to be wrong, is forgotten or ends, what rests on it
is stale, at any depth and however premises are entangled: nobody says that it is false, only that its ground is gone.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from agentmem.model.records import Fact, Record, Status

MOST_PREMISES = 10_000  # read for one question


@dataclass(frozen=True, slots=True)
class Fallen:
    """Why a fact is stale: the premise at the root, and since when that no longer holds."""

    premise: Fact
    since: datetime


def ended(fact: Fact, moment: datetime) -> datetime | None:
    """When a fact ceased to hold, by what is known and as of a moment; None while it holds. Archived ones hold."""
    if fact.superseded_at is not None or fact.status is Status.FORGOTTEN:
        return fact.superseded_at or fact.recorded_at or moment
    return fact.valid_to if fact.valid_to is not None and fact.valid_to <= moment else None


async def with_premises(
    facts: Iterable[Fact], read: Callable[[Sequence[str]], Awaitable[Sequence[Record]]]
) -> dict[str, Fact]:  # fmt: skip
    """Facts by id, with all that they rest on at any depth; `read` gives the facts of some ids, level by level."""
    known = {fact.id: fact for fact in facts}
    asked, wanted = set(known), [name for fact in known.values() for name in fact.depends_on]
    while (fresh := [name for name in dict.fromkeys(wanted) if name not in asked]) and len(asked) < MOST_PREMISES:
        asked.update(fresh)
        found = [record for record in await read(fresh) if isinstance(record, Fact)]
        known.update((fact.id, fact) for fact in found)
        wanted = [name for fact in found for name in fact.depends_on]
    return known


def fallen(facts: Mapping[str, Fact], moment: datetime, standing: Collection[str] = ()) -> dict[str, Fallen]:
    """Of the facts in a mapping by id, those that are stale at a moment, with the premise that fell first.

    Facts named in `standing` count as holding though they ended: what they claim is known anew.
    """
    resting: dict[str, list[str]] = {}
    for fact in facts.values():
        for name in fact.depends_on:
            resting.setdefault(name, []).append(fact.id)
    ends = {name: ended(facts[name], moment) for name in resting if name in facts and name not in standing}
    found: dict[str, Fallen] = {}
    for since, root in sorted((end, name) for name, end in ends.items() if end is not None):
        reached = [root]
        while reached:
            for above in resting.get(reached.pop(), ()):
                if above not in found:  # else by a premise that fell before
                    found[above] = Fallen(facts[root], since)
                    reached.append(above)
    return found


def unknown(records: Iterable[Record]) -> set[str]:
    """Ids of the facts among these whose premise fell, where no other one is about the same entities, or about none."""
    facts = [record for record in records if isinstance(record, Fact)]
    current = [set(fact.entity_ids) for fact in facts if not fact.fallen_premise]
    return {fact.id for fact in facts if fact.fallen_premise and not _any_about(current, fact.entity_ids)}


def _any_about(current: Sequence[Collection[str]], entities: Collection[str]) -> bool:
    return any(set(each) & set(entities) if entities else not each for each in current)
