"""A log and the graph that is kept beside it, embedded or on a server, as the tests of the graph use them."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from agentmem.core.clock import Clock
from agentmem.core.record import Key, Record
from agentmem.core.records import PROFILE_ID, Conversation, Edge, EdgeKind, User, build_record
from agentmem.core.scope import Scope
from agentmem.errors import SchemaMismatch
from agentmem.stores import postgres
from agentmem.stores.neo4j import Neo4jGraph, migrate, open_graph
from agentmem.stores.protocols import GraphStore
from agentmem.stores.sql.graph import SqlGraph
from agentmem.stores.sql.log import SqlLog
from agentmem.stores.sqlite import SqliteLog
from tests.conformance import stores
from tests.conformance.neo4j_walk import WalkedGraph
from tests.conformance.stores import START, ManualClock, build_entity, build_fact, build_goal, build_turn

STORE_ID = "tests"  # all tests share the one database that a server has, each with users of its own


def _user(name: str) -> Scope:
    return Scope(f"{name} {os.urandom(6).hex()}")


@dataclass
class LogWithGraph:
    """A log with its graph, and two users that no other test knows."""

    log: SqlLog[Any]
    graph: GraphStore
    ann: Scope = field(default_factory=lambda: _user("ann"))
    bob: Scope = field(default_factory=lambda: _user("bob"))

    async def write_records(self, *records: Record, scope: Scope | None = None) -> None:
        """Store records of Ann, or of the scope's user, in one change."""
        await stores.write_records(self.log, scope or self.ann, *records)
        await self.sync_graph(scope or self.ann)

    async def delete_records(self, *keys: Key) -> None:
        """Take records of Ann out of the current state."""
        await stores.delete_records(self.log, self.ann, *keys)
        await self.sync_graph(self.ann)

    async def find_neighbors(self, *keys: Key, scope: Scope | None = None, **bounds: Any) -> list[tuple[str, int]]:
        """Ids and distances of the neighbors, as Ann sees them."""
        return [(near.key[1], near.distance) for near in await self.graph.neighbors(keys, scope or self.ann, **bounds)]

    async def sync_graph(self, scope: Scope) -> None:
        """Bring a graph that lags up to the log."""
        if isinstance(self.graph, Neo4jGraph):
            after = await self.graph.watermark(scope.user_id)
            entries = await self.log.changes(scope, after, 500)
            await self.graph.apply({scope.user_id: (after, entries)})


@asynccontextmanager
async def open_server_graph(url: str, log: SqliteLog, clock: Clock | None = None) -> AsyncIterator[WalkedGraph]:
    """The graph of a log on a server, whose schema is made by whoever comes first."""
    clock = clock or ManualClock()
    graph = await open_graph(url, clock, log, store_id=STORE_ID)
    try:
        await graph.database.ensure_ready()
    except SchemaMismatch:
        await graph.close()
        await migrate(url, START, store_id=STORE_ID)
        graph = await open_graph(url, clock, log, store_id=STORE_ID)
    try:
        yield WalkedGraph(graph.database, clock, log)
    finally:
        await graph.close()


@asynccontextmanager
async def open_log_with_graph(folder: Path, backend: str, url: str = "") -> AsyncIterator[LogWithGraph]:
    """A log with its own graph: in a folder, or at a Postgres URL; or one in a folder with a graph at a Neo4j URL."""
    if backend == "postgres":
        server_log = await postgres.open_log(url, ManualClock())
        yield LogWithGraph(server_log, SqlGraph(server_log.database, ManualClock()))
        await server_log.close()
        return
    async with stores.open_sqlite_log(folder / "memory.db") as log:
        if backend == "sqlite":
            yield LogWithGraph(log, SqlGraph(log.database, ManualClock()))
        else:
            async with open_server_graph(url, log) as graph:
                yield LogWithGraph(log, graph)


def build_edge(name: str, kind: EdgeKind, source: str, target: str, **fields: Any) -> Edge:
    """A relation that somebody stated."""
    return build_record(Edge, id=name, edge_kind=kind, source=source, target=target, **fields)


def build_conversation(name: str) -> Conversation:
    """A conversation."""
    return build_record(Conversation, id=name)


NAMES = st.sampled_from("abcd")
RECORDS = st.one_of(
    st.builds(build_turn, NAMES, st.integers(0, 2), st.sampled_from(["c1", "c2"])),
    st.builds(
        lambda n, t, e, s: build_fact(n, source_turn_ids=tuple(t), entity_ids=tuple(e), supersedes=s),
        NAMES,
        st.lists(NAMES, max_size=2),
        st.lists(NAMES, max_size=2),
        st.none() | NAMES,
    ),
    st.builds(
        lambda n, s, v, slot, is_over: build_fact(
            n,
            subject=n,
            slot=slot,
            value=v,
            entity_ids=(s, v),
            subject_entity_id=s,
            value_entity_id=v,
            valid_to=START if is_over else None,
        ),
        NAMES,
        NAMES | st.just(PROFILE_ID),
        NAMES,
        st.sampled_from(["employer", "parents", "likes"]),
        st.booleans(),
    ),
    st.builds(build_entity, NAMES),
    st.builds(lambda n, p: build_goal(n, parent_id=p), NAMES, st.none() | NAMES),
    st.builds(lambda: build_record(Conversation, id="c1")),
    st.builds(lambda: build_record(User, id=PROFILE_ID)),
    st.builds(
        build_edge, NAMES, st.sampled_from([EdgeKind.KNOWS, EdgeKind.MENTIONS, EdgeKind.FOLLOWED_BY]), NAMES, NAMES
    ),
)
HISTORIES = st.lists(
    st.tuples(st.sampled_from(["put", "put", "put", "gone"]), st.lists(RECORDS, min_size=1, max_size=3)), max_size=12
)
"""Steps that put or take out records which name each other."""
