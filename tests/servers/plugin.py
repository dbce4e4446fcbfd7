"""Fixtures that give tests real servers.

A test takes `postgres_url`, `redis_url`, `neo4j_url` or `neo4j_2026_url` (one server of each kind for the whole run;
clean up, or use a user of your own), `postgres_database` or `redis_database` (empty ones of its own),
`empty_neo4j` (one server of the run, which no other test uses meanwhile), or `own_postgres`, `own_redis`, `own_neo4j`
(a server of its own, to be killed and paused). `pgbouncer` stands before the run's Postgres. A test that picks its
backend at run time is marked `server("redis")`. A server that cannot be had fails the tests that need it when CI=true;
else they are passed over and the end of the run says so.
"""

from __future__ import annotations

import fcntl
import os
import uuid
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import NoReturn
from urllib.parse import urlsplit

import pytest

from tests.servers.downloads import CannotStart
from tests.servers.host import Host, ServerAnswer, request_server, servers_of, wait_for
from tests.servers.local import LocalServer
from tests.servers.neo4j import Neo4j
from tests.servers.pgbouncer import PgBouncer
from tests.servers.postgres import Postgres
from tests.servers.redis import Redis

HOST = pytest.StashKey[Host]()
FOLDER = pytest.StashKey[Path]()
MISSING_PREFIX = "no server: "
REAL_TIMEOUT_MARKS = ("alone", "impatient")  # marks of tests in which a session cache has the time it really has


# -- the run


def pytest_configure(config: pytest.Config) -> None:
    """Make the first process the host; the others are told its folder."""
    config.addinivalue_line("markers", "server(*kinds): the test needs these servers of the run")
    if hasattr(config, "workerinput"):
        config.stash[FOLDER] = Path(config.workerinput["servers"])
    elif not config.option.collectonly:
        config.stash[HOST] = Host()
        config.stash[FOLDER] = config.stash[HOST].folder


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: object) -> None:
    """Tell another process of the run where servers are asked for."""
    node.config.stash[HOST].start()  # type: ignore[attr-defined]
    node.workerinput["servers"] = str(node.config.stash[FOLDER])  # type: ignore[attr-defined]


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the tests that need no server first; meanwhile the servers start."""
    items.sort(key=lambda item: bool(servers_of(item)))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Ask for the servers at once."""
    if FOLDER in session.config.stash:
        for kind in {kind for item in session.items for kind in servers_of(item)}:
            _request_server(session.config, kind)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Wait for the servers outside of the test's own time-out."""
    for kind in servers_of(item):
        _wait_for_server(item.config, kind)
    return (yield)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say which tests were not run for want of a server."""
    reports = terminalreporter.stats.get("skipped", [])
    reasons = [report.longrepr[2] for report in reports if isinstance(report.longrepr, tuple)]
    missing = [reason.partition(MISSING_PREFIX)[2] for reason in reasons if MISSING_PREFIX in reason]
    if missing:
        terminalreporter.section("TESTS NOT RUN, for want of a server", red=True, bold=True)
        for reason in dict.fromkeys(missing):
            terminalreporter.line(f"{missing.count(reason)} not run: {reason}", red=True)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop the servers."""
    if HOST in config.stash:
        config.stash[HOST].close()
        del config.stash[HOST]


def _request_server(config: pytest.Config, kind: str) -> None:
    if HOST in config.stash:
        config.stash[HOST].start()
    request_server(config.stash[FOLDER], kind)


def _wait_for_server(config: pytest.Config, kind: str) -> ServerAnswer:
    _request_server(config, kind)
    return wait_for(config.stash[FOLDER], kind)


def _skip_or_fail(reason: str) -> NoReturn:
    if os.environ.get("CI") == "true":
        pytest.fail(f"{MISSING_PREFIX}{reason}", pytrace=False)
    pytest.skip(f"{MISSING_PREFIX}{reason}")


# -- one server for the run


def _url(config: pytest.Config, kind: str) -> str:
    answer = _wait_for_server(config, kind)
    return answer.url or _skip_or_fail(answer.reason)


@pytest.fixture(scope="session")
def postgres_url(pytestconfig: pytest.Config) -> str:
    """The run's Postgres, as its superuser, in the database `postgres`."""
    return _url(pytestconfig, "postgres")


