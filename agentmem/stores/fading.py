"""When the records of a write or a delivery are due next: worked out here for every store, written by the store."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from agentmem.model.clock import from_micros
from agentmem.model.decay import is_cross_domain
from agentmem.model.dues import CLEANUP, GC, Laws, next_due
from agentmem.model.records import Entity, Fact, Key, Record, Turn
from agentmem.settings_parts import LifeOptions
from agentmem.stores.draft import Draft
from agentmem.stores.jobs import Due
from agentmem.stores.payload import Stamp, decode
from agentmem.stores.values import Usage

FADING = ("Conversation", "Entity", "Fact", "Schedule")  # the kinds that a job looks at when their time has come
BROUGHT_BACK = ("undo", "restore")
PUT_AWAY = (GC, CLEANUP)
DEFAULT: Laws = LifeOptions()


class Touch(NamedTuple):
    """One delivery or use. `boost` is added to the strength, as is the settings' own where the field is another one."""

    receipt_id: str
    used: bool
    at: datetime
    context_tags: tuple[str, ...] = ()
    boost: float = 0.0


def due_of(record: Record, usage: Usage | None, now: datetime, laws: Laws) -> Due:
    """When a record is due next, seen from now."""
    due_at, due_for, priority = next_due(record, usage, now, laws)
    return Due(*record.key, due_at, due_for, priority)


def known(draft: Draft) -> list[Key]:
    """The records of a write that fade and may have been used before: their usage has to be asked for."""
    return [
        stored.record.key for slot, stored in draft.written.items()
        if stored.record.kind in FADING and slot in draft.was_known
    ]  # fmt: skip


def written(draft: Draft, usage: Mapping[Key, Usage], laws: Laws) -> list[Due]:
    """When the records that a write put are due. New ones that never are need no row, others may have one.

    What was brought back after a job had put it away is due no more by itself, until it is used.
    """
    now, dues = from_micros(draft.at), []
    back = {entry.operation_id for entry in draft.entries if entry.operation in BROUGHT_BACK}
    for slot, stored in draft.written.items():
        record = stored.record
        if record.kind not in FADING:
            continue
        found = due_of(record, usage.get(record.key), now, laws)
        if record.operation_id in back and found.due_for in PUT_AWAY and found.due_at and found.due_at <= now:
            found = Due(*record.key, None)
        if found.due_at is not None or (slot in draft.was_known and record.key in usage):
            dues.append(found)
    return dues


def went_on(draft: Draft) -> list[str]:
    """The conversations known before to which a write added turns."""
    named = {stored.record.place()[0] for stored in draft.written.values() if isinstance(stored.record, Turn)}
    held = ((name, draft.state.held.get(("Conversation", name))) for name in sorted(named))
    return [name for name, found in held if found is not None and found.slot in draft.was_known]


def left(draft: Draft) -> list[Key]:
    """The records that a write took away and that were due some time."""
    return [(gone.kind, gone.id) for gone in draft.left.values() if gone.kind in FADING]


def is_crossed(record: Record, touch: Touch, laws: Laws) -> bool:
    """Whether a use is one in another field than the record's own."""
    below: float = laws.decay.cross_domain
    return touch.used and isinstance(record, Fact) and is_cross_domain(record.tags, touch.context_tags, below)


def touched(records: Iterable[Record], usage: Mapping[Key, Usage], at: datetime, laws: Laws) -> list[Due]:
    """When records that were delivered or used are due now: short-lived facts, entities, and what is to be promoted."""
    dues = []
    for record in records:
        found = due_of(record, usage.get(record.key), at, laws)
        if found.due_at is not None or isinstance(record, Entity) or getattr(record, "tier", "") == "short":
            dues.append(found)
    return dues


def decoded(user_id: str, rows: Iterable[Sequence[Any]]) -> list[Record]:
    """The records that fade, of rows of the statement `slots`."""
    return [
        decode(kind, payload, Stamp._make([user_id, record_id, *stamp, ""]))
        for _, kind, record_id, payload, *stamp in rows
        if payload is not None
    ]


def strengthened(fresh: Sequence[Record], touch: Touch, laws: Laws) -> dict[Key, tuple[int, float]]:
    """Of records used: whether in another field, as 0 or 1, and by how much each becomes stronger."""
    found = {}
    for record in fresh:
        crossed = int(is_crossed(record, touch, laws))
        found[record.key] = crossed, touch.boost + crossed * laws.decay.cross_domain_boost
    return found
