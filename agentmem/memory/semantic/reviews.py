"""What is doubtful waits for a person's decision, and the decision is one Change that can be taken back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Annotated, Any

from agentmem.beliefs.slots import find_slot
from agentmem.core.arguments import check_arguments
from agentmem.core.changes import Change, WriteAttempt
from agentmem.core.clock import derive_id
from agentmem.core.plain_values import describe_value
from agentmem.core.record import ReviewDecision, ReviewTopic, Status
from agentmem.core.records import Fact, Review, build_record
from agentmem.errors import Conflict, InvalidRecord
from agentmem.memory.read_audit import audit_read
from agentmem.memory.semantic.entities import resolve_merged_ids
from agentmem.memory.semantic.facts import FactFields, Facts
from agentmem.memory.semantic.merge_entities import EntityMerging
from agentmem.memory.semantic.merge_facts import build_merge_change, read_dependents

ALLOWED_DECISIONS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "ungrounded": ("accept", "reject"),
        "doubtful": ("accept", "reject"),
        "contradiction": ("prefer_new", "prefer_old", "keep_both"),
        "correction": ("prefer_new", "prefer_old", "keep_both"),
        "same_entity": ("merge", "keep_apart"),
        "same_fact": ("merge", "keep_apart"),
    }
)
"""What may be decided, by what a review is about."""

NO_CHANGE_DECISIONS = frozenset({"reject", "prefer_old", "keep_apart"})  # decisions that leave all as it is
PROPOSABLE_FIELDS = frozenset({"claim", "source_spans", *FactFields.__annotations__})


def same_entity_review_id(user_id: str, first: str, second: str) -> str:
    """The id of the review that asks whether two entities are one, in whichever order they are named."""
    return derive_id(user_id, "same_entity", *sorted((first, second)))


@check_arguments
@dataclass
class Reviews(Facts, EntityMerging):
    """The verbs over what is doubtful."""

    @audit_read
    async def reviews(
        self, about: Annotated[ReviewTopic | None, "One kind of doubt."] = None, *, limit: int = 100
    ) -> list[Review]:
        """The open reviews of the readable channels, oldest first, those `about` one kind of doubt when it is given.

        Kinds are ungrounded, doubtful, contradiction, correction, same_entity and same_fact; another is InvalidRecord.
        """
        if about is not None and about not in ALLOWED_DECISIONS:
            raise InvalidRecord(
                f"about must be one of {', '.join(ALLOWED_DECISIONS)}, got {describe_value(about)}", field="about"
            )
        if limit < 0:
            raise InvalidRecord(f"limit must be 0 or more, got {limit}", field="limit")
        found = [review for review in await self._context.list_readable("Review") if isinstance(review, Review)]
        waiting = [review for review in found if review.dedup_key() and about in (None, review.about)]
        return sorted(waiting, key=lambda review: (review.recorded_at or review.decided_at, review.id))[:limit]

    async def find_same_entity_review(self, first: str, second: str) -> Review | None:
        """The review about whether two entities are one, open or decided; None when it was never asked."""
        found = await self._context.engine.log.read_records(
            "Review", [same_entity_review_id(self._context.scope.user_id, first, second)], self._context.scope
        )
        return found[0] if found and isinstance(found[0], Review) else None

    async def resolve_review(
        self, review_id: str, decision: ReviewDecision, *, idempotency_key: str | None = None
    ) -> Review:
        """Decide a review and do what was decided, in one operation; `undo` takes both back. Returns it as decided.

        `accept` or `reject` what is ungrounded or doubtful; `prefer_new`, `prefer_old` or `keep_both` where two facts
        contradict each other or one corrects the other; `merge` or `keep_apart` two entities or facts that may be one.
        A proposed belief is settled as the user's own word of the day it was said; `keep_both` is for slots of several
        values. The same decision again changes nothing. Raises NotFound, InvalidRecord naming the choices or what is
        wrong with the proposed fact (the review stays open), and Conflict where it was decided otherwise.
        """

        async def make(write: WriteAttempt) -> Change | Review:
            review = await self._get_decidable_review(review_id, decision)
            if review.review_status != "open":
                return review
            change = await self._build_decision_change(write, review, decision)
            learned = [put.id for put in change.upserts if isinstance(put, Fact)][:1] if review.proposed else []
            closed = {
                "review_status": "rejected" if decision in NO_CHANGE_DECISIONS else "accepted",
                "decision": decision,
                "decided_at": write.now,
                "record_ids": tuple(dict.fromkeys((*review.record_ids, *learned))),
            }
            puts = (review.model_copy(update=closed), *change.upserts)
            return replace(change, upserts=puts, expected_versions={**change.expected_versions, review.key: review.seq})

        return await self._context.write(
            Review,
            "resolve_review",
            make,
            idempotency_key=idempotency_key,
            given={"id": review_id, "decision": decision},
        )

    async def _get_decidable_review(self, review_id: str, decision: str) -> Review:
        """The review, if this may be decided of it."""
        review = await self._context.get_one(Review, review_id)
        choices = ALLOWED_DECISIONS[review.about]
        if decision not in choices:
            raise InvalidRecord(
                f"decision must be one of {', '.join(choices)} (the review is about {review.about}), "
                f"got {describe_value(decision)}",
                field="decision",
            )
        if review.review_status != "open" and review.decision != decision:
            raise Conflict(f"review {review_id!r} was decided before: {review.decision}; undo that first")
        if review.superseded_at is not None:
            raise InvalidRecord(f"review {review_id!r} was forgotten; restore it first", field="review_id")
        return review

    async def _build_decision_change(self, write: WriteAttempt, review: Review, decision: str) -> Change:
        """The Change that does what was decided."""
        if decision in NO_CHANGE_DECISIONS:
            return write.build_change()
        if decision == "merge":
            if len(review.record_ids) != 2:
                raise InvalidRecord(f"review {review.id!r} does not name two records", field="record_ids")
            if review.about == "same_fact":
                return await self._build_fact_merge_change(write, review)
            keep, other = await resolve_merged_ids(self._context, review.record_ids)
            return write.build_change() if keep == other else await self._build_merge_change(write, keep, other)
        claim, given = _parse_proposal(review)
        if given.get("slot"):
            given = self._confirm_belief(given, decision)
        if decision == "prefer_new" and (old := await self._find_contradicted_fact(review)) is not None:
            wrong = review.about == "correction"
            return await self.build_supersede_change(
                write, old, claim, given, is_correction=wrong, channel=review.channel
            )
        change, _ = await self.build_learn_change(write, claim, given, review.channel)
        return change

    def _confirm_belief(self, given: Mapping[str, Any], decision: str) -> dict[str, Any]:
        """The fields of a proposed belief as the user's own word of the day it was said, which the table settles.

        InvalidRecord where both are to be kept of a slot that has one value at a time.
        """
        slot = find_slot(given["slot"], self._context.engine.settings.slots)
        if decision == "keep_both" and slot.kind != "set":
            raise InvalidRecord(
                f"decision: {slot.name} has one value at a time; decide prefer_new or prefer_old", field="decision"
            )
        doubts = ("certainty", "source", "trust", "confidence")
        plain = {name: value for name, value in given.items() if name not in doubts}
        begins = {"valid_from": given.get("valid_from") or given.get("said_at")} if decision == "prefer_new" else {}
        return {**plain, **begins, "certainty": "explicit"}

    async def _build_fact_merge_change(self, write: WriteAttempt, review: Review) -> Change:
        """The Change that makes one fact of two, or of what they have become."""
        both = {fact.id for fact in [await self.get_current_successor(name) for name in review.record_ids]}
        if len(both) < 2:
            return write.build_change()
        return await build_merge_change(self._context, write, sorted(both), await read_dependents(self._context))

    async def _find_contradicted_fact(self, review: Review) -> Fact | None:
        """The fact that the proposed one contradicts, or its successor; None where it was forgotten."""
        if not review.record_ids:
            raise InvalidRecord(f"review {review.id!r} names no fact that it is about", field="record_ids")
        named = await self._context.get_one(Fact, review.record_ids[0])
        return None if named.status is Status.FORGOTTEN else await self.get_current_successor(named.id)


def _parse_proposal(review: Review) -> tuple[str, dict[str, Any]]:
    """The claim and the fields of the fact that waits, checked like anything that comes from outside."""
    fields = {name: value for name, value in review.proposed.items() if value is not None}
    for name in fields:
        if name not in PROPOSABLE_FIELDS:
            raise InvalidRecord(f"proposed: a fact has no field {name!r} to set", field="proposed")
    if "claim" not in fields:
        raise InvalidRecord("proposed: the fact has no claim", field="proposed")
    fact = build_record(Fact, **fields)
    for turn, start, end in fact.source_spans:
        if turn not in fact.source_turn_ids or not 0 <= start < end:
            raise InvalidRecord(f"proposed: source_spans name {turn!r} from {start} to {end}", field="source_spans")
    return fact.claim, {name: getattr(fact, name) for name in fields if name != "claim"}
