"""When the records of a write or a delivery are due next: worked out here for every store, written by the store."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from agentmem.core.clock import from_micros
from agentmem.core.lifecycle import CLEANUP, GC, LifecyclePolicy, is_cross_domain, next_due
from agentmem.core.record import Key, Record
from agentmem.core.records import Entity, Fact, Turn
from agentmem.settings.sections import LifecycleSettings
from agentmem.stores.codec import RecordMetadata, decode
from agentmem.stores.job_queue import DueDate
from agentmem.stores.values import RecordUsage
from agentmem.stores.write_plan import WritePlan

DUE_KINDS = (
    "Conversation",
    "Document",
    "Entity",
    "Fact",
    "Schedule",
)  # the kinds that a job looks at when their time has come
RESTORING_OPERATIONS = ("undo", "restore")
ARCHIVING_JOBS = (GC, CLEANUP)
DEFAULT_POLICY: LifecyclePolicy = LifecycleSettings()


class UsageEvent(NamedTuple):
    """One delivery or use. `boost` is added to the strength, as is the settings' own where the field is another one.

    `touched`: the use is counted on purpose, to keep it.
    """

    receipt_id: str
    used: bool
    used_at: datetime
    context_tags: tuple[str, ...] = ()
    boost: float = 0.0
    touched: bool = False


def build_due_date(record: Record, usage: RecordUsage | None, now: datetime, policy: LifecyclePolicy) -> DueDate:
    """When a record is due next, seen from now."""
    due_at, due_for, priority = next_due(record, usage, now, policy)
    return DueDate(*record.key, due_at, due_for, priority)


def keys_needing_usage(plan: WritePlan) -> list[Key]:
    """The records of a write that fade and may have been used before: their usage has to be asked for."""
    return [
        stored.record.key
        for ordinal, stored in plan.upserts.items()
        if stored.record.kind in DUE_KINDS and ordinal in plan.known_before
    ]


def compute_due_after_write(
    plan: WritePlan, usage: Mapping[Key, RecordUsage], policy: LifecyclePolicy
) -> list[DueDate]:
    """When the records that a write put are due. New ones that never are need no row, others may have one.

    What was brought back after a job had put it away is due no more by itself, until it is used.
    """
    now, dues = from_micros(plan.recorded_at), []
    back = {entry.operation_id for entry in plan.entries if entry.operation in RESTORING_OPERATIONS}
    for ordinal, stored in plan.upserts.items():
        record = stored.record
        if record.kind not in DUE_KINDS:
            continue
        found = build_due_date(record, usage.get(record.key), now, policy)
        if record.operation_id in back and found.due_for in ARCHIVING_JOBS and found.due_at and found.due_at <= now:
            found = DueDate(*record.key, None)
        if found.due_at is not None or (ordinal in plan.known_before and record.key in usage):
            dues.append(found)
    return dues


def list_continued_conversations(plan: WritePlan) -> list[str]:
    """The conversations known before to which a write added turns."""
    named = {stored.record.position_key()[0] for stored in plan.upserts.values() if isinstance(stored.record, Turn)}
    held = ((name, plan.read_set.versions.get(("Conversation", name))) for name in sorted(named))
    return [name for name, found in held if found is not None and found.ordinal in plan.known_before]


def list_removed_due_keys(plan: WritePlan) -> list[Key]:
    """The records that a write took away and that were due some time."""
    return [(gone.kind, gone.id) for gone in plan.removed.values() if gone.kind in DUE_KINDS]


def is_cross_domain_use(record: Record, event: UsageEvent, policy: LifecyclePolicy) -> bool:
    """Whether a use is one in another field than the record's own."""
    below: float = policy.decay.cross_domain
    return event.used and isinstance(record, Fact) and is_cross_domain(record.tags, event.context_tags, below)


def compute_due_after_use(
    records: Iterable[Record], usage: Mapping[Key, RecordUsage], now: datetime, policy: LifecyclePolicy
) -> list[DueDate]:
    """When records that were delivered or used are due now: short-lived facts, entities, and what is to be promoted."""
    dues = []
    for record in records:
        found = build_due_date(record, usage.get(record.key), now, policy)
        if found.due_at is not None or isinstance(record, Entity) or getattr(record, "tier", "") == "short":
            dues.append(found)
    return dues


def decode_records(user_id: str, rows: Iterable[Sequence[Any]]) -> list[Record]:
    """The records that fade, from rows of the statement `slots`."""
    return [
        decode(kind, payload, RecordMetadata._make([user_id, record_id, *stamp, ""]))
        for _, kind, record_id, payload, *stamp in rows
        if payload is not None
    ]


def compute_strength_gains(
    records: Sequence[Record], event: UsageEvent, policy: LifecyclePolicy
) -> dict[Key, tuple[int, float]]:
    """Of records used: whether in another field, as 0 or 1, and by how much each becomes stronger."""
    found = {}
    for record in records:
        crossed = int(is_cross_domain_use(record, event, policy))
        found[record.key] = crossed, event.boost + crossed * policy.decay.cross_domain_boost
    return found
