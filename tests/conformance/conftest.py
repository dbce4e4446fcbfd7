"""Every backend that is there, opened for one test. A backend is added by one entry in BACKENDS."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from agentmem.core.clock import Clock
from agentmem.core.scope import Scope
from agentmem.stores.protocols import LogStore
from tests.conformance.writing import START, SettableClock

if TYPE_CHECKING:
    import psycopg

OpenLog = Callable[[], Awaitable[LogStore]]
TRUNCATE_ALL_SQL = """
SELECT 'TRUNCATE ' || string_agg(attrelid::regclass::text, ', ') FROM pg_attribute JOIN pg_class c ON c.oid = attrelid
WHERE attname = 'user_id' AND relkind IN ('r', 'p') AND NOT relispartition AND relnamespace = 'public'::regnamespace
UNION ALL
SELECT $$INSERT INTO store_meta (name, value) VALUES ('store_id', gen_random_uuid()), ('openings', '0')$$
"""


async def open_sqlite(request: pytest.FixtureRequest, clock: Clock) -> LogStore:
    """The embedded backend in a folder of its own."""
    from agentmem.stores.sqlite import open_log

    home: Path = request.getfixturevalue("home")
    return await open_log(home / "memory.db", clock)


async def open_postgres(request: pytest.FixtureRequest, clock: Clock) -> LogStore:
    """The server backend in a database of its own."""
    from agentmem.stores.postgres import open_log

    return await open_log(request.getfixturevalue("postgres_log"), clock)


BACKENDS = {"sqlite": open_sqlite, "postgres": open_postgres}
PARAMETERS = ["sqlite", pytest.param("postgres", marks=pytest.mark.server("postgres"))]


@pytest.fixture(scope="session")
def postgres_migrated(postgres_url: str) -> Iterator[tuple[str, str]]:
    """The URLs of a database at the current schema, for its owner and for a user with the rights of a worker."""
    import psycopg

    from agentmem.stores.postgres import migrate

    name, user, password = f"log_{uuid.uuid4().hex}", f"worker_{uuid.uuid4().hex}", uuid.uuid4().hex
    owned = database_url(postgres_url, name)
    with psycopg.connect(postgres_url, autocommit=True) as connection, ThreadPoolExecutor(1) as thread:
        connection.execute(f"CREATE DATABASE {name}")
        thread.submit(asyncio.run, migrate(owned, START)).result()  # in a thread: this one may have a loop that runs
        connection.execute(f"CREATE ROLE {user} LOGIN PASSWORD '{password}' IN ROLE agentmem_app, agentmem_worker")
        with psycopg.connect(owned) as database:  # the clock of these tests is not the server's
            database.execute("ALTER TABLE memory_audit_log DISABLE TRIGGER memory_audit_log_timely")
        yield owned, database_url(postgres_url, name, f"{user}:{password}")
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
        connection.execute(f"DROP ROLE {user}")


@pytest.fixture
def postgres_log(postgres_migrated: tuple[str, str]) -> str:
    """The URL of a database at the current schema that holds nothing, as a user who owns nothing there."""
    import psycopg

    owned, url = postgres_migrated
    with psycopg.connect(owned) as connection:
        connection.execute("SET session_replication_role = replica")  # else the audit log refuses
        for (statement,) in connection.execute(TRUNCATE_ALL_SQL).fetchall():
            connection.execute(statement)
    return url


@pytest.fixture
def owner(postgres_migrated: tuple[str, str], postgres_log: str) -> Iterator[psycopg.Connection[Any]]:
    """A session of the owner of the same database."""
    import psycopg

    with psycopg.connect(postgres_migrated[0], autocommit=True) as connection:
        yield connection


def database_url(url: str, name: str, login: str = "") -> str:
    """The URL of another database of the same server, for another user when `login` has one with a password."""
    parts = urlsplit(url)
    return parts._replace(
        path=f"/{name}", netloc=f"{login}@{parts.netloc.rpartition('@')[2]}" if login else parts.netloc
    ).geturl()


@pytest.fixture
def clock() -> SettableClock:
    """The clock of every log of a test."""
    return SettableClock()


@pytest.fixture
def scope() -> Scope:
    """Whose memory the test is about."""
    return Scope("alice")


@pytest.fixture
def stranger() -> Scope:
    """Another user of the same store."""
    return Scope("mallory")


@pytest.fixture(params=PARAMETERS)
async def open_log(request: pytest.FixtureRequest, clock: SettableClock) -> AsyncIterator[OpenLog]:
    """Opens the test's store; called again, once more, as another process would. All are closed in the end."""
    opened: list[LogStore] = []

    async def open_one() -> LogStore:
        opened.append(await BACKENDS[request.param](request, clock))
        return opened[-1]

    yield open_one
    for log in opened:
        await log.close()


@pytest.fixture
async def log(open_log: OpenLog) -> LogStore:
    """The test's store."""
    return await open_log()
