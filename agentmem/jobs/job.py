"""What runs while nobody asks: one file per job, found by its name.

A module `agentmem/jobs/builtin/<job>.py` defines `JOB`, a `Job`. Its `run` works for one user, leased, and may be
stopped at any point: what it did stays, what it did not do waits for the next run.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Literal, Self, TypeVar

from agentmem.core.plain_values import describe_value
from agentmem.core.record import Record
from agentmem.core.records import Gloss
from agentmem.core.scope import Operator, Scope, channel_scope
from agentmem.core.telemetry import ProgressCallback, no_progress
from agentmem.errors import InvalidRecord
from agentmem.jobs import builtin
from agentmem.memory.context import MemoryContext
from agentmem.models.structured_llm import Budget, LLMUsage
from agentmem.stores.values import Where

if TYPE_CHECKING:
    from agentmem.engine.engine import Engine


R = TypeVar("R", bound=Record)

PAGE_SIZE = 1000
RULES = "rules"
DEFAULT_LIMIT = 10  # conversations of one run
ALL_CONVERSATIONS = sys.maxsize


@dataclass(frozen=True, slots=True)
class Reread:
    """Which turns are read again: those read `by` a model or a vendor, on this moment or later. Without a name those
    that only rules read.
    """

    by: str = ""
    since: datetime | None = None

    def takes(self, gloss: Gloss, current: str) -> bool:
        """Whether the turn of a gloss is to be read again by the reader that is `current`."""
        reader = gloss.extractor.rpartition("/")[0] or gloss.extractor
        wanted = self.by or RULES
        is_meant = wanted in (reader, gloss.extractor) or reader.startswith(f"{wanted}:")
        is_late = self.since is None or (gloss.recorded_at is not None and gloss.recorded_at >= self.since)
        return is_meant and is_late and gloss.superseded_at is None and gloss.extractor != current


@dataclass(frozen=True, slots=True)
class JobOptions:
    """How a job is run. `dry_run` changes nothing; `retry_parked` takes up what was parked, `reread` what a worse
    reader read; `progress` is told what is done.

    `limit` is how many conversations that need work one run takes on; ALL_CONVERSATIONS reads each to its end. `budget`
    is the account of a longer run that this one is a part of.
    """

    dry_run: bool = False
    retry_parked: bool = False
    reread: Reread | None = None
    limit: int = DEFAULT_LIMIT
    progress: ProgressCallback = no_progress
    budget: Budget | None = None

    def open_budget(self, engine: Engine) -> Budget:
        """The account of this run."""
        return engine.llms.build_budget() if self.budget is None else self.budget.child()


class RecordNote(str):
    """A note on what a job did to one record, or would do: its text, and the parts of it."""

    record: Record
    action: str
    reason: str

    @classmethod
    def build(cls, name: str, record: Record, action: str, reason: str) -> Self:
        """The note on what was done to the record of this name, and why."""
        note = cls(f"{name}: {action}: {reason}")
        note.record, note.action, note.reason = record, action, reason
        return note


@dataclass(slots=True, kw_only=True)
class JobReport:
    """What one run of a job did for one user.

    `counts` are records written by kind, turns read and skipped; `operation_ids` can be undone one by one. `usage` is
    what models used up, by what they were asked for; `cost` is in dollars, None where a price is not known. `failed`
    and `parked` give a reason by turn, `stop_reason` says why the run ended early, `abort_others` that others would end
    so, too, `is_model_away` that a model could not be reached; `pending` is how much still waits.
    """

    job: str
    user_id: str
    dry_run: bool = False
    conversations: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    calls: int = 0
    tokens: int = 0
    cost: float | None = 0.0
    usage: dict[str, LLMUsage] = field(default_factory=dict)
    seconds: float = 0.0
    operation_ids: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    parked: dict[str, str] = field(default_factory=dict)
    pending: int = 0
    stop_reason: str = ""
    abort_others: bool = False
    is_model_away: bool = False
    notes: list[str] = field(default_factory=list)

    @property
    def has_read_nothing(self) -> bool:
        """Whether the run read nothing because a model failed."""
        return bool(self.failed or self.is_model_away) and not self.counts.get("turns")

    def set_usage(self, budget: Budget) -> None:
        """Take over what models used up of this account."""
        used = budget.total
        self.calls, self.tokens, self.cost = used.calls, used.tokens, used.cost
        self.usage = dict(budget.by_purpose)

    def add_counts(self, **more: int) -> None:
        """Add to the counts; what did not happen is left out."""
        for name, number in more.items():
            if number:
                self.counts[name] = self.counts.get(name, 0) + number


JobFunction = Callable[["Engine", Scope, JobOptions], Awaitable[JobReport]]


@dataclass(frozen=True, slots=True)
class Job:
    """A job and when a worker runs it: every so many `minutes`, for whom its `trigger` names.

    `changes` is for users who wrote records of the kinds that it `watches` (of any, if empty) since; `due` for users
    with records that crossed a threshold of the job, or of those in `also_due`. `clock` is for work that concerns no
    user by itself: such a job has `run_for_all` in place of `run`.
    """

    name: str
    minutes: float
    trigger: Literal["changes", "due", "clock"]
    run: JobFunction | None = None
    run_for_all: Callable[[Engine, Operator, JobOptions], Awaitable[JobReport]] | None = None
    watches: tuple[str, ...] = ()
    also_due: tuple[str, ...] = ()


def list_jobs() -> dict[str, Job]:
    """The jobs that can be run for a user, by name."""
    return {name: job for name, job in sorted(list_scheduled_jobs().items()) if job.run}


def list_scheduled_jobs() -> dict[str, Job]:
    """All jobs, by name, the most frequent first."""
    names = (item.name for item in pkgutil.iter_modules(builtin.__path__) if not item.name.startswith("_"))
    found: list[Job] = [importlib.import_module(f"{builtin.__name__}.{name}").JOB for name in names]
    return {job.name: job for job in sorted(found, key=lambda job: (job.minutes, job.name))}


def select_jobs(job: str | None) -> dict[str, Job]:
    """The job of this name, or all of them. Raises InvalidRecord naming the known ones."""
    jobs = list_jobs()
    if job is None:
        return jobs
    if job not in jobs:
        raise InvalidRecord(f"job must be one of {', '.join(jobs)}, got {describe_value(job)}", field="job")
    return {job: jobs[job]}


async def read_all(engine: Engine, scope: Scope, kind: type[R]) -> list[R]:
    """The records of this kind that the user has, in every channel."""
    found: list[R] = []
    where, read = Where(kinds=(kind.__name__,)), 0
    while page := await engine.log.find(scope, where, limit=PAGE_SIZE, offset=read):
        found += [record for record in page if isinstance(record, kind)]
        read += len(page)
    return found


def context_for(engine: Engine, scope: Scope, channel: str) -> MemoryContext:
    """The context in which a job writes into a channel; an agent's private channel is the agent's."""
    return MemoryContext(engine, channel_scope(scope.user_id, channel))
