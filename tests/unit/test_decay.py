"""The laws of fading, each with the documents' own example, and the moments at which records are due."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from agentmem.core import lifecycle
from agentmem.core.lifecycle import (
    BETAS,
    CLEANUP,
    DAY,
    DECAY,
    GC,
    HALF_LIVES,
    PROMOTE,
    NextDue,
    decay_score_now,
    is_due,
    next_due,
)
from agentmem.core.record import Record, Status
from agentmem.core.records import Conversation, Entity, Fact
from agentmem.settings.sections import DecayOptions, LifecycleSettings, PromotionOptions, RetentionOptions
from agentmem.stores.values import RecordUsage

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
NUMBERS = DecayOptions()
LAWS = LifecycleSettings()
SLACK = timedelta(microseconds=1)


def day(days: float) -> datetime:
    return START + timedelta(days=days)


def fact(**fields: object) -> Fact:
    return Fact.model_validate({"id": "f", "claim": "It rains.", "tier": "short", "recorded_at": START, **fields})


def used(**fields: object) -> RecordUsage:
    return RecordUsage("Fact", "f", **fields)  # type: ignore[arg-type]


# -- document 002: salience and confidence


def test_a_value_decays_by_five_percent_a_day_and_halves_in_about_fourteen_days() -> None:
    assert lifecycle.decay_value(0.8, 0.95, 1) == pytest.approx(0.76)
    assert lifecycle.decay_value(1.0, 0.95, 14) == pytest.approx(0.488, abs=1e-3)
    assert math.log(0.5) / math.log(0.95) == pytest.approx(13.51, abs=0.01)  # "half-life ≈ 14 days"
    assert lifecycle.decay_value(0.8, 0.95, -3) == 0.8


def test_salience_fades_from_a_day_after_the_last_access_on() -> None:
    assert lifecycle.salience_now(0.5, START, day(0.99), NUMBERS) == 0.5
    assert lifecycle.salience_now(0.5, START, day(1), NUMBERS) == pytest.approx(0.475)
    assert lifecycle.salience_now(0.5, START, day(14), NUMBERS) == pytest.approx(0.5 * 0.95**14)
    assert lifecycle.salience_now(0.5, START, day(-1), NUMBERS) == 0.5


def test_confidence_of_inferred_facts_fades_more_slowly_by_the_week() -> None:
    assert lifecycle.confidence_now(0.7, True, START, day(6.9), NUMBERS) == 0.7
    assert lifecycle.confidence_now(0.7, True, START, day(7), NUMBERS) == pytest.approx(0.665)
    assert lifecycle.confidence_now(0.7, True, START, day(70), NUMBERS) == pytest.approx(0.7 * 0.95**10)
    assert lifecycle.confidence_now(0.7, False, START, day(70), NUMBERS) == 0.7
    assert lifecycle.confidence_now(0.7, True, START, day(-70), NUMBERS) == 0.7
    said = [lifecycle.is_inferred(certainty) for certainty in ("explicit", "implied", "inferred", "uncertain", "")]
    assert said == [False, False, True, True, False]
    assert lifecycle.is_inferred("", "inferred")


def test_many_values_fade_as_one_does() -> None:
    values, days = np.array([0.5, 0.5, 0.9, 0.2]), np.array([-4.0, 0.5, 1.0, 31.5])
    one = [lifecycle.salience_now(v, START, day(d), NUMBERS) for v, d in zip(values, days, strict=True)]
    assert lifecycle.decay_values(values, 0.95, days, 1.0) == pytest.approx(one, abs=1e-12)


# -- document 003: the score


def test_lambda_is_that_of_the_half_life() -> None:
    assert lifecycle.decay_constant(3) == pytest.approx(2.673e-6, rel=1e-3)
    assert lifecycle.decay_constant(1) == pytest.approx(8.02e-6, rel=1e-3)
    assert lifecycle.decay_constant(7) == pytest.approx(1.145e-6, rel=2e-3)
    assert HALF_LIVES == {"fast": 1.0, "default": 3.0, "slow": 7.0}
    assert BETAS == {"low": 0.3, "default": 0.6, "high": 1.0}


def test_presets_go_by_name() -> None:
    options = DecayOptions.model_validate({"half_life_days": "slow", "beta": "high"})
    assert (options.half_life_days, options.beta) == (7.0, 1.0)
    assert (NUMBERS.half_life_days, NUMBERS.beta) == (3.0, 0.6)
    with pytest.raises(ValidationError, match="half_life_days"):
        DecayOptions.model_validate({"half_life_days": "never"})
    with pytest.raises(ValidationError, match="rise"):
        DecayOptions(danger_low=0.4)


def test_the_score_of_a_new_memory_is_one_and_halves_every_three_days() -> None:
    """The document's use_count^β would give 0 for what was never used; ours counts one more."""
    assert lifecycle.decay_score(0, START, 1.0, START, NUMBERS) == 1.0
    assert 0**0.6 == 0
    assert lifecycle.decay_score(0, START, 1.0, day(3), NUMBERS) == pytest.approx(0.5)
    assert lifecycle.decay_score(4, START, 1.0, day(3), NUMBERS) == pytest.approx(5**0.6 / 2)
    assert lifecycle.decay_score(4, START, 2.0, day(3), NUMBERS) == pytest.approx(5**0.6)
    assert lifecycle.decay_score(0, START, 1.0, day(-3), NUMBERS) == 1.0


