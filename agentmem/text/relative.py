"""Ranges of time that an English query names relative to now, such as "last week"."""

from __future__ import annotations

import re
from calendar import monthrange
from datetime import UTC, date, datetime, time, timedelta, tzinfo

from agentmem.text.dates import parse_date_hint

_DateRange = tuple[date, date]

_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_NUMBERS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_COUNTS = {word: n for n, word in enumerate(_NUMBERS, 1)} | {"a": 1, "an": 1, "a couple of": 2}
_COUNT = r"\d{1,4}|" + "|".join(sorted(_COUNTS, key=len, reverse=True)).replace(" ", r"\ ")
_UNIT = "hour|day|week|month|year"
_RELATIVE = re.compile(
    rf"""(?<![\w.,-])(?:(?P<limit>before|until|till|by|than|half)\s|(?P<since>since)\s)?
    (?: (?P<day>(?:the\s)?day\sbefore\syesterday|yesterday|last\snight)
      | (?P<present>today|tonight|this\s(?:morning|afternoon|evening|week|month|year))
      | last\s(?P<weekday>{"|".join(_WEEKDAYS)})
      | (?:in|over|during|within|for)\sthe\s(?:last|past)\s
        (?:(?P<rolling>{_COUNT})\s)?(?P<span>{_UNIT})s?
      | (?:the\s)?(?:last|past)\s(?P<bare_rolling>{_COUNT})\s(?P<bare_span>{_UNIT})s?
      | (?:last|previous)\s(?P<period>weekend|week|month|year)(?!['\u2019])
      | (?P<ago>{_COUNT})\s(?P<unit>day|week|month|year)s?\sago
    )\b(?!-)""",
    re.IGNORECASE | re.VERBOSE,
)
_PAST_TENSE = re.compile(r"\b(?:did|was|were|has|have|had|been|said|told|came|went|made|got|\w\w+ed)\b", re.IGNORECASE)


def parse_relative_range(text: str, now: datetime) -> tuple[datetime, datetime] | None:
    """Return the range `[start, end)` in UTC that `text` names relative to `now`; None without one clear expression.

    Days, weeks (from Monday), months and years are those of the time zone of `now` (UTC when it has none). "N months
    ago" is that whole month, "in the last N days" ends with today, "today" and "this week" count only in a question
    about the past. Two different ranges, an open one ("before yesterday") and one beside a calendar date are not clear.
    The range tells when something happened, which is not always when it was told.
    """
    zone = now.tzinfo or UTC
    now = now.replace(tzinfo=zone)
    found = set()
    if parse_date_hint(text):
        return None
    for match in _RELATIVE.finditer(" ".join(text.split())):
        if match["limit"] or (match["present"] and not _PAST_TENSE.search(text)):
            return None
        try:
            found.add(_resolve_range(match, now))
        except (OverflowError, ValueError):
            return None  # before the first year of the calendar
    return found.pop() if len(found) == 1 else None


def _resolve_range(match: re.Match[str], now: datetime) -> tuple[datetime, datetime]:
    unit = (match["span"] or match["bare_span"] or "").lower()
    count = _parse_count(match["rolling"] or match["bare_rolling"] or "one")
    if unit == "hour":
        # The end is open, and what was stored at this very moment belongs to the range.
        utc = now.astimezone(UTC)
        return utc - timedelta(hours=count), utc + timedelta(microseconds=1)
    today = now.date()
    start, end = (_subtract_units(today, unit, count), _next_day(today)) if unit else _resolve_named_days(match, today)
    if match["since"]:
        end = max(end, _next_day(today))
    return _midnight(start, now.tzinfo), _midnight(end, now.tzinfo)


def _resolve_named_days(match: re.Match[str], today: date) -> _DateRange:
    """The days that an expression without a rolling span covers."""
    if day := match["day"]:
        return _calendar_period("day", today, 2 if "before" in day.lower() else 1)
    if present := match["present"]:
        unit = present.lower().split()[-1]
        return _calendar_period(unit if unit in ("week", "month", "year") else "day", today, 0)
    if weekday := match["weekday"]:
        return _calendar_period("day", today, (today.weekday() - _WEEKDAYS.index(weekday.lower())) % 7 or 7)
    if not match["period"]:
        return _calendar_period(match["unit"].lower(), today, _parse_count(match["ago"]))
    if match["period"].lower() != "weekend":
        return _calendar_period(match["period"].lower(), today, 1)
    monday = _calendar_period("week", today, 0)[0]
    return monday - timedelta(days=2), monday


def _calendar_period(unit: str, today: date, units_back: int) -> _DateRange:
    """The day, week, month or year that lies `units_back` such units before the one of `today`."""
    if unit == "day":
        day = today - timedelta(days=units_back)
        return day, _next_day(day)
    if unit == "week":
        monday = today - timedelta(days=today.weekday() + 7 * units_back)
        return monday, monday + timedelta(days=7)
    if unit == "month":
        return _month_start(today, units_back), _month_start(today, units_back - 1)
    return date(today.year - units_back, 1, 1), date(today.year - units_back + 1, 1, 1)


def _subtract_units(today: date, unit: str, count: int) -> date:
    """The same day of the calendar `count` units ago; the last day of a month that is too short for it."""
    if unit in ("day", "week"):
        return today - timedelta(days=count * (7 if unit == "week" else 1))
    first = _month_start(today, count * (12 if unit == "year" else 1))
    return first.replace(day=min(today.day, monthrange(first.year, first.month)[1]))


def _month_start(today: date, months_back: int) -> date:
    year, month = divmod(today.year * 12 + today.month - 1 - months_back, 12)
    return date(year, month + 1, 1)


def _next_day(day: date) -> date:
    return day + timedelta(days=1)


def _midnight(day: date, zone: tzinfo | None) -> datetime:
    return datetime.combine(day, time.min, tzinfo=zone).astimezone(UTC)


def _parse_count(words: str) -> int:
    return int(words) if words.isdecimal() else _COUNTS[words.lower()]
