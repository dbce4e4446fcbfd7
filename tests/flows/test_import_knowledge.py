"""Memories of other programs in an embedded store: stored once, with their times, for the user whose they are."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from agentmem import AgentMemory, InvalidRecord
from tests.flows.given import open_memory
from tests.unit import memory_files as files


def write(folder: Path, written: Any, name: str = "file.json") -> Path:
    path = folder / name
    path.write_text(written if isinstance(written, str) else json.dumps(written), encoding="utf-8")
    return path


def test_what_a_graph_knows_comes_in_once_with_its_times(memory: AgentMemory, tmp_path: Path) -> None:
    path = write(tmp_path, files.GRAPHITI)
    first, second = memory.import_file(path), memory.import_file(path)
    assert (first.new_facts, first.entities, first.relations, first.new_turns) == (3, 2, 1, 5)
    assert (second.new_facts, second.new_turns) == (0, 0)
    ana, oslo = memory.semantic.entities()
    assert (ana.name, ana.type, ana.description) == ("Ana", "person", "A nurse.")
    facts = {fact.claim: fact for fact in memory.semantic.facts({"retired": True})}
    bergen = facts["Ana lives in Bergen"]
    assert (bergen.valid_from, bergen.valid_to) == (
        datetime(2020, 1, 1, tzinfo=UTC),
        datetime(2024, 4, 30, tzinfo=UTC),
    )
    assert facts["Ana lives in Oslo"].entity_ids == (ana.id, oslo.id)
    (edge,) = memory.semantic.get_entity_graph([ana.id]).edges
    assert (edge.source, edge.target, edge.edge_kind) == (ana.id, oslo.id, "LIVES_IN")


def test_an_observation_of_an_entity_is_no_belief_about_the_user(memory: AgentMemory, tmp_path: Path) -> None:
    record = {"type": "entity", "name": "Ana", "entityType": "person", "observations": ["I live in Turku"]}
    memory.import_file(write(tmp_path, record, "memory.json"))
    assert not memory.semantic.beliefs()
    assert [fact.claim for fact in memory.semantic.facts()] == ["I live in Turku"]


def test_of_two_memories_the_one_written_last_is_believed(memory: AgentMemory, tmp_path: Path) -> None:
    """Whatever the order of a file is."""
    days = {"The user lives in Bergen": "2025-02-01T00:00:00Z", "The user lives in Oslo": "2023-02-01T00:00:00Z"}
    records = [{"id": claim, "memory": claim, "user_id": "alice", "created_at": day} for claim, day in days.items()]
    memory.import_file(write(tmp_path, records))
    (home,) = memory.semantic.beliefs()
    assert [fact.value for fact in home.current] == ["Bergen"]


def test_memories_of_several_users_come_in_one_by_one(memory: AgentMemory, tmp_path: Path) -> None:
    path = write(tmp_path, [{"id": n, "memory": f"Knows {n}", "user_id": n} for n in ("alice", "bob")])
    with pytest.raises(InvalidRecord, match=r"memories of 2 users \(alice, bob\).*--owner alice"):
        memory.import_file(path)
    assert memory.import_file(path, owner="bob").new_facts == 1
    assert [fact.claim for fact in memory.semantic.facts()] == ["Knows bob"]


def test_an_entity_named_before_it_is_described_stays_one(memory: AgentMemory, tmp_path: Path) -> None:
    memory.import_file(write(tmp_path, "- needs [[Kettle]]\n", "Tea.md"))
    memory.import_file(write(tmp_path, "---\ntype: tool\n---\n- [care] Descale it in May\n", "kettle.md"))
    assert [each.name for each in memory.semantic.entities()] == ["Tea", "Kettle"]


@pytest.mark.parametrize(
    "order, more, month",
    [("", "", 4), ("month_first", "", 3), ("day_first", "", 4), ("month_first", "13.4.23, 21:16 - Ana: Bye\n", 4)],
)
def test_the_setting_tells_day_and_month_apart_where_a_chat_does_not(
    home: Path, tmp_path: Path, order: Any, more: str, month: int
) -> None:
    with open_memory(home, date_order=order) as memory:
        memory.import_file(write(tmp_path, f"3.4.23, 21:15 - Ana: Hi\n{more}", "chat.txt"))
        assert memory.remember("Hi").turns[0].timestamp.month == month


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_report_counts_characters_that_were_replaced(memory: AgentMemory, tmp_path: Path, dry_run: bool) -> None:
    turns = [{"role": "user", "content": text} for text in ("Half \ud83d of \ude00 it", "All \U0001f600")]
    assert memory.import_file(write(tmp_path, turns), dry_run=dry_run).replaced == 2
    knowledge = {"type": "entity", "name": "Ana", "entityType": "person", "observations": ["Rows\udc00"]}
    assert memory.import_file(write(tmp_path, knowledge, "memory.json"), dry_run=dry_run).replaced == 1
