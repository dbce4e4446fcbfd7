"""Schedules: prompts by cron and heartbeats."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

from agentmem.core.arguments import check_arguments
from agentmem.core.changes import Change, WriteAttempt
from agentmem.core.clock import add_time, derive_id, to_utc
from agentmem.core.local_time import parse_timezone
from agentmem.core.plain_values import describe_value, has_visible
from agentmem.core.procedural_records import Schedule
from agentmem.core.record import MissedRuns, Status
from agentmem.core.records import build_record
from agentmem.core.scope import check_identifier
from agentmem.errors import ConfigError, InvalidRecord, NotFound
from agentmem.memory.context import MemoryContext, get_written_record
from agentmem.memory.read_audit import audit_read

CRON_FIELD_COUNT = 5
CRON_FORMAT_HELP = "minute hour day month weekday, such as '0 9 * * 1-5' for nine on working days (weekday 0 is Sunday)"

CLAIM_TIMEOUT = timedelta(seconds=60)  # a run that is not reported as done by then is lost
MAX_INTERVAL = timedelta(days=3660)

DueCallback = Callable[[Schedule], object]
ScheduleList = list[Schedule]  # in the class below `list` is a verb


def next_cron_time(expression: str, timezone: str, after: datetime) -> datetime:
    """The first moment after `after` at which the expression is due, in UTC.

    A time that a change of clocks leaves out comes right after it, one that it repeats comes once; what comes every
    hour or minute goes on in real time. Raises InvalidRecord naming `cron` or `timezone`.
    """
    sim, error_type = _import_cronsim()
    place, after = parse_timezone(timezone), to_utc(after)
    if len(expression.split()) != CRON_FIELD_COUNT:
        raise InvalidRecord(
            f"cron must have {CRON_FIELD_COUNT} fields, {CRON_FORMAT_HELP}; got {describe_value(expression)}",
            field="cron",
        )
    try:
        for found in sim(expression, after.astimezone(place)):
            moment: datetime = found.astimezone(UTC)
            if moment > after:  # in an hour that comes twice it may be of the first
                return moment
    except (error_type, ValueError) as error:
        raise InvalidRecord(f"cron {expression!r}: {error}; it must be {CRON_FORMAT_HELP}", field="cron") from error
    except OverflowError as error:
        raise InvalidRecord(f"cron {expression!r} comes after the last year of the calendar", field="cron") from error
    raise InvalidRecord(f"cron {expression!r} never comes", field="cron")


def _import_cronsim() -> tuple[Any, type[Exception]]:
    try:
        from cronsim import CronSim, CronSimError
    except ImportError as error:
        raise ConfigError("cron expressions need cronsim; run: pip install 'agentmem-graph[worker]'") from error
    return CronSim, CronSimError


@dataclass
class DueReceiver:
    """The function that gets due schedules in this process, if any."""

    callback: DueCallback | None = None


@check_arguments
@dataclass
class Schedules:
    """Prompts at their times. A name is unique among the schedules that a scope can read."""

    _context: MemoryContext

    async def add(
        self,
        name: str,
        cron: str = "",
        prompt: str = "",
        source: str = "user",
        *,
        timezone: str = "UTC",
        missed: Annotated[MissedRuns, "once or skip: what happens to runs that were missed."] = "once",
        every: Annotated[timedelta | float | None, "Seconds."] = None,
        idempotency_key: str | None = None,
    ) -> Schedule:
        """Schedule a prompt by a cron expression in a time zone, or `every` so many seconds.

        When several runs were missed, `missed` says whether `once` it is made up for, or `skip`. Raises InvalidRecord
        naming the field, also for a name that is taken, and ConfigError where the package for cron is not installed.
        """
        seconds = _to_seconds(every)
        if (seconds is None) == (not cron):
            raise InvalidRecord("give either cron or every", field="cron")
        if cron and not has_visible(prompt):
            raise InvalidRecord("prompt must be non-empty text", field="prompt")
        parse_timezone(timezone)
        said = {
            "name": check_identifier(name, "name"),
            "cron": cron,
            "prompt": prompt,
            "source": source,
            "timezone": timezone,
            "missed": missed,
            "every_seconds": seconds,
        }

        async def make(write: WriteAttempt) -> Change:
            scope = self._context.scope
            fields = {
                "id": self._schedule_id(name, scope.channel),
                "channel": scope.channel,
                "agent_id": scope.agent_id,
                **said,
            }
            new = build_record(Schedule, **fields, created_at=write.now)
            new = new.model_copy(update={"next_at": _next_run_time(new, write.now)})
            known = await self._find_by_name(name)
            if any(schedule.superseded_at is None for schedule in known):
                raise InvalidRecord(f"name: a schedule {name!r} exists; remove it first", field="name")
            before = {schedule.key: schedule.seq for schedule in known}
            return write.build_change(new, expected_versions={new.key: before.get(new.key)})

        return await self._context.write(Schedule, "add_schedule", make, idempotency_key=idempotency_key, given=said)

    async def add_heartbeat(
        self, name: str, every: timedelta | float, *, source: str = "user", idempotency_key: str | None = None
    ) -> Schedule:
        """Be called every so many seconds (or a timedelta), without a prompt; of several missed ones, once."""
        return await self.add(name, source=source, every=every, idempotency_key=idempotency_key)

    async def get(self, name: str) -> Schedule:
        """The schedule of this name; NotFound when there is none."""
        for schedule in await self._find_by_name(name):
            if schedule.superseded_at is None:
                return schedule
        raise NotFound(
            f"no schedule {describe_value(name)} in the channels {', '.join(self._context.scope.readable_channels())}"
        )

    @audit_read
    async def list(self) -> ScheduleList:
        """The schedules of the readable channels, by name; paused ones too."""
        found = [item for item in await self._context.list_readable("Schedule") if isinstance(item, Schedule)]
        return sorted((item for item in found if item.superseded_at is None), key=lambda item: item.name)

    async def pause(self, name: str, *, idempotency_key: str | None = None) -> Schedule:
        """Pause a schedule until `resume`; no run is made up for."""
        return await self._update(
            "pause_schedule",
            name,
            idempotency_key,
            lambda old, now: {
                "paused": True,
                "next_at": None,
            },
        )

    async def resume(self, name: str, *, idempotency_key: str | None = None) -> Schedule:
        """Continue a paused schedule, with the first run after now."""
        return await self._update(
            "resume_schedule",
            name,
            idempotency_key,
            lambda old, now: {
                "paused": False,
                "next_at": _next_run_time(old, now) if old.paused else old.next_at,
            },
        )

    async def remove(self, name: str, *, idempotency_key: str | None = None) -> Schedule:
        """Remove a schedule; `undo` and `restore` bring it back."""
        return await self._update(
            "remove_schedule",
            name,
            idempotency_key,
            lambda old, now: {
                "status": Status.FORGOTTEN,
                "superseded_at": now,
                "reason": "removed",
            },
        )

    # -- running

    @audit_read
    async def due(self, now: datetime | None = None) -> ScheduleList:
        """What is due by now (by the clock, when None), longest waiting first; what somebody runs already is not."""
        moment = self._resolve_now(now)
        found = [item for item in await self.list() if _is_due(item, moment)]
        return sorted(found, key=lambda item: (item.next_at, item.name))

    async def claim(
        self, schedule: Schedule, now: datetime | None = None, *, fence: int | None = None
    ) -> Schedule | None:
        """Take on a due run; report it with `mark_done` within a minute, or it counts as lost.

        None when somebody else has it, when it is not due any more, and when its missed runs are to be skipped. In what
        is returned `running` says when it was due, and `next_at` when it is due again.
        """
        moment = self._resolve_now(now)

        async def make(write: WriteAttempt) -> Change | None:
            current = await self._reread(schedule)
            if current is None or current.seq != schedule.seq or not _is_due(current, moment):
                return None
            assert current.next_at is not None
            after = _next_run_time(current, current.next_at)
            later = _next_run_time(current, moment)
            several = current.missed == "skip" and after <= moment
            taken = (
                {}
                if several
                else {"running": current.next_at, "lost_at": add_time(moment, CLAIM_TIMEOUT), "last_at": moment}
            )
            new = current.model_copy(update={**taken, "next_at": later})
            return write.build_change(new, expected_versions={new.key: current.seq})

        engine, scope = self._context.engine, self._context.scope
        entry = await engine.write(scope, "claim_schedule", make, kind="Schedule", fence=fence)
        claimed = None if entry is None else get_written_record(entry, Schedule)
        return claimed if claimed is not None and claimed.running is not None else None

    async def mark_done(self, schedule: Schedule, *, fence: int | None = None) -> bool:
        """Report a run that `claim` gave as done; False when it counted as lost by then, or the schedule is gone."""

        async def make(write: WriteAttempt) -> Change | None:
            current = await self._reread(schedule)
            if current is None or current.running is None or current.running != schedule.running:
                return None
            new = current.model_copy(update={"running": None, "lost_at": None})
            return write.build_change(new, expected_versions={new.key: current.seq})

        engine, scope = self._context.engine, self._context.scope
        return await engine.write(scope, "done_schedule", make, kind="Schedule", fence=fence) is not None

    async def on_due(self, callback: DueCallback | None) -> None:
        """Give due schedules to this function (or coroutine) in the worker of this process; None for no function.

        Without one they go to the setting `worker.webhook`; without that they stay due until a claim.
        """
        if callback is not None and not callable(callback):
            raise InvalidRecord(f"callback must be a function, got {type(callback).__name__}", field="callback")
        self._context.engine.get_shared(DueReceiver).callback = callback

    # -- reading and writing

    def _resolve_now(self, now: datetime | None) -> datetime:
        return self._context.engine.clock.now() if now is None else to_utc(now, "now")

    def _schedule_id(self, name: str, channel: str) -> str:
        return derive_id(self._context.scope.user_id, "schedule", channel, name)

    async def _find_by_name(self, name: str) -> ScheduleList:
        """The schedules of this name in the readable channels, the active channel first; removed ones too."""
        ids = [self._schedule_id(name, channel) for channel in self._context.scope.readable_channels()]
        found = await self._context.engine.log.read_records("Schedule", ids, self._context.scope)
        return [item for item in found if isinstance(item, Schedule)]

    async def _reread(self, schedule: Schedule) -> Schedule | None:
        """The schedule as it is stored now; None when it is gone."""
        found = await self._context.engine.log.read_records("Schedule", [schedule.id], self._context.scope)
        return found[0] if found and isinstance(found[0], Schedule) else None

    async def _update(
        self,
        operation: str,
        name: str,
        idempotency_key: str | None,
        fields: Callable[[Schedule, datetime], Mapping[str, Any]],
    ) -> Schedule:
        async def make(write: WriteAttempt) -> Change:
            old = await self.get(name)
            return write.build_change(
                old.model_copy(update=fields(old, write.now)), expected_versions={old.key: old.seq}
            )

        given = {"name": name}
        return await self._context.write(Schedule, operation, make, idempotency_key=idempotency_key, given=given)


def is_lost(schedule: Schedule, now: datetime) -> bool:
    """Whether somebody took on a run and never reported it."""
    return schedule.running is not None and schedule.lost_at is not None and schedule.lost_at <= now


def _is_due(schedule: Schedule, now: datetime) -> bool:
    standing = schedule.superseded_at is None and not schedule.paused and schedule.running is None
    return standing and schedule.next_at is not None and schedule.next_at <= now


def _next_run_time(schedule: Schedule, after: datetime) -> datetime:
    """The first run after a moment; those of an interval stay in step with the run before."""
    if schedule.every_seconds is None:
        return next_cron_time(schedule.cron, schedule.timezone, after)
    every, last = timedelta(seconds=schedule.every_seconds), schedule.next_at
    if last is None or last > after:
        return add_time(after, every)
    return add_time(last, ((after - last) // every + 1) * every)


def _to_seconds(every: timedelta | float | None) -> float | None:
    if every is None:
        return None
    try:
        length = every if isinstance(every, timedelta) else timedelta(seconds=every)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidRecord(
            f"every must be a timedelta or seconds, got {describe_value(every)}", field="every"
        ) from error
    if not timedelta(seconds=1) <= length <= MAX_INTERVAL:
        raise InvalidRecord(f"every must be between 1 second and 10 years, got {describe_value(every)}", field="every")
    return length.total_seconds()
