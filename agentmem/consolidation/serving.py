"""Who is served by a job, and in which order: users who wrote, users with something due, oldest first, a few at once.

A run costs in proportion to what changed. Users who wrote since the last look are put into the job's queue, the table
`job_states`, which they leave when the job has nothing more to do for them. Who failed is tried later and later.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from types import ModuleType
from typing import Any

from agentmem.consolidation import JobOptions, JobReport
from agentmem.errors import AgentMemError, LeaseLost, StoreError
from agentmem.events import INFO, WARNING, tell
from agentmem.model.clock import Stopwatch, from_micros, micros
from agentmem.model.scope import Operator, Scope
from agentmem.resources import Resources
from agentmem.stores.jobs import JobState

OPERATOR = Operator("worker")
PAGE = 1000
OVERLAP = timedelta(minutes=5)  # changes may become visible later than their time, by the clocks of several machines
USERS = 100  # looked for at once
PAGES = 100  # of them in one run of a job
EACH = 3  # conversations of one user while others wait
BACKOFF = timedelta(minutes=1)  # after a failure, then 4, 16, … up to
LONGEST = timedelta(days=1)
SHOWN_SECONDS = 86_400.0


@dataclass(slots=True, kw_only=True)
class RunReport:
    """What one run of a job did over all users it served.

    `users` were served, `failed` gives the kind of error by user, `waiting` says whether more wait than were served.
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
    waiting: bool = False
    stopped: str = ""
    halted: bool = False

    def add(self, report: JobReport) -> None:
        """Add what the job did for one user."""
        self.users += 1
        for name, number in report.counts.items():
            self.counts[name] = self.counts.get(name, 0) + number
        self.calls += report.calls
        self.tokens += report.tokens
        self.cost += report.cost or 0.0
        self.stopped = report.stopped or self.stopped
        self.halted |= report.halted


def trigger_of(module: ModuleType) -> str:
    """What makes a job run: `changes`, `due` or `clock`; "" for one that only people run."""
    return str(getattr(module, "TRIGGER", ""))


async def serve(
    resources: Resources, module: ModuleType, options: JobOptions, *, stopping: Callable[[], bool] = lambda: False
) -> RunReport:
    """One run of a job for whoever it has something to do for. Raises LeaseLost when a job for all is run elsewhere.

    `stopping` is asked between users. A user whose run fails is tried again later; the others go on.
    """
    watch = Stopwatch(resources.clock)
    options = replace(options, spending=resources.llms.spending())  # caps hold for the run, not for each user
    report = RunReport(job=module.NAME, dry_run=options.dry_run)
    if trigger_of(module) == "clock":
        report.add(await module.run_for_all(resources, OPERATOR, options))
        report.users = 0
    else:
        await _serve_users(resources, module, options, report, stopping)
    report.seconds = watch.milliseconds() / 1000
    await _note_report(resources, report)
    tell(INFO, "job_done", job=report.job, users=report.users, failed=len(report.failed), seconds=report.seconds)
    return report


async def serve_user(resources: Resources, module: ModuleType, scope: Scope, options: JobOptions) -> JobReport:
    """Run a job for one user and note how far it came. Raises what the job raises."""
    head = (await resources.log.head(scope)).seq
    report: JobReport = await module.run(resources, scope, options)
    if not options.dry_run and trigger_of(module):
        own = {*report.operation_ids}
        since = await resources.log.changes(scope, head, len(own) + 1) if own else []
        if since and own >= {entry.operation_id for entry in since}:
            head = since[-1].seq  # nobody wrote but the job itself: it need not look at that again
        await _note(resources, module, scope, report, head)
    return report


async def last_reports(resources: Resources, jobs: Sequence[str]) -> dict[str, dict[str, Any]]:
    """What the last run of each of these jobs did, by name; those never run left out."""
    meta = await resources.log.meta()
    found = {name: meta.get(_meta_name(name, "report")) for name in jobs}
    return {name: json.loads(text) for name, text in found.items() if text}


# -- who is served


async def _serve_users(
    resources: Resources, module: ModuleType, options: JobOptions, report: RunReport, stopping: Callable[[], bool]
) -> None:
    seen: set[str] = set()
    left = options.most
    for _ in range(PAGES):
        users = [user for user in await _whom(resources, module) if user not in seen]
        if not users:
            return
        for number, user_id in enumerate(users):
            if stopping() or report.halted or left <= 0:
                report.waiting = True
                return
            options.progress(module.NAME, len(seen), len(seen) + len(users) - number)
            most = min(EACH, left) if len(users) > number + 1 else left
            seen.add(user_id)
            left -= await _one(resources, module, Scope(user_id), replace(options, most=most), report)
    report.waiting = True


