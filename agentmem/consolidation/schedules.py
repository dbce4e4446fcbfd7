"""Due schedules are handed over: to a function of this program, to a service on this machine, or to the session store.

Exactly one worker takes on a run, before it hands it over. What could not be handed over, and what a worker took on and
died with, leaves an audit row that says so; it is not handed over twice.
"""

from __future__ import annotations

import asyncio
import http.client
import inspect
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from agentmem.consolidation import JobOptions, JobReport
from agentmem.consolidation.lease import leased_run
from agentmem.errors import AgentMemError
from agentmem.events import WARNING, tell
from agentmem.memory import Seat
from agentmem.memory.schedules import CALLBACK, Schedules, is_lost
from agentmem.model.records import Schedule
from agentmem.model.scope import Scope
from agentmem.redaction import failure_reason
from agentmem.resources import Resources

NAME = "schedules"
MINUTES = 1.0
TRIGGER = "due"
AT_ONCE = 100  # schedules of one user in one run
TOGETHER = 8  # handed over side by side
PATIENCE = 30.0  # seconds for one; half of what a run may take before it counts as lost
SERVICE_SECONDS = 10.0
KEPT_SECONDS = 86_400.0  # in the session store


@leased_run(NAME)
async def run(
    resources: Resources, scope: Scope, options: JobOptions, report: JobReport, fence: int
) -> None:  # fmt: skip
    """Hand over what is due of this user, and note what was lost."""
    now = resources.clock.now()
    keys = await resources.jobs.due_records(NAME, now, scope, AT_ONCE)
    found = await resources.log.get("Schedule", [name for _, name in keys], scope)
    work = _Handing(resources, report, fence, asyncio.Semaphore(TOGETHER))
    if options.dry_run:
        report.count(due=len(found))
    else:
        await work.all([item for item in found if isinstance(item, Schedule)])
    report.pending = int(len(keys) == AT_ONCE)


@dataclass
class _Handing:
    resources: Resources
    report: JobReport
    fence: int
    room: asyncio.Semaphore

    async def all(self, schedules: Sequence[Schedule]) -> None:
        """Side by side, to the end of each; then the first error, if there was one, is raised."""
        for error in await asyncio.gather(*map(self.one, schedules), return_exceptions=True):
            if isinstance(error, BaseException):
                raise error

    async def one(self, schedule: Schedule) -> None:
        """Take on a run, hand it over, and report it as done, or as failed."""
        own = schedule.channel.startswith("_self_")
        agent = schedule.channel.removeprefix("_self_") if own else schedule.agent_id
        scope = Scope(schedule.user_id, schedule.channel, agent)
        schedules = Schedules(Seat(self.resources, scope))
        async with self.room:
            if is_lost(schedule, self.resources.clock.now()):
                if await schedules.done(schedule, fence=self.fence):
                    await self._failed(scope, schedule, "lost: whoever took it on never reported it")
                else:  # reported by now
                    self.report.count(skipped=1)
                return
            claimed = await schedules.claim(schedule, fence=self.fence)
            if claimed is None:
                self.report.count(skipped=1)
                return
            self.report.operation_ids.append(claimed.operation_id)
            try:
                async with asyncio.timeout(PATIENCE):
                    await deliver(self.resources, scope, claimed)
                self.report.count(delivered=1)
            except Exception as error:  # noqa: BLE001 - a function of the program may raise anything
                await self._failed(scope, claimed, _said(error))
            await schedules.done(claimed, fence=self.fence)

    async def _failed(self, scope: Scope, schedule: Schedule, why: str) -> None:
        self.report.count(failed=1)
        self.report.failed[schedule.name] = why
        tell(WARNING, "schedule_failed", user_id=scope.user_id, schedule_id=schedule.id, error=why)
        due = None if schedule.running is None else schedule.running.isoformat()
        row = self.resources.auditor.write(
            "deliver_schedule", scope, memory_type="procedural", operation_id=schedule.operation_id, error=why,
            metadata={"ids": [schedule.id], "due_at": due},
        )  # fmt: skip
        if row is not None:
            await self.resources.log.audit([row])


async def deliver(resources: Resources, scope: Scope, schedule: Schedule) -> None:
    """Hand a run over to the function of `on_due`, else to `worker.webhook`, else into the session store.

    Raises whatever goes wrong there; from a service that answers with anything but 200 to 299, an OSError.
    """
    callback = resources.kept.get(CALLBACK)
    webhook = resources.settings.worker.webhook
    if callback is not None:
        if inspect.iscoroutinefunction(callback):
            await callback(schedule)
        elif inspect.isawaitable(later := await asyncio.to_thread(callback, schedule)):
            await later
    elif webhook is not None:
        await asyncio.to_thread(_post, webhook, told(schedule))
    else:
        await resources.session.set(
            scope, f"schedule:{schedule.channel}:{schedule.name}", told(schedule), ttl=KEPT_SECONDS
        )


def told(schedule: Schedule) -> dict[str, Any]:
    """What whoever runs a schedule has to know, as JSON knows it."""
    fields = ("id", "name", "prompt", "source", "user_id", "channel", "agent_id", "cron", "timezone", "every_seconds")
    moments = {"due_at": schedule.running, "next_at": schedule.next_at, "created_at": schedule.created_at}
    return {
        **{name: getattr(schedule, name) for name in fields},
        **{name: None if moment is None else moment.isoformat() for name, moment in moments.items()},
    }


def _post(url: str, document: Mapping[str, Any]) -> None:
    """Send a document to a service on this machine, past any proxy."""
    parts = urlsplit(url)
    cls = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = cls(parts.hostname or "", parts.port, timeout=SERVICE_SECONDS)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    try:
        connection.request("POST", path, json.dumps(document).encode(), {"Content-Type": "application/json"})
        status = connection.getresponse().status
    finally:
        connection.close()
    if not 200 <= status < 300:
        raise WebhookRefusal(f"the service answered {status}")


class WebhookRefusal(OSError):
    """The service of `worker.webhook` answered, but not that it took the run."""


def _said(error: Exception) -> str:
    """What went wrong: in our own words; of a function's error the kind alone, for its text may hold anything."""
    kind = type(error).__name__
    if isinstance(error, AgentMemError | WebhookRefusal):
        return f"{kind}: {error}"
    reason = failure_reason(error)
    return kind if isinstance(error, TimeoutError) or reason == kind else f"{kind}: {reason}"
