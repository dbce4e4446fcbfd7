"""What is doubtful waits outside of recall, is decided once, and leaves nothing behind when its ground is erased."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from agentmem import AgentMemory, Conflict, InvalidRecord, NotFound
from agentmem.core.changes import Change, WriteAttempt
from agentmem.core.edges import build_mention
from agentmem.core.record import Record
from agentmem.core.records import Gloss, Review
from agentmem.memory import erasure
from agentmem.memory.semantic.reviews import ALLOWED_DECISIONS, same_entity_review_id
from tests.flows.given import (
    START,
    ManualClock,
    context_of,
    engine_of,
    last_operation_id,
    open_memory,
    read_head,
    read_state,
    run,
)
from tests.flows.test_erasure import MARK, traces

KEY = "the key"


def put(memory: AgentMemory, record: Record) -> Any:
    """Store a record as consolidation does: through the one way to write."""

    async def make(write: WriteAttempt) -> Change:
        return write.build_change(record.model_copy(update={"channel": context_of(memory).scope.channel}))

    entry = run(engine_of(memory).write(context_of(memory).scope, "consolidate", make, kind=record.kind))
    assert entry is not None
    return entry.upserts[0].record


def ask(memory: AgentMemory, about: str, question: str = "Is it so?", **fields: Any) -> Review:
    """An open review."""
    review_id = fields.pop("id", "") or engine_of(memory).ids.new_id()
    found: Review = put(memory, Review(id=review_id, about=about, question=question, **fields))
    return found


def contested(memory: AgentMemory, about: str = "contradiction", old: str = "Ann lives in Oslo") -> Review:
    """A review of a claim that stands against a known one."""
    fact = memory.learn_fact(old, tags=["home"])
    return ask(memory, about, record_ids=(fact.id,), proposed={"claim": "Ann lives in Bergen"})


def claims(memory: AgentMemory, **where: Any) -> list[str]:
    return [fact.claim for fact in memory.semantic.facts(where)]


def test_open_reviews_are_listed_oldest_first(memory: AgentMemory, clock: ManualClock) -> None:
    made = []
    for number, about in enumerate(("doubtful", "ungrounded", "doubtful")):
        clock.advance(minutes=1)
        made.append(ask(memory, about, f"Number {number}?", proposed={"claim": "x"}))
    assert memory.semantic.reviews() == made
    assert memory.semantic.reviews("doubtful") == [made[0], made[2]]
    assert memory.semantic.reviews(limit=1) == made[:1]
    memory.semantic.resolve_review(made[0].id, "reject")
    memory.forget(made[1].id)
    assert memory.semantic.reviews() == made[2:]
    with pytest.raises(InvalidRecord, match="ungrounded, doubtful, contradiction, correction, same_entity"):
        memory.semantic.reviews("taste")
    with pytest.raises(InvalidRecord, match="limit"):
        memory.semantic.reviews(limit=-1)


def test_reviews_of_other_channels_and_users_are_out_of_sight(memory: AgentMemory) -> None:
    roof = memory.scoped(channel="roof")
    review = ask(roof, "doubtful", proposed={"claim": "x"})
    assert roof.semantic.reviews() == [review]
    for stranger in (memory, memory.scoped(user_id="bob", channel="roof")):
        assert stranger.semantic.reviews() == []
        with pytest.raises(NotFound):
            stranger.semantic.resolve_review(review.id, "accept")


@pytest.mark.parametrize("about", ["ungrounded", "doubtful"])
def test_an_accepted_claim_becomes_a_fact_with_its_sources(memory: AgentMemory, about: str) -> None:
    roof = memory.scoped(channel="roof")
    turn = roof.store_turn("My sister Ann may live in Oslo.")
    ann = roof.upsert_entity({"name": "Ann"})
    proposed = {
        "claim": "Ann lives in Oslo",
        "source": "rules",
        "confidence": 0.4,
        "source_turn_ids": [turn.id],
        "source_spans": [[turn.id, 3, 30]],
        "entity_ids": [ann.id],
        "valid_from": START.isoformat(),
        "tags": None,
    }
    review = ask(roof, about, proposed=proposed, source_turn_ids=(turn.id,))
    assert (roof.remember("Oslo").facts, memory.semantic.facts()) == ((), [])
    decided = roof.semantic.resolve_review(review.id, "accept")
    (fact,) = roof.semantic.facts()
    assert (fact.claim, fact.source, fact.confidence, fact.channel) == ("Ann lives in Oslo", "rules", 0.4, "roof")
    assert (fact.source_turn_ids, fact.source_spans) == ((turn.id,), ((turn.id, 3, 30),))
    assert (fact.entity_ids, fact.valid_from) == ((ann.id,), START)
    assert (decided.review_status, decided.decision, decided.decided_at) == ("accepted", "accept", START)
    assert decided.record_ids == (fact.id,)
    assert decided.operation_id == fact.operation_id
    assert roof.semantic.reviews() == []
    assert [found.claim for found in roof.remember("Oslo").facts] == ["Ann lives in Oslo"]


def test_an_accepted_claim_that_is_known_gains_the_sources(memory: AgentMemory) -> None:
    first, second = memory.store_turns(["one", "two"])
    known = memory.learn_fact("Ann sings", source_turn_ids=[first.id])
    proposed = {"claim": "Ann sings.", "source_turn_ids": [second.id], "source_spans": [[second.id, 0, 3]]}
    decided = memory.semantic.resolve_review(ask(memory, "doubtful", proposed=proposed).id, "accept")
    (fact,) = memory.semantic.facts()
    assert (fact.id, fact.claim, fact.source_turn_ids) == (known.id, "Ann sings", (first.id, second.id))
    assert fact.source_spans == ((second.id, 0, 3),)
    assert decided.record_ids == (known.id,)


def test_a_rejected_claim_stays_out(memory: AgentMemory) -> None:
    review = ask(memory, "ungrounded", proposed={"claim": "Ann sings"})
    decided = memory.semantic.resolve_review(review.id, "reject")
    assert (decided.review_status, decided.decision, decided.record_ids) == ("rejected", "reject", ())
    assert claims(memory, retired=True) == []


@pytest.mark.parametrize("about", ["contradiction", "correction"])
@pytest.mark.parametrize(
    "decision, left",
    [
        ("prefer_new", ["Ann lives in Bergen"]),
        ("prefer_old", ["Ann lives in Oslo"]),
        ("keep_both", ["Ann lives in Oslo", "Ann lives in Bergen"]),
    ],
)
def test_one_of_two_claims_is_preferred_or_both_are_kept(
    memory: AgentMemory, clock: ManualClock, about: str, decision: str, left: list[str]
) -> None:
    review = contested(memory, about)
    decided_at = clock.advance(days=1)
    decided = memory.semantic.resolve_review(review.id, decision)
    assert claims(memory) == left
    old = memory.semantic.get_fact(review.record_ids[0])
    if decision != "prefer_new":
        assert old.superseded_by is None
        return
    new = memory.semantic.get_fact(decided.record_ids[1])
    assert (new.supersedes, new.tags, old.superseded_by) == (old.id, ("home",), new.id)
    if about == "contradiction":  # the world changed: it was true until then
        assert (old.valid_to, old.superseded_at, new.valid_from) == (decided_at, None, decided_at)
        assert claims(memory, as_of=START + timedelta(hours=1)) == ["Ann lives in Oslo"]
    else:  # it never was
        assert (old.valid_to, old.superseded_at, new.valid_from) == (None, decided_at, None)
        assert claims(memory, as_of=START + timedelta(hours=1)) == ["Ann lives in Bergen"]


def test_what_came_in_the_place_of_the_old_fact_gives_way(memory: AgentMemory, clock: ManualClock) -> None:
    review = contested(memory)
    clock.advance(days=1)
    memory.semantic.supersede_fact(review.record_ids[0], "Ann lives in Rome")
    clock.advance(days=1)
    memory.semantic.resolve_review(review.id, "prefer_new")
    assert claims(memory) == ["Ann lives in Bergen"]


def test_where_the_old_fact_was_forgotten_the_new_one_is_learned(memory: AgentMemory) -> None:
    review = contested(memory)
    memory.forget(review.record_ids[0])
    memory.semantic.resolve_review(review.id, "prefer_new")
    assert claims(memory) == ["Ann lives in Bergen"]


def test_the_new_fact_stands_in_the_channel_of_its_review(memory: AgentMemory) -> None:
    old = memory.learn_fact("Ann lives in Oslo")
    roof = memory.scoped(channel="roof")
    review = ask(roof, "correction", record_ids=(old.id,), proposed={"claim": "Ann lives in Bergen"})
    roof.semantic.resolve_review(review.id, "prefer_new")
    assert [(fact.claim, fact.channel) for fact in roof.semantic.facts()] == [("Ann lives in Bergen", "roof")]
    assert claims(memory) == []


def test_two_entities_are_merged_or_kept_apart_for_good(memory: AgentMemory) -> None:
    ann, anna, cleo = (memory.upsert_entity({"name": name}).id for name in ("Ann", "Anna", "Cleo"))
    fact = memory.learn_fact("Anna sings", entity_ids=[anna])
    assert memory.semantic.find_same_entity_review(ann, anna) is None
    reviews = [
        ask(
            memory,
            "same_entity",
            f"Is it {first}?",
            record_ids=(first, second),
            id=same_entity_review_id("alice", first, second),
        )
        for first, second in ((ann, anna), (cleo, ann))
    ]
    assert memory.semantic.find_same_entity_review(anna, ann) == reviews[0]
    merged = memory.semantic.resolve_review(reviews[0].id, "merge")
    apart = memory.semantic.resolve_review(reviews[1].id, "keep_apart")
    assert memory.semantic.get_fact(fact.id).entity_ids == (ann,)
    assert {entity.id for entity in memory.semantic.entities()} == {ann, cleo}
    assert memory.semantic.find_same_entity_review(anna, ann) == merged
    assert memory.semantic.find_same_entity_review(ann, cleo) == apart
    assert (merged.review_status, apart.review_status) == ("accepted", "rejected")


def test_entities_that_became_one_meanwhile_are_merged_as_what_they_are(memory: AgentMemory) -> None:
    ann, anna, cleo = (memory.upsert_entity({"name": name}).id for name in ("Ann", "Anna", "Cleo"))
    done = ask(memory, "same_entity", "Is it one?", record_ids=(ann, anna))
    onward = ask(memory, "same_entity", "Is it another?", record_ids=(ann, cleo))
    memory.semantic.merge_entities(anna, ann)
    assert memory.semantic.resolve_review(done.id, "merge").review_status == "accepted"
    memory.semantic.resolve_review(onward.id, "merge")
    (kept,) = memory.semantic.entities()
    assert (kept.id, kept.aliases) == (anna, ("Ann", "Cleo"))


@pytest.mark.parametrize("about", ALLOWED_DECISIONS)
def test_a_wrong_decision_names_those_that_are_allowed(memory: AgentMemory, about: str) -> None:
    review = ask(memory, about, proposed={"claim": "x"})
    at = read_head(memory)
    for word in ("", "yes", "accept" if about.startswith("same") else "merge"):
        with pytest.raises(InvalidRecord, match=", ".join(ALLOWED_DECISIONS[about])) as refused:
            memory.semantic.resolve_review(review.id, word)
        assert refused.value.field == "decision"
    assert read_head(memory) == at


def test_the_same_decision_again_is_the_same_and_another_a_conflict(memory: AgentMemory, clock: ManualClock) -> None:
    review = ask(memory, "doubtful", proposed={"claim": "Ann sings"})
    decided = memory.semantic.resolve_review(review.id, "accept", idempotency_key=KEY)
    at = read_head(memory)
    clock.advance(hours=1)
    assert memory.semantic.resolve_review(review.id, "accept") == decided
    assert memory.semantic.resolve_review(review.id, "accept", idempotency_key=KEY) == decided
    for key in (None, KEY):
        with pytest.raises(Conflict):
            memory.semantic.resolve_review(review.id, "reject", idempotency_key=key)
    assert read_head(memory) == at


MALFORMED: dict[str, dict[str, Any]] = {
    "nothing": {},
    "no claim": {"tags": ["a"]},
    "an empty claim": {"claim": " "},
    "a claim that is no text": {"claim": 7},
    "an unknown field": {"claim": "x", "superseded_by": "y"},
    "an id": {"claim": "x", "id": "y"},
    "a channel": {"claim": "x", "channel": "roof"},
    "a confidence above 1": {"claim": "x", "confidence": 1.5},
    "a list that is text": {"claim": "x", "tags": "a"},
    "a source that is not there": {"claim": "x", "source_turn_ids": ["nowhere"]},
    "an entity that is not there": {"claim": "x", "entity_ids": ["nobody"]},
    "a premise that is not there": {"claim": "x", "depends_on": ["nothing"]},
    "a span of no source": {"claim": "x", "source_spans": [["nowhere", 0, 1]]},
    "an end before the beginning": {"claim": "x", "valid_from": "2026-02-02", "valid_to": "2026-01-01"},
    "a date that is none": {"claim": "x", "valid_from": "soon"},
}


@pytest.mark.parametrize("proposed", MALFORMED.values(), ids=MALFORMED)
@pytest.mark.parametrize("about", ["doubtful", "contradiction"])
def test_a_malformed_proposal_is_refused_and_the_review_stays_open(
    memory: AgentMemory, about: str, proposed: dict[str, Any]
) -> None:
    old = memory.learn_fact("Ann lives in Oslo")
    review = ask(memory, about, proposed=proposed, record_ids=(old.id,))
    at = read_head(memory)
    with pytest.raises(InvalidRecord):
        memory.semantic.resolve_review(review.id, "accept" if about == "doubtful" else "prefer_new")
    assert read_head(memory) == at
    assert memory.semantic.reviews() == [review]


@pytest.mark.parametrize("about, decision", [("contradiction", "prefer_new"), ("same_entity", "merge")])
def test_a_review_that_names_nothing_is_refused(memory: AgentMemory, about: str, decision: str) -> None:
    review = ask(memory, about, proposed={"claim": "x"})
    with pytest.raises(InvalidRecord, match="name"):
        memory.semantic.resolve_review(review.id, decision)
    assert memory.semantic.reviews() == [review]


@pytest.mark.parametrize("decision", ALLOWED_DECISIONS["contradiction"])
def test_a_decision_is_taken_back_whole(memory: AgentMemory, decision: str) -> None:
    review = contested(memory)
    before = read_state(memory)
    memory.semantic.resolve_review(review.id, decision)
    memory.undo(last_operation_id(memory))
    assert read_state(memory) == before
    assert [each.id for each in memory.semantic.reviews()] == [review.id]


# -- erasing and forgetting what they rest on


def test_reviews_go_with_their_only_source_and_lose_one_of_several(memory: AgentMemory) -> None:
    first, second = memory.store_turns(["one", "two"])
    ann = memory.upsert_entity({"name": "Ann"})
    both = {"source_turn_ids": [first.id, second.id], "source_spans": [[first.id, 0, 3], [second.id, 0, 3]]}
    proposed = {"claim": "Ann sings", "entity_ids": [ann.id], **both}
    alone = ask(memory, "doubtful", "Alone?", proposed={"claim": "x"}, source_turn_ids=(first.id,))
    kept = ask(memory, "doubtful", "Both?", proposed=proposed, source_turn_ids=(first.id, second.id))
    ask(memory, "doubtful", "Odd?", proposed={"claim": "y", "source_spans": [7, [], [first.id]], "entity_ids": 3})
    receipt = memory.forget(first.id, hard=True)
    assert receipt.derived == (alone.id,)
    memory.forget(ann.id, hard=True)
    left = {review.id: review for review in memory.semantic.reviews()}
    assert alone.id not in left
    lighter = left[kept.id]
    assert lighter.source_turn_ids == (second.id,)
    assert lighter.proposed == {
        "claim": "Ann sings",
        "entity_ids": [],
        "source_turn_ids": [second.id],
        "source_spans": [[second.id, 0, 3]],
    }
    assert memory.semantic.resolve_review(kept.id, "accept").review_status == "accepted"


def test_a_review_goes_with_what_it_is_about_and_with_the_fact_it_became(memory: AgentMemory) -> None:
    review = contested(memory)
    other = ask(memory, "doubtful", "Really?", proposed={"claim": "Ben sings"})
    decided = memory.semantic.resolve_review(other.id, "accept")
    assert memory.forget(review.record_ids[0], hard=True).derived == (review.id,)
    assert memory.forget(decided.record_ids[0], hard=True).derived == (other.id,)
    for gone in (review, other):
        with pytest.raises(NotFound):
            memory.semantic.resolve_review(gone.id, "reject")


def test_erasing_any_source_of_a_gloss_erases_the_gloss(memory: AgentMemory) -> None:
    first, second, third = memory.store_turns(["one", "two", "three"])
    for turn, leans in ((first, ()), (second, (first.id,)), (third, ())):
        put(memory, Gloss(id=turn.id, standalone=f"It is {turn.content}.", source_turn_ids=(turn.id, *leans)))
    ann = memory.upsert_entity({"name": "Ann"})
    put(memory, build_mention("alice", "_global", second.id, ann.id))
    gone = put(memory, build_mention("alice", "_global", first.id, ann.id))
    receipt = memory.forget(first.id, hard=True)
    assert (receipt.ids, receipt.derived) == ((first.id,), (gone.id,)), "the second turn stays, and whom it names"
    assert [turn.id for turn in memory.episodic.recent_turns()] == [second.id, third.id]
    glosses = run(
        engine_of(memory).log.read_records("Gloss", [first.id, second.id, third.id], context_of(memory).scope)
    )
    assert [gloss.id for gloss in glosses] == [third.id]


@pytest.mark.parametrize("whole", [False, True], ids=["turn", "conversation"])
def test_a_gloss_is_forgotten_and_restored_with_its_turn(memory: AgentMemory, whole: bool) -> None:
    turn = memory.store_turn({"content": "It is one.", "conversation_id": "c"})
    put(memory, Gloss(id=turn.id, standalone="The number is one.", source_turn_ids=(turn.id,)))
    before = read_state(memory)
    receipt = memory.forget("c" if whole else turn.id)
    assert sorted(receipt.ids) == sorted(["c", turn.id] if whole else [turn.id])
    (gloss,) = run(engine_of(memory).log.read_records("Gloss", [turn.id], context_of(memory).scope))
    assert gloss.superseded_at is not None
    restored = memory.restore("c" if whole else turn.id)
    assert {record.kind for record in restored} == ({"Conversation"} if whole else set()) | {"Turn", "Gloss"}
    assert read_state(memory) == before
    memory.forget("c" if whole else turn.id)
    memory.undo(last_operation_id(memory))
    assert read_state(memory) == before


@pytest.mark.parametrize("kind", ["Review", "Gloss"])
def test_what_is_written_while_its_turn_is_erased_goes_too(
    memory: AgentMemory, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    every, looks = erasure.list_across_channels, []
    turn = memory.store_turn("one")
    late = {
        "Review": Review(id="late", about="doubtful", question="Is it?", source_turn_ids=(turn.id,)),
        "Gloss": Gloss(id="late", standalone="It is one.", source_turn_ids=("late", turn.id)),
    }[kind]

    async def make(write: WriteAttempt) -> Change:
        return write.build_change(late)

    async def slowly(at: Any, where: Any) -> Any:
        found = await every(at, where)
        looks.append(where.kinds)
        if looks.count((kind,)) == 2 and where.kinds == (kind,):  # the last look before it is erased
            await engine_of(memory).write(context_of(memory).scope, "late", make, kind=kind)
        return found

    monkeypatch.setattr(erasure, "list_across_channels", slowly)
    memory.forget(turn.id, hard=True)
    assert run(engine_of(memory).log.read_records(kind, ["late"], context_of(memory).scope)) == []


def test_nothing_is_left_of_the_reviews_and_glosses_of_an_erased_turn(home: Path) -> None:
    with open_memory(home, audit_level="verbose") as memory:
        turn = memory.store_turn(f"My code is {MARK}.", turn_id="t")
        kept = memory.store_turn("A harmless turn about tea.")
        put(memory, Gloss(id="t", standalone=f"The code is {MARK}.", keys=(MARK,), source_turn_ids=("t",)))
        put(memory, Gloss(id=kept.id, standalone=f"Tea after {MARK}.", source_turn_ids=(kept.id, "t")))
        for number, decision in enumerate(("accept", "reject", None)):
            review = ask(
                memory,
                "doubtful",
                f"Is {MARK} {number} right?",
                source_turn_ids=("t",),
                proposed={"claim": f"The code is {MARK} {number}", "source_turn_ids": ["t"]},
            )
            if decision:
                memory.semantic.resolve_review(review.id, decision)
        memory.flush()
        assert traces(home)
        receipt = memory.forget(turn.id, hard=True)
        assert receipt.scan is not None
        assert (receipt.scan.leftovers, receipt.scan.deferred) == ({}, ())
        assert traces(home) == []
        assert memory.semantic.reviews() == memory.semantic.facts({"retired": True}) == []
