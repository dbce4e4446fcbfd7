"""Who has something to do is found by indexes: no statement walks over all users."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentmem import AsyncAgentMemory
from agentmem.text.templates import load_templates

FOR_ALL = {
    "changed": (0, "", 100),
    "waiting": ("consolidate", 0, 0, 100),
    "due": ("gc", 0, 100),
    "of_job": ("consolidate", 100),
}
OF_ONE = {"state": ("ann", "gc"), "of_user": ("ann",), "due_records": ("ann", "gc", 0, 100)}


@pytest.mark.parametrize("name", [*FOR_ALL, *OF_ONE])
async def test_who_has_something_to_do_is_found_by_an_index(home: Path, name: str) -> None:
    statement = load_templates("agentmem.stores.sqlite", "jobs.sql")[name]
    async with AsyncAgentMemory("ann", home=home, embedder="hash") as memory:
        log: Any = memory.engine.log
        values = {**FOR_ALL, **OF_ONE}[name]
        plan = await log.database.read(
            lambda db: [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {statement}", values)]
        )
    merged = ("USE TEMP B-TREE", "MERGE", "LEFT", "RIGHT")
    assert all(step.startswith("SEARCH") for step in plan if not step.startswith(merged)), plan
    if name in FOR_ALL:  # already in order: a limit ends it
        assert not any("TEMP B-TREE" in step for step in plan), plan


async def test_what_was_written_since_is_found_by_position(home: Path) -> None:
    statement = load_templates("agentmem.stores.sqlite", "jobs.sql")["await_run"]
    async with AsyncAgentMemory("ann", home=home, embedder="hash") as memory:
        log: Any = memory.engine.log
        plan = await log.database.read(
            lambda db: [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {statement}", ("ann", "gc", 0, "[]"))]
        )
    found = [step for step in plan if step.startswith(("SEARCH", "SCAN"))]
    assert len(found) == 6, plan
    assert "SEARCH v USING INDEX memory_versions_seq (user_id=? AND seq=?) LEFT-JOIN" in found
    assert [step for step in found if step.startswith("SCAN")] == ["SCAN json_each VIRTUAL TABLE INDEX 1:", "SCAN n"]
