"""Every recall explains itself: its receipt, why a record was not delivered, and the same bundle again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentmem import AgentMemory, NotFound
from tests.flows.given import ManualClock, engine_of, open_memory


def filled(memory: AgentMemory) -> None:
    memory.store_turns([f"The garden, day {number}." for number in range(60)])
    ann = memory.upsert_entity({"name": "Ann"})
    for number in range(15):
        memory.learn_fact(f"Ann's garden fact number {number}", entity_ids=[ann.id])
    memory.add_goal("Weed the garden")
    memory.update_profile(preferences={"tone": "short"})


@pytest.mark.parametrize("level", ["off", "writes", "reads", "verbose"])
def test_receipts_stay_in_the_process_at_every_level(home: Path, level: str) -> None:
    with open_memory(home, audit_level=level) as memory:
        memory.store_turn("The garden.")
        bundle = memory.remember("garden")
        assert memory.audit.receipt(bundle.receipt.id) is bundle.receipt
        assert json.loads(json.dumps(bundle.receipt.as_dict()))["request"]["query"] == "garden"


def test_the_last_thousand_receipts_are_kept(memory: AgentMemory) -> None:
    inside = engine_of(memory)
    first = memory.remember("x").receipt
    for number in range(999):
        inside.cache_receipt(str(number), first)
    assert memory.audit.receipt(first.id) is first
    inside.cache_receipt("one more", first)
    with pytest.raises(NotFound, match="1,000"):
        memory.audit.receipt(first.id)


def test_a_receipt_names_techniques_ranks_scores_and_factors(memory: AgentMemory) -> None:
    filled(memory)
    receipt = memory.remember("What of Ann's garden on day 7?", top_k=5).receipt
    assert {line.technique for line in receipt.trace} >= {"vector", "keyword", "entity", "temporal", "dialogue"}
    best = max((candidate for candidate in receipt.pool if candidate.kind == "Turn"), key=lambda each: each.score)
    assert best.rank == 1
    assert (best.lists["words"].rank, best.lists["whole"].rank) == (2, 1)
    assert best.why.startswith("whole #1, words #2")
    assert len(receipt.pool.keys) > len(receipt.delivered)
    assert receipt.seq == 78
    assert receipt.embedder == "hash:v1:512"


def test_replay_gives_the_delivered_bundle_after_later_writes(memory: AgentMemory, clock: ManualClock) -> None:
    filled(memory)
    asked = [
        memory.remember("What of Ann's garden on day 7?", top_k=7),
        memory.remember("garden", include=("semantic",)),
        memory.remember("garden", known_at=clock.time, as_of=clock.time),
        memory.scoped(channel="roof").remember("garden"),
    ]
    texts = [str(bundle) for bundle in asked]
    clock.advance(days=2)
    for fact in memory.semantic.facts():
        memory.semantic.supersede_fact(fact.id, f"No longer: {fact.claim}")
    for turn in memory.episodic.recent_turns(40):
        memory.forget(turn.id)
    memory.complete_goal(memory.goals.active()[0].id)
    memory.upsert_entity({"name": "Ann", "description": "moved away"})
    memory.update_profile(preferences={"tone": "long"})
    memory.remember("garden")
    for bundle, text in zip(asked, texts, strict=True):
        again = memory.scoped(channel=bundle.receipt.scope.channel).audit.replay(bundle.receipt.id)
        assert again == bundle
        assert str(again) == text


def test_why_not_tells_each_reason(memory: AgentMemory, clock: ManualClock) -> None:
    filled(memory)
    old = memory.learn_fact("Ann's garden is small")
    memory.semantic.supersede_fact(old.id, "Ann's garden is large")
    gone = memory.store_turn("A garden to forget.")
    memory.forget(gone.id)
    over = memory.learn_fact("The garden was closed", valid_to=clock.time.replace(hour=1))
    private = memory.scoped(channel="roof").learn_fact("The roof garden")
    weak = memory.learn_fact("The garden is haunted", confidence=0.1)
    receipt = memory.remember("garden", top_k=3, min_confidence=0.3, include=("episodic", "semantic")).receipt
    delivered = receipt.delivered[0][1]

    def said(name: str) -> str:
        return str(memory.audit.why_not(receipt.id, name))

    assert said(delivered).startswith("delivered: place 1")
    assert memory.audit.why_not(receipt.id, delivered).delivered
    assert "3 of a kind were asked for" in said(memory.remember("garden", top_k=8).turns[-1].id)
    assert "had ended" in said(old.id)
    assert "forgotten" in said(gone.id)
    assert "had ended" in said(over.id)
    assert "'roof' is not read" in said(private.id)
    assert "confidence" in said(weak.id)
    assert "no record" in said("nothing")
    later = memory.store_turn("The garden, later.")
    assert "no record of this id was known then" in said(later.id)


def test_why_not_tells_of_the_time_asked_for(memory: AgentMemory, clock: ManualClock) -> None:
    turn = memory.store_turn("The garden.")
    receipt = memory.remember("garden", as_of=clock.time.replace(hour=1)).receipt
    assert "not true yet" in str(memory.audit.why_not(receipt.id, turn.id))
    receipt = memory.remember("garden", until=clock.time.replace(hour=1)).receipt
    assert "outside of the time" in str(memory.audit.why_not(receipt.id, turn.id))
