"""What fades: the danger zone, forgetting what nobody needed, and what recall makes of it meanwhile."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentmem import AgentMemory, Fact, InvalidRecord, JobReport, Status
from agentmem.core.clock import from_micros
from agentmem.jobs.job import RecordNote
from agentmem.settings.sections import DecayOptions
from tests.flows.given import (
    ManualClock,
    bundle_ids,
    context_of,
    engine_of,
    open_memory,
    read_head,
    read_state,
    read_tables,
    run,
)
from tests.scale import scaled

AWAKE = ("decay", "gc", "cleanup")
NOTED = ("leases", "job_states", "store_meta")  # what a run of a job notes of itself
GONE = 13.0  # days after which a new short-lived fact that nobody used scores less than .05


def job(memory: AgentMemory, name: str = "gc", **more: Any) -> JobReport:
    return memory.consolidate(name, **more)[0]


def short(memory: AgentMemory, claim: str = "The build is red", **fields: Any) -> Fact:
    """A short-lived fact; `certainty` is said of it afterwards."""
    later = {name: fields.pop(name) for name in ("certainty",) if name in fields}
    fact = memory.learn_fact(claim, **{"tier": "short", **fields})
    return memory.semantic.update_fact(fact.id, **later) if later else fact


def due(memory: AgentMemory, name: str) -> list[Any]:
    inside = engine_of(memory)
    return run(inside.job_queue.due_records(name, inside.clock.now(), context_of(memory).scope))


def usage(memory: AgentMemory, fact: Fact) -> Any:
    return run(engine_of(memory).log.usage([fact.key], context_of(memory).scope)).get(fact.key)


def test_what_nobody_used_is_archived_and_undo_brings_it_back(memory: AgentMemory, clock: ManualClock) -> None:
    fact, lasting = short(memory), memory.learn_fact("The build is in Rust")
    before = read_state(memory)
    clock.advance(days=GONE - 0.1)
    assert job(memory).counts == {}
    clock.advance(days=0.1)
    report = job(memory)
    assert report.counts == {"archived": 1}
    (note,) = report.notes
    assert note == f"Fact {fact.id}: archived: score 0.050 is below 0.05 after 13 days without use"
    assert isinstance(note, RecordNote)
    assert (note.record.id, note.action, note.reason) == (fact.id, "archived", note.rpartition(": ")[2])
    assert memory.semantic.get_fact(fact.id).status is Status.ARCHIVED
    assert bundle_ids(memory.remember("Is the build red?", reinforce=False)) == {lasting.id}
    (operation,) = report.operation_ids
    memory.undo(operation)
    assert read_state(memory) == before
    clock.advance(days=100)
    assert job(memory).counts == {}  # who brought it back wants it
    for _ in range(2):
        memory.observe_usage([fact.id])
    clock.advance(days=20)
    assert job(memory, "promote").counts == {"kept": 1}


def test_a_dry_run_says_what_would_go_and_changes_nothing(memory: AgentMemory, clock: ManualClock) -> None:
    facts = [short(memory, f"Build {n} is red") for n in range(3)]
    clock.advance(days=GONE)
    before = read_tables(memory, NOTED)
    for name in AWAKE:
        report = job(memory, name, dry_run=True)
        assert report.dry_run
        assert report.operation_ids == []
        assert report.counts == {"gc": {"archived": 3}, "decay": {"fact": 3}, "cleanup": {}}[name]
    assert read_tables(memory, NOTED) == before
    assert len(job(memory).operation_ids) == 1  # all of a channel at once
    assert {memory.semantic.get_fact(fact.id).status for fact in facts} == {Status.ARCHIVED}


def test_a_claim_said_again_keeps_the_greatest_importance(memory: AgentMemory) -> None:
    assert short(memory).importance is None
    assert short(memory, importance=0.9).importance == 0.9
    assert short(memory, importance=0.2).importance == 0.9
    assert short(memory).importance == 0.9


@pytest.mark.parametrize("importance", [-0.1, 1.1, float("nan")])
def test_importance_lies_within_0_and_1(memory: AgentMemory, importance: float) -> None:
    with pytest.raises(InvalidRecord) as caught:
        short(memory, importance=importance)
    assert caught.value.field == "importance"


def test_what_is_important_or_serves_an_open_goal_is_spared(memory: AgentMemory, clock: ManualClock) -> None:
    turn = memory.store_turn("The deploy key lies in the safe.")
    goal = memory.add_goal({"description": "Deploy", "conversation_id": turn.conversation_id})
    served = short(memory, "The key lies in the safe", source_turn_ids=[turn.id])
    precious = short(memory, "The code is 1234", importance=0.8)
    noise = short(memory)
    clock.advance(days=GONE)
    report = job(memory)
    assert report.counts == {"archived": 1, "spared": 1}
    assert f"Fact {served.id}: spared: the open goal {goal.id!r} may need it" in report.notes
    assert memory.semantic.get_fact(noise.id).status is Status.ARCHIVED
    assert due(memory, "gc") == []
    memory.complete_goal(goal.id)
    clock.advance(days=3)
    assert job(memory).counts == {"archived": 1}
    clock.advance(days=1000)
    assert job(memory).counts == {}
    assert memory.semantic.get_fact(precious.id).status is Status.ACTIVE


@pytest.mark.parametrize("nights", [(17,), (14, 15, 16, 17), (13, 17)])
def test_when_a_spared_fact_is_looked_at_again_does_not_hang_on_the_nights(
    memory: AgentMemory, clock: ManualClock, nights: tuple[int, ...]
) -> None:
    """Every three days, the half-life, since it faded (after 12.97), whichever nights passed without a job."""
    turn = memory.store_turn("The deploy key lies in the safe.")
    goal = memory.add_goal({"description": "Deploy", "conversation_id": turn.conversation_id})
    short(memory, "The key lies in the safe", source_turn_ids=[turn.id])
    begun = clock.time
    for night in nights:
        clock.time = begun + timedelta(days=night)
        job(memory)
    memory.complete_goal(goal.id)
    clock.time = begun + timedelta(days=18)
    assert job(memory).counts == {}
    clock.time = begun + timedelta(days=19)
    assert job(memory).counts == {"archived": 1}


def test_what_was_used_meanwhile_stays(memory: AgentMemory, clock: ManualClock) -> None:
    fact = short(memory)
    clock.advance(days=GONE)
    memory.remember("Is the build red?")  # a delivery is enough not to be forgotten
    assert job(memory).counts == {}
    assert usage(memory, fact).access_count == 1
    clock.advance(days=GONE)
    assert job(memory).counts == {"archived": 1}


def test_forgotten_for_good_where_the_settings_say_so(home: Path, clock: ManualClock) -> None:
    with open_memory(home, clock=clock, seed=7, decay=DecayOptions(forget="delete")) as memory:
        fact, kept = short(memory), memory.learn_fact("The build is in Rust")
        clock.advance(days=GONE)
        assert job(memory, dry_run=True).counts == {"deleted": 1}
        report = job(memory)
        assert report.counts == {"deleted": 1}
        assert len(report.operation_ids) == 1
        assert [each.id for each in memory.semantic.facts({"retired": True})] == [kept.id]
        assert fact.id not in bundle_ids(memory.remember("Is the build red?"))
        assert "red" not in str(read_tables(memory)["memory_versions"])


def test_a_claim_learned_again_after_it_was_archived_is_a_new_fact(memory: AgentMemory, clock: ManualClock) -> None:
    old = short(memory)
    clock.advance(days=GONE)
    job(memory)
    new = short(memory)
    assert new.id != old.id
    assert [fact.id for fact in memory.semantic.facts()] == [new.id]


def test_the_danger_zone_is_noted_when_it_is_entered_and_left(memory: AgentMemory, clock: ManualClock) -> None:
    fact = short(memory)
    found = []
    for _ in range(10):
        clock.advance(days=1)
        report = job(memory, "decay")
        found.append((report.counts, round(usage(memory, fact).review_priority, 2)))
        assert due(memory, "decay") == []
    assert [counts for counts, _ in found if counts] == [{"fact": 1, "endangered": 1}, {"fact": 1}]
    assert [priority for _, priority in found] == [0.0] * 4 + [0.58] * 4 + [0.0] * 2  # on the fifth day .315
    assert read_head(memory) == 1  # no version was written
    memory.observe_usage([fact.id])
    assert usage(memory, fact).review_priority == 0.0


def test_use_is_observed_as_document_003_says(memory: AgentMemory, clock: ManualClock) -> None:
    fact = short(memory, "They prefer JWT", tags=["security", "jwt", "preferences"])
    clock.advance(days=6)
    for _ in range(2):  # the same use, sent twice
        assert memory.observe_usage([fact.id], ["api", "auth", "backend"], idempotency_key="answer 7") == 1
    seen = usage(memory, fact)
    assert (seen.use_count, seen.review_count, seen.cross_domain_count) == (1, 1, 1)
    assert (seen.strength, seen.last_review_at, seen.last_accessed) == (pytest.approx(1.1), clock.time, clock.time)
    memory.observe_usage([fact.id], ["jwt", "security"])
    memory.observe_usage([fact.id])
    seen = usage(memory, fact)
    assert (seen.use_count, seen.review_count, seen.cross_domain_count) == (3, 3, 1)
    for _ in range(12):
        memory.observe_usage([fact.id], ["cooking"])
    assert usage(memory, fact).strength == 2.0


def test_faded_entities_count_less_and_use_lifts_them_again(memory: AgentMemory, clock: ManualClock) -> None:
    boat = memory.upsert_entity({"name": "Blue Boat", "type": "ship", "salience": 0.9})

    def weight() -> str:
        return memory.remember("boat", reinforce=False).items[0].why.partition("salience ")[2]

    found = [weight()]
    for days in (0.9, 0.1, 13, 46):
        clock.advance(days=days)
        found.append(weight())
    assert found == ["x1.20", "x1.20", "x1.18", "x0.97", "x0.77"]  # .75 + .5 · salience, and .9 · .95^60 is .04
    memory.observe_usage([boat.id])
    assert weight() == "x1.20"
    assert memory.semantic.entities("Blue Boat")[0].salience == 0.9  # what is stored never fades


def test_inferred_facts_lose_the_confidence_that_is_asked_for(memory: AgentMemory, clock: ManualClock) -> None:
    guess = short(memory, "Tom may like boats", tier="long", confidence=0.7, certainty="inferred")
    said = short(memory, "Tom likes boats a lot", tier="long", confidence=0.7, certainty="explicit")

    def sure(least: float) -> set[str]:
        found = memory.remember("boats", min_confidence=least, reinforce=False)
        assert {fact.id for fact in found.facts} == bundle_ids(found)
        return bundle_ids(found)

    assert sure(0.69) == {guess.id, said.id}
    clock.advance(days=7)  # .665
    assert sure(0.66) == {guess.id, said.id}
    assert sure(0.69) == {said.id}
    receipt = memory.remember("boats", min_confidence=0.69, reinforce=False).receipt
    assert memory.audit.why_not(receipt.id, guess.id).reason == "its confidence has faded below min_confidence"
    memory.observe_usage([guess.id])
    assert sure(0.69) == {guess.id, said.id}


def test_a_clock_set_back_by_an_hour_harms_nothing(memory: AgentMemory, clock: ManualClock) -> None:
    fact = short(memory)
    clock.advance(days=5)
    job(memory, "decay")
    before = read_tables(memory, NOTED)
    clock.advance(hours=-1)
    for name in AWAKE:
        assert job(memory, name).counts == {}
    assert read_tables(memory, NOTED) == before
    memory.observe_usage([fact.id])
    assert usage(memory, fact).last_accessed == clock.time


def outcome(home: Path, steps: list[float], days: float) -> Any:
    """Which facts are left after so many days with the jobs run at these moments, each twice."""
    clock = ManualClock()
    with open_memory(home, clock=clock, seed=1) as memory:
        facts = [short(memory, f"Claim {n}", **({"importance": 0.9} if n == 1 else {})) for n in range(3)]
        clock.advance(hours=6)
        memory.observe_usage([facts[2].id], ["other"])
        memory.upsert_entity({"name": "Ada"})
        start, done = clock.time, 0.0
        for step in [*steps, days]:
            if step <= days:
                clock.advance(days=max(0.0, step - done))
                done = max(done, step)
                for name in AWAKE:
                    job(memory, name)
                    again = read_head(memory)
                    assert job(memory, name).counts == {}
                    assert read_head(memory) == again
                    assert due(memory, name) == []
        left = sorted(f"{fact.claim} {fact.status}" for fact in memory.semantic.facts({"retired": True}))
        moments = [
            (kind, due_for, at and round((from_micros(at) - start) / timedelta(days=1), 3))
            for _, kind, _, *_, at, due_for in sorted(read_tables(memory)["memory_usage"])
        ]
        return left, moments, len(memory.semantic.entities())


@settings(max_examples=scaled(5, least=2), derandomize=True, deadline=None)
@given(data=st.data())
def test_missed_days_are_not_lost(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """However often the jobs ran on the way, twice or never, what is left in the end is the same."""
    days = data.draw(st.floats(1, 40))
    steps = sorted(data.draw(st.lists(st.floats(0, 40), max_size=4)))
    at_once = outcome(tmp_path_factory.mktemp("once"), [], days)
    assert outcome(tmp_path_factory.mktemp("often"), steps, days) == at_once
