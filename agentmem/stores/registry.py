"""Opens the stores that the settings name: one embedded file, or servers. Backends and their drivers load only then."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from agentmem.core.clock import Clock
from agentmem.settings.settings import Settings
from agentmem.stores.admin import StoreAdmin
from agentmem.stores.api_keys import ApiKeyStore
from agentmem.stores.job_queue import JobQueue
from agentmem.stores.protocols import GraphNodeVectors, GraphStore, LogStore, ReplicatedGraph, SessionStore, VectorIndex
from agentmem.stores.sql.api_keys import SqlApiKeys
from agentmem.stores.sql.graph import SqlGraph
from agentmem.stores.sql.jobs import SqlJobQueue

if TYPE_CHECKING:
    from agentmem.stores.postgres import PostgresLog
    from agentmem.stores.sqlite import SqliteLog

OpenIndex = Callable[[str, int, int], Awaitable[VectorIndex]]


@dataclass(frozen=True, slots=True)
class Stores:
    """Open stores. `graph` is in the log's database; `replicated_graph` is one on a server that follows it, if any.

    `graph_node_vectors` exists only with the setting `graph_vectors`. In `notices` stores say that somebody has to act.
    """

    log: LogStore
    graph: GraphStore
    replicated_graph: ReplicatedGraph | None
    session: SessionStore
    admin: StoreAdmin
    job_queue: JobQueue
    api_keys: ApiKeyStore
    open_index: OpenIndex
    graph_node_vectors: GraphNodeVectors | None = None
    notices: list[str] = field(default_factory=list)


async def open_stores(settings: Settings, clock: Clock) -> Stores:
    """Open all stores, or none. Raises ConfigError, SchemaMismatch, CorruptStore or StoreUnavailable."""
    notices = list[str]()
    async with AsyncExitStack() as opened:
        if settings.log_server_url is None:
            from agentmem.stores import sqlite  # lazy: loads the driver

            log = await sqlite.open_log(settings.database, clock, policy=settings)
            opened.push_async_callback(log.close)
            session = await _open_session(settings, clock, notices, can_write=not log.database.write_obstacle)
            upkeep, open_index = sqlite.SqliteAdmin(log.database), partial(sqlite.open_vectors, log.database)
            stack = _join_stores(log, session, upkeep, open_index, clock)
        else:
            session = await _open_session(settings, clock, notices)
            opened.push_async_callback(session.close)
            stack = await _open_servers(settings, clock, session, opened)
        opened.pop_all()  # nothing failed: the caller closes them
        return replace(stack, notices=notices)


async def _open_servers(settings: Settings, clock: Clock, session: SessionStore, exit_stack: AsyncExitStack) -> Stores:
    from agentmem.stores import postgres  # lazy: an extra

    assert settings.log_server_url is not None
    log = await postgres.open_log(settings.log_server_url, clock, policy=settings)
    exit_stack.push_async_callback(log.close)
    upkeep, open_index = postgres.PostgresAdmin(log.database), partial(postgres.open_vectors, log.database)
    stack = _join_stores(log, session, upkeep, open_index, clock)
    if settings.graph_server_url is None:
        return stack
    from agentmem.stores import neo4j  # lazy: an extra

    replica = await neo4j.open_graph(settings.graph_server_url, clock, log, store_id=(await log.meta())["store_id"])
    vectors = neo4j.Neo4jNodeVectors(replica.database) if settings.graph_vectors else None
    return replace(stack, replicated_graph=replica, graph_node_vectors=vectors)


def _join_stores(
    log: SqliteLog | PostgresLog, session: SessionStore, admin: StoreAdmin, open_index: OpenIndex, clock: Clock
) -> Stores:
    """What all stacks have: what lies in the log's database, and the session cache."""
    database = log.database
    graph, job_queue, api_keys = SqlGraph(database, clock), SqlJobQueue(database), SqlApiKeys(database)
    return Stores(log, graph, None, session, admin, job_queue, api_keys, open_index)


async def _open_session(
    settings: Settings, clock: Clock, notices: list[str], *, can_write: bool = True
) -> SessionStore:
    """The session cache; in this process where it is a file and nothing can be written."""
    if (url := settings.session_server_url) is not None:
        from agentmem.stores import redis  # lazy: an extra

        session = await redis.open_session(url, clock, notices)
        await session.probe()
        return session
    from agentmem.stores import sqlite

    assert settings.session_file is not None
    return await sqlite.open_session(settings.session_file if can_write else None, clock)
