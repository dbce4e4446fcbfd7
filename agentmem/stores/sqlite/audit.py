"""The two ways to change audit rows of a file: a gate opens for one purpose, inside one transaction."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

from agentmem.core.clock import to_utc
from agentmem.stores.sqlite.connection import SqliteConnection
from agentmem.text.templates import load_statement


@contextmanager
def _open_gate(db: SqliteConnection, purpose: str) -> Iterator[None]:
    db.execute(load_statement(__package__, "audit.open_gate"), {"purpose": purpose})
    try:
        yield
    finally:
        db.execute(load_statement(__package__, "audit.close_gate"))


async def drop_old_days(db: SqliteConnection, now: datetime, keep_days: int) -> int:
    """Drop the rows of whole days (UTC) that lie more than `keep_days` before today; returns how many rows went."""
    first_kept = to_utc(now).date() - timedelta(days=keep_days)
    with _open_gate(db, "retention"):
        return await db.change("audit.drop_before", before=first_kept.isoformat())


async def redact_user(db: SqliteConnection, user_id: str) -> None:
    """Blank all text and all names in a user's rows; what was done, when, and with how many results stays."""
    with _open_gate(db, "erasure"):
        await db.run("audit.blank_user", user_id=user_id)


async def redact_rows(
    db: SqliteConnection, user_id: str, keys: Collection[str], settings_keys: Collection[str]
) -> None:
    """Blank query, error and details of these rows, and the settings of those."""
    with _open_gate(db, "erasure"):
        await db.run_each("audit.blank", [{"key": key} for key in sorted(keys)], user_id=user_id)
        await db.run_each("audit.blank_settings", [{"key": key} for key in sorted(settings_keys)], user_id=user_id)
