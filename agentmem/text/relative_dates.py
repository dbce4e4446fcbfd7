"""Relative dates of a text ("yesterday", "last week") as dates of the calendar, seen from the day of the text."""

from __future__ import annotations

import re
from datetime import date, timedelta

from agentmem.text.normalization import WEEKDAYS

_NUMBERS = ("a", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_COUNTS = {word: n for n, word in enumerate(_NUMBERS, 1)} | {"one": 1, "an": 1, "a couple of": 2, "couple of": 2}
_COUNT = r"\d{1,2}|a couple of|couple of|" + "|".join(sorted(set(_COUNTS) - {"a couple of", "couple of"}, reverse=True))
_RELATIVE = re.compile(
    rf"""\b(?:
        (?P<day>the\ day\ before\ yesterday|yesterday|last\ night|the\ day\ after\ tomorrow|tomorrow)
      | (?P<which>last|this\ past|this\ coming|this|next)\ (?P<weekday>{"|".join(WEEKDAYS)})
      | (?P<side>last|next)\ (?P<period>week|weekend|month|year)
      | (?P<ago>{_COUNT})\ (?P<ago_unit>day|week|month|year)s?\ ago
      | in\ (?P<ahead>{_COUNT})\ (?P<ahead_unit>day|week|month|year)s?
    )\b(?!['\u2019-])""",
    re.IGNORECASE | re.VERBOSE,
)
_MAYBE = re.compile(r"yesterday|tomorrow|last |next |this | ago\b|\bin ", re.IGNORECASE)
_SPECIAL_DAYS = {"yesterday": -1, "last night": -1, "tomorrow": 1}
_SPECIAL_DAYS |= {"the day before yesterday": -2, "the day after tomorrow": 2}
MAX_DATES = 3
"""Relative dates of one text that are resolved; a text with more of them gets no resolution."""


def resolve_relative_dates(text: str, said_on: date) -> list[str]:
    """The relative dates of a text, each as `yesterday = 6 May 2023`, in their order; [] where there are none.

    Weeks are given by their Monday, months and years by their names. English only; a bare weekday is unchanged, since
    it may be past or future.
    """
    found: dict[str, str] = {}
    if not _MAYBE.search(text):
        return []
    for match in _RELATIVE.finditer(text):
        words = " ".join(match.group().split())
        if words.casefold() not in found and (told := _resolve(match, said_on)):
            found[words.casefold()] = f"{words} = {told}"
    return list(found.values())[:MAX_DATES]


def _resolve(match: re.Match[str], said_on: date) -> str:
    """The date that the words mean; empty for one outside of the calendar."""
    try:
        if match["day"]:
            return render_day(said_on + timedelta(days=_SPECIAL_DAYS[" ".join(match["day"].casefold().split())]))
        if match["weekday"]:
            back = " ".join(match["which"].casefold().split()) in ("last", "this past")
            return render_day(_find_weekday(said_on, WEEKDAYS.index(match["weekday"].casefold()), back=back))
        if match["period"]:
            return _shift(said_on, match["period"].casefold(), -1 if match["side"].casefold() == "last" else 1)
        count, unit = (match["ago"], match["ago_unit"]) if match["ago"] else (match["ahead"], match["ahead_unit"])
        number = int(count) if count.isdigit() else _COUNTS[" ".join(count.casefold().split())]
        return _shift(said_on, unit.casefold(), -number if match["ago"] else number, is_counted=True)
    except (OverflowError, ValueError):
        return ""


def _find_weekday(said_on: date, weekday: int, *, back: bool) -> date:
    """The nearest day of that name before or after; never the day itself."""
    step = -((said_on.weekday() - weekday) % 7 or 7) if back else (weekday - said_on.weekday()) % 7 or 7
    return said_on + timedelta(days=step)


def _shift(said_on: date, unit: str, count: int, *, is_counted: bool = False) -> str:
    if unit == "day":
        return render_day(said_on + timedelta(days=count))
    if unit == "week":
        if is_counted:
            return f"about {render_day(said_on + timedelta(weeks=count))}"
        return f"week of {render_day(said_on - timedelta(days=said_on.weekday()) + timedelta(weeks=count))}"
    if unit == "weekend":
        saturday = said_on - timedelta(days=said_on.weekday()) + timedelta(days=5, weeks=count)
        return f"weekend of {render_day(saturday)}"
    if unit == "year":
        return str(date(said_on.year + count, 1, 1).year)
    months = said_on.year * 12 + said_on.month - 1 + count
    first = date(months // 12, months % 12 + 1, 1)
    return f"{first:%b %Y}"


def render_day(day: date) -> str:
    """A day as `7 May 2023`, with the month in short."""
    return f"{day.day} {day:%b} {day.year}"
