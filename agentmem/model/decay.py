"""How memories fade: pure functions of a stored value, its anchor time and now. No decayed value is ever stored.

The anchor is when a record was last delivered or used, and before that when it was recorded. A moment before the anchor
counts as no time at all, so that a clock set back harms nothing. `model.dues` says when a record next crosses one of
these thresholds. Numbers come as `DecayOptions` of the settings.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from agentmem.model.clock import from_micros, micros

DAY = timedelta(days=1)
DAYS_A_WEEK = 7.0
HALF_LIVES = {"fast": 1.0, "default": 3.0, "slow": 7.0}  # days
BETAS = {"low": 0.3, "default": 0.6, "high": 1.0}
INFERRED = frozenset({"inferred", "uncertain"})  # certainties of what nobody said
COMMON = 101  # so many accesses, less one, make a record as familiar as it can be


class Fading(Protocol):
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


def decayed(value: float, rate: float, days: float) -> float:
    """value · rate^days; the value itself for no days or fewer."""
    return value * math.pow(rate, days) if days > 0 else value


def faded(
    values: NDArray[np.float64], rate: float, days: NDArray[np.float64], after: float
) -> NDArray[np.float64]:  # fmt: skip
    """`decayed` of many values at once, of those whose days have come to `after`."""
    return np.asarray(np.where(days >= after, values * rate ** np.maximum(days, 0.0), values))


def salience_now(salience: float, anchor: datetime, now: datetime, options: Fading) -> float:
    """The salience of an entity: less by 5 % a day since its last access, from 24 hours on."""
    days = elapsed_days(anchor, now)
    return decayed(salience, options.salience_rate, days) if days >= options.salience_after_days else salience


def is_inferred(certainty: str, source: str = "") -> bool:
    """Whether nobody said so: a fact that was inferred, or guessed."""
    return certainty in INFERRED or source == "inferred"


def confidence_now(confidence: float, inferred: bool, anchor: datetime, now: datetime, options: Fading) -> float:
    """The confidence of a fact: where it was inferred, less by 5 % a week since its last access, from 7 days on."""
    days = elapsed_days(anchor, now)
    if not inferred or days < options.confidence_after_days:
        return confidence
    return decayed(confidence, options.confidence_rate, days / DAYS_A_WEEK)


def decay_constant(half_life_days: float) -> float:
    """λ, a second: ln 2 / half-life."""
    return math.log(2) / (half_life_days * DAY.total_seconds())


def _weight(use_count: int, strength: float, options: Fading) -> float:
    """The score at the moment of the last use."""
    return math.pow(use_count + 1, options.beta) * strength


def score(use_count: int, last_used: datetime, strength: float, now: datetime, options: Fading) -> float:
    """(use_count + 1)^β · exp(-λ · Δt) · strength: how present a short-lived memory is; 1 for a new one."""
    return _weight(use_count, strength, options) * math.pow(2.0, -elapsed_days(last_used, now) / options.half_life_days)


def crossing(
    threshold: float, use_count: int, last_used: datetime, strength: float, options: Fading
) -> datetime | None:  # fmt: skip
    """From when on the score is below a threshold, to the microsecond; None for later than the calendar goes."""
    half_lives = math.log2(_weight(use_count, strength, options) / threshold)
    return after(last_used, math.ceil(max(0.0, half_lives) * options.half_life_days * DAY / timedelta(microseconds=1)))


def faint(value: float, below: float, rate: float) -> float:
    """Days until a value that fades by this rate a day is below another; 0 when it is, infinite when it never is."""
    if value < below:
        return 0.0
    return math.inf if rate >= 1 or below <= 0 else math.log(below / value) / math.log(rate) if rate > 0 else 0.0


def after(moment: datetime, microseconds: float) -> datetime | None:
    """The first moment that is more than so many microseconds later; None for later than the calendar goes."""
    try:
        return from_micros(micros(moment) + math.floor(microseconds) + 1)
    except OverflowError:
        return None


def review_priority(score: float, low: float = 0.15, high: float = 0.35) -> float:
    """How urgently a memory should be seen again, 0 to 1: most in the middle of the danger zone, 0 outside of it."""
    if not low <= score <= high or high <= low:
        return 0.0
    return min(1.0, max(0.0, 1.0 - 4.0 * ((score - low) / (high - low) - 0.5) ** 2))


def is_cross_domain(tags: Collection[str], context_tags: Collection[str], below: float = 0.3) -> bool:
    """Whether a memory is used in another field than its own: the tags have little in common (Jaccard).

    False where either side has no tags.
    """
    own, other = set(tags), set(context_tags)
    return bool(own) and bool(other) and len(own & other) / len(own | other) < below


def importance(
    recorded_at: datetime, access_count: int, explicit: float | None, now: datetime, options: Fading
) -> float:  # fmt: skip
    """.3 recency + .3 familiarity + .4 of the importance that was stated, .5 when none was."""
    recency = math.pow(2.0, -elapsed_days(recorded_at, now) / options.importance_half_life_days)
    familiarity = min(1.0, math.log(access_count + 1) / math.log(COMMON))
    return 0.3 * recency + 0.3 * familiarity + 0.4 * (0.5 if explicit is None else explicit)


def preset(value: Any, presets: dict[str, float]) -> Any:
    """A number by its name; anything else as it is."""
    return presets.get(value, value) if isinstance(value, str) else value
