"""The log on a server: its schema, its walls, its audit partitions, its plans."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg import sql

from agentmem.core.changes import AuditEntry
from agentmem.core.columns import MAX_TIME, MIN_TIME
from agentmem.core.records import Conversation, User
from agentmem.core.scope import Operator, Scope
from agentmem.errors import ConfigError, SchemaMismatch, ScopeError
from agentmem.stores.postgres import PostgresLog, migrate, open_log
from agentmem.stores.postgres.connection import DIALECT
from agentmem.stores.postgres.database import PostgresDatabase, fetch_rows, parse_url
from agentmem.stores.sql.records import compile_order, compile_where
from agentmem.stores.values import Where
from agentmem.text.templates import load_migrations, load_templates
from tests.conformance.conftest import database_url
from tests.conformance.writing import (
    START,
    SettableClock,
    build_entity,
    build_fact,
    build_turn,
    build_turn_changes,
    record_ids,
    write_records,
)

if TYPE_CHECKING:
    from agentmem.stores.postgres.connection import PostgresConnection

STEPS = len(load_migrations("postgres"))
SEED = {
    "conversation_logs": "id conversation_id turn_index timestamp role content content_hash token_count model channel "
    "metadata",
    "memory_timeline": "id memory_type neo4j_node_id event_time summary importance_score access_count last_accessed "
    "channel archived metadata",
    "tool_invocations": "id conversation_id turn_index timestamp tool_name tool_input tool_output success latency_ms "
    "error_message channel",
    "user_profiles": "user_id created_at updated_at preferences expertise_areas communication_style metadata",
    "memory_audit_log": "id timestamp operation memory_type user_id session_id conversation_id source_channel "
    "target_channels query_text result_count latency_ms success error_message promoted_from_channel "
    "promotion_confidence promotion_access_count promotion_conversation_count config_snapshot metadata",
    "schema_version": "version description applied_at",
}


@pytest.fixture
async def store(postgres_log: str, clock: SettableClock) -> AsyncIterator[PostgresLog]:
    """A log of a user who owns nothing on the server."""
    log = await open_log(postgres_log, clock)
    yield log
    await log.close()


@pytest.fixture
def bare(owner: psycopg.Connection[Any], postgres_migrated: tuple[str, str]) -> Iterator[psycopg.Connection[Any]]:
    """A bare session of the application's role, and of nothing else."""
    with psycopg.connect(postgres_migrated[0], autocommit=True) as connection:
        connection.execute("SET ROLE agentmem_app")
        yield connection


def answer(connection: psycopg.Connection[Any], statement: str) -> list[tuple[Any, ...]]:
    return connection.execute(statement).fetchall()  # type: ignore[call-overload]


# -- the schema


async def test_two_migrations_at_once_make_one_schema(postgres_database: str) -> None:
    with pytest.raises(SchemaMismatch, match="run: agentmem admin migrate"):
        await open_log(postgres_database, SettableClock())
    assert sorted(await asyncio.gather(*(migrate(postgres_database, START) for _ in range(3)))) == [0, 0, STEPS]
    log = await open_log(postgres_database, SettableClock())
    assert (await log.meta())["schema_version"] == str(STEPS)
    await log.database.commit("_system", lambda db: db.execute("UPDATE schema_version SET version = version + 99"))
    await log.close()
    for opening in (open_log(postgres_database, SettableClock()), migrate(postgres_database, START)):
        with pytest.raises(SchemaMismatch, match="newer version"):
            await opening


async def test_another_programs_database_is_left_alone(postgres_database: str) -> None:
    with psycopg.connect(postgres_database) as connection:
        connection.execute("CREATE TABLE invoices (id INTEGER)")
    with pytest.raises(SchemaMismatch, match="another program"):
        await migrate(postgres_database, START)


def test_every_key_has_the_user_and_every_table_a_wall(owner: psycopg.Connection[Any]) -> None:
    keys = """
        SELECT i.indexrelid::regclass::text, array_agg(a.attname::text) FROM pg_index i JOIN pg_attribute a
        ON a.attrelid = i.indrelid AND a.attnum = ANY(i.indkey::int[])
        JOIN pg_class c ON c.oid = i.indrelid
        WHERE i.indisunique AND c.relnamespace = 'public'::regnamespace GROUP BY 1"""
    assert [name for name, columns in answer(owner, keys) if "user_id" not in columns] == ["schema_version_pkey"]
    walls = """
        SELECT relname, relrowsecurity AND relforcerowsecurity FROM pg_class
        WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') ORDER BY 1"""
    assert [name for name, walled in answer(owner, walls) if not walled] == ["schema_version"]


