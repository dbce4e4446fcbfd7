"""Whatever was written, in whatever order: what an append makes from the records is what a rebuild makes of them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentmem.core.changes import Change
from agentmem.core.clock import SystemClock
from agentmem.core.records import Conversation
from agentmem.core.scope import Scope
from agentmem.errors import Conflict, InvalidRecord
from agentmem.stores.sql.graph import SqlGraph
from agentmem.stores.sqlite import SqliteAdmin, SqliteLog, open_log
from agentmem.stores.sqlite.connection import SqliteConnection
from tests.conformance.writing import SettableClock, build_change, build_edge, build_entity, build_fact, build_turn
from tests.scale import scaled

ANN = Scope("ann")
NAMES = st.sampled_from("abcd")
WORDS = ("fox", "owl", "elk", "bee")
TEXTS = st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join)
TALKS = st.sampled_from(["c1", "c2"])
RECORDS = st.one_of(
    st.builds(build_turn, NAMES, TEXTS, TALKS),
    st.builds(
        lambda name, text, talk, at: build_turn(name, text, talk, index=at), NAMES, TEXTS, TALKS, st.integers(0, 4)
    ),
    st.builds(
        lambda name, text, turns, entities: build_fact(name, text, source_turn_ids=turns, entity_ids=entities),
        NAMES,
        TEXTS,
        st.lists(NAMES, max_size=2).map(tuple),
        st.lists(NAMES, max_size=2).map(tuple),
    ),
    st.builds(lambda name, text: build_entity(name, description=text), NAMES, TEXTS),
    st.builds(build_edge, NAMES, NAMES, NAMES),
    TALKS.map(lambda name: Conversation(id=name)),
)
KEYS = st.tuples(st.sampled_from(["Turn", "Fact", "Entity", "Conversation"]), st.sampled_from(["a", "b", "c1"]))
PUTS = st.lists(RECORDS, min_size=1, max_size=3, unique_by=lambda record: record.key).map(
    lambda records: build_change(ANN, *records)
)
DEPARTURES = st.lists(KEYS, min_size=1, max_size=3, unique=True).map(
    lambda keys: build_change(ANN, deletes=tuple(keys))
)
WRITES = st.builds(lambda gone, puts: [*gone, *puts], st.lists(DEPARTURES, max_size=1), st.lists(PUTS, max_size=3))


def edges(db: SqliteConnection) -> list[Any]:
    return db.execute("SELECT * FROM graph_edges ORDER BY user_id, source, kind, target, edge").fetchall()


def tail(db: SqliteConnection) -> tuple[Any, Any]:
    """How long the tail of the word index is, as noted and as counted."""
    return db.execute(
        "SELECT coalesce((SELECT tail FROM word_state WHERE user_id = 'ann'), 0),"
        " (SELECT count(*) FROM word_tail WHERE user_id = 'ann')"
    ).fetchall()[0]


async def words(log: SqliteLog) -> dict[str, tuple[list[int], list[float]]]:
    found = await log.match(WORDS, ANN)
    return {word: (postings.ordinals.tolist(), postings.counts.tolist()) for word, postings in found.items()}


@pytest.mark.long
@given(history=st.lists(WRITES, max_size=10))
@settings(max_examples=scaled(150), suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_any_history_leaves_what_a_rebuild_makes(
    history: list[list[Change]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    log = await open_log(tmp_path_factory.mktemp("append") / "memory.db", SettableClock())
    try:
        for write in history:
            try:
                await log.append(write)
            except (Conflict, InvalidRecord):
                continue  # a position or a claim that is taken: nothing of it is written
            await log.match(WORDS, ANN)  # what is cached of the words must follow, too
        noted, counted = await log.database.read(tail)
        assert noted == counted
        before = await log.database.read(edges), await words(log)
        await SqlGraph(log.database, SystemClock()).rebuild(ANN)
        await SqliteAdmin(log.database).rebuild_terms(ANN)
        assert (await log.database.read(edges), await words(log)) == before
    finally:
        await log.close()


async def test_a_turn_between_others_is_joined_to_both(tmp_path_factory: pytest.TempPathFactory) -> None:
    log = await open_log(tmp_path_factory.mktemp("append") / "memory.db", SettableClock())
    for name, index in (("first", 0), ("third", 2), ("second", 1)):
        await log.append(
            [build_change(ANN, build_turn(name, index=index), inserts_if_absent=(Conversation(id="talk"),))]
        )
    found = await SqlGraph(log.database, SystemClock()).edges([("Turn", "second")], ANN, ["FOLLOWED_BY"])
    assert [(item.source, item.target) for item in found] == [("first", "second"), ("second", "third")]
    await log.close()
