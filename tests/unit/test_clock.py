"""Time and ids come in through arguments."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentmem import InvalidRecord
from agentmem.core.clock import (
    Clock,
    RandomIds,
    SeededIds,
    Stopwatch,
    SystemClock,
    derive_id,
    from_micros,
    to_micros,
    to_utc,
)

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


class ManualClock:
    def __init__(self) -> None:
        self.time = NOW

    def now(self) -> datetime:
        return self.time


@given(st.datetimes(min_value=datetime(1, 1, 2), max_value=datetime(9999, 12, 30)))
def test_microseconds_are_exact_both_ways(moment: datetime) -> None:
    assert from_micros(to_micros(moment)) == moment.replace(tzinfo=UTC)


def test_a_naive_moment_is_utc_and_another_zone_is_converted() -> None:
    assert to_utc(datetime(2026, 3, 1, 12)) == NOW
    assert to_utc(datetime(2026, 3, 1, 14, tzinfo=timezone(timedelta(hours=2)))) == NOW


@pytest.mark.parametrize(
    "wrong", ["2026-03-01", 7, None, NOW.date(), datetime.min.replace(tzinfo=timezone(timedelta(hours=1)))]
)
def test_what_is_no_moment_is_refused_with_the_field(wrong: object) -> None:
    with pytest.raises(InvalidRecord, match="as_of") as error:
        to_utc(wrong, "as_of")  # type: ignore[arg-type]
    assert error.value.field == "as_of"


@pytest.mark.parametrize("ids", [RandomIds(ManualClock()), SeededIds(ManualClock(), "s", 1)])
def test_ids_are_uuids_of_version_7_that_begin_with_the_time(ids: RandomIds | SeededIds) -> None:
    made = [uuid.UUID(ids.new_id()) for _ in range(1000)]
    assert len(set(made)) == 1000
    assert {(each.version, each.variant) for each in made} == {(7, uuid.RFC_4122)}
    assert {each.int >> 80 for each in made} == {to_micros(NOW) // 1000}


def test_a_seed_gives_the_same_ids_and_another_opening_others() -> None:
    def made(seed: int | str, opening: int) -> list[str]:
        source = SeededIds(ManualClock(), seed, opening)
        return [source.new_id() for _ in range(5)]

    assert made("s", 1) == made("s", 1)
    assert not set(made("s", 1)) & set(made("s", 2))
    assert not set(made("s", 1)) & set(made("t", 1))
    assert made(1, 1) == made("1", 1)


def test_long_seeds_that_begin_alike_give_different_ids() -> None:
    long = "x" * 100
    assert SeededIds(ManualClock(), long + "a", 1).new_id() != SeededIds(ManualClock(), long + "b", 1).new_id()
    assert SeededIds(ManualClock(), long, 1).new_id() != SeededIds(ManualClock(), long, 2).new_id()


def test_derived_ids_keep_their_parts_apart() -> None:
    assert derive_id("a", "b") == derive_id("a", "b")
    assert len({derive_id("a", "b"), derive_id("b", "a"), derive_id("ab"), derive_id("a", "b", "")}) == 4
    assert derive_id("a\x1f1:b") != derive_id("a", "b")
    assert derive_id("a", "bé") == str(uuid.uuid5(uuid.NAMESPACE_OID, "1:a\x1f2:bé"))


def test_a_stopwatch_measures_by_the_injected_clock_and_never_below_zero() -> None:
    clock = ManualClock()
    watch = Stopwatch(clock)
    assert watch.milliseconds() == 0
    clock.time += timedelta(milliseconds=250)
    assert watch.milliseconds() == 250
    clock.time -= timedelta(days=1)
    assert watch.milliseconds() == 0
    assert Stopwatch(SystemClock()).milliseconds() >= 0


def test_the_system_clock_is_aware_and_a_clock_is_anything_with_now() -> None:
    assert SystemClock().now().tzinfo is UTC
    assert isinstance(ManualClock(), Clock)
    assert not isinstance("now", Clock)


def test_a_clock_that_is_set_back_a_little_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    times = [datetime(2026, 3, 1, 12, tzinfo=UTC) + timedelta(seconds=each) for each in (0, 5, 4, 4.5, 6, -60)]

    class Stepping(datetime):
        @classmethod
        def now(cls, tz: object = None) -> datetime:
            return times.pop(0)

    expected = [times[0], times[1], times[1], times[1], times[4], times[5]]
    monkeypatch.setattr("agentmem.core.clock.datetime", Stepping)
    clock = SystemClock()
    assert [clock.now() for _ in range(6)] == expected
