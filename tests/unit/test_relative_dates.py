"""Relative dates as dates of the calendar, seen from the day of the text (Sunday, 7 May 2023)."""

from __future__ import annotations

from datetime import date

import pytest

from agentmem.text.relative_dates import resolve_relative_dates

SAID = date(2023, 5, 7)


@pytest.mark.parametrize(
    "text, dates",
    [
        ("I went yesterday", ["yesterday = 6 May 2023"]),
        ("The day before yesterday it rained", ["The day before yesterday = 5 May 2023"]),
        ("see you tomorrow", ["tomorrow = 8 May 2023"]),
        ("last Sunday and this Friday", ["last Sunday = 30 Apr 2023", "this Friday = 12 May 2023"]),
        ("last week, next month", ["last week = week of 24 Apr 2023", "next month = Jun 2023"]),
        ("last year", ["last year = 2022"]),
        ("next weekend", ["next weekend = weekend of 13 May 2023"]),
        ("ten days ago", ["ten days ago = 27 Apr 2023"]),
        ("six months ago", ["six months ago = Nov 2022"]),
        ("in two weeks", ["in two weeks = about 21 May 2023"]),
        ("yesterday, yesterday, yesterday", ["yesterday = 6 May 2023"]),
        ("on Friday, today, 3 May, last, next door, in two minutes", []),
        ("yesterday's news", []),
        ("", []),
    ],
)
def test_tells_the_date(text: str, dates: list[str]) -> None:
    assert resolve_relative_dates(text, SAID) == dates


@pytest.mark.parametrize("text, day", [("last year", date(1, 1, 1)), ("in 99 years", date(9990, 1, 1))])
def test_what_lies_outside_of_the_calendar_is_left_out(text: str, day: date) -> None:
    assert resolve_relative_dates(text, day) == []


def test_tells_three_at_most() -> None:
    assert len(resolve_relative_dates("yesterday, last week, last month, last year, tomorrow", SAID)) == 3
