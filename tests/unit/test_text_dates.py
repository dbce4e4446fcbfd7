"""Dates in a query: calendar dates as a hint, and ranges relative to now."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentmem.text.query_parser import parse_query
from agentmem.text.temporal import DateHint, parse_relative_range

NOW = datetime(2024, 3, 6, 15, 30, tzinfo=UTC)  # a Wednesday in a leap year


@pytest.mark.parametrize(
    "text,years,months,days",
    [
        ("in May 2023", {2023}, {5}, set()),
        ("on 8 May, 2023", {2023}, {5}, {8}),
        ("the 8th of May", set(), {5}, {8}),
        ("on May 8", set(), {5}, {8}),
        ("on Aug 15th", set(), {8}, {15}),
        ("in Sept. 2023", {2023}, {9}, set()),
        ("what happened in june?", set(), {6}, set()),
        ("on 2023-05-08", {2023}, {5}, {8}),
        ("in 2023-05", {2023}, {5}, set()),
        ("at 2023-05-08T13:56:00", {2023}, {5}, {8}),
        ("on 5/8/2023", {2023}, {5, 8}, {5, 8}),
        ("on 25/8/2023", {2023}, {8}, {25}),
        ("on 8.25.2023", {2023}, {8}, {25}),
        ("in 1999 or 2001", {1999, 2001}, set(), set()),
        ("between 3 March and 5 April 2023", {2023}, {3, 4}, {3, 5}),
    ],
)
def test_dates_that_are_named(text: str, years: set[int], months: set[int], days: set[int]) -> None:
    assert parse_query(text).date_hint == DateHint(frozenset(years), frozenset(months), frozenset(days))


@pytest.mark.parametrize(
    "text",
    [
        "may I ask?",
        "what may happen",
        "march on",
        "Jan called",
        "mar it",
        "version 1.2.23",
        "99/99/23",
        "$2000",
        "room 20235",
        "12345",
    ],
)
def test_words_and_numbers_that_are_no_dates(text: str) -> None:
    assert parse_query(text).date_hint is None


def test_match_is_one_for_the_day_and_less_for_its_month() -> None:
    hint = DateHint(frozenset({2023}), frozenset({5}), frozenset({8}))
    found = hint.match([2023, 2023, 2023, 2022], [5, 5, 6, 5], [8, 9, 8, 8])
    assert found.dtype == np.float32
    assert found.tolist() == pytest.approx([1, 0.3, 0, 0])


def test_match_without_a_day_or_a_year() -> None:
    assert DateHint(frozenset(), frozenset({5}), frozenset()).match([2023, 1999], [5, 6], [1, 1]).tolist() == [1, 0]
    assert DateHint(frozenset({2023}), frozenset(), frozenset()).match([2023, 1999], [5, 6], [1, 1]).tolist() == [1, 0]
    assert DateHint(frozenset(), frozenset(), frozenset({3})).match([2023], [5], [3]).tolist() == [0]
    assert DateHint(frozenset({2023}), frozenset(), frozenset()).match([], [], []).shape == (0,)


@pytest.mark.parametrize(
    "text,start,end",
    [
        ("what did I say yesterday?", "2024-03-05", "2024-03-06"),
        ("the day before yesterday", "2024-03-04", "2024-03-05"),
        ("What did we discuss today?", "2024-03-06", "2024-03-07"),
        ("what did I do this week", "2024-03-04", "2024-03-11"),
        ("last week", "2024-02-26", "2024-03-04"),
        ("last weekend", "2024-03-02", "2024-03-04"),
        ("last month", "2024-02-01", "2024-03-01"),
        ("Last  Year", "2023-01-01", "2024-01-01"),
        ("last Tuesday", "2024-03-05", "2024-03-06"),
        ("last wednesday", "2024-02-28", "2024-02-29"),
        ("three days ago", "2024-03-03", "2024-03-04"),
        ("a week ago", "2024-02-26", "2024-03-04"),
        ("2 months ago", "2024-01-01", "2024-02-01"),
        ("4 years ago", "2020-01-01", "2021-01-01"),
        ("in the last 3 days", "2024-03-03", "2024-03-07"),
        ("over the past week", "2024-02-28", "2024-03-07"),
        ("the last couple of days and last week", "2024-02-26", "2024-03-04"),
        ("in the past 12 months", "2023-03-06", "2024-03-07"),
        ("since yesterday", "2024-03-05", "2024-03-07"),
        ("since last month", "2024-02-01", "2024-03-07"),
    ],
)
def test_relative_ranges(text: str, start: str, end: str) -> None:
    expected = tuple(datetime.fromisoformat(day).replace(tzinfo=UTC) for day in (start, end))
    assert parse_relative_range(text, NOW) == expected


def test_hours_end_with_now() -> None:
    found = parse_relative_range("what came in during the last 24 hours?", NOW)
    assert found is not None
    start, end = found
    assert start == NOW - timedelta(hours=24)
    assert start <= NOW < end <= NOW + timedelta(seconds=1)


@pytest.mark.parametrize(
    "text",
    [
        "What should I eat today?",
        "plans for this week",
        "yesterday and last year",
        "before yesterday",
        "more than two weeks ago",
        "half a year ago",
        "last year's budget",
        "1,000 days ago",
        "9999 years ago",
        "last week, as told on November 6, 2023",
        "the last song",
        "",
    ],
)
def test_unclear_wording_gives_no_range(text: str) -> None:
    assert parse_relative_range(text, NOW) is None


def test_days_are_those_of_the_zone_of_now() -> None:
    late = datetime(2024, 3, 6, 1, 0, tzinfo=timezone(timedelta(hours=9)))
    assert parse_relative_range("yesterday", late) == (
        datetime(2024, 3, 4, 15, tzinfo=UTC),
        datetime(2024, 3, 5, 15, tzinfo=UTC),
    )
    assert parse_relative_range("yesterday", NOW.replace(tzinfo=None)) == parse_relative_range("yesterday", NOW)


def test_a_month_that_is_too_short_gives_its_last_day() -> None:
    found = parse_relative_range("in the last month", datetime(2023, 3, 31, tzinfo=UTC))
    assert found is not None
    assert found[0] == datetime(2023, 2, 28, tzinfo=UTC)


PIECES = [
    "last ",
    "2 ",
    "weeks ",
    "ago ",
    "year ",
    "yesterday ",
    "in the ",
    "9999 ",
    "may ",
    "8 ",
    "2023-05-08 ",
    "0/0/00 ",
    "\u0663 ",
]


@given(st.lists(st.sampled_from(PIECES), max_size=10).map("".join) | st.text(st.characters()), st.datetimes())
@settings(deadline=None)
def test_any_text_at_any_time(text: str, now: datetime) -> None:
    found = parse_relative_range(text, now)
    if found:
        start, end = found
        assert start < end
        assert start.utcoffset() == end.utcoffset() == timedelta(0)
    hint = parse_query(text).date_hint
    if hint:
        assert all(1 <= month <= 12 for month in hint.months)
        assert all(1 <= day <= 31 for day in hint.days)
