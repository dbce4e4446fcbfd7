"""Vectors on the graph's nodes (setting `graph_vectors`): they come after the graph, and people find by them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from agentmem import AsyncAgentMemory, ConfigError
from agentmem.admin.doctor import diagnose
from agentmem.admin.migrate import migrate as migrate_all
from agentmem.admin.rebuild import rebuild
from agentmem.core.clock import SystemClock, to_micros
from agentmem.core.records import EdgeKind
from agentmem.core.scope import Scope
from agentmem.engine.graph_projection import GraphProjection
from agentmem.errors import StoreUnavailable
from agentmem.jobs.builtin.sync_projections import sync_projections
from agentmem.settings.settings import load_settings
from agentmem.stores.neo4j import Neo4jGraph, Neo4jNodeVectors, migrate
from agentmem.stores.neo4j.database import fetch_rows
from agentmem.stores.neo4j.vectors import VECTOR_INDEXES
from agentmem.stores.sql.graph import SqlGraph
from agentmem.text.templates import load_templates
from tests.conformance import stores
from tests.conformance.graphs import STORE_ID, LogWithGraph, build_conversation, build_edge, open_log_with_graph
from tests.conformance.indexes import ANN, BACKENDS, BOB, apply_batch, build_vector_row, open_backend
from tests.conformance.neo4j_walk import WalkedGraph
from tests.conformance.node_vectors import lock_vector_indexes
from tests.conformance.stores import ManualClock, build_entity, build_fact, build_goal, build_turn
from tests.conformance.test_neo4j import LEAVES, content, operators
from tests.flows.test_servers import PATIENT
from tests.servers.local import free_port
from tests.servers.stack import Stack

LONG_TERM = pytest.param("neo4j", marks=pytest.mark.server("neo4j"))
NEWEST = pytest.param("neo4j_2026", marks=[pytest.mark.server("neo4j_2026"), pytest.mark.nightly])
BOTH = pytest.mark.parametrize("release", [LONG_TERM, NEWEST], indirect=True)
ON_NEWEST = pytest.mark.parametrize("release", [NEWEST], indirect=True)
PAGE = Path(__file__).resolve().parents[2] / "docs/graph_vectors.md"
NAME = "graph_vectors/hash:v1:512"

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(params=[LONG_TERM])
def release(request: pytest.FixtureRequest) -> str:
    """The release of Neo4j that most tests are run on."""
    return str(request.param)


@pytest.fixture
def graph_url(request: pytest.FixtureRequest, release: str) -> str:
    """Its URL."""
    return str(request.getfixturevalue(f"{release}_url"))


@pytest.fixture
async def indexed(stack: Stack, graph_url: str) -> AsyncIterator[Stack]:
    """The three servers with the graph of that release, migrated for vectors on nodes."""
    await migrate(graph_url, SystemClock().now(), store_id=STORE_ID)
    with lock_vector_indexes(graph_url):
        made = replace(stack, graph_url=graph_url)
        await migrate_all(settings(made))
        yield made


def settings(stack: Stack, **more: Any) -> Any:
    return load_settings(graph_vectors=True, **{"embedder": "hash", **stack.urls, **more})


@pytest.fixture
async def memory(home: Path, stack: Stack) -> AsyncIterator[AsyncAgentMemory]:
    """A memory whose graph has vectors, without indexes over them."""
    async with opened(home, stack) as made:
        yield made


def opened(home: Path, stack: Stack, **more: Any) -> AsyncAgentMemory:
    switched = {"graph_vectors": True, "embedder": "hash", **stack.urls, **PATIENT, **more}
    return AsyncAgentMemory(stack.user(), home=home, **switched)


def following(memory: AsyncAgentMemory) -> GraphProjection:
    assert memory.engine.graph_projection is not None
    return memory.engine.graph_projection


async def asked(memory: AsyncAgentMemory, statement: str, **values: Any) -> list[list[Any]]:
    """What somebody gets who asks the graph in Cypher."""
    graph = following(memory).graph
    assert isinstance(graph, Neo4jGraph)
    return await graph.database.read(lambda tx: fetch_rows(tx, statement, user_id=memory.scope.user_id, **values))


async def held(memory: AsyncAgentMemory) -> dict[str, NDArray[np.float64]]:
    """The vectors on the user's nodes, by the node's key."""
    found = await asked(
        memory, "MATCH (n:Record {user_id: $user_id}) WHERE n.embedding IS NOT NULL RETURN n.key, n.embedding"
    )
    return {key: np.array(vector) for key, vector in found}


async def due(memory: AsyncAgentMemory) -> dict[str, NDArray[np.float64]]:
    """The vectors that the log has of the user's records, by the same key."""
    log, scope = memory.engine.log, memory.scope
    columns, _, _ = await log.read_columns(scope, 0)
    names = {row.slot: f"{row.kind}:{row.id}" for row in columns}
    found = await memory.engine.vector_projections[0].index.read_vectors(list(names), scope)
    return {names[ordinal]: vector.astype(np.float64) for ordinal, vector in found.items()}


