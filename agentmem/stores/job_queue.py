"""The store's interface for background jobs: the state of each job per user, and which users have work."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple, Protocol

from agentmem.core.clock import from_micros_or_none, to_micros
from agentmem.core.record import Key
from agentmem.core.scope import Operator, Scope

MAX_WAIT = timedelta(days=2)  # beyond the longest wait after a failure; what is due later was noted under a wrong clock


@dataclass(frozen=True, slots=True)
class JobState:
    """The state of one job for one user.

    `seq` is the journal position it has processed; `due_at` its next run, None when nothing waits; `attempts` counts
    failed runs in a row; `last_run_at` is its last run and `report` the result in numbers.
    """

    job: str
    user_id: str
    seq: int = 0
    due_at: datetime | None = None
    attempts: int = 0
    last_run_at: datetime | None = None
    report: Mapping[str, Any] = field(default_factory=dict)


class DueDate(NamedTuple):
    """When a record next crosses a threshold (None: never by itself), which job looks at it then, and its priority."""

    kind: str
    id: str
    due_at: datetime | None
    due_for: str = ""
    review_priority: float = 0.0


class JobQueue(Protocol):
    """What a backend keeps for jobs. Nothing here costs more than what it returns, however many users there are."""

    async def state(self, job: str, scope: Scope) -> JobState:
        """The state of the job for this user; all zero before its first run."""
        ...

    async def write_state(self, state: JobState) -> None:
        """Replace the state of a job for a user; a larger stored `seq` is kept."""
        ...

    async def states(self, scope: Scope) -> list[JobState]:
        """The state of each job for this user, by name; [] for a user without any."""
        ...

    async def queue(self, job: str, operator: Operator, limit: int = 1000) -> list[JobState]:
        """The users of a job at any time, the one due first first."""
        ...

    async def users_changed_since(
        self, since: datetime, operator: Operator, *, after: str = "", limit: int = 1000
    ) -> list[tuple[str, datetime]]:
        """Users who wrote later than `since`, with when they wrote last, least recently first.

        Of those who wrote just then, the ones whose names come after `after`: so that pages can follow each other.
        """
        ...

    async def enqueue(self, job: str, users: Mapping[str, datetime], kinds: Collection[str] = ()) -> None:
        """Mark these users as due for a job from these moments; earlier marks stay.

        A user who has written no records of these kinds (any, when none is given) since the last run has no work:
        unless already waiting, they count as processed up to their last write.
        """
        ...

    async def pending_users(self, job: str, now: datetime, operator: Operator, limit: int = 100) -> list[str]:
        """Users due for the job, the longest waiting first."""
        ...

    async def due_users(self, job: str, now: datetime, operator: Operator, limit: int = 100) -> list[str]:
        """Users with records that crossed a threshold of this job by now, the one whose record waits longest first."""
        ...

    async def due_records(self, job: str, now: datetime, scope: Scope, limit: int = 1000) -> list[Key]:
        """This user's records that crossed a threshold of this job by now, longest first."""
        ...

    async def set_due_dates(self, scope: Scope, due_dates: Sequence[DueDate]) -> None:
        """Record when these records are next due; those that are not stored any more are left out."""
        ...


def build_job_state(row: Sequence[Any]) -> JobState:
    """A JobState from its row: job, user, seq, due_at, attempts, at, report."""
    job, user_id, seq, due_at, attempts, at, report = row
    return JobState(
        job, user_id, seq, from_micros_or_none(due_at), attempts, from_micros_or_none(at), json.loads(report)
    )


def build_job_row(state: JobState) -> dict[str, Any]:
    """The row of a JobState, by column."""
    return {
        "job": state.job,
        "user_id": state.user_id,
        "seq": state.seq,
        "due_at": _to_micros(state.due_at),
        "attempts": state.attempts,
        "at": _to_micros(state.last_run_at),
        "report": json.dumps(dict(state.report)),
    }


def _to_micros(value: datetime | None) -> int | None:
    return None if value is None else to_micros(value)
