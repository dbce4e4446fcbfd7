"""The audit log: rows are added, and else touched by two functions only, one for retention and one for erasure."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

from agentmem.errors import InvalidRecord
from agentmem.model.changes import Audit
from agentmem.model.clock import Clock, aware, micros
from agentmem.model.scope import SYSTEM_USER
from agentmem.stores.auditing import FILTERS, bare, check_filters, stamp
from agentmem.stores.sqlite.connection import Connection
from agentmem.text.blocks import load_blocks

_ENCODER = json.JSONEncoder(ensure_ascii=False, default=str, separators=(",", ":"))
_JSON = ("target_channels", "config_snapshot", "metadata")


def _sql() -> Mapping[str, str]:
    return load_blocks(__package__, "audit.sql")


def insert(db: Connection, entries: Sequence[Audit], clock: Clock) -> None:
    """Add a row for each entry; entries without a scope belong to the system's user.

    An id is the moment in microseconds and a number: those of one user and moment count on, in order.
    """
    moment = clock.now()
    now, began = stamp(moment), micros(moment)
    numbers: dict[str, int] = {}
    rows = []
    for entry in entries:
        user_id = SYSTEM_USER if entry.scope is None else entry.scope.user_id
        if user_id not in numbers:
            last: str | None = db.execute(_sql()["last_id"], (user_id, now)).get
            numbers[user_id] = 0 if last is None else int(last.rpartition("-")[2])
        numbers[user_id] += 1
        told = bare(entry) if entry.scope and _erased_since(db, user_id, entry.seen) else entry
        rows.append((f"{began:016d}-{numbers[user_id]:09d}", now, *_row(told)))
    db.executemany(_sql()["insert"], rows)


def _erased_since(db: Connection, user_id: str, seen: int | None) -> bool:
    """Whether something of the user was erased after a journal position; never when there is none."""
    return seen is not None and db.execute(_sql()["erased_since"], (user_id, seen)).fetchone() is not None


def _row(entry: Audit) -> tuple[Any, ...]:
    scope = entry.scope
    where: tuple[Any, ...] = (SYSTEM_USER, None, None, None)
    if scope is not None:
        where = (scope.user_id, scope.session_id, scope.conversation_id, scope.agent_id)
    return (
        entry.operation, entry.memory_type, *where, entry.operation_id,
        None if scope is None else scope.channel, _json(entry.target_channels), _clean(entry.query_text),
        entry.result_count, entry.latency_ms, entry.success, _clean(entry.error_message), entry.promoted_from_channel,
        entry.promotion_confidence, entry.promotion_access_count, entry.promotion_conversation_count,
        _json(entry.config_snapshot), _json(entry.metadata),
    )  # fmt: skip


def _json(value: Any) -> str | None:
    return _clean(_ENCODER.encode(value))


def _clean(text: str | None) -> str | None:
    # A lone surrogate in a query must not cost the row that tells of it.
    return text if text is None or text.isascii() else text.encode("utf-8", "replace").decode()


def rows(db: Connection, user_id: str, filters: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Rows of a user that match all filters, newest first, at most `limit` (100).

    Raises InvalidRecord for another filter.
    """
    check_filters(filters)
    wanted = {name: filters.get(name) for name in FILTERS}
    for name in ("since", "until"):
        moment = filters.get(name)
        wanted[name] = None if moment is None else stamp(moment)
    wanted |= {"user_id": user_id, "limit": 100 if wanted["limit"] is None else wanted["limit"]}
    cursor = db.execute(_sql()["rows"], wanted)
    found = [dict(zip((column[0] for column in cursor.get_description()), row, strict=True)) for row in cursor]
    for row in found:
        row["success"] = bool(row["success"])
        row.update({name: json.loads(row[name]) for name in _JSON})
    return found


@contextmanager
def _gate(db: Connection, purpose: str) -> Iterator[None]:
    db.execute(_sql()["open_gate"], (purpose,))
    try:
        yield
    finally:
        db.execute(_sql()["close_gate"])


def drop_old_days(db: Connection, now: datetime, keep_days: int) -> int:
    """Drop the rows of whole days (UTC) that lie more than `keep_days` before today; returns how many rows went."""
    if keep_days < 1:
        raise InvalidRecord(f"keep_audit_days must be 1 or more, got {keep_days}", field="keep_audit_days")
    first_kept = aware(now).date() - timedelta(days=keep_days)
    with _gate(db, "retention"):
        db.execute(_sql()["drop_before"], (first_kept.isoformat(),))
        return db.changes()


def blank_user(db: Connection, user_id: str) -> None:
    """Blank all text and all names in a user's rows; what was done, when, and with how many results stays."""
    with _gate(db, "erasure"):
        db.execute(_sql()["blank_user"], (user_id,))


def blank_rows(
    db: Connection, user_id: str, found: Collection[tuple[str, str]], settings: Collection[tuple[str, str]]
) -> None:
    """Blank query, error and details of these rows (by timestamp and id), and the settings of those."""
    with _gate(db, "erasure"):
        db.executemany(_sql()["blank"], [(user_id, *key) for key in sorted(found)])
        db.executemany(_sql()["blank_settings"], [(user_id, *key) for key in sorted(settings)])


def texts(db: Connection, user_id: str) -> Iterator[tuple[tuple[str, str], str, tuple[str, str, str, str]]]:
    """Each row of a user that holds text: its key, its operation_id, and query, error, details and settings."""
    for timestamp, number, operation_id, *held in db.execute(_sql()["texts"], (user_id,)):
        query, error, details, settings = held
        yield (timestamp, number), operation_id, (query, error, details, settings)


def keep_receipt(db: Connection, key: tuple[str, str], receipt: str, at: datetime, seen: int | None) -> None:
    """Keep a receipt under its user and id, unless something of the user was erased since."""
    if not _erased_since(db, key[0], seen):
        db.execute(_sql()["keep_receipt"], (*key, micros(at), receipt))


def receipt(db: Connection, user_id: str, receipt_id: str) -> str | None:
    """The receipt of this id."""
    row = db.execute(_sql()["receipt"], (user_id, receipt_id)).fetchone()
    return None if row is None else str(row[0])


def drop_receipts(db: Connection, before: datetime) -> int:
    """Drop the receipts of before a moment; returns how many those were."""
    db.execute(_sql()["drop_receipts"], (micros(before),))
    return db.changes()
