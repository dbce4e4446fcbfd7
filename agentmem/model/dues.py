"""When a record next crosses a threshold, and which job looks at it then.

One function decides it, at writing, at use, and after a job looked; the jobs ask the same function what is due, so that
nothing that was looked at is due at once again.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import NamedTuple, Protocol

from agentmem.model.decay import (
    DecayPolicy,
    add_microseconds,
    days_until_below,
    decay_score,
    review_priority,
    threshold_time,
)
from agentmem.model.records import Conversation, Entity, Fact, Record, Schedule, Status

DECAY, GC, PROMOTE, CLEANUP, SCHEDULES = "decay", "gc", "promote", "cleanup", "schedules"
MICROSECONDS_PER_DAY = 86_400_000_000


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

    access_count = use_count = conversations = 0
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


def next_due(record: Record, usage: UsageStats | None, now: datetime, policy: LifecyclePolicy) -> NextDue:
    """When this record next crosses a threshold, seen from now.

    What a job has to do something about stays due since it was crossed, so that missed days are not lost: promotion,
    forgetting, putting away. Entering and leaving the danger zone is due only when it lies ahead.
    """
    if not _is_active(record):
        return NextDue()
    if isinstance(record, Schedule):
        return NextDue(record.due_at, SCHEDULES) if record.due_at is not None else NextDue()
    if isinstance(record, Fact):
        return _next_fact_due(record, usage, now, policy)
    if isinstance(record, Entity):
        return _next_entity_due(record, usage, policy)
    if isinstance(record, Conversation):
        return _next_conversation_due(record, policy.retention)
    return NextDue()


def promotion_due(fact: Fact, usage: UsageStats | None, policy: LifecyclePolicy) -> datetime | None:
    """From when on an active fact deserves to be kept for long, or for every channel; None for not by itself.

    What was kept for long may still be made known in every channel; what was made known there names its copy in
    `promoted_to` and is not asked for again.
    """
    found = [
        moment
        for moment in (promotable_to_long_since(fact, usage, policy), promotable_to_global_since(fact, usage, policy))
        if moment
    ]
    return min(found, default=None)


def promotable_to_long_since(fact: Fact, usage: UsageStats | None, policy: LifecyclePolicy) -> datetime | None:
    """From when on a short-lived fact deserves to be kept for long: used often soon after it came, or still present.

    Present is a score at the threshold or above when the fact is a half-life old; a new one scores 1. Only use counts
    here: what was merely delivered fades later, but did not prove itself.
    """
    if fact.tier != "short" or not _is_active(fact):
        return None
    assert fact.recorded_at is not None, "stored records alone are asked for"
    used, decay, wanted = usage or NEVER_USED, policy.decay, policy.promotion
    found = []
    last_use = used.last_review_at
    window = fact.recorded_at + timedelta(days=wanted.within_days)
    if used.use_count >= wanted.use_count and last_use is not None and last_use <= window:
        found.append(last_use)
    since = last_use or fact.recorded_at
    aged = max(fact.recorded_at + timedelta(days=decay.half_life_days), since)
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


def _next_fact_due(fact: Fact, usage: UsageStats | None, now: datetime, policy: LifecyclePolicy) -> NextDue:
    over = fact.valid_to is not None and fact.valid_to <= now  # a fact that ended is kept for no one else
    promote = None if over else promotion_due(fact, usage, policy)
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
