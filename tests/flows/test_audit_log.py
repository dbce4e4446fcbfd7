"""Every operation leaves the row that its level asks for, and nobody can change or delete one."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from agentmem import AgentMemory, Conflict, NotFound
from agentmem.admin.doctor import compact
from agentmem.admin.export_import import export_user
from agentmem.admin.rebuild import rebuild
from tests.flows.given import (
    STACKS,
    START,
    ManualClock,
    context_of,
    engine_of,
    open_memory,
    read_tables,
    run,
    stack_options,
)

LEVELS = ["off", "writes", "reads", "verbose"]
COLUMNS = {
    "id",
    "timestamp",
    "operation",
    "memory_type",
    "user_id",
    "session_id",
    "conversation_id",
    "agent_id",
    "operation_id",
    "source_channel",
    "target_channels",
    "query_text",
    "result_count",
    "latency_ms",
    "success",
    "error_message",
    "promoted_from_channel",
    "promotion_confidence",
    "promotion_access_count",
    "promotion_conversation_count",
    "config_snapshot",
    "metadata",
    "actor",
}


def busy(memory: AgentMemory) -> dict[str, str]:
    """One operation of every kind; the ids of what was made."""
    turn = memory.store_turn("Ann keeps the garden.")
    fact = memory.learn_fact("Ann keeps the garden", source_turn_ids=[turn.id])
    changed = memory.semantic.supersede_fact(fact.id, "Ben keeps the garden")
    goal = memory.add_goal("weed")
    memory.update_profile(preferences={"tone": "short"})
    memory.remember("garden")
    memory.context("garden")
    memory.observe_usage([changed.id], ["chat"])
    memory.forget(goal.id)
    memory.restore(goal.id)
    memory.undo(memory.semantic.boost_salience(changed.id).operation_id)
    memory.forget(memory.add_goal("mow").id, hard=True)  # a row that tells of a recall of it would lose its query
    return {"turn": turn.id, "fact": fact.id, "changed": changed.id, "store": turn.operation_id}


WRITES = {
    "store",
    "learn_fact",
    "supersede_fact",
    "add_goal",
    "update_profile",
    "observe_usage",
    "forget",
    "restore",
    "undo",
    "boost_salience",
    "delete",
}
READS = {"retrieve", "context"}


@pytest.mark.parametrize("level", LEVELS)
def test_each_level_holds_what_it_promises(home: Path, level: str) -> None:
    with open_memory(home, audit_level=level) as memory:
        busy(memory)
        rows = memory.audit.query(limit=1000)
        wanted = {"off": set(), "writes": WRITES, "reads": WRITES | READS, "verbose": WRITES | READS}[level]
        assert {row["operation"] for row in rows} == wanted
        queries = {row["query_text"] for row in rows if row["query_text"]}
        assert queries == ({"garden"} if level in ("reads", "verbose") else set())
        held = any("payload" in row["metadata"] for row in rows)
        assert held is (level == "verbose")
        assert any("candidates" in row["metadata"] for row in rows) is (level == "verbose")
        text = repr([row for row in rows if row["operation"] not in READS])
        assert ("Ben keeps the garden" in text) is (level == "verbose")


def test_a_row_fills_the_columns_of_the_documents(home: Path, clock: ManualClock) -> None:
    with open_memory(home, clock=clock, audit_level="reads", agent_id="bot", session_id="s", seed=1) as memory:
        names = busy(memory)
        rows = memory.audit.query(limit=1000)
        assert all(set(row) == COLUMNS for row in rows)
        store = next(row for row in rows if row["operation"] == "store")
        turn = memory.episodic.recent_turns()[0]
        expected = {
            "timestamp": "2026-03-01T12:00:00.000000Z",
            "memory_type": "episodic",
            "user_id": "alice",
            "session_id": "s",
            "agent_id": "bot",
            "conversation_id": turn.conversation_id,
            "operation_id": names["store"],
            "source_channel": "_global",
            "target_channels": ["_global"],
            "result_count": 1,
            "latency_ms": 0.0,
            "success": True,
            "error_message": None,
            "query_text": None,
        }
        assert {name: store[name] for name in expected} == expected
        recall = next(row for row in rows if row["operation"] == "retrieve")
        assert recall["target_channels"] == ["_global", "_self_bot", "_swarm"]
        assert (recall["memory_type"], recall["query_text"], recall["result_count"]) == ("recall", "garden", 3)
        assert recall["metadata"]["delivered"]
        assert {line[0] for line in recall["metadata"]["trace"]} >= {"vector", "keyword", "entity", "temporal"}


def test_the_snapshot_holds_active_thresholds_and_a_hash_of_the_settings(home: Path) -> None:
    def snapshot(**more: Any) -> dict[str, Any]:
        with open_memory(home, audit_level="reads", **more) as memory:
            memory.remember("x")
            found: dict[str, Any] = memory.audit.query(operation="retrieve", limit=1)[0]["config_snapshot"]
            return found

    one = snapshot()
    assert one["audit_level"] == "reads"
    assert one["ranking"]["current"] == 1.2
    assert len(one["settings"]) == 16
    assert snapshot() == one
    other = snapshot(recall={"ranking": {"current": 1.5}})
    assert other["settings"] != one["settings"]
    assert other["ranking"]["current"] == 1.5
    assert snapshot(threads=2)["settings"] == one["settings"], "what changes no result changes no hash"


def test_matches_of_other_channels_are_named(home: Path) -> None:
    with open_memory(home, audit_level="reads") as memory:
        memory.learn_fact("The garden is green")
        roof = memory.scoped(channel="roof")
        own = roof.learn_fact("The roof garden is red")
        shared = memory.scoped(channel="_swarm").learn_fact("The garden of the swarm")
        roof.remember("garden")
        row = memory.audit.query(operation="retrieve")[0]
        named = {tuple(entry) for entry in row["metadata"]["cross_channel"]}
        assert {(kind, channel) for kind, _, channel in named} == {("Fact", "_global"), ("Fact", "_swarm")}
        assert shared.id in {name for _, name, _ in named}
        assert own.id not in {name for _, name, _ in named}
        assert row["source_channel"] == "roof"


def test_a_promotion_says_from_where_and_how_well_known(home: Path) -> None:
    with open_memory(home) as memory:
        roof = memory.scoped(channel="roof")
        fact = roof.learn_fact("The roof is blue", confidence=0.9)
        for conversation in ("a", "b"):
            roof.scoped(conversation_id=conversation).remember("roof")
        roof.semantic.promote_to_global(fact.id, "known everywhere")
        row = memory.audit.query(operation="promote")[0]
        assert [row[name] for name in sorted(COLUMNS) if name.startswith("promot")] == ["roof", 2, 0.9, 2]
        assert row["metadata"]["reason"] == "known everywhere"


def test_failures_leave_a_row_without_what_was_given(home: Path) -> None:
    with open_memory(home, audit_level="reads") as memory:
        fact = memory.learn_fact("Ann sings", idempotency_key="k")
        with pytest.raises(NotFound):
            memory.complete_goal("a-goal-that-never-was")
        memory.undo(fact.operation_id)
        with pytest.raises(Conflict):
            memory.undo(fact.operation_id)
        with pytest.raises(ValueError, match="technique"):
            memory.remember("x", techniques=["none"])
        failed = {row["operation"]: row["error_message"] for row in memory.audit.query(success=False)}
        assert failed == {"complete_goal": "NotFound", "undo": "Conflict", "retrieve": "InvalidRecord"}
        assert "never-was" not in repr(memory.audit.query(success=False))


def test_rows_are_filtered_newest_first(memory: AgentMemory, clock: ManualClock) -> None:
    memory.learn_fact("one")
    clock.advance(days=1)
    between = clock.advance(hours=1)
    clock.advance(hours=1)
    memory.scoped(session_id="s").store_turn("two")
    assert [row["operation"] for row in memory.audit.query()] == ["store", "learn_fact"]
    assert [row["operation"] for row in memory.audit.query(since=between)] == ["store"]
    assert [row["operation"] for row in memory.audit.query(until=between)] == ["learn_fact"]
    assert [row["operation"] for row in memory.audit.query(memory_type="semantic")] == ["learn_fact"]
    assert [row["operation"] for row in memory.audit.query(session_id="s")] == ["store"]
    assert [row["operation"] for row in memory.audit.query(limit=1)] == ["store"]
    assert memory.audit.query(operation="dance") == []


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM memory_audit_log",
        "UPDATE memory_audit_log SET metadata = '{}'",
        "UPDATE memory_audit_log SET success = 0",
        "INSERT OR REPLACE INTO memory_audit_log SELECT * FROM memory_audit_log",
    ],
)
def test_rows_can_be_neither_changed_nor_deleted(memory: AgentMemory, statement: str) -> None:
    memory.learn_fact("one")
    before = read_tables(memory)["memory_audit_log"]
    database = engine_of(memory).log.database
    with pytest.raises(Conflict):
        run(database.write(lambda db: db.execute(statement).fetchall()))
    assert read_tables(memory)["memory_audit_log"] == before


def test_retention_drops_whole_days_only(memory: AgentMemory, clock: ManualClock) -> None:
    memory.learn_fact("one")
    clock.advance(days=400)
    memory.learn_fact("two")
    run(engine_of(memory).log.maintain(clock.time, 365))
    assert [row["operation"] for row in memory.audit.query()] == ["learn_fact"]


WAYS_OUT: list[tuple[str, Any]] = [
    ("get_conversation", lambda m, i: m.episodic.get_conversation(i["conversation"])),
    ("recent_turns", lambda m, i: m.episodic.recent_turns()),
    ("read_thread", lambda m, i: m.episodic.read_thread(i["conversation"], i["turn"])),
    ("conversations", lambda m, i: m.episodic.conversations()),
    ("facts", lambda m, i: m.semantic.facts()),
    ("get_fact", lambda m, i: m.semantic.get_fact(i["fact"])),
    ("history", lambda m, i: m.semantic.history(i["fact"])),
    ("provenance", lambda m, i: m.semantic.provenance(i["fact"])),
    ("beliefs", lambda m, i: m.beliefs()),
    ("entities", lambda m, i: m.semantic.entities()),
    ("get_entity_graph", lambda m, i: m.semantic.get_entity_graph([i["entity"]])),
    ("neighborhood", lambda m, i: m.graph.neighborhood("Ann")),
    ("paths", lambda m, i: m.graph.paths("Ann", "user")),
    ("communities", lambda m, i: m.graph.communities()),
    ("central_entities", lambda m, i: m.graph.central_entities()),
    ("reviews", lambda m, i: m.semantic.reviews()),
    ("get_goal", lambda m, i: m.get_goal(i["goal"])),
    ("all", lambda m, i: m.goals.all()),
    ("active", lambda m, i: m.goals.active()),
    ("find_strategies", lambda m, i: m.procedural.find_strategies("weed")),
    ("procedures", lambda m, i: m.procedural.procedures()),
    ("list", lambda m, i: m.schedules.list()),
    ("turns", lambda m, i: m.working.turns()),
    ("queue", lambda m, i: m.curation.queue()),
    ("profile", lambda m, i: m.profile()),
    ("synopsis", lambda m, i: m.synopsis()),
    ("get_record", lambda m, i: m.get_record(i["fact"])),
    ("list_records", lambda m, i: m.list_records()),
    ("diff", lambda m, i: m.diff(START, START + timedelta(days=1))),
    ("export", lambda m, i: run(export_user(engine_of(m), context_of(m).scope, lambda line: None))),
]


@pytest.fixture(params=STACKS)
def audited(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[AgentMemory, dict[str, str]]]:
    options = {"conversation_id": "garden", "audit_level": "reads", **stack_options(request)}
    with open_memory(tmp_path / "home", **options) as memory:
        turn = memory.store_turn("Ann keeps the garden.")
        ids = {"turn": turn.id, "conversation": turn.conversation_id, "goal": memory.add_goal("weed").id}
        ids["entity"] = memory.upsert_entity({"name": "Ann"}).id
        ids["fact"] = memory.learn_fact(
            "Ann keeps the garden", source_turn_ids=[turn.id], entity_ids=[ids["entity"]]
        ).id
        yield memory, ids


def test_every_way_out_leaves_one_row_that_names_what_went_out(audited: tuple[AgentMemory, dict[str, str]]) -> None:
    memory, ids = audited
    for operation, read in WAYS_OUT:
        before = {row["id"] for row in memory.audit.query(limit=1000)}
        read(memory, ids)
        rows = [row for row in memory.audit.query(limit=1000) if row["id"] not in before]
        assert [(row["operation"], row["memory_type"], row["query_text"]) for row in rows] == [
            (operation, "read", None)
        ]
        told = rows[0]["metadata"]
        assert set(told) <= {"ids", "changes"}
        if operation in ("facts", "get_fact", "beliefs", "get_record", "list_records", "history"):
            assert rows[0]["result_count"] == len(told["ids"])
            assert ids["fact"] in told["ids"] or operation == "beliefs"


def test_a_recall_leaves_its_own_row_alone(audited: tuple[AgentMemory, dict[str, str]]) -> None:
    memory, _ = audited
    before = len(memory.audit.query(limit=1000))
    memory.remember("garden")
    memory.context("garden")
    rows = memory.audit.query(limit=1000)[: -before or None]
    assert sorted(row["operation"] for row in rows) == ["context", "retrieve"]


def test_upkeep_of_the_whole_store_leaves_a_row(memory: AgentMemory) -> None:
    engine = engine_of(memory)
    memory.store_turn("x")
    run(rebuild(engine, [context_of(memory).scope.user_id], targets=("words",)))
    run(compact(engine))
    with sqlite3.connect(engine.settings.database) as file:
        rows = file.execute("SELECT operation FROM memory_audit_log WHERE user_id = '_system'").fetchall()
    assert [operation for (operation,) in rows] == ["rebuild", "compact"]
