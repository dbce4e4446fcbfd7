"""The state of each job per user, in the log's database; see `agentmem.stores.job_queue` for the promises."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from agentmem.core.clock import add_time, from_micros, to_micros
from agentmem.core.record import Key
from agentmem.core.scope import Operator, Scope
from agentmem.stores.job_queue import MAX_WAIT, DueDate, JobState, build_job_row, build_job_state
from agentmem.stores.sql.connection import Principal, Row, SqlConnection, SqlDatabase

DUE_ROWS_PER_USER = 20  # due records that one user may have in a row before the next one is looked for


class SqlJobQueue:
    """A JobQueue over either relational store."""

    def __init__(self, database: SqlDatabase) -> None:
        self._database = database

    async def _rows(self, principal: Principal, statement: str, **values: Any) -> list[Row]:
        return await self._database.query(principal, lambda db: db.rows(statement, **values))

    async def state(self, job: str, scope: Scope) -> JobState:
        found = await self._rows(scope, "jobs.state", user_id=scope.user_id, job=job)
        return build_job_state(found[0]) if found else JobState(job, scope.user_id)

    async def write_state(self, state: JobState) -> None:
        await self._database.commit(state.user_id, lambda db: db.run("jobs.put_state", **build_job_row(state)))

    async def states(self, scope: Scope) -> list[JobState]:
        return [build_job_state(row) for row in await self._rows(scope, "jobs.states", user_id=scope.user_id)]

    async def queue(self, job: str, operator: Operator, limit: int = 1000) -> list[JobState]:
        return [build_job_state(row) for row in await self._rows(operator, "jobs.queue", job=job, limit=limit)]

    async def users_changed_since(
        self, since: datetime, operator: Operator, *, after: str = "", limit: int = 1000
    ) -> list[tuple[str, datetime]]:
        asked = {"since": to_micros(since), "after": after, "limit": limit}
        found = await self._rows(operator, "jobs.users_changed_since", **asked)
        return [(user, from_micros(at)) for user, at in found]

    async def enqueue(self, job: str, users: Mapping[str, datetime], kinds: Collection[str] = ()) -> None:
        async def write(db: SqlConnection) -> None:
            for user_id, at in sorted(users.items()):  # in a fixed order, to avoid deadlocks
                await db.set_user(user_id)
                await db.run("jobs.enqueue", job=job, kinds=sorted(kinds), user_id=user_id, due_at=to_micros(at))

        if users:
            await self._database.commit(min(users), write)

    async def pending_users(self, job: str, now: datetime, operator: Operator, limit: int = 100) -> list[str]:
        times = {"now": to_micros(now), "too_late": to_micros(add_time(now, MAX_WAIT))}
        return [row[0] for row in await self._rows(operator, "jobs.pending_users", job=job, limit=limit, **times)]

    async def due_users(self, job: str, now: datetime, operator: Operator, limit: int = 100) -> list[str]:
        asked = {"job": job, "now": to_micros(now), "limit": limit * DUE_ROWS_PER_USER}
        found = await self._rows(operator, "jobs.due_users", **asked)
        return list(dict.fromkeys(user for (user,) in found))[:limit]

    async def due_records(self, job: str, now: datetime, scope: Scope, limit: int = 1000) -> list[Key]:
        asked = {"user_id": scope.user_id, "job": job, "now": to_micros(now), "limit": limit}
        return [(kind, name) for kind, name in await self._rows(scope, "jobs.due_records", **asked)]

    async def set_due_dates(self, scope: Scope, due_dates: Sequence[DueDate]) -> None:
        async def write(db: SqlConnection) -> None:
            # An append reads under the user's lock which conversations were archived; one under way must not miss this.
            await db.lock_user(scope.user_id)
            await set_due_dates(db, scope.user_id, due_dates)

        if due_dates:
            await self._database.commit(scope, write)


async def set_due_dates(db: SqlConnection, user_id: str, due_dates: Sequence[DueDate]) -> None:
    """Write when records are due, in place of what was there; those that are not stored any more are left out."""
    rows = [
        {
            "kind": due.kind,
            "id": due.id,
            "due_at": None if due.due_at is None else to_micros(due.due_at),
            "due_for": due.due_for,
            "priority": due.review_priority,
        }
        for due in due_dates
    ]
    await db.run_each("jobs.set_due_date", rows, user_id=user_id)
