"""Keys and constraints let every store be spread over machines by user: Postgres, Neo4j and Redis."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
import pytest
import redis
from redis.crc import key_slot

from agentmem import AsyncAgentMemory
from agentmem.stores.neo4j.database import fetch_rows
from agentmem.stores.sqlite import SqliteLog
from tests.conformance.graphs import open_server_graph
from tests.conformance.stores import open_sqlite_log

ALONE = {"schema_version"}  # tells of the schema and belongs to no user: a reference table
OURS = "relnamespace = 'public'::regnamespace"
TABLES = f"SELECT relname FROM pg_class WHERE {OURS} AND relkind IN ('r', 'p')"
DISTRIBUTED = f"""
SELECT relname FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid
WHERE {OURS} AND relkind IN ('r', 'p') AND attname = 'user_id' AND attnotnull"""
UNIQUE = f"""
SELECT t.relname, x.relname, array_agg(a.attname::text ORDER BY k.n)
FROM pg_index JOIN pg_class t ON t.oid = indrelid JOIN pg_class x ON x.oid = indexrelid
CROSS JOIN unnest(indkey::int[]) WITH ORDINALITY AS k(attnum, n)
LEFT JOIN pg_attribute a ON a.attrelid = indrelid AND a.attnum = k.attnum
WHERE t.{OURS} AND (indisunique OR indisexclusion) GROUP BY 1, 2"""
FOREIGN = (
    f"SELECT conname FROM pg_constraint JOIN pg_class c ON c.oid = conrelid WHERE {OURS} AND contype IN ('f', 'x')"
)
GRAPH = "SHOW CONSTRAINTS YIELD name, type, labelsOrTypes, properties RETURN name, type, labelsOrTypes, properties"
OWN_NAME = "city {x}"  # of a value; it stands behind the user, as it is
GRAPH_ALONE = {"Store", "SchemaVersion"}  # tell of the graph itself


@pytest.fixture(scope="module")
def owner(postgres_migrated: tuple[str, str]) -> Iterator[psycopg.Connection[Any]]:
    """A session of the owner of a migrated database in which embedders of two sizes were used."""
    with psycopg.connect(postgres_migrated[0], autocommit=True) as connection:
        for dimensions in (384, 1536):
            connection.execute("SELECT make_passages(%s)", (dimensions,))
        yield connection


def test_every_table_is_distributed_by_the_user(owner: psycopg.Connection[Any]) -> None:
    tables, distributed = ({name for (name,) in owner.execute(text)} for text in (TABLES, DISTRIBUTED))
    assert {"memory_versions", "memory_audit_log_default", "passages_384", "passages_1536"} < distributed
    assert tables - distributed == ALONE


def test_every_unique_key_on_postgres_begins_with_the_user(owner: psycopg.Connection[Any]) -> None:
    found = owner.execute(UNIQUE).fetchall()
    assert {table for table, _, _ in found} >= {name for (name,) in owner.execute(TABLES)}  # each has a key
    assert {table for table, _, columns in found if columns[0] != "user_id"} == ALONE


def test_no_table_points_to_another_one(owner: psycopg.Connection[Any]) -> None:
    assert owner.execute(FOREIGN).fetchall() == []


async def test_every_uniqueness_constraint_of_the_graph_begins_with_the_user(neo4j_url: str, tmp_path: Path) -> None:
    async with open_sqlite_log(tmp_path / "memory.db") as log:
        found = await _constraints(neo4j_url, log)
    assert len(found) > 30
    assert {on for _, _, (on,), columns in found if columns[0] != "user_id"} == GRAPH_ALONE
    assert {kind.removeprefix("RELATIONSHIP_") for _, kind, _, _ in found} == {"UNIQUENESS"}


async def _constraints(url: str, log: SqliteLog) -> list[Any]:
    async with open_server_graph(url, log) as graph:
        return await graph.database.read(lambda tx: fetch_rows(tx, GRAPH))


@pytest.mark.parametrize("user", ["ann", "a{b}c", "}{", "ö:ß", "{}"])
async def test_all_keys_of_a_user_in_redis_have_one_hash_tag(redis_database: str, home: Path, user: str) -> None:
    async with AsyncAgentMemory(
        user, channel="a{b}:c", conversation_id="{talk}", home=home, session_url=redis_database, embedder="hash"
    ) as memory:
        await memory.store_turn("Roses want lime.")
        await memory.engine.drain_background()
        await memory.working.set(OWN_NAME, "Oslo")
        await memory.working.push_thought("ask about the soil")
        with redis.Redis.from_url(redis_database, decode_responses=True) as inside:
            keys = list(inside.scan_iter())
    assert len(keys) == 5
    assert len({key_slot(key.encode()) for key in keys}) == 1
    tags = {tuple(re.findall(r"\{[^{}]*\}|[{}]", key.removesuffix(OWN_NAME))) for key in keys}
    assert tags == {(f"{{{quote(user, safe='')}}}",)}
