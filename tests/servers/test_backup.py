"""A database that was written to a file and put back holds what it held then."""

from __future__ import annotations

from pathlib import Path

import psycopg

from agentmem.facade.async_memory import AsyncAgentMemory
from tests.servers.postgres import backup, restore
from tests.servers.stack import Stack


async def test_what_came_after_a_backup_is_gone_and_the_graph_is_ahead(
    stack: Stack, home: Path, tmp_path: Path
) -> None:
    user, file = stack.user(), tmp_path / "backup"
    memory = AsyncAgentMemory(user, home=home, embedder="hash", dimensions=64, conversation_id="talk", **stack.urls)
    async with memory:
        await memory.store_turn("Bees sleep at night.", turn_id="t1")
        await memory.flush()
        backup(stack.log_url, file)
        before = (await memory.engine.log.head(memory.scope)).seq
        await memory.store_turn("Bees dance.", turn_id="t2")
        await memory.flush()
        restore(stack.log_url, file)
        assert [turn.id for turn in await memory.episodic.get_conversation("talk")] == ["t1"]
        assert (await memory.engine.log.head(memory.scope)).seq == before
        assert memory.engine.graph_projection is not None
        assert await memory.engine.graph_projection.graph.watermark(user) == before + 1
        assert [turn.id for turn in (await memory.remember("bees")).turns] == ["t1"]


def test_row_security_and_rights_come_back(stack: Stack, tmp_path: Path) -> None:
    asked = (
        "SELECT relname, relrowsecurity, relforcerowsecurity, relacl::text FROM pg_class WHERE relkind IN ('r', 'v')"
    )
    with psycopg.connect(stack.log_url) as db:
        before = sorted(db.execute(asked).fetchall(), key=str)
    backup(stack.log_url, tmp_path / "backup")
    restore(stack.log_url, tmp_path / "backup")
    with psycopg.connect(stack.log_url) as db:
        assert sorted(db.execute(asked).fetchall(), key=str) == before
