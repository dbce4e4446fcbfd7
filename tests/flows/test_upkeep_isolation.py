"""`verify isolation` proves the promise on the user's own data, sees a leak, and leaves the live store alone."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from agentmem import AsyncAgentMemory, InvalidRecord
from agentmem.admin.export_import import export_user
from agentmem.core.scope import Operator, Scope
from agentmem.facade.isolation import verify_isolation
from agentmem.stores.sqlite.log import SqliteLog
from agentmem.stores.values import Postings


def opened(home: Path) -> AsyncAgentMemory:
    return AsyncAgentMemory("alice", home=home, embedder="hash", agent_id="chef")


async def filled(memory: AsyncAgentMemory) -> None:
    things = ("a heron at the lake", "two boats", "tea with Bo", "the red bicycle", "a storm in May", "owls at night")
    await memory.store_turns([{"content": f"I saw {thing}.", "conversation_id": "walks"} for thing in things])
    await memory.learn_fact("Alice likes owls")
    await memory.upsert_entity({"name": "Bo", "type": "person", "description": "a friend who rows"})
    await memory.add_goal("see a kingfisher")
    await memory.flush()


async def test_strangers_change_nothing_and_the_live_store_is_untouched(home: Path) -> None:
    async with opened(home) as memory:
        await filled(memory)
        before: list[str] = []
        await export_user(memory.engine, memory.scope, before.append)
        files, meta = sorted(os.listdir(home)), await memory.engine.log.meta()
        told: list[tuple[str, int, int]] = []
        report = await verify_isolation(
            memory.engine, memory.scope, strangers=700, progress=lambda *step: told.append(step)
        )
        assert (report.queries, report.identical, report.differences) == (9, True, ())
        assert ("adding strangers", 700, 700) in told
        after: list[str] = []
        await export_user(memory.engine, memory.scope, after.append)
        assert after == before
        assert await memory.engine.log.users(Operator()) == ["alice"]
        assert await memory.engine.log.meta() == meta
        assert sorted(os.listdir(home)) == files


async def test_a_leak_is_seen(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    healthy = SqliteLog.match

    async def leaking(log: SqliteLog, terms: Sequence[str], scope: Scope) -> dict[str, Postings]:
        found = await healthy(log, terms, scope)
        everybody = len(await log.users(Operator()))  # a statistic over all users, as a shared text index has it
        return {term: Postings(hits.ordinals, hits.counts * everybody) for term, hits in found.items()}

    monkeypatch.setattr(SqliteLog, "match", leaking)
    async with opened(home) as memory:
        await filled(memory)
        report = await verify_isolation(memory.engine, memory.scope, strangers=200)
    assert not report.identical
    assert any("ranking differ at rank" in line for line in report.differences)


async def test_a_read_across_users_is_seen(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    healthy = SqliteLog.versions

    async def leaking(log: SqliteLog, key: tuple[str, str], scope: Scope) -> list[object]:
        return list(await healthy(log, key, Scope("alice")))

    monkeypatch.setattr(SqliteLog, "versions", leaking)
    async with opened(home) as memory:
        await filled(memory)
        report = await verify_isolation(memory.engine, memory.scope, strangers=50)
    assert report.differences == ("versions answered somebody who has nothing",)


async def test_a_user_without_records_has_no_queries(home: Path) -> None:
    async with opened(home) as memory:
        report = await verify_isolation(memory.engine, memory.scope, strangers=10)
        assert (report.queries, report.identical) == (0, True)
        with pytest.raises(InvalidRecord, match="strangers"):
            await verify_isolation(memory.engine, memory.scope, strangers=0)


async def test_copies_that_a_killed_run_left_are_removed(home: Path) -> None:
    async with opened(home) as memory:
        old, busy = home / "verify-old", home / "verify-busy"
        for folder in (old, busy):
            folder.mkdir()
            (folder / "memory.db").write_bytes(b"")
            os.utime(folder, (1e9, 1e9))
        os.utime(old / "memory.db", (1e9, 1e9))
        await verify_isolation(memory.engine, memory.scope, strangers=1)
        assert [folder.name for folder in home.glob("verify-*")] == ["verify-busy"]
