"""The audit log: rows are added, and else touched by two functions only, one for retention and one for erasure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from agentmem.core.changes import AuditEntry
from agentmem.core.clock import Clock, to_micros, to_utc
from agentmem.core.scope import SYSTEM_USER
from agentmem.stores.codec import AUDIT_FILTERS, check_audit_filters, format_timestamp, redact_audit
from agentmem.stores.erasure_terms import AuditText
from agentmem.stores.postgres.columns import render_json, sanitize_text, to_uuid
from agentmem.stores.postgres.database import fetch_rows
from agentmem.text.templates import load_templates

if TYPE_CHECKING:
    from agentmem.stores.postgres.database import Connection

_SQL = load_templates(__package__, "audit.sql")

PARTITION_DAYS_AHEAD = 7  # partitions made by maintenance
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


def owner(entry: AuditEntry) -> str:
    """Whose row it is; entries without a scope belong to the system's user."""
    return SYSTEM_USER if entry.scope is None else entry.scope.user_id


async def insert(db: Connection, entries: Sequence[AuditEntry], clock: Clock) -> None:
    """Add a row for each entry, in order, all of the transaction's user."""
    now = to_utc(clock.now())
    for entry in entries:
        told = redact_audit(entry) if await _has_erasure_since(db, owner(entry), entry.seen_seq) else entry
        await db.execute(_SQL["insert"], _values(told, now))


async def _has_erasure_since(db: Connection, user_id: str, seen_seq: int | None) -> bool:
    """Whether something of the user was erased after a journal position; never when there is none.

    Waits for an erasure under way, which would not see what this transaction writes.
    """
    if seen_seq is None:
        return False
    await db.execute(_SQL["no_erasure"], {"user_id": user_id})
    return bool(await fetch_rows(db, _SQL["erased_since"], {"user_id": user_id, "seen": seen_seq}))


def _values(entry: AuditEntry, now: datetime) -> dict[str, Any]:
    scope, user_id = entry.scope, owner(entry)
    values: dict[str, Any] = {name: getattr(entry, name) for name in _COPIED_FIELDS}
    values |= {name: getattr(scope, name, None) for name in ("session_id", "agent_id")}
    conversation = getattr(scope, "conversation_id", None)
    return values | {
        "actor": getattr(scope, "key_id", None),
        "timestamp": now,
        "user_id": user_id,
        "conversation": conversation,
        "conversation_id": to_uuid(user_id, conversation),
        "source_channel": getattr(scope, "channel", None),
        "target_channels": list(entry.target_channels),
        "query_text": sanitize_text(entry.query_text),
        "error_message": sanitize_text(entry.error_message),
        "config_snapshot": render_json(entry.config_snapshot),
        "metadata": render_json(entry.metadata),
    }


async def audit_rows(db: Connection, user_id: str, filters: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Rows of a user that match all filters, newest first, at most `limit` (100).

    Raises InvalidRecord for another filter.
    """
    check_audit_filters(filters)
    wanted = {name: filters.get(name) for name in AUDIT_FILTERS}
    for name in ("since", "until"):
        moment = filters.get(name)
        wanted[name] = None if moment is None else to_utc(moment, name)
    wanted |= {"user_id": user_id, "limit": 100 if wanted["limit"] is None else wanted["limit"]}
    cursor = await db.execute(_SQL["rows"], wanted)
    listed = await cursor.fetchall()
    names = [column.name for column in cursor.description or ()]
    found = [dict(zip(names, row, strict=True)) for row in listed]
    for row in found:
        row["id"], row["timestamp"] = f"{row['id']:015d}", format_timestamp(row["timestamp"])
    return found


async def drop_old_days(db: Connection, now: datetime, keep_days: int) -> int:
    """Drop the rows of whole days (UTC) that lie more than `keep_days` before today; returns how many rows went."""
    asked = {"days": keep_days, "today": to_utc(now).astimezone(UTC).date()}
    return int((await fetch_rows(db, _SQL["drop_old_days"], asked))[0][0])


async def create_partitions(db: Connection, now: datetime) -> int:
    """Make the partitions of today and the days ahead; returns how many were missing."""
    asked = {"days": PARTITION_DAYS_AHEAD, "today": to_utc(now).astimezone(UTC).date()}
    return int((await fetch_rows(db, _SQL["make_days"], asked))[0][0])


async def redact_user(db: Connection) -> None:
    """Blank all text and names in the rows of the transaction's user; what was done, and when, stays."""
    await db.execute(_SQL["blank"], {"texts": None, "settings": None})


async def redact_rows(db: Connection, keys: Collection[int], settings_keys: Collection[int]) -> None:
    """Blank query, error and details of these rows of the transaction's user, and the settings of those."""
    if keys or settings_keys:
        await db.execute(_SQL["blank"], {"texts": sorted(keys), "settings": sorted(settings_keys)})


async def texts(db: Connection, user_id: str) -> list[tuple[int, AuditText]]:
    """Each row of a user that holds text, by its id."""
    return [(row[0], AuditText(*row[1:])) for row in await fetch_rows(db, _SQL["texts"], {"user_id": user_id})]


async def write_receipt(
    db: Connection, key: tuple[str, str], receipt: str, created_at: datetime, seen_seq: int | None
) -> None:
    """Keep a receipt under its user and id, unless something of the user was erased since."""
    if await _has_erasure_since(db, key[0], seen_seq):
        return
    values = {"user_id": key[0], "id": key[1], "at": to_micros(created_at), "receipt": sanitize_text(receipt)}
    await db.execute(_SQL["keep_receipt"], values)


async def find_receipt(db: Connection, user_id: str, receipt_id: str) -> str | None:
    """The receipt of this id."""
    found = await fetch_rows(db, _SQL["receipt"], {"user_id": user_id, "id": receipt_id})
    return str(found[0][0]) if found else None


async def drop_receipts(db: Connection, cutoff: datetime) -> int:
    """Drop the receipts of before a moment; returns how many those were."""
    return int((await fetch_rows(db, _SQL["drop_receipts"], {"before": to_micros(cutoff)}))[0][0])
