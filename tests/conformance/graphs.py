"""A log and the graph that is kept beside it, embedded or on a server, as the tests of the graph use them."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from agentmem.errors import SchemaMismatch
from agentmem.model.clock import Clock
from agentmem.model.records import PROFILE, Conversation, Edge, EdgeKind, Key, Record, User, build
from agentmem.model.scope import Scope
from agentmem.stores import GraphStore
from agentmem.stores.neo4j import Neo4jGraph, migrate, open_graph
from agentmem.stores.sqlite import SqliteLog
from tests.conformance import stores
from tests.conformance.stores import START, Hand, entity, fact, goal, turn

STORE = "tests"  # all tests share the one database that a server has, each with users of its own


def _user(name: str) -> Scope:
    return Scope(f"{name} {os.urandom(6).hex()}")


@dataclass
class Kept:
    """A log with its graph, and two users that no other test knows."""

    log: SqliteLog
    walks: GraphStore
    ann: Scope = field(default_factory=lambda: _user("ann"))
    bob: Scope = field(default_factory=lambda: _user("bob"))

    async def put(self, *records: Record, scope: Scope | None = None) -> None:
        """Store records of Ann, or of the scope's user, in one change."""
        await stores.put(self.log, scope or self.ann, *records)
        await self.follow(scope or self.ann)

    async def retract(self, *keys: Key) -> None:
        """Take records of Ann out of the current state."""
        await stores.retract(self.log, self.ann, *keys)
        await self.follow(self.ann)

    async def reached(self, *keys: Key, scope: Scope | None = None, **bounds: Any) -> list[tuple[str, int]]:
        """Ids and distances of the neighbours, as Ann sees them."""
        return [(near.key[1], near.distance) for near in await self.walks.neighbours(keys, scope or self.ann, **bounds)]

    async def follow(self, scope: Scope) -> None:
        """Bring a graph that lags up to the log."""
        if isinstance(self.walks, Neo4jGraph):
            after = await self.walks.watermark(scope.user_id)
            entries = await self.log.changes(scope, after, 500)
            await self.walks.apply({scope.user_id: (after, entries)})


@asynccontextmanager
async def kept_on(url: str, log: SqliteLog, clock: Clock | None = None) -> AsyncIterator[Neo4jGraph]:
    """The graph of a log on a server, whose schema is made by whoever comes first."""
    clock = clock or Hand()
    try:
        graph = await open_graph(url, clock, log, store_id=STORE)
    except SchemaMismatch:
        await migrate(url, START, store_id=STORE)
        graph = await open_graph(url, clock, log, store_id=STORE)
    try:
        yield graph
    finally:
        await graph.close()


@asynccontextmanager
async def kept_in(folder: Path, backend: str, url: str = "") -> AsyncIterator[Kept]:
    """A log in a folder, with the graph of a backend."""
    from agentmem.stores.sqlite import open_graph as open_embedded

    async with stores.opened(folder / "memory.db") as log:
        if backend == "sqlite":
            yield Kept(log, open_embedded(log.database, Hand()))
        else:
            async with kept_on(url, log) as graph:
                yield Kept(log, graph)


def edge(name: str, kind: EdgeKind, source: str, target: str, **fields: Any) -> Edge:
    """A relation that somebody stated."""
    return build(Edge, id=name, edge_kind=kind, source=source, target=target, **fields)


def conversation(name: str) -> Conversation:
    """A conversation."""
    return build(Conversation, id=name)


NAMES = st.sampled_from("abcd")
RECORDS = st.one_of(
    st.builds(turn, NAMES, st.integers(0, 2), st.sampled_from(["c1", "c2"])),
    st.builds(lambda n, t, e, s: fact(n, source_turn_ids=tuple(t), entity_ids=tuple(e), supersedes=s), NAMES,
              st.lists(NAMES, max_size=2), st.lists(NAMES, max_size=2), st.none() | NAMES),
    st.builds(entity, NAMES),
    st.builds(lambda n, p: goal(n, parent_id=p), NAMES, st.none() | NAMES),
    st.builds(lambda: build(Conversation, id="c1")),
    st.builds(lambda: build(User, id=PROFILE)),
    st.builds(edge, NAMES,
              st.sampled_from([EdgeKind.KNOWS, EdgeKind.MENTIONS, EdgeKind.FOLLOWED_BY]), NAMES, NAMES),
)  # fmt: skip
HISTORIES = st.lists(
    st.tuples(st.sampled_from(["put", "put", "put", "gone"]), st.lists(RECORDS, min_size=1, max_size=3)), max_size=12
)
"""Steps that put or take out records which name each other."""
