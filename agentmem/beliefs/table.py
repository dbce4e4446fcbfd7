"""The decision table: what a claim about a slot does to what is believed. Pure; docs/beliefs.md shows it row by row.

The user's newest plain word wins. Claims are settled in the order in which they were said; one that arrives late only
adds to the past.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from agentmem.beliefs.belief import Belief, Claim, Ground
from agentmem.beliefs.values import has_digit, is_refinement, is_same_drug, is_same_value, remove_part

Action = Literal[
    "add",
    "reinforce",
    "refine",
    "end",
    "retire",
    "add past",
    "add denial",
    "add plan",
    "give up plan",
    "keep as guess",
    "review",
    "nothing",
]
ReviewCause = Literal["", "subject", "contradiction"]


@dataclass(frozen=True, slots=True)
class Settlement:
    """The result of a claim: beliefs to write, new ones without a key. `cause` and `against` describe a review."""

    action: Action
    writes: tuple[Belief, ...] = ()
    cause: ReviewCause = ""
    against: Belief | None = None


def settle(claim: Claim, known: Sequence[Belief], opposite: Sequence[Belief] = ()) -> Settlement:
    """Decide on a claim.

    `known` are all beliefs of its subject and slot, the retired ones included, oldest word first; `opposite` are those
    of the opposite slot, which end when this one gains their value. The decision of an unsure subject is a review.
    """
    if claim.is_subject_unsure:
        return Settlement("review", cause="subject")
    doubtful = [each for each in known if each.ground is Ground.DOUBTFUL and not each.retired]
    sure = [each for each in known if each not in doubtful]
    if claim.ground is Ground.DOUBTFUL:
        return _settle_doubtful(claim, sure, doubtful)
    settled = _settle_sure(claim, sure, opposite)
    if settled.action in ("review", "nothing"):
        return settled
    confirmed = tuple(replace(each, retired="refined") for each in doubtful if is_same_value(each.value, claim.value))
    return replace(settled, writes=(*settled.writes, *confirmed))


def _settle_doubtful(claim: Claim, sure: Sequence[Belief], doubtful: Sequence[Belief]) -> Settlement:
    """A doubtful claim changes nothing that is believed; it is kept beside it, once."""
    kept = _new(claim, is_planned=claim.tense == "planned", is_denied=claim.operation != "is")
    same = [each for each in (*sure, *doubtful) if is_same_value(each.value, claim.value) and not each.retired]
    same = [each for each in same if (each.is_planned, each.is_denied) == (kept.is_planned, kept.is_denied)]
    if not claim.value or any(each.ground is not Ground.DOUBTFUL for each in same):
        return Settlement("nothing")
    if same:
        return Settlement("reinforce", (_say_again(same[-1], claim),))
    return Settlement("keep as guess", (kept,))


def _settle_sure(claim: Claim, known: Sequence[Belief], opposite: Sequence[Belief]) -> Settlement:
    moment = claim.said_at
    held = [each for each in known if each.standing(moment) in ("held", "guess")]
    plans = [each for each in known if each.standing(moment) in ("planned", "due")]
    is_plain = claim.tense == "current" and claim.operation == "is"
    if claim.ground is Ground.INFERRED and is_plain and not held:
        return Settlement("keep as guess", (_new(claim),))
    if claim.slot.kind == "event":
        return _settle_event(claim, plans)
    if claim.operation != "is":
        return _settle_denial(claim, known, held, plans)
    if claim.tense == "planned":
        return _settle_plan(claim, held, plans)
    if claim.tense == "past":
        return _settle_past(claim, known)
    return _settle_current(claim, known, held, plans, opposite)


# -- rows 1 to 7, 14, 17 and 18: the value holds now


def _settle_current(
    claim: Claim, known: Sequence[Belief], held: Sequence[Belief], plans: Sequence[Belief], opposite: Sequence[Belief]
) -> Settlement:
    is_set = claim.slot.kind == "set"
    if not is_set and (later := _find_later(claim, known)):
        return _settle_late(claim, held, later)
    sure = [each for each in held if each.ground > Ground.INFERRED]
    guesses = [each for each in held if each not in sure]
    same = [each for each in (held if is_set or not sure else sure) if is_same_value(each.value, claim.value)]
    if same:
        return Settlement("reinforce", (_say_again(same[-1], claim),))
    if claim.ground is Ground.INFERRED:
        return Settlement("keep as guess", () if _has_value(guesses, claim) else (_new(claim),))
    strongest = max(held, key=lambda each: each.ground, default=None)
    if (
        strongest is not None
        and claim.ground < strongest.ground
        and not is_set
        and not _is_more_or_less(claim, sure[-1])
    ):
        return Settlement("review", cause="contradiction", against=strongest)
    claim, fulfilled = _fulfill_plans(claim, plans)
    done = (*fulfilled, *(_end(each, claim) for each in opposite if is_same_value(each.value, claim.value)))
    if claim.slot.value_type == "dose" and (alike := [each for each in held if is_same_drug(each.value, claim.value)]):
        return _settle_dose(claim, alike, done)
    if not held or (is_set and not (claim.mark == "correct" and len(held) == 1)):
        return Settlement("add", (*done, _new(claim, since=claim.since or _since_former(claim, known))))
    old = (sure or held)[-1]
    if claim.mark != "correct":
        if is_refinement(claim.slot, claim.value, old.value):
            refined = _new(claim, since=claim.since or old.since, ground=max(claim.ground, old.ground))
            return Settlement("refine", (*done, replace(old, retired="refined"), refined))
        if is_refinement(claim.slot, old.value, claim.value):
            return Settlement("reinforce", (_say_again(old, claim),))
    return _replace_held(claim, held, done)


def _settle_dose(claim: Claim, alike: Sequence[Belief], done: tuple[Belief, ...]) -> Settlement:
    """Rows 3 to 6 for what somebody takes already: another dose takes the place of the old one."""
    old = alike[-1]
    if not has_digit(claim.value):
        return Settlement("reinforce", (_say_again(old, claim),))
    if not has_digit(old.value):
        refined = _new(claim, since=claim.since or old.since, ground=max(claim.ground, old.ground))
        return Settlement("refine", (*done, replace(old, retired="refined"), refined))
    return _replace_held(claim, alike, done)


def _replace_held(claim: Claim, held: Sequence[Belief], done: tuple[Belief, ...]) -> Settlement:
    """Rows 5 and 6: the world changed, or what was held is wrong."""
    if claim.mark == "correct" or (claim.slot.kind == "fixed" and claim.mark != "change"):
        wrong = tuple(replace(each, retired="wrong") for each in held)
        return Settlement("retire", (*done, *wrong, _new(claim, since=claim.since or held[-1].since)))
    ended = tuple(_end(each, claim) for each in held)
    return Settlement("end", (*done, *ended, _new(claim, since=claim.since or claim.said_at)))


def _find_later(claim: Claim, known: Sequence[Belief]) -> list[Belief]:
    """What was first said after this claim and counts: the claim arrives late."""
    counts = [each for each in known if not (each.retired or each.is_planned or each.is_denied)]
    return [each for each in counts if each.first_said_at > claim.said_at and each.ground >= claim.ground]


def _settle_late(claim: Claim, held: Sequence[Belief], later: Sequence[Belief]) -> Settlement:
    """An older word that arrives after a newer one: it was so until the newer one began, and after what was before."""
    first = min(later, key=lambda each: each.since or each.first_said_at)
    if is_same_value(first.value, claim.value):
        return Settlement("reinforce", (_say_again(first, claim),))
    end, begin = first.since or first.first_said_at, claim.since or claim.said_at
    before = [each for each in held if each.first_said_at <= claim.said_at]
    if claim.slot.kind == "fixed" or end <= begin or _has_value(before, claim):
        return Settlement("nothing")
    dated = () if first.since else (replace(first, since=first.first_said_at),)
    ended = tuple(_end(each, claim) for each in before)
    return Settlement("add past", (*dated, *ended, _new(claim, since=begin if before else None, until=end)))


def _has_value(beliefs: Sequence[Belief], claim: Claim) -> bool:
    return any(is_same_value(each.value, claim.value) for each in beliefs)


def _is_more_or_less(claim: Claim, belief: Belief) -> bool:
    """Whether one of both values says the other more exactly, so that they do not contradict each other."""
    one, other = claim.value, belief.value
    return is_refinement(claim.slot, one, other) or is_refinement(claim.slot, other, one)


def _since_former(claim: Claim, known: Sequence[Belief]) -> datetime | None:
    """A value that follows one that ended began when it was said; of the first one the beginning is not known."""
    return claim.said_at if any(each.standing(claim.said_at) == "over" for each in known) else None


def _fulfill_plans(claim: Claim, plans: Sequence[Belief]) -> tuple[Claim, list[Belief]]:
    """Row 14: plans of this value came true, with the more exact of both words; others that were due did not."""
    done = []
    for plan in plans:
        is_more_exact = is_refinement(claim.slot, plan.value, claim.value)
        if (
            is_more_exact
            or is_same_value(plan.value, claim.value)
            or is_refinement(claim.slot, claim.value, plan.value)
        ):
            has_begun = plan.since is not None and plan.since <= claim.said_at
            since = claim.since or (plan.since if has_begun else None)
            claim = replace(claim, value=plan.value if is_more_exact else claim.value, since=since)
            done.append(replace(plan, retired="came true"))
        elif claim.slot.kind == "one" and plan.standing(claim.said_at) == "due":
            done.append(replace(plan, retired="given up"))
    return claim, done


# -- rows 8 to 10 and 13: it is over, or it is not so


def _settle_denial(
    claim: Claim, known: Sequence[Belief], held: Sequence[Belief], plans: Sequence[Belief]
) -> Settlement:
    listed = _find_listed(claim, held)
    meant = [each for each in held if _is_meant(claim, each) and each is not listed]
    planned = [each for each in plans if not claim.value or is_same_value(each.value, claim.value)]
    if claim.tense == "planned" or (planned and not meant):
        given_up = tuple(replace(each, retired="given up") for each in planned)
        return Settlement("give up plan" if given_up else "nothing", given_up)
    meant = [each for each in meant if each.said_at <= claim.said_at]  # said again later: it came back
    if claim.ground is Ground.INFERRED and (meant or held):
        return Settlement("nothing")
    strongest = max((*meant, *filter(None, [listed])), key=lambda each: each.ground, default=None)
    if strongest is not None and claim.ground < strongest.ground:
        return Settlement("review", cause="contradiction", against=strongest)
    was_wrong = claim.operation == "deny" and claim.mark == "correct"
    gone = tuple(replace(each, retired="wrong") if was_wrong else _end(each, claim) for each in meant)
    if listed is not None:  # its other parts stay
        gone = (*gone, replace(listed, value=remove_part(listed.value, claim.value)))
    if claim.operation == "deny":
        denial = (_new(claim, is_denied=True),) if claim.value else ()
        action: Action = "add denial" if not gone else "retire" if was_wrong else "end"
        return Settlement(action, (*gone, *denial))
    if meant:
        return Settlement("end", gone)
    if listed:
        return Settlement("end", (_new(claim, since=listed.since, until=_find_end(claim)), *gone))
    told = [*held, *(each for each in known if each.until and not each.retired)]
    if not claim.value or _has_value(told, claim):
        return Settlement("nothing")
    return Settlement("add past", (_new(claim, since=None, until=_find_end(claim)),))


def _find_end(claim: Claim) -> datetime:
    return claim.until or claim.since or claim.said_at


def _find_listed(claim: Claim, held: Sequence[Belief]) -> Belief | None:
    """The held value that lists what a denial names among others: "hiking and sailing" for "sailing"."""
    if claim.slot.kind != "set" and not claim.slot.is_instruction:
        return None  # "Smith and Sons" is one employer
    listing = (each for each in held if each.said_at <= claim.said_at and remove_part(each.value, claim.value))
    return next(listing, None)


def _is_meant(claim: Claim, belief: Belief) -> bool:
    """Whether a denial is about this value: any where none is named, else the same or a more exact one."""
    if not claim.value or is_same_value(belief.value, claim.value):
        return True
    return is_refinement(claim.slot, belief.value, claim.value)


# -- row 11: it was so


def _settle_past(claim: Claim, known: Sequence[Belief]) -> Settlement:
    for each in known:
        if each.until and not each.retired and is_same_value(each.value, claim.value):
            return Settlement("reinforce", (_say_again(each, claim),))
    return Settlement("add past", (_new(claim, until=claim.until or claim.said_at),))


# -- rows 12 and 15: it will be so


def _settle_plan(claim: Claim, held: Sequence[Belief], plans: Sequence[Belief]) -> Settlement:
    if same := [each for each in plans if is_same_value(each.value, claim.value)]:
        return Settlement("reinforce", (replace(_say_again(same[-1], claim), since=claim.since or same[-1].since),))
    if any(each.said_at > claim.said_at for each in plans if claim.slot.kind != "set"):
        return Settlement("nothing")
    if any(is_same_value(each.value, claim.value) and each.said_at > claim.said_at for each in held):
        return Settlement("nothing")  # it came true before the plan was read
    older = () if claim.slot.kind == "set" else tuple(replace(each, retired="given up") for each in plans)
    return Settlement("add plan", (*older, _new(claim, is_planned=True)))


def _settle_event(claim: Claim, plans: Sequence[Belief]) -> Settlement:
    """The date of something named: a new one takes the place of the old one; "it took place" ends it, and what was
    called off was never to be.
    """
    if claim.operation != "is" and claim.tense == "planned":
        called_off = tuple(replace(each, retired="given up") for each in plans)
        return Settlement("give up plan" if plans else "nothing", called_off)
    if claim.operation != "is" or claim.tense == "past":
        took_place = tuple(replace(each, until=claim.since or claim.said_at, is_planned=False) for each in plans)
        return Settlement("end" if plans else "nothing", took_place)
    if same := [each for each in plans if is_same_value(each.value, claim.value)]:
        return Settlement("reinforce", (_say_again(same[-1], claim),))
    strongest = max(plans, key=lambda each: each.ground, default=None)
    if strongest is not None and claim.ground < strongest.ground:
        return Settlement("review", cause="contradiction", against=strongest)
    if any(each.said_at > claim.said_at for each in plans):
        return Settlement("nothing")
    reason: Literal["wrong", "given up"] = "wrong" if claim.mark == "correct" else "given up"
    older = tuple(replace(each, retired=reason) for each in plans)
    return Settlement("retire" if plans else "add plan", (*older, _new(claim, is_planned=True)))


# -- beliefs


def _new(
    claim: Claim,
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    is_planned: bool = False,
    is_denied: bool = False,
    ground: Ground | None = None,
) -> Belief:
    return Belief(
        subject=claim.subject,
        slot=claim.slot.name,
        value=claim.value,
        said_at=claim.said_at,
        first_said_at=claim.said_at,
        since=since or claim.since,
        until=until or claim.until,
        is_planned=is_planned,
        is_denied=is_denied,
        ground=ground or claim.ground,
    )


def _say_again(belief: Belief, claim: Claim) -> Belief:
    """Said once more: with the newest word, the best ground and the earlier beginning."""
    earlier = claim.since if claim.since and (belief.since is None or claim.since < belief.since) else belief.since
    return replace(
        belief,
        said_at=max(belief.said_at, claim.said_at),
        first_said_at=min(belief.first_said_at, claim.said_at),
        ground=max(belief.ground, claim.ground),
        since=earlier,
        until=claim.until or belief.until,
    )


def _end(belief: Belief, claim: Claim) -> Belief:
    """The belief, over when the claim says; retired as wrong where it would end before it began."""
    end = claim.until if claim.operation == "over" and claim.until else claim.since or claim.said_at
    if belief.since is not None and end <= belief.since:
        return replace(belief, retired="wrong")
    return replace(belief, until=end)
