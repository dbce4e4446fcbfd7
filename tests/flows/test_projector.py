"""The projector brings along what writers left undone, and only one works at a time."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agentmem.core.scope import Scope
from agentmem.errors import LeaseLost, StoreError, StoreUnavailable
from agentmem.facade.async_memory import AsyncAgentMemory
from agentmem.jobs.builtin import sync_projections as job
from agentmem.jobs.builtin.sync_projections import sync_projections, sync_until_stopped
from tests.conformance import stores
from tests.flows.test_servers import PATIENT
from tests.servers.stack import Stack


def opened(home: Path, stack: Stack, user: str, **more: Any) -> AsyncAgentMemory:
    return AsyncAgentMemory(stack.user(user), home=home, **{"embedder": "hash", **stack.urls, **PATIENT, **more})


async def left_undone(memory: AsyncAgentMemory, user: str, count: int) -> None:
    """Turns in the log alone, as a writer leaves them that is killed after the commit."""
    turns = [stores.build_turn(f"t{n}", n, content=f"bees number {n}") for n in range(count)]
    for turn in turns:
        await stores.write_records(memory.engine.log, Scope(user), turn)


async def test_users_left_behind_catch_up(home: Path, stack: Stack) -> None:
    users = [stack.user(name) for name in ("ann", "bob", "cid")]
    async with opened(home, stack, "alice") as memory:
        for user in users:
            await left_undone(memory, user, 7)
        report = await sync_projections(memory.engine)
        assert (report.users, report.parked, report.lag_reasons) == (3, 0, ())
        for user in users:
            other = memory.scoped(user_id=user)
            assert set((await other.lag()).values()) == {0}
            assert len(await memory.engine.graph_projection.graph.record_seqs("Turn", Scope(user))) == 7  # type: ignore[union-attr]
            assert len((await other.remember("bees")).turns) == 7
        again = await sync_projections(memory.engine)
        assert again.users == 0


async def test_two_projectors_take_turns(home: Path, stack: Stack) -> None:
    async with opened(home, stack, "alice") as memory:
        token = await memory.engine.log.acquire_lease(job.LEASE_NAME, 30, "another")
        assert token is not None
        with pytest.raises(LeaseLost):
            await sync_projections(memory.engine)
        await memory.engine.log.release_lease(job.LEASE_NAME, "another")
        await sync_projections(memory.engine)


class Picky:
    """Before a graph: refuses what one record holds, or everything."""

    def __init__(self, inner: Any, poison: str | None) -> None:
        self.inner, self.poison = inner, poison

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    async def apply(self, batches: Any, operation_ids: Any) -> Any:
        if self.poison is None:
            raise StoreUnavailable("gone")
        names = {stored.record.id for _, entries in batches.values() for entry in entries for stored in entry.upserts}
        if self.poison in names:
            raise StoreError("cannot hold this")
        return await self.inner.apply(batches, operation_ids)


async def test_a_change_the_graph_cannot_hold_is_parked_and_the_others_follow(
    home: Path, stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentmem.engine.graph_projection.BACKOFF_SECONDS", 0.01)
    user = stack.user("ann")
    async with opened(home, stack, "alice") as memory:
        following = memory.engine.graph_projection
        assert following is not None
        graph: Any = following.graph
        picky: Any = Picky(graph, "t3")
        following.graph = picky
        await left_undone(memory, user, 9)
        others = {f"t{n}" for n in range(9) if n != 3}
        async with asyncio.timeout(60):  # the writing process tries too, and who came first parks it
            while (await sync_projections(memory.engine)).parked != 1 or {
                *await graph.record_seqs("Turn", Scope(user))
            } != others:
                await asyncio.sleep(0.02)
        assert (await memory.scoped(user_id=user).lag())["graph"] == 1
        (parked,) = await memory.engine.log.dead_letters(Scope(user))
        assert (parked.projection, parked.seq) == ("graph", 4)


async def test_a_graph_that_takes_nothing_parks_nothing(
    home: Path, stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentmem.engine.graph_projection.BACKOFF_SECONDS", 0.01)
    async with opened(home, stack, "alice") as memory:
        following = memory.engine.graph_projection
        assert following is not None
        away: Any = Picky(following.graph, None)
        whole, following.graph = following.graph, away
        user = stack.user("ann")
        await left_undone(memory, user, 3)
        for _ in range(4):
            await asyncio.sleep(0.02)
            report = await sync_projections(memory.engine)  # the first one brings the vectors
        assert (report.users, report.parked) == (0, 0)
        assert "gone" in report.lag_reasons[0]
        following.graph = whole
        async with asyncio.timeout(60):  # the writing process, which tries by itself, may come before the projector
            while (await memory.scoped(user_id=user).lag())["graph"] != 0:
                await asyncio.sleep(0.02)
                assert (await sync_projections(memory.engine)).parked == 0
        assert set(await whole.record_seqs("Turn", Scope(user))) == {"t0", "t1", "t2"}


async def test_vectors_that_could_not_follow_come_by_themselves(
    home: Path, stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentmem.engine.projections.RETRY_INTERVAL_SECONDS", 0.01)
    async with opened(home, stack, "alice") as memory:
        index: Any = memory.engine.vector_projections[0].index
        whole, failures = index.apply, 2

        async def apply(batches: Any) -> Any:
            nonlocal failures
            failures -= 1
            if failures >= 0:
                raise StoreUnavailable("gone for a moment")
            return await whole(batches)

        monkeypatch.setattr(index, "apply", apply)
        await memory.store_turn("The heron is asleep.")
        async with asyncio.timeout(60):
            while set((await memory.lag()).values()) != {0}:  # nobody writes, recalls or flushes
                await asyncio.sleep(0.02)
        assert failures < 0


async def test_the_daemon_goes_on_until_it_is_stopped(home: Path, stack: Stack) -> None:
    user = stack.user("ann")
    async with opened(home, stack, "alice") as memory:
        stop, beats = asyncio.Event(), 0

        def beat() -> None:
            nonlocal beats
            beats += 1

        daemon = asyncio.ensure_future(sync_until_stopped(memory.engine, stop, beat, idle_seconds=0.01))
        await left_undone(memory, user, 3)
        async with asyncio.timeout(60):
            while set((await memory.scoped(user_id=user).lag()).values()) != {0}:
                await asyncio.sleep(0.02)
        stop.set()
        await daemon
        assert beats > 0