async def same(memory: AsyncAgentMemory) -> set[str]:
    """Whose vectors are on nodes, once they have come; they are those of the log."""
    await memory.flush()
    assert set((await memory.lag()).values()) == {0}
    nodes, log = await held(memory), await due(memory)
    assert nodes.keys() == log.keys()
    assert [key for key, vector in nodes.items() if not np.array_equal(vector, log[key])] == []
    return set(nodes)


async def query_of(memory: AsyncAgentMemory, text: str) -> list[float]:
    return [float(x) for x in (await memory.engine.vector_projections[0].embedder.embed([text]))[0]]


@BOTH
async def test_people_find_by_vectors_in_cypher(home: Path, indexed: Stack) -> None:
    async with opened(home, indexed) as memory:
        said = await memory.store_turn("Roses want lime.")
        await memory.store_turn("The harbour was quiet.")
        claim = await memory.learn_fact("Roses grow in Oslo")
        name = await memory.upsert_entity({"name": "Oslo", "description": "where roses grow"})
        assert {f"Turn:{said.id}", f"Fact:{claim.id}", f"Entity:{name.id}"} <= await same(memory)
        assert NAME in await memory.lag()
        near = memory.scoped(user_id=indexed.user("bob"))
        await near.store_turns([{"content": "Roses and lime and roses"}] * 5)
        await near.flush()
        vector, now = await query_of(memory, "roses and lime and roses"), to_micros(memory.engine.clock.now())
        exact, filtered, afterwards = examples(PAGE.read_text(encoding="utf-8"))
        values = {"vector": vector, "channels": ["_global"], "now": now, "k": 3}
        best = await asked(memory, exact, **values)
        assert best[0][0] == said.id
        assert len(best) == 2
        assert await asked(memory, afterwards, **values) == []  # the nearest are all of another user
        if "2026" in await version(memory):
            assert [row[0] for row in await asked(memory, filtered, **values)] == [row[0] for row in best]


def examples(page: str) -> list[str]:
    """The queries of the page."""
    return [block.split("```")[0] for block in page.split("```cypher\n")[1:]]


async def version(memory: AsyncAgentMemory) -> str:
    return str(await asked(memory, "CALL dbms.components() YIELD versions RETURN versions"))


async def test_vectors_follow_what_changes(memory: AsyncAgentMemory) -> None:
    name = await memory.upsert_entity({"name": "Anna", "description": "a gardener"})
    claim = await memory.learn_fact("Anna grows roses")
    await same(memory)
    before = await held(memory)
    await memory.upsert_entity({"name": "Anna", "description": "a sailor and a cook"})
    await memory.semantic.update_fact(claim.id, confidence=0.9)
    await same(memory)
    after = await held(memory)
    assert not np.array_equal(after[f"Entity:{name.id}"], before[f"Entity:{name.id}"])
    assert before.keys() <= after.keys()


async def test_what_is_rebuilt_gets_its_vectors_back(memory: AsyncAgentMemory) -> None:
    await memory.store_turns([{"content": f"bees number {n}"} for n in range(7)])
    keys = await same(memory)
    for what in ("graph", "vectors"):
        report = await rebuild(memory.engine, [memory.scope.user_id], targets=[what])
        assert report.notes == ()
        assert await same(memory) == keys
    await following(memory).graph.rebuild(memory.scope)  # by somebody without the setting
    assert await held(memory) == {}
    assert (await memory.lag())[NAME] > 0
    assert (await sync_projections(memory.engine)).users >= 1
    assert await same(memory) == keys


async def test_what_is_erased_leaves_with_its_vector(memory: AsyncAgentMemory) -> None:
    first, second = [await memory.store_turn(text) for text in ("A secret word.", "An open word.")]
    await memory.learn_fact("The word is secret", source_turn_ids=[first.id])
    await memory.flush()
    gone = await memory.forget(first.id, hard=True)
    assert gone.scan is not None
    assert await same(memory) == {f"Turn:{second.id}"}
    receipt = await memory.erase()
    assert (dict(gone.scan.leftovers), dict(receipt.scan.leftovers)) == ({}, {})
    assert await same(memory) == set()
    assert await asked(memory, "MATCH (n:Record {user_id: $user_id}) RETURN n") == []


async def test_users_left_behind_get_their_vectors(memory: AsyncAgentMemory, stack: Stack) -> None:
    user = stack.user("ann")
    await stores.write_records(memory.engine.log, Scope(user), *(build_turn(f"t{n}", n) for n in range(5)))
    other = memory.scoped(user_id=user)
    assert (await other.lag())[NAME] == 1
    assert user not in str((await sync_projections(memory.engine)).lag_reasons)
    assert set((await other.lag()).values()) == {0}
    assert len(await held(other)) == 5
    assert (await sync_projections(memory.engine)).users == 0


