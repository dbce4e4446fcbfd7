"""Where each job stands with each user, kept in the embedded store; see `agentmem.stores.jobs` for the promises."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from agentmem.model.clock import from_micros, micros
from agentmem.model.records import Key
from agentmem.model.scope import Operator, Scope
from agentmem.stores.jobs import Due, JobState, job_state, job_values
from agentmem.stores.sqlite.connection import Connection, Database
from agentmem.text.blocks import load_blocks

SEVERAL = 20  # due records that one user may have in a row before the next one is looked for


def _sql() -> Mapping[str, str]:
    return load_blocks(__package__, "jobs.sql")


def open_jobs(database: Database) -> SqliteJobs:
    """The face for jobs of an opened file."""
    return SqliteJobs(database)


class SqliteJobs:
    """Jobs over one file."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def _rows(self, name: str, *values: Any) -> list[tuple[Any, ...]]:
        return await self._database.read(lambda db: list(db.execute(_sql()[name], values)))

    async def state(self, job: str, scope: Scope) -> JobState:
        """See Jobs."""
        found = await self._rows("state", scope.user_id, job)
        return job_state(found[0]) if found else JobState(job, scope.user_id)

    async def note(self, state: JobState) -> None:
        """See Jobs."""

        def write(db: Connection) -> None:
            db.execute(_sql()["note"], job_values(state))

        await self._database.write(write)

    async def states(self, scope: Scope) -> list[JobState]:
        """See Jobs."""
        return [job_state(row) for row in await self._rows("of_user", scope.user_id)]

    async def queue(self, job: str, operator: Operator, limit: int = 1000) -> list[JobState]:
        """See Jobs."""
        return [job_state(row) for row in await self._rows("of_job", job, limit)]

    async def changed(
        self, since: datetime, operator: Operator, *, after: str = "", limit: int = 1000
    ) -> list[tuple[str, datetime]]:
        """See Jobs."""
        return [(user, from_micros(at)) for user, at in await self._rows("changed", micros(since), after, limit)]

    async def await_run(self, job: str, users: Mapping[str, datetime], kinds: Collection[str] = ()) -> None:
        """See Jobs."""
        watched = json.dumps(sorted(kinds))
        rows = [(user, job, micros(at), watched) for user, at in sorted(users.items())]

        def write(db: Connection) -> None:
            db.executemany(_sql()["await_run"], rows)

        await self._database.write(write)

    async def waiting(self, job: str, now: datetime, operator: Operator, limit: int = 100) -> list[str]:
        """See Jobs."""
        return [user for (user,) in await self._rows("waiting", job, micros(now), limit)]

    async def due(self, job: str, now: datetime, operator: Operator, limit: int = 100) -> list[str]:
        """See Jobs."""
        rows = await self._rows("due", job, micros(now), limit * SEVERAL)
        return list(dict.fromkeys(user for (user,) in rows))[:limit]

    async def due_records(self, job: str, now: datetime, scope: Scope, limit: int = 1000) -> list[Key]:
        """See Jobs."""
        return [(kind, name) for kind, name in await self._rows("due_records", scope.user_id, job, micros(now), limit)]

    async def settle(self, scope: Scope, dues: Sequence[Due]) -> None:
        """See Jobs."""
        listed = [
            [due.kind, due.id, due.due_at and micros(due.due_at), due.due_for, due.review_priority] for due in dues
        ]

        def write(db: Connection) -> None:
            db.execute(_sql()["settle"], (scope.user_id, json.dumps(listed)))

        if listed:
            await self._database.write(write)
