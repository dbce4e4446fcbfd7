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

from agentmem.core.scope import SYSTEM_USER, Operator, Scope
from agentmem.stores.protocols import VectorIndex
from agentmem.stores.sqlite import SqliteLog
from agentmem.stores.sqlite import vectors as sqlite_vectors
from agentmem.stores.values import SENTENCE, WHOLE, ChunkScores, VectorBatch, VectorRow, Where
from agentmem.stores.vectors.search import CACHE_BUDGET_BYTES
from tests.conformance.stores import START, open_sqlite_log

IDENTITY, DIMENSIONS = "hash:test:24", 24
BACKENDS = ["sqlite", pytest.param("postgres", marks=pytest.mark.server("postgres"))]


class VectorBackend(Protocol):
    """A store for vectors, and what the log does with them in transactions of its own."""

    async def open(
        self, identity: str = IDENTITY, dimensions: int = DIMENSIONS, budget: int = CACHE_BUDGET_BYTES
    ) -> VectorIndex:
        """Open the vectors of an embedder, as another process would."""
        ...

    async def erase(self, user_id: str, slots: Collection[int] | None) -> None:
        """Take records out, of every embedder and past the caches."""
        ...

    async def list_embedders(self) -> list[str]: ...

    async def drop(self, identity: str) -> int: ...

    async def delete_watermarks(self, user_id: str) -> None:
        """Take the user's watermarks out, which nobody but a test does."""
        ...

    async def count_rows(self, user_id: str) -> dict[str, int]:
        """How many rows of the user each table of vectors has."""
        ...


class SqliteVectorBackend:
    """In the file of an embedded log."""

    def __init__(self, log: SqliteLog) -> None:
        self.log, self.database = log, log.database

    async def open(
        self, identity: str = IDENTITY, dimensions: int = DIMENSIONS, budget: int = CACHE_BUDGET_BYTES
    ) -> Any:
        return await sqlite_vectors.open_vectors(self.database, identity, dimensions, budget)

    async def erase(self, user_id: str, slots: Collection[int] | None) -> None:
        await self.database.write(lambda db: sqlite_vectors.erase(db, user_id, slots))

    async def list_embedders(self) -> list[str]:
        return await self.database.read(sqlite_vectors.list_embedders)

    async def drop(self, identity: str) -> int:
        return await self.database.write(lambda db: sqlite_vectors.drop(db, identity))

    async def delete_watermarks(self, user_id: str) -> None:
        statement = "DELETE FROM projection_watermarks WHERE user_id = ?"
        await self.database.write(lambda db: db.execute(statement, (user_id,)).fetchall())

    async def count_rows(self, user_id: str) -> dict[str, int]:
        names = await self.database.read(sqlite_vectors.vector_tables)
        count = "SELECT count(*) FROM {} WHERE user_id = ?"
        return await self.database.read(lambda db: {n: db.execute(count.format(n), (user_id,)).get for n in names})


class PostgresVectorBackend:
    """In a database, as a client that owns nothing there and sees only what it says it is."""

    def __init__(self, url: str) -> None:
        from agentmem.stores.postgres.database import PostgresDatabase

        self.url, self.database = url, PostgresDatabase(url)

    async def open(
        self, identity: str = IDENTITY, dimensions: int = DIMENSIONS, budget: int = CACHE_BUDGET_BYTES
    ) -> Any:
        from agentmem.stores.postgres.vectors import open_vectors

        return await open_vectors(self.database, identity, dimensions, budget)

    async def erase(self, user_id: str, slots: Collection[int] | None) -> None:
        from agentmem.stores.postgres.vectors import erase

        await self.database.commit(user_id, lambda db: erase(db, user_id, slots))

    async def list_embedders(self) -> list[str]:
        from agentmem.stores.postgres.vectors import list_embedders

        return await self.database.query(SYSTEM_USER, list_embedders)

    async def drop(self, identity: str) -> int:
        from agentmem.stores.postgres.vectors import drop

        return await drop(self.database, identity, Operator())

    async def delete_watermarks(self, user_id: str) -> None:
        statement = "DELETE FROM projection_watermarks WHERE user_id = %(user_id)s"
        await self.database.commit(user_id, lambda db: db.execute(statement, {"user_id": user_id}))

    async def count_rows(self, user_id: str) -> dict[str, int]:
        from agentmem.stores.postgres.database import fetch_rows
        from agentmem.stores.postgres.vectors import vector_tables

        async def read(db: Any) -> dict[str, int]:
            return {
                name: (await fetch_rows(db, f"SELECT count(*) FROM {name}"))[0][0] for name in await vector_tables(db)
            }

        return await self.database.query(user_id, read)


