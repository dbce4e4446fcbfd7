"""No room left: a clear error, nothing half done, and everything works again once there is room."""

from __future__ import annotations

import asyncio
import multiprocessing
import resource
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import Any

import pytest

from agentmem.errors import ModelUnavailable, StoreUnavailable
from agentmem.facade.async_memory import AsyncAgentMemory
from agentmem.stores.sqlite.connection import SqliteConnection
from agentmem.stores.sqlite.vectors import SqliteVectors
from agentmem.stores.values import VectorBatch
from tests.faults import checks

SPAWN = multiprocessing.get_context("forkserver")
NO_LIMIT = 1_000_000_000  # pages
LONG = "lorem ipsum dolor sit amet " * 400


async def _open(home: Path, dimensions: int = 64) -> AsyncAgentMemory:
    memory = AsyncAgentMemory("ann", home=home, embedder="hash", dimensions=dimensions, conversation_id="talk")
    return await memory.open()


async def _limit(memory: AsyncAgentMemory, spare: int) -> None:
    """Let the file grow by so many pages only."""
    database: Any = memory.engine.log.database  # type: ignore[attr-defined]
    pages = await database.run_without_transaction(lambda db: db.pragma("page_count"))
    await database.run_without_transaction(lambda db: db.pragma("max_page_count", min(pages + spare, NO_LIMIT)))


async def _fill(memory: AsyncAgentMemory) -> int:
    """Store turns until there is no room; how many were acknowledged."""
    for number in range(1, 1000):
        try:
            await memory.store_turn(f"{number} {LONG}", turn_id=f"t{number}")
        except StoreUnavailable as error:
            said = str(error)
            break
    else:
        raise AssertionError("the limit was never reached")
    assert "memory.db" in said
    assert "no room left" in said or "disk full" in said
    return number - 1


async def _same_again(memory: AsyncAgentMemory, count: int) -> None:
    """With room, the write that failed is done, once, and everything is whole."""
    await memory.store_turn(f"{count + 1} {LONG}", turn_id=f"t{count + 1}")
    await checks.check_settled(memory)
    await checks.check_journal(memory.engine, memory.scope)
    turns = await memory.episodic.get_conversation("talk")
    assert [turn.id for turn in turns] == ["t0", *(f"t{number}" for number in range(1, count + 2))]
    assert [turn.index for turn in turns] == list(range(count + 2))
    await checks.check_rebuild_equal(memory.engine, [memory.scope])
    await checks.check_healthy(memory.engine)


@pytest.mark.parametrize("spare", [0, 1, 5, 9, 14, 40])
async def test_a_full_file_refuses_the_write_whole(home: Path, spare: int) -> None:
    memory = await _open(home)
    await memory.store_turn("Hello there.", turn_id="t0")
    await _limit(memory, spare)
    count = await _fill(memory)
    turns = await memory.episodic.get_conversation("talk")
    assert len(turns) == count + 1  # what failed left nothing behind
    bundle = await memory.remember("hello there")
    assert "t0" in {turn.id for turn in bundle.turns}
    await _limit(memory, NO_LIMIT)
    await _same_again(memory, count)
    await memory.close()


class _Crammed:
    """A vector index that never has room."""

    def __init__(self, memory: AsyncAgentMemory, index: Any) -> None:
        self._memory, self._index = memory, index

    def __getattr__(self, name: str) -> Any:
        return getattr(self._index, name)

    async def apply(self, batches: Any) -> Any:
        await _limit(self._memory, 0)
        try:
            return await self._index.apply(batches)
        finally:
            await _limit(self._memory, NO_LIMIT)


async def test_vectors_without_room_wait_and_catch_up(home: Path) -> None:
    """The log has room, the vectors that follow have none: the write is acknowledged, and found by its words."""
    memory = await _open(home, dimensions=4096)  # every vector needs pages of its own
    projection = memory.engine.vector_projections[0]
    index: Any = projection.index
    projection.index = _Crammed(memory, index)  # type: ignore[assignment]
    await memory.store_turn(LONG, turn_id="t1")
    assert await memory.lag() == {"graph": 0, projection.name: 1}
    bundle = await memory.remember("lorem ipsum")
    assert [turn.id for turn in bundle.turns] == ["t1"]
    assert any("not built yet" in notice for notice in bundle.notices)
    with pytest.raises(ModelUnavailable, match="no room left"):
        await memory.flush()
    projection.index = index
    await checks.check_settled(memory)
    await checks.check_healthy(memory.engine)
    await memory.close()


async def test_vectors_without_room_cost_no_write_that_they_come_with(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log has room, the vectors of its own transaction have none: they are left out, and made later."""
    memory = await _open(home, dimensions=4096)
    await memory.store_turn("Hello there.", turn_id="t0")
    put, tries = SqliteVectors.write_batch, 0

    def crammed(index: SqliteVectors, db: SqliteConnection, user_id: str, batch: VectorBatch) -> Any:
        nonlocal tries
        tries += 1
        db.pragma("max_page_count", db.pragma("page_count"))
        try:
            return put(index, db, user_id, batch)
        finally:
            db.pragma("max_page_count", NO_LIMIT)

    with monkeypatch.context() as patch:
        patch.setattr(SqliteVectors, "write_batch", crammed)
        await memory.store_turn(LONG, turn_id="t1")
        assert tries == 2, "with the log, and once more behind it"
    assert (await memory.lag())["vectors/hash:v1:4096"] == 1
    await checks.check_settled(memory)
    await checks.check_rebuild_equal(memory.engine, [memory.scope])
    await checks.check_healthy(memory.engine)
    await memory.close()


async def _limited(home: Path) -> None:
    memory = await _open(home)
    await memory.store_turn("Hello there.", turn_id="t0")
    largest = max(path.stat().st_size for path in home.iterdir())
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (largest, hard))
    count = await _fill(memory)
    bundle = await memory.remember("hello there")
    assert bundle.turns[0].id == "t0"
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    await _same_again(memory, count)
    await memory.close()


def _live(home: str, pipe: Pipe) -> None:
    asyncio.run(_limited(Path(home)))
    pipe.send("done")


def test_files_that_may_not_grow_refuse_the_write_and_still_answer(home: Path) -> None:
    ours, theirs = SPAWN.Pipe(duplex=False)
    child = SPAWN.Process(target=_live, args=(str(home), theirs))
    child.start()
    theirs.close()
    assert ours.recv() == "done"
    child.join()
    assert child.exitcode == 0