@pytest.fixture(scope="session")
def redis_url(pytestconfig: pytest.Config) -> str:
    """The run's Redis. Its database 0 belongs to `redis_database`."""
    return _url(pytestconfig, "redis")


@pytest.fixture(scope="session")
def neo4j_url(pytestconfig: pytest.Config) -> str:
    """The run's Neo4j, with user and password. It has one database: use users of your own."""
    return _url(pytestconfig, "neo4j")


@pytest.fixture(scope="session")
def neo4j_scratch_url(pytestconfig: pytest.Config) -> str:
    """A second Neo4j of the run. Use `empty_neo4j`, which waits for whoever has it."""
    return _url(pytestconfig, "neo4j_scratch")


@pytest.fixture(scope="session")
def neo4j_2026_url(pytestconfig: pytest.Config) -> str:
    """The run's Neo4j of the newest release, which needs Java 21 or newer. It has one database, too."""
    return _url(pytestconfig, "neo4j_2026")


# -- a place of one's own on it


@pytest.fixture
def postgres_database(postgres_url: str) -> Iterator[str]:
    """The URL of an empty database."""
    import psycopg

    name = f"test_{uuid.uuid4().hex}"
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    address, _, query = postgres_url.partition("?")
    yield f"{address.rpartition('/')[0]}/{name}" + (f"?{query}" if query else "")
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def redis_database(redis_url: str) -> Iterator[str]:
    """The URL of an empty logical database."""
    import redis

    with redis.Redis.from_url(redis_url) as first:
        databases = int(first.config_get("databases")["databases"])
        number = 1 + first.incr("agentmem-tests:databases") % (databases - 1)
    address, _, query = redis_url.partition("?")
    url = f"{address.rpartition('/')[0]}/{number}" + (f"?{query}" if query else "")
    with redis.Redis.from_url(url) as own:
        own.flushdb()
        yield url
        own.flushdb()


@pytest.fixture
def empty_neo4j(pytestconfig: pytest.Config, neo4j_scratch_url: str) -> Iterator[str]:
    """The URL of a Neo4j without data that this test has for itself: a database of one's own takes half a minute."""
    import neo4j

    parts = urlsplit(neo4j_scratch_url)
    place, login = f"bolt://{parts.hostname}:{parts.port}", (parts.username or "", parts.password or "")
    with (pytestconfig.stash[FOLDER] / "neo4j_scratch.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with neo4j.GraphDatabase.driver(place, auth=login) as driver:
            driver.execute_query("MATCH (n) DETACH DELETE n")
        yield neo4j_scratch_url


@pytest.fixture(autouse=True)
def _patient_redis(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine is no server that is away, but for tests that watch what happens when one stands still."""
    if any(request.node.get_closest_marker(name) for name in REAL_TIMEOUT_MARKS):
        return
    from agentmem.stores.redis import session

    monkeypatch.setattr(session, "IO_TIMEOUT_SECONDS", 20.0)
    monkeypatch.setattr(session, "REQUEST_TIMEOUT_SECONDS", 40.0)


# -- a server of one's own


# Each depends on the run's server: what has to be downloaded is then there, and why it cannot be had is known.


def run_server(server: LocalServer) -> Iterator[LocalServer]:
    """Start it for one test; a server that cannot be had fails the test or passes it over, as above."""
    try:
        server.start()
        yield server
    except CannotStart as error:
        _skip_or_fail(str(error))
    finally:
        server.close()


@pytest.fixture
def own_postgres(postgres_url: str) -> Iterator[LocalServer]:
    """A Postgres of the test's own."""
    yield from run_server(Postgres())


@pytest.fixture(scope="session")
def pgbouncer(postgres_url: str) -> Iterator[LocalServer]:
    """A PgBouncer in front of the run's Postgres, in transaction mode."""
    yield from run_server(PgBouncer(postgres_url))


@pytest.fixture
def own_redis(redis_url: str) -> Iterator[LocalServer]:
    """A Redis of the test's own."""
    yield from run_server(Redis())


@pytest.fixture
def own_neo4j(neo4j_url: str) -> Iterator[LocalServer]:
    """A Neo4j of the test's own; it takes a while to start, so give the test a time-out of 300 s."""
    yield from run_server(Neo4j())
