"""What concerns the store as a whole: its meta data, leases, projections that lag, dead letters, and health."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentmem.core.clock import from_micros, to_micros
from agentmem.core.scope import Operator, Scope
from agentmem.errors import InvalidRecord
from agentmem.stores.codec import sanitize_text
from agentmem.stores.sql.connection import SqlConnection
from agentmem.stores.values import DeadLetter

_PROBLEM_MESSAGES = {
    "journal_problems": "the journal of {} has gaps",
    "record_problems": "the current record {} has no version",
    "watermark_problems": "the projection {} is ahead of the log; run: agentmem admin rebuild",
}


async def meta(db: SqlConnection) -> dict[str, str]:
    """What is recorded of the store, by name."""
    return dict(await db.rows("meta.all"))


async def set_meta(db: SqlConnection, values: Mapping[str, str], *, overwrite: bool = True) -> dict[str, str]:
    """Record values, or with `overwrite=False` those whose names are absent; returns all."""
    rows = [{"name": name, "value": sanitize_text(value)} for name, value in sorted(values.items())]
    await db.run_each("meta.set" if overwrite else "meta.set_default", rows)
    return await meta(db)


async def increment_openings(db: SqlConnection) -> int:
    """Count one more opening of the store."""
    return int(await db.value("meta.increment_openings"))


async def acquire_lease(db: SqlConnection, name: str, ttl: float, owner: str) -> int | None:
    """A fencing token, or None while another holds the lease.

    Tokens grow over all leases. A renewal keeps its token, also after the lease ended if it was not taken since, as on
    a machine that slept.
    """
    if ttl <= 0:
        raise InvalidRecord(f"ttl must be more than 0 seconds, got {ttl}", field="ttl")
    await db.run("meta.prepare_lease", name=name)
    token = await db.value("meta.acquire_lease", name=name, ttl=float(ttl), owner=owner)
    return None if token is None else int(token)


async def release_lease(db: SqlConnection, name: str, owner: str) -> None:
    """Give up a lease; nothing when another holds it."""
    await db.run("meta.release_lease", name=name, owner=owner)


async def users(db: SqlConnection, limit: int, after: str) -> list[str]:
    """Users with current records, by name, from `after` (exclusive) on."""
    return [user for (user,) in await db.rows("meta.users", after=after, limit=limit)]


async def lagging_users(db: SqlConnection, projection: str, limit: int) -> list[str]:
    """Users whose projection lags, the one whose first open change is oldest first."""
    return [user for (user,) in await db.rows("meta.lagging_users", projection=projection, limit=limit)]


async def write_watermark_hints(db: SqlConnection, projection: str, watermarks: Mapping[str, int]) -> None:
    """Note up to where a projection has come for these users, where that is further than noted."""
    for user_id, seq in sorted(watermarks.items()):  # in a fixed order, to avoid deadlocks
        await db.set_user(user_id)
        await db.run("meta.set_watermark", projection=projection, user_id=user_id, seq=seq)


async def write_dead_letter(db: SqlConnection, dead_letter: DeadLetter) -> None:
    """Note a change that a projection passed over; the same one again replaces the note."""
    await db.run(
        "meta.put_dead_letter",
        projection=dead_letter.projection,
        user_id=dead_letter.user_id,
        seq=dead_letter.seq,
        reason=sanitize_text(dead_letter.reason),
        attempts=dead_letter.attempts,
        at=to_micros(dead_letter.failed_at),
    )


async def dead_letters(db: SqlConnection, scope: Scope | Operator) -> list[DeadLetter]:
    """The dead letters of a user, or of all."""
    if isinstance(scope, Scope):
        found = await db.rows("meta.dead_letters", user_id=scope.user_id)
    else:
        found = await db.rows("meta.all_dead_letters")
    return [
        DeadLetter(projection, user_id, seq, reason, attempts, from_micros(at))
        for projection, user_id, seq, reason, attempts, at in found
    ]


async def count_rows(db: SqlConnection) -> dict[str, Any]:
    """Records by kind, and how many there are of the rest, over all users."""
    (totals,) = await db.dicts("meta.totals")
    return {"records": dict(await db.rows("meta.records_by_kind")), **totals}


async def check(db: SqlConnection) -> list[str]:
    """What is wrong: gaps in the journal, records without a version, projections ahead of the log."""
    return [
        message.format(name)
        for problem, message in _PROBLEM_MESSAGES.items()
        for (name,) in await db.rows(f"meta.{problem}")
    ]
