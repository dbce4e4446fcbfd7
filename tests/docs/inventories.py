"""What there is on servers and in the embedded file, each thing in one line as docs/source-items.md writes it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import apsw
import numpy as np
import psycopg
import redis

from agentmem import AsyncAgentMemory
from agentmem.core.edges import ENDPOINT_LABELS
from agentmem.core.procedural_records import Strategy, Tool
from agentmem.core.records import KINDS, Conversation, EdgeKind, User, build_record
from agentmem.stores.neo4j import Neo4jGraph, Neo4jNodeVectors, create_indexes
from agentmem.stores.neo4j.database import Neo4jDatabase, fetch_rows
from tests.conformance.graphs import LogWithGraph, open_log_with_graph
from tests.conformance.indexes import open_postgres_backend, open_sqlite_backend
from tests.conformance.node_vectors import lock_vector_indexes
from tests.conformance.stores import START, build_entity, build_fact, build_goal, build_turn

DIMENSIONS = (384, 768, 1536, 3072)
OPENED_FOR = "hash:test:{}"

TABLES = """
SELECT CASE relkind WHEN 'v' THEN 'view ' WHEN 'p' THEN 'partitioned table ' ELSE 'table ' END || relname FROM pg_class
WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p', 'v') AND NOT relispartition"""
COLUMNS = """
SELECT relname || '.' || attname || ' ' || format_type(atttypid, atttypmod) FROM pg_attribute
JOIN pg_class c ON c.oid = attrelid
WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p', 'v') AND NOT relispartition AND attnum > 0"""
INDEXES = """
SELECT x.relname || ' ' || amname || ' ' || t.relname || ' (' || (
    SELECT string_agg(attname, ', ' ORDER BY n) FROM unnest(indkey::int[]) WITH ORDINALITY AS k(attnum, n)
    JOIN pg_attribute a ON a.attrelid = indrelid AND a.attnum = k.attnum) || ')'
FROM pg_index JOIN pg_class x ON x.oid = indexrelid JOIN pg_class t ON t.oid = indrelid JOIN pg_am m ON m.oid = x.relam
WHERE t.relnamespace = 'public'::regnamespace AND NOT t.relispartition"""
FUNCTIONS = "SELECT oid::regprocedure::text FROM pg_proc WHERE pronamespace = 'public'::regnamespace"

PROPERTIES = """
MATCH (n:Record {user_id: $user_id}) WHERE n.id IS NOT NULL UNWIND keys(n) AS name
WITH [label IN labels(n) WHERE label <> 'Record'][0] AS label, name, valueType(n[name]) AS type
RETURN DISTINCT label, name, type"""
CONSTRAINTS = (
    "SHOW CONSTRAINTS YIELD name, type, labelsOrTypes, properties RETURN name, type, labelsOrTypes, properties"
)
GRAPH_INDEXES = """
SHOW INDEXES YIELD name, type, labelsOrTypes, properties, state WHERE state = 'ONLINE'
RETURN name, type, labelsOrTypes, properties"""


async def postgres(url: str) -> set[str]:
    """Tables, columns with types, indexes and functions of an empty database after migrating and opening embedders."""
    async with open_postgres_backend(url) as place:
        for number in DIMENSIONS:
            await place.open(OPENED_FOR.format(number), number)
        with psycopg.connect(url) as owner:
            return {line for text in (TABLES, COLUMNS, INDEXES, FUNCTIONS) for (line,) in owner.execute(text)}


async def file(folder: Path) -> set[str]:
    """Tables, columns, indexes and keys of a new file; kinds of records, their fields, and edges."""
    async with open_sqlite_backend(folder) as place:
        for number in DIMENSIONS:
            await place.open(OPENED_FOR.format(number), number)
        found = await place.database.read(_of_file)
    edges = {f"(:{source})-[:{kind}]->(:{target})" for kind, (source, target) in ENDPOINT_LABELS.items()}
    fields = {f"{name}.{field}" for name, kind in KINDS.items() for field in kind.model_fields}
    return found | set(KINDS) | fields | edges


def _of_file(db: apsw.Connection) -> set[str]:
    found = set()
    for kind, table in db.execute("SELECT type, name FROM sqlite_schema WHERE type IN ('table', 'view')").fetchall():
        columns = db.execute("SELECT name, pk FROM pragma_table_info(?)", (table,)).fetchall()
        found |= {f"{kind} {table}", *(f"{table}.{name}" for name, _ in columns)}
        found.add(_on("primary key", table, [name for name, pk in sorted(columns, key=lambda c: c[1]) if pk]))
        for (index,) in db.execute("SELECT name FROM pragma_index_list(?)", (table,)).fetchall():
            on = db.execute("SELECT name FROM pragma_index_info(?) ORDER BY seqno", (index,)).fetchall()
            found.add(_on(index, table, [name for (name,) in on]))
    return found


