"""Where vectors lie, embedded or on a server, as the tests of vectors use it."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pytest
from numpy.typing import NDArray

from agentmem.model.scope import SYSTEM_USER, Operator, Scope
from agentmem.stores import SENTENCE, WHOLE, Batch, Passage, Scores, VectorIndex, Where
from agentmem.stores.sqlite import SqliteLog
from agentmem.stores.sqlite import vectors as sqlite_vectors
from agentmem.stores.vectors.passages import BUDGET
from tests.conformance.stores import START, opened

IDENTITY, DIMENSIONS = "hash:test:24", 24
BACKENDS = ["sqlite", pytest.param("postgres", marks=pytest.mark.server("postgres"))]


class Place(Protocol):
    """A store for vectors, and what the log does with them in transactions of its own."""

    async def open(self, identity: str = IDENTITY, dimensions: int = DIMENSIONS, budget: int = BUDGET) -> VectorIndex:
        """Open the vectors of an embedder, as another process would."""
        ...

    async def erase(self, user_id: str, slots: Collection[int] | None) -> None:
        """Take records out, of every embedder and past the caches."""
        ...

    async def registered(self) -> list[str]: ...

    async def drop(self, identity: str) -> int: ...

    async def forget(self, user_id: str) -> None:
        """Take the user's watermarks out, which nobody but a test does."""
        ...

    async def left(self, user_id: str) -> dict[str, int]:
        """How many rows of the user each table of vectors has."""
        ...


class InFile:
    """In the file of an embedded log."""

    def __init__(self, log: SqliteLog) -> None:
        self.log, self.database = log, log.database

    async def open(self, identity: str = IDENTITY, dimensions: int = DIMENSIONS, budget: int = BUDGET) -> Any:
        return await sqlite_vectors.open_vectors(self.database, identity, dimensions, budget)

    async def erase(self, user_id: str, slots: Collection[int] | None) -> None:
        await self.database.write(lambda db: sqlite_vectors.erase(db, user_id, slots))

    async def registered(self) -> list[str]:
        return await self.database.read(sqlite_vectors.registered)

    async def drop(self, identity: str) -> int:
        return await self.database.write(lambda db: sqlite_vectors.drop(db, identity))

    async def forget(self, user_id: str) -> None:
        statement = "DELETE FROM projection_watermarks WHERE user_id = ?"
        await self.database.write(lambda db: db.execute(statement, (user_id,)).fetchall())

    async def left(self, user_id: str) -> dict[str, int]:
        names = await self.database.read(sqlite_vectors.tables)
        count = "SELECT count(*) FROM {} WHERE user_id = ?"
        return await self.database.read(lambda db: {n: db.execute(count.format(n), (user_id,)).get for n in names})


class OnServer:
    """In a database, as a client that owns nothing there and sees only what it says it is."""

    def __init__(self, url: str) -> None:
        from agentmem.stores.postgres.connection import Database

        self.url, self.database = url, Database(url)

    async def open(self, identity: str = IDENTITY, dimensions: int = DIMENSIONS, budget: int = BUDGET) -> Any:
        from agentmem.stores.postgres.vectors import open_vectors

        return await open_vectors(self.database, identity, dimensions, budget)

    async def erase(self, user_id: str, slots: Collection[int] | None) -> None:
        from agentmem.stores.postgres.embedders import erase

        await self.database.write(user_id, lambda db: erase(db, user_id, slots))

    async def registered(self) -> list[str]:
        from agentmem.stores.postgres.embedders import registered

        return await self.database.read(SYSTEM_USER, registered)

    async def drop(self, identity: str) -> int:
        from agentmem.stores.postgres.embedders import drop

        return await drop(self.database, identity, Operator())

    async def forget(self, user_id: str) -> None:
        statement = "DELETE FROM projection_watermarks WHERE user_id = %(user_id)s"
        await self.database.write(user_id, lambda db: db.execute(statement, {"user_id": user_id}))

    async def left(self, user_id: str) -> dict[str, int]:
        from agentmem.stores.postgres.connection import rows
        from agentmem.stores.postgres.embedders import tables

        async def read(db: Any) -> dict[str, int]:
            return {name: (await rows(db, f"SELECT count(*) FROM {name}"))[0][0] for name in await tables(db)}

        return await self.database.read(user_id, read)


