"""Kill -9 at every step of a write: `python -m tests.faults.kill --rounds 20` runs more rounds of the same."""

from __future__ import annotations

import pytest

from tests.faults import kill, victim
from tests.scale import scaled


@pytest.mark.long
@pytest.mark.parametrize("step", [*kill.STEPS, kill.ANY_MOMENT])
def test_nothing_acknowledged_is_lost_or_there_twice(step: str) -> None:
    for nth in kill.occurrences(step, scaled(2, least=1)):
        kill.run_round(step, nth)


# By day those around the vectors; test_killed_at_any_step_a_write_happened_whole_or_not_at_all takes all of a write.
BY_DAY = ("records", "vectors", "committed", kill.ANY_MOMENT)
INLINE_STEPS = [
    pytest.param(step, marks=[pytest.mark.nightly] * (step not in BY_DAY))
    for step in (*kill.INLINE_VECTOR_STEPS, kill.ANY_MOMENT)
]


@pytest.mark.long
@pytest.mark.parametrize("step", INLINE_STEPS)
def test_vectors_of_the_logs_own_transaction_are_there_with_the_write_or_not_at_all(step: str) -> None:
    for nth in kill.occurrences(step, scaled(2, least=1)):
        kill.run_round(step, nth, inline_vectors=True)


def test_both_ways_of_vectors_leave_the_same_behind() -> None:
    (followed, steps), (at_once, fewer) = kill.run_reference(), kill.run_reference(True)
    assert at_once == followed
    assert {step: fewer[step] for step in kill.INLINE_VECTOR_STEPS} == {
        step: steps[step] for step in kill.INLINE_VECTOR_STEPS
    }
    assert set(fewer) == set(kill.INLINE_VECTOR_STEPS)


def test_every_step_is_taken_and_everything_is_killed_somewhere() -> None:
    _, seen = kill.run_reference()
    assert set(kill.STEPS) <= set(seen)
    logged = [name for name in victim.ACTIONS if name != "a thought"]  # that one is in the session cache alone
    assert seen["committed"] >= len(logged)  # an erasure takes two
    assert set(kill.occurrences("journal", 20)) == set(range(1, seen["journal"] + 1))


def test_a_write_told_of_too_early_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check itself can fail: here a child says that a write is safe before it is."""
    monkeypatch.setattr(kill, "kill", lambda *_: ["a turn"])
    with pytest.raises(AssertionError, match="acknowledged and lost"):
        kill.run_round("journal", 1)
