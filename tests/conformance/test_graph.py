"""The graph: edges follow the current records whatever came first, and walks see what their scope may see."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from agentmem.core.edges import ENDPOINT_LABELS, structural_edge_id, structural_edges, turn_position_key
from agentmem.core.record import Key, Record, Status
from agentmem.core.records import PROFILE_ID, RELATION_KINDS, EdgeKind, User, build_record, replace_validated
from agentmem.core.scope import Scope
from agentmem.errors import InvalidRecord
from agentmem.stores.neo4j import Neo4jGraph
from agentmem.stores.sql import graph
from agentmem.stores.sql.graph import SqlGraph
from agentmem.stores.sql.log import SqlLog
from agentmem.stores.sqlite import SqliteLog
from agentmem.text.templates import load_templates
from tests.conformance.graphs import HISTORIES, LogWithGraph, build_conversation, build_edge, open_log_with_graph
from tests.conformance.stores import (
    START,
    ManualClock,
    build_entity,
    build_fact,
    build_goal,
    build_turn,
    delete_records,
    explain_query,
    find_full_scans,
    open_sqlite_log,
    write_records,
)
from tests.scale import scaled

ANN, BOB = Scope("ann"), Scope("bob")
SQL = load_templates("agentmem.stores.sqlite", "graph.sql")


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[SqliteLog]:
    async with open_sqlite_log(tmp_path / "memory.db") as made:
        yield made


URL_FIXTURES = {"neo4j": "neo4j_url", "postgres": "postgres_log"}


@pytest.fixture(params=["sqlite", *(pytest.param(name, marks=pytest.mark.server(name)) for name in URL_FIXTURES)])
async def kept(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[LogWithGraph]:
    """A log with the graph of each backend."""
    url = request.getfixturevalue(URL_FIXTURES[request.param]) if request.param in URL_FIXTURES else ""
    async with open_log_with_graph(tmp_path, request.param, url) as made:
        yield made


def test_every_kind_of_edge_says_what_it_joins() -> None:
    assert set(ENDPOINT_LABELS) == set(EdgeKind)
    assert {ENDPOINT_LABELS[kind] for kind in RELATION_KINDS} == {("Entity", "Entity")}


def test_records_state_their_edges() -> None:
    first, second = build_turn("a", 0), build_turn("b", 1)
    assert structural_edges(first) == [(EdgeKind.HAS_TURN, ("Conversation", "c1"), ("Turn", "a"))]
    assert structural_edges(second)[1] == (EdgeKind.FOLLOWED_BY, turn_position_key("c1", 0), ("Turn", "b"))
    claim = build_fact(
        "f", source_turn_ids=("a", "b", "a"), entity_ids=("e",), depends_on=("g",), supersedes="h", promoted_from="i"
    )
    found = [(kind.value, source[1], target) for kind, source, target in structural_edges(claim)]
    assert found == [
        ("DERIVED_FROM", "f", ("Turn", "a")),
        ("DERIVED_FROM", "f", ("Turn", "b")),
        ("ABOUT", "f", ("Entity", "e")),
        ("DEPENDS_ON", "f", ("Fact", "g")),
        ("SUPERSEDES", "f", ("Fact", "h")),
        ("PROMOTED_FROM", "f", ("Fact", "i")),
    ]
    aim = build_goal("g", parent_id="top", user_id="ann")
    assert [(kind.value, source) for kind, source, _ in structural_edges(aim)] == [
        ("HAS_GOAL", ("User", "profile")),
        ("SUBGOAL_OF", ("Goal", "g")),
    ]
    assert structural_edges(build_entity("e")) == []
    assert structural_edge_id(structural_edges(first)[0]) != structural_edge_id(structural_edges(second)[0])


async def test_nearest_come_first_then_ids(kept: LogWithGraph) -> None:
    await kept.write_records(build_conversation("c1"), *(build_turn(name, index) for index, name in enumerate("dcba")))
    await kept.write_records(
        build_fact("f2", source_turn_ids=("d",), entity_ids=("e",)),
        build_fact("f1", source_turn_ids=("d",)),
        build_entity("e"),
    )
    assert await kept.find_neighbors(("Turn", "d"), depth=1) == [("c", 1), ("c1", 1), ("f1", 1), ("f2", 1)]
    assert await kept.find_neighbors(("Turn", "d")) == [
        ("c", 1),
        ("c1", 1),
        ("f1", 1),
        ("f2", 1),
        ("a", 2),
        ("b", 2),
        ("e", 2),
    ]
    assert await kept.find_neighbors(("Turn", "d"), limit=6) == [
        ("c", 1),
        ("c1", 1),
        ("f1", 1),
        ("f2", 1),
        ("a", 2),
        ("b", 2),
    ]
    assert await kept.find_neighbors(("Turn", "d"), ("Fact", "f2"), depth=1) == [
        ("c", 1),
        ("c1", 1),
        ("e", 1),
        ("f1", 1),
    ]
    assert await kept.find_neighbors(("Entity", "e"), kinds=["ABOUT", "DERIVED_FROM"], depth=3) == [
        ("f2", 1),
        ("d", 2),
        ("f1", 3),
    ]
    assert await kept.find_neighbors(("Turn", "d"), depth=0) == await kept.find_neighbors(("Turn", "d"), limit=0) == []
    assert await kept.find_neighbors(("Turn", "nobody")) == await kept.find_neighbors() == []


async def test_the_edge_says_how_a_record_was_reached(kept: LogWithGraph) -> None:
    await kept.write_records(
        build_entity("p"), build_entity("q"), build_edge("r", EdgeKind.KNOWS, "p", "q", properties={"since": 2020})
    )
    await kept.write_records(build_fact("f", entity_ids=("q",), channel="_global"))
    found = await kept.graph.neighbors([("Entity", "p")], kept.ann)
    assert [(near.key, near.distance, near.edge.edge_kind) for near in found] == [
        (("Entity", "q"), 1, EdgeKind.KNOWS),
        (("Fact", "f"), 2, EdgeKind.ABOUT),
    ]
    stated, structural = (near.edge for near in found)
    assert (stated.id, stated.properties, stated.user_id) == ("r", {"since": 2020}, kept.ann.user_id)
    assert (structural.source, structural.target, structural.recorded_at) == ("f", "q", START)
    assert structural.operation_id
    assert await kept.graph.edges([("Entity", "q")], kept.ann) == [structural, stated]
    assert await kept.graph.edges([("Entity", "q")], kept.ann, limit=1) == [structural]
    assert await kept.graph.edges([("Entity", "q")], kept.ann, kinds=[EdgeKind.KNOWS]) == [stated]


async def test_of_several_edges_the_one_recorded_last_says_how(kept: LogWithGraph) -> None:
    await kept.write_records(
        build_entity("p"), build_fact("f", entity_ids=("p",)), build_edge("a", EdgeKind.ABOUT, "f", "p")
    )
    await kept.write_records(build_edge("c", EdgeKind.ABOUT, "f", "p"), build_edge("b", EdgeKind.ABOUT, "f", "p"))
    await kept.write_records(build_edge("a", EdgeKind.ABOUT, "f", "p", confidence=0.5))
    for key in (("Entity", "p"), ("Fact", "f")):
        (found,) = await kept.graph.neighbors([key], kept.ann)
        assert found.edge.id == "b"
        assert [stated.id for stated in await kept.graph.edges([key], kept.ann)][1:] == ["a", "b", "c"]


async def test_unknown_kinds_are_refused(kept: LogWithGraph) -> None:
    with pytest.raises(InvalidRecord, match="LIKES") as caught:
        await kept.graph.neighbors([("Turn", "a")], kept.ann, kinds=["LIKES"])
    assert caught.value.field == "kinds"


RETIRED: dict[str, dict[str, Any]] = {
    "superseded": {"superseded_at": START},
    "ended": {"valid_to": START},
    "forgotten": {"status": Status.FORGOTTEN},
    "archived": {"status": Status.ARCHIVED},
    "elsewhere": {"channel": "secret"},
}


@pytest.mark.parametrize("why", RETIRED)
async def test_what_is_retired_or_elsewhere_is_no_way_through(kept: LogWithGraph, why: str) -> None:
    middle = build_fact("m", entity_ids=("e",), source_turn_ids=("t",))
    await kept.write_records(build_entity("e"), build_turn("t", 0), middle)
    assert await kept.find_neighbors(("Entity", "e")) == [("m", 1), ("t", 2)]
    await kept.write_records(replace_validated(middle, **RETIRED[why]))
    assert await kept.find_neighbors(("Entity", "e")) == []
    assert await kept.find_neighbors(("Fact", "m")) == []
    assert await kept.graph.edges([("Entity", "e"), ("Fact", "m")], kept.ann) == []


@pytest.mark.parametrize("why", RETIRED)
async def test_a_relation_that_is_retired_or_elsewhere_is_no_way_either(kept: LogWithGraph, why: str) -> None:
    await kept.write_records(
        build_entity("p"), build_entity("q"), build_edge("r", EdgeKind.KNOWS, "p", "q", **RETIRED[why])
    )
    assert await kept.find_neighbors(("Entity", "p")) == []
    assert await kept.graph.edges([("Entity", "p")], kept.ann) == []
    await kept.write_records(build_edge("s", EdgeKind.KNOWS, "q", "p", valid_to=START + timedelta(seconds=1)))
    assert await kept.find_neighbors(("Entity", "p")) == [("q", 1)]


async def test_channels_are_those_of_the_scope(kept: LogWithGraph) -> None:
    await kept.write_records(
        build_entity("e"), build_fact("f", entity_ids=("e",), channel="work"), build_fact("g", entity_ids=("e",))
    )
    assert await kept.find_neighbors(("Entity", "e")) == [("g", 1)]
    assert await kept.find_neighbors(("Entity", "e"), scope=Scope(kept.ann.user_id, channel="work")) == [
        ("f", 1),
        ("g", 1),
    ]
    assert await kept.find_neighbors(("Fact", "f"), scope=Scope(kept.ann.user_id, channels=("work",))) == []


async def test_history_is_shown_when_it_is_asked_for(kept: LogWithGraph) -> None:
    await kept.write_records(build_fact("old", superseded_at=START), build_fact("new", supersedes="old"))
    assert await kept.graph.edges([("Fact", "new")], kept.ann) == []
    (found,) = await kept.graph.edges([("Fact", "old")], kept.ann, kinds=["SUPERSEDES"])
    assert (found.source, found.target) == ("new", "old")
    assert await kept.find_neighbors(("Fact", "new"), kinds=["SUPERSEDES"]) == []


async def test_users_do_not_meet(kept: LogWithGraph) -> None:
    for name, scope in (("bob", kept.bob), ("ann", kept.ann)):
        await kept.write_records(
            build_fact("f", entity_ids=("e",)), build_fact("g" + name, entity_ids=("e",)), scope=scope
        )
    await kept.write_records(build_entity("e"), scope=kept.bob)
    assert await kept.find_neighbors(("Fact", "f")) == []
    assert await kept.find_neighbors(("Fact", "f"), scope=kept.bob) == [("e", 1), ("gbob", 2)]


async def test_a_hub_of_one_kind_does_not_hide_the_others(kept: LogWithGraph) -> None:
    await kept.write_records(
        build_entity("hub"), build_entity("friend"), build_edge("k", EdgeKind.KNOWS, "hub", "friend")
    )
    mentions = [build_edge(f"m{n}", EdgeKind.MENTIONS, f"t{n:03}", "hub") for n in range(200)]
    await kept.write_records(*(build_turn(f"t{n:03}", n) for n in range(200)), *mentions)
    found = await kept.find_neighbors(("Entity", "hub"), depth=1, limit=10)
    assert ("friend", 1) in found
    assert [name for name, _ in found][1:] == [f"t{n:03}" for n in range(190, 199)]


@pytest.mark.parametrize(
    "kept", ["sqlite", pytest.param("postgres", marks=pytest.mark.server("postgres"))], indirect=True
)
async def test_links_are_the_latest_of_each_record(kept: LogWithGraph) -> None:
    assert isinstance(kept.graph, SqlGraph)
    await kept.write_records(build_entity("hub"), build_entity("rare"), build_entity("far"))
    for n in range(5):
        await kept.write_records(build_fact(f"f{n}", claim=f"{n}", entity_ids=("hub", "rare") if n == 1 else ("hub",)))
    await kept.write_records(build_edge("r", EdgeKind.KNOWS, "rare", "far"))
    asked = [("Entity", "hub"), ("Entity", "rare"), ("Entity", "unheard of")]
    links = await kept.graph.links(asked, kept.ann, {EdgeKind.ABOUT}, 2)
    assert [(told[1], entity[1]) for _, told, entity in links] == [("f1", "rare"), ("f3", "hub"), ("f4", "hub")]
    everything = await kept.graph.links(asked, kept.ann, set(EdgeKind), 100)
    assert everything == sorted(
        (each.edge_kind, (ENDPOINT_LABELS[each.edge_kind][0], each.source), ("Entity", each.target))
        for each in await kept.graph.edges(asked, kept.ann)
    )
    assert await kept.graph.links(asked, kept.bob, set(EdgeKind), 100) == []


async def test_a_goal_belongs_to_the_user_record_once_there_is_one(kept: LogWithGraph) -> None:
    await kept.write_records(build_goal("g"), build_goal("h", parent_id="g"))
    assert await kept.find_neighbors(("Goal", "h"), depth=1) == [("g", 1)]
    await kept.write_records(build_record(User, id=PROFILE_ID))
    assert await kept.find_neighbors(("Goal", "h"), depth=1) == [("g", 1), (PROFILE_ID, 1)]


async def test_clear_and_rebuild(kept: LogWithGraph) -> None:
    await kept.write_records(
        build_conversation("c1"),
        build_turn("a", 0),
        build_turn("b", 1, channel="work"),
        build_fact("f", source_turn_ids=("zz",)),
    )
    before = await kept.graph.edges([("Turn", "a"), ("Turn", "b")], Scope(kept.ann.user_id, channel="work"))
    if isinstance(kept.graph, Neo4jGraph):
        assert await kept.graph.watermark(kept.ann.user_id) == 1
        await kept.graph.clear(kept.ann.user_id)
        assert await kept.graph.watermark(kept.ann.user_id) == await kept.graph.watermark("nobody") == 0
        assert await kept.graph.edges([("Turn", "a")], kept.ann) == []
    assert await kept.graph.rebuild(kept.ann) == len(before) == 3
    assert await kept.graph.edges([("Turn", "a"), ("Turn", "b")], Scope(kept.ann.user_id, channel="work")) == before


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.server("postgres"))])
async def log_of_each(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[SqlLog[Any]]:
    """A log of each dialect."""
    url = request.getfixturevalue("postgres_log") if request.param == "postgres" else ""
    async with open_log_with_graph(tmp_path, request.param, url) as made:
        yield made.log


@given(history=HISTORIES)
@settings(max_examples=scaled(80, least=15), suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_any_history_gives_the_edges_that_the_records_state(
    history: list[tuple[str, list[Record]]], log_of_each: SqlLog[Any]
) -> None:
    scope, current = Scope(f"ann {os.urandom(6).hex()}"), dict[Key, Record]()
    for name, given_records in history:
        records = {record.key: record for record in given_records}
        if name == "gone":
            taken = [key for key in records if current.pop(key, None) is not None]
            await delete_records(log_of_each, scope, *taken)
            continue
        for key, record in records.items():
            place = record.position_key()
            if record.kind != "Turn" or not any(
                other.kind == "Turn" and other.position_key() == place and other.key != key
                for other in current.values()
            ):
                current[key] = record
                await write_records(log_of_each, scope, record)
    database, user_id = log_of_each.database, scope.user_id
    assert await database.query(user_id, partial(graph.count_differences, user_id=user_id)) == 0
    before = await database.query(user_id, lambda db: db.rows("graph.stored", user_id=user_id))
    await graph.SqlGraph(database, ManualClock()).rebuild(scope)
    after = await database.query(user_id, lambda db: db.rows("graph.stored", user_id=user_id))
    assert sorted(after) == sorted(before)


async def test_edges_wait_for_ends_that_come_later_and_come_back(kept: LogWithGraph) -> None:
    await kept.write_records(
        build_turn("b", 1), build_fact("f", source_turn_ids=("a",)), build_edge("r", EdgeKind.KNOWS, "p", "q")
    )
    assert await kept.find_neighbors(("Turn", "b"), ("Fact", "f")) == []
    await kept.write_records(build_turn("a", 0), build_entity("q"), build_entity("p"), build_conversation("c1"))
    assert await kept.find_neighbors(("Turn", "a"), depth=1) == [("b", 1), ("c1", 1), ("f", 1)]
    assert await kept.find_neighbors(("Entity", "p"), depth=1) == [("q", 1)]
    await kept.delete_records(("Turn", "a"), ("Entity", "q"))
    assert await kept.find_neighbors(("Turn", "b"), depth=1) == [("c1", 1)]
    assert await kept.find_neighbors(("Entity", "p")) == []
    await kept.write_records(build_turn("a", 0), build_entity("q"))
    assert await kept.find_neighbors(("Turn", "b"), depth=1) == [("a", 1), ("c1", 1)]
    assert await kept.find_neighbors(("Entity", "q")) == [("p", 1)]


@pytest.mark.parametrize("analysed", [False, True])
async def test_every_statement_goes_through_an_index(log: SqliteLog, analysed: bool) -> None:
    for scope in (ANN, BOB):
        await write_records(log, scope, build_entity("e"), *(build_turn(f"t{n}", n) for n in range(60)))
        await write_records(
            log, scope, *(build_fact(f"f{n}", source_turn_ids=(f"t{n}",), entity_ids=("e",)) for n in range(60))
        )
    if analysed:
        await log.database.write(lambda db: db.execute("ANALYZE").fetchall())
    ends = {f"{end}{part}": 1 for end in ("source", "target") for part in ("", "_kind", "_id", "_position", "_mark")}
    lists = dict.fromkeys(("keys", "channels", "outward", "inward", "steps", "ordinals"), "[]")
    values: dict[str, Any] = {
        **ends,
        **lists,
        "user_id": "ann",
        "ordinal": 1,
        "kind": "ABOUT",
        "mark": -9,
        "owner": 2,
        "edge": -1,
        "after": -1,
        "limit": 9,
        "now": 0,
        "retired": False,
        "cap": 9,
    }
    found = await log.database.read(
        lambda db: {name: find_full_scans(explain_query(db, text, values)) for name, text in SQL.items()}
    )
    allowed = {"delete_user", "count", "stored"}  # for a user who owns most of the file, reading all of it is right
    assert {name: lines for name, lines in found.items() if lines and name not in allowed} == {}
