"""Dates as people say them in a clause: found, taken out, and resolved by the moment of speaking."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from agentmem.text.normalization import MONTHS, WEEKDAYS
from agentmem.text.temporal import parse_relative_range

# The months of German, Spanish, French and Portuguese where they are written otherwise than in English.
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
_MONTH_NUMBERS = {
    **{name: number for number, full in enumerate(MONTHS, start=1) for name in (full, full[:3])},
    "sept": 9,
    **{name: number for number, line in enumerate(_OTHER_MONTHS, start=1) for name in line.split()},
}
_MONTH = "|".join(sorted(_MONTH_NUMBERS, key=len, reverse=True))
_DAY = r"(?:3[01]|[12]\d|0?[1-9])(?:st|nd|rd|th|er|\.)?"
DATE = (
    rf"(?:{_DAY}(?: of| o'?| de)? (?:{_MONTH})\b(?:,? \d{{4}})?|(?:{_MONTH}) {_DAY}\b(?:,? \d{{4}})?|\d{{4}}-\d\d-\d\d"
    rf"|\d{{1,2}}[./]\d{{1,2}}[./]\d{{2,4}}"
    rf"|(?<=the )\d{{1,2}}(?:st|nd|rd|th)\b"
    r"(?! (?:of|floor|birthday|century|time|grade|place|avenue|street|anniversary)))"
)
_COUNT = {
    word: number
    for number, word in enumerate(["a", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"])
}
_COUNT["a"] = _COUNT["an"] = 1
_EXPRESSION = re.compile(
    rf"(?:,? )?\b(?:(?P<until>until|till|by|up to|bis|hasta|jusqu'en|at\u00e9) "
    rf"|(?P<since>since|from|as of|starting(?: on)?|ab|seit|desde|a partir de|depuis|d\u00e8s) "
    rf"|(?:back )?(?:on|in|at|am|im|en|em|au) )?"
    rf"(?:the )?(?P<core>(?P<date>{DATE})|(?P<month>(?:{_MONTH})(?: \d{{4}})?)(?! \d)(?=\W|\Z)"
    rf"|(?P<part>start|beginning|middle|end) o[f']? (?:the )?(?P<of>(?:next )?month|{_MONTH})\b"
    rf"|(?P<week_after>{'|'.join(WEEKDAYS)}) week\b"
    rf"|(?P<year>(?:19|20)\d\d)\b"
    rf"|(?P<rel>last|this|next) (?P<unit>week|weekend|month|year|{'|'.join(WEEKDAYS)}|{_MONTH}"
    rf"|spring|summer|autumn|winter)\b"
    rf"|(?P<word>yesterday|today|tonight|tomorrow|this morning|this afternoon|last night"
    rf"|heute|gestern|hoy|ayer|aujourd'hui|hoje|ontem)\b"
    rf"|(?P<count>\d{{1,3}}|{'|'.join(_COUNT)}) (?P<ago>day|week|month|year)s? (?:ago|back)\b"
    rf"|(?P<weekday>{'|'.join(WEEKDAYS)})\b(?!s))",
)
_DAYS_FROM_TODAY = {"yesterday": -1, "last night": -1, "gestern": -1, "ayer": -1, "ontem": -1, "tomorrow": 1}
# "may" and "march" are verbs, too: a bare month needs a word before it that goes with dates.
_NEEDS_PREPOSITION = re.compile(
    r"(?:since|from|until|till|by|in|of|on|as of|im|en|em|ab|seit|bis|desde|hasta|a partir de|depuis|d\u00e8s)\b"
)


@dataclass(frozen=True, slots=True)
class SaidDate:
    """A date of a clause: its moment, whether it lies ahead, and whether it tells a beginning or an end.

    `core` is the stretch of the date without the words before it, `text` that stretch as it was typed.
    """

    moment: datetime
    is_future: bool
    is_until: bool
    days_ago: int
    span: tuple[int, int]
    core: tuple[int, int]
    text: str = ""


def find_dates(plain: str, now: datetime) -> list[SaidDate]:
    """The dates of a text in plain form, in order. What no rule resolves is left in the text."""
    out = []
    for found in _EXPRESSION.finditer(plain):
        if found["month"] and not _NEEDS_PREPOSITION.search(found[0][: found.start("month") - found.start()]):
            continue
        moment = _resolve(found, now)
        if moment is not None:
            out.append(
                SaidDate(
                    moment,
                    moment.date() > now.date(),
                    found["until"] is not None,
                    (now.date() - moment.date()).days,
                    found.span(),
                    (found.start("core"), found.end("core")),
                )
            )
    return out


def parse_said_range(words: str, now: datetime) -> tuple[datetime, datetime] | None:
    """The range of time that words mean when they are said at a moment, such as "last week" or "June"; None for none.

    It begins where the words do. Its length is a day, or the month or year that the words name.
    """
    plain = " ".join(words.lower().split()).strip(" .,;!?")
    for text in (plain, f"in {plain}"):
        for found in find_dates(text, now):
            core = text[slice(*found.core)]
            year_alone, month_alone = re.fullmatch(r"\d{4}", core), re.fullmatch(rf"(?:{_MONTH})(?: \d{{4}})?", core)
            days = 365 if year_alone or core.endswith(" year") else 31 if month_alone or core.endswith(" month") else 1
            return found.moment, found.moment + timedelta(days=7 if core.endswith(" week") else days)
    return parse_relative_range(plain, now)


def parse_date(text: str, now: datetime, *, is_past: bool = False) -> datetime | None:
    """The day that a date names; one without a year is the next one, or with `is_past` the last one."""
    day = re.search(r"\d{1,2}(?=st|nd|rd|th|\b)", text)
    month, year = re.search(_MONTH, text), re.search(r"\d{4}", text)
    try:
        if iso := re.fullmatch(r"(\d{4})-(\d\d)-(\d\d)", text):
            return datetime(int(iso[1]), int(iso[2]), int(iso[3]), tzinfo=UTC)
        if day is None or (month is None and not re.fullmatch(r"\d{1,2}(?:st|nd|rd|th)", text)):
            return None
        if month is None:
            return _find_day(int(day[0]), now, is_past=is_past)
        moment = datetime(int(year[0]) if year else now.year, _month(month[0]), int(day[0]), tzinfo=UTC)
    except ValueError:
        return None
    return moment if year else _nearest(moment, now, is_past=is_past)


def _find_day(day: int, now: datetime, *, is_past: bool) -> datetime:
    """The next such day of a month from today on, or with `is_past` the last one. Raises ValueError for no day."""
    first = datetime(now.year, now.month, 1, tzinfo=UTC)
    for months in range(3):
        year, month = divmod(first.year * 12 + first.month - 1 + (-months if is_past else months), 12)
        try:
            moment = datetime(year, month + 1, day, tzinfo=UTC)
        except ValueError:
            continue
        if (moment.date() <= now.date()) if is_past else (moment.date() >= now.date()):
            return moment
    raise ValueError(day)


def _resolve(found: re.Match[str], now: datetime) -> datetime | None:
    today = datetime(now.year, now.month, now.day, tzinfo=UTC)
    try:
        if found["date"]:
            return parse_date(found["date"], now, is_past=found["since"] is not None and " 2" in found["date"])
        if found["month"]:
            name, _, year = found["month"].partition(" ")
            moment = datetime(int(year) if year else now.year, _month(name), 1, tzinfo=UTC)
            return moment if year else _nearest(moment, now, is_past=False, by_month=True)
        if found["year"]:
            return datetime(int(found["year"]), 1, 1, tzinfo=UTC)
        if found["word"]:
            days = _DAYS_FROM_TODAY.get(found["word"], 0)
            return today + timedelta(days=days)
        if found["ago"]:
            count = int(found["count"]) if found["count"].isdigit() else _COUNT[found["count"]]
            return today - timedelta(days=count * {"day": 1, "week": 7, "month": 30, "year": 365}[found["ago"]])
        if found["part"]:
            return _resolve_part(found["part"], found["of"], today)
        if found["week_after"]:  # "Saturday week": a week after the next one
            days = (WEEKDAYS.index(found["week_after"]) - today.weekday() - 1) % 7 + 1
            return today + timedelta(days=days + 7)
        if found["weekday"]:
            return None  # the last or the next one: not clear
        return _resolve_relative(found["rel"], found["unit"], today)
    except (ValueError, OverflowError):
        return None


def _resolve_part(part: str, of: str, today: datetime) -> datetime:
    """The first, the 15th or the last day of a month."""
    first = today.replace(day=1)
    if of in _MONTH_NUMBERS:
        first = _nearest(datetime(today.year, _month(of), 1, tzinfo=UTC), today, is_past=False, by_month=True)
    elif of.startswith("next"):
        first = (first + timedelta(days=31)).replace(day=1)
    if part == "end":
        return (first + timedelta(days=31)).replace(day=1) - timedelta(days=1)
    return first.replace(day=15) if part == "middle" else first


def _resolve_relative(which: str, unit: str, today: datetime) -> datetime | None:
    step = {"last": -1, "this": 0, "next": 1}[which]
    monday = today - timedelta(days=today.weekday())
    if unit == "week":
        return monday + timedelta(days=7 * step) if step else today
    if unit == "weekend":
        return monday + timedelta(days=5 + 7 * step)
    if unit == "month":
        year, month = divmod(today.year * 12 + today.month - 1 + step, 12)
        return today.replace(year=year, month=month + 1, day=1) if step else today
    if unit == "year":
        return today.replace(year=today.year + step, month=1, day=1) if step else today
    if unit in WEEKDAYS:
        days = WEEKDAYS.index(unit) - today.weekday()
        return today + timedelta(days=days - 7 if step < 0 and days >= 0 else days) if step < 0 else None
    return None


def _nearest(moment: datetime, now: datetime, *, is_past: bool, by_month: bool = False) -> datetime:
    """A day without a year: up to three months back, else the next one; with `is_past` always the last one."""
    back = timedelta(days=92 if by_month else 60)
    years = -1 if is_past and moment > now else 1 if not is_past and moment < now - back else 0
    try:
        return moment.replace(year=moment.year + years)
    except ValueError:  # 29 February
        return moment.replace(year=moment.year + years, day=28)


def _month(name: str) -> int:
    return _MONTH_NUMBERS[name]