@pytest.mark.parametrize("table", SEED)
def test_the_documents_tables_have_their_columns(owner: psycopg.Connection[Any], table: str) -> None:
    found = owner.execute(
        "SELECT column_name FROM information_schema.columns WHERE table_name = %s", (table,)
    ).fetchall()
    assert set(SEED[table].split()) - {name for (name,) in found} == set()


async def test_the_documents_tables_show_what_is_stored(store: PostgresLog, scope: Scope) -> None:
    said_it = build_turn(
        "a", "NUL \x00 and \\u0000", speaker="Ann\x00", metadata={"n": 1}, role="user", conversation="talk"
    )
    await write_records(
        store, scope, said_it, build_fact("f", "x", importance=0.9), User(id="profile", preferences={"tea": True})
    )
    logs = "SELECT turn_id, conversation, turn_index, timestamp, content, metadata FROM conversation_logs"
    line = "SELECT neo4j_node_id, importance_score, archived FROM memory_timeline ORDER BY 1"
    people = "SELECT user_id, preferences FROM user_profiles"

    async def read(db: PostgresConnection) -> list[list[Any]]:
        return [await fetch_rows(db, text) for text in (logs, line, people)]

    (shown,), timeline, profiles = await store.database.query(scope, read)
    assert (shown[0], shown[1], shown[2], shown[3]) == ("a", "talk", 0, START)
    assert (shown[4].startswith("NUL \ufffd"), shown[5]) == (True, {"n": 1})
    assert (timeline, profiles) == ([("a", 0.5, False), ("f", 0.9, False)], [("alice", {"tea": True})])
    assert await store.read_records("Turn", ["a"], scope) == [(await store.changes(scope, 0, 1))[0].upserts[0].record]
    assert await store.database.query("mallory", read) == [[], [], []]


async def test_long_and_odd_values_are_kept(store: PostgresLog, scope: Scope) -> None:
    long, nul = (
        build_entity(name).model_copy(update={"slug": slug}) for name, slug in (("e", "s" * 5000), ("nul", "a\x00b"))
    )
    await write_records(store, scope, long, nul, cause="why\x00", operation_id="o\x00p")
    assert record_ids(await store.find(scope, Where(dedup_keys=(long.dedup_key(), "thing:a\x00b")))) == ["e", "nul"]
    await store.record_usage([("Entity", "e")], scope, "receipt\x00", used_at=START)
    odd = {"nul": "\x00", "nan": float("nan"), "what": {1, 2}}
    await store.write_audit(
        [AuditEntry(operation="o", memory_type="m", scope=scope, metadata=odd, error_message="e\x00")]
    )
    (row,) = await store.audit_rows(scope)
    assert (row["metadata"]["nan"], row["error_message"]) == ("NaN", "e\ufffd")


# -- walls


