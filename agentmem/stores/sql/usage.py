"""How often records were delivered and used: truth beside the journal, counted once per receipt."""

from __future__ import annotations

import json
from collections.abc import Sequence

from agentmem.core.clock import from_micros_or_none, to_micros
from agentmem.core.lifecycle import LifecyclePolicy
from agentmem.core.record import Key
from agentmem.core.scope import Scope
from agentmem.stores.codec import sanitize_text
from agentmem.stores.due_updates import UsageEvent, compute_due_after_use, compute_strength_gains, decode_records
from agentmem.stores.sql.connection import Keys, SqlConnection
from agentmem.stores.sql.jobs import set_due_dates
from agentmem.stores.values import RecordUsage

MAX_CONVERSATIONS = 32  # distinct conversations remembered per record; rules ask for two


async def record_usage(
    db: SqlConnection, scope: Scope, keys: Sequence[Key], event: UsageEvent, policy: LifecyclePolicy
) -> None:
    """Count a delivery (or a use) of each current record that this receipt has not counted yet."""
    user_id, at = scope.user_id, to_micros(event.used_at)
    receipt = {"user_id": user_id, "receipt_id": sanitize_text(event.receipt_id), "used": event.used, "at": at}
    # On a server the receipt comes first: that makes the same receipt, sent twice, take turns.
    statements = "usage.open_receipt", "usage.records"
    opened, found = await db.rows_of(*statements, **receipt, keys=Keys(dict.fromkeys(keys)))
    counted = set(_decode_ordinals(opened[0][0])) if opened else set()
    fresh = [row for row in found if row[0] not in counted]
    if not fresh:
        await db.run("usage.drop_empty_receipt", **receipt)
        return
    await db.run("usage.put_receipt", **receipt, ordinals=sorted(counted | {row[0] for row in fresh}))
    fading = decode_records(user_id, fresh)
    stronger = compute_strength_gains(fading, event, policy)
    rows = [
        {"kind": kind, "id": record_id, "crossed": crossed, "boost": boost}
        for _, kind, record_id, *_ in fresh
        for crossed, boost in [stronger.get((kind, record_id), (0, event.boost))]
    ]
    await db.run_each(
        "usage.count",
        rows,
        user_id=user_id,
        accesses=int(not event.used),
        uses=int(event.used),
        reviews=int(event.used and not event.touched),
        most=MAX_CONVERSATIONS,
        at=at,
        conversations=[] if scope.conversation_id is None else [scope.conversation_id],
        strongest=policy.decay.strongest,
    )
    if fading:
        used = await usage(db, user_id, [record.key for record in fading])
        await set_due_dates(db, user_id, compute_due_after_use(fading, used, event.used_at, policy))


def _decode_ordinals(value: str | list[int]) -> list[int]:
    ordinals: list[int] = json.loads(value) if isinstance(value, str) else value
    return ordinals


async def usage(db: SqlConnection, user_id: str, keys: Sequence[Key]) -> dict[Key, RecordUsage]:
    """The usage of these records; those never used are left out."""
    found = {}
    for row in await db.rows("usage.usage", user_id=user_id, keys=Keys(keys)):
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
