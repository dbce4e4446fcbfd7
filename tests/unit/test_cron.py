"""Cron expressions in time zones: what comes next, over changes of clocks too."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentmem.core.local_time import parse_timezone
from agentmem.errors import ConfigError, InvalidRecord
from agentmem.memory.schedules import next_cron_time


def coming(cron: str, timezone: str, start: str, many: int) -> list[str]:
    """The next moments, by the clock on the wall there, with the distance to UTC."""
    found, at = [], datetime.fromisoformat(start)
    for _ in range(many):
        at = next_cron_time(cron, timezone, at)
        found.append(at.astimezone(parse_timezone(timezone)).strftime("%a %d %H:%M %z"))
    return found


def test_a_weekday_is_counted_from_sunday_and_a_day_of_either_kind_will_do() -> None:
    # 1 March 2026 is a Sunday.
    assert coming("0 9 * * 1", "UTC", "2026-03-01T12:00+00:00", 2) == ["Mon 02 09:00 +0000", "Mon 09 09:00 +0000"]
    assert coming("0 9 * * 0,7", "UTC", "2026-03-01T12:00+00:00", 1) == ["Sun 08 09:00 +0000"]
    assert coming("0 9 * * mon-fri", "UTC", "2026-03-06T12:00+00:00", 1) == ["Mon 09 09:00 +0000"]
    days = coming("0 0 13 * 5", "UTC", "2026-03-01T12:00+00:00", 3)  # Fridays, and each thirteenth
    assert days == ["Fri 06 00:00 +0000", "Fri 13 00:00 +0000", "Fri 20 00:00 +0000"]


def test_what_an_hour_leaves_out_comes_right_after_it() -> None:
    # Oslo: on 29 March 2026 02:00 becomes 03:00.
    start = "2026-03-28T12:00+01:00"
    assert coming("30 2 * * *", "Europe/Oslo", start, 2) == ["Sun 29 03:00 +0200", "Mon 30 02:30 +0200"]
    assert coming("0 9 * * *", "Europe/Oslo", start, 2) == ["Sun 29 09:00 +0200", "Mon 30 09:00 +0200"]
    hours = coming("0 * * * *", "Europe/Oslo", "2026-03-29T01:30+01:00", 2)
    assert hours == ["Sun 29 03:00 +0200", "Sun 29 04:00 +0200"]


def test_what_an_hour_repeats_comes_once_unless_it_comes_all_the_time() -> None:
    # Oslo: on 25 October 2026 03:00 becomes 02:00 again.
    start = "2026-10-25T01:00+02:00"
    assert coming("30 2 * * *", "Europe/Oslo", start, 2) == ["Sun 25 02:30 +0200", "Mon 26 02:30 +0100"]
    assert coming("30 2 * * *", "Europe/Oslo", "2026-10-25T02:10+01:00", 1) == ["Mon 26 02:30 +0100"]
    quarters = coming("*/30 * * * *", "Europe/Oslo", "2026-10-25T02:15+02:00", 4)
    assert quarters == ["Sun 25 02:30 +0200", "Sun 25 02:00 +0100", "Sun 25 02:30 +0100", "Sun 25 03:00 +0100"]


@pytest.mark.parametrize(
    "cron",
    [
        "",
        "daily",
        "* * * *",
        "0 0 9 * * *",
        "60 * * * *",
        "* 24 * * *",
        "* * 0 * *",
        "* * * 13 *",
        "* * * * 8",
        "*/0 * * * *",
        "0 0 30 2 *",
        "a b c d e",
        "0 9 * * 1-",
        "@daily",
    ],
)
def test_what_is_no_cron_expression_is_refused(cron: str) -> None:
    with pytest.raises(InvalidRecord) as refused:
        next_cron_time(cron, "UTC", datetime(2026, 3, 1, tzinfo=UTC))
    assert refused.value.field == "cron"
    assert "minute hour day month weekday" in str(refused.value)


@pytest.mark.parametrize("name", ["Mars/Olympus", "../etc/passwd", "", "/etc/localtime", "Europe/Oslo\0", "x" * 300])
def test_an_unknown_time_zone_is_refused(name: str) -> None:
    with pytest.raises(InvalidRecord) as refused:
        next_cron_time("* * * * *", name, datetime(2026, 3, 1, tzinfo=UTC))
    assert refused.value.field == "timezone"


def test_the_last_year_of_the_calendar_ends_it() -> None:
    with pytest.raises(InvalidRecord, match="cron"):
        next_cron_time("0 0 1 1 *", "UTC", datetime(9999, 6, 1, tzinfo=UTC))


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cronsim", None)
    with pytest.raises(ConfigError, match=r"pip install 'agentmem-graph\[worker\]'"):
        next_cron_time("* * * * *", "UTC", datetime(2026, 3, 1, tzinfo=UTC))


def part(low: int, high: int) -> st.SearchStrategy[str]:
    number = st.integers(low, high).map(str)
    return st.one_of(
        st.just("*"), number, st.integers(1, 30).map(lambda step: f"*/{step}"), st.tuples(number, number).map(",".join)
    )


EXPRESSIONS = st.tuples(part(0, 59), part(0, 23), part(1, 28), part(1, 12), part(0, 7)).map(" ".join)
ZONES = st.sampled_from(["UTC", "Europe/Oslo", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe"])
MOMENTS = st.datetimes(datetime(2025, 1, 1), datetime(2027, 12, 31), timezones=st.just(UTC))


@settings(max_examples=25)
@given(cron=EXPRESSIONS, name=ZONES, at=MOMENTS, more=st.integers(0, 3 * 86_400))
def test_what_comes_next_lies_ahead_and_later_never_comes_earlier(
    cron: str, name: str, at: datetime, more: int
) -> None:
    first = next_cron_time(cron, name, at)
    assert first > at
    later = at + timedelta(seconds=more)
    second = next_cron_time(cron, name, later)
    assert second >= first
    assert second == first if later < first else second > later
