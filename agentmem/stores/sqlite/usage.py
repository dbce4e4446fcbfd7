"""How often records were delivered and used: truth beside the journal, counted once per receipt."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime

from agentmem.model.clock import from_micros, micros
from agentmem.model.records import Key
from agentmem.model.scope import Scope
from agentmem.stores import Usage
from agentmem.stores.sqlite.connection import Connection
from agentmem.text.blocks import load_blocks

MOST_CONVERSATIONS = 32  # distinct conversations remembered per record; rules ask for two


def _sql() -> Mapping[str, str]:
    return load_blocks(__package__, "usage.sql")


def touch(db: Connection, scope: Scope, keys: Sequence[Key], receipt_id: str, used: bool, at: datetime) -> None:
    """Count a delivery (or a use) of each current record that this receipt has not counted yet."""
    user_id, moment = scope.user_id, micros(at)
    found = list(db.execute(_sql()["slots"], (user_id, json.dumps(list(dict.fromkeys(keys))))))
    row = db.execute(_sql()["counted"], (user_id, receipt_id, used)).fetchone()
    counted = set(json.loads(row[0])) if row else set()
    fresh = [(slot, kind, record_id) for slot, kind, record_id in found if slot not in counted]
    if not fresh:
        return
    slots = sorted(counted | {slot for slot, _, _ in fresh})
    db.execute(_sql()["note_receipt"], (user_id, receipt_id, used, moment, json.dumps(slots)))
    rows = [
        {"user_id": user_id, "kind": kind, "id": record_id, "accesses": int(not used), "uses": int(used), "at": moment,
         "conversation": scope.conversation_id, "most": MOST_CONVERSATIONS}
        for _, kind, record_id in fresh
    ]  # fmt: skip
    db.executemany(_sql()["count"], rows)
    if scope.conversation_id is not None:
        db.executemany(_sql()["note_conversation"], rows)


def usage(db: Connection, user_id: str, keys: Sequence[Key]) -> dict[Key, Usage]:
    """The usage of these records; those never used are left out."""
    found = {}
    for row in db.execute(_sql()["usage"], (user_id, json.dumps(list(keys)))):
        kind, record_id, accesses, uses, accessed, strength, conversations, priority, reviewed, reviews, crossed = row
        found[kind, record_id] = Usage(
            kind, record_id, accesses, uses, _moment(accessed), strength, conversations, priority, _moment(reviewed),
            reviews, crossed,
        )  # fmt: skip
    return found


def _moment(value: int | None) -> datetime | None:
    return None if value is None else from_micros(value)


def forget_receipts(db: Connection, before: datetime) -> int:
    """Forget which records the receipts before a moment counted; returns how many receipts those were."""
    db.execute(_sql()["forget_receipts"], (micros(before),))
    return db.changes()
