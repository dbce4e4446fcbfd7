"""Runs the jobs of the users whom a program serves, beside it: what was said becomes knowledge without a worker."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from agentmem.core.event_loop import loop_time
from agentmem.core.scope import Scope
from agentmem.core.telemetry import DEBUG, WARNING, log_event
from agentmem.engine.engine import Engine
from agentmem.errors import AgentMemError, Closed
from agentmem.jobs.job import JobOptions, list_scheduled_jobs
from agentmem.jobs.runner import run_job_for_user
from agentmem.stores.values import Where

QUIET_SECONDS = 10.0  # without a new turn of a user, until the jobs of that user run
QUIET_SECONDS_WITH_LLM = 60.0  # a window of many turns costs a model little more than one of a single turn
MAX_WAIT_SECONDS = 600.0  # for the jobs of a user who never pauses
RETRY_SECONDS = 30.0  # after a failure, and while another process does the same
DRAIN_SECONDS = 5.0  # for what still waits when the program ends
MAX_SHARE = 0.03  # of the time, while recalls are asked: they are slower beside a job, and their 95th percentile is not
SWITCH_SECONDS = 0.0005  # that a thread which reads turns may keep the others waiting; Python's default is .005
MAX_CONVERSATIONS = 5  # of a user read in one run, before others have their turn


@contextmanager
def _yielding_threads() -> Iterator[None]:
    """Let the threads of this process take turns more often, so that an answer does not wait for the work of a job."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(min(before, SWITCH_SECONDS))
    try:
        yield
    finally:
        sys.setswitchinterval(before)


@dataclass(slots=True)
class _WaitingUser:
    """When turns of a user came, by the event loop's clock, and when the jobs may run."""

    since: float
    due_at: float


class BackgroundJobs:
    """Runs the jobs of each user who stored turns here, after a pause in the conversation, one user at a time.

    It takes the same leases as workers do, so that any number of processes share the work; what is cut off waits for
    the next run. Jobs that concern all users, such as audit partitions, are left to a worker.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._waiting: dict[str, _WaitingUser] = {}
        self._changed = asyncio.Event()
        self._is_draining = False
        self._task = asyncio.ensure_future(self._run())
        engine.turn_callbacks.append(self.note_turns)

    def note_turns(self, user_id: str) -> None:
        """Turns of this user were stored, or may wait from before: run the jobs after the next pause."""
        settings = self._engine.settings
        by_rules = (settings.extraction_llm or settings.llm) == "none"
        self._postpone(user_id, QUIET_SECONDS if by_rules else QUIET_SECONDS_WITH_LLM)

    async def stop(self, seconds: float = DRAIN_SECONDS) -> None:
        """Do what waits now, for at most so long."""
        self._is_draining = True
        self._changed.set()
        await asyncio.wait([self._task], timeout=seconds)
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        if self._waiting:
            log_event(DEBUG, "jobs_left", users=len(self._waiting))

    def _postpone(self, user_id: str, seconds: float) -> None:
        now = loop_time()
        waiting = self._waiting.setdefault(user_id, _WaitingUser(now, now))
        waiting.due_at = min(now + seconds, waiting.since + MAX_WAIT_SECONDS)
        self._changed.set()

    async def _run(self) -> None:
        free_at = 0.0
        with _yielding_threads():
            await asyncio.to_thread(list_scheduled_jobs)  # loads what they need; half a second that no answer waits for
        while self._waiting or not self._is_draining:
            user_id = min(self._waiting, key=lambda name: self._waiting[name].due_at, default=None)
            due_at = None if user_id is None else max(free_at, self._waiting[user_id].due_at)
            if user_id is None or due_at is None or (loop_time() < due_at and not self._is_draining):
                await self._wait_for_change(due_at)
                continue
            del self._waiting[user_id]
            began, recalled = loop_time(), self._find_last_recall()
            with _yielding_threads():
                await self._try_jobs(user_id)
            now = loop_time()
            free_at = now if self._find_last_recall() == recalled else now + (now - began) / MAX_SHARE

    def _find_last_recall(self) -> str | None:
        return next(reversed(self._engine.receipts), None)

    async def _wait_for_change(self, until: float | None) -> None:
        self._changed.clear()
        with suppress(TimeoutError):  # then somebody is due
            async with asyncio.timeout_at(until):
                await self._changed.wait()

    async def _try_jobs(self, user_id: str) -> None:
        """Run all jobs of a user who has turns. Whatever goes wrong is told, and tried again later."""
        try:
            # nothing is noted of a user who was erased meanwhile, or who never stored anything
            if not await self._engine.log.count(Scope(user_id), Where(kinds=("Turn",))):
                return
            has_more, has_failed = await self._run_jobs(user_id)
        except Closed:
            return
        except Exception as error:  # noqa: BLE001  a bug in the jobs of one user must not end those of others
            has_more, has_failed = False, True
            log_event(WARNING, "job_failed", user_id=user_id, error=type(error).__name__)
        if has_more:
            self._postpone(user_id, 0.0)
        elif has_failed and not self._is_draining:
            self._postpone(user_id, RETRY_SECONDS)

    async def _run_jobs(self, user_id: str) -> tuple[bool, bool]:
        """Run all jobs of a user; whether there is more to do, and whether anything failed."""
        engine = self._engine
        options = JobOptions(limit=MAX_CONVERSATIONS, budget=engine.llms.build_budget())
        has_more = has_failed = False
        for name, job in list_scheduled_jobs().items():
            if job.run is None:
                continue
            try:
                report = await run_job_for_user(engine, job, Scope(user_id), options)
                has_more |= bool(report.pending and report.conversations)
                has_failed |= bool(report.stop_reason)
            except Closed:
                raise
            except AgentMemError as error:
                has_failed = True
                log_event(WARNING, "job_failed", job=name, user_id=user_id, error=type(error).__name__)
        return has_more, has_failed
