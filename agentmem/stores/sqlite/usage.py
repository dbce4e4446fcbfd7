"""How often records were delivered and used: truth beside the journal, counted once per receipt."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime

from agentmem.core.clock import from_micros_or_none, to_micros
from agentmem.core.lifecycle import LifecyclePolicy
from agentmem.core.record import Key
from agentmem.core.scope import Scope
from agentmem.stores.due_updates import UsageEvent, compute_due_after_use, compute_strength_gains, decode_records
from agentmem.stores.job_queue import DueDate
from agentmem.stores.sqlite.database import Connection
from agentmem.stores.values import RecordUsage
from agentmem.text.templates import load_templates

_SQL = load_templates(__package__, "usage.sql")

MAX_CONVERSATIONS = 32  # distinct conversations remembered per record; rules ask for two


def record_usage(db: Connection, scope: Scope, keys: Sequence[Key], event: UsageEvent, policy: LifecyclePolicy) -> None:
    """Count a delivery (or a use) of each current record that this receipt has not counted yet."""
    user_id, moment = scope.user_id, to_micros(event.used_at)
    found = list(db.execute(_SQL["slots"], (user_id, json.dumps(list(dict.fromkeys(keys))))))
    row = db.execute(_SQL["counted"], (user_id, event.receipt_id, event.used)).fetchone()
    counted = set(json.loads(row[0])) if row else set()
    fresh = [row for row in found if row[0] not in counted]
    if not fresh:
        return
    ordinals = sorted(counted | {row[0] for row in fresh})
    db.execute(_SQL["note_receipt"], (user_id, event.receipt_id, event.used, moment, json.dumps(ordinals)))
    fading = decode_records(user_id, fresh)
    stronger = compute_strength_gains(fading, event, policy)
    rows = [
        {
            "user_id": user_id,
            "kind": kind,
            "id": record_id,
            "accesses": int(not event.used),
            "uses": int(event.used),
            "reviews": int(event.used and not event.touched),
            "at": moment,
            "conversation": scope.conversation_id,
            "most": MAX_CONVERSATIONS,
            "crossed": crossed,
            "boost": boost,
            "strongest": policy.decay.strongest,
        }
        for _, kind, record_id, *_ in fresh
        for crossed, boost in [stronger.get((kind, record_id), (0, event.boost))]
    ]
    db.executemany(_SQL["count"], rows)
    if scope.conversation_id is not None:
        db.executemany(_SQL["note_conversation"], rows)
    if fading:
        used = usage(db, user_id, [record.key for record in fading])
        set_due_dates(db, user_id, compute_due_after_use(fading, used, event.used_at, policy))


def set_due_dates(db: Connection, user_id: str, due_dates: Sequence[DueDate]) -> None:
    """Note when records are due, in place of what was noted."""
    if due_dates:
        listed = [
            [due.kind, due.id, due.due_at and to_micros(due.due_at), due.due_for, due.review_priority]
            for due in due_dates
        ]
        db.execute(load_templates(__package__, "jobs.sql")["settle"], (user_id, json.dumps(listed)))


def usage(db: Connection, user_id: str, keys: Sequence[Key]) -> dict[Key, RecordUsage]:
    """The usage of these records; those never used are left out."""
    found = {}
    for row in db.execute(_SQL["usage"], (user_id, json.dumps(list(keys)))):
        kind, record_id, accesses, uses, accessed, strength, conversations, priority, reviewed, reviews, crossed = row
        found[kind, record_id] = RecordUsage(
            kind,
            record_id,
            accesses,
            uses,
            from_micros_or_none(accessed),
            strength,
            conversations,
            priority,
            from_micros_or_none(reviewed),
            reviews,
            crossed,
        )
    return found


def drop_usage_receipts(db: Connection, cutoff: datetime) -> int:
    """Forget which records the receipts before a moment counted; returns how many receipts those were."""
    db.execute(_SQL["forget_receipts"], (to_micros(cutoff),))
    return db.changes()
