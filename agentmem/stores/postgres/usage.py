"""How often records were delivered and used: truth beside the journal, counted once per receipt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from agentmem.model.clock import from_micros, micros
from agentmem.model.dues import Laws
from agentmem.model.records import Key
from agentmem.model.scope import Scope
from agentmem.stores.fading import Touch, decoded, strengthened, touched
from agentmem.stores.jobs import Due
from agentmem.stores.postgres.columns import clean
from agentmem.stores.postgres.connection import rows
from agentmem.stores.postgres.journal import columns
from agentmem.stores.values import Usage
from agentmem.text.blocks import load_blocks

if TYPE_CHECKING:
    from agentmem.stores.postgres.connection import Connection

MOST_CONVERSATIONS = 32  # distinct conversations remembered per record; rules ask for two


def _sql() -> Mapping[str, str]:
    return load_blocks(__package__, "usage.sql")


async def touch(db: Connection, scope: Scope, keys: Sequence[Key], given: Touch, laws: Laws) -> None:
    """Count a delivery (or a use) of each current record that this receipt has not counted yet."""
    user_id, at = scope.user_id, micros(given.at)
    receipt = {"user_id": user_id, "receipt_id": clean(given.receipt_id), "used": given.used, "at": at}
    held = await db.execute(_sql()["open_receipt"], receipt)  # first: it makes the same receipt sent twice take turns
    found = await rows(db, _sql()["slots"], {"user_id": user_id, **columns(dict.fromkeys(keys))})
    opened = await held.fetchone()
    counted = set(opened[0]) if opened else set()
    fresh = [row for row in found if row[0] not in counted]
    if not fresh:
        await db.execute(_sql()["drop_empty_receipt"], receipt)
        return
    await db.execute(_sql()["note_receipt"], {**receipt, "slots": sorted(counted | {row[0] for row in fresh})})
    fading = decoded(user_id, fresh)
    stronger = strengthened(fading, given, laws)
    each = [(key, *stronger.get(key, (0, given.boost))) for key in ((row[1], row[2]) for row in fresh)]
    conversations = [] if scope.conversation_id is None else [scope.conversation_id]
    counts = {
        "accesses": int(not given.used), "uses": int(given.used), "most": MOST_CONVERSATIONS, "at": at,
        "conversations": conversations, "strongest": laws.decay.strongest,
        "crossed": [crossed for _, crossed, _ in each], "boosts": [boost for _, _, boost in each],
    }  # fmt: skip
    await db.execute(_sql()["count"], {"user_id": user_id, **counts, **columns(key for key, _, _ in each)})
    if fading:
        used = await usage(db, user_id, [record.key for record in fading])
        await settle(db, user_id, touched(fading, used, given.at, laws))


async def settle(db: Connection, user_id: str, dues: Sequence[Due]) -> None:
    """Note when records are due, in place of what was noted."""
    if dues:
        values = {
            "kinds": [due.kind for due in dues], "ids": [due.id for due in dues],
            "dues": [None if due.due_at is None else micros(due.due_at) for due in dues],
            "jobs": [due.due_for for due in dues], "priorities": [due.review_priority for due in dues],
        }  # fmt: skip
        await db.execute(load_blocks(__package__, "jobs.sql")["settle"], {"user_id": user_id, **values})


async def usage(db: Connection, user_id: str, keys: Sequence[Key]) -> dict[Key, Usage]:
    """The usage of these records; those never used are left out."""
    found = {}
    for row in await rows(db, _sql()["usage"], {"user_id": user_id, **columns(keys)}):
        kind, record_id, accesses, uses, accessed, strength, conversations, priority, reviewed, reviews, crossed = row
        found[kind, record_id] = Usage(
            kind, record_id, accesses, uses, _moment(accessed), strength, conversations, priority, _moment(reviewed),
            reviews, crossed,
        )  # fmt: skip
    return found


def _moment(value: int | None) -> datetime | None:
    return None if value is None else from_micros(value)


async def forget_receipts(db: Connection, before: datetime) -> int:
    """Forget which records the receipts before a moment counted; returns how many receipts those were."""
    return int((await rows(db, _sql()["forget_receipts"], {"before": micros(before)}))[0][0])
