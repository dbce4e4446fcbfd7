"""Running a job for one user or for all who are due: leases, order, states, pauses after failures.

A run costs in proportion to what changed. Users who wrote since the last look are put into the job's queue, the table
`job_states`, which they leave when the job has nothing more to do for them. Who failed is tried later and later.
"""

from __future__ import annotations

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

from agentmem.core.clock import Stopwatch, add_time, from_micros, to_micros
from agentmem.core.scope import Operator, Scope
from agentmem.core.telemetry import DEBUG, INFO, WARNING, log_event
from agentmem.engine.engine import Engine
from agentmem.errors import AgentMemError, LeaseLost, StoreError
from agentmem.jobs.job import Job, JobFunction, JobOptions, JobReport
from agentmem.stores.job_queue import MAX_WAIT, JobState

LEASE_SECONDS = 30.0

OPERATOR = Operator("worker")
PAGE_SIZE = 1000
CLOCK_SKEW = timedelta(minutes=5)  # changes may become visible later than their time, by the clocks of several machines
USER_BATCH_SIZE = 100  # looked for at once
MAX_USER_BATCHES = 100  # of them in one run of a job
PER_USER_LIMIT = 3  # conversations of one user while others wait
INITIAL_BACKOFF = timedelta(minutes=1)  # after a failure, then 4, 16, … up to
MAX_BACKOFF = timedelta(days=1)
STATE_TTL_SECONDS = 86_400.0


@asynccontextmanager
async def hold_lease(engine: Engine, name: str, description: str) -> AsyncIterator[int]:
    """Work as the only one under this name; gives the token for `Engine.write(fence=…)`.

    Renewed every third of its time. Raises LeaseLost, saying `description` is taken, while another works under the
    name.
    """
    owner = engine.ids.new_id()

    async def renew() -> int | None:
        return await engine.log.acquire_lease(name, LEASE_SECONDS, owner)

    async def keep() -> None:
        while True:
            await asyncio.sleep(LEASE_SECONDS / 3)
            await renew()  # were it lost, the token keeps our writes away

    if (token := await renew()) is None:
        raise LeaseLost(f"{description}: another worker is at it")
    keeper = asyncio.ensure_future(keep())
    try:
        yield token
    finally:
        keeper.cancel()
        await asyncio.gather(keeper, return_exceptions=True)
        await asyncio.shield(engine.log.release_lease(name, owner))


@asynccontextmanager
async def publish_lock(engine: Engine, scope: Scope) -> AsyncIterator[None]:
    """Show in the session store that the scope's conversation is worked on, for who watches there. Nothing reads it."""
    key = f"consolidation:lock:{quote(scope.conversation_id or '', safe='')}"
    with suppress(StoreError):
        await engine.session.set(scope, key, engine.clock.now().isoformat(), ttl=LEASE_SECONDS)
    try:
        yield
    finally:
        with suppress(StoreError):
            await engine.session.delete(scope, key)


@dataclass
class LeasedRun(ABC):
    """One run of a job for one user; each job does its work in a class of this kind."""

    engine: Engine
    scope: Scope
    options: JobOptions
    report: JobReport
    fence: int = field(default=0, init=False)  # the token of the lease

    @abstractmethod
    async def run_all(self) -> None:
        """Do the work, and fill in the report."""

    async def preview(self) -> bool:
        """Say what a run would do, without the lease; False where that takes a run."""
        return False

    def log_end(self) -> None:  # noqa: B027  few jobs tell anything
        """Tell that a run ended, where a job does."""

    async def find_changed_channels(self, kind: str, after_seq: int) -> list[str]:
        """The channels in which records of this kind were written after a position."""
        columns = await self.engine.read_columns(self.scope)
        fresh = (columns.kind == columns.kinds.find_code(kind)) & (columns.seqs > after_seq)
        return sorted({columns.channels.values[code] for code in columns.channel[fresh].tolist()})


def build_leased_run(name: str, kind: type[LeasedRun], what: str = "") -> JobFunction:
    """The `run` of a job that works under the lease of this job and user, timed, with a report.

    While another worker has the lease, or takes it over, the report says so of `what` in `stop_reason`.
    """

    async def run(engine: Engine, scope: Scope, options: JobOptions) -> JobReport:
        engine.check_open()
        watch = Stopwatch(engine.clock)
        report = JobReport(job=name, user_id=scope.user_id, dry_run=options.dry_run)
        work = kind(engine, scope, options, report)
        if options.dry_run and await work.preview():
            return report
        if options.retry_parked and not options.dry_run:
            await engine.admin.requeue_dead_letters(name, scope)
        try:
            async with hold_lease(
                engine, f"{name}:{scope.user_id}", what or f"job {name} of {scope.user_id!r}"
            ) as fence:
                work.fence = fence
                await work.run_all()
        except LeaseLost as error:
            report.stop_reason = str(error)
        report.seconds = watch.milliseconds() / 1000
        work.log_end()
        return report

    return run