@asynccontextmanager
async def open_sqlite_backend(folder: Path) -> AsyncIterator[SqliteVectorBackend]:
    """A place in a new file."""
    async with open_sqlite_log(folder / "memory.db") as log:
        yield SqliteVectorBackend(log)


@asynccontextmanager
async def open_postgres_backend(url: str) -> AsyncIterator[PostgresVectorBackend]:
    """A place in a database, migrated by its owner and used by somebody with the roles of a worker."""
    import psycopg

    from agentmem.stores.postgres.migrations import migrate

    await migrate(url, START)
    role, password = f"vectors_{os.urandom(6).hex()}", os.urandom(12).hex()
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as owner:
        await owner.execute(f"CREATE ROLE {role} LOGIN PASSWORD '{password}' IN ROLE agentmem_app, agentmem_worker")
        place = PostgresVectorBackend(f"postgresql://{role}:{password}@{url.rpartition('@')[2]}")
        try:
            yield place
        finally:
            await place.database.close()
            await owner.execute(f"DROP ROLE {role}")


@asynccontextmanager
async def open_backend(request: pytest.FixtureRequest, backend: str) -> AsyncIterator[VectorBackend]:
    """An empty place of a backend."""
    if backend == "sqlite":
        async with open_sqlite_backend(request.getfixturevalue("tmp_path")) as made:
            yield made
    else:
        async with open_postgres_backend(request.getfixturevalue("postgres_copy")) as made:
            yield made


def random_unit_vector(*seed: int) -> NDArray[np.float16]:
    """A unit vector of its own."""
    drawn = np.random.default_rng(seed).standard_normal(DIMENSIONS)
    return (drawn / np.linalg.norm(drawn)).astype(np.float16)


QUERY = random_unit_vector(99).astype(np.float32)
ANY_RECORD = Where()
ANN, BOB = Scope("ann"), Scope("bob")
TINY_BUDGET = 1  # a budget that no user fits in


def build_vector_row(ordinal: int, granularity: str = WHOLE, part: int = 0, **fields: Any) -> VectorRow:
    """A passage of a turn."""
    values: dict[str, Any] = {
        "ordinal": ordinal,
        "kind": "Turn",
        "channel": "_global",
        "granularity": granularity,
        "part": part,
        "span": (0, 9),
    }
    return VectorRow(**{**values, "vector": random_unit_vector(ordinal, part, len(granularity)), **fields})


def build_record_rows(ordinal: int, sentences: int = 0, **fields: Any) -> list[VectorRow]:
    """All the passages of a turn."""
    return [
        build_vector_row(ordinal, **fields),
        *(build_vector_row(ordinal, SENTENCE, part, **fields) for part in range(sentences)),
    ]


async def apply_batch(
    index: VectorIndex, scope: Scope, passages: Iterable[VectorRow], replaced: Iterable[int] = ()
) -> None:
    """Apply one more batch."""
    after = await index.watermark(scope.user_id)
    batch = VectorBatch(after_seq=after, through_seq=after + 1, rows=list(passages), replaced_ordinals=list(replaced))
    assert await index.apply({scope.user_id: batch}) == {scope.user_id: after + 1}


async def search(
    index: VectorIndex,
    top_k: int | None = None,
    granularity: str = WHOLE,
    where: Where = ANY_RECORD,
    scope: Scope = ANN,
) -> ChunkScores:
    """What is nearest to QUERY."""
    return await index.search(QUERY, scope, where, granularity, top_k)


def score_rows(scores: ChunkScores) -> list[tuple[int, int, float, bool]]:
    """Slot, part, score and whether it asks."""
    columns = (scores.ordinals.tolist(), scores.parts.tolist(), scores.scores.tolist(), scores.is_question.tolist())
    return list(zip(*columns, strict=True))


async def explain_query(db: Any, statement: str, values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Every node of a statement's plan, on Postgres."""
    from agentmem.stores.postgres.database import fetch_rows as fetched

    ((found,),) = await fetched(db, f"EXPLAIN (FORMAT JSON) {statement}", values)
    todo, nodes = [found[0]["Plan"]], []
    while todo:
        nodes.append(todo.pop())
        todo += nodes[-1].get("Plans", [])
    return nodes
