"""What concerns the store as a whole: its meta data, leases, projections that lag, upkeep, and health."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from agentmem.core.clock import add_time, from_micros, to_micros
from agentmem.core.scope import Operator, Scope
from agentmem.errors import InvalidRecord
from agentmem.stores.postgres import audit, terms, usage
from agentmem.stores.postgres.columns import sanitize_text
from agentmem.stores.postgres.database import PostgresDatabase, fetch_rows, set_user
from agentmem.stores.values import DeadLetter
from agentmem.text.templates import load_templates

if TYPE_CHECKING:
    from agentmem.stores.postgres.database import Connection

_SQL = load_templates(__package__, "meta.sql")

USAGE_RECEIPT_RETENTION = timedelta(days=30)  # a receipt sent again after that counts again
MAINTENANCE_SECONDS = 600.0
MAINTENANCE_OPERATOR = Operator("maintenance")
_PROBLEM_MESSAGES = {
    "journal_problems": "the journal of {} has gaps",
    "record_problems": "the current record {} has no version",
    "watermark_problems": "the projection {} is ahead of the log; run: agentmem admin rebuild",
    "index_problems": "the index {} is not valid; run: REINDEX INDEX CONCURRENTLY {}",
}


async def meta(db: Connection) -> dict[str, str]:
    """What is recorded of the store, by name."""
    return dict(await fetch_rows(db, _SQL["meta"]))


async def set_meta(db: Connection, values: Mapping[str, str], *, overwrite: bool = True) -> dict[str, str]:
    """Record values, or with `overwrite=False` those whose names are absent; returns all."""
    statement = _SQL["set_meta" if overwrite else "default_meta"]
    await db.execute(statement, {"names": list(values), "values": [sanitize_text(value) for value in values.values()]})
    return await meta(db)


async def increment_openings(db: Connection) -> int:
    """Count one more opening of the store."""
    return int((await fetch_rows(db, _SQL["count_opening"]))[0][0])


async def acquire_lease(db: Connection, name: str, ttl: float, owner: str) -> int | None:
    """A fencing token, or None while another holds the lease.

    Tokens grow over all leases. A renewal keeps its own, also after the end of the lease while nobody took it: nothing
    came between on a machine that slept.
    """
    if ttl <= 0:
        raise InvalidRecord(f"ttl must be more than 0 seconds, got {ttl}", field="ttl")
    await db.execute(_SQL["lease_turn"], {"name": name})  # so that tokens of one lease grow in the order given
    found = await fetch_rows(db, _SQL["lease"], {"name": name, "ttl": float(ttl), "owner": owner})
    return int(found[0][0]) if found else None


async def release_lease(db: Connection, name: str, owner: str) -> None:
    """Give up a lease; nothing when another holds it."""
    await db.execute(_SQL["release"], {"name": name, "owner": owner})


async def users(db: Connection, limit: int, after: str) -> list[str]:
    """Users with current records, by name, from `after` (exclusive) on."""
    return [user for (user,) in await fetch_rows(db, _SQL["users"], {"after": after, "limit": limit})]


async def lagging_users(db: Connection, projection: str, limit: int) -> list[str]:
    """Users whose projection lags, the one whose first open change is oldest first."""
    return [user for (user,) in await fetch_rows(db, _SQL["behind"], {"projection": projection, "limit": limit})]


async def write_watermark_hints(db: Connection, projection: str, watermarks: Mapping[str, int]) -> None:
    """Note up to where a projection has come for these users, where that is further than noted."""
    for user_id, seq in sorted(watermarks.items()):  # in one order, so that nobody waits for one who waits for him
        await set_user(db, user_id)
        await db.execute(_SQL["note_reached"], {"projection": projection, "user_id": user_id, "seq": seq})


async def write_dead_letter(db: Connection, dead_letter: DeadLetter) -> None:
    """Note a change that a projection passed over; the same one again replaces the note."""
    await db.execute(
        _SQL["park"],
        {
            "projection": dead_letter.projection,
            "user_id": dead_letter.user_id,
            "seq": dead_letter.seq,
            "reason": sanitize_text(dead_letter.reason),
            "attempts": dead_letter.attempts,
            "at": to_micros(dead_letter.failed_at),
        },
    )


async def dead_letters(db: Connection, scope: Scope | Operator) -> list[DeadLetter]:
    """What was parked for a user, or for all."""
    if isinstance(scope, Scope):
        found = await fetch_rows(db, _SQL["parked"], {"user_id": scope.user_id})
    else:
        found = await fetch_rows(db, _SQL["parked_of_all"])
    return [
        DeadLetter(projection, user, seq, reason, attempts, from_micros(at))
        for projection, user, seq, reason, attempts, at in found
    ]


async def maintain(database: PostgresDatabase, now: datetime, keep_audit_days: int) -> dict[str, int]:
    """Fold word tails, one user per transaction, drop old audit days and receipts; how many rows of each.

    Partitions of the audit log are made for the days ahead.
    """
    if keep_audit_days < 1:
        raise InvalidRecord(f"keep_audit_days must be 1 or more, got {keep_audit_days}", field="keep_audit_days")
    done = {"words_folded": 0}
    for (user_id,) in await database.read(MAINTENANCE_OPERATOR, lambda db: fetch_rows(db, _SQL["with_tail"])):
        done["words_folded"] += await database.write(
            user_id, functools.partial(terms.lock_and_merge, user_id=user_id), timeout_seconds=MAINTENANCE_SECONDS
        )

    async def drop(db: Connection) -> dict[str, int]:
        await audit.create_partitions(db, now)
        return {
            "audit_rows_dropped": await audit.drop_old_days(db, now, keep_audit_days),
            "receipts_dropped": await audit.drop_receipts(db, add_time(now, -timedelta(days=keep_audit_days))),
            "usage_receipts_dropped": await usage.drop_usage_receipts(db, add_time(now, -USAGE_RECEIPT_RETENTION)),
        }

    return done | await database.write(MAINTENANCE_OPERATOR, drop, timeout_seconds=MAINTENANCE_SECONDS)


async def stats(db: Connection, address: str) -> dict[str, Any]:
    """Size of the database and counts of what is in it, over all users."""
    kinds = await fetch_rows(db, _SQL["records_by_kind"])
    totals = await db.execute(_SQL["totals"])
    (row,) = await totals.fetchall()
    names = [column.name for column in totals.description or ()]
    return {"place": address, "records": dict(kinds), **dict(zip(names, row, strict=True))}


async def check(db: Connection) -> list[str]:
    """What is wrong: gaps in the journal, records without a version, projections ahead of the log, broken indexes."""
    found = {name: await fetch_rows(db, _SQL[name]) for name in _PROBLEM_MESSAGES}
    return [_PROBLEM_MESSAGES[problem].replace("{}", name) for problem, names in found.items() for (name,) in names]
