"""When a cron expression comes next, in a time zone. The one place that imports the package that reads them."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

from agentmem.errors import ConfigError, InvalidRecord
from agentmem.model.clock import to_utc

CRON_FIELD_COUNT = 5
CRON_FORMAT_HELP = "minute hour day month weekday, such as '0 9 * * 1-5' for nine on working days (weekday 0 is Sunday)"


def next_cron_time(expression: str, timezone: str, after: datetime) -> datetime:
    """The first moment after `after` at which the expression is due, in UTC.

    A time that a change of clocks leaves out comes right after it, one that it repeats comes once; what comes every
    hour or minute goes on in real time. Raises InvalidRecord naming `cron` or `timezone`.
    """
    sim, error_type = _import_cronsim()
    place, after = parse_timezone(timezone), to_utc(after)
    if len(expression.split()) != CRON_FIELD_COUNT:
        raise InvalidRecord(
            f"cron must have {CRON_FIELD_COUNT} fields, {CRON_FORMAT_HELP}; got {expression!r}", field="cron"
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


def parse_timezone(name: str) -> tzinfo:
    """The time zone of this name. Raises InvalidRecord for an unknown one."""
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, LookupError) as error:
        raise InvalidRecord(
            f"timezone must be a name such as Europe/Oslo, got {name!r}; if it is one, install the package tzdata",
            field="timezone",
        ) from error


def _import_cronsim() -> tuple[Any, type[Exception]]:
    try:
        from cronsim import CronSim, CronSimError
    except ImportError as error:
        raise ConfigError("cron expressions need cronsim; run: pip install 'agentmem-graph[worker]'") from error
    return CronSim, CronSimError
