"""The graph takes what this process just wrote as it is at hand, and goes by the log where it may stand elsewhere."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from agentmem.core.records import Turn
from agentmem.engine.engine import NOTICE_RESTORED
from agentmem.engine.graph_projection import GraphProjection
from agentmem.errors import StoreUnavailable
from agentmem.facade.async_memory import AsyncAgentMemory
from tests.flows.test_projector import left_undone, opened
from tests.servers.stack import Stack


def graph_of(memory: AsyncAgentMemory) -> GraphProjection:
    assert memory.engine.graph_projection is not None
    return memory.engine.graph_projection


def counted(owner: Any, verb: str, calls: Counter[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the calls of a verb counted."""
    whole: Callable[..., Awaitable[Any]] = getattr(owner, verb)

    async def call(*arguments: Any, **named: Any) -> Any:
        calls[verb] += 1
        return await whole(*arguments, **named)

    monkeypatch.setattr(owner, verb, call)


def looks(memory: AsyncAgentMemory, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often the log is read, and the graph asked where it stands, from now on."""
    calls: Counter[str] = Counter()
    counted(memory.engine.log, "changes", calls, monkeypatch)
    counted(graph_of(memory).graph, "positions", calls, monkeypatch)
    return calls


async def arrived(memory: AsyncAgentMemory) -> None:
    """Wait until the graph is where the log is, by itself."""
    head = (await memory.engine.log.head(memory.scope)).seq
    async with asyncio.timeout(60):
        while await graph_of(memory).graph.watermark(memory.scope.user_id) != head:
            await asyncio.sleep(0.01)


async def held(memory: AsyncAgentMemory) -> set[str]:
    return set(await graph_of(memory).graph.record_seqs("Turn", memory.scope))


async def test_what_was_just_written_is_neither_read_again_nor_asked_for(
    home: Path, stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(home, stack, "alice") as memory:
        told = [await memory.store_turn("Bees sleep in winter.")]
        await arrived(memory)
    async with opened(home, stack, "alice") as memory:  # which looked where the graph stands
        calls = looks(memory, monkeypatch)
        for n in range(3):
            told.append(await memory.store_turn(f"Bees fly in summer, {n}."))
            await arrived(memory)
        told += await memory.store_turns([f"Bees dance, {n}." for n in range(5)])
        await arrived(memory)
        assert calls == {}
        assert await held(memory) == {turn.id for turn in told}


async def test_writes_one_after_the_other_come_without_a_gap(
    home: Path, stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(home, stack, "alice") as memory:
        calls = looks(memory, monkeypatch)
        told = await asyncio.gather(*(memory.store_turn(f"Bees dance, {n}.") for n in range(8)))
        await arrived(memory)
        assert await held(memory) == {turn.id for turn in told}
        many = await memory.store_turns([f"Bees hum, {n}." for n in range(60)])  # too many to be kept
        await arrived(memory)
        assert calls["changes"] > 0
        assert await held(memory) == {turn.id for turn in (*told, *many)}


@pytest.mark.parametrize("known", [True, False])
async def test_a_graph_that_lacks_more_is_brought_along_from_the_log(home: Path, stack: Stack, known: bool) -> None:
    async with opened(home, stack, "alice") as memory:
        if known:
            await memory.store_turn("Bees sleep in winter.")
            await arrived(memory)
        await left_undone(memory, memory.scope.user_id, 7)  # as by a process that was killed after the commit
        await memory.store_turn("Bees fly in summer.")
        await arrived(memory)
        assert len(await held(memory)) == 8 + known


async def test_two_processes_write_for_one_user(home: Path, stack: Stack) -> None:
    async with opened(home / "a", stack, "alice") as one, opened(home / "b", stack, "alice") as other:
        told: list[Turn] = []
        for n in range(6):
            told.append(await (one, other)[n % 2].store_turn(f"Bees dance, {n}."))
            await arrived(one)
        told += await asyncio.gather(*((one, other)[n % 2].store_turn(f"Bees hum, {n}.") for n in range(10)))
        await arrived(one)
        assert await held(one) == {turn.id for turn in told}


async def test_a_graph_ahead_of_the_log_is_made_anew(home: Path, stack: Stack) -> None:
    async with opened(home, stack, "alice") as memory:
        await memory.store_turn("Bees sleep in winter.")
        await arrived(memory)
        (entry,) = await memory.engine.log.changes(memory.scope, 0, 10)
        later = [replace(entry, seq=n, upserts=()) for n in (2, 3, 4)]
        await graph_of(memory).graph.apply({memory.scope.user_id: (1, later)})  # as if the log had lost them since
    async with opened(home, stack, "alice") as memory:
        assert NOTICE_RESTORED in (await memory.remember("bees")).notices
        turn = await memory.store_turn("Bees fly in summer.")
        await arrived(memory)
        assert turn.id in await held(memory)


@dataclass
class Gate:
    """Before a graph: holds changes up until it is opened, refuses those that waited when told so, and notes all."""

    inner: Any
    refuse: bool = False
    reached: asyncio.Event = field(default_factory=asyncio.Event)
    open: asyncio.Event = field(default_factory=asyncio.Event)
    put: set[str] = field(default_factory=set)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    async def apply(self, batches: Any, operation_ids: Any) -> Any:
        self.reached.set()
        if not self.open.is_set():
            await self.open.wait()
            if self.refuse:
                raise StoreUnavailable("gone")
        self.put |= {stored.record.id for _, entries in batches.values() for each in entries for stored in each.upserts}
        return await self.inner.apply(batches, operation_ids)


@asynccontextmanager
async def gated(memory: AsyncAgentMemory, *, refuse: bool = False) -> AsyncIterator[Gate]:
    """Hold up what is applied, beginning with a first turn; it goes on at the end."""
    gate = Gate(graph_of(memory).graph, refuse)
    graph_of(memory).graph = gate
    await memory.store_turn({"content": "Bees sleep in winter.", "turn_id": "first"})
    await asyncio.wait_for(gate.reached.wait(), 60)
    yield gate
    gate.open.set()


async def test_what_others_wrote_in_between_is_not_passed_over(home: Path, stack: Stack) -> None:
    async with opened(home, stack, "alice") as memory:
        async with gated(memory):
            await memory.store_turn({"content": "Bees fly.", "turn_id": "before"})
            await left_undone(memory, memory.scope.user_id, 1)
            await memory.store_turn({"content": "Bees dance.", "turn_id": "after"})
        await arrived(memory)
        assert await held(memory) == {"first", "before", "t0", "after"}


async def test_what_a_graph_that_is_away_was_to_get_is_read_again(
    home: Path, stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some of it may be erased by then, by another process too."""
    monkeypatch.setattr("agentmem.engine.graph_projection.BACKOFF_SECONDS", 600)
    async with opened(home / "a", stack, "alice") as memory, opened(home / "b", stack, "alice") as other:
        async with gated(memory, refuse=True) as gate:
            await memory.store_turn({"content": "The code is heron.", "turn_id": "secret"})
        async with asyncio.timeout(60):
            while not graph_of(memory).is_backing_off():
                await asyncio.sleep(0.01)
        await other.forget("secret", hard=True)
        graph_of(memory).reset_backoff()
        await arrived(memory)
        await memory.flush()
        assert "secret" not in gate.put
        assert await held(memory) == {"first"}


async def test_a_repeated_write_brings_nothing_twice(home: Path, stack: Stack) -> None:
    async with opened(home, stack, "alice") as memory:
        first = await memory.store_turn({"content": "Bees sleep.", "turn_id": "t1"})
        await arrived(memory)
        assert await memory.store_turn({"content": "Bees sleep.", "turn_id": "t1"}) == first
        more = await memory.store_turns(
            [{"content": "Bees sleep.", "turn_id": "t1"}, {"content": "Bees fly.", "turn_id": "t2"}]
        )
        await arrived(memory)
        assert await held(memory) == {turn.id for turn in more} == {"t1", "t2"}