async def test_they_come_by_themselves(memory: AsyncAgentMemory, home: Path, stack: Stack) -> None:
    await memory.store_turn("Nobody waits for this.")
    async with asyncio.timeout(60):
        while not await held(memory):
            await asyncio.sleep(0.02)
    async with opened(home, stack) as another:  # it is closed while they are on their way
        await another.store_turn("Nor for this.")
    async with asyncio.timeout(60):
        while len(await held(memory)) < 2:
            await asyncio.sleep(0.02)


@ON_NEWEST
async def test_another_embedder_takes_over(home: Path, indexed: Stack) -> None:
    async with opened(home, indexed) as memory:
        said = await memory.store_turn("Roses want lime.")
        await same(memory)
        report = await rebuild(memory.engine, None, targets=["vectors"], embedder="hash:v1:64")
        assert "agentmem admin migrate" in " ".join(report.notes)
        assert {found.fix for found in await looked(indexed) if found.level == "error"} == {
            "run: agentmem admin migrate"
        }
        assert (await migrate_all(settings(indexed))).applied["graph vectors"] == len(VECTOR_INDEXES)
        assert (await migrate_all(settings(indexed))).applied["graph vectors"] == 0
        assert [found.level for found in await looked(indexed)] == ["ok"]
        await sync_projections(memory.engine)
        await same(memory)
        assert len((await held(memory))[f"Turn:{said.id}"]) == 64
        vector = await query_of(memory, "lime for roses")
        near = "CALL db.index.vector.queryNodes('turn_embeddings', 9, $vector) YIELD node RETURN node.id"
        assert [said.id] in await asked(memory, near, vector=vector)
        await rebuild(memory.engine, None, targets=["vectors"], embedder="hash:v1:512")
        await same(memory)
        assert len((await held(memory))[f"Turn:{said.id}"]) == 512


async def looked(stack: Stack) -> list[Any]:
    return [found for found in await diagnose(settings(stack)) if found.check == "graph vectors"]


# -- what is written, and when


@pytest.fixture
async def kept(graph_url: str, tmp_path: Path) -> AsyncIterator[LogWithGraph]:
    async with open_log_with_graph(tmp_path, "neo4j", graph_url) as made:
        yield made


@BOTH
async def test_vectors_come_after_the_graph_and_once(kept: LogWithGraph) -> None:
    graph, user = kept.graph, kept.ann.user_id
    assert isinstance(graph, Neo4jGraph)
    nodes = Neo4jNodeVectors(graph.database)
    one, two = np.array([1, 0.5], dtype=np.float16), np.array([0, 0.25], dtype=np.float16)
    key, absent = ("Entity", "e"), ("Entity", "absent")
    assert await nodes.watermarks([user], "graph_vectors/a") == {user: (0, 0)}
    assert not await nodes.write(kept.ann, "graph_vectors/a", 0, 1, {key: (0, one)})
    await kept.write_records(build_entity("e"), build_edge("r", EdgeKind.KNOWS, "e", "absent"))
    ordinal = next(iter((await kept.log.read_columns(kept.ann, 0))[0])).slot

    async def vector() -> list[Any]:
        text = "MATCH (n:Record {user_id: $user_id}) WHERE n.embedding IS NOT NULL RETURN n.key, n.embedding"
        return await graph.database.read(lambda tx: fetch_rows(tx, text, user_id=user))

    assert not await nodes.write(kept.ann, "graph_vectors/a", 0, 2, {key: (ordinal, one)})
    assert not await nodes.write(kept.ann, "graph_vectors/a", 1, 1, {key: (ordinal, one)})
    assert await vector() == []
    both = {key: (ordinal, one), absent: (ordinal, one), ("Fact", "other"): (7, one)}
    assert await nodes.write(kept.ann, "graph_vectors/a", 0, 1, both)
    assert await vector() == [["Entity:e", [1.0, 0.5]]]
    assert not await nodes.write(kept.ann, "graph_vectors/a", 0, 1, {key: (ordinal, two)})
    # of another record of that id
    assert await nodes.write(kept.ann, "graph_vectors/b", 0, 1, {key: (ordinal + 1, two)})
    assert await vector() == [["Entity:e", [1.0, 0.5]]]
    assert await nodes.watermarks([user], "graph_vectors/a") == {user: (0, 1)}
    assert await nodes.write(kept.ann, "graph_vectors/a", 0, 1, {key: (ordinal, None)})
    assert await vector() == []
    await graph.clear(user)
    assert await nodes.watermarks([user, "nobody"], "graph_vectors/a") == {user: (0, 0), "nobody": (0, 0)}
    await kept.sync_graph(kept.ann)
    await nodes.write(kept.ann, "graph_vectors/a", 0, 1, {})
    await nodes.clear(user)
    assert await nodes.watermarks([user], "graph_vectors/a") == {user: (0, 1)}
    await graph.erase(kept.ann, None)
    marks = "MATCH (p:Projection {user_id: $user_id}) RETURN p"
    assert await graph.database.read(lambda tx: fetch_rows(tx, marks, user_id=user)) == []