async def test_a_bare_session_has_the_rows_of_the_user_it_names(
    store: PostgresLog, bare: psycopg.Connection[Any], scope: Scope, stranger: Scope
) -> None:
    for who in (scope, stranger):
        await store.append(
            build_turn_changes(who, "a"), AuditEntry(operation="store", memory_type="episodic", scope=who)
        )
    tables = ("memory_users", "memory_changes", "memory_versions", "memory_records", "word_tail", "memory_audit_log")
    views = ("conversation_logs", "memory_timeline")
    seen = " UNION ALL ".join(f"SELECT DISTINCT user_id FROM {name}" for name in (*tables, *views))
    assert answer(bare, seen) == []
    for nobody in ("SET agentmem.user_id = ''", "SET agentmem.operator = 'on'"):
        bare.execute(nobody)  # type: ignore[call-overload]
        assert answer(bare, seen) == []
    bare.execute("SET agentmem.user_id = 'alice'")
    assert answer(bare, seen) == [("alice",)] * 8
    assert bare.execute("UPDATE memory_records SET status = 'x' WHERE user_id = 'mallory'").rowcount == 0
    assert bare.execute("DELETE FROM memory_records WHERE user_id = 'mallory'").rowcount == 0
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        bare.execute("INSERT INTO memory_users (user_id) VALUES ('mallory')")
    for forbidden in (
        "UPDATE memory_audit_log SET operation = 'x'",
        "DELETE FROM memory_audit_log",
        "SELECT * FROM memory_audit_log_default",
        "SELECT drop_old_audit_partitions(1)",
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            bare.execute(forbidden)  # type: ignore[call-overload]


async def test_an_auditor_reads_the_audit_log_and_nothing_else(
    store: PostgresLog, owner: psycopg.Connection[Any], scope: Scope, stranger: Scope
) -> None:
    await store.write_audit([AuditEntry(operation="o", memory_type="m", scope=who) for who in (scope, stranger, None)])
    owner.execute("SET ROLE agentmem_auditor")
    found = answer(owner, "SELECT user_id FROM memory_audit_log ORDER BY 1")
    assert found == [("_system",), ("alice",), ("mallory",)]
    for forbidden in (
        "SELECT * FROM memory_records",
        "SELECT * FROM conversation_logs",
        "DELETE FROM memory_audit_log",
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            owner.execute(forbidden)  # type: ignore[call-overload]


async def test_only_a_worker_reads_over_all_users(
    store: PostgresLog, owner: psycopg.Connection[Any], postgres_migrated: tuple[str, str], scope: Scope
) -> None:
    await store.append(build_turn_changes(scope, "a"))
    name = f"app_{id(owner):x}"
    owner.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'secret' IN ROLE agentmem_app")  # type: ignore[call-overload]
    url = postgres_migrated[0]
    app = await open_log(database_url(url, url.rpartition("/")[2], f"{name}:secret"), SettableClock())
    try:
        await app.append(build_turn_changes(scope, "b"))
        assert record_ids(await app.find(scope, Where(kinds=("Turn",)))) == ["a", "b"]
        with pytest.raises(ScopeError, match="GRANT agentmem_worker"):
            await app.users(Operator())
    finally:
        await app.close()
        owner.execute(f"DROP ROLE {name}")  # type: ignore[call-overload]


# -- the audit log


def audited(day: datetime) -> str:
    return f"INSERT INTO memory_audit_log (user_id, timestamp, operation, memory_type) VALUES ('u', '{day}', 'o', 'm')"


def parts(owner: psycopg.Connection[Any]) -> dict[str, int]:
    return dict(answer(owner, "SELECT tableoid::regclass::text, count(*) FROM memory_audit_log GROUP BY 1"))


def test_rows_move_to_their_day_and_go_with_it(owner: psycopg.Connection[Any]) -> None:
    today = datetime(2031, 5, 10, 12, tzinfo=UTC)
    for hours in (-72, -48, 0, 11, 12, 36):
        owner.execute(audited(today + timedelta(hours=hours)))  # type: ignore[call-overload]
    assert parts(owner) == {"memory_audit_log_default": 6}
    assert answer(owner, "SELECT create_audit_partitions(1, '2031-05-10')") == [(5,)]
    assert answer(owner, "SELECT create_audit_partitions(1, '2031-05-10')") == [(0,)]
    moved = {7: 1, 8: 1, 10: 2, 11: 1, 12: 1}
    assert parts(owner) == {f"memory_audit_log_203105{day:02}": count for day, count in moved.items()}
    owner.execute(audited(today))  # type: ignore[call-overload]
    assert parts(owner)["memory_audit_log_20310510"] == 3
    assert answer(owner, "SELECT drop_old_audit_partitions(2, '2031-05-10')") == [(1,)]
    assert answer(owner, "SELECT drop_old_audit_partitions(1, '2031-05-12')") == [(4,)]
    assert "memory_audit_log_20310510" not in parts(owner)
    assert answer(owner, "SELECT drop_old_audit_partitions(1, '2031-05-20')") != [(0,)]
    assert parts(owner) == {}
    with pytest.raises(psycopg.errors.InvalidParameterValue):
        owner.execute("SELECT drop_old_audit_partitions(0)")


@pytest.mark.parametrize(
    "forbidden",
    [
        "UPDATE memory_audit_log SET operation = 'x'",
        "DELETE FROM memory_audit_log",
        "TRUNCATE memory_audit_log",
        "UPDATE memory_audit_log SET query_text = NULL",
    ],
)
def test_audit_rows_stay_as_they_are_even_for_their_owner(owner: psycopg.Connection[Any], forbidden: str) -> None:
    owner.execute(audited(START))  # type: ignore[call-overload]
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="cannot be changed"):
        owner.execute(forbidden)  # type: ignore[call-overload]
    assert len(answer(owner, "SELECT * FROM memory_audit_log")) == 1


async def test_maintenance_makes_the_days_ahead(store: PostgresLog, owner: psycopg.Connection[Any]) -> None:
    now = datetime(2032, 1, 1, tzinfo=UTC)
    await store.maintain(now, 30)
    names = "SELECT count(*) FROM pg_class WHERE relname LIKE 'memory_audit_log_203201%' AND relkind = 'r'"
    assert answer(owner, names) == [(8,)]


# -- plans

HOT = {
    "write": ("state", "last_payloads", "lock", "drop_records"),
    "journal": (
        "head",
        "seq_at",
        "changes_after",
        "versions_after",
        "changes_among",
        "versions_among",
        "operation",
        "applied",
        "history",
        "changed_keys",
        "states",
        "changed_since",
    ),
    "records": ("by_id", "by_ordinal", "by_ordinal_through", "columns", "gone_after", "changed_ordinals"),
    "terms": ("delta_after", "matching", "blocks", "blocks_of", "last_blocks", "recount", "take", "tokenizer"),
    "usage": ("records", "usage", "put_receipt"),
    "erase": ("targets", "payloads", "operations", "blank_changes", "drop_versions", "drop_usage", "remaining_terms"),
    "audit": ("rows", "texts"),
}
VALUES: dict[str, Any] = {
    "user_id": "user 3",
    "kinds": ["Turn"],
    "ids": ["t 5"],
    "channels": ["_global"],
    "keys": ["k"],
    "slots": [5],
    "ordinals": [5],
    "conversations": ["talk"],
    "places": ["talk"],
    "positions": [3],
    "sharing": ["Turn"],
    "before": 9,
    "after": 990,
    "limit": 10,
    "offset": 0,
    "seqs": [5],
    "always": MIN_TIME,
    "never": MAX_TIME,
    "at": 5,
    "operation_id": "x",
    "change_ids": ["x"],
    "kind": "Turn",
    "id": "t 5",
    "through": 5,
    "terms": ["a"],
    "full": 9,
    "tokenizer": "0123456789ab",
    "receipt_id": "r",
    "used": False,
    "seq": 5,
    "head": 5,
    "operation": None,
    "memory_type": None,
    "session_id": None,
    "success": None,
    "own_channel": "_self_a",
    "since": None,
    "until": None,
}
CROWD = (
    "INSERT INTO memory_users (user_id) SELECT 'other ' || n FROM generate_series(1, 2000) n",
    "INSERT INTO word_state (user_id) SELECT 'other ' || n FROM generate_series(1, 2000) n",
    "INSERT INTO usage_receipts SELECT 'other ' || n, 'r', false, 0, '{}' FROM generate_series(1, 2000) n",
)
PLAIN_TABLES = "SELECT relname FROM pg_class WHERE relkind = 'r' AND relname ~ '^(memory|word|usage)_'"
WHERES = [
    (Where(), "seq"),
    (Where(kinds=("Turn",)), "seq"),
    (Where(kinds=("Turn",)), "time"),
    (Where(kinds=("Turn",), since=START, until=START), "time"),
    (Where(ids=("t 5",)), "seq"),
    (Where(kinds=("Fact",), dedup_keys=("k",)), "seq"),
    (Where(kinds=("Fact",), dedup_prefix="slot:a:"), "seq"),
    (Where(conversation_id="talk"), "position"),
]


def statements() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for file, names in HOT.items():
        for name in names:
            text = load_templates("agentmem.stores.postgres", f"{file}.sql")[name]
            yield f"{file}.{name}", text, VALUES | ({"since": ["Turn"]} if name == "state" else {})
    find = load_templates("agentmem.stores.postgres", "records.sql")["find"]
    for where, order in WHERES:
        condition, values = compile_where("user 3", where, DIALECT)
        yield f"find {where}", find.format(where=condition, order=compile_order(order, False)), VALUES | values


async def kept_plan(db: PostgresConnection, text: str, values: dict[str, Any]) -> list[str]:
    names = list(dict.fromkeys(re.findall(r"%\((\w+)\)s", text)))
    numbered = re.sub(r"%\((\w+)\)s", lambda found: f"${names.index(found[1]) + 1}", text)
    given = sql.SQL(", ").join(sql.Literal(values[name]) for name in names).as_string()
    await db.execute(f"PREPARE kept AS {numbered}")  # type: ignore[call-overload]
    plan = await fetch_rows(db, f"EXPLAIN EXECUTE kept({given})")
    await db.execute("DEALLOCATE kept")
    return [line for (line,) in plan]


async def test_no_hot_statement_walks_a_table_of_all_users(store: PostgresLog, owner: psycopg.Connection[Any]) -> None:
    for (table,) in owner.execute(PLAIN_TABLES).fetchall():  # autovacuum would analyse one of them half filled
        owner.execute(sql.SQL("ALTER TABLE {} SET (autovacuum_enabled = false)").format(sql.Identifier(table)))
    for user in range(6):
        scope = Scope(f"user {user}")
        row = AuditEntry(operation="o", memory_type="m", scope=scope)
        await store.append(build_turn_changes(scope, *(f"t {n}" for n in range(1000))), row)
        await store.maintain(START, 365)
        await store.append(build_turn_changes(scope, *(f"more {n}" for n in range(40))))
        await store.record_usage([("Turn", f"t {n}") for n in range(1000)], scope, "r", used_at=START)
    for statement in CROWD:  # a table of one page is rightly read whole
        owner.execute(statement)  # type: ignore[call-overload]

    async def plans(db: PostgresConnection) -> dict[str, list[str]]:
        return {
            name: [line for (line,) in await fetch_rows(db, f"EXPLAIN {text}", values)]
            for name, text, values in statements()
        }

    async def plans_for_any_value(db: PostgresConnection) -> dict[str, list[str]]:
        """As they are kept by a connection: a write's are never made for one value."""
        assert await fetch_rows(db, "SHOW plan_cache_mode") == [("force_generic_plan",)]
        return {name + ", kept": await kept_plan(db, text, values) for name, text, values in statements()}

    async def find_walks() -> dict[str, list[str]]:
        found = await store.database.query("user 3", plans) | await store.database.commit("user 3", plans_for_any_value)
        walked = {
            name: [line for line in lines if re.search(r"Seq Scan on (memory_(?!audit)|word_|usage_)\w*", line)]
            for name, lines in found.items()
        }
        return {name: lines for name, lines in walked.items() if lines}

    assert await find_walks() == {}
    owner.execute("ANALYZE")
    assert await find_walks() == {}


# -- where it lies


@pytest.mark.parametrize(
    "url",
    ["postgresql://me:pass word@h:port/x", "mysql://me:secret@host/db", "postgresql://me:secret@host/db?colour=red"],
)
def test_a_url_that_cannot_work_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(ConfigError, match="log_url") as refused:
        PostgresDatabase(url)
    assert "secret" not in str(refused.value)
    assert "pass word" not in str(refused.value)


def test_a_place_is_named_without_who_asks() -> None:
    assert parse_url("postgresql://me:secret@host:6000/mine?sslmode=disable")[1] == "host:6000/mine"


async def test_a_started_conversation_is_one_uuid(store: PostgresLog, scope: Scope) -> None:
    known = "0190d0c8-8f3e-7b1a-9d6e-3f2a1b4c5d6e"
    await store.append(build_turn_changes(scope, "a", conversation=known))
    await store.append(build_turn_changes(scope, "b", conversation="talk"))
    await write_records(store, scope, Conversation(id="talk"))
    text = "SELECT turn_id, conversation_id::text, conversation FROM conversation_logs ORDER BY 1"
    first, second = await store.database.query(scope, lambda db: fetch_rows(db, text))
    assert first == ("a", known, known)
    assert (second[1] != "talk", second[2]) == (True, "talk")
