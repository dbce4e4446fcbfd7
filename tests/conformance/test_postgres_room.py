"""Time and room on a server: days without a worker, indexes that serve, columns that are filled, upgrades."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from agentmem.core.clock import to_micros
from agentmem.core.records import Fact, Turn
from agentmem.core.scope import Operator, Scope
from agentmem.stores.postgres import PostgresLog, migrate, open_log
from agentmem.stores.postgres.connection import PostgresConnection
from agentmem.stores.postgres.database import fetch_rows
from agentmem.stores.sql.graph import SqlGraph
from agentmem.stores.values import Where
from agentmem.text.templates import load_migrations, load_templates
from tests.conformance.writing import START, SettableClock, build_turn, query_view, write_records

ALICE = Scope("alice")
DAYS = "SELECT tableoid::regclass::text, count(*) FROM memory_audit_log GROUP BY 1 ORDER BY 1"
DAYS_AFTER = {"20240227": 1, "20240228": 2, "20240301": 1, "20240410": 1}
AUDITED = "INSERT INTO memory_audit_log (user_id, timestamp, operation, memory_type) VALUES ('u', %s, 'o', 'm')"
# Changes of others, a minute apart.
CROWD = """
INSERT INTO memory_changes (user_id, seq, change_id, operation_id, operation, actor, at)
SELECT 'user ' || n %% 100, n, 'change ' || n, 'operation ' || n, 'store', '', %s + n * 60000000::bigint
FROM generate_series(1, 30000) n
"""
CROWD_OF_RECORDS = """
INSERT INTO memory_records (user_id, slot, seq, kind, id, channel, status, conversation_id, position, recorded_at)
SELECT 'user ' || n %% 100, n, n, 'Turn', 't ' || n, '_global', 'active', 'talk', n, %s + n
FROM generate_series(1, 5000) n
"""
GRAPH_VERSION = 8  # from which on a writer makes edges, and a migration those that are asked for
# What a life of three records is at any version: payloads are those of the first release.
LIFE = """
INSERT INTO memory_users (user_id, head, slots, last_at) VALUES (%(user)s, 1, 3, %(at)s);
INSERT INTO memory_changes (user_id, seq, change_id, operation_id, operation, actor, at)
VALUES (%(user)s, 1, %(user)s || ' change', 'o', 'store', 'user', %(at)s);
INSERT INTO memory_versions (user_id, slot, seq, part, kind, id, channel, recorded_at, payload) VALUES
    (%(user)s, 0, 1, 0, 'Turn', 't', '_global', %(at)s,
     '{"conversation_id":"talk","timestamp":"2024-03-01T12:00:00Z","content":"Bees eat nectar."}'),
    (%(user)s, 1, 1, 1, 'Entity', 'e', '_global', %(at)s, '{"name":"Bees","slug":"bees"}'),
    (%(user)s, 2, 1, 2, 'Fact', 'f', '_global', %(at)s,
     '{"claim":"Bees eat nectar","claim_hash":"9d2c","source_turn_ids":["t"],"entity_ids":["e"]}');
INSERT INTO memory_records (user_id, slot, seq, kind, id, channel, status, conversation_id, position, recorded_at,
    words, length)
VALUES (%(user)s, 0, 1, 'Turn', 't', '_global', 'active', 'talk', 0, %(at)s, 3, 3),
    (%(user)s, 1, 1, 'Entity', 'e', '_global', 'active', '', -1, %(at)s, 1, 1),
    (%(user)s, 2, 1, 'Fact', 'f', '_global', 'active', '', -1, %(at)s, 3, 3);
