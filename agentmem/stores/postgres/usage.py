"""How often records were delivered and used: truth beside the journal, counted once per receipt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from agentmem.model.clock import from_micros, micros
from agentmem.model.records import Key
from agentmem.model.scope import Scope
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


async def touch(db: Connection, scope: Scope, keys: Sequence[Key], receipt_id: str, used: bool, at: datetime) -> None:
    """Count a delivery (or a use) of each current record that this receipt has not counted yet."""
    receipt = {"user_id": scope.user_id, "receipt_id": clean(receipt_id), "used": used, "at": micros(at)}
    held = await db.execute(_sql()["open_receipt"], receipt)  # first: it makes the same receipt sent twice take turns
    found = await rows(db, _sql()["slots"], {"user_id": scope.user_id, **columns(dict.fromkeys(keys))})
    opened = await held.fetchone()
    counted = set(opened[0]) if opened else set()
    fresh = [(slot, kind, record_id) for slot, kind, record_id in found if slot not in counted]
    if not fresh:
        await db.execute(_sql()["drop_empty_receipt"], receipt)
        return
    slots = sorted(counted | {slot for slot, _, _ in fresh})
    await db.execute(_sql()["note_receipt"], {**receipt, "slots": slots})
    conversations = [] if scope.conversation_id is None else [scope.conversation_id]
    values = columns((kind, record_id) for _, kind, record_id in fresh)
    counts = {"accesses": int(not used), "uses": int(used), "most": MOST_CONVERSATIONS, "conversations": conversations}
    await db.execute(_sql()["count"], {"user_id": scope.user_id, "at": micros(at), **counts, **values})


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
