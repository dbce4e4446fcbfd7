"""When a record next crosses a threshold, and which job looks at it then.

One function decides it, at writing, at use, and after a job looked; the jobs ask the same function what is due, so that
nothing that was looked at is due at once again.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import NamedTuple, Protocol

from agentmem.model.decay import Fading, after, crossing, faint, review_priority, score
from agentmem.model.records import Conversation, Entity, Fact, Record, Schedule, Status

DECAY, GC, PROMOTE, CLEANUP, SCHEDULES = "decay", "gc", "promote", "cleanup", "schedules"
MICROSECONDS_A_DAY = 86_400_000_000


class Used(Protocol):
    """How a record was used; `stores.Usage` is one."""

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


class Promoting(Protocol):
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


class Keeping(Protocol):
    """The numbers of retention; see `settings_parts.RetentionOptions`."""

    @property
    def conversation_days(self) -> float | None: ...
    @property
    def entity_salience(self) -> float: ...
    @property
    def entity_days(self) -> float: ...
    @property
    def ltm_retention_days(self) -> float | None: ...


class Laws(Protocol):
    """All numbers by which records fade and last: `settings_parts.LifeOptions`, and the settings themselves."""

    @property
    def decay(self) -> Fading: ...
    @property
    def promotion(self) -> Promoting: ...
    @property
    def retention(self) -> Keeping: ...


class Next(NamedTuple):
    """When a record is due, for which job, and how urgent its review is now; None for never by itself."""

    due_at: datetime | None = None
    due_for: str = ""
    review_priority: float = 0.0

    def looked_at_again(self, now: datetime, every: timedelta) -> datetime:
        """The next whole interval since it was due, so that days on which nothing ran do not move what follows."""
        since = self.due_at or now
        return since + ((now - since) // every + 1) * every


class _Never:
    """The usage of what was never used."""

    access_count = use_count = conversations = 0
    last_accessed = last_review_at = None
    strength = 1.0


NEVER_USED: Used = _Never()


def anchor(record: Record, usage: Used | None) -> datetime:
    """Since when a record fades: its last delivery or use, before the first one its recording."""
    assert record.recorded_at is not None, "stored records alone are asked for"
    return (usage.last_accessed if usage is not None else None) or record.recorded_at


def score_now(fact: Fact, usage: Used | None, now: datetime, decay: Fading) -> float:
    """The score of a short-lived fact as of now."""
    used = usage or NEVER_USED
    return score(used.use_count, anchor(fact, usage), used.strength, now, decay)


def is_due(due: Next, job: str, now: datetime) -> bool:
    """Whether this job should look at it now."""
    return due.due_for == job and due.due_at is not None and due.due_at <= now


def next_due(record: Record, usage: Used | None, now: datetime, laws: Laws) -> Next:
    """When this record next crosses a threshold, seen from now.

    What a job has to do something about stays due since it was crossed, so that missed days are not lost: promotion,
    forgetting, putting away. Entering and leaving the danger zone is due only when it lies ahead.
    """
    if not _stands(record):
        return Next()
    if isinstance(record, Schedule):
        return Next(record.wakes_at, SCHEDULES) if record.wakes_at is not None else Next()
    if isinstance(record, Fact):
        return _fact(record, usage, now, laws)
    if isinstance(record, Entity):
        return _entity(record, usage, laws)
    if isinstance(record, Conversation):
        return _conversation(record, laws.retention)
    return Next()


def promotion_due(fact: Fact, usage: Used | None, laws: Laws) -> datetime | None:
    """From when on an active fact deserves to be kept for long, or for every channel; None for not by itself.

    What was kept for long may still be made known in every channel; what was made known there names its copy in
    `promoted_to` and is not asked for again.
    """
    found = [moment for moment in (lasting_since(fact, usage, laws), global_since(fact, usage, laws)) if moment]
    return min(found, default=None)


def lasting_since(fact: Fact, usage: Used | None, laws: Laws) -> datetime | None:
    """From when on a short-lived fact deserves to be kept for long: used often soon after it came, or still present.

    Present is a score at the threshold or above when the fact is a half-life old; a new one scores 1. Only use counts
    here: what was merely delivered fades later, but did not prove itself.
    """
    if fact.tier != "short" or not _stands(fact):
        return None
    assert fact.recorded_at is not None, "stored records alone are asked for"
    used, decay, wanted = usage or NEVER_USED, laws.decay, laws.promotion
    found = []
    last_use = used.last_review_at
    window = fact.recorded_at + timedelta(days=wanted.within_days)
    if used.use_count >= wanted.use_count and last_use is not None and last_use <= window:
        found.append(last_use)
    since = last_use or fact.recorded_at
    aged = max(fact.recorded_at + timedelta(days=decay.half_life_days), since)
    if score(used.use_count, since, used.strength, aged, decay) >= wanted.score:
        found.append(aged)
    return min(found, default=None)


def global_since(fact: Fact, usage: Used | None, laws: Laws) -> datetime | None:
    """From when on a fact of a project deserves to be known in every channel; None for those of private channels."""
    used, wanted = usage or NEVER_USED, laws.promotion
    if fact.channel.startswith("_") or not _stands(fact) or used.last_accessed is None:
        return None
    counted = used.access_count >= wanted.access_count and used.conversations >= wanted.conversations
    return used.last_accessed if counted and fact.confidence >= wanted.confidence else None


def _stands(record: Record) -> bool:
    if isinstance(record, Fact) and record.status is Status.PROMOTED:
        return record.superseded_at is None and record.promoted_to is None
    return record.status is Status.ACTIVE and record.superseded_at is None


def _fact(fact: Fact, usage: Used | None, now: datetime, laws: Laws) -> Next:
    over = fact.valid_to is not None and fact.valid_to <= now  # a fact that ended is kept for no one else
    promote = None if over else promotion_due(fact, usage, laws)
    spared = (fact.importance or 0.0) >= laws.decay.spare_importance
    if fact.tier != "short":
        days = None if spared else laws.retention.ltm_retention_days
        old = None if days is None else after(anchor(fact, usage), days * MICROSECONDS_A_DAY)
        return _first([(promote, PROMOTE), (old, CLEANUP)])
    decay, used, since = laws.decay, usage or NEVER_USED, anchor(fact, usage)
    priority = review_priority(score_now(fact, usage, now, decay), decay.danger_low, decay.danger_high)
    if promote is not None and promote <= now:
        return Next(promote, PROMOTE, priority)
    ahead: list[tuple[datetime | None, str]] = [(promote, PROMOTE)]
    for threshold in (decay.danger_high, decay.danger_low):
        moment = crossing(threshold, used.use_count, since, used.strength, decay)
        ahead += [(moment, DECAY)] if moment is not None and moment > now else []
    if not spared:
        ahead.append((crossing(decay.forget_threshold, used.use_count, since, used.strength, decay), GC))
    return _first(ahead)._replace(review_priority=priority)


def _first(ahead: Iterable[tuple[datetime | None, str]]) -> Next:
    """The first of these moments, promotion before what comes at the same one."""
    found = sorted((moment, job != PROMOTE, job) for moment, job in ahead if moment is not None)
    return Next(found[0][0], found[0][2]) if found else Next()


def _entity(entity: Entity, usage: Used | None, laws: Laws) -> Next:
    keep, decay = laws.retention, laws.decay
    days = faint(entity.salience, keep.entity_salience, decay.salience_rate)
    if entity.salience >= keep.entity_salience:  # it fades at all only from then on
        days = max(days, decay.salience_after_days)
    moment = after(anchor(entity, usage), max(days, keep.entity_days) * MICROSECONDS_A_DAY)
    return Next(moment, CLEANUP if moment else "")


def _conversation(conversation: Conversation, keep: Keeping) -> Next:
    """Its age; whether it went on since is for the job to see, so that a turn costs nothing more."""
    if conversation.archived or keep.conversation_days is None:
        return Next()
    assert conversation.recorded_at is not None, "stored records alone are asked for"
    moment = after(conversation.recorded_at, keep.conversation_days * MICROSECONDS_A_DAY)
    return Next(moment, CLEANUP if moment else "")
