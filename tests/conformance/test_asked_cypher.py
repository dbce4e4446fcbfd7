"""Queries that people ask Neo4j: they see what the scope may read, and nothing else, whatever their text is."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from agentmem.core.record import Status
from agentmem.errors import InvalidRecord, SchemaMismatch
from agentmem.stores.neo4j.database import fetch_rows
from tests.conformance.graphs import LogWithGraph, open_log_with_graph
from tests.conformance.neo4j_walk import WalkedGraph
from tests.conformance.stores import build_entity, build_fact, build_turn

SECRETS = ("Mallory", "hidden", "elsewhere")
QUERIES = (
    "MATCH (n) RETURN n",
    "MATCH (n) WHERE true OR n.user_id <> 'x' RETURN n, properties(n), labels(n)",
    "MATCH (n:Entity|Fact|Turn) RETURN n.title",
    "MATCH (n:!Tool) RETURN n",
    "MATCH (a)-[r]-(b) RETURN a, r, b",
    "MATCH p = (a)-[*1..4]-(b) RETURN p, nodes(p), relationships(p)",
    "MATCH (a)-[r*1..4]-() RETURN r",
    "MATCH (a)-->(x)<--(b) RETURN collect(b.title)",
    "OPTIONAL MATCH (n:Entity {name: 'Mallory'}) RETURN n",
    "MATCH (a:Entity) OPTIONAL MATCH (a)--(b)--(c) RETURN a.name, b.title, c.title",
    "MATCH (a:Entity), (b) RETURN a.name, b.title",
    "MATCH (a:Entity) RETURN a.name AS x UNION MATCH (b) RETURN b.title AS x",
    "MATCH (a:Entity) WHERE EXISTS { MATCH (a)--(b) } RETURN COLLECT { MATCH (c) RETURN c.title }",
    "MATCH p = shortestPath((a:Entity {name: 'Ann'})-[*..6]-(b:Entity {name: 'Mallory'})) RETURN p",
    "MATCH p = allShortestPaths((a)-[*..3]-(b:Fact)) WHERE a <> b RETURN p",
    "MATCH (p:Projection) RETURN p",
    "MATCH (s:Store) RETURN s",
    "UNWIND ['Mallory'] AS name MATCH (n {name: name}) RETURN n.title",
    "WITH 1 AS one MATCH (n) WITH n ORDER BY n.title LIMIT 500 MATCH (n)--(m) RETURN m.title",
)


@pytest.fixture
async def kept(neo4j_url: str, tmp_path: Path) -> AsyncIterator[LogWithGraph]:
    """Ann's memory, with a record in a channel that she does not read here and a forgotten one; a link to Bob's."""
    async with open_log_with_graph(tmp_path, "neo4j", neo4j_url) as made:
        await made.write_records(
            build_entity("a", name="Ann"),
            build_fact("f", claim="Ann sings", entity_ids=("a",)),
            build_fact("g", claim="hidden", entity_ids=("a",), status=Status.FORGOTTEN),
            build_turn("t", 0, content="I sing"),
        )
        other = replace(made.ann, channel="elsewhere")
        await made.write_records(
            build_entity("e", name="elsewhere", channel="elsewhere"),
            build_fact("h", claim="elsewhere", entity_ids=("e", "a"), channel="elsewhere"),
            scope=other,
        )
        await made.write_records(
            build_entity("m", name="Mallory"), build_fact("k", claim="Mallory lies", entity_ids=("m",)), scope=made.bob
        )
        forged = (
            "MATCH (a:Record {user_id: $ann, key: 'Entity:a'}), (b:Record {user_id: $bob, key: 'Entity:m'})"
            " CREATE (a)-[r:KNOWS {user_id: $ann, channel: a.channel, visible_until: a.visible_until}]->(b)"
        )
        users = {"ann": made.ann.user_id, "bob": made.bob.user_id}
        graph = made.graph
        assert isinstance(graph, WalkedGraph)
        await graph.database.write(lambda tx: fetch_rows(tx, forged, **users))
        yield made


async def test_no_query_reads_beyond_the_scope(kept: LogWithGraph) -> None:
    graph = kept.graph
    assert isinstance(graph, WalkedGraph)
    for query in QUERIES:
        found = repr(await graph.ask(query, kept.ann, {}, 10_000))
        assert not [secret for secret in SECRETS if secret in found], query
    assert len((await graph.ask("MATCH (n) RETURN n", kept.ann, {}, 10)).rows) == 3


async def test_rows_come_as_plain_values(kept: LogWithGraph) -> None:
    graph = kept.graph
    assert isinstance(graph, WalkedGraph)
    query = "MATCH p = (f:Fact)-[r:ABOUT]->(e:Entity {name: $name}) RETURN f, r, p, {n: count(*)} AS counted"
    ((row,),) = ((await graph.ask(query, kept.ann, {"name": "Ann"}, 10)).rows,)
    assert (row["f"]["kind"], row["f"]["title"], row["r"]["type"]) == ("Fact", "Ann sings", "ABOUT")
    assert [node["title"] for node in row["p"]["nodes"]] == ["Ann sings", "Ann"]
    assert row["counted"] == {"n": 1}
    assert not {"key", "ordinal", "visible_until", "user_id"} & row["f"].keys()


async def test_more_rows_than_asked_for_are_cut(kept: LogWithGraph) -> None:
    graph = kept.graph
    assert isinstance(graph, WalkedGraph)
    assert (await graph.ask("UNWIND range(1, 9) AS n RETURN n", kept.ann, {}, 3)) == (
        ("n",),
        ({"n": 1}, {"n": 2}, {"n": 3}),
        True,
    )


@pytest.mark.parametrize("query", ["MATCH (n) RETURN m", "MATCH (n) RETURN n.x +", "RETURN $missing"])
async def test_the_server_says_what_is_wrong_with_a_query(kept: LogWithGraph, query: str) -> None:
    graph = kept.graph
    assert isinstance(graph, WalkedGraph)
    with pytest.raises(InvalidRecord, match="query: the server does not understand it: ") as error:
        await graph.ask(query, kept.ann, {}, 10)
    assert error.value.field == "query"


async def test_the_session_of_a_query_writes_nothing(kept: LogWithGraph) -> None:
    graph = kept.graph
    assert isinstance(graph, WalkedGraph)
    with pytest.raises(SchemaMismatch):
        await graph.database.read(lambda tx: fetch_rows(tx, "CREATE (n:Fact) RETURN n"))
