"""Retention: silent conversations, faded entities, old facts, and the days of the audit log."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from agentmem import AgentMemory, JobReport, Status
from agentmem.core.scope import Operator
from agentmem.jobs.builtin import audit_partitions
from agentmem.jobs.job import JobOptions
from agentmem.settings.sections import RetentionOptions
from agentmem.stores.sqlite import SqliteLog
from agentmem.text.templates import load_migrations
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


def cleanup(memory: AgentMemory, **more: Any) -> JobReport:
    return memory.consolidate("cleanup", **more)[0]


def due(memory: AgentMemory) -> list[Any]:
    inside = engine_of(memory)
    return run(inside.job_queue.due_records("cleanup", inside.clock.now(), context_of(memory).scope))


def test_a_conversation_is_archived_after_ninety_silent_days(memory: AgentMemory, clock: ManualClock) -> None:
    talk = memory.store_turn("The harbour is quiet.")
    here = memory.scoped(conversation_id=talk.conversation_id)
    clock.advance(days=60)
    later = here.store_turn("The harbour is loud.")
    clock.advance(days=31)
    assert cleanup(memory).counts == {}  # its last turn is 31 days old
    assert due(memory) == []
    clock.advance(days=59)
    report = cleanup(memory)
    assert report.counts == {}
    clock.advance(days=1)
    report = cleanup(memory)
    assert report.counts == {"archived": 1}
    assert report.notes == [f"Conversation {talk.conversation_id}: archived: no turn for 90 days"]
    assert [each.archived for each in memory.episodic.conversations()] == [True]
    # what was said stays findable
    assert bundle_ids(memory.remember("harbour", reinforce=False)) >= {talk.id, later.id}
    assert cleanup(memory).counts == {}
    memory.undo(report.operation_ids[0])
    assert [each.archived for each in memory.episodic.conversations()] == [False]
    assert cleanup(memory).counts == {}


def test_a_conversation_that_goes_on_is_opened_again(memory: AgentMemory, clock: ManualClock) -> None:
    talk = memory.store_turn("The harbour is quiet.")
    clock.advance(days=91)
    assert cleanup(memory).counts == {"archived": 1}
    memory.scoped(conversation_id=talk.conversation_id).store_turn("Now it is loud.")
    assert cleanup(memory).counts == {"reopened": 1}
    assert [each.archived for each in memory.episodic.conversations()] == [False]
    clock.advance(days=90)
    assert cleanup(memory).counts == {}
    clock.advance(hours=1)
    assert cleanup(memory).counts == {"archived": 1}


def test_an_unused_entity_that_no_fact_names_is_forgotten_softly(memory: AgentMemory, clock: ManualClock) -> None:
    lone, named, related, used, user = (
        memory.upsert_entity({"name": name, "type": kind})
        for name, kind in (("Ann", "person"), ("Bob", "person"), ("Cleo", "person"), ("Dan", "person"), ("Me", "User"))
    )
    roof = memory.scoped(channel="roof")
    fact = roof.learn_fact("Bob likes roofs", entity_ids=[named.id])  # of another channel
    memory.semantic.relate(related.id, "KNOWS", used.id)
    before = read_state(memory)
    clock.advance(days=31)
    assert cleanup(memory).counts == {}  # .5 · .95^31 = .102
    memory.observe_usage([used.id])
    clock.advance(days=0.5)
    assert cleanup(memory, dry_run=True).counts == {"forgotten": 1, "kept": 3}
    report = cleanup(memory)
    assert report.counts == {"forgotten": 1, "kept": 3}
    reason = "salience 0.099, unused for 31 days, and no fact names it"
    assert report.notes == [f"Entity {lone.id}: forgotten: {reason}"]
    assert {each.id for each in memory.semantic.entities()} == {named.id, related.id, used.id, user.id}
    assert due(memory) == []
    memory.undo(report.operation_ids[0])
    assert read_state(memory) == before
    assert cleanup(memory).counts == {}  # who brought it back wants it
    roof.forget(fact.id)
    clock.advance(days=31)
    assert cleanup(memory).counts == {"forgotten": 1, "kept": 3}  # Bob now


@pytest.mark.parametrize("nights", [(33,), (32, 33), (40,), (32, 33, 34, 40)])
def test_when_a_kept_entity_is_looked_at_again_does_not_hang_on_the_nights(
    memory: AgentMemory, clock: ManualClock, nights: tuple[int, ...]
) -> None:
    """Every thirty days since it faded (after 31.4), whichever nights passed without a job."""
    bob = memory.upsert_entity({"name": "Bob", "type": "person"})
    fact = memory.semantic.update_fact(memory.learn_fact("Bob likes roofs", entity_ids=[bob.id]).id, importance=0.9)
    begun = clock.time
    for night in nights:
        clock.time = begun + timedelta(days=night)
        cleanup(memory)
    memory.forget(fact.id)
    clock.time = begun + timedelta(days=61)
    assert cleanup(memory).counts == {}
    clock.time = begun + timedelta(days=62)
    assert cleanup(memory).counts == {"forgotten": 1}


def test_many_entities_with_many_facts_are_told_apart(
    memory: AgentMemory, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when they have more facts than are asked for in one go."""
    found = [memory.upsert_entity({"name": f"Person {n}", "type": "person"}) for n in range(6)]
    for entity in found[:3]:
        for n in range(5):
            memory.learn_fact(f"{entity.name} has {n} boats", entity_ids=[entity.id])
    monkeypatch.setattr("agentmem.jobs.builtin.cleanup.EDGE_PAGE_SIZE", 4)
    clock.advance(days=40)
    assert cleanup(memory).counts == {"forgotten": 3, "kept": 3}
    assert {entity.id for entity in memory.semantic.entities()} == {entity.id for entity in found[:3]}


