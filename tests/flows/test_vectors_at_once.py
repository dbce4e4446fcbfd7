"""The vectors of an embedder that is no model are committed with the log, or follow like those of a model."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agentmem.core.changes import JournalEntry
from agentmem.engine.engine import add_projection
from agentmem.engine.vector_projection import MAX_INLINE_TEXTS, VectorProjection
from agentmem.errors import StoreUnavailable
from agentmem.facade.async_memory import AsyncAgentMemory
from agentmem.models.protocols import Vectors
from agentmem.models.providers.hash import HashEmbedder
from agentmem.stores.sqlite.database import SqliteDatabase
from agentmem.stores.sqlite.vectors import SqliteVectors
from agentmem.stores.values import VectorBatch
from tests.fakes.as_a_model import AsyncOnlyEmbedder

SERVED, OTHER = "vectors/hash:v1:64", "vectors/hash:v1:32"
Row = tuple[Any, ...]


@asynccontextmanager
async def opened(home: Path, **more: Any) -> AsyncIterator[AsyncAgentMemory]:
    async with AsyncAgentMemory("ann", home=home, embedder="hash", dimensions=64, **more) as memory:
        yield memory


def database(memory: AsyncAgentMemory) -> SqliteDatabase:
    log: Any = memory.engine.log
    found: SqliteDatabase = log.database
    return found


async def rows(memory: AsyncAgentMemory, dimensions: int = 64) -> list[Row]:
    text = f'SELECT slot, kind, channel, grain, part, start, "end", asks, vector FROM passages_{dimensions} ORDER BY id'
    return await database(memory).read(lambda db: list(db.execute(text)))


def served(memory: AsyncAgentMemory) -> VectorProjection:
    return memory.engine.vector_projections[0]


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Vectors that follow have no store to go to."""

    async def refused(index: SqliteVectors, batches: object) -> dict[str, int]:
        raise StoreUnavailable("no second transaction")

    monkeypatch.setattr(SqliteVectors, "apply", refused)


async def live(memory: AsyncAgentMemory) -> None:
    """Write one of everything that has a text, changes one, or loses one."""
    await memory.store_turn("Ann moved to Lisbon.", turn_id="t1")
    await memory.store_turns([f"The bees are {word}." for word in ("calm", "busy", "gone")])
    fact = await memory.learn_fact("Ann keeps bees")
    await memory.upsert_entity({"name": "Acme", "type": "organisation"})
    await memory.upsert_entity({"name": "Acme", "type": "organisation", "description": "It makes anvils."})
    await memory.semantic.supersede_fact(fact.id, "Ann kept bees")
    await memory.forget("t1")


@pytest.mark.usefixtures("alone")
async def test_a_write_is_committed_with_its_vectors(home: Path) -> None:
    async with opened(home) as memory:
        await live(memory)
        assert await memory.lag() == {"graph": 0, SERVED: 0}
        found = await memory.remember("Who makes anvils?")
        assert "Acme" in {entity.name for entity in found.entities}  # the vector of its latest description
        assert found.notices == ()


async def test_they_are_the_ones_that_would_have_followed(home: Path) -> None:
    async with opened(home / "at once", seed=1) as memory:
        await live(memory)
        at_once = await rows(memory)
    async with opened(home / "followed", seed=1) as memory:
        served(memory).embedder = AsyncOnlyEmbedder(served(memory).embedder)
        await live(memory)
        assert await rows(memory) == at_once


async def test_what_is_new_beside_a_repeated_turn_has_its_vectors_with_the_write(home: Path) -> None:
    async with opened(home) as memory:
        served(memory).embedder = AsyncOnlyEmbedder(served(memory).embedder)
        old = {"turn_id": "old", "content": "Ann moved to Lisbon."}
        await memory.store_turn(old)
        await memory.store_turns(["Ann keeps bees.", old])
        assert (await memory.lag())[SERVED] == 0
        assert len(await rows(memory)) == 2


@pytest.mark.usefixtures("alone")
async def test_a_vector_given_with_a_turn_is_taken_and_let_go(home: Path) -> None:
    given = np.eye(64, dtype=np.float32)[5]
    async with opened(home) as memory:
        await memory.store_turn({"content": "Ann moved to Lisbon.", "embedding": given.tolist()})
        (row,) = await rows(memory)
        assert np.frombuffer(row[-1], dtype="<f2").tolist() == given.tolist()
        assert served(memory).precomputed == {}