@asynccontextmanager
async def place_in(folder: Path) -> AsyncIterator[InFile]:
    """A place in a new file."""
    async with opened(folder / "memory.db") as log:
        yield InFile(log)


@asynccontextmanager
async def place_on(url: str) -> AsyncIterator[OnServer]:
    """A place in an empty database, migrated by its owner and used by somebody with the roles of a worker."""
    import psycopg

    from agentmem.stores.postgres.migrations import migrate

    await migrate(url, START)
    role, password = f"vectors_{os.urandom(6).hex()}", os.urandom(12).hex()
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as owner:
        await owner.execute(f"CREATE ROLE {role} LOGIN PASSWORD '{password}' IN ROLE agentmem_app, agentmem_worker")
        place = OnServer(f"postgresql://{role}:{password}@{url.rpartition('@')[2]}")
        try:
            yield place
        finally:
            await place.database.close()
            await owner.execute(f"DROP ROLE {role}")


@asynccontextmanager
async def opened_place(request: pytest.FixtureRequest, backend: str) -> AsyncIterator[Place]:
    """An empty place of a backend."""
    if backend == "sqlite":
        async with place_in(request.getfixturevalue("tmp_path")) as made:
            yield made
    else:
        async with place_on(request.getfixturevalue("postgres_database")) as made:
            yield made


def vector(*seed: int) -> NDArray[np.float16]:
    """A unit vector of its own."""
    drawn = np.random.default_rng(seed).standard_normal(DIMENSIONS)
    return (drawn / np.linalg.norm(drawn)).astype(np.float16)


QUERY = vector(99).astype(np.float32)
ANYTHING = Where()
ANN, BOB = Scope("ann"), Scope("bob")
TINY = 1  # a budget that no user fits in


def passage(slot: int, grain: str = WHOLE, part: int = 0, **fields: Any) -> Passage:
    """A passage of a turn."""
    values: dict[str, Any] = {
        "slot": slot,
        "kind": "Turn",
        "channel": "_global",
        "grain": grain,
        "part": part,
        "span": (0, 9),
    }
    return Passage(**{**values, "vector": vector(slot, part, len(grain)), **fields})


def record(slot: int, sentences: int = 0, **fields: Any) -> list[Passage]:
    """All the passages of a turn."""
    return [passage(slot, **fields), *(passage(slot, SENTENCE, part, **fields) for part in range(sentences))]


async def add(index: VectorIndex, scope: Scope, passages: Iterable[Passage], replaced: Iterable[int] = ()) -> None:
    """Apply one more batch."""
    after = await index.watermark(scope.user_id)
    batch = Batch(after=after, through=after + 1, passages=list(passages), replaced=list(replaced))
    assert await index.apply({scope.user_id: batch}) == {scope.user_id: after + 1}


async def search(
    index: VectorIndex, k: int | None = None, grain: str = WHOLE, where: Where = ANYTHING, scope: Scope = ANN
) -> Scores:
    """What is nearest to QUERY."""
    return await index.nearest(QUERY, scope, where, grain, k)


def rows(scores: Scores) -> list[tuple[int, int, float, bool]]:
    """Slot, part, score and whether it asks."""
    columns = (scores.slots.tolist(), scores.parts.tolist(), scores.scores.tolist(), scores.asks.tolist())
    return list(zip(*columns, strict=True))


async def plan_of(db: Any, statement: str, values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Every node of a statement's plan, on Postgres."""
    from agentmem.stores.postgres.connection import rows as fetched

    ((found,),) = await fetched(db, f"EXPLAIN (FORMAT JSON) {statement}", values)
    todo, nodes = [found[0]["Plan"]], []
    while todo:
        nodes.append(todo.pop())
        todo += nodes[-1].get("Plans", [])
    return nodes