def _on(name: str, place: str, columns: Sequence[str]) -> str:
    return f"{name} {place} ({', '.join(columns)})"


async def neo4j(url: str, folder: Path) -> set[str]:
    """Labels, properties with types, relationships, constraints and indexes; a record of each kind is written."""
    async with open_log_with_graph(folder, "neo4j", url) as kept:
        await _fill(kept)
        assert isinstance(kept.graph, Neo4jGraph)
        database, user = kept.graph.database, kept.ann.user_id
        with lock_vector_indexes(url):
            await _fill_vectors(kept, database)
            await create_indexes(url, DIMENSIONS[0])
            indexes = await database.read(lambda tx: fetch_rows(tx, GRAPH_INDEXES))
        properties = await database.read(lambda tx: fetch_rows(tx, PROPERTIES, user_id=user))
        constraints = await database.read(lambda tx: fetch_rows(tx, CONSTRAINTS))
    labels = {on[0] for _, _, on, _ in constraints}
    found = {f"{label}.{name} {kind.removesuffix(' NOT NULL')}" for label, name, kind in properties}
    found |= {_on(f"{name} unique", on[0], of) for name, kind, on, of in constraints if "UNIQUENESS" in kind}
    found |= {_on(f"{name} {kind.lower()}", (on or [""])[0], of or []) for name, kind, on, of in indexes}
    kinds = {str(kind) for kind in EdgeKind} & labels
    found |= {f"(:{ENDPOINT_LABELS[EdgeKind(k)][0]})-[:{k}]->(:{ENDPOINT_LABELS[EdgeKind(k)][1]})" for k in kinds}
    return found | labels


async def _fill(kept: LogWithGraph) -> None:
    times = {"created_at": START, "completed_at": START, "deadline": START}
    await kept.write_records(
        build_record(Conversation, id="c1", title="On roses", started_at=START, consolidated=START),
        build_turn("t", 0, timestamp=START, token_count=3),
        build_entity("e", aliases=("rose",), description="A plant", first_seen=START, properties={"colour": "red"}),
        build_fact("f", source_turn_ids=("t",), entity_ids=("e",)),
        build_goal("g", result="weeded", **times),
        build_record(User, id="profile"),
        build_record(Tool, id="tool", name="spade", avg_latency_ms=1.5),
        build_record(
            Strategy,
            id="s",
            description="Dig first",
            context_pattern="a new bed",
            tool_sequence=("spade",),
            created_at=START,
            last_used=START,
            tool_ids=("tool",),
            conversation_ids=("c1",),
        ),
    )


async def _fill_vectors(kept: LogWithGraph, database: Neo4jDatabase) -> None:
    """What the setting `graph_vectors` does for searchable records."""
    columns, _, head = await kept.log.read_columns(kept.ann, 0)
    vector = np.ones(DIMENSIONS[0], dtype=np.float16)
    without = ("Conversation", "Tool", "User")
    held = {(row.kind, row.id): (row.slot, vector) for row in columns if row.kind not in without}
    assert await Neo4jNodeVectors(database).write(kept.ann, "graph_vectors/made up", 0, head.seq, held)


async def session(home: Path, session_url: str | None) -> None:
    """Use working memory, and set the keys that others than working memory may have, in Redis or in a file."""
    async with AsyncAgentMemory(
        "ann", home=home, session_url=session_url, conversation_id="talk", embedder="hash"
    ) as memory:
        await memory.store_turn("Roses want lime.")
        await memory.engine.drain_background()
        await memory.working.set("city", "Oslo")
        await memory.working.push_thought("ask about the soil")
        scope = memory._context.scope
        for key in ("session:s1:note", "consolidation:job:7", "consolidation:lock:talk", "identity", "context"):
            await memory.engine.session.set(scope, key, "x", ttl=60)


def redis_keys(url: str) -> set[str]:
    """The keys of a database."""
    with redis.Redis.from_url(url, decode_responses=True) as client:
        return set(client.scan_iter())


def session_keys(home: Path) -> set[str]:
    """The keys of the embedded session cache, whose user is a column of its own."""
    return {str(key) for (key,) in apsw.Connection(str(home / "session.db")).execute("SELECT key FROM kv")}
