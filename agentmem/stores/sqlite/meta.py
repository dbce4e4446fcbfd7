"""What concerns the store as a whole: its meta data, leases, projections that lag, upkeep, and health."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from agentmem.core.clock import add_time, from_micros, to_micros
from agentmem.core.scope import Operator, Scope
from agentmem.errors import InvalidRecord
from agentmem.stores.sqlite import audit, terms, usage
from agentmem.stores.sqlite.database import Connection, SqliteDatabase, check_permissions
from agentmem.stores.values import DeadLetter
from agentmem.text.templates import load_templates

_SQL = load_templates(__package__, "meta.sql")

USAGE_RECEIPT_RETENTION = timedelta(days=30)  # a receipt sent again after that counts again


def meta(db: Connection) -> dict[str, str]:
    """What is recorded of the store, by name."""
    return dict(db.execute(_SQL["meta"]))


def set_meta(db: Connection, values: Mapping[str, str], *, overwrite: bool = True) -> dict[str, str]:
    """Record values, or with `overwrite=False` those whose names are absent; returns all."""
    db.executemany(_SQL["set_meta" if overwrite else "default_meta"], list(values.items()))
    return meta(db)


def increment_openings(db: Connection) -> int:
    """Count one more opening of the store."""
    return int(db.execute(_SQL["count_opening"]).get)


def acquire_lease(db: Connection, name: str, ttl: float, owner: str) -> int | None:
    """A fencing token, or None while another holds the lease.

    Tokens grow over all leases. A renewal keeps its own, also after the end of the lease while nobody took it: nothing
    came between on a machine that slept.
    """
    if ttl <= 0:
        raise InvalidRecord(f"ttl must be more than 0 seconds, got {ttl}", field="ttl")
    row = db.execute(_SQL["held"], (name, owner)).fetchone()
    if row is not None:
        holder, token = row
        if holder != owner:
            return None
        db.execute(_SQL["prolong"], (ttl, name))
        return int(token)
    fresh = int(db.execute(_SQL["next_token"]).get)
    db.execute(_SQL["take"], (name, owner, fresh, ttl))
    return fresh


def release_lease(db: Connection, name: str, owner: str) -> None:
    """Give up a lease; nothing when another holds it."""
    db.execute(_SQL["release"], (name, owner))


def users(db: Connection, limit: int, after: str) -> list[str]:
    """Users with current records, by name, from `after` (exclusive) on."""
    return [user for (user,) in db.execute(_SQL["users"], (after, limit))]


def lagging_users(db: Connection, projection: str, limit: int) -> list[str]:
    """Users whose projection lags, the one whose first open change is oldest first."""
    return [user for (user,) in db.execute(_SQL["behind"], (projection, limit))]


def write_watermark_hints(db: Connection, projection: str, watermarks: Mapping[str, int]) -> None:
    """Note up to where a projection has come for these users, where that is further than noted."""
    db.executemany(_SQL["note_reached"], [(projection, *mark) for mark in watermarks.items()])


def write_dead_letter(db: Connection, dead_letter: DeadLetter) -> None:
    """Note a change that a projection passed over; the same one again replaces the note."""
    row = (
        dead_letter.projection,
        dead_letter.user_id,
        dead_letter.seq,
        dead_letter.reason,
        dead_letter.attempts,
        to_micros(dead_letter.failed_at),
    )
    db.execute(_SQL["park"], row)


def dead_letters(db: Connection, scope: Scope | Operator) -> list[DeadLetter]:
    """What was parked for a user, or for all."""
    user_id = scope.user_id if isinstance(scope, Scope) else None
    return [
        DeadLetter(projection, user, seq, reason, attempts, from_micros(at))
        for projection, user, seq, reason, attempts, at in db.execute(_SQL["parked"], (user_id,))
    ]


async def maintain(database: SqliteDatabase, now: datetime, keep_audit_days: int) -> dict[str, int]:
    """Fold word tails, one user per transaction, and drop old audit days and receipts; how many rows of each."""
    done = {"words_folded": 0}
    for user_id in await database.read(_users_with_delta):
        done["words_folded"] += await database.write(functools.partial(terms.merge_delta, user_id=user_id))

    def drop(db: Connection) -> dict[str, int]:
        return {
            "audit_rows_dropped": audit.drop_old_days(db, now, keep_audit_days),
            "receipts_dropped": audit.drop_receipts(db, add_time(now, -timedelta(days=keep_audit_days))),
            "usage_receipts_dropped": usage.drop_usage_receipts(db, add_time(now, -USAGE_RECEIPT_RETENTION)),
        }

    done |= await database.write(drop)
    await database.truncate_wal(attempts=1)  # an erasure may have left this pending
    return done


def _users_with_delta(db: Connection) -> list[str]:
    return [user for (user,) in db.execute(_SQL["with_tail"])]


def stats(db: Connection, database: SqliteDatabase) -> dict[str, Any]:
    """Sizes of the file and counts of what is in it, over all users."""
    wal = database.path.with_name(database.path.name + "-wal")
    names = ("users", "changes", "versions", "audit_rows", "edges", "parked")
    return {
        "path": str(database.path),
        "bytes": db.pragma("page_count") * db.pragma("page_size"),
        "wal_bytes": wal.stat().st_size if wal.exists() else 0,
        "free_bytes": db.pragma("freelist_count") * db.pragma("page_size"),
        "records": dict(db.execute(_SQL["records_by_kind"])),
        **dict(zip(names, next(db.execute(_SQL["totals"])), strict=True)),
    }


def check(db: Connection, database: SqliteDatabase) -> list[str]:
    """What is wrong: the engine's integrity check, gaps in the journal, records without a version, permissions."""
    found = [f"integrity: {line}" for (line,) in db.execute("PRAGMA integrity_check(20)") if line != "ok"]
    found += [f"the journal of {name} has gaps" for (name,) in db.execute(_SQL["journal_problems"])]
    found += [f"the current record {name} has no version" for (name,) in db.execute(_SQL["record_problems"])]
    found += [
        f"the projection {name} is ahead of the log; run: agentmem admin rebuild"
        for (name,) in db.execute(_SQL["watermark_problems"])
    ]
    return found + check_permissions(database.path)