@dataclass(slots=True, kw_only=True)
class RunReport:
    """What one run of a job did over all users it served.

    `users` were served, `failed` gives the kind of error by user, `has_more` says whether more wait than were served.
    """

    job: str
    dry_run: bool = False
    users: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    calls: int = 0
    tokens: int = 0
    cost: float = 0.0
    seconds: float = 0.0
    failed: dict[str, str] = field(default_factory=dict)
    has_more: bool = False
    stop_reason: str = ""
    abort_others: bool = False

    def add(self, report: JobReport) -> None:
        """Add what the job did for one user."""
        self.users += 1
        for name, number in report.counts.items():
            self.counts[name] = self.counts.get(name, 0) + number
        self.calls += report.calls
        self.tokens += report.tokens
        self.cost += report.cost or 0.0
        self.stop_reason = report.stop_reason or self.stop_reason
        self.abort_others |= report.abort_others
        self.has_more |= bool(report.pending and report.conversations)  # of this user; without progress it would spin


async def run_job(
    engine: Engine, job: Job, options: JobOptions, *, should_stop: Callable[[], bool] = lambda: False
) -> RunReport:
    """One run of a job for whoever it has something to do for. Raises LeaseLost when a job for all is run elsewhere.

    `should_stop` is asked between users. A user whose run fails is tried again later; the others go on.
    """
    watch = Stopwatch(engine.clock)
    options = replace(options, budget=engine.llms.build_budget())  # caps hold for the run, not for each user
    report = RunReport(job=job.name, dry_run=options.dry_run)
    if job.run_for_all is not None:
        report.add(await job.run_for_all(engine, OPERATOR, options))
        report.users = 0
    else:
        await _run_for_users(engine, job, options, report, should_stop)
    report.seconds = watch.milliseconds() / 1000
    await _write_report(engine, report)
    _log_report(report)
    return report


async def run_job_for_user(engine: Engine, job: Job, scope: Scope, options: JobOptions) -> JobReport:
    """Run a job for one user and note how far it came. Raises what the job raises."""
    head = (await engine.log.head(scope)).seq
    assert job.run is not None
    report = await job.run(engine, scope, options)
    if not options.dry_run:
        own = {*report.operation_ids}
        since = await engine.log.changes(scope, head, len(own) + 1) if own else []
        if since and own >= {entry.operation_id for entry in since}:
            head = since[-1].seq  # only the job itself wrote: it need not read that again
        await _write_state(engine, job, scope, report, head)
    return report


async def read_last_reports(engine: Engine, jobs: Sequence[str]) -> dict[str, dict[str, Any]]:
    """What the last run of each of these jobs did, by name; those never run left out."""
    meta = await engine.log.meta()
    found = {name: meta.get(_meta_key(name, "report")) for name in jobs}
    return {name: json.loads(text) for name, text in found.items() if text}


# -- who is served


async def _run_for_users(
    engine: Engine, job: Job, options: JobOptions, report: RunReport, should_stop: Callable[[], bool]
) -> None:
    seen: set[str] = set()
    left = options.limit
    for _ in range(MAX_USER_BATCHES):
        users = await _eligible_users(engine, job, seen)
        if not users:
            return
        for number, user_id in enumerate(users):
            if should_stop() or report.abort_others or left <= 0:
                report.has_more = True
                return
            options.progress(job.name, len(seen), len(seen) + len(users) - number)
            most = min(PER_USER_LIMIT, left) if len(users) > number + 1 else left
            seen.add(user_id)
            left -= await _run_for_user(engine, job, Scope(user_id), replace(options, limit=most), report)
    report.has_more = True


async def _eligible_users(engine: Engine, job: Job, seen: Collection[str]) -> list[str]:
    """The users to serve now who were not seen in this run, the one who waits longest first."""
    queue, name, now = engine.job_queue, job.name, engine.clock.now()
    limit = USER_BATCH_SIZE + len(seen)  # who was seen may still be due: everybody in a dry run
    if job.trigger == "due":
        due = [user for each in (name, *job.also_due) for user in await queue.due_users(each, now, OPERATOR, limit)]
        waiting = [user for user in dict.fromkeys(due) if user not in seen][:USER_BATCH_SIZE]
        states = [await queue.state(name, Scope(user)) for user in waiting]
        too_late = add_time(now, MAX_WAIT)
        return [each.user_id for each in states if each.due_at is None or not now < each.due_at <= too_late]
    await _enqueue_changed_users(engine, name, frozenset(job.watches))
    pending = await queue.pending_users(name, now, OPERATOR, limit)
    return [user for user in pending if user not in seen][:USER_BATCH_SIZE]