INSERT INTO word_tail (user_id, slot, terms) VALUES (%(user)s, 0, '{"nectar": 1}');
INSERT INTO word_state (user_id, tail) VALUES (%(user)s, 1);
INSERT INTO memory_usage (user_id, kind, id, access_count) VALUES (%(user)s, 'Fact', 'f', 2)
"""


@pytest.fixture
async def log(postgres_log: str) -> AsyncIterator[PostgresLog]:
    """A log of a user who owns nothing on the server."""
    opened = await open_log(postgres_log, SettableClock())
    yield opened
    await opened.close()


async def test_the_worker_moves_the_rows_of_days_without_one(log: PostgresLog, owner: psycopg.Connection[Any]) -> None:
    for days in (-3, -2, -2, 0, 40):
        owner.execute(AUDITED, (START + timedelta(days=days),))
    await log.maintain(START, 365)
    found = owner.execute(DAYS).fetchall()
    assert found == [(f"memory_audit_log_{day}", n) for day, n in DAYS_AFTER.items()]


async def read_plan(log: PostgresLog, principal: Scope | Operator, statement: str, values: dict[str, Any]) -> str:
    async def explain(db: PostgresConnection) -> str:
        return "\n".join(line for (line,) in await fetch_rows(db, f"EXPLAIN {statement}", values))

    return await log.database.query(principal, explain)


async def test_times_are_found_without_reading_a_table(log: PostgresLog, owner: psycopg.Connection[Any]) -> None:
    start = to_micros(START)
    for statement in (CROWD, CROWD_OF_RECORDS):
        owner.execute(statement, (start,))
    owner.execute("ANALYZE memory_changes, memory_records")
    lately = {"since": start + 29_900 * 60_000_000, "after": "", "limit": 10}
    statement = load_templates("agentmem.stores.postgres", "jobs.sql")["users_changed_since"]
    assert "memory_changes_time" in await read_plan(log, Operator(), statement, lately)
    for view, column in (("conversation_logs", "timestamp"), ("memory_timeline", "event_time")):
        asked = f"SELECT * FROM {view} WHERE user_id = 'alice' AND {column} > %(since)s"
        plan = await read_plan(log, ALICE, asked, {"since": START})
        assert "Seq Scan on memory" not in plan
    unused = "SELECT indexname FROM pg_indexes WHERE indexdef LIKE '%USING brin%' AND tablename = 'memory_records'"
    assert owner.execute(unused).fetchall() == []


async def test_a_turn_has_its_hash_and_its_tokens(log: PostgresLog) -> None:
    turns = build_turn("t", "Bees eat nectar.", token_count=5), build_turn("u", "Bees eat nectar.")
    await write_records(log, ALICE, *turns)
    expected = hashlib.sha256(b"Bees eat nectar.").hexdigest()
    found = await query_view(log, ALICE, "turn_id, content_hash, token_count", "conversation_logs")
    assert sorted(found) == [("t", expected, 5), ("u", expected, 4)]


async def test_what_was_stored_at_any_version_is_read_after_the_upgrade(postgres_database: str) -> None:
    steps, sql = load_migrations("postgres"), load_templates("agentmem.stores.postgres", "migrations.sql")
    with psycopg.connect(postgres_database, autocommit=True) as connection:
        for step in steps[:-1]:
            connection.execute(step.text)
            done = {"version": step.version, "description": step.name, "at": START}
            connection.execute(sql["applied"], done)
            if step.version == 1:
                connection.execute(sql["identity"], {"store_id": "s"})
            named = {"user": f"user {step.version}", "at": to_micros(START)}
            with psycopg.ClientCursor(connection) as cursor:  # takes several statements with values
                cursor.execute(LIFE, named)
                if step.version >= GRAPH_VERSION:
                    cursor.execute("INSERT INTO projection_watermarks VALUES (%(user)s, 'edges', 0)", named)
    assert await migrate(postgres_database, START) == 1
    log = await open_log(postgres_database, SettableClock())
    try:
        for step in steps[:-1]:
            await check_life(log, Scope(f"user {step.version}"))
    finally:
        await log.close()


async def check_life(log: PostgresLog, scope: Scope) -> None:
    turn, fact = await log.find(scope, Where(kinds=("Turn", "Fact")), order="id", descending=True)
    assert isinstance(turn, Turn)
    assert isinstance(fact, Fact)
    assert (turn.content, fact.claim, fact.source_turn_ids) == ("Bees eat nectar.", "Bees eat nectar", ("t",))
    assert [entry.seq for entry in await log.changes(scope, 0, 10)] == [1]
    assert set(await log.match(["nectar"], scope)) == {"nectar"}
    near = await SqlGraph(log.database, SettableClock()).neighbors([("Entity", "e")], scope)
    assert ("Fact", "f") in {each.key for each in near}
    entry = await write_records(log, scope, build_turn("u", "Wasps eat bees."))
    assert entry.seq == 2
