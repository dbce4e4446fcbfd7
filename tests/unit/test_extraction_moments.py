"""World time: read in a few forms, and taken only where somebody said a time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentmem.text.temporal import is_range_stated, parse_date_range

SAID = datetime(2023, 5, 8, 13, 56, tzinfo=UTC)  # a Monday


@pytest.mark.parametrize(
    "text, begins, ends",
    [
        ("2023-05-07", "2023-05-07", "2023-05-08"),
        (" 2023-05-07T18:00:00Z ", "2023-05-07", "2023-05-08"),
        ("2023-05", "2023-05-01", "2023-06-01"),
        ("2023-12", "2023-12-01", "2024-01-01"),
        ("2024", "2024-01-01", "2025-01-01"),
        ("2023-05-01/2023-05-03", "2023-05-01", "2023-05-04"),
        ("2022 / 2023-02", "2022-01-01", "2023-03-01"),
        ("Week of 2023-05-01", "2023-05-01", "2023-05-08"),
    ],
)
def test_each_form_of_a_date_is_a_range(text: str, begins: str, ends: str) -> None:
    assert parse_date_range(text) == (
        datetime.fromisoformat(begins).replace(tzinfo=UTC),
        datetime.fromisoformat(ends).replace(tzinfo=UTC),
    )


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "soon",
        "2023-02-30",
        "2023-13",
        "0001",
        "9999-12-31",
        "2023-05-03/2023-05-01",
        "2023/05",
        "week of 2023",
        "२०२३-05-07",
        "2023-05-07 " * 9,
        "20230507",
        "2023-5-7",
        "last week",
    ],
)
def test_what_is_no_date_is_none(text: str | None) -> None:
    assert parse_date_range(text) is None


@given(st.text(alphabet="0123456789-/ Tweekof:Z", max_size=70) | st.text(max_size=30))
def test_any_text_is_a_range_or_none(text: str) -> None:
    found = parse_date_range(text)
    assert found is None or found[0] < found[1]


@pytest.mark.parametrize(
    "date, words",
    [
        ("2023-05-08", "I moved house."),
        ("2023-05", "I moved house."),
        ("2023-05-07", "I went there yesterday."),
        ("2023-05-05", "We met on Friday."),
        ("week of 2023-05-01", "My parents came last week."),
        ("2023-06", "We marry next month."),
        ("2019", "I came here four years ago."),
        ("2020-02-11", "It was in February 2020."),
        ("1994", "It happened when I was ten."),
        ("2022-12", "We stayed at home for Christmas."),
    ],
)
def test_a_date_counts_where_the_words_allow_for_it(date: str, words: str) -> None:
    found = parse_date_range(date)
    assert found is not None
    assert is_range_stated(found, words, SAID)


@pytest.mark.parametrize(
    "date, words",
    [
        ("2019", "I moved house."),
        ("2023-05-07", "I moved house."),
        ("2023-03-01", "I went there yesterday."),
        ("2021", "My parents came last week."),
        ("2020-03", "It was in February 2020."),
        ("2021-02", "It was in February 2020."),
        ("2030", "We marry next month."),
        ("1950", "I came here four years ago."),
    ],
)
def test_an_invented_date_does_not_count(date: str, words: str) -> None:
    found = parse_date_range(date)
    assert found is not None
    assert not is_range_stated(found, words, SAID)


def test_words_for_any_time_count_only_vaguely() -> None:
    found = parse_date_range("1994")
    assert found is not None
    assert not is_range_stated(found, "It happened when I was ten.", SAID, allow_vague=False)


@given(st.text(max_size=200), st.datetimes(datetime(2, 1, 1), datetime(9990, 1, 1)), st.integers(0, 9_000_000))
def test_any_words_allow_or_do_not(words: str, said: datetime, days: int) -> None:
    begins = min(said, datetime(9000, 1, 1)).replace(tzinfo=UTC) - timedelta(days=days % 365)
    for text in (words, f"{words} last year", "999 decades ago", "3 days ago"):
        assert is_range_stated((begins, begins + timedelta(days=1)), text, said.replace(tzinfo=UTC)) in (True, False)


def test_without_a_time_of_its_own_a_turn_says_no_date() -> None:
    assert not is_range_stated((SAID, SAID + timedelta(days=1)), "today", None)