async def _enqueue_changed_users(engine: Engine, job: str, watched_kinds: Collection[str]) -> None:
    """Queue the users who wrote what the job watches since it last looked for such: jobs wake each other the less."""
    key = _meta_key(job, "seen")
    now = engine.clock.now()  # a user whose clock was in the year 9999 must not hide the others from then on
    seen = min(now, from_micros(int((await engine.log.meta()).get(key, "0"))))
    since, after, found = _subtract_clock_skew(seen), "", 0
    while page := await engine.job_queue.users_changed_since(since, OPERATOR, after=after, limit=PAGE_SIZE):
        await engine.job_queue.enqueue(job, {user: min(at, now) for user, at in page}, watched_kinds)
        found += len(page)
        after, since = page[-1]
        if len(page) < PAGE_SIZE:
            break
    if found and min(now, since) > seen:
        await engine.log.set_meta({key: str(to_micros(min(now, since)))})


def _subtract_clock_skew(moment: datetime) -> datetime:
    first = datetime(1970, 1, 1, tzinfo=UTC)
    return max(first, moment - CLOCK_SKEW) if moment - first > CLOCK_SKEW else first


async def _run_for_user(engine: Engine, job: Job, scope: Scope, options: JobOptions, run_report: RunReport) -> int:
    """Serve one user; how much of the run's budget that took."""
    try:
        report = await run_job_for_user(engine, job, scope, options)
    except LeaseLost:
        return 0
    except StoreError:
        raise  # the store is away for everybody
    except AgentMemError as error:
        log_event(WARNING, "job_failed", job=job.name, user_id=scope.user_id, error=type(error).__name__)
        run_report.failed[scope.user_id] = type(error).__name__
        if not options.dry_run:
            await _write_failure(engine, job, scope, error)
        return 0
    run_report.add(report)
    return report.conversations


# -- what is noted


async def _write_state(engine: Engine, job: Job, scope: Scope, report: JobReport, head: int) -> None:
    """Store the state of the job. Unfinished users go to the end of the queue."""
    now = engine.clock.now()
    done = not report.pending and not report.stop_reason
    before = await engine.job_queue.state(job.name, scope)
    again = None if done else now
    if report.stop_reason:
        again = add_time(now, INITIAL_BACKOFF)
    state = JobState(
        job.name,
        scope.user_id,
        head if done else before.seq,
        again,
        0,
        now,
        {
            "counts": report.counts,
            "calls": report.calls,
            "tokens": report.tokens,
            "seconds": report.seconds,
            "pending": report.pending,
            "parked": len(report.parked),
            "operations": report.operation_ids[-20:],
        },
    )
    await engine.job_queue.write_state(state)
    await _publish_state(engine, scope, state)


async def _write_failure(engine: Engine, job: Job, scope: Scope, error: AgentMemError) -> None:
    """Try again later, each time later."""
    now, before = engine.clock.now(), await engine.job_queue.state(job.name, scope)
    attempts = before.attempts + 1
    again = add_time(now, min(MAX_BACKOFF, INITIAL_BACKOFF * 4 ** min(attempts - 1, 10)))
    state = replace(before, due_at=again, attempts=attempts, last_run_at=now, report={"error": type(error).__name__})
    await engine.job_queue.write_state(state)
    await _publish_state(engine, scope, state)


async def _publish_state(engine: Engine, scope: Scope, state: JobState) -> None:
    """Display a job's state in the session store, for who watches there; nothing depends on it."""
    value = {
        "at": state.last_run_at.isoformat() if state.last_run_at else None,
        "attempts": state.attempts,
        **state.report,
    }
    try:
        await engine.session.set(scope, f"consolidation:job:{state.job}", value, ttl=STATE_TTL_SECONDS)
    except StoreError as error:
        log_event(INFO, "session_away", error=str(error))


async def _write_report(engine: Engine, report: RunReport) -> None:
    if report.dry_run:
        return
    said = {
        "at": engine.clock.now().isoformat(),
        "users": report.users,
        "counts": report.counts,
        "calls": report.calls,
        "tokens": report.tokens,
        "cost": report.cost,
        "seconds": round(report.seconds, 3),
        "failed": len(report.failed),
        "waiting": report.has_more,
    }
    await engine.log.set_meta({_meta_key(report.job, "report"): json.dumps(said)})


def _log_report(report: RunReport) -> None:
    """Log what a run did; a run that did nothing at a lower level."""
    counts = {name: number for name, number in report.counts.items() if number}
    is_idle = not (counts or report.failed or report.calls or report.stop_reason)
    log_event(
        DEBUG if is_idle else INFO,
        "job_done",
        job=report.job,
        dry_run=report.dry_run,
        users=report.users,
        failed=len(report.failed),
        counts=counts,
        calls=report.calls,
        tokens=report.tokens,
        has_more=report.has_more,
        seconds=round(report.seconds, 3),
    )


def _meta_key(job: str, field: str) -> str:
    return f"job:{job}:{field}"
