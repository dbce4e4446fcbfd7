"""The embedded store's statements: none walks a whole table, none holds a caller's text, records come back whole."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from agentmem.core.record import Record, Status
from agentmem.core.records import Edge, EdgeKind, Fact, Turn, User, build_record
from agentmem.core.scope import Scope
from agentmem.errors import InvalidRecord, SchemaMismatch
from agentmem.stores.codec import RecordMetadata, attach_metadata, decode, encode
from agentmem.stores.erasure_terms import build_erasure_terms, surface_forms
from agentmem.stores.sql.records import choose_index, compile_order, compile_where
from agentmem.stores.sqlite import open_log
from agentmem.stores.sqlite.connection import DIALECT
from agentmem.stores.values import Where
from agentmem.text.templates import load_migrations, load_templates
from tests.conformance.writing import START, SettableClock, build_fact, build_turn, write_records

STAMP = RecordMetadata("alice", "x", "work", 1_700_000_000_000_001, 4, "op")
IN_THE_PATH = ("write", "erase", "graph", "journal", "records", "scan", "usage")
SMALL = {"parked_changes", "store_meta", "leases", "embedders"}  # a few rows each
TABLES = re.compile(r"\b(?:SCAN|USING AUTOMATIC) (\w+)")


@pytest.fixture
def db() -> Iterator[apsw.Connection]:
    """An empty store in memory."""
    connection = apsw.Connection(":memory:")
    for step in load_migrations("sqlite"):
        connection.execute(step.text)
    yield connection
    connection.close()


def plan(db: apsw.Connection, statement: str, values: Any = None) -> list[str]:
    names = dict.fromkeys(re.findall(r":(\w+)", statement))
    numbered = [int(number) for number in re.findall(r"\?(\d+)", statement)]
    empty: Any = names or [None] * (max(numbered) if numbered else statement.count("?"))
    return [str(row[3]) for row in db.execute(f"EXPLAIN QUERY PLAN {statement}", values or empty)]


@pytest.mark.parametrize("file", IN_THE_PATH)
def test_no_statement_walks_a_whole_table(db: apsw.Connection, file: str) -> None:
    tables = {name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    blocks = load_templates("agentmem.stores.sqlite", f"{file}.sql")
    fixed = {
        name: text.replace("{table}", "passage_tokens").partition(";")[0]
        for name, text in blocks.items()
        if "{where}" not in text
    }
    walked = {
        (name, table) for name, text in fixed.items() for line in plan(db, text) for table in TABLES.findall(line)
    }
    assert {(name, table) for name, table in walked if table in tables - SMALL} == set()


@pytest.mark.parametrize(
    "where, order, used",
    [
        (Where(), "seq", "memory_records_seq (user_id=?)"),
        (Where(kinds=("Fact",)), "seq", "memory_records_kind (user_id=? AND kind=?)"),
        (Where(kinds=("Turn",), conversation_id="c"), "position", "_position (user_id=? AND conversation_id=?)"),
        (Where(conversation_id="c", since=START), "seq", "_position (user_id=? AND conversation_id=?)"),
        (Where(kinds=("Turn",), channels=("a", "b")), "time", "memory_records_time (user_id=? AND kind=?)"),
        (Where(kinds=("Turn",), until=START), "seq", "memory_records_time (user_id=? AND kind=?)"),
        (Where(kinds=("Fact",), dedup_keys=("x", "y")), "seq", "_unique (user_id=? AND kind=? AND unique_key=?)"),
        (Where(kinds=("Fact",), dedup_prefix="slot:a:"), "seq", "_unique (user_id=? AND kind=? AND unique_key>? AND"),
        (Where(kinds=("Fact", "Turn"), ids=("x", "y")), "time", "_key (user_id=? AND kind=? AND id=?)"),
    ],
)
def test_a_filter_reads_by_its_index(db: apsw.Connection, where: Where, order: str, used: str) -> None:
    condition, _ = compile_where("alice", where, DIALECT)
    text = load_templates("agentmem.stores.sqlite", "records.sql")["find"].format(
        where=condition, order=compile_order(order, True), index=choose_index(where, order)
    )
    lines = plan(db, text)
    assert any(used in line for line in lines), lines


def test_a_filter_holds_no_value_of_the_caller() -> None:
    evil = "x' OR 1=1 --"
    names = ((evil,), (evil, evil), evil, (evil,), (evil,), (evil,), evil)
    where = Where(*names, (1, evil, evil), START, START, evil, START)
    condition, values = compile_where(evil, where, DIALECT)
    assert evil not in condition
    assert set(re.findall(r":(\w+)", condition)) == set(values)


def select(text: str, db: apsw.Connection) -> list[Any]:
    return list(db.execute(f"SELECT {text}"))


async def test_the_documents_tables_can_be_queried(home: Path) -> None:
    log, scope = await open_log(home / "memory.db", SettableClock()), Scope("alice")
    await write_records(
        log, scope, build_turn("t", "Hello", speaker="Bob", metadata={"a": 1}), build_fact("f", "The sky is blue")
    )
    await write_records(log, scope, build_record(User, id="alice", preferences={"tone": "calm"}))
    await log.record_usage([("Fact", "f")], scope, "r", used_at=START)
    moment = "2024-03-01T12:00:00.000Z"
    expected = {
        "turn_id, turn_index, timestamp, role, content, speaker, metadata FROM conversation_logs": [
            ("t", 0, moment, "user", "Hello", "Bob", '{"a":1}')
        ],
        "memory_type, neo4j_node_id, event_time, summary, access_count, archived FROM memory_timeline ORDER BY 1": [
            ("Fact", "f", moment, "The sky is blue", 1, 0),
            ("Turn", "t", moment, "Hello", 0, 0),
        ],
        "user_id, created_at, preferences, expertise_areas FROM user_profiles": [
            ("alice", moment, '{"tone":"calm"}', "[]")
        ],
        "count(*) FROM tool_invocations": [(0,)],
        "id, operation_id FROM current_records WHERE kind = 'User'": [
            ("alice", (await log.changes(scope, 1, 1))[0].operation_id)
        ],
    }
    for text, rows in expected.items():
        assert await log.database.read(functools.partial(select, text)) == rows
    await log.close()


def test_every_table_that_can_hold_a_users_text_is_scanned(db: apsw.Connection) -> None:
    tables = {name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    scanned = set(load_templates("agentmem.stores.sqlite", "scan.sql")) | {
        "store_meta",
        "leases",
        "embedders",
        "passage_tokens",
    }
    without_text = {
        "schema_version",
        "memory_users",
        "word_state",
        "projection_watermarks",
        "audit_gate",
        "store_guard",
    }
    assert tables - scanned == without_text


@pytest.mark.parametrize(
    "record",
    [
        build_record(
            Turn,
            id="x",
            conversation_id="c",
            content="Hi \u0000 ü",
            timestamp=START,
            metadata={"a": [1, None, {"b": 1.5}]},
        ),
        build_record(
            Fact, id="x", claim="A", tags=("t",), source_spans=(("t", 1, 2),), status=Status.FORGOTTEN, valid_to=START
        ),
        build_record(Edge, id="x", edge_kind=EdgeKind.KNOWS, source="a", target="b", confidence=1),
    ],
    ids=lambda record: record.kind,
)
def test_a_record_comes_back_as_it_was(record: Record) -> None:
    full = attach_metadata(record, STAMP)
    back = decode(record.kind, encode(full), STAMP)
    assert (back, back.model_dump(), hash(repr(back))) == (full, full.model_dump(), hash(repr(full)))
    assert (full.user_id, full.channel, full.seq, full.operation_id) == ("alice", "work", 4, "op")
    assert full.recorded_at is not None
    assert full.recorded_at.microsecond == 1
    assert type(record).model_validate(full.model_dump()) == full
    assert "alice" not in encode(full)


def test_what_cannot_be_stored_or_read_is_named() -> None:
    with pytest.raises(InvalidRecord) as refused:
        encode(build_record(Turn, id="x", content="Hi", metadata={"a": object()}))
    assert refused.value.field == "metadata"
    with pytest.raises(SchemaMismatch, match="Holiday"):
        decode("Holiday", "{}", STAMP)
    with pytest.raises(SchemaMismatch, match="mood"):
        decode("Turn", '{"content": "Hi", "mood": "good"}', STAMP)


def test_words_are_looked_for_with_and_without_what_joins_them() -> None:
    found = surface_forms(["The code is ZQ-77, see /srv/app.py and don't tell."])
    assert {"zq-77", "srv/app.py", "code", "tell"} <= set(found)
    assert "the" not in found


def test_erased_texts_are_found_whole_and_words_alone() -> None:
    wanted = build_erasure_terms({"My pin is 9041, remember", "ok"}, ["9041"])
    assert wanted.has_word("was it 9041?")
    assert not wanted.has_word("was it 90411?")
    assert wanted.quotes("so: My pin is 9041, remember it")
    assert not wanted.quotes("My pin is 9041")
    assert not wanted.quotes("ok")
    assert wanted.quotes_json('{"note": ["My pin is 9041, remember it"]}')
    assert not wanted.quotes_json('{"9041": "ok"}')
