"""Where each job stands with each user, kept in the embedded store; see `agentmem.stores.job_queue` for the
promises.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from agentmem.core.clock import add_time, from_micros, to_micros
from agentmem.core.record import Key
from agentmem.core.scope import Operator, Scope
from agentmem.stores.job_queue import MAX_WAIT, DueDate, JobState, build_job_row, build_job_state
from agentmem.stores.sqlite.database import Connection, SqliteDatabase
from agentmem.text.templates import load_templates

_SQL = load_templates(__package__, "jobs.sql")

DUE_ROWS_PER_USER = 20  # due records that one user may have in a row before the next one is looked for


def open_job_queue(database: SqliteDatabase) -> SqliteJobQueue:
    """The face for jobs of an opened file."""
    return SqliteJobQueue(database)


class SqliteJobQueue:
    """Jobs over one file."""

    def __init__(self, database: SqliteDatabase) -> None:
        self._database = database

    async def _fetch_rows(self, name: str, *values: Any) -> list[tuple[Any, ...]]:
        return await self._database.read(lambda db: list(db.execute(_SQL[name], values)))

    async def state(self, job: str, scope: Scope) -> JobState:
        """See Jobs."""
        found = await self._fetch_rows("state", scope.user_id, job)
        return build_job_state(found[0]) if found else JobState(job, scope.user_id)

    async def write_state(self, state: JobState) -> None:
        """See Jobs."""

        def write(db: Connection) -> None:
            db.execute(_SQL["note"], build_job_row(state))

        await self._database.write(write)

    async def states(self, scope: Scope) -> list[JobState]:
        """See Jobs."""
        return [build_job_state(row) for row in await self._fetch_rows("of_user", scope.user_id)]

    async def queue(self, job: str, operator: Operator, limit: int = 1000) -> list[JobState]:
        """See Jobs."""
        return [build_job_state(row) for row in await self._fetch_rows("of_job", job, limit)]

    async def users_changed_since(
        self, since: datetime, operator: Operator, *, after: str = "", limit: int = 1000
    ) -> list[tuple[str, datetime]]:
        """See Jobs."""
        return [
            (user, from_micros(at)) for user, at in await self._fetch_rows("changed", to_micros(since), after, limit)
        ]

    async def enqueue(self, job: str, users: Mapping[str, datetime], kinds: Collection[str] = ()) -> None:
        """See Jobs."""
        watched = json.dumps(sorted(kinds))
        rows = [(user, job, to_micros(at), watched) for user, at in sorted(users.items())]

        def write(db: Connection) -> None:
            db.executemany(_SQL["await_run"], rows)

        await self._database.write(write)

    async def pending_users(self, job: str, now: datetime, operator: Operator, limit: int = 100) -> list[str]:
        """See Jobs."""
        too_late = to_micros(add_time(now, MAX_WAIT))
        return [user for user, _ in await self._fetch_rows("waiting", job, to_micros(now), too_late, limit)]

    async def due_users(self, job: str, now: datetime, operator: Operator, limit: int = 100) -> list[str]:
        """See Jobs."""
        rows = await self._fetch_rows("due", job, to_micros(now), limit * DUE_ROWS_PER_USER)
        return list(dict.fromkeys(user for (user,) in rows))[:limit]

    async def due_records(self, job: str, now: datetime, scope: Scope, limit: int = 1000) -> list[Key]:
        """See Jobs."""
        return [
            (kind, name)
            for kind, name in await self._fetch_rows("due_records", scope.user_id, job, to_micros(now), limit)
        ]

    async def set_due_dates(self, scope: Scope, due_dates: Sequence[DueDate]) -> None:
        """See Jobs."""
        listed = [
            [due.kind, due.id, due.due_at and to_micros(due.due_at), due.due_for, due.review_priority]
            for due in due_dates
        ]

        def write(db: Connection) -> None:
            db.execute(_SQL["settle"], (scope.user_id, json.dumps(listed)))

        if listed:
            await self._database.write(write)