@pytest.mark.parametrize("step", ["audit", "vectors"])
async def test_a_write_that_is_rolled_back_leaves_none(home: Path, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(taken: str) -> None:
        if taken == step:
            raise StoreUnavailable("broken off")

    turn = {"turn_id": "t2", "content": "She keeps bees.", "embedding": [1.0] * 64}
    async with opened(home) as memory:
        await memory.store_turn("Ann moved to Lisbon.", turn_id="t1")
        before = await rows(memory), served(memory).local_watermark(memory.scope)
        with monkeypatch.context() as patch:
            patch.setattr(memory.engine.log, "_hook", broken)
            with pytest.raises(StoreUnavailable, match="broken off"):
                await memory.store_turn(turn)
        assert (await rows(memory), served(memory).local_watermark(memory.scope)) == before
        await memory.store_turn(turn)
        assert await memory.lag() == {"graph": 0, SERVED: 0}
        assert len(await rows(memory)) == len(before[0]) + 1


async def test_an_embedder_that_fails_costs_no_write_and_is_caught_up(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(embedder: HashEmbedder, texts: Sequence[str]) -> Vectors:
        raise RuntimeError("out of order")

    async with opened(home) as memory:
        with monkeypatch.context() as patch:
            patch.setattr(HashEmbedder, "embed_sync", broken)
            await memory.store_turn("Ann moved to Lisbon.")
            assert (await memory.lag())[SERVED] == 1
            assert served(memory).last_error.endswith("failed (RuntimeError)")
        await memory.flush()
        assert (await memory.lag())[SERVED] == 0
        assert len(await rows(memory)) == 1


async def test_what_fails_half_way_leaves_nothing_of_it_in_the_write(
    home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    write, seen = SqliteVectors._write_rows, []

    def interrupted(index: SqliteVectors, db: Any, *arguments: Any) -> list[int]:
        write(index, db, *arguments)
        seen.append(db.execute("SELECT count(*) FROM passages_64").get)
        raise RuntimeError("half way")

    async def later(index: SqliteVectors, batches: object) -> dict[str, int]:
        raise StoreUnavailable("later")

    async with opened(home) as memory:
        with monkeypatch.context() as patch:
            patch.setattr(SqliteVectors, "_write_rows", interrupted)
            patch.setattr(SqliteVectors, "apply", later)
            await memory.store_turn("Ann moved to Lisbon.")
        assert (seen, await rows(memory)) == ([1], [])
        assert [
            line.message for line in caplog.records if "vectors_follow" in line.message and "Lisbon" not in line.message
        ]
        assert (await memory.lag())[SERVED] == 1
        await memory.flush()
        assert len(await rows(memory)) == 1


@pytest.mark.usefixtures("alone")
async def test_a_caller_who_goes_away_changes_nothing_of_it(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reached, go_on = threading.Event(), threading.Event()

    def held(step: str) -> None:
        if step == "vectors":
            reached.set()
            assert go_on.wait(10)

    async with opened(home) as memory:
        with monkeypatch.context() as patch:
            patch.setattr(memory.engine.log, "_hook", held)
            storing = asyncio.ensure_future(memory.store_turn({"content": "Bees.", "embedding": [1.0] * 64}))
            await asyncio.to_thread(reached.wait, 10)
            storing.cancel()
            go_on.set()
            await asyncio.gather(storing, return_exceptions=True)
            assert storing.cancelled()
            await database(memory).run_without_transaction(lambda db: None)  # comes after it on the writer's thread
        assert await memory.lag() == {"graph": 0, SERVED: 0}
        assert (served(memory).local_watermark(memory.scope), served(memory).precomputed) == (1, {})


async def test_another_embedder_beside_it_follows_and_takes_over(home: Path) -> None:
    async with opened(home) as memory:
        await add_projection(memory.engine, HashEmbedder(32))
        other = memory.engine.vector_projections[1]
        await memory.store_turn("Ann moved to Lisbon.")
        assert await memory.lag() == {"graph": 0, SERVED: 0, OTHER: 0}
        assert [len(await rows(memory, size)) for size in (64, 32)] == [1, 1]
        await memory.engine.log.set_meta({"embedder": other.embedder.identity})
        await memory.remember("Lisbon")  # which sees that
        assert served(memory) is other
        await memory.store_turn("She keeps bees.")
        assert [len(await rows(memory, size)) for size in (64, 32)] == [1, 2]


async def test_a_large_write_waits_for_none(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at_once, made = VectorProjection.embed_now, []

    def noted(projection: VectorProjection, entries: Sequence[JournalEntry]) -> VectorBatch | None:
        made.append(at_once(projection, entries))
        return made[-1]

    monkeypatch.setattr(VectorProjection, "embed_now", noted)
    async with opened(home) as memory:
        for count in (MAX_INLINE_TEXTS, MAX_INLINE_TEXTS + 1):
            await memory.store_turns([f"Bee number {number}." for number in range(count)])
        assert [batch is not None for batch in made] == [True, False]
        assert await memory.lag() == {"graph": 0, SERVED: 0}
        assert len(await rows(memory)) == 2 * MAX_INLINE_TEXTS + 1
