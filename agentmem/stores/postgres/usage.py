"""How often records were delivered and used: truth beside the journal, counted once per receipt."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from agentmem.core.clock import from_micros_or_none, to_micros
from agentmem.core.lifecycle import LifecyclePolicy
from agentmem.core.record import Key
from agentmem.core.scope import Scope
from agentmem.stores.due_updates import UsageEvent, compute_due_after_use, compute_strength_gains, decode_records
from agentmem.stores.job_queue import DueDate
from agentmem.stores.postgres.columns import sanitize_text
from agentmem.stores.postgres.database import fetch_rows
from agentmem.stores.postgres.journal import key_columns
from agentmem.stores.values import RecordUsage
from agentmem.text.templates import load_templates

if TYPE_CHECKING:
    from agentmem.stores.postgres.database import Connection

_SQL = load_templates(__package__, "usage.sql")

MAX_CONVERSATIONS = 32  # distinct conversations remembered per record; rules ask for two


async def record_usage(
    db: Connection, scope: Scope, keys: Sequence[Key], event: UsageEvent, policy: LifecyclePolicy
) -> None:
    """Count a delivery (or a use) of each current record that this receipt has not counted yet."""
    user_id, at = scope.user_id, to_micros(event.used_at)
    receipt = {"user_id": user_id, "receipt_id": sanitize_text(event.receipt_id), "used": event.used, "at": at}
    held = await db.execute(_SQL["open_receipt"], receipt)  # first: it makes the same receipt sent twice take turns
    found = await fetch_rows(db, _SQL["slots"], {"user_id": user_id, **key_columns(dict.fromkeys(keys))})
    opened = await held.fetchone()
    counted = set(opened[0]) if opened else set()
    fresh = [row for row in found if row[0] not in counted]
    if not fresh:
        await db.execute(_SQL["drop_empty_receipt"], receipt)
        return
    await db.execute(_SQL["note_receipt"], {**receipt, "slots": sorted(counted | {row[0] for row in fresh})})
    fading = decode_records(user_id, fresh)
    stronger = compute_strength_gains(fading, event, policy)
    each = [(key, *stronger.get(key, (0, event.boost))) for key in ((row[1], row[2]) for row in fresh)]
    conversations = [] if scope.conversation_id is None else [scope.conversation_id]
    counts = {
        "accesses": int(not event.used),
        "uses": int(event.used),
        "reviews": int(event.used and not event.touched),
        "most": MAX_CONVERSATIONS,
        "at": at,
        "conversations": conversations,
        "strongest": policy.decay.strongest,
        "crossed": [crossed for _, crossed, _ in each],
        "boosts": [boost for _, _, boost in each],
    }
    await db.execute(_SQL["count"], {"user_id": user_id, **counts, **key_columns(key for key, _, _ in each)})
    if fading:
        used = await usage(db, user_id, [record.key for record in fading])
        await set_due_dates(db, user_id, compute_due_after_use(fading, used, event.used_at, policy))


async def set_due_dates(db: Connection, user_id: str, due_dates: Sequence[DueDate]) -> None:
    """Note when records are due, in place of what was noted."""
    if due_dates:
        values = {
            "kinds": [due.kind for due in due_dates],
            "ids": [due.id for due in due_dates],
            "dues": [None if due.due_at is None else to_micros(due.due_at) for due in due_dates],
            "jobs": [due.due_for for due in due_dates],
            "priorities": [due.review_priority for due in due_dates],
        }
        await db.execute(load_templates(__package__, "jobs.sql")["settle"], {"user_id": user_id, **values})


async def usage(db: Connection, user_id: str, keys: Sequence[Key]) -> dict[Key, RecordUsage]:
    """The usage of these records; those never used are left out."""
    found = {}
    for row in await fetch_rows(db, _SQL["usage"], {"user_id": user_id, **key_columns(keys)}):
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


async def drop_usage_receipts(db: Connection, cutoff: datetime) -> int:
    """Forget which records the receipts before a moment counted; returns how many receipts those were."""
    return int((await fetch_rows(db, _SQL["forget_receipts"], {"before": to_micros(cutoff)}))[0][0])