def test_long_lived_facts_go_only_where_a_retention_is_set(home: Path, clock: ManualClock) -> None:
    """Document 004's `ltm_retention_days`; what is used, important or brought back stays."""
    with open_memory(home, clock=clock, seed=7) as memory:
        old, precious, used = (memory.learn_fact(f"Claim {n}") for n in range(3))
        memory.semantic.update_fact(precious.id, importance=0.9)
        clock.advance(days=1000)
        assert cleanup(memory).counts == {}
    retention = RetentionOptions(ltm_retention_days=30)
    with open_memory(home, clock=clock, seed=7, retention=retention) as memory:
        new = memory.learn_fact("Claim 3")
        memory.observe_usage([used.id])
        assert cleanup(memory).counts == {}  # those stored before are looked at when they are asked for
        report = memory.consolidate("cleanup", retry_parked=True)[0]
        assert report.counts == {"archived": 1}
        assert memory.semantic.get_fact(old.id).status is Status.ARCHIVED
        clock.advance(days=30.1)
        assert cleanup(memory).counts == {"archived": 2}
        kept = {fact.id for fact in memory.semantic.facts()}
        assert kept == {precious.id}
        memory.undo(report.operation_ids[0])
        assert cleanup(memory).counts == {}
        assert {fact.id for fact in memory.semantic.facts()} == {precious.id, old.id}
        assert new.id not in kept


def test_what_was_stored_by_an_earlier_version_is_looked_at_once(memory: AgentMemory, clock: ManualClock) -> None:
    """A migration and an import make everything due at once that fades and has no moment yet."""
    memory.upsert_entity({"name": "Ann", "type": "person"})
    memory.learn_fact("Claim", tier="short")
    memory.store_turn("Hello there.")
    wanted = read_tables(memory)["memory_usage"]
    (step,) = [step.text for step in load_migrations("sqlite") if step.version == 3]
    migration = step[step.rindex("INSERT INTO memory_usage") :]

    def migrate(db: Any) -> None:
        db.execute("DELETE FROM memory_usage")
        db.execute(migration)

    log = engine_of(memory).log
    assert isinstance(log, SqliteLog)
    run(log.database.write(migrate))
    assert {row[-1] for row in read_tables(memory)["memory_usage"]} == {"decay"}
    before = read_head(memory)
    report = memory.consolidate("decay")[0]
    assert report.counts == {"conversation": 1, "entity": 1, "fact": 1}
    assert read_tables(memory)["memory_usage"] == wanted
    assert read_head(memory) == before
    assert memory.consolidate("decay")[0].counts == {}


def test_the_audit_log_is_kept_for_as_long_as_the_settings_say(home: Path, clock: ManualClock) -> None:
    with open_memory(home, clock=clock, seed=7, audit_days=10) as memory:
        memory.store_turn("Hello there.")
        clock.advance(days=12)
        memory.store_turn("Hello again.")
        inside = engine_of(memory)
        dry = run(audit_partitions.run_for_all(inside, Operator("test"), JobOptions(dry_run=True)))
        assert dry.notes == ["audit rows older than 10 days would go"]
        assert len(read_tables(memory)["memory_audit_log"]) == 2
        done = run(audit_partitions.run_for_all(inside, Operator("test"), JobOptions()))
        assert done.counts["audit_rows_dropped"] == 1
        again = run(audit_partitions.run_for_all(inside, Operator("test"), JobOptions()))
        assert again.counts["audit_rows_dropped"] == 0
