"""World time as a model writes it down, taken only where somebody said a time.

A model resolves "last Friday" well and invents dates as easily. So a date counts when the turn's own day is meant, or
when words of time were said that allow for it: how far a date may lie from the turn follows from those words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, time, timedelta

from agentmem.model.clock import to_utc
from agentmem.text.dates import parse_date_hint
from agentmem.text.relative import parse_relative_range

TimeRange = tuple[datetime, datetime]

_DATE = r"(\d{4})(?:-(\d{2})(?:-(\d{2}))?)?"
_CALENDAR_DATE = re.compile(_DATE)
_DATE_TIME = re.compile(r"(\d{4}-\d{2}-\d{2})[T ]\d{2}:\d{2}\S{0,20}")
_DATE_SPAN = re.compile(rf"({_DATE})\s?/\s?({_DATE})")
_WEEK_OF = re.compile(r"week of (\d{4}-\d{2}-\d{2})", re.IGNORECASE)
_MIN_YEAR, _MAX_YEAR = 1000, 9990  # years; far enough from the calendar's ends for any arithmetic
_MAX_DATE_CHARS = 60

_TIME_COUNT = (
    r"(?P<count>\d{1,3}|an?|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|(?:a )?couple(?: of)?"
    r"|(?:a )?few|several|many|some)"
)
_COUNT_VALUES = {
    "a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9,
    "ten": 10, "eleven": 11, "twelve": 12, "many": 50,
}  # fmt: skip
_UNIT_DAYS = {"hour": 1, "day": 1, "night": 1, "week": 7, "weekend": 7, "month": 31, "year": 366, "decade": 3660}
_COUNTED_UNIT = re.compile(
    rf"\b(?:{_TIME_COUNT}\s)?(?P<unit>hour|day|night|week|weekend|month|year|decade)s?\b", re.IGNORECASE
)  # fmt: skip
_DAY_WORDS = re.compile(
    r"\b(?:today|tonight|yesterday|tomorrow|morning|afternoon|evening|noon|midnight|just (?:now|got|came|had)|this time"
    r"|o'clock|\d\s?[ap]\.?m)\b",
    re.IGNORECASE,
)
_WEEKDAY_WORDS = re.compile(r"\b(?:mon|tues|wednes|thurs|fri|satur|sun)days?\b", re.IGNORECASE)
_RECENCY_WORDS = re.compile(r"\b(?:recently|lately|soon|shortly|so far|these days|the other day)\b", re.IGNORECASE)
_SEASONS = re.compile(
    r"\b(?:spring|summer|autumn|fall|winter|christmas|xmas|easter|new year|thanksgiving|halloween|birthday|anniversary"
    r"|holidays?|vacation|semester|term|season)\b",
    re.IGNORECASE,
)
_UNBOUNDED_TIME = re.compile(
    r"\b(?:ago|since|back (?:in|then|when)|when i was|as a (?:kid|child|boy|girl|teenager)|childhood"
    r"|at (?:the )?age|born"
    r"|grew up|years? old|college|school|retired?|wedding|\d0s|century)\b",
    re.IGNORECASE,
)


def parse_date_range(text: str | None) -> TimeRange | None:
    """The range `[from, to)` in UTC that a model's date stands for; None for what is none. Never raises.

    Read are `2023-05-07` (also with a time of day, which is left out), `2023-05`, `2023`, two of them with a slash
    between, and `week of 2023-05-01`: the seven days from then on.
    """
    if not isinstance(text, str) or len(text) > _MAX_DATE_CHARS:
        return None
    text = text.strip()
    if match := _WEEK_OF.fullmatch(text):
        first = _parse_calendar_date(match[1])
        return None if first is None else (first[0], first[0] + timedelta(days=7))
    if match := _DATE_SPAN.fullmatch(text):
        first, last = _parse_calendar_date(match[1]), _parse_calendar_date(match[5])
        return (first[0], last[1]) if first and last and first[0] <= last[0] else None
    if match := _DATE_TIME.fullmatch(text):
        return _parse_calendar_date(match[1])
    return _parse_calendar_date(text)


def is_range_stated(
    time_range: TimeRange, text: str, turn_timestamp: datetime | None, *, allow_vague: bool = True
) -> bool:
    """Whether the words of a turn allow for a range: its own day, week or month, a calendar date, or words of time.

    `allow_vague`: words that allow for any time count, too ("when I was a child").
    """
    if turn_timestamp is None:
        return False
    at = to_utc(turn_timestamp)
    day = datetime.combine(at.date(), time.min, tzinfo=UTC)
    if time_range[0] <= at < time_range[1] and time_range[1] - time_range[0] <= timedelta(days=31):
        return True
    if _matches_calendar(time_range, text):
        return True
    if (clear := parse_relative_range(text, at)) is not None:
        slack = max(clear[1] - clear[0], timedelta(days=1))
        return time_range[0] - clear[1] < slack and clear[0] - time_range[1] < slack
    reach = max(_reach_days(text, allow_vague), default=0)
    # Differences, not sums: those cannot leave the calendar.
    ahead, back = time_range[0] - day, day - time_range[1]
    return reach > 0 and ahead <= timedelta(days=reach + 1) and back <= timedelta(days=reach)


def _parse_calendar_date(text: str) -> TimeRange | None:
    match = _CALENDAR_DATE.fullmatch(text)
    if match is None or not match[0].isascii():
        return None
    year, month, day = int(match[1]), int(match[2] or 1), int(match[3] or 1)
    if not _MIN_YEAR <= year <= _MAX_YEAR:
        return None
    try:
        first = datetime(year, month, day, tzinfo=UTC)
    except ValueError:
        return None
    if match[3]:
        return first, first + timedelta(days=1)
    if match[2]:
        return first, datetime(year + month // 12, month % 12 + 1, 1, tzinfo=UTC)
    return first, datetime(year + 1, 1, 1, tzinfo=UTC)


def _matches_calendar(time_range: TimeRange, text: str) -> bool:
    """Whether the text names the year and the month, or the one without the other, that the range begins or ends in."""
    hint = parse_date_hint(text)
    if hint is None:
        return False
    return any(
        (not hint.years or day.year in hint.years) and (not hint.months or day.month in hint.months)
        for day in (time_range[0], time_range[1] - timedelta(days=1))
    )


def _reach_days(text: str, allow_vague: bool) -> Iterator[int]:
    """How many days each expression of time in the text may reach, back or ahead."""
    text = text[:20_000]
    for match in _COUNTED_UNIT.finditer(text):
        count = (match["count"] or "one").lower()
        days = _UNIT_DAYS[match["unit"].lower()]
        number = int(count) if count.isdecimal() else _COUNT_VALUES.get(count, 10)
        yield number * days * 3 // 2 + days // 2 + 1
    for words, days in (
        (_DAY_WORDS, 2),
        (_WEEKDAY_WORDS, 14),
        (_RECENCY_WORDS, 100),
        (_SEASONS, 400),
        (_UNBOUNDED_TIME, 366 * 120 * allow_vague),
    ):
        if words.search(text):
            yield days
