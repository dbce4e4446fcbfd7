"""Dates and times in texts: of the calendar, relative to a moment, and as clauses state them.

A model resolves "last Friday" well and invents dates as easily. So a date counts when the turn's own day is meant, or
when words of time were said that allow for it: how far a date may lie from the turn follows from those words.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import TYPE_CHECKING

from agentmem.core.clock import to_utc
from agentmem.text.normalization import MONTHS, WEEKDAYS

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray


MONTH_MATCH_SCORE = 0.3
"""What a date is worth that fits the year and month but not the day that was named (measured on LoCoMo)."""

MONTH_NUMBERS = {name: n for n, name in enumerate(MONTHS, 1)} | {name[:3]: n for n, name in enumerate(MONTHS, 1)}
MONTH_NUMBERS["sept"] = 9
_UNAMBIGUOUS_MONTHS = frozenset(MONTHS) - {"march", "may"}
# German, Spanish, French and Portuguese; they count only beside a day, a year or a word like "im".
_OTHER_MONTHS = (
    "januar enero janvier janeiro",
    "februar febrero f\u00e9vrier fevereiro",
    "m\u00e4rz marzo mars mar\u00e7o",
    "abril avril",
    "mai mayo maio",
    "juni junio juin junho",
    "juli julio juillet julho",
    "agosto ao\u00fbt",
    "septiembre septembre setembro",
    "oktober octubre octobre outubro",
    "noviembre novembre novembro",
    "dezember diciembre d\u00e9cembre dezembro",
)
MONTH_NUMBERS |= {name: number for number, line in enumerate(_OTHER_MONTHS, 1) for name in line.split()}

_DAY = r"(?:3[01]|[12]\d|0?[1-9])(?:st|nd|rd|th)?(?!\w)"
_YEAR = re.compile(r"(?<![\w.,$€£])(?:19|20)\d\d(?![\w%]|[.,]\d)")
_ISO_DATE = re.compile(r"(?<![\w-])((?:19|20)\d\d)[-/](0?[1-9]|1[0-2])(?:[-/](3[01]|[12]\d|0?[1-9]))?(?=t\d|[^\w-]|$)")
_NUMERIC_DATE = re.compile(r"(?<![\w/.])(\d{1,2})([/.])(\d{1,2})\2((?:19|20)?\d\d)(?![\w/])")
_MONTH_MENTION = re.compile(
    rf"(?P<before>(?<!\w)(?P<day>{_DAY})\.?\s(?:(?:of|de)\s)?"
    r"|\b(?:in|of|on|during|early|late|mid|since|until|till|last|next|im|en|em|seit|desde|depuis)\s)?"
    rf"\b(?P<name>{'|'.join(sorted(MONTH_NUMBERS, key=len, reverse=True))})\b\.?"
    rf"(?P<after>\s(?P<day_after>{_DAY})|,?\s(?:de\s)?\d)?"
)

_DateRange = tuple[date, date]

_NUMBERS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_COUNTS = {word: n for n, word in enumerate(_NUMBERS, 1)} | {"a": 1, "an": 1, "a couple of": 2}
_COUNT = r"\d{1,4}|" + "|".join(sorted(_COUNTS, key=len, reverse=True)).replace(" ", r"\ ")
_UNIT = "hour|day|week|month|year"
_RELATIVE = re.compile(
    rf"""(?<![\w.,-])(?:(?P<limit>before|until|till|by|than|half)\s|(?P<since>since)\s)?
    (?: (?P<day>(?:the\s)?day\sbefore\syesterday|yesterday|last\snight)
      | (?P<present>today|tonight|this\s(?:morning|afternoon|evening|week|month|year))
      | last\s(?P<weekday>{"|".join(WEEKDAYS)})
      | (?:in|over|during|within|for)\sthe\s(?:last|past)\s
        (?:(?P<rolling>{_COUNT})\s)?(?P<span>{_UNIT})s?
      | (?:the\s)?(?:last|past)\s(?P<bare_rolling>{_COUNT})\s(?P<bare_span>{_UNIT})s?
      | (?:last|previous)\s(?P<period>weekend|week|month|year)(?!['\u2019])
      | (?P<ago>{_COUNT})\s(?P<unit>day|week|month|year)s?\sago
    )\b(?!-)""",
    re.IGNORECASE | re.VERBOSE,
)
_PAST_TENSE = re.compile(r"\b(?:did|was|were|has|have|had|been|said|told|came|went|made|got|\w\w+ed)\b", re.IGNORECASE)

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
_COUNT_VALUES = {word: n for n, word in enumerate(_NUMBERS, 1)} | {"a": 1, "an": 1, "many": 50}
_UNIT_DAYS = {"hour": 1, "day": 1, "night": 1, "week": 7, "weekend": 7, "month": 31, "year": 366, "decade": 3660}
_COUNTED_UNIT = re.compile(
    rf"\b(?:{_TIME_COUNT}\s)?(?P<unit>hour|day|night|week|weekend|month|year|decade)s?\b", re.IGNORECASE
)
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


@dataclass(frozen=True, slots=True)
class DateHint:
    """The years, months (1-12) and days of the month that a query names; days only together with a month."""

    years: frozenset[int]
    months: frozenset[int]
    days: frozenset[int]

    def match(self, year: ArrayLike, month: ArrayLike, day: ArrayLike) -> NDArray[np.float32]:
        """Return how well each date fits, float32 of the arguments' shape.

        1 where year and month are among those named (or none was) and the day is, or none was; 0.3 where only the day
        differs; else 0. All 0 for a hint without year and month.
        """
        import numpy as np

        if not (self.years or self.months):
            return np.zeros(np.shape(year), np.float32)
        fits = np.ones(np.shape(year), bool)
        if self.years:
            fits &= np.isin(year, list(self.years))
        if self.months:
            fits &= np.isin(month, list(self.months))
        worth = np.where(np.isin(day, list(self.days)), 1.0, MONTH_MATCH_SCORE) if self.days else 1.0
        return np.where(fits, worth, 0.0).astype(np.float32)


def parse_date_hint(text: str) -> DateHint | None:
    """Return the calendar dates that `text` names; None when it names no year and no month.

    `may`, `march` and abbreviations count only beside a day, a year or a word like "in". 5/8/2023 is read both ways.
    """
    low = text.lower()
    years = {int(found) for found in _YEAR.findall(low)}
    months: set[int] = set()
    days: set[int] = set()
    for found in _MONTH_MENTION.finditer(low):
        if found["name"] in _UNAMBIGUOUS_MONTHS or found["before"] or found["after"]:
            months.add(MONTH_NUMBERS[found["name"]])
            days |= {int(day.rstrip("stndrh")) for day in (found["day"], found["day_after"]) if day}
    for iso in _ISO_DATE.finditer(low):
        years.add(int(iso[1]))
        months.add(int(iso[2]))
        days |= {int(iso[3])} if iso[3] else set()
    for numeric in _NUMERIC_DATE.finditer(low):
        _add_numeric_date(numeric, years, months, days)
    return DateHint(frozenset(years), frozenset(months), frozenset(days)) if years or months else None


def _add_numeric_date(match: re.Match[str], years: set[int], months: set[int], days: set[int]) -> None:
    """Add both readings of a date like 5/8/2023 to the sets; what cannot be a date adds nothing."""
    if match[2] == "." and len(match[4]) < 4:
        return  # 1.2.23 is a version more often than a date
    one, two = int(match[1]), int(match[3])
    readings = [(m, d) for m, d in ((one, two), (two, one)) if 1 <= m <= 12 and 1 <= d <= 31]
    if readings:
        years.add(int(match[4]) if len(match[4]) == 4 else 2000 + int(match[4]))
    for month, day in readings:
        months.add(month)
        days.add(day)


def parse_relative_range(text: str, now: datetime) -> tuple[datetime, datetime] | None:
    """Return the range `[start, end)` in UTC that `text` names relative to `now`; None without one clear expression.

    Days, weeks (from Monday), months and years are those of the time zone of `now` (UTC when it has none). "N months
    ago" is that whole month, "in the last N days" ends with today, "today" and "this week" count only in a question
    about the past. Two different ranges, an open one ("before yesterday") and one beside a calendar date are not clear.
    The range is when something happened, which is not always when it was said.
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
        return _calendar_period("day", today, (today.weekday() - WEEKDAYS.index(weekday.lower())) % 7 or 7)
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


def parse_date_range(text: str | None) -> TimeRange | None:
    """The range `[from, to)` in UTC that a model's date means; None for anything else. Never raises.

    Accepts `2023-05-07` (the time of day is ignored), `2023-05`, `2023`, two of them with a slash between, and `week of
    2023-05-01`: seven days from that date.
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
        # a month without its year is the nearest one
        years = {str(time_range[0].year), str((time_range[1] - timedelta(days=1)).year)}
        return abs(time_range[0] - day) <= timedelta(days=366) or any(year in text for year in years)
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
