"""Who has something to do is found by indexes: no statement walks over all users."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentmem import AsyncAgentMemory
from agentmem.text.templates import load_templates

FOR_ALL = {
    "users_changed_since": {"since": 0, "after": "", "limit": 100},
    "pending_users": {"job": "consolidate", "now": 0, "too_late": 0, "limit": 100},
    "due_users": {"job": "gc", "now": 0, "limit": 100},
    "queue": {"job": "consolidate", "limit": 100},
}
OF_ONE: dict[str, dict[str, Any]] = {
    "state": {"user_id": "ann", "job": "gc"},
    "states": {"user_id": "ann"},
    "due_records": {"user_id": "ann", "job": "gc", "now": 0, "limit": 100},
}


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
    statement = load_templates("agentmem.stores.sqlite", "jobs.sql")["enqueue"]
    values = {"user_id": "ann", "job": "gc", "due_at": 0, "kinds": "[]"}
    async with AsyncAgentMemory("ann", home=home, embedder="hash") as memory:
        log: Any = memory.engine.log
        plan = await log.database.read(
            lambda db: [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {statement}", values)]
        )
    found = [step for step in plan if step.startswith(("SEARCH", "SCAN"))]
    assert len(found) == 6, plan
    assert "SEARCH v USING INDEX memory_versions_seq (user_id=? AND seq=?) LEFT-JOIN" in found
    assert [step for step in found if step.startswith("SCAN")] == ["SCAN json_each VIRTUAL TABLE INDEX 1:", "SCAN n"]
