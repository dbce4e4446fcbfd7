"""How memories fade, and when a record is due next for a job.

One function decides it, at writing, at use, and after a job looked; the jobs ask the same function what is due, so that
nothing that was looked at is due at once again.

The anchor is when a record was last delivered or used, and before that when it was recorded. A moment before the anchor
counts as no time at all, so that a clock set back harms nothing. `model.due_dates` says when a record next crosses one
of these thresholds. Numbers come as `DecayOptions` of the settings.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from datetime import datetime, timedelta
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from agentmem.core.clock import add_time, from_micros, to_micros
from agentmem.core.documents import Document
from agentmem.core.procedural_records import Schedule
from agentmem.core.record import Record, Status
from agentmem.core.records import Conversation, Entity, Fact

DAY = timedelta(days=1)
DAYS_PER_WEEK = 7.0
HALF_LIVES = {"fast": 1.0, "default": 3.0, "slow": 7.0}  # days
BETAS = {"low": 0.3, "default": 0.6, "high": 1.0}
DOUBTFUL = "doubtful"  # the certainty of a claim that its words may contradict: kept, but never shown as current
DOUBT_TAG = "doubt:"  # before the name of what is doubtful about a claim
INFERRED_CERTAINTIES = frozenset({"inferred", "uncertain", DOUBTFUL})  # certainties of what was not said
MIN_USES_TO_KEEP = 2  # uses from which the score may keep a fact for long
FAMILIARITY_SATURATION = 101  # so many accesses, less one, make a record as familiar as it can be

DECAY, GC, PROMOTE, CLEANUP, SCHEDULES = "decay", "gc", "promote", "cleanup", "schedules"
MICROSECONDS_PER_DAY = 86_400_000_000


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
) -> NDArray[np.float64]:
    """`decay_value` of many values at once, of those whose days have come to `min_days`."""
    return np.asarray(np.where(days >= min_days, values * rate ** np.maximum(days, 0.0), values))


def salience_now(salience: float, decay_start: datetime, now: datetime, policy: DecayPolicy) -> float:
    """The salience of an entity: less by 5 % a day since its last access, from 24 hours on."""
    days = elapsed_days(decay_start, now)
    return decay_value(salience, policy.salience_rate, days) if days >= policy.salience_after_days else salience


def is_inferred(certainty: str, source: str = "") -> bool:
    """Whether a fact was inferred or guessed, not said."""
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
) -> datetime | None:
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
) -> float:
    """.3 recency + .3 familiarity + .4 of the importance that was stated, .5 when none was."""
    recency = math.pow(2.0, -elapsed_days(recorded_at, now) / policy.importance_half_life_days)
    familiarity = min(1.0, math.log(access_count + 1) / math.log(FAMILIARITY_SATURATION))
    return 0.3 * recency + 0.3 * familiarity + 0.4 * (0.5 if explicit is None else explicit)


def resolve_preset(value: Any, presets: dict[str, float]) -> Any:
    """A number by its name; anything else as it is."""
    return presets.get(value, value) if isinstance(value, str) else value


class UsageStats(Protocol):
    """How a record was used; `stores.RecordUsage` is one."""

    @property
    def access_count(self) -> int: ...
    @property
    def use_count(self) -> int: ...
    @property
    def last_accessed(self) -> datetime | None: ...
    @property
    def strength(self) -> float: ...
    @property
    def conversations(self) -> int: ...
    @property
    def last_review_at(self) -> datetime | None: ...
    @property
    def review_count(self) -> int: ...


class PromotionPolicy(Protocol):
    """The numbers of promotion; see `settings_parts.PromotionOptions`."""

    @property
    def score(self) -> float: ...
    @property
    def use_count(self) -> int: ...
    @property
    def within_days(self) -> float: ...
    @property
    def confidence(self) -> float: ...
    @property
    def access_count(self) -> int: ...
    @property
    def conversations(self) -> int: ...


class RetentionPolicy(Protocol):
    """The numbers of retention; see `settings_parts.RetentionOptions`."""

    @property
    def conversation_days(self) -> float | None: ...
    @property
    def entity_salience(self) -> float: ...
    @property
    def entity_days(self) -> float: ...
    @property
    def ltm_retention_days(self) -> float | None: ...


class LifecyclePolicy(Protocol):
    """All numbers by which records fade and last: `settings_parts.LifecycleSettings`, and the settings themselves."""

    @property
    def decay(self) -> DecayPolicy: ...
    @property
    def promotion(self) -> PromotionPolicy: ...
    @property
    def retention(self) -> RetentionPolicy: ...


class NextDue(NamedTuple):
    """When a record is due, for which job, and how urgent its review is now; None for never by itself."""

    due_at: datetime | None = None
    due_for: str = ""
    review_priority: float = 0.0

    def next_check(self, now: datetime, interval: timedelta) -> datetime:
        """The next whole interval since it was due, so that days on which nothing ran do not move what follows."""
        since = self.due_at or now
        return since + ((now - since) // interval + 1) * interval


class _NeverUsed:
    """The usage of what was never used."""

    access_count = use_count = conversations = review_count = 0
    last_accessed = last_review_at = None
    strength = 1.0


NEVER_USED: UsageStats = _NeverUsed()


def decay_start(record: Record, usage: UsageStats | None) -> datetime:
    """Since when a record fades: its last delivery or use, before the first one its recording."""
    assert record.recorded_at is not None, "stored records alone are asked for"
    return (usage.last_accessed if usage is not None else None) or record.recorded_at


def decay_score_now(fact: Fact, usage: UsageStats | None, now: datetime, decay: DecayPolicy) -> float:
    """The score of a short-lived fact as of now."""
    used = usage or NEVER_USED
    return decay_score(used.use_count, decay_start(fact, usage), used.strength, now, decay)


def is_due(due: NextDue, job: str, now: datetime) -> bool:
    """Whether this job should look at it now."""
    return due.due_for == job and due.due_at is not None and due.due_at <= now


def next_due(
    record: Record, usage: UsageStats | None, now: datetime, policy: LifecyclePolicy, *, may_spread: bool = True
) -> NextDue:
    """When this record next crosses a threshold, seen from now. `may_spread`: whether it may go to every channel.

    What a job has to do something about stays due since it was crossed, so that missed days are not lost: promotion,
    forgetting, putting away. Entering and leaving the danger zone is due only when it lies ahead.
    """
    if isinstance(record, Document):  # also one that is kept out of recall
        return NextDue(record.expires_at, CLEANUP) if record.expires_at is not None else NextDue()
    if not _is_active(record):
        return NextDue()
    if isinstance(record, Schedule):
        return NextDue(record.due_at, SCHEDULES) if record.due_at is not None else NextDue()
    if isinstance(record, Fact):
        return _next_fact_due(record, usage, now, policy, may_spread)
    if isinstance(record, Entity):
        return _next_entity_due(record, usage, policy)
    if isinstance(record, Conversation):
        return _next_conversation_due(record, policy.retention)
    return NextDue()


def promotion_due(
    fact: Fact, usage: UsageStats | None, policy: LifecyclePolicy, *, may_spread: bool = True
) -> datetime | None:
    """From when on an active fact deserves to be kept for long, or for every channel; None for not by itself.

    What was kept for long may still be made known in every channel; what was made known there names its copy in
    `promoted_to` and is not asked for again.
    """
    everywhere = promotable_to_global_since(fact, usage, policy) if may_spread else None
    found = [moment for moment in (promotable_to_long_since(fact, usage, policy), everywhere) if moment]
    return min(found, default=None)


def promotable_to_long_since(fact: Fact, usage: UsageStats | None, policy: LifecyclePolicy) -> datetime | None:
    """From when on a short-lived fact deserves to be kept for long: used often soon after it came, or still present.

    Present is a score at the threshold or above when the fact is a half-life old; a new one scores 1. Only use counts
    here: what was merely delivered fades later, but did not prove itself. One use proves nothing, unless it was made on
    purpose (`touch`) or in another field than the fact's own.
    """
    if fact.tier != "short" or not _is_active(fact):
        return None
    assert fact.recorded_at is not None, "stored records alone are asked for"
    used, decay, wanted = usage or NEVER_USED, policy.decay, policy.promotion
    found = []
    last_use = used.last_review_at
    window = add_time(fact.recorded_at, timedelta(days=wanted.within_days))
    if used.use_count >= wanted.use_count and last_use is not None and last_use <= window:
        found.append(last_use)
    if used.use_count < MIN_USES_TO_KEEP and used.use_count <= used.review_count and used.strength <= 1:
        return min(found, default=None)
    since = last_use or fact.recorded_at
    aged = max(add_time(fact.recorded_at, timedelta(days=decay.half_life_days)), since)
    if decay_score(used.use_count, since, used.strength, aged, decay) >= wanted.score:
        found.append(aged)
    return min(found, default=None)


def promotable_to_global_since(fact: Fact, usage: UsageStats | None, policy: LifecyclePolicy) -> datetime | None:
    """From when on a fact of a project deserves to be known in every channel; None for those of private channels."""
    used, wanted = usage or NEVER_USED, policy.promotion
    if fact.channel.startswith("_") or not _is_active(fact) or used.last_accessed is None:
        return None
    counted = used.access_count >= wanted.access_count and used.conversations >= wanted.conversations
    return used.last_accessed if counted and fact.confidence >= wanted.confidence else None


def _is_active(record: Record) -> bool:
    if isinstance(record, Fact) and record.status is Status.PROMOTED:
        return record.superseded_at is None and record.promoted_to is None
    return record.status is Status.ACTIVE and record.superseded_at is None


def _next_fact_due(
    fact: Fact, usage: UsageStats | None, now: datetime, policy: LifecyclePolicy, may_spread: bool
) -> NextDue:
    over = fact.valid_to is not None and fact.valid_to <= now  # a fact that ended is kept for no one else
    promote = None if over else promotion_due(fact, usage, policy, may_spread=may_spread)
    spared = (fact.importance or 0.0) >= policy.decay.spare_importance
    if fact.tier != "short":
        days = None if spared else policy.retention.ltm_retention_days
        old = None if days is None else add_microseconds(decay_start(fact, usage), days * MICROSECONDS_PER_DAY)
        return _earliest_due([(promote, PROMOTE), (old, CLEANUP)])
    decay, used, since = policy.decay, usage or NEVER_USED, decay_start(fact, usage)
    priority = review_priority(decay_score_now(fact, usage, now, decay), decay.danger_low, decay.danger_high)
    if promote is not None and promote <= now:
        return NextDue(promote, PROMOTE, priority)
    ahead: list[tuple[datetime | None, str]] = [(promote, PROMOTE)]
    for threshold in (decay.danger_high, decay.danger_low):
        moment = threshold_time(threshold, used.use_count, since, used.strength, decay)
        ahead += [(moment, DECAY)] if moment is not None and moment > now else []
    if not spared:
        ahead.append((threshold_time(decay.forget_threshold, used.use_count, since, used.strength, decay), GC))
    return _earliest_due(ahead)._replace(review_priority=priority)


def _earliest_due(candidates: Iterable[tuple[datetime | None, str]]) -> NextDue:
    """The first of these moments, promotion before what comes at the same one."""
    found = sorted((moment, job != PROMOTE, job) for moment, job in candidates if moment is not None)
    return NextDue(found[0][0], found[0][2]) if found else NextDue()


def _next_entity_due(entity: Entity, usage: UsageStats | None, policy: LifecyclePolicy) -> NextDue:
    keep, decay = policy.retention, policy.decay
    days = days_until_below(entity.salience, keep.entity_salience, decay.salience_rate)
    if entity.salience >= keep.entity_salience:  # it fades at all only from then on
        days = max(days, decay.salience_after_days)
    moment = add_microseconds(decay_start(entity, usage), max(days, keep.entity_days) * MICROSECONDS_PER_DAY)
    return NextDue(moment, CLEANUP if moment else "")


def _next_conversation_due(conversation: Conversation, retention: RetentionPolicy) -> NextDue:
    """Its age; whether it went on since is for the job to see, so that a turn costs nothing more."""
    if conversation.archived or retention.conversation_days is None:
        return NextDue()
    assert conversation.recorded_at is not None, "stored records alone are asked for"
    moment = add_microseconds(conversation.recorded_at, retention.conversation_days * MICROSECONDS_PER_DAY)
    return NextDue(moment, CLEANUP if moment else "")
