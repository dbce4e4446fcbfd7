"""Vectors on the graph's nodes and Neo4j's indexes over them, for people who search in Cypher; nothing here does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping

import numpy as np
from numpy.typing import NDArray

from agentmem.core.record import Key
from agentmem.core.scope import Scope
from agentmem.errors import SchemaMismatch
from agentmem.stores.neo4j.database import Neo4jDatabase, Transaction, fetch_rows, parse_address
from agentmem.stores.neo4j.migrations import MIGRATION_SECONDS, graph_update, wait_for_indexes
from agentmem.stores.neo4j.write import node_key
from agentmem.text.templates import load_templates

_CYPHER = load_templates(__package__, "vectors.cypher")

VECTOR_INDEXES = {f"{label.lower()}_embeddings": label for label in ("Turn", "Entity", "Fact", "Strategy")}
MIN_FILTERED_RELEASE = 2026  # the first release, by its year, whose vector indexes hold properties to filter by


class Neo4jNodeVectors:
    """A GraphNodeVectors, see the protocol, over the database of a graph."""

    def __init__(self, database: Neo4jDatabase) -> None:
        self._database = database

    async def watermarks(self, users: Collection[str], name: str) -> dict[str, tuple[int, int]]:
        """How far these users are followed under this name, and how far by the graph itself."""
        asked = list(dict.fromkeys(users))
        values = {"users": asked, "name": name, "count": max(len(asked), 1)}
        ((found,),) = await self._database.read(lambda tx: fetch_rows(tx, _CYPHER["watermarks"], **values))
        return {**dict.fromkeys(asked, (0, 0)), **{user_id: (seq, graph) for user_id, seq, graph in found}}

    async def write(
        self,
        scope: Scope,
        name: str,
        after_seq: int,
        through_seq: int,
        vectors: Mapping[Key, tuple[int, NDArray[np.float16] | None]],
    ) -> bool:
        """Put vectors on the nodes of these records, in one transaction with the watermark."""
        user = {"user_id": scope.user_id}
        put = [
            {"key": node_key(key), "ordinal": ordinal, "vector": vector.astype(np.float64).tolist()}
            for key, (ordinal, vector) in vectors.items()
            if vector is not None
        ]
        bare = [node_key(key) for key, (_, vector) in vectors.items() if vector is None]

        async def work(tx: Transaction) -> bool:
            await fetch_rows(tx, graph_update("lock"), users=[scope.user_id])
            await fetch_rows(tx, _CYPHER["begin"], **user, name=name)
            if not await fetch_rows(tx, _CYPHER["advance"], **user, name=name, after=after_seq, through=through_seq):
                return False
            if after_seq == 0:
                await fetch_rows(tx, _CYPHER["others"], **user, name=name)
            for block, values in (("put", {"vectors": put}), ("take_off", {"keys": bare})):
                if any(values.values()):
                    await fetch_rows(tx, _CYPHER[block], **user, **values)
            return True

        return await self._database.write(work)

    async def clear(self, user_id: str) -> None:
        """Let the user's vectors be written again from the start."""

        async def work(tx: Transaction) -> None:
            await fetch_rows(tx, graph_update("lock"), users=[user_id])
            await fetch_rows(tx, _CYPHER["reset"], user_id=user_id)

        await self._database.write(work)


async def create_indexes(url: str, dimensions: int, *, credentials: Mapping[str, str] | None = None) -> int:
    """Make the vector indexes that are not there for vectors of so many numbers, and wait until all are online.

    One of another shape is dropped first. Returns how many were made. Raises ConfigError for a URL that cannot work,
    StoreUnavailable when the server cannot be reached.
    """
    database = Neo4jDatabase(parse_address(url, credentials), retry_seconds=MIGRATION_SECONDS)
    try:
        version = await database.read(_server_release)
        wrong = await database.read(lambda tx: find_unfit_indexes(tx, dimensions))
        make = "make_filtered" if version >= MIN_FILTERED_RELEASE else "make"
        for name in wrong:
            for block in ("drop", make):
                text = _CYPHER[block].replace("NAME", name).replace("LABEL", VECTOR_INDEXES[name])
                try:
                    await database.write(_build_work(text, dimensions), MIGRATION_SECONDS)
                except SchemaMismatch:  # perhaps another one made it since this one looked; then it is there now
                    await database.write(_build_work(text, dimensions), MIGRATION_SECONDS)
        await wait_for_indexes(database)
        return len(wrong)
    finally:
        await database.close()


async def find_unfit_indexes(tx: Transaction, dimensions: int) -> list[str]:
    """Names of the vector indexes that are missing, or made for vectors of another size or without filters."""
    held = {name: shape for name, *shape in await fetch_rows(tx, _CYPHER["indexes"])}
    filters = ["user_id", "channel", "visible_until"] if await _server_release(tx) >= MIN_FILTERED_RELEASE else []
    wanted = [["embedding", *filters], dimensions, "COSINE"]
    return [name for name, label in VECTOR_INDEXES.items() if held.get(name) != [[label], *wanted]]


def _build_work(statement: str, dimensions: int) -> Callable[[Transaction], Awaitable[object]]:
    return lambda tx: fetch_rows(tx, statement, dimensions=dimensions)


async def _server_release(tx: Transaction) -> int:
    """The first number of the server's version."""
    ((version, _),) = await fetch_rows(tx, load_templates(__package__, "diagnostics.cypher")["server"])
    return int(str(version).partition(".")[0])
