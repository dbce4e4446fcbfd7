"""A memory opens without the graph on a server and without the session cache, says so, and takes them up later."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import redis

from agentmem.admin.doctor import diagnose
from agentmem.admin.migrate import migrate
from agentmem.core.scope import Scope
from agentmem.errors import StoreUnavailable
from agentmem.facade.async_memory import AsyncAgentMemory
from agentmem.stores import neo4j
from tests.flows.given import bundle_ids
from tests.servers.local import free_port

NOW = datetime(2026, 11, 1, tzinfo=UTC)
NAME, PASSWORD = "startup", "a-word-of-8"
LOGIN = f"{NAME}:{PASSWORD}"


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentmem.engine.graph_projection.BACKOFF_SECONDS", 0.05)
    monkeypatch.setattr("agentmem.stores.neo4j.database.BACKOFF_SECONDS", 0.0)
    monkeypatch.setattr("agentmem.engine.graph_projection.OPENING_SECONDS", 30.0)


def with_login(url: str, login: str) -> str:
    parts = urlsplit(url)
    return parts._replace(netloc=f"{login}@{parts.netloc.rpartition('@')[2]}").geturl()


def run_cypher(url: str, statement: str) -> None:
    from neo4j import GraphDatabase

    parts = urlsplit(url)
    address, login = f"bolt://{parts.hostname}:{parts.port}", (parts.username or "", parts.password or "")
    with GraphDatabase.driver(address, auth=login) as driver:
        driver.execute_query(statement)


def named_events(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [json.loads(record.message)["event"] for record in caplog.records if record.name == "agentmem"]


async def wait_until(is_true: Callable[[], bool]) -> None:
    while not is_true():
        await asyncio.sleep(0.02)


async def break_graph(how: str, url: str, settings: dict[str, Any]) -> str:
    """What `graph_url` is then."""
    if how == "foreign":
        await neo4j.migrate(url, NOW, store_id="of others")
    elif how == "password":
        async with AsyncAgentMemory("ann", **settings) as memory:
            await neo4j.migrate(url, NOW, store_id=memory.engine.store_id)
        return with_login(url, LOGIN)
    return url


async def repair_graph(how: str, url: str, memory: AsyncAgentMemory) -> None:
    if how == "foreign":
        run_cypher(url, "MATCH (n) DETACH DELETE n")
    if how == "password":
        run_cypher(url, f"CREATE USER {NAME} SET PASSWORD '{PASSWORD}' CHANGE NOT REQUIRED")
    else:
        await migrate(memory.settings)


# What the notice has, and which check of the diagnosis fails.
EXPECTED = {
    "password": ("authentication failed; check user and password in graph_url", "neo4j"),
    "empty": ("run agentmem admin migrate", "graph schema"),
    "foreign": ("the graph belongs to another store (of others)", "graph owner"),
}


@pytest.mark.parametrize("how", EXPECTED)
async def test_a_memory_opens_without_its_graph_and_follows_when_it_can(
    how: str, postgres_copy: str, empty_neo4j: str, home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "agentmem")
    settings: dict[str, Any] = {"home": home, "log_url": postgres_copy, "embedder": "hash"}
    url, (words, check) = await break_graph(how, empty_neo4j, settings), EXPECTED[how]
    try:
        async with AsyncAgentMemory("ann", graph_url=url, **settings) as memory:
            (notice,) = memory.engine.notices
            assert words in notice
            assert "\n" not in notice
            turn = await memory.store_turn("Bees eat nectar.")
            found = await memory.remember("What do bees eat?")
            assert bundle_ids(found) == {turn.id}
            assert notice in found.notices
            assert (await memory.lag())["graph"] > 0
            wrong = [each.check for each in await diagnose(memory.settings) if each.level == "error"]
            assert check in wrong
            await repair_graph(how, empty_neo4j, memory)
            await wait_until(lambda: not memory.engine.notices)
            graph = memory.engine.graph_projection
            assert graph is not None
            assert set(await graph.graph.record_seqs("Turn", Scope("ann"))) == {turn.id}
            assert (await memory.remember("What do bees eat?")).notices == ()
    finally:
        if how == "password":
            run_cypher(empty_neo4j, f"DROP USER {NAME} IF EXISTS")
    assert [name for name in named_events(caplog) if name.startswith("graph_")] == ["graph_away", "graph_back"]


async def test_a_graph_that_is_away_is_told_once_and_in_one_line(
    postgres_copy: str, home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    url = f"neo4j://neo4j:password@127.0.0.1:{free_port()}"
    async with AsyncAgentMemory("ann", home=home, log_url=postgres_copy, graph_url=url, embedder="hash") as memory:
        for text in ("Bees eat nectar.", "Wasps eat bees."):
            await memory.store_turn(text)
            with pytest.raises(StoreUnavailable, match="cannot be reached"):
                await memory.flush()
        assert memory.engine.notices == []
        assert (await memory.remember("bees")).notices == ()
    (told,) = (json.loads(each.message) for each in caplog.records if each.name == "agentmem")
    assert told["event"] == "graph_away"
    assert "cannot be reached" in told["error"]
    assert "\n" not in told["error"]
    assert [each.message for each in caplog.records if each.name.startswith("neo4j")] == []


async def test_a_memory_opens_without_its_session_cache_and_takes_it_up(
    postgres_copy: str, redis_database: str, home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "agentmem")
    url = with_login(redis_database, LOGIN)
    with redis.Redis.from_url(redis_database) as server:
        try:
            async with AsyncAgentMemory(
                "ann", home=home, log_url=postgres_copy, session_url=url, embedder="hash", conversation_id="talk"
            ) as memory:
                (notice,) = memory.engine.notices
                assert "authentication failed; check user and password in session_url" in notice
                turn = await memory.store_turn("Bees eat nectar.")
                assert bundle_ids(await memory.remember("bees")) == {turn.id}
                server.acl_setuser(NAME, enabled=True, passwords=[f"+{PASSWORD}"], keys=["*"], commands=["+@all"])
                await memory.working.set("city", "Bergen")
                assert await memory.working.get("city") == "Bergen"
                assert memory.engine.notices == []
        finally:
            server.acl_deluser(NAME)
    assert named_events(caplog) == ["session_away", "session_back"]
