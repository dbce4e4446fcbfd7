"""The graph on Neo4j: it answers as the embedded one does, follows the journal once and in order, and reads by index.

What both backends promise is in test_graph.py; what a server does to it, in test_neo4j_server.py.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from agentmem.core.edges import ENDPOINT_LABELS
from agentmem.core.record import Key, Record, Status
from agentmem.core.records import KINDS, EdgeKind, User, build_record
from agentmem.core.scope import Scope
from agentmem.errors import Conflict, SchemaMismatch, StoreUnavailable
from agentmem.stores.neo4j import Neo4jGraph, graph, migrate, open_graph
from agentmem.stores.neo4j.database import fetch_rows
from agentmem.stores.neo4j.migrations import graph_query, graph_update
from agentmem.stores.protocols import ReplicatedGraph
from agentmem.stores.sql.graph import SqlGraph
from agentmem.stores.sqlite import SqliteLog
from agentmem.text.templates import load_migrations, load_templates
from tests.conformance.graphs import (
    HISTORIES,
    STORE_ID,
    LogWithGraph,
    build_conversation,
    build_edge,
    open_log_with_graph,
    open_server_graph,
)
from tests.conformance.neo4j_walk import WalkedGraph
from tests.conformance.stores import (
    START,
    ManualClock,
    build_change,
    build_entity,
    build_fact,
    build_goal,
    build_turn,
    write_records,
)
from tests.scale import scaled


@pytest.fixture
async def kept(neo4j_url: str, tmp_path: Path) -> AsyncIterator[LogWithGraph]:
    async with open_log_with_graph(tmp_path, "neo4j", neo4j_url) as made:
        yield made


@pytest.fixture
def walks(kept: LogWithGraph) -> WalkedGraph:
    assert isinstance(kept.graph, WalkedGraph)
    return kept.graph


async def read(walks: WalkedGraph, statement: str, **values: Any) -> list[list[Any]]:
    return await walks.database.read(lambda tx: fetch_rows(tx, statement, **values))


async def content(walks: WalkedGraph, scope: Scope) -> list[Any]:
    """All nodes and relationships of a user, with all that they hold."""
    nodes = "MATCH (n:Record {user_id: $user_id}) RETURN n.key, labels(n), properties(n) ORDER BY n.key"
    relations = (
        "MATCH (a:Record {user_id: $user_id})-[r]->(b) RETURN a.key, type(r), b.key, properties(r) "
        "ORDER BY a.key, type(r), b.key, r.id"
    )
    return [await read(walks, text, user_id=scope.user_id) for text in (nodes, relations)]


def fitting(steps: list[tuple[str, list[Record]]]) -> Iterator[tuple[str, list[Record]]]:
    """The steps without what the log would refuse: a turn in a place that another one holds."""
    places: dict[Key, tuple[str, int]] = {}
    for name, records in steps:
        taken = []
        for record in {record.key: record for record in records}.values():
            if name == "put" and record.kind == "Turn":
                if record.position_key() in [place for key, place in places.items() if key != record.key]:
                    continue
                places[record.key] = record.position_key()
            elif name == "gone":
                places.pop(record.key, None)
            taken.append(record)
        if taken:
            yield name, taken


@pytest.mark.long
@given(history=HISTORIES)
@settings(max_examples=scaled(25), suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_any_history_is_answered_as_by_the_embedded_graph(
    history: list[tuple[str, list[Record]]], neo4j_url: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    async with open_log_with_graph(tmp_path_factory.mktemp("graph"), "neo4j", neo4j_url) as kept:
        walks, embedded = kept.graph, SqlGraph(kept.log.database, ManualClock())
        assert isinstance(walks, WalkedGraph)
        keys: dict[Key, None] = {}
        for number, (name, records) in enumerate(fitting(history)):
            keys |= dict.fromkeys(record.key for record in records)
            gone = [record.key for record in records]
            await kept.log.append(
                [build_change(kept.ann, records) if name == "put" else build_change(kept.ann, retracts=gone)]
            )
            if number % 3 == 0:
                await kept.sync_graph(kept.ann)
        await kept.sync_graph(kept.ann)
        named = list(keys)
        assert await walks.edges(named, kept.ann) == await embedded.edges(named, kept.ann)
        for key in named:
            assert await walks.neighbors([key], kept.ann) == await embedded.neighbors([key], kept.ann)
        followed = await content(walks, kept.ann)
        assert await walks.rebuild(kept.ann) == await embedded.rebuild(kept.ann)
        assert await content(walks, kept.ann) == followed
        await walks.erase(kept.ann, None)


async def test_a_batch_applies_from_the_watermark_only(kept: LogWithGraph, walks: WalkedGraph) -> None:
    following: ReplicatedGraph = walks
    ann, bob = kept.ann.user_id, kept.bob.user_id
    for scope in (kept.ann, kept.bob):
        await write_records(kept.log, scope, build_entity("e"), build_fact("f", entity_ids=("e",)))
        await write_records(kept.log, scope, build_fact("g", entity_ids=("e",)))
    first, second = await kept.log.changes(kept.ann, 0, 9)
    of_bob = await kept.log.changes(kept.bob, 0, 9)
    assert await following.apply({}) == {}
    assert await following.apply({ann: (1, [second]), bob: (0, of_bob)}) == {ann: 0, bob: 2}
    assert await walks.record_seqs("Fact", kept.ann) == {}
    assert await walks.record_seqs("Fact", kept.bob) == {"f": 1, "g": 2}
    assert await following.apply({ann: (0, [first])}) == {ann: 1}
    before = await content(walks, kept.ann)
    assert await following.apply({ann: (0, [first])}) == {ann: 1}  # sent again because the answer was lost
    assert await content(walks, kept.ann) == before
    assert await following.apply({ann: (1, []), bob: (2, [])}) == {ann: 1, bob: 2}
    assert await following.apply({ann: (1, [second]), bob: (1, of_bob[1:])}) == {ann: 2, bob: 2}
    assert await kept.find_neighbors(("Fact", "g"), scope=kept.ann) == [("e", 1), ("f", 2)]
    assert (await walks.watermark(ann), await walks.watermark("nobody")) == (2, 0)


async def test_many_users_in_one_go(kept: LogWithGraph, walks: WalkedGraph) -> None:
    users = [Scope(f"{kept.ann.user_id} {n}") for n in range(40)]
    for scope in users:
        await write_records(
            kept.log, scope, build_entity("e"), *(build_fact(f"f{n}", entity_ids=("e",)) for n in range(5))
        )
    batches = {scope.user_id: (0, await kept.log.changes(scope, 0, 500)) for scope in users}
    assert set((await walks.apply(batches)).values()) == {1}
    assert [len(await kept.find_neighbors(("Entity", "e"), scope=scope)) for scope in users] == [5] * 40


async def test_two_writers_at_once_write_once(neo4j_url: str, kept: LogWithGraph, walks: WalkedGraph) -> None:
    for n in range(30):
        await write_records(
            kept.log, kept.ann, build_entity(f"e{n}"), build_edge(f"k{n}", EdgeKind.KNOWS, f"e{n}", f"e{n // 2}")
        )
    ann, entries = kept.ann.user_id, await kept.log.changes(kept.ann, 0, 500)
    reached = 0
    async with open_server_graph(neo4j_url, kept.log) as other:
        while reached < 30:
            batches = [{ann: (reached, entries[reached : reached + size])} for size in (2, 4, 3, 1)]
            done = await asyncio.gather(*(graph.apply(b) for graph, b in zip([walks, other] * 2, batches, strict=True)))
            assert len({seqs[ann] for seqs in done}) == 1
            assert done[0][ann] > reached
            reached = done[0][ann]
    followed = await content(walks, kept.ann)
    assert len(followed[1]) == 30
    await walks.rebuild(kept.ann)
    assert await content(walks, kept.ann) == followed


async def test_erasing_leaves_nothing(kept: LogWithGraph, walks: WalkedGraph) -> None:
    await kept.write_records(
        build_conversation("c1"),
        build_turn("a", 0),
        build_turn("b", 1),
        build_fact("f", source_turn_ids=("a", "zz")),
        build_entity("p"),
    )
    await kept.write_records(build_edge("r", EdgeKind.KNOWS, "p", "q"))
    await walks.erase(kept.ann, [("Turn", "a"), ("Edge", "r"), ("Goal", "unheard of")])
    names = [key for key, *_ in (await content(walks, kept.ann))[0]]
    assert names == ["Conversation:c1", "Entity:p", "Fact:f", "Turn:a", "Turn:b", "Turn:zz", "User:profile"]
    empty = "MATCH (n:Record {user_id: $user_id}) WHERE n.ordinal IS NULL RETURN properties(n) ORDER BY n.key"
    left = await read(walks, empty, user_id=kept.ann.user_id)
    assert left == [[{"user_id": kept.ann.user_id, "key": key}] for key in ("Turn:a", "Turn:zz", "User:profile")]
    assert await kept.find_neighbors(("Fact", "f")) == []
    await walks.erase(kept.ann, [("Fact", "f")])
    left = [key for key, *_ in (await content(walks, kept.ann))[0]]
    assert left == ["Conversation:c1", "Entity:p", "Turn:b", "User:profile"]
    await walks.erase(kept.ann, None)
    everything = "MATCH (n {user_id: $user_id}) RETURN count(n)"
    assert await read(walks, everything, user_id=kept.ann.user_id) == [[0]]
    assert await walks.watermark(kept.ann.user_id) == 0
    await kept.sync_graph(kept.ann)
    assert await kept.find_neighbors(("Turn", "b")) == [("a", 1), ("c1", 1), ("f", 2)]


@pytest.mark.timeout(300)
async def test_a_graph_of_any_schema_version_is_brought_up_to_date(empty_neo4j: str, tmp_path: Path) -> None:
    steps = load_migrations("neo4j")
    async with open_log_with_graph(tmp_path, "neo4j", empty_neo4j) as kept:
        walks = kept.graph
        assert isinstance(walks, WalkedGraph)
        await kept.write_records(
            build_conversation("c1"), build_turn("t", 0), build_entity("p"), build_fact("f", entity_ids=("p",))
        )
        await kept.write_records(build_edge("r", EdgeKind.KNOWS, "p", "p"))
        expected = await content(walks, kept.ann)
        for version in range(1, len(steps)):
            for statement in (  # what older versions wrote, as far as this one reads it
                "MATCH (n:Record) SET n.slot = n.ordinal REMOVE n.ordinal, n.title, n.current_until",
                "MATCH ()-[r]->() SET r.slot = r.ordinal REMOVE r.ordinal, r.current_until",
                "MATCH (:Record)-[r:HAS_CONVERSATION]->() DELETE r",
                f"MATCH (v:SchemaVersion) WHERE v.version > {version} DELETE v",
            ):
                await walks.database.write(lambda tx, text=statement: fetch_rows(tx, text))
            assert await migrate(empty_neo4j, START, store_id=STORE_ID) == len(steps) - version
            await kept.sync_graph(kept.ann)
            assert await content(walks, kept.ann) == expected


class Watched:
    """The log, which lets a test do something while its records are being read."""

    def __init__(self, log: SqliteLog, meanwhile: Any) -> None:
        self._log = log
        self._meanwhile = meanwhile

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    async def read_by_ordinal(self, ordinals: Any, scope: Scope, through_seq: int | None = None) -> list[Record]:
        found = await self._log.read_by_ordinal(ordinals, scope, through_seq)
        await self._meanwhile()
        return found


async def test_a_rebuild_while_others_write_ends_like_one_at_rest(
    kept: LogWithGraph, walks: WalkedGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graph, "RECORD_BATCH_SIZE", 7)
    await kept.write_records(build_entity("e"), *(build_fact(f"f{n:02}", entity_ids=("e",)) for n in range(40)))
    count = iter(range(40))

    async def write() -> None:
        n = next(count)
        await kept.write_records(
            build_fact(f"f{n:02}", entity_ids=("e", "later")), build_fact(f"new{n}", depends_on=(f"f{39 - n:02}",))
        )
        await kept.delete_records(("Fact", f"f{n + 20:02}"))
        assert await walks.watermark(kept.ann.user_id) == 0

    walks._records = Watched(kept.log, write)
    await walks.rebuild(kept.ann)
    assert next(count) == 6
    assert await walks.watermark(kept.ann.user_id) == 1
    await kept.sync_graph(kept.ann)
    followed = await content(walks, kept.ann)
    walks._records = kept.log
    await walks.rebuild(kept.ann)
    assert await content(walks, kept.ann) == followed


async def test_a_rebuild_that_was_cut_off_is_made_good_by_the_journal(
    kept: LogWithGraph, walks: WalkedGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail() -> None:
        raise StoreUnavailable("the log is away")

    await kept.write_records(
        build_turn("a", 0), build_turn("b", 1), build_turn("c", 2), build_fact("f", source_turn_ids=("a", "b"))
    )
    before = await content(walks, kept.ann)
    monkeypatch.setattr(graph, "RECORD_BATCH_SIZE", 2)
    walks._records = Watched(kept.log, fail)
    with pytest.raises(StoreUnavailable, match="the log is away"):
        await walks.rebuild(kept.ann)
    await kept.sync_graph(kept.ann)
    assert await walks.watermark(kept.ann.user_id) == 0  # it might still be at work
    monkeypatch.setattr(graph, "REBUILD_LEASE_MS", -1)
    with pytest.raises(StoreUnavailable, match="the log is away"):
        await walks.rebuild(kept.ann)
    await kept.sync_graph(kept.ann)
    assert await content(walks, kept.ann) == before


async def test_of_two_rebuilds_the_later_one_ends(kept: LogWithGraph, walks: WalkedGraph) -> None:
    await kept.write_records(build_turn("a", 0), build_turn("b", 1))
    before = await content(walks, kept.ann)

    async def take_over() -> None:
        walks._records = kept.log
        await walks.rebuild(kept.ann)

    walks._records = Watched(kept.log, take_over)
    with pytest.raises(Conflict, match="took over"):
        await walks.rebuild(kept.ann)
    assert await content(walks, kept.ann) == before
    assert await walks.watermark(kept.ann.user_id) == 1


async def test_what_is_there_is_listed_by_kind(kept: LogWithGraph, walks: WalkedGraph) -> None:
    await kept.write_records(
        *(build_entity(name) for name in "bca"), build_fact("f", entity_ids=("waits",), channel="work")
    )
    await kept.write_records(
        build_edge("s", EdgeKind.KNOWS, "a", "b"), build_edge("r", EdgeKind.PART_OF, "a", "gone"), build_goal("x")
    )
    assert await walks.record_seqs("Entity", kept.ann) == {"a": 1, "b": 1, "c": 1}
    assert list(await walks.record_seqs("Entity", kept.ann, after="a", limit=1)) == ["b"]
    assert list((await walks.record_seqs("Edge", kept.ann)).items()) == [("r", 2), ("s", 2)]
    assert await walks.record_seqs("Edge", kept.ann, after="r") == {"s": 2}
    assert await walks.record_seqs("Fact", kept.ann) == {"f": 1}
    assert await walks.record_seqs("Goal", kept.bob) == await walks.record_seqs("Strategy", kept.ann) == {}


async def test_nodes_and_relationships_say_what_the_records_say(kept: LogWithGraph, walks: WalkedGraph) -> None:
    edges = [datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)]
    said = {"tone": ["calm", {"deep": None}], "big": 10**30, "when": START.isoformat()}
    await kept.write_records(
        build_turn("t", 0, metadata={"a": [1]}, token_count=10**30, timestamp=edges[0], status=Status.ARCHIVED),
        build_fact("f", source_turn_ids=("t",), source_spans=(("t", 1, 2),), valid_from=edges[0], valid_to=edges[1]),
        build_goal("g", goal_status="blocked"),
        build_record(User, id="profile", preferences=said),
        build_entity("p"),
        build_entity("q"),
        build_edge("r", EdgeKind.RELATED_TO, "p", "q", properties={"name": "a`]->() DETACH DELETE n //", **said}),
    )
    nodes, relations = await content(walks, kept.ann)
    found = {key: (sorted(labels), values) for key, labels, values in nodes}
    assert {key: labels for key, (labels, _) in found.items() if ":c1" not in key} == {
        key: sorted([key.partition(":")[0], "Record"])
        for key in ("Turn:t", "Fact:f", "Goal:g", "User:profile", "Entity:p", "Entity:q")
    }
    spoken, claimed, meant = (found[key][1] for key in ("Turn:t", "Fact:f", "Goal:g"))
    assert (spoken["metadata"], spoken["token_count"], spoken["archived"]) == ('{"a":[1]}', str(10**30), True)
    assert spoken["timestamp"].to_native() == edges[0]
    assert (claimed["source_turn_ids"], claimed["source_spans"]) == (["t"], '[["t",1,2]]')
    assert claimed["valid_to"].to_native() == edges[1]
    assert claimed["created_at"] == claimed["recorded_at"]
    assert (meant["status"], meant["record_status"]) == ("blocked", "active")
    assert found["User:profile"][1]["preferences"].startswith('{"tone":["calm",{"deep":null}],"big":1000000')
    (stated,) = [values for _, kind, _, values in relations if kind == "RELATED_TO"]
    assert stated["properties"].startswith('{"name":"a`]->() DETACH DELETE n //","tone"')
    (known,) = await walks.edges([("Entity", "p")], kept.ann)
    assert [known] == await kept.log.read_records("Edge", ["r"], kept.ann)


async def test_a_forged_way_to_another_user_is_not_walked(kept: LogWithGraph, walks: WalkedGraph) -> None:
    for scope in (kept.ann, kept.bob):
        await kept.write_records(build_entity("e"), build_fact("f", entity_ids=("e",)), scope=scope)
    await walks.database.write(
        lambda tx: fetch_rows(
            tx,
            "MATCH (a:Record {user_id: $ann, key: 'Fact:f'})-[r:ABOUT]->() WITH a, r LIMIT 1 "
            "MATCH (b:Record {user_id: $bob, key: 'Entity:e'}) "
            "CREATE (a)-[s:ABOUT]->(b) SET s = properties(r), b.secret = true",
            ann=kept.ann.user_id,
            bob=kept.bob.user_id,
        )
    )
    for scope in (kept.ann, kept.bob):
        assert await kept.find_neighbors(("Fact", "f"), scope=scope) == [("e", 1)]
        assert await kept.find_neighbors(("Entity", "e"), scope=scope) == [("f", 1)]
        assert len(await walks.edges([("Entity", "e"), ("Fact", "f")], scope)) == 1


# -- the schema


async def test_every_label_and_type_has_its_constraint(kept: LogWithGraph, walks: WalkedGraph) -> None:
    found = await read(
        walks, "SHOW CONSTRAINTS YIELD labelsOrTypes, properties, type RETURN labelsOrTypes[0], properties, type"
    )
    unique = {(name, tuple(fields)) for name, fields, kind in found if "UNIQUE" in kind}
    nodes = {name for name, cls in KINDS.items() if cls.IS_IN_GRAPH}
    labels = {label for ends in ENDPOINT_LABELS.values() for label in ends} | nodes - {"Edge"}
    assert {(name, ("user_id", "id")) for name in labels | set(EdgeKind)} <= unique
    assert {(name, ("user_id", "id")) for name in ("Procedure", "Outcome", "Review")} <= unique
    states = await read(walks, "SHOW INDEXES YIELD state, type WHERE type <> 'VECTOR' RETURN DISTINCT state")
    assert states == [["ONLINE"]]


async def look(graph: Neo4jGraph) -> None:
    try:
        await graph.watermark("ann")
    finally:
        await graph.close()


async def test_a_database_of_another_store_is_refused(kept: LogWithGraph, neo4j_url: str) -> None:
    with pytest.raises(SchemaMismatch, match="belongs to another store"):
        await look(await open_graph(neo4j_url, ManualClock(), kept.log, store_id="somebody else's"))
    with pytest.raises(SchemaMismatch, match="belongs to another store"):
        await migrate(neo4j_url, START, store_id="somebody else's")
    assert await migrate(neo4j_url, START, store_id=STORE_ID) == 0


async def test_a_database_that_lacks_a_step_is_refused(kept: LogWithGraph, neo4j_url: str, tmp_path: Path) -> None:
    for step in load_migrations("neo4j"):
        (tmp_path / f"{step.version:04}_{step.name}.cypher").write_text(step.text, encoding="utf-8")
    (tmp_path / f"{len(load_migrations('neo4j')) + 1:04}_more.cypher").write_text("// nothing yet", encoding="utf-8")
    with pytest.raises(SchemaMismatch, match="run agentmem admin migrate"):
        await look(await open_graph(neo4j_url, ManualClock(), kept.log, store_id=STORE_ID, schema=tmp_path))


# -- the statements

LEAVES = {
    "Argument",
    "NodeIndexSeek",
    "NodeUniqueIndexSeek",
    "NodeUniqueIndexSeek(Locking)",
    "NodeUniqueIndexSeekByRange",
    "DirectedRelationshipUniqueIndexSeek",
    "DirectedRelationshipUniqueIndexSeek(Locking)",
    "DirectedRelationshipByElementIdSeek",
    "ProcedureCall",
    "ShowIndexes",
    "Unwind",
}
STATEMENTS = {
    **{
        f"graph {name}": graph_query(name)
        for name in load_templates("agentmem.stores.neo4j", "graph.cypher")
        if name != "stated"
    },
    **{
        f"apply {name}": graph_update(name)
        for name in load_templates("agentmem.stores.neo4j", "write.cypher")
        if name != "stated"
    },
    **{
        f"migrations {name}": text
        for name, text in load_templates("agentmem.stores.neo4j", "migrations.cypher").items()
    },
}


def operators(plan: dict[str, Any]) -> Iterator[tuple[str, bool]]:
    """The operators of a plan, and whether each is where it starts."""
    children = plan.get("children", [])
    yield plan["operatorType"].partition("@")[0], not children
    for child in children:
        yield from operators(child)


@pytest.mark.parametrize("name", STATEMENTS)
async def test_every_statement_starts_from_an_index(kept: LogWithGraph, walks: WalkedGraph, name: str) -> None:
    await kept.write_records(
        *(build_turn(f"t{n}", n) for n in range(30)), *(build_fact(f"f{n}", source_turn_ids=("t1",)) for n in range(30))
    )
    values = {"limit": 1, "count": 1, "groups": 1, "cap": 1, "after": "", "until": "x"}
    given = {word: value for word, value in values.items() if f"${word}" in STATEMENTS[name]}

    async def explain(tx: Any) -> dict[str, Any]:
        result = await tx.run("EXPLAIN " + STATEMENTS[name], given)
        plan: dict[str, Any] = (await result.consume()).plan
        return plan

    found = list(operators(await walks.database.write(explain)))
    assert {operator for operator, is_leaf in found if is_leaf} <= LEAVES
    assert "CartesianProduct" not in {operator for operator, _ in found}


def test_every_match_by_label_names_its_index() -> None:
    """A plan depends on how much there was when it was made; of an index with hardly anything in it, it reads all."""
    found: list[str] = []
    for name in ("write", "graph", "vectors", "diagnostics"):
        for text in load_templates("agentmem.stores.neo4j", f"{name}.cypher").values():
            found += re.findall(r"(?m)^.*MATCH \(\w+:.*\n.*", text)
    assert len(found) > 25
    assert [line for line in found if "\nUSING INDEX " not in line] == []


def test_every_read_has_a_limit() -> None:
    writes = re.compile(r"\b(CREATE|MERGE|SET|DELETE|REMOVE|CALL db)\b")
    reads = {name: text for name, text in STATEMENTS.items() if not writes.search(text)}
    assert len(reads) == 12
    assert [name for name, text in reads.items() if "LIMIT" not in text] == []
