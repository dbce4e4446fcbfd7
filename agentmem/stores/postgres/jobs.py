"""Where each job stands with each user, kept in the log's database; see `agentmem.stores.jobs` for the promises."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from agentmem.model.clock import from_micros, micros
from agentmem.model.records import Key
from agentmem.model.scope import Operator, Scope
from agentmem.stores.jobs import Due, JobState, job_state, job_values
from agentmem.stores.postgres.connection import Database, become, rows
from agentmem.text.blocks import load_blocks

if TYPE_CHECKING:
    from agentmem.stores.postgres.connection import Connection

SEVERAL = 20  # due records that one user may have in a row before the next one is looked for


def _sql() -> Mapping[str, str]:
    return load_blocks(__package__, "jobs.sql")


def open_jobs(database: Database) -> PostgresJobs:
    """The face for jobs of an opened database."""
    return PostgresJobs(database)


class PostgresJobs:
    """Jobs over one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def _rows(self, who: Scope | Operator, name: str, **values: Any) -> list[Any]:
        return await self._database.read(who, lambda db: rows(db, _sql()[name], values))

    async def state(self, job: str, scope: Scope) -> JobState:
        """See Jobs."""
        found = await self._rows(scope, "state", user_id=scope.user_id, job=job)
        return job_state(found[0]) if found else JobState(job, scope.user_id)

    async def note(self, state: JobState) -> None:
        """See Jobs."""

        async def write(db: Connection) -> None:
            await db.execute(_sql()["note"], job_values(state))

        await self._database.write(state.user_id, write)

    async def states(self, scope: Scope) -> list[JobState]:
        """See Jobs."""
        return [job_state(row) for row in await self._rows(scope, "of_user", user_id=scope.user_id)]

    async def queue(self, job: str, operator: Operator, limit: int = 1000) -> list[JobState]:
        """See Jobs."""
        return [job_state(row) for row in await self._rows(operator, "of_job", job=job, limit=limit)]

    async def changed(
        self, since: datetime, operator: Operator, *, after: str = "", limit: int = 1000
    ) -> list[tuple[str, datetime]]:
        """See Jobs."""
        found = await self._rows(operator, "changed", since=micros(since), after=after, limit=limit)
        return [(user, from_micros(at)) for user, at in found]

    async def await_run(self, job: str, users: Mapping[str, datetime], kinds: Collection[str] = ()) -> None:
        """See Jobs."""
        asked = {"job": job, "kinds": sorted(kinds)}

        async def write(db: Connection) -> None:
            for user_id, at in sorted(users.items()):  # in one order, so that nobody waits for one who waits for him
                await become(db, user_id)
                await db.execute(_sql()["await_run"], {**asked, "user_id": user_id, "due_at": micros(at)})

        if users:
            await self._database.write(min(users), write)

    async def waiting(self, job: str, now: datetime, operator: Operator, limit: int = 100) -> list[str]:
        """See Jobs."""
        return [user for (user,) in await self._rows(operator, "waiting", job=job, now=micros(now), limit=limit)]

    async def due(self, job: str, now: datetime, operator: Operator, limit: int = 100) -> list[str]:
        """See Jobs."""
        found = await self._rows(operator, "due", job=job, now=micros(now), limit=limit * SEVERAL)
        return list(dict.fromkeys(user for (user,) in found))[:limit]

    async def due_records(self, job: str, now: datetime, scope: Scope, limit: int = 1000) -> list[Key]:
        """See Jobs."""
        asked = {"user_id": scope.user_id, "job": job, "now": micros(now), "limit": limit}
        return [(kind, name) for kind, name in await self._rows(scope, "due_records", **asked)]

    async def settle(self, scope: Scope, dues: Sequence[Due]) -> None:
        """See Jobs."""
        values = {
            "user_id": scope.user_id, "kinds": [due.kind for due in dues], "ids": [due.id for due in dues],
            "dues": [None if due.due_at is None else micros(due.due_at) for due in dues],
            "jobs": [due.due_for for due in dues], "priorities": [due.review_priority for due in dues],
        }  # fmt: skip

        async def write(db: Connection) -> None:
            # An append reads under the user's lock which conversations were put away; one under way must not miss this.
            await db.execute(load_blocks(__package__, "append.sql")["lock"], values)
            await db.execute(_sql()["settle"], values)

        if dues:
            await self._database.write(scope, write)
