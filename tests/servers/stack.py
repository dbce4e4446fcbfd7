"""All three servers as one memory uses them: a migrated database of the test's own, the run's graph, an empty cache."""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest

from agentmem.core.clock import SystemClock
from agentmem.stores import neo4j, postgres

STORE_ID = "tests"  # all tests share the one database that a Neo4j has, each with users of its own


@dataclass(frozen=True, slots=True)
class Stack:
    """Where the servers are. A user's name must be one that `user` made, because the graph is everybody's."""

    log_url: str
    graph_url: str
    session_url: str
    user_suffix: str

    def user(self, name: str = "alice") -> str:
        """A user that no other test knows."""
        return f"{name} {self.user_suffix}"

    @property
    def urls(self) -> dict[str, Any]:
        """The three settings."""
        return {"log_url": self.log_url, "graph_url": self.graph_url, "session_url": self.session_url}


async def prepare(log_url: str, graph_url: str, store_id: str | None = STORE_ID) -> None:
    """What `agentmem admin migrate` does, for a store of a given name (None: of its own)."""
    clock = SystemClock()
    await postgres.migrate(log_url, clock.now())
    log = await postgres.open_log(log_url, clock)
    try:
        if store_id is not None:
            await log.set_meta({"store_id": store_id})
        owner = (await log.meta())["store_id"]
    finally:
        await log.close()
    await neo4j.migrate(graph_url, clock.now(), store_id=owner)


def database_of(url: str, name: str) -> str:
    """The URL of another database of the same server."""
    address, _, query = url.partition("?")
    return f"{address.rpartition('/')[0]}/{name}" + (f"?{query}" if query else "")


@pytest.fixture(scope="session")
def migrated(postgres_url: str, neo4j_url: str) -> Iterator[str]:
    """The name of a migrated database to make others from."""
    name = f"template_{uuid.uuid4().hex}"
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    asyncio.run(prepare(database_of(postgres_url, name), neo4j_url))
    yield name
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@contextmanager
def copy_database(postgres_url: str, template: str) -> Iterator[str]:
    """The URL of a database like another one, which goes in the end."""
    name = f"test_{uuid.uuid4().hex}"
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
    yield database_of(postgres_url, name)
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def stack(migrated: str, postgres_url: str, neo4j_url: str, redis_database: str) -> Iterator[Stack]:
    """The three servers, for users of this test alone."""
    with copy_database(postgres_url, migrated) as log_url:
        yield Stack(log_url, neo4j_url, redis_database, os.urandom(6).hex())


@pytest.fixture(scope="session")
def postgres_template(postgres_url: str) -> Iterator[str]:
    """The name of a database at the current schema that nobody is connected to, to make others from."""
    name = f"template_{uuid.uuid4().hex}"
    with psycopg.connect(postgres_url, autocommit=True) as connection, ThreadPoolExecutor(1) as thread:
        connection.execute(f"CREATE DATABASE {name}")
        migration = postgres.migrate(database_of(postgres_url, name), SystemClock().now())
        thread.submit(asyncio.run, migration).result()  # in a thread: this one may have a loop that runs
        yield name
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def postgres_copy(postgres_url: str, postgres_template: str) -> Iterator[str]:
    """The URL of a database of the test's own at the current schema, as its owner."""
    with copy_database(postgres_url, postgres_template) as url:
        yield url