async def test_every_statement_starts_from_an_index(kept: LogWithGraph) -> None:
    graph = kept.graph
    assert isinstance(graph, Neo4jGraph)
    await kept.write_records(*(build_turn(f"t{n}", n) for n in range(30)))
    blocks = load_templates("agentmem.stores.neo4j", "vectors.cypher")
    texts = [text for name, text in blocks.items() if name not in ("indexes", "drop", "make", "make_filtered")]

    async def explain(tx: Any, text: str) -> dict[str, Any]:
        result = await tx.run("EXPLAIN " + text, {"count": 1} if "$count" in text else {})
        plan: dict[str, Any] = (await result.consume()).plan
        return plan

    for text in texts:
        found = list(operators(await graph.database.write(lambda tx, text=text: explain(tx, text))))  # type: ignore[misc]
        assert {name for name, is_leaf in found if is_leaf} <= LEAVES, text
        assert "CartesianProduct" not in {name for name, _ in found}
        assert "LIMIT" in text or "RETURN" not in text


@ON_NEWEST
async def test_the_graph_itself_is_the_same_on_the_newest_release(kept: LogWithGraph) -> None:
    graph, embedded = kept.graph, SqlGraph(kept.log.database, ManualClock())
    assert isinstance(graph, WalkedGraph)
    await kept.write_records(
        build_conversation("c1"),
        *(build_turn(name, n) for n, name in enumerate("abc")),
        build_entity("p"),
        build_entity("q"),
    )
    await kept.write_records(
        build_fact("f", source_turn_ids=("a",), entity_ids=("p",)),
        build_edge("r", EdgeKind.KNOWS, "p", "q"),
        build_goal("g"),
    )
    await kept.delete_records(("Turn", "b"))
    await kept.write_records(build_turn("b", 1), build_fact("f", source_turn_ids=("b",), entity_ids=("q",)))
    keys = [("Turn", "a"), ("Turn", "b"), ("Fact", "f"), ("Entity", "p"), ("Goal", "g")]
    assert await graph.edges(keys, kept.ann) == await embedded.edges(keys, kept.ann)
    for key in keys:
        assert await graph.neighbors([key], kept.ann) == await embedded.neighbors([key], kept.ann)
    followed = await content(graph, kept.ann)
    assert await graph.rebuild(kept.ann) == await embedded.rebuild(kept.ann)
    assert await content(graph, kept.ann) == followed
    await graph.erase(kept.ann, [("Turn", "a")])
    assert await graph.count_present(kept.ann, [("Turn", "a")]) == 0


async def test_a_graph_that_is_away_costs_a_lag(stack: Stack, home: Path) -> None:
    away = replace(stack, graph_url=f"bolt://neo4j:secret@127.0.0.1:{free_port()}")
    async with opened(home, away, catch_up_ms=1000) as memory:
        said = await memory.store_turn("Roses want lime.")
        assert [item.record.id for item in (await memory.remember("lime")).items] == [said.id]
        nodes = following(memory).graph_vectors
        assert nodes is not None
        assert not await nodes.sync(memory.scope)
        assert nodes.is_backing_off()
        assert "cannot be reached" in nodes.last_error
        assert (await memory.lag())[NAME] == 1
        with pytest.raises(StoreUnavailable):
            await memory.flush()


# -- the rest


def test_an_embedded_graph_has_no_vectors_of_its_own(home: Path) -> None:
    with pytest.raises(ConfigError, match="graph_vectors needs a graph on a Neo4j server"):
        load_settings(home=home, graph_vectors=True)


@pytest.mark.parametrize("backend", BACKENDS)
async def test_whole_vectors_come_back_as_they_were(request: pytest.FixtureRequest, backend: str) -> None:
    async with open_backend(request, backend) as place:
        index = await place.open()
        made = [build_vector_row(ordinal) for ordinal in (3, 1, 2)]
        await apply_batch(index, ANN, [*made, build_vector_row(1, "sentence", 1), build_vector_row(2, "sentence", 1)])
        await apply_batch(index, BOB, [build_vector_row(9)])
        found = await index.read_vectors([1, 9, 3, 77], ANN)
        assert sorted(found) == [1, 3]
        for kept in made[:2]:
            np.testing.assert_array_equal(found[kept.ordinal], kept.vector)
        assert await index.read_vectors([], ANN) == {}
