"""What concerns the store as a whole: its meta data, leases, projections that lag, upkeep, and health."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from agentmem.errors import InvalidRecord
from agentmem.model.clock import from_micros, micros
from agentmem.model.scope import Operator, Scope
from agentmem.stores.postgres import audit, words
from agentmem.stores.postgres import usage as used
from agentmem.stores.postgres.columns import clean
from agentmem.stores.postgres.connection import Database, become, rows
from agentmem.stores.values import Parked
from agentmem.text.blocks import load_blocks

if TYPE_CHECKING:
    from agentmem.stores.postgres.connection import Connection

RECEIPTS_KEPT = timedelta(days=30)  # a receipt sent again after that counts again
UPKEEP_SECONDS = 600.0
KEEPER = Operator("maintenance")
_PROBLEMS = {
    "journal_problems": "the journal of {} has gaps",
    "record_problems": "the current record {} has no version",
    "watermark_problems": "the projection {} is ahead of the log; run: agentmem rebuild",
    "index_problems": "the index {} is not valid; run: REINDEX INDEX CONCURRENTLY {}",
}


def _sql() -> Mapping[str, str]:
    return load_blocks(__package__, "operations.sql")


async def meta(db: Connection) -> dict[str, str]:
    """What is recorded of the store, by name."""
    return dict(await rows(db, _sql()["meta"]))


async def set_meta(db: Connection, values: Mapping[str, str], *, overwrite: bool = True) -> dict[str, str]:
    """Record values, or with `overwrite=False` those whose names are absent; returns all."""
    statement = _sql()["set_meta" if overwrite else "default_meta"]
    await db.execute(statement, {"names": list(values), "values": [clean(value) for value in values.values()]})
    return await meta(db)


async def count_opening(db: Connection) -> int:
    """Count one more opening of the store."""
    return int((await rows(db, _sql()["count_opening"]))[0][0])


async def lease(db: Connection, name: str, ttl: float, owner: str) -> int | None:
    """A fencing token, or None while another holds the lease. Tokens grow over all leases; a renewal keeps its own."""
    if ttl <= 0:
        raise InvalidRecord(f"ttl must be more than 0 seconds, got {ttl}", field="ttl")
    await db.execute(_sql()["lease_turn"], {"name": name})  # so that tokens of one lease grow in the order given
    found = await rows(db, _sql()["lease"], {"name": name, "ttl": float(ttl), "owner": owner})
    return int(found[0][0]) if found else None


async def release(db: Connection, name: str, owner: str) -> None:
    """Give up a lease; nothing when another holds it."""
    await db.execute(_sql()["release"], {"name": name, "owner": owner})


async def users(db: Connection, limit: int, after: str) -> list[str]:
    """Users with current records, by name, from `after` (exclusive) on."""
    return [user for (user,) in await rows(db, _sql()["users"], {"after": after, "limit": limit})]


async def behind(db: Connection, projection: str, limit: int) -> list[str]:
    """Users whose projection lags, the one whose first open change is oldest first."""
    return [user for (user,) in await rows(db, _sql()["behind"], {"projection": projection, "limit": limit})]


async def note_reached(db: Connection, projection: str, marks: Mapping[str, int]) -> None:
    """Note up to where a projection has come for these users, where that is further than noted."""
    for user_id, seq in sorted(marks.items()):  # in one order, so that nobody waits for one who waits for him
        await become(db, user_id)
        await db.execute(_sql()["note_reached"], {"projection": projection, "user_id": user_id, "seq": seq})


async def park(db: Connection, item: Parked) -> None:
    """Note a change that a projection passed over; the same one again replaces the note."""
    await db.execute(_sql()["park"], {
        "projection": item.projection, "user_id": item.user_id, "seq": item.seq, "reason": clean(item.reason),
        "attempts": item.attempts, "at": micros(item.at),
    })  # fmt: skip


async def parked(db: Connection, scope: Scope | Operator) -> list[Parked]:
    """What was parked for a user, or for all."""
    if isinstance(scope, Scope):
        found = await rows(db, _sql()["parked"], {"user_id": scope.user_id})
    else:
        found = await rows(db, _sql()["parked_of_all"])
    return [
        Parked(projection, user, seq, reason, attempts, from_micros(at))
        for projection, user, seq, reason, attempts, at in found
    ]


async def maintain(database: Database, now: datetime, keep_audit_days: int) -> dict[str, int]:
    """Fold word tails, one user per transaction, drop old audit days and receipts; how many rows of each.

    Partitions of the audit log are made for the days ahead.
    """
    if keep_audit_days < 1:
        raise InvalidRecord(f"keep_audit_days must be 1 or more, got {keep_audit_days}", field="keep_audit_days")
    done = {"words_folded": 0}
    for (user_id,) in await database.read(KEEPER, lambda db: rows(db, _sql()["with_tail"])):
        done["words_folded"] += await database.write(
            user_id, functools.partial(words.fold, user_id=user_id), seconds=UPKEEP_SECONDS
        )

    async def drop(db: Connection) -> dict[str, int]:
        await audit.make_days(db, now)
        return {
            "audit_rows_dropped": await audit.drop_old_days(db, now, keep_audit_days),
            "receipts_dropped": await audit.drop_receipts(db, now - timedelta(days=keep_audit_days)),
            "usage_receipts_dropped": await used.forget_receipts(db, now - RECEIPTS_KEPT),
        }

    return done | await database.write(KEEPER, drop, seconds=UPKEEP_SECONDS)


async def stats(db: Connection, place: str) -> dict[str, Any]:
    """Size of the database and counts of what is in it, over all users."""
    kinds = await rows(db, _sql()["records_by_kind"])
    totals = await db.execute(_sql()["totals"])
    (row,) = await totals.fetchall()
    names = [column.name for column in totals.description or ()]
    return {"place": place, "records": dict(kinds), **dict(zip(names, row, strict=True))}


async def check(db: Connection) -> list[str]:
    """What is wrong: gaps in the journal, records without a version, projections ahead of the log, broken indexes."""
    found = {name: await rows(db, _sql()[name]) for name in _PROBLEMS}
    return [_PROBLEMS[problem].replace("{}", name) for problem, names in found.items() for (name,) in names]
