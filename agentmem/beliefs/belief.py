"""Beliefs and claims, and the standing of a belief at a moment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import IntEnum
from typing import Literal

from agentmem.beliefs.slots import NamedSlot
from agentmem.beliefs.values import is_refinement, normalize_value
from agentmem.core.clock import add_time

Tense = Literal["current", "past", "planned"]
Operation = Literal["is", "over", "deny"]
Mark = Literal["", "change", "correct"]
Standing = Literal["held", "guess", "planned", "due", "denied", "over", "wrong", "refined", "given up", "came true"]


class Ground(IntEnum):
    """How well a claim is founded: doubtful, a conclusion, somebody else's word, or the user's own plain word."""

    DOUBTFUL = 0
    INFERRED = 1
    REPORTED = 2
    SAID = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What a turn, a program or a person says of one slot of one subject.

    `operation` is `over` where the value came to its end, `deny` where it is not so; the value may then be empty, for
    whatever the slot holds. `mark` tells whether the words say that the world changed or that something was wrong.
    `since` and `until` are world time, None where the words do not say. `is_subject_unsure` when two known people fit.
    `said_at` is the moment of the words.
    """

    subject: str
    slot: NamedSlot
    value: str = ""
    said_at: datetime
    tense: Tense = "current"
    operation: Operation = "is"
    mark: Mark = ""
    since: datetime | None = None
    until: datetime | None = None
    ground: Ground = Ground.SAID
    is_subject_unsure: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Belief:
    """A value of a slot with its world interval [since, until). `key` names it, "" for one that is not stored yet.

    `retired` says why it never counted or counts no more in record time: `wrong`, `refined`, `given up` or `came true`.
    `said_at` is when it was last said, `first_said_at` when it was first. `named_premises` are the slots of which it
    was said on what value it rests, in place of the value that they had; `is_fallen` where such a value holds no more.
    `doubted_at` is when a later turn cast doubt on it.
    """

    key: str = ""
    subject: str
    slot: str
    value: str
    said_at: datetime
    first_said_at: datetime
    since: datetime | None = None
    until: datetime | None = None
    is_planned: bool = False
    is_denied: bool = False
    ground: Ground = Ground.SAID
    retired: Literal["", "wrong", "refined", "given up", "came true"] = ""
    named_premises: frozenset[str] = frozenset()
    is_fallen: bool = False
    doubted_at: datetime | None = None

    def standing(self, moment: datetime) -> Standing:
        """Its standing at a moment of the world."""
        if self.retired:
            return self.retired
        if self.ground is Ground.DOUBTFUL:
            return "guess"
        if self.is_denied:
            return "denied"
        if self.until is not None and self.until <= moment:
            return "over"
        begun = self.since is not None and self.since <= moment
        if self.is_planned:
            return "due" if begun else "planned"
        if self.since is not None and not begun:
            return "planned"
        return "held" if self.ground > Ground.INFERRED else "guess"

    def covers(self, moment: datetime) -> bool:
        """Whether it was so in the world at a moment; one without a beginning was always so."""
        counts = not (self.retired or self.is_denied or self.is_planned) and self.ground is not Ground.DOUBTFUL
        after = self.since is None or self.since <= moment
        return counts and after and (self.until is None or moment < self.until)


@dataclass(frozen=True, slots=True)
class SlotState:
    """What is believed of one slot of one subject at a moment. `current` is what an agent may state.

    Those are held values that are neither stale nor in doubt; without one, a plan whose day has come. `stale` are held
    values that rest on something that changed or came into doubt since, `doubtful` held values that a later turn
    doubts, `former` ended values, the latest first.
    """

    subject: str
    slot: str
    current: tuple[Belief, ...] = ()
    planned: tuple[Belief, ...] = ()
    former: tuple[Belief, ...] = ()
    stale: tuple[Belief, ...] = ()
    doubtful: tuple[Belief, ...] = ()
    guesses: tuple[Belief, ...] = ()
    denied: tuple[Belief, ...] = ()


