"""When jobs run: a worker that does what stands in `agentmem/consolidation/`, on the schedule of the settings."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING, Any, Self

from agentmem.consolidation import JobOptions, scheduled_jobs
from agentmem.consolidation.serving import OPERATOR, RunReport, serve
from agentmem.errors import AgentMemError, ConfigError, InvalidRecord, LeaseLost
from agentmem.events import INFO, WARNING, tell
from agentmem.resources import Resources

if TYPE_CHECKING:
    from apscheduler.schedulers.asyncio import AsyncIOScheduler

GRACE_SECONDS = 10.0
JITTER = 0.05  # of an interval, so that several workers do not run in step

Told = Callable[[RunReport], None]


class ConsolidationWorker:
    """Runs the background jobs of all users until it is stopped. Any number of workers may work side by side.

    `jobs` names those to run, all of them when None. With `dry_run` nothing is changed. `told` is called with each
    report. Works inside a program, too:

        async with ConsolidationWorker(memory.resources):
            ...

    On Postgres the user of `log_url` needs the role `agentmem_worker`.
    """

    def __init__(
        self, resources: Resources, *, jobs: Sequence[str] | None = None, dry_run: bool = False,
        told: Told | None = None,
    ) -> None:  # fmt: skip
        self.resources = resources
        self.jobs = _chosen(jobs)
        self.last_run: float | None = None  # by the loop's clock: when a job last came to an end, well or not
        self._options = JobOptions(dry_run=dry_run, most=resources.settings.worker.conversations)
        self._told = told
        self._stopping = False
        self._running: dict[str, asyncio.Task[Any]] = {}
        self._first: asyncio.Future[None] | None = None
        self._scheduler: AsyncIOScheduler | None = None

    # -- now

    async def run_once(self) -> list[RunReport]:
        """Run each job once, the most frequent first; a report of each that was not being run elsewhere.

        Raises StoreUnavailable when a store is away, ScopeError without the right to work for all users.
        """
        reports = [await self._serve(name) for name in self.jobs]
        return [report for report in reports if report is not None]

    # -- on the schedule

    async def start(self) -> None:
        """Begin to run the jobs, each at its interval. Raises ConfigError without APScheduler or for a bad interval,
        ScopeError without the right to work for all users."""
        await self.resources.jobs.queue("consolidate", OPERATOR, 1)  # refused here rather than in every run
        self._scheduler = _scheduler()
        for name in self.jobs:
            seconds = self.interval(name)
            # Missed runs, and those that would overlap, come to one run, as soon as that is possible.
            self._scheduler.add_job(
                self._tick, "interval", [name], id=name, seconds=seconds, jitter=seconds * JITTER, coalesce=True,
                max_instances=1, misfire_grace_time=None,
            )  # fmt: skip
        self._scheduler.start()
        self._first = asyncio.ensure_future(self._first_round())
        tell(INFO, "worker_started", jobs=list(self.jobs))

    async def _first_round(self) -> None:
        """Every job once at the start: a worker that is restarted more often than a job is due would never run it."""
        for name in self.jobs:
            if not self._stopping:
                await self._tick(name)

    def interval(self, name: str) -> float:
        """Seconds between two runs of a job: as the settings say, else as its file does."""
        minutes = self.resources.settings.worker.minutes.get(name, self.jobs[name].MINUTES)
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
            tell(INFO, "worker_stopped")

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def _tick(self, name: str) -> None:
        """A run that is due. Whatever goes wrong is told, and the next run tries again."""
        task = asyncio.current_task()
        assert task is not None
        if name in self._running:
            return
        self._running[name] = task
        try:
            await self._serve(name)
        except AgentMemError as error:
            tell(WARNING, "job_failed", job=name, error=type(error).__name__, reason=str(error))
        finally:
            del self._running[name]

    async def _serve(self, name: str) -> RunReport | None:
        """Run one job; None when another worker is at it."""
        try:
            report = await serve(self.resources, self.jobs[name], self._options, stopping=lambda: self._stopping)
        except LeaseLost:
            return None
        finally:
            self.last_run = asyncio.get_running_loop().time()
        if self._told is not None:
            self._told(report)
        return report


def _chosen(jobs: Sequence[str] | None) -> dict[str, ModuleType]:
    known = scheduled_jobs()
    for name in jobs or ():
        if name not in known:
            raise InvalidRecord(f"jobs must be among {', '.join(known)}, got {name!r}", field="jobs")
    return {name: module for name, module in known.items() if jobs is None or name in jobs}


def _scheduler() -> AsyncIOScheduler:
    try:
        from apscheduler.schedulers.asyncio import AsyncIOScheduler
    except ImportError as error:
        raise ConfigError("a worker needs APScheduler; run: pip install 'agentmem-graph[worker]'") from error
    return AsyncIOScheduler(timezone="UTC")
