"""The audit log: rows are added, and else changed in two ways only, by retention and by erasure. Also receipts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import groupby
from typing import Any

from agentmem.core.changes import AuditEntry
from agentmem.core.clock import Clock, to_micros, to_utc
from agentmem.core.scope import SYSTEM_USER
from agentmem.stores.codec import (
    AUDIT_FILTERS,
    check_audit_filters,
    format_timestamp,
    redact_audit,
    render_json,
    sanitize_text,
    to_uuid,
)
from agentmem.stores.erasure_terms import AuditText
from agentmem.stores.sql.connection import SqlConnection

_COPIED_FIELDS = (
    "operation",
    "memory_type",
    "operation_id",
    "result_count",
    "latency_ms",
    "success",
    "promoted_from_channel",
    "promotion_confidence",
    "promotion_access_count",
    "promotion_conversation_count",
)
_JSON_COLUMNS = ("target_channels", "config_snapshot", "metadata")


def owner(entry: AuditEntry) -> str:
    """Whose row it is; entries without a scope belong to the system's user."""
    return SYSTEM_USER if entry.scope is None else entry.scope.user_id


async def insert(db: SqlConnection, entries: Sequence[AuditEntry], clock: Clock) -> None:
    """Add a row for each entry of the transaction's user, in order."""
    now = to_utc(clock.now())
    for entry in entries:
        told = redact_audit(entry) if await _has_erasure_since(db, owner(entry), entry.seen_seq) else entry
        await db.run("audit.insert", **_build_values(told), timestamp=now, began=to_micros(now))


async def insert_of_many(db: SqlConnection, entries: Sequence[AuditEntry], clock: Clock) -> None:
    """Add a row for each entry of any user, in order."""
    for user_id, those in groupby(entries, owner):
        await db.set_user(user_id)
        await insert(db, list(those), clock)


async def _has_erasure_since(db: SqlConnection, user_id: str, seen_seq: int | None) -> bool:
    """Whether something of the user was erased after a journal position; never when there is none.

    Waits for an erasure under way, which would not see what this transaction writes.
    """
    if seen_seq is None:
        return False
    statements = "audit.wait_for_erasure", "audit.erased_since"
    return bool((await db.rows_of(*statements, user_id=user_id, seen=seen_seq))[1])


def _build_values(entry: AuditEntry) -> dict[str, Any]:
    scope, user_id = entry.scope, owner(entry)
    values: dict[str, Any] = {name: getattr(entry, name) for name in _COPIED_FIELDS}
    values |= {name: getattr(scope, name, None) for name in ("session_id", "agent_id", "conversation_id")}
    return values | {
        "actor": getattr(scope, "key_id", None),
        "user_id": user_id,
        "conversation_uuid": to_uuid(user_id, values["conversation_id"]),
        "source_channel": getattr(scope, "channel", None),
        "target_channels": list(entry.target_channels),
        "query_text": sanitize_text(entry.query_text),
        "error_message": sanitize_text(entry.error_message),
        "config_snapshot": render_json(entry.config_snapshot),
        "metadata": render_json(entry.metadata),
    }


async def audit_rows(db: SqlConnection, user_id: str, filters: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Rows of a user that match all filters, newest first, at most `limit` (100).

    Raises InvalidRecord for another filter.
    """
    check_audit_filters(filters)
    wanted = {name: filters.get(name) for name in AUDIT_FILTERS}
    for name in ("since", "until"):
        moment = filters.get(name)
        wanted[name] = None if moment is None else to_utc(moment, name)
    found = await db.dicts("audit.rows", **{**wanted, "user_id": user_id, "limit": _limit(wanted["limit"])})
    for row in found:
        row["success"] = bool(row["success"])
        row["id"] = f"{row['id']:015d}" if isinstance(row["id"], int) else row["id"]
        if isinstance(row["timestamp"], datetime):
            row["timestamp"] = format_timestamp(row["timestamp"])
        row.update({name: json.loads(row[name]) for name in _JSON_COLUMNS if isinstance(row[name], str)})
    return found


def _limit(limit: int | None) -> int:
    return 100 if limit is None else limit


async def texts(db: SqlConnection, user_id: str) -> list[tuple[Any, AuditText]]:
    """Each row of a user that holds text, by its id."""
    return [(row[0], AuditText(*row[1:])) for row in await db.rows("audit.texts", user_id=user_id)]


async def write_receipt(
    db: SqlConnection, key: tuple[str, str], receipt: str, created_at: datetime, seen_seq: int | None
) -> None:
    """Keep a receipt under its user and id, unless something of the user was erased since."""
    if not await _has_erasure_since(db, key[0], seen_seq):
        values = {"user_id": key[0], "id": key[1], "at": to_micros(created_at)}
        await db.run("audit.put_receipt", **values, receipt=sanitize_text(receipt))


async def find_receipt(db: SqlConnection, user_id: str, receipt_id: str) -> str | None:
    """The receipt of this id."""
    found = await db.value("audit.receipt", user_id=user_id, id=receipt_id)
    return None if found is None else str(found)
