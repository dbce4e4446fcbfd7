"""Where each job stands with each user, kept in the log's database; see `agentmem.stores.job_queue` for the
promises.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from agentmem.core.clock import add_time, from_micros, to_micros
from agentmem.core.record import Key
from agentmem.core.scope import Operator, Scope
from agentmem.stores.job_queue import MAX_WAIT, DueDate, JobState, build_job_row, build_job_state
from agentmem.stores.postgres.database import PostgresDatabase, fetch_rows, set_user
from agentmem.text.templates import load_templates

if TYPE_CHECKING:
    from agentmem.stores.postgres.database import Connection

_SQL = load_templates(__package__, "jobs.sql")

DUE_ROWS_PER_USER = 20  # due records that one user may have in a row before the next one is looked for


def open_job_queue(database: PostgresDatabase) -> PostgresJobQueue:
    """The face for jobs of an opened database."""
    return PostgresJobQueue(database)


class PostgresJobQueue:
    """Jobs over one database."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database

    async def _fetch_rows(self, principal: Scope | Operator, name: str, **values: Any) -> list[Any]:
        return await self._database.read(principal, lambda db: fetch_rows(db, _SQL[name], values))

    async def state(self, job: str, scope: Scope) -> JobState:
        """See Jobs."""
        found = await self._fetch_rows(scope, "state", user_id=scope.user_id, job=job)
        return build_job_state(found[0]) if found else JobState(job, scope.user_id)

    async def write_state(self, state: JobState) -> None:
        """See Jobs."""

        async def write(db: Connection) -> None:
            await db.execute(_SQL["note"], build_job_row(state))

        await self._database.write(state.user_id, write)

    async def states(self, scope: Scope) -> list[JobState]:
        """See Jobs."""
        return [build_job_state(row) for row in await self._fetch_rows(scope, "of_user", user_id=scope.user_id)]

    async def queue(self, job: str, operator: Operator, limit: int = 1000) -> list[JobState]:
        """See Jobs."""
        return [build_job_state(row) for row in await self._fetch_rows(operator, "of_job", job=job, limit=limit)]

    async def users_changed_since(
        self, since: datetime, operator: Operator, *, after: str = "", limit: int = 1000
    ) -> list[tuple[str, datetime]]:
        """See Jobs."""
        found = await self._fetch_rows(operator, "changed", since=to_micros(since), after=after, limit=limit)
        return [(user, from_micros(at)) for user, at in found]

    async def enqueue(self, job: str, users: Mapping[str, datetime], kinds: Collection[str] = ()) -> None:
        """See Jobs."""
        asked = {"job": job, "kinds": sorted(kinds)}

        async def write(db: Connection) -> None:
            for user_id, at in sorted(users.items()):  # in one order, so that nobody waits for one who waits for him
                await set_user(db, user_id)
                await db.execute(_SQL["await_run"], {**asked, "user_id": user_id, "due_at": to_micros(at)})

        if users:
            await self._database.write(min(users), write)

    async def pending_users(self, job: str, now: datetime, operator: Operator, limit: int = 100) -> list[str]:
        """See Jobs."""
        times = {"now": to_micros(now), "too_late": to_micros(add_time(now, MAX_WAIT))}
        return [user for (user,) in await self._fetch_rows(operator, "waiting", job=job, limit=limit, **times)]

    async def due_users(self, job: str, now: datetime, operator: Operator, limit: int = 100) -> list[str]:
        """See Jobs."""
        found = await self._fetch_rows(operator, "due", job=job, now=to_micros(now), limit=limit * DUE_ROWS_PER_USER)
        return list(dict.fromkeys(user for (user,) in found))[:limit]

    async def due_records(self, job: str, now: datetime, scope: Scope, limit: int = 1000) -> list[Key]:
        """See Jobs."""
        asked = {"user_id": scope.user_id, "job": job, "now": to_micros(now), "limit": limit}
        return [(kind, name) for kind, name in await self._fetch_rows(scope, "due_records", **asked)]

    async def set_due_dates(self, scope: Scope, due_dates: Sequence[DueDate]) -> None:
        """See Jobs."""
        values = {
            "user_id": scope.user_id,
            "kinds": [due.kind for due in due_dates],
            "ids": [due.id for due in due_dates],
            "dues": [None if due.due_at is None else to_micros(due.due_at) for due in due_dates],
            "jobs": [due.due_for for due in due_dates],
            "priorities": [due.review_priority for due in due_dates],
        }

        async def write(db: Connection) -> None:
            # An append reads under the user's lock which conversations were put away; one under way must not miss this.
            await db.execute(load_templates(__package__, "write.sql")["lock"], values)
            await db.execute(_SQL["settle"], values)

        if due_dates:
            await self._database.write(scope, write)
