"""Graph, vectors and words that are rebuilt while an agent writes are in the end what a rebuild at rest makes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agentmem import AsyncAgentMemory
from agentmem.admin.rebuild import rebuild
from agentmem.core.records import KINDS
from agentmem.core.scope import Scope
from agentmem.engine.vector_projection import VectorProjection
from agentmem.stores.values import WHOLE, Where
from agentmem.text.tokenizer import tokenize
from tests.flows.test_servers import PATIENT
from tests.scale import scaled
from tests.servers.stack import Stack

TURNS = scaled(240, least=96)
PLACES = ("lake", "garden", "harbour", "station")
ALL = 10_000


ON_SERVERS = pytest.mark.server("postgres", "redis", "neo4j")


@pytest.fixture(
    params=[
        "embedded",
        "embedded, followed",
        pytest.param("servers", marks=ON_SERVERS),
        pytest.param("servers, followed", marks=[ON_SERVERS, pytest.mark.nightly]),
    ]
)
def settings(request: pytest.FixtureRequest, home: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Of a memory on one stack; `user_id` is known to nobody else. `followed`: no vectors come with the log."""
    monkeypatch.setattr(VectorProjection, "is_synchronous", "followed" not in request.param)
    given: dict[str, Any] = {"user_id": "alice", "home": home, "embedder": "hash:v1:64"}
    if request.param.startswith("servers"):
        stack: Stack = request.getfixturevalue("stack")
        given |= {"user_id": stack.user(), **stack.urls, **PATIENT}
    return given


async def history(memory: AsyncAgentMemory, rebuilding: asyncio.Event) -> None:
    """Turns, and between them entities, facts about them, facts that are replaced and forgotten, and relations.

    Each step begins while a rebuild runs.
    """
    people, facts = [], []
    for n in range(0, TURNS, 6):
        await rebuilding.wait()
        place = PLACES[n % len(PLACES)]
        turns = await memory.store_turns([f"Number {n + k} was seen at the {place}." for k in range(6)])
        if n % 12 == 0:
            people.append((await memory.upsert_entity({"name": f"Person {n}", "type": "person"})).id)
        claim = f"Person {n} likes the {place}"
        facts.append((await memory.learn_fact(claim, entity_ids=people[-2:], source_turn_ids=[turns[0].id])).id)
        if n % 24 == 18:
            await memory.semantic.supersede_fact(facts[-1], f"Person {n} avoids the {place}")
            await memory.semantic.relate(people[-1], "knows", people[0])
            await memory.forget(facts[-2])


async def built(memory: AsyncAgentMemory) -> dict[str, Any]:
    """All that the projections hold of the user."""
    engine, scope = memory.engine, Scope(memory.scope.user_id)
    records = await engine.log.find(scope, Where(kinds=tuple(KINDS)), limit=ALL)
    keys = [record.key for record in records]
    edges = [await engine.graph.edges(keys[at : at + 50], scope, limit=ALL) for at in range(0, len(keys), 50)]
    found: dict[str, Any] = {"edges": sorted({edge.model_dump_json() for page in edges for edge in page})}
    if engine.graph_projection is not None:
        graph: Any = engine.graph_projection.graph
        found["nodes"] = {kind: await graph.record_seqs(kind, scope, limit=ALL) for kind in KINDS}
    index, embedder = engine.vector_projections[0].index, engine.vector_projections[0].embedder
    for text in ("who was seen at the lake?", "Number 17"):
        (vector,) = await embedder.embed([text])
        (scores,) = await index.score_all(vector, scope, Where(), [WHOLE])
        found[text] = scores.ordinals.tolist(), scores.scores.tolist()
    words = tokenize("number person lake garden harbour seen avoids likes 17 96")
    postings = await engine.log.match(words, scope)
    found["words"] = {term: (each.ordinals.tolist(), each.counts.tolist()) for term, each in postings.items()}
    return found


@pytest.mark.long
@pytest.mark.timeout(240)
async def test_rebuilt_while_it_was_written_and_rebuilt_at_rest_are_the_same(settings: dict[str, Any]) -> None:
    async with AsyncAgentMemory(**settings) as agent, AsyncAgentMemory(**settings) as operator:
        rebuilding = asyncio.Event()
        writing = asyncio.ensure_future(history(agent, rebuilding))
        while not writing.done():
            rebuilding.set()
            await rebuild(operator.engine, [agent.scope.user_id])
            rebuilding.clear()
        await writing
        await agent.flush()
        await operator.flush()
        assert set((await operator.lag()).values()) == {0}
        meanwhile = await built(operator)
        await rebuild(operator.engine, [agent.scope.user_id])
        await operator.flush()
        assert len(meanwhile["edges"]) > TURNS
        assert len(meanwhile["Number 17"][0]) >= TURNS + TURNS // 6 + TURNS // 12
        assert await built(operator) == meanwhile
        assert await built(agent) == meanwhile
