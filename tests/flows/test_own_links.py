"""What was just written is linked at once on every stack, whatever the graph on a server does meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from agentmem.facade.async_memory import AsyncAgentMemory
from tests.scale import scaled
from tests.servers.local import LocalServer
from tests.servers.stack import prepare

STACKS = ("file", "postgres", "postgres and redis", "postgres, redis and a neo4j that is away")
SERVERS = [pytest.param(name, marks=pytest.mark.server("postgres")) for name in STACKS[1:]]
PAUSED = "postgres, redis and a neo4j that is paused"
SERVERS.append(pytest.param(PAUSED, marks=[pytest.mark.server("postgres"), pytest.mark.nightly]))
NOWHERE = "neo4j://neo4j:unused@127.0.0.1:9"  # nothing listens there


@pytest.fixture(params=["file", *SERVERS])
def urls(request: pytest.FixtureRequest) -> Iterator[dict[str, str]]:
    """The settings of each stack."""
    found = {} if request.param == "file" else {"log_url": request.getfixturevalue("postgres_copy")}
    if "redis" in request.param:
        found["session_url"] = request.getfixturevalue("redis_database")
    if request.param != PAUSED:
        yield {**found, "graph_url": NOWHERE} if "neo4j" in request.param else found
        return
    neo4j: LocalServer = request.getfixturevalue("own_neo4j")
    with ThreadPoolExecutor(1) as thread:  # this one may have a loop that runs
        thread.submit(asyncio.run, prepare(found["log_url"], neo4j.url, None)).result()
    neo4j.pause()
    yield {**found, "graph_url": neo4j.url}
    neo4j.resume()


@pytest.mark.timeout(900)
async def test_links_are_there_when_a_write_returns_and_gone_when_it_ends(home: Path, urls: dict[str, Any]) -> None:
    async with AsyncAgentMemory("alice", home=home, embedder="hash", **urls) as memory:
        semantic = memory.semantic
        ann = await semantic.upsert_entity({"name": "Ann Archer"})
        for n in range(scaled(200, least=10)):
            firm = await semantic.upsert_entity({"name": f"Firm {n}"})
            job = await semantic.relate(ann.id, "WORKS_FOR", firm.id)
            fact = await semantic.learn_fact(f"Gadget {n} is what Firm {n} sells.", entity_ids=[firm.id])
            graph = await semantic.get_entity_graph([ann.id])
            assert (firm.id in [each.id for each in graph.entities], job in graph.edges) == (True, True)
            assert fact.id in [each.id for each in graph.facts]
            found = await memory.remember("What does the firm of Ann Archer sell?", top_k=30)
            assert fact.id in [each.id for each in found.facts]
            assert found.notices == ()
            await memory.forget(fact.id)
            await memory.forget(job.id)
            assert await memory.semantic.get_entity_graph([ann.id]) == type(graph)((ann,), (), ())
