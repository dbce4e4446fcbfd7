"""When jobs run: a worker that does what stands in `agentmem/jobs/builtin/`, on the schedule of the settings."""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from structlog.contextvars import bound_contextvars

from agentmem.core.plain_values import describe_value
from agentmem.core.telemetry import INFO, WARNING, log_event
from agentmem.engine.engine import Engine
from agentmem.errors import AgentMemError, ConfigError, InvalidRecord, LeaseLost
from agentmem.jobs.job import Job, JobOptions, list_scheduled_jobs
from agentmem.jobs.runner import OPERATOR, RunReport, run_job

if TYPE_CHECKING:
    from apscheduler.schedulers.asyncio import AsyncIOScheduler

GRACE_SECONDS = 10.0
JITTER_FRACTION = 0.05  # of an interval, so that several workers do not run in step

MAX_HOST_CHARACTERS = 40  # of a worker's id

ReportCallback = Callable[[RunReport], None]


class ConsolidationWorker:
    """Runs the background jobs of all users until it is stopped. Any number of workers may work side by side.

    `jobs` names those to run, all of them when None. With `dry_run` nothing is changed. `on_report` is called with each
    report. `id` (host, process, and a random part) stands as `worker_id` in its events. Works inside a program, too:

        async with ConsolidationWorker(memory.engine):
            ...

    On Postgres the user of `log_url` needs the role `agentmem_worker`.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        jobs: Sequence[str] | None = None,
        dry_run: bool = False,
        on_report: ReportCallback | None = None,
    ) -> None:
        self.engine = engine
        self.id = _build_worker_id()
        self.jobs = _select_jobs(jobs)
        self.last_run: float | None = None  # by the loop's clock: when a job last came to an end, well or not
        self._options = JobOptions(dry_run=dry_run, limit=engine.settings.worker.conversations)
        self._on_report = on_report
        self._stopping = False
        self._running: dict[str, asyncio.Task[Any]] = {}
        self._initial_round: asyncio.Future[None] | None = None
        self._scheduler: AsyncIOScheduler | None = None

    # -- now

    async def run_once(self) -> list[RunReport]:
        """Run each job once, the most frequent first; a report of each that was not being run elsewhere.

        Raises StoreUnavailable when a store is away, ScopeError without the right to work for all users.
        """
        reports = [await self._run_job(name) for name in self.jobs]
        return [report for report in reports if report is not None]

    # -- on the schedule

    async def start(self) -> None:
        """Begin to run the jobs, each at its interval. Raises ConfigError without APScheduler or for a bad interval,
        ScopeError without the right to work for all users."""
        await self.engine.job_queue.queue("consolidate", OPERATOR, 1)  # refused here rather than in every run
        self._scheduler = _build_scheduler()
        for name in self.jobs:
            seconds = self.interval_seconds(name)
            # Missed runs, and those that would overlap, come to one run, as soon as that is possible.
            self._scheduler.add_job(
                self._run_scheduled,
                "interval",
                [name],
                id=name,
                seconds=seconds,
                jitter=seconds * JITTER_FRACTION,
                coalesce=True,
                max_instances=1,
                misfire_grace_time=None,
            )
        self._scheduler.start()
        self._initial_round = asyncio.ensure_future(self._run_all_once())
        log_event(INFO, "worker_started", worker_id=self.id, jobs=list(self.jobs))

    async def _run_all_once(self) -> None:
        """Every job once at the start: a worker that is restarted more often than a job is due would never run it."""
        for name in self.jobs:
            if not self._stopping:
                await self._run_scheduled(name)

    def interval_seconds(self, name: str) -> float:
        """Seconds between two runs of a job: as the settings say, else as its file does."""
        minutes = self.engine.settings.worker.minutes.get(name, self.jobs[name].minutes)
        return float(minutes) * 60

    async def stop(self, grace: float = GRACE_SECONDS) -> None:
        """Finish what runs within `grace` seconds, or let go of it: what a job did stays, the rest waits."""
        self._stopping = True
        if self._scheduler is not None:
            self._scheduler.pause()
        if self._running:
            _, late = await asyncio.wait(self._running.values(), timeout=grace)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        if self._scheduler is not None:
            self._scheduler.shutdown(wait=False)
            self._scheduler = None
            log_event(INFO, "worker_stopped", worker_id=self.id)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def _run_scheduled(self, name: str) -> None:
        """A run that is due. Whatever goes wrong is told, and the next run tries again."""
        task = asyncio.current_task()
        assert task is not None
        if name in self._running:
            return
        self._running[name] = task
        try:
            await self._run_job(name)
        except AgentMemError as error:
            kind = type(error).__name__
            log_event(WARNING, "job_failed", worker_id=self.id, job=name, error=kind, reason=str(error))
        finally:
            del self._running[name]

    async def _run_job(self, name: str) -> RunReport | None:
        """Run one job; None when another worker is at it."""
        try:
            with bound_contextvars(worker_id=self.id):  # in all that the job tells, not in its own alone
                report = await run_job(self.engine, self.jobs[name], self._options, should_stop=lambda: self._stopping)
        except LeaseLost:
            return None
        finally:
            self.last_run = asyncio.get_running_loop().time()
        if self._on_report is not None:
            self._on_report(report)
        return report


def _build_worker_id() -> str:
    """Unlike that of any other worker: the containers of several machines often have one host name and process id."""
    return f"{socket.gethostname()[:MAX_HOST_CHARACTERS]}-{os.getpid()}-{secrets.token_hex(4)}"


def _select_jobs(jobs: Sequence[str] | None) -> dict[str, Job]:
    known = list_scheduled_jobs()
    for name in jobs or ():
        if name not in known:
            raise InvalidRecord(f"jobs must be among {', '.join(known)}, got {describe_value(name)}", field="jobs")
    return {name: job for name, job in known.items() if jobs is None or name in jobs}


def _build_scheduler() -> AsyncIOScheduler:
    try:
        from apscheduler.schedulers.asyncio import AsyncIOScheduler
    except ImportError as error:
        raise ConfigError("a worker needs APScheduler; run: pip install 'agentmem-graph[worker]'") from error
    return AsyncIOScheduler(timezone="UTC")
