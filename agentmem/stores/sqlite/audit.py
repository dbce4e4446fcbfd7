"""The audit log: rows are added, and else touched by two functions only, one for retention and one for erasure."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

from agentmem.core.changes import AuditEntry
from agentmem.core.clock import Clock, to_micros, to_utc
from agentmem.core.scope import SYSTEM_USER
from agentmem.errors import InvalidRecord
from agentmem.stores.codec import AUDIT_FILTERS, check_audit_filters, format_timestamp, redact_audit
from agentmem.stores.erasure_terms import AuditText
from agentmem.stores.sqlite.database import Connection
from agentmem.text.templates import load_templates

_SQL = load_templates(__package__, "audit.sql")

_ENCODER = json.JSONEncoder(ensure_ascii=False, default=str, separators=(",", ":"))
_JSON_COLUMNS = ("target_channels", "config_snapshot", "metadata")


def insert(db: Connection, entries: Sequence[AuditEntry], clock: Clock) -> None:
    """Add a row for each entry; entries without a scope belong to the system's user.

    An id is the moment in microseconds and a number: those of one user and moment count on, in order.
    """
    moment = clock.now()
    now, began = format_timestamp(moment), to_micros(moment)
    numbers: dict[str, int] = {}
    rows = []
    for entry in entries:
        user_id = SYSTEM_USER if entry.scope is None else entry.scope.user_id
        if user_id not in numbers:
            last: str | None = db.execute(_SQL["last_id"], (user_id, now)).get
            numbers[user_id] = 0 if last is None else int(last.rpartition("-")[2])
        numbers[user_id] += 1
        told = redact_audit(entry) if entry.scope and _has_erasure_since(db, user_id, entry.seen_seq) else entry
        rows.append((f"{began:016d}-{numbers[user_id]:09d}", now, *_row(told)))
    db.executemany(_SQL["insert"], rows)


def _has_erasure_since(db: Connection, user_id: str, seen_seq: int | None) -> bool:
    """Whether something of the user was erased after a journal position; never when there is none."""
    return seen_seq is not None and db.execute(_SQL["erased_since"], (user_id, seen_seq)).fetchone() is not None


def _row(entry: AuditEntry) -> tuple[Any, ...]:
    scope = entry.scope
    where: tuple[Any, ...] = (SYSTEM_USER, None, None, None)
    if scope is not None:
        where = (scope.user_id, scope.session_id, scope.conversation_id, scope.agent_id)
    return (
        entry.operation,
        entry.memory_type,
        *where,
        entry.operation_id,
        None if scope is None else scope.channel,
        _encode_json(entry.target_channels),
        _sanitize_text(entry.query_text),
        entry.result_count,
        entry.latency_ms,
        entry.success,
        _sanitize_text(entry.error_message),
        entry.promoted_from_channel,
        entry.promotion_confidence,
        entry.promotion_access_count,
        entry.promotion_conversation_count,
        _encode_json(entry.config_snapshot),
        _encode_json(entry.metadata),
        None if scope is None else scope.key_id,
    )


def _encode_json(value: Any) -> str | None:
    return _sanitize_text(_ENCODER.encode(value))


def _sanitize_text(text: str | None) -> str | None:
    # A lone surrogate in a query must not cost the row that tells of it.
    return text if text is None or text.isascii() else text.encode("utf-8", "replace").decode()


def audit_rows(db: Connection, user_id: str, filters: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Rows of a user that match all filters, newest first, at most `limit` (100).

    Raises InvalidRecord for another filter.
    """
    check_audit_filters(filters)
    wanted = {name: filters.get(name) for name in AUDIT_FILTERS}
    for name in ("since", "until"):
        moment = filters.get(name)
        wanted[name] = None if moment is None else format_timestamp(moment)
    wanted |= {"user_id": user_id, "limit": 100 if wanted["limit"] is None else wanted["limit"]}
    cursor = db.execute(_SQL["rows"], wanted)
    found = [dict(zip((column[0] for column in cursor.get_description()), row, strict=True)) for row in cursor]
    for row in found:
        row["success"] = bool(row["success"])
        row.update({name: json.loads(row[name]) for name in _JSON_COLUMNS})
    return found


@contextmanager
def _open_gate(db: Connection, purpose: str) -> Iterator[None]:
    db.execute(_SQL["open_gate"], (purpose,))
    try:
        yield
    finally:
        db.execute(_SQL["close_gate"])


def drop_old_days(db: Connection, now: datetime, keep_days: int) -> int:
    """Drop the rows of whole days (UTC) that lie more than `keep_days` before today; returns how many rows went."""
    if keep_days < 1:
        raise InvalidRecord(f"keep_audit_days must be 1 or more, got {keep_days}", field="keep_audit_days")
    first_kept = to_utc(now).date() - timedelta(days=keep_days)
    with _open_gate(db, "retention"):
        db.execute(_SQL["drop_before"], (first_kept.isoformat(),))
        return db.changes()


def redact_user(db: Connection, user_id: str) -> None:
    """Blank all text and all names in a user's rows; what was done, when, and with how many results stays."""
    with _open_gate(db, "erasure"):
        db.execute(_SQL["blank_user"], (user_id,))


def redact_rows(
    db: Connection, user_id: str, keys: Collection[tuple[str, str]], settings_keys: Collection[tuple[str, str]]
) -> None:
    """Blank query, error and details of these rows (by timestamp and id), and the settings of those."""
    with _open_gate(db, "erasure"):
        db.executemany(_SQL["blank"], [(user_id, *key) for key in sorted(keys)])
        db.executemany(_SQL["blank_settings"], [(user_id, *key) for key in sorted(settings_keys)])


def texts(db: Connection, user_id: str) -> Iterator[tuple[tuple[str, str], AuditText]]:
    """Each row of a user that holds text, by its key."""
    for timestamp, number, *held in db.execute(_SQL["texts"], (user_id,)):
        yield (timestamp, number), AuditText(*held)


def write_receipt(
    db: Connection, key: tuple[str, str], receipt: str, created_at: datetime, seen_seq: int | None
) -> None:
    """Keep a receipt under its user and id, unless something of the user was erased since."""
    if not _has_erasure_since(db, key[0], seen_seq):
        db.execute(_SQL["keep_receipt"], (*key, to_micros(created_at), receipt))


def find_receipt(db: Connection, user_id: str, receipt_id: str) -> str | None:
    """The receipt of this id."""
    row = db.execute(_SQL["receipt"], (user_id, receipt_id)).fetchone()
    return None if row is None else str(row[0])


def drop_receipts(db: Connection, cutoff: datetime) -> int:
    """Drop the receipts of before a moment; returns how many those were."""
    db.execute(_SQL["drop_receipts"], (to_micros(cutoff),))
    return db.changes()