def test_review_priority_is_a_parabola_over_the_danger_zone() -> None:
    given_ = {0.1: 0.0, 0.15: 0.0, 0.20: 0.75, 0.25: 1.0, 0.30: 0.75, 0.35: 0.0, 0.4: 0.0}
    assert {score: lifecycle.review_priority(score) for score in given_} == pytest.approx(given_)
    assert lifecycle.review_priority(0.5, 0.5, 0.5) == 0.0


def test_use_in_another_field_is_told_by_the_tags() -> None:
    jwt = ["security", "jwt", "preferences"]
    assert lifecycle.is_cross_domain(jwt, ["api", "auth", "backend"])
    assert not lifecycle.is_cross_domain(jwt, [])
    assert not lifecycle.is_cross_domain([], jwt)
    assert not lifecycle.is_cross_domain(["a", "b", "c"], ["a", "b", "c"])
    assert not lifecycle.is_cross_domain(["a", "b", "c"], ["a", "b", "x"])  # 2 of 4
    assert lifecycle.is_cross_domain(["a", "b", "c"], ["a", "x", "y"])  # 1 of 5
    assert not lifecycle.is_cross_domain([*"abc"], [*"abcdefghij"])  # 3 of 10: not below .3


def test_importance_is_recency_familiarity_and_what_was_stated() -> None:
    """Document 000 leaves the scales open: ours keep each part within 0 and 1."""
    assert lifecycle.importance(START, 100, 1.0, START, NUMBERS) == pytest.approx(0.3 + 0.3 + 0.4)
    assert lifecycle.importance(START, 0, None, START, NUMBERS) == pytest.approx(0.3 + 0.4 * 0.5)
    assert lifecycle.importance(START, 0, 0.0, day(30), NUMBERS) == pytest.approx(0.15)
    assert lifecycle.importance(START, 9, 0.0, day(3000), NUMBERS) == pytest.approx(0.3 * math.log(10) / math.log(101))
    assert lifecycle.importance(START, 10**9, 0.0, day(3000), NUMBERS) == pytest.approx(0.3)


# -- when a score crosses a threshold


@settings(max_examples=25, derandomize=True, deadline=None)
@given(
    threshold=st.floats(0.01, 0.9), uses=st.integers(0, 1000), strength=st.floats(1, 2), half_life=st.floats(0.01, 400)
)
def test_a_crossing_is_the_inverse_of_the_law(threshold: float, uses: int, strength: float, half_life: float) -> None:
    options = DecayOptions(half_life_days=half_life)
    moment = lifecycle.threshold_time(threshold, uses, START, strength, options)
    assert moment is not None
    assert lifecycle.decay_score(uses, START, strength, moment, options) <= threshold
    if moment > START + 3 * SLACK:
        assert lifecycle.decay_score(uses, START, strength, moment - 3 * SLACK, options) >= threshold


def test_what_never_crosses_has_no_moment() -> None:
    assert lifecycle.threshold_time(0.05, 2**40, START, 2.0, DecayOptions(half_life_days=100_000)) is None
    assert (
        next_due(
            Entity(id="e", name="Ada", recorded_at=START),
            None,
            START,
            LifecycleSettings(decay=DecayOptions(salience_rate=1)),
        )
        == NextDue()
    )
    assert lifecycle.days_until_below(0.05, 0.1, 0.95) == 0.0
    assert lifecycle.days_until_below(0.5, 0.1, 0.95) == pytest.approx(31.4, abs=0.1)


