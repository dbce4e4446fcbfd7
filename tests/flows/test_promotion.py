"""Promotion: what proved itself is kept for long, what a project knows well is made known in every channel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentmem import AgentMemory, Fact, InvalidRecord, JobReport, Status
from agentmem.core.scope import Scope
from agentmem.settings.sections import PromotionOptions
from tests.flows.given import ManualClock, context_of, engine_of, open_memory, read_head, read_state, run
from tests.scale import scaled

ROOF = "roof"


def job(memory: AgentMemory, name: str = "promote", *, dry_run: bool = False) -> JobReport:
    return memory.consolidate(name, dry_run)[0]


def known_well(memory: AgentMemory, claim: str = "The roof is blue", **fields: Any) -> Fact:
    """A fact of two projects that reached the thresholds of document 002 in one: recalled in five conversations."""
    memory.scoped(channel="shed").learn_fact(claim, confidence=0.5)
    roof = memory.scoped(channel=ROOF)
    fact = roof.learn_fact(claim, **{"confidence": 0.85, **fields})
    for conversation in "abcde":
        roof.scoped(conversation_id=conversation).remember(claim)
    return fact


def short(memory: AgentMemory, claim: str = "The plumber comes on Friday", **fields: Any) -> Fact:
    return memory.learn_fact(claim, tier="short", **fields)


def due(memory: AgentMemory) -> list[Any]:
    """What any job would find due for promotion now."""
    inside = engine_of(memory)
    return run(inside.job_queue.due_records("promote", inside.clock.now(), context_of(memory).scope, limit=100))


def global_facts(memory: AgentMemory) -> list[Fact]:
    return memory.semantic.facts({"channel": "_global"})


def test_the_thresholds_are_those_of_the_documents() -> None:
    assert PromotionOptions().model_dump() == {
        "score": 0.65,
        "use_count": 5,
        "within_days": 14.0,
        "confidence": 0.85,
        "access_count": 5,
        "conversations": 2,
        "portable_only": False,
    }


def test_five_uses_within_fourteen_days_keep_a_fact_for_long(memory: AgentMemory, clock: ManualClock) -> None:
    fact = short(memory)
    for _ in range(4):
        clock.advance(hours=1)
        memory.curation.touch(fact.id)
    assert job(memory).counts == {}
    memory.curation.touch(fact.id)
    report = job(memory)
    kept = memory.semantic.get_fact(fact.id)
    assert (report.counts, len(report.operation_ids), report.pending) == ({"kept": 1}, 1, 0)
    assert (kept.tier, kept.status, kept.reason) == ("long", Status.PROMOTED, "used 5 times within 14 days")
    assert kept.vault_path == "", "no vault is set"
    assert [each.id for each in memory.remember("When does the plumber come?").facts] == [fact.id]
    assert due(memory) == []


@pytest.mark.parametrize("days, kept", [(14.0, True), (14.1, False)])
def test_the_fifth_use_must_come_within_fourteen_days(home: Path, clock: ManualClock, days: float, kept: bool) -> None:
    with open_memory(home, clock=clock, seed=7, promotion={"score": 1000}) as memory:  # so that uses alone decide
        fact = short(memory)
        for _ in range(4):
            memory.curation.touch(fact.id)
        clock.advance(days=days)
        memory.curation.touch(fact.id)
        assert job(memory).counts == ({"kept": 1} if kept else {})


@pytest.mark.parametrize("uses, kept", [(0, False), (3, True)])
def test_a_score_of_65_hundredths_after_a_half_life_keeps_it(
    memory: AgentMemory, clock: ManualClock, uses: int, kept: bool
) -> None:
    fact = short(memory)
    for _ in range(uses):
        memory.curation.touch(fact.id)
    clock.advance(days=2.9)
    assert job(memory).counts == {}, "a new memory scores 1: it has to be a half-life old"
    clock.advance(days=0.1)
    assert job(memory).counts == ({"kept": 1} if kept else {})
    assert memory.semantic.get_fact(fact.id).tier == ("long" if kept else "short")
    assert due(memory) == []


def test_a_project_s_fact_is_made_known_with_its_thresholds_in_the_audit(memory: AgentMemory) -> None:
    turn = memory.scoped(channel=ROOF).store_turn("The roof is blue.")
    fact = known_well(memory, source_turn_ids=[turn.id], tags=["house"])
    report = job(memory)
    (copy,) = global_facts(memory)
    original = memory.scoped(channel=ROOF).semantic.get_fact(fact.id)
    assert (report.counts, due(memory)) == ({"spread": 1}, [])
    assert (copy.claim, copy.source_turn_ids, copy.tags) == (fact.claim, (turn.id,), ("house",))
    assert (copy.promoted_from, copy.tier, copy.status) == (fact.id, "long", Status.ACTIVE)
    assert (original.promoted_to, original.status) == (copy.id, Status.PROMOTED)
    assert original.reason == "confidence 0.85, recalled 5 times in 5 conversations"
    row = memory.audit.query(operation="promote")[0]
    assert (row["source_channel"], row["target_channels"]) == (ROOF, ["_global"])
    names = ("promoted_from_channel", "promotion_confidence", "promotion_access_count", "promotion_conversation_count")
    assert [row[name] for name in names] == [ROOF, 0.85, 5, 5]
    assert row["config_snapshot"]["promotion"] == {"confidence": 0.85, "access_count": 5, "conversations": 2}
    assert row["metadata"]["reason"] == original.reason
    assert row["operation_id"] == report.operation_ids[0]
    (edge,) = run(engine_of(memory).graph.edges([copy.key], Scope("alice", ROOF), ["PROMOTED_FROM"]))
    assert (edge.source, edge.target) == (copy.id, fact.id)


@pytest.mark.parametrize("confidence, times, conversations", [(0.84, "ababa", 2), (0.9, "abab", 2), (0.9, "aaaaa", 1)])
def test_below_any_of_the_three_thresholds_it_stays_in_its_project(
    memory: AgentMemory, clock: ManualClock, confidence: float, times: str, conversations: int
) -> None:
    roof = memory.scoped(channel=ROOF)
    memory.scoped(channel="shed").learn_fact("The roof is blue", confidence=confidence)
    roof.learn_fact("The roof is blue", confidence=confidence)
    for conversation in times:
        clock.advance(days=1)
        roof.scoped(conversation_id=conversation).remember("roof")
    assert job(memory).counts == {}, conversations
    assert global_facts(memory) == []


def test_private_and_shared_channels_are_never_promoted(memory: AgentMemory) -> None:
    bot = memory.scoped(agent_id="bot", channel="_self_bot")
    swarm = memory.scoped(channel="_swarm")
    for face in (bot, swarm):
        fact = face.learn_fact("The safe is behind the picture", confidence=1.0)
        for conversation in "abcdef":
            face.scoped(conversation_id=conversation).remember("Where is the safe?")
        with pytest.raises(InvalidRecord, match="cannot be promoted"):
            face.semantic.promote_to_global(fact.id, "why not")
    assert job(memory).counts == {}
    assert global_facts(memory) == []


FLOWS = [
    ("a portable slot of the user", {"slot": "spelling", "value": "British"}, "", True),
    ("a portable slot of somebody else", {"slot": "diet", "value": "vegan", "subject": "Bo"}, "", False),
    ("a slot that is not portable", {"slot": "boss", "value": "Ingrid"}, "", False),
    ("a private slot", {"slot": "phone", "value": "0151 2345"}, "", False),
    ("a private slot said in two projects", {"slot": "phone", "value": "0151 2345"}, "shed", False),
    ("an open claim", {}, "", False),
    ("an open claim said in two projects", {}, "shed", True),
    ("an open claim said in an agent's private channel", {}, "_self_bot", False),
    ("a slot said in two projects", {"slot": "boss", "value": "Ingrid"}, "shed", True),
]


@pytest.mark.parametrize("fields, elsewhere, flows", [row[1:] for row in FLOWS], ids=[row[0] for row in FLOWS])
def test_only_what_may_flow_is_made_known_everywhere(
    memory: AgentMemory, fields: dict[str, Any], elsewhere: str, flows: bool
) -> None:
    claim = "The heron likes it so"
    if elsewhere:
        agent = "bot" if elsewhere.startswith("_self") else None
        memory.scoped(channel=elsewhere, agent_id=agent).learn_fact(claim, **fields)
    roof = memory.scoped(channel=ROOF)
    fact = roof.learn_fact(claim, tier="short", confidence=0.9, **fields)
    for conversation in "abcde":
        roof.scoped(conversation_id=conversation).remember(f"{claim} {fields.get('value', '')}")
    assert job(memory, dry_run=True).counts == ({"spread": 1} if flows else {})
    assert job(memory).counts == ({"spread": 1} if flows else {})
    assert [each.claim for each in global_facts(memory)] == ([claim] if flows else [])
    assert due(memory) == [], "what may not flow is not looked at again and again"
    if not flows:
        assert roof.semantic.promote_to_global(fact.id, "by hand").channel == "_global"


@pytest.mark.parametrize(
    "said", ["Between us: I like British spelling.", "Das ist vertraulich.", "This is confidential."]
)
def test_what_was_told_in_confidence_stays_where_it_was_told(memory: AgentMemory, said: str) -> None:
    roof = memory.scoped(channel=ROOF)
    turn = roof.store_turn(said)
    roof.learn_fact("spelling", slot="spelling", value="British", confidence=0.9, source_turn_ids=[turn.id])
    for conversation in "abcde":
        roof.scoped(conversation_id=conversation).remember("British spelling")
    assert job(memory).counts == {}


def test_what_may_not_flow_fades_all_the_same(memory: AgentMemory, clock: ManualClock) -> None:
    roof = memory.scoped(channel=ROOF)
    fact = roof.learn_fact("The roof is blue", tier="short", confidence=0.9)
    for conversation in "abcde":
        roof.scoped(conversation_id=conversation).remember("roof")
    memory.consolidate("promote")
    clock.advance(days=20)
    memory.consolidate("gc")
    assert roof.semantic.get_fact(fact.id).status is Status.ARCHIVED


def test_a_claim_that_is_known_everywhere_gains_the_sources(memory: AgentMemory) -> None:
    own = memory.store_turn("Our roof is blue.")
    there = memory.learn_fact("The roof is blue", confidence=0.6, source_turn_ids=[own.id])
    turn = memory.scoped(channel=ROOF).store_turn("The roof is blue.")
    known_well(memory, source_turn_ids=[turn.id])
    assert job(memory).counts == {"spread": 1}
    (fact,) = global_facts(memory)
    assert (fact.id, fact.source_turn_ids, fact.confidence) == (there.id, (own.id, turn.id), 0.85)
    assert fact.promoted_from is None, "it stood there by itself"
    memory.scoped(channel=ROOF).forget(turn.id, hard=True)
    assert [each.id for each in global_facts(memory)] == [there.id]


def test_promoted_once_it_is_not_promoted_again(memory: AgentMemory) -> None:
    fact = known_well(memory)
    job(memory)
    (copy,) = global_facts(memory)
    before = read_head(memory)
    for conversation in "cdefgh":
        memory.scoped(channel=ROOF, conversation_id=conversation).remember("roof")
    assert job(memory).counts == {}
    roof = memory.scoped(channel=ROOF)
    assert roof.semantic.promote_to_global(fact.id, "again") == copy
    assert roof.curation.promote(fact.id, "global").operation_id == ""
    assert read_head(memory) == before
    memory.forget(copy.id)
    assert job(memory).counts == {}, "what was forgotten does not come back by itself"
    assert roof.semantic.promote_to_global(fact.id, "wanted after all").id != copy.id


def test_a_dry_run_says_what_it_would_do_and_writes_nothing(memory: AgentMemory, clock: ManualClock) -> None:
    known_well(memory)
    fact = short(memory)
    for _ in range(5):
        memory.curation.touch(fact.id)
    before, waiting = read_state(memory), due(memory)
    foreseen = job(memory, dry_run=True)
    assert (foreseen.counts, foreseen.operation_ids) == ({"kept": 1, "spread": 1}, [])
    assert (read_state(memory), due(memory)) == (before, waiting)
    assert job(memory).counts == foreseen.counts


@settings(max_examples=scaled(10, least=3), derandomize=True)
@given(st.lists(st.integers(0, 6), min_size=1, max_size=4))
def test_twice_is_once_and_undo_gives_the_former_state(
    tmp_path_factory: pytest.TempPathFactory, uses: list[int]
) -> None:
    clock = ManualClock()
    with open_memory(tmp_path_factory.mktemp("home"), clock=clock, seed=7) as memory:
        roof = memory.scoped(channel=ROOF)
        for number, times in enumerate(uses):
            face = roof if number % 2 else memory
            fact = face.learn_fact(f"Guest {number} sleeps upstairs", tier="short", confidence=0.9)
            for _ in range(times):
                face.curation.touch(fact.id)
        known_well(memory)
        clock.advance(days=3)
        before = read_state(memory)
        report = job(memory)
        after = read_state(memory)
        assert (job(memory).counts, read_state(memory), due(memory)) == ({}, after, [])
        for operation in reversed(report.operation_ids):
            roof.undo(operation)
        assert read_state(memory) == before
        assert job(memory).counts == {}, "what a person took back is not done again"
        for note in report.notes:
            roof.curation.touch(note.partition(":")[0])
        assert job(memory).counts == {}, "nor after one more use"


def test_what_was_kept_for_long_may_still_be_made_known_everywhere(memory: AgentMemory) -> None:
    fact = known_well(memory, tier="short")
    roof = memory.scoped(channel=ROOF)
    roof.curation.promote(fact.id)
    assert roof.semantic.get_fact(fact.id).tier == "long"
    assert job(memory).counts == {"spread": 1}


@pytest.mark.parametrize("name", ["promote", "clusters"])
def test_one_worker_at_a_time(memory: AgentMemory, name: str) -> None:
    known_well(memory)
    before = read_head(memory)
    assert run(engine_of(memory).log.acquire_lease(f"{name}:alice", 30.0, "another")) is not None
    assert job(memory, name).stop_reason == f"job {name} of 'alice': another worker is at it"
    assert read_head(memory) == before
    run(engine_of(memory).log.release_lease(f"{name}:alice", "another"))
    assert job(memory, name).stop_reason == ""


def test_by_hand_to_long_and_to_every_channel(memory: AgentMemory) -> None:
    fact = short(memory)
    done = memory.curation.promote(fact.id, reason="I need this", idempotency_key="k")
    assert (done.fact.tier, done.fact.status, done.fact.reason) == ("long", Status.PROMOTED, "I need this")
    assert memory.curation.promote(fact.id, reason="I need this", idempotency_key="k") == done
    assert memory.curation.promote(fact.id).operation_id == ""
    for wrong in ("everywhere", ""):
        with pytest.raises(InvalidRecord) as caught:
            memory.curation.promote(fact.id, wrong)
        assert caught.value.field == "to"
    memory.forget(fact.id)
    with pytest.raises(InvalidRecord, match="does not hold"):
        memory.curation.promote(fact.id)


def test_a_fact_that_ended_is_not_promoted(memory: AgentMemory, clock: ManualClock) -> None:
    known_well(memory, valid_to=clock.time.replace(day=2))
    clock.advance(days=3)
    assert job(memory).counts == {}
    assert due(memory) == []
