"""The bounds of a rate of success, against figures worked out by hand, and what must hold of any."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentmem.core.procedural_records import Strategy
from agentmem.memory.procedural.strategies import has_worked
from agentmem.memory.procedural.tools import quantiles, term_overlap, wilson_interval


@pytest.mark.parametrize(
    "successes, tries, low, high",
    [
        (0, 0, 0.0, 1.0),
        (1, 1, 0.2065, 1.0),  # 1 / (1 + z²)
        (0, 1, 0.0, 0.7935),
        (8, 10, 0.4902, 0.9433),
        (50, 100, 0.4038, 0.5962),
        (990, 1000, 0.9817, 0.9946),
    ],
)
def test_bounds_are_those_of_wilson(successes: int, tries: int, low: float, high: float) -> None:
    assert wilson_interval(successes, tries) == pytest.approx((low, high), abs=1e-4)


@settings(max_examples=25)
@given(st.integers(0, 10_000), st.integers(1, 10_000))
def test_the_rate_lies_between_its_bounds_and_more_successes_raise_them(successes: int, more: int) -> None:
    tries = successes + more
    low, high = wilson_interval(successes, tries)
    assert 0 <= low <= successes / tries <= high <= 1
    other = wilson_interval(successes + 1, tries)
    assert other.low >= low
    assert other.high >= high
    mirrored = wilson_interval(more, tries)
    assert (1 - mirrored.high, 1 - mirrored.low) == pytest.approx((low, high), abs=1e-9)


@settings(max_examples=25)
@given(st.integers(1, 500), st.integers(2, 50))
def test_the_same_rate_over_more_tries_is_surer(successes: int, times: int) -> None:
    assert wilson_interval(successes * times, 2 * successes * times).low > wilson_interval(successes, 2 * successes).low


def test_more_successes_than_tries_are_refused() -> None:
    for wrong in ((2, 1), (-1, 1)):
        with pytest.raises(ValueError, match="there cannot be"):
            wilson_interval(*wrong)


def test_a_rare_word_counts_more_than_a_common_one() -> None:
    shares = term_overlap({"deploy": {1}, "server": {1, 2, 3}, "nowhere": set()}, 3)
    assert shares[1] > shares[2] == shares[3] > 0
    assert term_overlap({"deploy": {1}, "server": {1}}, 3)[1] == pytest.approx(1.0)
    assert term_overlap({}, 3) == {}


def test_quantiles_lie_between_values() -> None:
    assert quantiles([10.0, 20.0, 30.0, 40.0], (0.5, 0.95)) == pytest.approx([25.0, 38.5])
    assert quantiles([], (0.5, 0.95)) == [None, None]


@pytest.mark.parametrize(
    "successes, failures, last_failed, worked",
    [
        (0, 0, False, False),
        (1, 0, False, True),
        (1, 4, False, False),
        (3, 3, False, False),
        (9, 3, False, True),
        (9, 3, True, False),
        (0, 5, True, False),
    ],
)
def test_a_strategy_has_worked_often_enough_and_the_last_time(
    successes: int, failures: int, last_failed: bool, worked: bool
) -> None:
    strategy = Strategy(
        id="s", description="d", success_count=successes, failure_count=failures, last_failed=last_failed
    )
    assert has_worked(strategy) is worked
