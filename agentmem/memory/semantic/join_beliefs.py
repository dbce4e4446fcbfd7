"""The beliefs of two entities that became one: under one subject, each once, and one value where a slot has one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from agentmem.beliefs.slots import Slot, find_slot
from agentmem.beliefs.values import is_same_value
from agentmem.core.record import Status
from agentmem.core.records import Entity, Fact
from agentmem.memory.semantic.beliefs import add_sources, apply_belief, order_by_word, to_belief
from agentmem.memory.semantic.entities import MERGED_INTO_PREFIX


def join_beliefs(
    facts: Iterable[Fact], keep: Entity, other: Entity, slots: Mapping[str, Slot], now: datetime
) -> list[Fact]:
    """The facts that change when `other` becomes `keep`; `facts` are all of the user, `slots` the application's own.

    What is about the other one, or names it as a value, is then about the kept one, or names that. Of equal values the
    older record stays, with the sources of both. Of a slot that has one value the newest word counts: others end.
    """
    stored = {fact.id: fact for fact in facts if fact.slot}
    aliases = frozenset(name.casefold() for name in (other.name, *other.aliases))
    renamed = {name: _rename(fact, aliases, keep, other) for name, fact in stored.items()}
    moved = {name for name, fact in renamed.items() if fact is not stored[name]}
    groups: dict[tuple[str, str, str], list[Fact]] = {}
    for fact in renamed.values():
        if fact.superseded_at is None and fact.status in (Status.ACTIVE, Status.PROMOTED, Status.SUPERSEDED):
            groups.setdefault((fact.channel, fact.subject.casefold(), fact.slot), []).append(fact)
    for (_, _, name), group in groups.items():
        if moved.intersection(fact.id for fact in group):
            for fact in _settle_group(group, find_slot(name, slots), now):
                renamed[fact.id] = fact
    return [fact for name, fact in renamed.items() if fact != stored[name]]


def _rename(fact: Fact, aliases: frozenset[str], keep: Entity, other: Entity) -> Fact:
    """The fact with the kept name as its subject, or as its value where that is the other entity."""
    changes: dict[str, str] = {}
    if fact.subject.casefold() in aliases:
        changes["subject"] = keep.name
    if other.id in fact.entity_ids and is_same_value(fact.value, other.name):
        changes["value"] = keep.name
    return fact.model_copy(update=changes) if changes else fact


def _settle_group(group: Sequence[Fact], slot: Slot, now: datetime) -> list[Fact]:
    """The facts of one slot that change when two subjects become one."""
    changed: list[Fact] = []
    known: dict[str, Fact] = {}
    for fact in sorted(group, key=order_by_word):
        same = known.get(_state_key(fact))
        if same is None:
            known[_state_key(fact)] = fact
            continue
        joined = add_sources(same, fact)
        known[_state_key(fact)] = joined
        gone = {"status": Status.SUPERSEDED, "superseded_at": now, "superseded_by": same.id}
        changed += [joined, fact.model_copy(update={**gone, "reason": f"{MERGED_INTO_PREFIX}{same.id}"})]
    if slot.kind == "set":
        return changed
    for planned in (False, True):
        standing = ("planned", "due") if planned else ("held",)
        alike = [fact for fact in known.values() if to_belief(fact).standing(now) in standing]
        alike.sort(key=order_by_word)
        changed += [_give_way(old, alike[-1], now) for old in alike[:-1]]
    return changed


def _state_key(fact: Fact) -> str:
    """Equal for values in the same state: held ones of one value, plans of one value; an ended one has its own."""
    if fact.valid_to is None:
        return f"{fact.value.casefold()}\0{fact.is_denied}\0{fact.temporal_context == 'future'}"
    return fact.dedup_key()


def _give_way(old: Fact, new: Fact, now: datetime) -> Fact:
    """An older value beside a newer one: ended where that began or, of a plan, given up."""
    belief, newer = to_belief(old), to_belief(new)
    began = newer.since or newer.first_said_at
    if belief.is_planned or (belief.since is not None and belief.since >= began):
        reason = "given up" if belief.is_planned else "wrong"
        gone = {"status": Status.SUPERSEDED, "superseded_at": now, "superseded_by": new.id, "reason": reason}
        return old.model_copy(update=gone)
    ended = apply_belief(old, replace(belief, until=began))
    return ended.model_copy(update={"superseded_by": new.id, "status": Status.SUPERSEDED})