# -- what is due when


def test_a_short_lived_fact_passes_through_the_danger_zone_and_is_collected() -> None:
    moments, now = [], START
    for _ in range(3):
        due = next_due(fact(), None, now, LAWS)
        assert due.due_at is not None
        assert due.due_at > now
        moments.append((due.due_for, round((due.due_at - START) / DAY, 2)))
        now = due.due_at
    assert moments == [(DECAY, 4.54), (DECAY, 8.21), (GC, 12.97)]  # below .35, .15 and .05
    assert is_due(next_due(fact(), None, day(400), LAWS), GC, day(400))
    assert next_due(fact(importance=0.8), None, now, LAWS) == NextDue()
    assert next_due(fact(status=Status.ARCHIVED), None, now, LAWS) == NextDue()
    assert next_due(fact(tier="long"), None, now, LAWS) == NextDue()


def test_review_is_most_urgent_in_the_middle_of_the_zone() -> None:
    middle = day(3 * math.log2(1 / 0.25))
    assert next_due(fact(), None, middle, LAWS).review_priority == pytest.approx(1.0)
    assert next_due(fact(), None, START, LAWS).review_priority == 0.0


def test_what_is_used_soon_is_kept_for_long_when_it_is_a_half_life_old() -> None:
    twice = used(use_count=2, last_accessed=START, last_review_at=START)
    assert next_due(fact(), twice, START, LAWS)[:2] == (day(3), PROMOTE)  # 3^.6 / 2 = .97
    once = used(use_count=1, review_count=1, last_accessed=START, last_review_at=START)
    assert next_due(fact(), once, START, LAWS).due_for == DECAY  # 2^.6 / 2 = .76, but one use proves nothing
    meant = used(use_count=1, last_accessed=START, last_review_at=START)
    assert next_due(fact(), meant, START, LAWS)[:2] == (day(3), PROMOTE)
    assert next_due(fact(), None, START, LAWS).due_for == DECAY  # 1 / 2 = .5
    delivered = used(access_count=9, last_accessed=day(2.9))
    assert next_due(fact(), delivered, day(2.9), LAWS).due_for == DECAY  # which proves nothing
    late = used(use_count=2, last_accessed=day(5), last_review_at=day(5))
    assert next_due(fact(), late, day(5), LAWS)[:2] == (day(5), PROMOTE)
    assert next_due(fact(valid_to=day(4)), late, day(5), LAWS).due_for == DECAY  # it ended


def test_five_uses_within_fourteen_days_are_enough() -> None:
    laws = LifecycleSettings(promotion=PromotionOptions(score=100))
    five = used(use_count=5, last_accessed=day(14), last_review_at=day(14))
    assert next_due(fact(), five, day(20), laws)[:2] == (day(14), PROMOTE)
    later = used(use_count=5, last_accessed=day(14.1), last_review_at=day(14.1))
    assert next_due(fact(), later, day(20), laws).due_for == DECAY
    four = used(use_count=4, last_accessed=day(14), last_review_at=day(14))
    assert next_due(fact(), four, day(14), laws).due_for == DECAY


@pytest.mark.parametrize("channel, spread", [("rust", True), ("_global", False), ("_self_x", False)])
def test_a_fact_of_a_project_is_made_known_everywhere_at_the_seeds_thresholds(channel: str, spread: bool) -> None:
    known = used(access_count=5, conversations=2, last_accessed=day(2))
    sure = fact(tier="long", confidence=0.85, channel=channel)
    assert next_due(sure, known, day(3), LAWS)[:2] == ((day(2), PROMOTE) if spread else (None, ""))
    for less in (
        used(access_count=4, conversations=2, last_accessed=day(2)),
        None,
        used(access_count=5, conversations=1, last_accessed=day(2)),
    ):
        assert next_due(sure, less, day(3), LAWS) == NextDue()
    assert next_due(fact(tier="long", confidence=0.84, channel=channel), known, day(3), LAWS) == NextDue()


def test_entities_are_looked_at_when_faint_and_unused_for_thirty_days() -> None:
    ada = Entity(id="e", name="Ada", recorded_at=START)
    due = next_due(ada, None, START, LAWS)
    assert due.due_at is not None
    assert due.due_for == CLEANUP
    assert lifecycle.salience_now(0.5, START, due.due_at, NUMBERS) < 0.1
    assert (due.due_at - START) / DAY == pytest.approx(31.38, abs=0.01)
    faint = ada.model_copy(update={"salience": 0.05})
    assert next_due(faint, None, START, LAWS).due_at == day(30) + SLACK
    seen = RecordUsage("Entity", "e", last_accessed=day(10))
    assert next_due(faint, seen, day(10), LAWS).due_at == day(40) + SLACK