@dataclass(frozen=True, slots=True)
class BeliefSet:
    """All beliefs of a memory, for questions about slots and what they rest on."""

    beliefs: Sequence[Belief]
    slots: Mapping[str, NamedSlot]
    _by_slot: dict[tuple[str, str], list[Belief]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for belief in self.beliefs:
            self._by_slot.setdefault((belief.subject, belief.slot), []).append(belief)

    def of(self, subject: str, slot: str) -> Sequence[Belief]:
        """Every belief of a slot, the oldest word first."""
        return self._by_slot.get((subject, slot), ())

    def state(self, subject: str, slot: str, moment: datetime) -> SlotState:
        """What is believed of a slot at a moment."""
        return self._state(subject, slot, moment, frozenset())

    def states(self, moment: datetime) -> Iterable[SlotState]:
        """The state of every slot, in the order in which they were first spoken of."""
        return (self.state(subject, slot, moment) for subject, slot in self._by_slot)

    def _state(self, subject: str, slot: str, moment: datetime, asked: frozenset[str]) -> SlotState:
        by_standing: dict[str, list[Belief]] = {}
        found = self.of(subject, slot)
        for belief in found:
            by_standing.setdefault(belief.standing(moment), []).append(belief)
        held = by_standing.get("held", [])
        # slots that rest on each other in a circle carry each other
        stale = [each for each in held if slot not in asked and self._is_stale(each, moment, asked | {slot})]
        doubtful = [each for each in held if each not in stale and _is_doubted(each, moment)]
        fresh = [each for each in held if each not in stale and each not in doubtful]
        due = by_standing.get("due", [])
        passed = [each for each in due if self.slots[slot].kind == "event" and _has_passed(each, moment)]
        plans = [each for each in (*due, *by_standing.get("planned", [])) if each not in passed]
        unsure = [each for each in plans if _is_doubted(each, moment)]
        due = [each for each in due if each in plans and each not in unsure]
        has_ended = any(each.until and each.until <= moment for each in found)
        may_be_due = doubtful == held or has_ended or self.slots[slot].rests_on
        over = [*by_standing.get("over", []), *passed]
        former = sorted(over, key=lambda each: each.until or each.since or moment, reverse=True)
        return SlotState(
            subject=subject,
            slot=slot,
            current=tuple(fresh) or (tuple(due[-1:]) if may_be_due else ()),
            planned=tuple(each for each in plans if each not in unsure),
            former=tuple(former),
            stale=tuple(stale),
            doubtful=(*doubtful, *unsure),
            guesses=tuple(by_standing.get("guess", [])),
            denied=tuple(by_standing.get("denied", [])),
        )

    def _is_stale(self, belief: Belief, moment: datetime, asked: frozenset[str]) -> bool:
        """Whether a slot that it rests on has changed since it was last said. Changed back, the belief holds."""
        if belief.is_fallen:
            return True
        for premise in self.slots[belief.slot].rests_on:
            if premise in belief.named_premises:
                continue
            now = {normalize_value(each.value) for each in self._state(belief.subject, premise, moment, asked).current}
            then = self._values_at(belief.subject, premise, belief.said_at)
            if belief.since and belief.since > belief.said_at:
                then |= self._values_at(belief.subject, premise, belief.since)
            known = self.of(belief.subject, premise)
            has_ended = any(each.until and each.until <= moment for each in known)
            has_ended |= any(each.doubted_at and belief.said_at < each.doubted_at <= moment for each in known)
            if then and not now & then and (now or has_ended) and not self._is_only_more_exact(premise, now, then):
                return True
        return False

    def _is_only_more_exact(self, slot: str, now: set[str], then: set[str]) -> bool:
        """Whether a value of then says a value of now, more or less exactly: a part of the same town."""
        kind = self.slots[slot]
        return any(is_refinement(kind, one, other) or is_refinement(kind, other, one) for one in now for other in then)

    def _values_at(self, subject: str, slot: str, moment: datetime) -> set[str]:
        return {normalize_value(each.value) for each in self.of(subject, slot) if each.covers(moment)}


def _is_doubted(belief: Belief, moment: datetime) -> bool:
    """Whether a later turn had cast doubt on it at a moment."""
    return belief.doubted_at is not None and belief.doubted_at <= moment


def _has_passed(belief: Belief, moment: datetime) -> bool:
    """Whether the day of a plan is over."""
    return belief.since is not None and add_time(belief.since, timedelta(days=1)) <= moment
