"""How memories fade: pure functions of a stored value, its anchor time and now. No decayed value is ever stored.

The anchor is when a record was last delivered or used, and before that when it was recorded. A moment before the anchor
counts as no time at all, so that a clock set back harms nothing. `model.due_dates` says when a record next crosses one
of these thresholds. Numbers come as `DecayOptions` of the settings.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from agentmem.model.clock import from_micros, to_micros

DAY = timedelta(days=1)
DAYS_PER_WEEK = 7.0
HALF_LIVES = {"fast": 1.0, "default": 3.0, "slow": 7.0}  # days
BETAS = {"low": 0.3, "default": 0.6, "high": 1.0}
INFERRED_CERTAINTIES = frozenset({"inferred", "uncertain"})  # certainties of what nobody said
FAMILIARITY_SATURATION = 101  # so many accesses, less one, make a record as familiar as it can be


class DecayPolicy(Protocol):
    """The numbers of decay; see `settings_parts.DecayOptions`."""

    @property
    def salience_rate(self) -> float: ...
    @property
    def salience_after_days(self) -> float: ...
    @property
    def confidence_rate(self) -> float: ...
    @property
    def confidence_after_days(self) -> float: ...
    @property
    def half_life_days(self) -> float: ...
    @property
    def beta(self) -> float: ...
    @property
    def forget_threshold(self) -> float: ...
    @property
    def spare_importance(self) -> float: ...
    @property
    def danger_low(self) -> float: ...
    @property
    def danger_high(self) -> float: ...
    @property
    def cross_domain(self) -> float: ...
    @property
    def cross_domain_boost(self) -> float: ...
    @property
    def strongest(self) -> float: ...
    @property
    def importance_half_life_days(self) -> float: ...


def elapsed_days(since: datetime, now: datetime) -> float:
    """Days from one moment to another; 0 when the clock went back."""
    return max(0.0, (now - since) / DAY)


def decay_value(value: float, rate: float, days: float) -> float:
    """value · rate^days; the value itself for no days or fewer."""
    return value * math.pow(rate, days) if days > 0 else value


def decay_values(
    values: NDArray[np.float64], rate: float, days: NDArray[np.float64], min_days: float
) -> NDArray[np.float64]:  # fmt: skip
    """`decay_value` of many values at once, of those whose days have come to `min_days`."""
    return np.asarray(np.where(days >= min_days, values * rate ** np.maximum(days, 0.0), values))


def salience_now(salience: float, decay_start: datetime, now: datetime, policy: DecayPolicy) -> float:
    """The salience of an entity: less by 5 % a day since its last access, from 24 hours on."""
    days = elapsed_days(decay_start, now)
    return decay_value(salience, policy.salience_rate, days) if days >= policy.salience_after_days else salience


def is_inferred(certainty: str, source: str = "") -> bool:
    """Whether nobody said so: a fact that was inferred, or guessed."""
    return certainty in INFERRED_CERTAINTIES or source == "inferred"


def confidence_now(
    confidence: float, inferred: bool, decay_start: datetime, now: datetime, policy: DecayPolicy
) -> float:
    """The confidence of a fact: where it was inferred, less by 5 % a week since its last access, from 7 days on."""
    days = elapsed_days(decay_start, now)
    if not inferred or days < policy.confidence_after_days:
        return confidence
    return decay_value(confidence, policy.confidence_rate, days / DAYS_PER_WEEK)


def decay_constant(half_life_days: float) -> float:
    """λ, a second: ln 2 / half-life."""
    return math.log(2) / (half_life_days * DAY.total_seconds())


def _score_at_last_use(use_count: int, strength: float, policy: DecayPolicy) -> float:
    """The score at the moment of the last use."""
    return math.pow(use_count + 1, policy.beta) * strength


def decay_score(use_count: int, last_used: datetime, strength: float, now: datetime, policy: DecayPolicy) -> float:
    """(use_count + 1)^β · exp(-λ · Δt) · strength: how present a short-lived memory is; 1 for a new one."""
    return _score_at_last_use(use_count, strength, policy) * math.pow(
        2.0, -elapsed_days(last_used, now) / policy.half_life_days
    )


def threshold_time(
    threshold: float, use_count: int, last_used: datetime, strength: float, policy: DecayPolicy
) -> datetime | None:  # fmt: skip
    """From when on the score is below a threshold, to the microsecond; None for later than the calendar goes."""
    half_lives = math.log2(_score_at_last_use(use_count, strength, policy) / threshold)
    return add_microseconds(
        last_used, math.ceil(max(0.0, half_lives) * policy.half_life_days * DAY / timedelta(microseconds=1))
    )


def days_until_below(value: float, threshold: float, rate: float) -> float:
    """Days until a value that fades by this rate a day is below another; 0 when it is, infinite when it never is."""
    if value < threshold:
        return 0.0
    return (
        math.inf if rate >= 1 or threshold <= 0 else math.log(threshold / value) / math.log(rate) if rate > 0 else 0.0
    )


def add_microseconds(moment: datetime, microseconds: float) -> datetime | None:
    """The first moment that is more than so many microseconds later; None for later than the calendar goes."""
    try:
        return from_micros(to_micros(moment) + math.floor(microseconds) + 1)
    except OverflowError:
        return None


def review_priority(score: float, low: float = 0.15, high: float = 0.35) -> float:
    """How urgently a memory should be seen again, 0 to 1: most in the middle of the danger zone, 0 outside of it."""
    if not low <= score <= high or high <= low:
        return 0.0
    return min(1.0, max(0.0, 1.0 - 4.0 * ((score - low) / (high - low) - 0.5) ** 2))


def is_cross_domain(tags: Collection[str], context_tags: Collection[str], max_overlap: float = 0.3) -> bool:
    """Whether a memory is used in another field than its own: the tags have little in common (Jaccard).

    False where either side has no tags.
    """
    own, other = set(tags), set(context_tags)
    return bool(own) and bool(other) and len(own & other) / len(own | other) < max_overlap


def importance(
    recorded_at: datetime, access_count: int, explicit: float | None, now: datetime, policy: DecayPolicy
) -> float:  # fmt: skip
    """.3 recency + .3 familiarity + .4 of the importance that was stated, .5 when none was."""
    recency = math.pow(2.0, -elapsed_days(recorded_at, now) / policy.importance_half_life_days)
    familiarity = min(1.0, math.log(access_count + 1) / math.log(FAMILIARITY_SATURATION))
    return 0.3 * recency + 0.3 * familiarity + 0.4 * (0.5 if explicit is None else explicit)


def resolve_preset(value: Any, presets: dict[str, float]) -> Any:
    """A number by its name; anything else as it is."""
    return presets.get(value, value) if isinstance(value, str) else value
