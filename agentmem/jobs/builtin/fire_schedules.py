"""Due schedules are handed over: to a function of this program, or to a service on this machine.

Where there is neither, a run stays due until somebody takes it: `schedules.due()` and the command line show it.
Exactly one worker takes on a run, before it hands it over. What could not be handed over, and what a worker took on and
died with, leaves an audit row that says so; it is not handed over twice.
"""

from __future__ import annotations

import asyncio
import http.client
import inspect
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from agentmem.core.procedural_records import Schedule
from agentmem.core.redaction import failure_reason
from agentmem.core.scope import Scope, agent_of_channel
from agentmem.core.telemetry import WARNING, log_event
from agentmem.engine.engine import Engine
from agentmem.errors import AgentMemError
from agentmem.jobs.job import Job
from agentmem.jobs.runner import LeasedRun, build_leased_run
from agentmem.memory.context import MemoryContext
from agentmem.memory.schedules import DueReceiver, Schedules, is_lost

NAME = "schedules"
BATCH_SIZE = 100  # schedules of one user in one run
MAX_CONCURRENT = 8  # handed over side by side
DELIVERY_TIMEOUT_SECONDS = 30.0  # seconds for one; half of what a run may take before it counts as lost
WEBHOOK_TIMEOUT_SECONDS = 10.0


@dataclass
class _ScheduleDelivery(LeasedRun):
    semaphore: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MAX_CONCURRENT))

    async def run_all(self) -> None:
        """Deliver the due schedules of this user, and note lost ones.

        Counts schedules without a receiver as `waiting`.
        """
        keys = await self.engine.job_queue.due_records(NAME, self.engine.clock.now(), self.scope, BATCH_SIZE)
        found = await self.engine.log.read_records("Schedule", [name for _, name in keys], self.scope)
        if self.report.dry_run:
            self.report.add_counts(due=len(found))
        else:
            await self.deliver_all([item for item in found if isinstance(item, Schedule)])
        self.report.pending = int(len(keys) == BATCH_SIZE)

    async def deliver_all(self, schedules: Sequence[Schedule]) -> None:
        """Side by side, to the end of each; then the first error, if there was one, is raised."""
        for error in await asyncio.gather(*map(self.deliver_one, schedules), return_exceptions=True):
            if isinstance(error, BaseException):
                raise error

    async def deliver_one(self, schedule: Schedule) -> None:
        """Take on a run, hand it over, and report it as done, or as failed."""
        agent_id = agent_of_channel(schedule.channel) or schedule.agent_id
        scope = Scope(schedule.user_id, schedule.channel, agent_id)
        schedules = Schedules(MemoryContext(self.engine, scope))
        async with self.semaphore:
            if is_lost(schedule, self.engine.clock.now()):
                if await schedules.mark_done(schedule, fence=self.fence):
                    await self._record_failure(scope, schedule, "lost: whoever took it on never reported it")
                else:  # reported by now
                    self.report.add_counts(skipped=1)
                return
            if not has_receiver(self.engine):
                self.report.add_counts(waiting=1)
                return
            claimed = await schedules.claim(schedule, fence=self.fence)
            if claimed is None:
                self.report.add_counts(skipped=1)
                return
            self.report.operation_ids.append(claimed.operation_id)
            try:
                async with asyncio.timeout(DELIVERY_TIMEOUT_SECONDS):
                    await deliver(self.engine, claimed)
                self.report.add_counts(delivered=1)
            except Exception as error:  # noqa: BLE001 - a function of the program may raise anything
                await self._record_failure(scope, claimed, _describe_error(error))
            await schedules.mark_done(claimed, fence=self.fence)

    async def _record_failure(self, scope: Scope, schedule: Schedule, reason: str) -> None:
        self.report.add_counts(failed=1)
        self.report.failed[schedule.name] = reason
        log_event(WARNING, "schedule_failed", user_id=scope.user_id, schedule_id=schedule.id, error=reason)
        due = None if schedule.running is None else schedule.running.isoformat()
        row = self.engine.auditor.build_write_entry(
            "deliver_schedule",
            scope,
            memory_type="procedural",
            operation_id=schedule.operation_id,
            error=reason,
            metadata={"ids": [schedule.id], "due_at": due},
        )
        await self.engine.write_audit(row)


JOB = Job(NAME, 1.0, "due", build_leased_run(NAME, _ScheduleDelivery))


def has_receiver(engine: Engine) -> bool:
    """Whether there is a function of `on_due` in this process, or a `worker.webhook`."""
    return engine.get_shared(DueReceiver).callback is not None or engine.settings.worker.webhook is not None


async def deliver(engine: Engine, schedule: Schedule) -> None:
    """Hand a run over to the function of `on_due`, else to `worker.webhook`.

    Raises whatever goes wrong there; from a service that answers with anything but 200 to 299, an OSError.
    """
    callback = engine.get_shared(DueReceiver).callback
    webhook = engine.settings.worker.webhook
    if callback is not None:
        if inspect.iscoroutinefunction(callback):
            await callback(schedule)
        elif inspect.isawaitable(later := await asyncio.to_thread(callback, schedule)):
            await later
    elif webhook is not None:
        await asyncio.to_thread(_post, webhook, build_payload(schedule))


def build_payload(schedule: Schedule) -> dict[str, Any]:
    """What the receiver of a schedule needs, as JSON values."""
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
    connection = cls(parts.hostname or "", parts.port, timeout=WEBHOOK_TIMEOUT_SECONDS)
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


def _describe_error(error: Exception) -> str:
    """What went wrong: in our own words; of a function's error the kind alone, for its text may hold anything."""
    kind = type(error).__name__
    if isinstance(error, AgentMemError | WebhookRefusal):
        return f"{kind}: {error}"
    reason = failure_reason(error)
    return kind if isinstance(error, TimeoutError) or reason == kind else f"{kind}: {reason}"
