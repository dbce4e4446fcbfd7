"""The user's time zone: where their days begin, and how moments and records are shown.

A calendar day ("yesterday", "on 5 June") is stored as midnight UTC of that day, in every zone. So a moment at midnight
UTC means its day, and is the same day everywhere.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta, timezone, tzinfo
from typing import TypeVar
from zoneinfo import ZoneInfo

from pydantic import BaseModel

from agentmem.core.clock import to_utc
from agentmem.core.plain_values import describe_value
from agentmem.errors import InvalidRecord

R = TypeVar("R", bound=BaseModel)
_OFFSET = re.compile(r"(?:UTC|GMT)\s*([+\u2212-])\s*(\d{1,2})(?::?([0-5]\d))?", re.IGNORECASE)
MAX_OFFSET = timedelta(hours=14)  # of the time zones that there are


def parse_timezone(name: str, field: str = "timezone") -> tzinfo:
    """The time zone of this name. Raises InvalidRecord, naming the field, for an unknown one."""
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, LookupError) as error:
        raise InvalidRecord(
            f"{field} must be a name such as Europe/Oslo, got {describe_value(name)}; "
            "if it is one, install the package tzdata",
            field=field,
        ) from error


def read_timezone(words: str) -> tzinfo | None:
    """The time zone that somebody named: `Europe/Oslo`, `CET` or `GMT+2`; None for other words."""
    if match := _OFFSET.fullmatch(words.strip()):
        offset = timedelta(hours=int(match[2]), minutes=int(match[3] or 0))
        return timezone(offset if match[1] == "+" else -offset) if offset <= MAX_OFFSET else None
    try:
        return parse_timezone(words.strip())
    except InvalidRecord:
        return None


def is_calendar_day(moment: datetime) -> bool:
    """Whether a moment means a day: midnight UTC, in no other offset."""
    return not moment.utcoffset() and moment.time() == time.min


def to_zone(moment: datetime, zone: tzinfo) -> datetime:
    """The same moment in a zone; in UTC on the first and the last day of the calendar."""
    try:
        return moment.astimezone(zone)
    except OverflowError:
        return to_utc(moment)


def to_wall_clock(moment: datetime) -> datetime:
    """What the clock beside the speaker showed, as if it were UTC: for arithmetic with days."""
    return moment.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class LocalTime:
    """In which zone a moment is shown: that of the settings, else the moment's own offset, else the user's, else UTC.

    An offset of zero does not count: programs write UTC wherever the user is.
    """

    setting: tzinfo | None = None
    user: tzinfo | None = None

    def localize(self, moment: datetime) -> datetime:
        """The same moment in its zone; a moment that means a day is unchanged."""
        zone = self.setting or (None if moment.utcoffset() else self.user)
        return moment if zone is None or is_calendar_day(moment) else to_zone(moment, zone)

    def relocate(self, record: R) -> R:
        """A record with its moments in their zone, for texts that show days; never stored."""
        if self.setting is None and self.user is None:
            return record
        moments = {
            name: value for name in type(record).model_fields if isinstance(value := getattr(record, name), datetime)
        }
        return record.model_copy(update={name: self.localize(value) for name, value in moments.items()})
