"""`read_stats` counts what there is, `compact` gives space back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agentmem import AsyncAgentMemory, Closed
from agentmem.admin.doctor import compact, read_stats


def opened(home: Path, **more: Any) -> AsyncAgentMemory:
    return AsyncAgentMemory("alice", home=home, embedder="hash", **more)


async def test_stats_count_what_is_there(home: Path) -> None:
    async with opened(home) as memory:
        await memory.store_turns([{"content": f"turn {n}", "conversation_id": f"c{n % 2}"} for n in range(6)])
        await memory.scoped(channel="work").learn_fact("the office is closed")
        await memory.scoped(user_id="bob").store_turn("not counted")
        found = await read_stats(memory.engine, memory.scope)
        assert list(found) == [
            "user_id",
            "records",
            "status",
            "channels",
            "conversations",
            "journal",
            "words",
            "vectors",
            "bytes",
            "lag",
            "embedder",
            "embedder_next",
            "store_id",
            "last_activity",
        ]
        assert found["records"] == {"Conversation": 2, "Fact": 1, "Turn": 6}
        assert found["channels"] == {"_global": 8, "work": 1}
        assert (found["conversations"], found["words"]["records"]) == (2, 7)
        assert found["vectors"] == {"hash:v1:512": 7}
        assert found["lag"] == {"graph": 0, "vectors/hash:v1:512": 0}
        assert all(size > 0 for name, size in found["bytes"].items() if name != "unused")
        assert json.loads(json.dumps(found)) == found
        nobody = await read_stats(memory.engine, memory.scoped(user_id="nobody").scope)
        assert (nobody["records"], nobody["last_activity"]) == ({}, None)


async def test_compact_gives_space_back_and_loses_nothing(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentmem.stores.sqlite.log.MAX_REWRITE_BYTES", 0)  # as of a large file
    async with opened(home) as memory:
        for part in range(3):
            await memory.store_turns([f"{part} {n} " + "word " * 50 for n in range(200)])
        await memory.scoped(user_id="bob").store_turn("stays")
        receipt = await memory.erase()
        assert any("agentmem admin compact" in line for line in receipt.scan.deferred)
        report = await compact(memory.engine)
        assert report.bytes_after < report.bytes_before / 2
        assert report.bytes_after <= (home / "memory.db").stat().st_size
        assert report.rows["words_folded"] == 1
        assert not report.pending
        bundle = await memory.scoped(user_id="bob").remember("stays", reinforce=False)
        assert [turn.content for turn in bundle.turns] == ["stays"]
    with pytest.raises(Closed):
        await compact(memory.engine)
