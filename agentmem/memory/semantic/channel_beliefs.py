"""Beliefs of a channel and those of every channel as one reader sees them: where they differ, one of them is over."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime

from agentmem.beliefs.slots import NamedSlot
from agentmem.beliefs.values import is_refinement, is_same_value, normalize_value
from agentmem.core.records import Fact
from agentmem.core.scope import GLOBAL
from agentmem.memory.semantic.beliefs import to_belief


def join_channels(facts: Collection[Fact], slots: Mapping[str, NamedSlot]) -> list[Fact]:
    """The facts as their reader sees them. What is stored stays: another channel may read it otherwise.

    Of a slot with one value the newest word counts, of an instruction that of the channel itself, whenever it was
    said. A value that ended, or was denied, in the channel holds in none of its readers' beliefs.
    """
    places: dict[tuple[str, str], list[Fact]] = {}
    for fact in facts:
        places.setdefault((fact.subject.casefold(), fact.slot), []).append(fact)
    return [
        fact
        for (_, slot), group in places.items()
        for fact in (_join(group, slots[slot]) if len({each.channel for each in group}) > 1 else group)
    ]


def _join(group: Sequence[Fact], slot: NamedSlot) -> Iterator[Fact]:
    general = [fact for fact in group if fact.channel == GLOBAL]
    own = [fact for fact in group if fact.channel != GLOBAL]
    for mine, others in ((own, general), (general, own)):
        same: dict[str, list[Fact]] = {}
        for each in others:
            same.setdefault(normalize_value(each.value), []).append(each)
        rivals = [each for each in others if _is_open(each)] if slot.kind in ("one", "fixed") else []
        for fact in mine:
            seen = [*rivals, *same.get(normalize_value(fact.value), ())] if _is_open(fact) else []
            ends = [end for each in seen if (end := _find_end(fact, each, slot))]
            if not ends:
                yield fact
            elif fact.valid_from is None or fact.valid_from < min(ends):
                yield fact.model_copy(update={"valid_to": min(ends)})


def _find_end(fact: Fact, other: Fact, slot: NamedSlot) -> datetime | None:
    """When a held value is over by a fact of another channel; None where it is not."""
    belief, newer = to_belief(fact), to_belief(other)
    is_same = is_same_value(fact.value, other.value)
    is_later = newer.said_at > belief.said_at
    if is_same and fact.channel == GLOBAL and is_later and (newer.until or newer.is_denied):
        return newer.until or newer.said_at
    if slot.kind not in ("one", "fixed") or not _is_open(other) or is_same:
        return None
    counts = fact.channel == GLOBAL if slot.is_instruction else is_later and newer.ground >= belief.ground
    if is_refinement(slot, fact.value, other.value) or is_refinement(slot, other.value, fact.value):
        return None
    return (newer.since or newer.first_said_at) if counts else None


def _is_open(fact: Fact) -> bool:
    """Whether a fact states what holds: not a plan, a denial or a guess, and not over."""
    return not (fact.superseded_at or fact.valid_to or fact.is_denied or fact.temporal_context == "future")
