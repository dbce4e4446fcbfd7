"""Dates as people say them, resolved by the tense of the verb."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from agentmem.extraction.plain.dates import SaidDate, find_dates, parse_said_range
from tests.benchmarks.date_cases import read_date_cases

NOW = datetime(2026, 11, 18, 10, tzinfo=UTC)  # a Wednesday


def _show(date: SaidDate) -> str:
    return f"{date.moment.date()}" + (f"/{date.end.date()}" if date.end else "")


@pytest.mark.parametrize(
    "text, expected",
    [
        ("i moved in december", ["2025-12-01"]),
        ("in december, i moved", ["2025-12-01"]),
        ("we may move in october", ["2027-10-01"]),
        ("i may", []),
        ("i will move in october", ["2027-10-01"]),
        ("i will move in november", ["2026-11-30"]),
        ("i moved on monday", ["2026-11-16"]),
        ("i am moving on monday", ["2026-11-23"]),
        ("we have monday meetings", []),
        ("i moved the meeting to friday", ["2026-11-20"]),
        ("i was there from 3 to 5 may", ["2026-05-03/2026-05-05"]),
        ("i was there from october to january", ["2025-10-01/2026-01-01"]),
        ("i will be there from monday to friday", ["2026-11-23/2026-11-27"]),
        ("i work from monday to friday", []),
        ("i lived there between 2019 and 2022", ["2019-01-01/2022-01-01"]),
        ("i lived there in the summer of 2020", ["2020-06-01"]),
        ("the fall of rome", []),
        ("my exam is on 05/07/2026", []),
        ("my exam is on 13/07/2026", ["2026-07-13"]),
        ("my exam is on 07/13/2026", ["2026-07-13"]),
        ("my exam is on 31/02/2026", []),
        ("mi examen es el 05/07/2026", ["2026-07-05"]),
        ("guten morgen", []),
        ("hier wohne ich", []),
        ("es mi segunda casa", []),
    ],
)
def test_the_verb_decides_between_the_last_and_the_next_date(text: str, expected: list[str]) -> None:
    assert [*map(_show, find_dates(text, NOW))] == expected


def test_a_numeric_date_follows_the_order_it_is_given() -> None:
    text = "my exam is on 05/07/2026"
    assert [_show(*find_dates(text, NOW, day_first=order)) for order in (True, False)] == ["2026-07-05", "2026-05-07"]


def test_words_of_time_follow_the_verb_of_the_text_that_says_them() -> None:
    starts = [parse_said_range("in December", NOW, text) for text in ("I moved in December.", "I'll move in December.")]
    assert [start and start[0].year for start in starts] == [2025, 2026]


def test_the_cases_of_dates_are_read_in_their_tense() -> None:
    readings = read_date_cases()
    assert sum(one.is_wrong_tense for one in readings) <= 0.02 * len(readings)
    assert sum(one.is_right for one in readings) >= 0.95 * len(readings)
