"""How often records were delivered and used: truth beside the journal, counted once per receipt."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime

from agentmem.model.clock import from_micros, micros
from agentmem.model.dues import Laws
from agentmem.model.records import Key
from agentmem.model.scope import Scope
from agentmem.stores import Usage
from agentmem.stores.fading import Touch, decoded, strengthened, touched
from agentmem.stores.jobs import Due
from agentmem.stores.sqlite.connection import Connection
from agentmem.text.blocks import load_blocks

MOST_CONVERSATIONS = 32  # distinct conversations remembered per record; rules ask for two


def _sql() -> Mapping[str, str]:
    return load_blocks(__package__, "usage.sql")


def touch(db: Connection, scope: Scope, keys: Sequence[Key], given: Touch, laws: Laws) -> None:
    """Count a delivery (or a use) of each current record that this receipt has not counted yet."""
    user_id, moment = scope.user_id, micros(given.at)
    found = list(db.execute(_sql()["slots"], (user_id, json.dumps(list(dict.fromkeys(keys))))))
    row = db.execute(_sql()["counted"], (user_id, given.receipt_id, given.used)).fetchone()
    counted = set(json.loads(row[0])) if row else set()
    fresh = [row for row in found if row[0] not in counted]
    if not fresh:
        return
    slots = sorted(counted | {row[0] for row in fresh})
    db.execute(_sql()["note_receipt"], (user_id, given.receipt_id, given.used, moment, json.dumps(slots)))
    fading = decoded(user_id, fresh)
    stronger = strengthened(fading, given, laws)
    rows = [
        {"user_id": user_id, "kind": kind, "id": record_id, "accesses": int(not given.used), "uses": int(given.used),
         "at": moment, "conversation": scope.conversation_id, "most": MOST_CONVERSATIONS, "crossed": crossed,
         "boost": boost, "strongest": laws.decay.strongest}
        for _, kind, record_id, *_ in fresh
        for crossed, boost in [stronger.get((kind, record_id), (0, given.boost))]
    ]  # fmt: skip
    db.executemany(_sql()["count"], rows)
    if scope.conversation_id is not None:
        db.executemany(_sql()["note_conversation"], rows)
    if fading:
        used = usage(db, user_id, [record.key for record in fading])
        settle(db, user_id, touched(fading, used, given.at, laws))


def settle(db: Connection, user_id: str, dues: Sequence[Due]) -> None:
    """Note when records are due, in place of what was noted."""
    if dues:
        listed = [
            [due.kind, due.id, due.due_at and micros(due.due_at), due.due_for, due.review_priority] for due in dues
        ]
        db.execute(load_blocks(__package__, "jobs.sql")["settle"], (user_id, json.dumps(listed)))


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
