"""The fault matrix over real servers, once: `python -m tests.faults.servers --rounds 10` runs more of the same."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import pytest

from agentmem.stores.postgres import write
from tests.faults import servers, servers_checks, servers_killed
from tests.faults.servers import DURABLE, KILLED, PAUSED, STEPS, CellResult
from tests.faults.servers_client import TIMEOUT_SECONDS, Client
from tests.faults.servers_killed import KilledClient
from tests.scale import NIGHTLY
from tests.servers.local import LocalServer
from tests.servers.postgres import Postgres
from tests.servers.proxy import HALF_OPEN, REFUSED, RESET, SLOW
from tests.servers.stack import STORE_ID, Stack, prepare

pytestmark = [
    pytest.mark.alone,
    pytest.mark.timeout(900),
    # The driver of Neo4j leaves a socket to the collector when a connection attempt is given up.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
    # That of Postgres leaves it what was to end a transaction, when the connection is given up meanwhile.
    pytest.mark.filterwarnings(
        "ignore:Exception ignored in. <generator object BasePipeline._exit_gen:pytest.PytestUnraisableExceptionWarning"
    ),
]

FAULTS_AT_ONCE = [(KILLED, RESET, SLOW, REFUSED), (PAUSED, HALF_OPEN)]
# By day clients stand before a transaction, in it and after it, before each other store, and nowhere.
LEFT_TO_THE_NIGHT = () if NIGHTLY else set(write.STEPS) - {"records", "committed"}
LEFT_OUT = (("graph_url",), ("graph_url", "session_url"))  # what makes the smaller stacks of servers
MATRIX_STEPS = [step for step in STEPS if step not in LEFT_TO_THE_NIGHT]


def in_parts(*daily: str) -> pytest.MarkDecorator:
    """Run the faults of `make test`, or all of them in `make nightly`."""
    return pytest.mark.parametrize("faults", FAULTS_AT_ONCE if NIGHTLY else [daily], ids="-".join)


@pytest.fixture(autouse=True)
def _sockets_are_collected_here() -> Iterator[None]:
    yield
    gc.collect()


@pytest.fixture
def durable(postgres_url: str) -> Iterator[Postgres]:
    """A Postgres of the test's own that waits for its disk."""
    with Postgres(settings=DURABLE) as server:
        yield server


def without(urls: Mapping[str, Any], left_out: Iterable[str]) -> dict[str, Any]:
    """The settings of a smaller stack."""
    return {name: url for name, url in urls.items() if name not in left_out}


def steps_without(left_out: Iterable[str]) -> list[str]:
    """The steps that a smaller stack has."""
    gone = {f"{name.removesuffix('_url')}: before" for name in left_out}
    return [step for step in MATRIX_STEPS if step not in gone]


def all_well(found: Iterable[CellResult], faults: Iterable[str], steps: Sequence[str] = MATRIX_STEPS) -> None:
    cells = list(found)
    assert [str(cell) for cell in cells if cell.failures] == []
    assert [(cell.fault, cell.step) for cell in cells] == [(fault, step) for fault in faults for step in steps]
    assert min(cell.acknowledged for cell in cells) > 0


@pytest.fixture
def neo4j(request: pytest.FixtureRequest, stack: Stack) -> Any:
    """The run's Neo4j where a proxy alone fails, which saves a start; one of the test's own for faults that kill it."""
    if not NIGHTLY:
        return SimpleNamespace(url=stack.graph_url, port=urlsplit(stack.graph_url).port)
    own = request.getfixturevalue("own_neo4j")
    asyncio.run(prepare(stack.log_url, own.url, None))
    return own


@in_parts(HALF_OPEN)
def test_without_neo4j_memory_goes_on_and_the_graph_follows(
    neo4j: LocalServer, stack: Stack, home: Path, faults: tuple[str, ...]
) -> None:
    urls = {**stack.urls, "graph_url": neo4j.url}
    all_well(servers.run_matrix("neo4j", neo4j, urls, home, faults=faults, steps=MATRIX_STEPS), faults)


@in_parts(KILLED)
@pytest.mark.parametrize("left_out", [(), *(pytest.param(names, marks=pytest.mark.nightly) for names in LEFT_OUT)])
def test_without_postgres_writes_are_refused_whole(
    durable: Postgres, neo4j_url: str, redis_database: str, home: Path, faults: tuple[str, ...], left_out: Sequence[str]
) -> None:
    asyncio.run(prepare(durable.url, neo4j_url, STORE_ID))
    urls = {"log_url": durable.url, "graph_url": neo4j_url, "session_url": redis_database}
    found = servers.run_matrix(
        "postgres", durable, without(urls, left_out), home, faults=faults, steps=steps_without(left_out)
    )
    all_well(found, faults, steps_without(left_out))


@in_parts(HALF_OPEN)
def test_without_redis_memory_goes_on(
    own_redis: LocalServer, stack: Stack, home: Path, faults: tuple[str, ...]
) -> None:
    without_graph = steps_without(["graph_url"])
    urls = without(stack.urls, ["graph_url"])
    found = servers.run_matrix("redis", own_redis, urls, home, faults=faults, steps=without_graph)
    all_well(found, faults, without_graph)


def test_what_a_killed_client_left_undone_is_caught_up(stack: Stack, home: Path) -> None:
    steps = servers_killed.STEPS if NIGHTLY else servers_killed.DAILY_STEPS
    cells = list(servers.killed_clients(stack.urls, home, steps=steps))
    assert [str(cell) for cell in cells if cell.failures] == []
    assert {cell.step for cell in cells} == set(steps)


def test_writes_told_of_too_early_are_noticed(stack: Stack, home: Path) -> None:
    """The checks themselves can fail: here a client takes for safe what was never written."""
    killed = KilledClient("journal", stack.user("ann"), ["a turn"])
    ((_, _, wrong),) = asyncio.run(servers_killed.check_all([killed], stack.urls, home))
    assert "acknowledged and lost" in wrong
    client = Client(servers_checks.build_memory(stack.user("bob"), stack.urls, home), servers.IDLE)
    try:
        client.do(client.open()).result(TIMEOUT_SECONDS)
        client.acknowledged[1] = ("t1", 2)
        with pytest.raises(AssertionError, match="was not there"):
            client.do(client.check()).result(TIMEOUT_SECONDS)
    finally:
        client.do(client.close()).result(TIMEOUT_SECONDS)
        client.stop()