def test_conversations_are_looked_at_after_ninety_days() -> None:
    talk = Conversation(id="c", recorded_at=START)
    assert next_due(talk, None, START, LAWS)[:2] == (day(90) + SLACK, CLEANUP)
    assert next_due(talk.model_copy(update={"archived": True}), None, START, LAWS) == NextDue()
    kept = LifecycleSettings(retention=RetentionOptions(conversation_days=None))
    assert next_due(talk, None, START, kept) == NextDue()


def test_long_lived_facts_are_due_only_where_a_retention_is_set() -> None:
    laws = LifecycleSettings(retention=RetentionOptions(ltm_retention_days=30))
    assert next_due(fact(tier="long"), None, START, laws)[:2] == (day(30) + SLACK, CLEANUP)
    assert next_due(fact(tier="long", importance=0.9), None, START, laws) == NextDue()


RECORDS: list[Record] = [
    fact(),
    fact(importance=0.9),
    fact(channel="rust", confidence=0.9),
    fact(tier="long", channel="rust"),
    Entity(id="e", name="Ada", recorded_at=START),
    Conversation(id="c", recorded_at=START),
]


@settings(max_examples=25, derandomize=True, deadline=None)
@given(record=st.sampled_from(RECORDS), uses=st.integers(0, 6), at=st.floats(0, 20), step=st.floats(0.04, 9))
def test_no_look_is_repeated_and_no_crossing_is_missed(record: Record, uses: int, at: float, step: float) -> None:
    """Days are simulated at any pace: a look settles what is due then, and finds what a look at each moment finds."""
    seen = RecordUsage(
        record.kind,
        record.id,
        access_count=uses,
        use_count=uses,
        conversations=2,
        last_accessed=day(at) if uses else None,
        last_review_at=day(at) if uses else None,
    )
    now, due, looks = day(at), next_due(record, seen, day(at), LAWS), 0
    while now < day(200) and due.due_at is not None:
        if due.due_at <= now:
            if due.due_for != DECAY:
                break  # its job does something about it
            fresh = next_due(record, seen, now, LAWS)
            assert not is_due(fresh, DECAY, now)  # nothing is due again at once
            due, looks = fresh, looks + 1
        else:
            now += timedelta(days=step)
    assert looks <= 2
    ends = _ends(record, seen, at)
    assert due.due_for in ("", DECAY) if ends is None else due[:2] == ends


def _ends(record: Record, seen: RecordUsage, at: float) -> tuple[datetime | None, str] | None:
    """What a look at every crossing, one after the other, comes to in the end."""
    due = next_due(record, seen, day(at), LAWS)
    while due.due_for == DECAY and due.due_at is not None:
        due = next_due(record, seen, due.due_at, LAWS)
    return due[:2] if due.due_for else None


@settings(max_examples=25, derandomize=True, deadline=None)
@given(record=st.sampled_from(RECORDS), at=st.floats(0, 100), back=st.floats(0, 1))
def test_a_clock_set_back_by_an_hour_harms_nothing(record: Record, at: float, back: float) -> None:
    now, then = day(at), day(at) - timedelta(hours=back)
    ahead, behind = next_due(record, None, now, LAWS), next_due(record, None, then, LAWS)
    assert behind.due_for in (ahead.due_for, DECAY)
    assert behind.due_at is None or ahead.due_at is None or behind.due_at <= ahead.due_at
    if isinstance(record, Fact):
        assert decay_score_now(record, None, then, NUMBERS) >= decay_score_now(record, None, now, NUMBERS)
        assert decay_score_now(record, None, day(-1), NUMBERS) == decay_score_now(record, None, START, NUMBERS)


def test_the_laws_have_no_memory_of_how_often_they_were_asked() -> None:
    """Three days at once are three single days: the value depends on the elapsed time alone."""
    daily = [lifecycle.decay_score(2, START, 1.0, day(n), NUMBERS) for n in range(5)]
    assert daily[3] == pytest.approx(daily[0] * (daily[1] / daily[0]) ** 3)
    assert all(later < earlier for earlier, later in pairwise(daily))