async def _whom(resources: Resources, module: ModuleType) -> list[str]:
    """The users to serve now, the one who waits longest first."""
    jobs, name, now = resources.jobs, module.NAME, resources.clock.now()
    if trigger_of(module) == "due":
        due = await jobs.due(name, now, OPERATOR, USERS)
        states = [await jobs.state(name, Scope(user)) for user in due]
        return [state.user_id for state in states if state.due_at is None or state.due_at <= now]
    await _find_changed(resources, name, frozenset(getattr(module, "WATCHES", ())))
    return await jobs.waiting(name, now, OPERATOR, USERS)


async def _find_changed(resources: Resources, job: str, watched: Collection[str]) -> None:
    """Queue the users who wrote what the job watches since it last looked for such: jobs wake each other the less."""
    key = _meta_name(job, "seen")
    seen = from_micros(int((await resources.log.meta()).get(key, "0")))
    since, after, found = _earlier(seen), "", 0
    while page := await resources.jobs.changed(since, OPERATOR, after=after, limit=PAGE):
        await resources.jobs.await_run(job, dict(page), watched)
        found += len(page)
        after, since = page[-1]
        if len(page) < PAGE:
            break
    if found and since > seen:
        await resources.log.set_meta({key: str(micros(since))})


def _earlier(moment: datetime) -> datetime:
    first = datetime(1970, 1, 1, tzinfo=UTC)
    return max(first, moment - OVERLAP) if moment - first > OVERLAP else first


async def _one(
    resources: Resources, module: ModuleType, scope: Scope, options: JobOptions, total: RunReport
) -> int:  # fmt: skip
    """Serve one user; how much of the run's budget that took."""
    try:
        report = await serve_user(resources, module, scope, options)
    except LeaseLost:
        return 0
    except StoreError:
        raise  # the store is away for everybody
    except AgentMemError as error:
        tell(WARNING, "job_failed", job=module.NAME, user_id=scope.user_id, error=type(error).__name__)
        total.failed[scope.user_id] = type(error).__name__
        if not options.dry_run:
            await _note_failure(resources, module, scope, error)
        return 0
    total.add(report)
    return report.conversations


# -- what is noted


async def _note(resources: Resources, module: ModuleType, scope: Scope, report: JobReport, head: int) -> None:
    """Where the job stands now. Who is not done goes to the end of the queue."""
    now = resources.clock.now()
    done = not report.pending and not report.stopped
    before = await resources.jobs.state(module.NAME, scope)
    again = None if done else now
    if report.stopped:
        again = now + BACKOFF
    state = JobState(
        module.NAME, scope.user_id, head if done else before.seq, again, 0, now,
        {"counts": report.counts, "calls": report.calls, "tokens": report.tokens, "seconds": report.seconds,
         "pending": report.pending, "parked": len(report.parked), "operations": report.operation_ids[-20:]},
    )  # fmt: skip
    await resources.jobs.note(state)
    await _show(resources, scope, state)


async def _note_failure(resources: Resources, module: ModuleType, scope: Scope, error: AgentMemError) -> None:
    """Try again later, each time later."""
    now, before = resources.clock.now(), await resources.jobs.state(module.NAME, scope)
    attempts = before.attempts + 1
    again = now + min(LONGEST, BACKOFF * 4 ** min(attempts - 1, 10))
    state = replace(before, due_at=again, attempts=attempts, at=now, report={"error": type(error).__name__})
    await resources.jobs.note(state)
    await _show(resources, scope, state)


async def _show(resources: Resources, scope: Scope, state: JobState) -> None:
    """Display a job's state in the session store, for who watches there; nothing depends on it."""
    value = {"at": state.at.isoformat() if state.at else None, "attempts": state.attempts, **state.report}
    try:
        await resources.session.set(scope, f"consolidation:job:{state.job}", value, ttl=SHOWN_SECONDS)
    except StoreError as error:
        tell(INFO, "session_away", error=str(error))


async def _note_report(resources: Resources, report: RunReport) -> None:
    if report.dry_run:
        return
    said = {
        "at": resources.clock.now().isoformat(), "users": report.users, "counts": report.counts, "calls": report.calls,
        "tokens": report.tokens, "cost": report.cost, "seconds": round(report.seconds, 3),
        "failed": len(report.failed), "waiting": report.waiting,
    }  # fmt: skip
    await resources.log.set_meta({_meta_name(report.job, "report"): json.dumps(said)})


def _meta_name(job: str, what: str) -> str:
    return f"job:{job}:{what}"
