"""What a Neo4j server may do to the graph: be away, refuse, hang, die and come back, and what it is told before use."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from agentmem.core.records import EdgeKind
from agentmem.errors import AuthenticationFailed, Closed, ConfigError, SchemaMismatch, StoreUnavailable
from agentmem.stores.neo4j import database, migrate, open_graph
from agentmem.stores.neo4j.database import fetch_rows, parse_address
from agentmem.stores.sqlite import SqliteLog
from tests.conformance.graphs import STORE_ID, LogWithGraph, build_edge, open_server_graph
from tests.conformance.neo4j_walk import WalkedGraph
from tests.conformance.stores import START, ManualClock, build_entity, open_sqlite_log
from tests.servers.local import LocalServer, free_port

SECRET = "s3cret-word"


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[SqliteLog]:
    async with open_sqlite_log(tmp_path / "memory.db") as made:
        yield made


async def opened_graph(url: str, log: SqliteLog) -> WalkedGraph:
    graph = await open_graph(url, ManualClock(), log, store_id=STORE_ID)
    return WalkedGraph(graph.database, ManualClock(), log)


def told(error: BaseException) -> str:
    """What an error says, with its causes."""
    causes = [error]
    while causes[-1].__cause__ is not None:
        causes.append(causes[-1].__cause__)
    return " ".join(f"{cause} {cause!r}" for cause in causes)


# -- the address


def test_an_address_holds_everything_but_the_uri_holds_no_secret() -> None:
    address = parse_address("neo4j+s://ann:p%40ss%2F@db.example:7000/memory?policy=eu")
    assert (address.uri, address.user) == ("neo4j+s://db.example:7000?policy=eu", "ann")
    assert (address.password, address.database) == ("p@ss/", "memory")
    assert "p@ss" not in repr(address)
    beside = parse_address("bolt://[::1]:7687", {"user": "ann", "password": "x"})
    assert (beside.uri, beside.user, beside.password, beside.database) == ("bolt://[::1]:7687", "ann", "x", None)
    assert parse_address("bolt://localhost").user == ""


@pytest.mark.parametrize(
    "url",
    [
        f"http://ann:{SECRET}@localhost",
        f"neo4j://:{SECRET}@localhost",
        f"neo4j://ann:{SECRET}#@localhost",
        f"bolt://ann:{SECRET}@localhost:many",
        f"bolt+s://ann:{SECRET}@localhost?policy=eu",
        "neo4j://ann@localhost",
        "neo4j://",
        "",
    ],
)
async def test_an_address_that_cannot_work_is_refused(url: str, log: SqliteLog) -> None:
    with pytest.raises(ConfigError, match="graph_url") as caught:
        await opened_graph(url, log)
    assert SECRET not in told(caught.value)


async def test_a_missing_driver_is_named(monkeypatch: pytest.MonkeyPatch, log: SqliteLog) -> None:
    monkeypatch.setitem(sys.modules, "neo4j", None)
    with pytest.raises(ConfigError, match=r"pip install 'agentmem-graph\[neo4j\]'"):
        await opened_graph("bolt://localhost", log)


# -- the server


async def test_a_server_that_is_away_hinders_no_opening(log: SqliteLog) -> None:
    graph = await opened_graph(f"neo4j://neo4j:{SECRET}@127.0.0.1:{free_port()}", log)
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match="cannot be reached") as caught:
            await graph.watermark("ann")
        assert SECRET not in told(caught.value)
    await graph.close()
    await graph.close()
    with pytest.raises(Closed):
        await graph.watermark("ann")


async def test_a_wrong_password_is_said_and_not_shown(neo4j_url: str, log: SqliteLog) -> None:
    parts = urlsplit(neo4j_url)
    graph = await opened_graph(f"bolt://neo4j:{SECRET}@{parts.hostname}:{parts.port}", log)
    with pytest.raises(AuthenticationFailed, match="authentication failed; check user and password") as caught:
        await graph.watermark("ann")
    assert SECRET not in told(caught.value)
    await graph.close()


async def test_a_server_that_listens_and_says_nothing_is_given_up(
    monkeypatch: pytest.MonkeyPatch, log: SqliteLog
) -> None:
    monkeypatch.setattr(database, "CONNECT_SECONDS", 0.3)

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    silent = await asyncio.start_server(listen, "127.0.0.1", 0)
    async with silent:
        host, port = silent.sockets[0].getsockname()
        graph = await opened_graph(f"bolt://neo4j:{SECRET}@{host}:{port}", log)
        many = await asyncio.gather(*(graph.watermark("ann") for _ in range(50)), return_exceptions=True)
        assert {type(error) for error in many} == {StoreUnavailable}
        await graph.close()


async def test_an_old_server_is_refused(monkeypatch: pytest.MonkeyPatch, neo4j_url: str, log: SqliteLog) -> None:
    monkeypatch.setattr(database, "MIN_SERVER_VERSION", (9999, 1))
    graph = await opened_graph(neo4j_url, log)
    with pytest.raises(SchemaMismatch, match="or newer"):
        await graph.watermark("ann")
    await graph.close()


async def test_a_forked_process_connects_anew(monkeypatch: pytest.MonkeyPatch, neo4j_url: str, log: SqliteLog) -> None:
    async with open_server_graph(neo4j_url, log) as graph:
        first = graph.database._current_driver
        assert first is not None
        with monkeypatch.context() as patch:
            patch.setattr(os, "getpid", lambda: -1)
            assert await graph.watermark("nobody") == 0
            assert graph.database._current_driver is not first
            await graph.database.close()
        await first.close()


@pytest.mark.nightly
@pytest.mark.timeout(300)
async def test_the_life_of_a_server(own_neo4j: LocalServer, log: SqliteLog, monkeypatch: pytest.MonkeyPatch) -> None:
    url = own_neo4j.url
    graph = await opened_graph(url, log)
    with pytest.raises(SchemaMismatch, match="run agentmem admin migrate"):
        await graph.watermark("ann")
    done = await asyncio.gather(*(migrate(url, START, store_id=STORE_ID) for _ in range(2)))
    assert max(done) >= 1
    assert await migrate(url, START, store_id=STORE_ID) == 0
    await asyncio.sleep(database.BACKOFF_SECONDS)
    kept = LogWithGraph(log, graph)
    await kept.write_records(build_entity("p"), build_entity("q"), build_edge("r", EdgeKind.KNOWS, "p", "q"))
    own_neo4j.kill()
    for _ in range(3):
        with pytest.raises(StoreUnavailable, match="cannot be reached"):
            await kept.find_neighbors(("Entity", "p"))
    with pytest.raises(StoreUnavailable):
        await kept.write_records(build_entity("s"))
    own_neo4j.restart()
    await asyncio.sleep(database.BACKOFF_SECONDS)
    await kept.sync_graph(kept.ann)
    assert await kept.find_neighbors(("Entity", "p")) == [("q", 1)]
    assert await graph.record_seqs("Entity", kept.ann) == {"p": 1, "q": 1, "s": 2}

    own_neo4j.pause()
    for name in ("CONNECT_SECONDS", "READ_SECONDS"):
        monkeypatch.setattr(database, name, 1.0)
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match=r"did not answer|cannot be reached"):
            await kept.find_neighbors(("Entity", "p"))
    own_neo4j.resume()
    monkeypatch.undo()
    await asyncio.sleep(database.BACKOFF_SECONDS)
    assert await kept.find_neighbors(("Entity", "p")) == [("q", 1)]

    await graph.database.write(lambda tx: fetch_rows(tx, "MERGE (v:SchemaVersion {version: 99})"))
    await graph.close()
    newer_graph = await opened_graph(url, log)
    for attempt in (newer_graph.watermark("ann"), migrate(url, START, store_id=STORE_ID)):
        with pytest.raises(SchemaMismatch, match="newer version"):
            await attempt
    await newer_graph.close()
