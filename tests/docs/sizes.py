"""`python -m tests.docs.sizes [TURNS [DIMENSIONS]]`: bytes on disk per memory, by table, for docs/scale.md.

Ten users say that many synthetic turns (23 words in two or three sentences); every third turn gives a fact. Each turn
has an audit row, and vectors (random: only their size matters) of the whole and of each sentence.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import numpy as np
import psycopg

from agentmem.core.changes import Change, JournalEntry
from agentmem.core.records import Conversation, Fact, Turn, build_record
from agentmem.core.scope import Scope
from agentmem.engine.auditor import Auditor
from agentmem.settings.settings import load_settings
from agentmem.stores.neo4j import Neo4jGraph
from agentmem.stores.postgres import PostgresLog, migrate, open_log
from agentmem.stores.postgres.vectors import PostgresVectors, open_vectors
from agentmem.stores.values import SENTENCE, WHOLE, VectorBatch, VectorRow
from agentmem.text.chunking import chunk_text
from tests.benchmarks.synthetic import SyntheticConversations
from tests.conformance.graphs import open_server_graph
from tests.conformance.stores import open_sqlite_log
from tests.conformance.writing import START, SettableClock
from tests.servers.local import LocalServer
from tests.servers.neo4j import Neo4j
from tests.servers.postgres import Postgres

USERS, AT_ONCE = 10, 500
RANDOM = np.random.default_rng(1)
SIZES = """
SELECT regexp_replace(relname, '_[0-9]{8}$|_default$', ''), sum(pg_relation_size(c.oid)), sum(pg_indexes_size(c.oid)),
       sum(pg_total_relation_size(c.oid))
FROM pg_class c WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' GROUP BY 1
HAVING sum(pg_total_relation_size(c.oid)) > 1000000 ORDER BY 4 DESC"""


def written(scope: Scope, turns: int) -> Iterator[Change]:
    """A change per turn, and one per fact that follows from it."""
    for n, given in enumerate(SyntheticConversations(hash_of(scope)).generate_turns(turns, scope.user_id)):
        said = build_record(Turn, id=given.pop("turn_id"), **given)
        name = f"019ca945-0a00-7fb4-a535-{n:012x}"  # as long as ids are
        where = (Conversation(id=said.conversation_id, started_at=said.timestamp),)
        yield Change(
            scope=scope,
            operation="store",
            operation_id=name,
            change_id=f"t{name[1:]}",
            upserts=(said,),
            inserts_if_absent=where,
        )
        if n % 3 == 0:
            claim = " ".join(said.content.split()[:9])
            fact = build_record(
                Fact, id=f"{scope.user_id}-{name}", claim=claim, claim_hash=name, source_turn_ids=(said.id,)
            )
            yield Change(
                scope=scope, operation="learn_fact", operation_id=name, change_id=f"f{name[1:]}", upserts=(fact,)
            )


def hash_of(scope: Scope) -> int:
    """A seed of the user's own."""
    return int(scope.user_id.removeprefix("user"))


def found(entries: Sequence[JournalEntry], dimensions: int) -> list[VectorRow]:
    """The passages of what these entries put."""
    out = []
    for stored in (stored for entry in entries for stored in entry.upserts):
        for piece in chunk_text(stored.record.search_text()):
            vector = RANDOM.standard_normal(dimensions).astype(np.float16)
            granularity = WHOLE if piece.granularity == "whole" else SENTENCE
            out.append(
                VectorRow(
                    stored.ordinal,
                    stored.record.kind,
                    "_global",
                    granularity,
                    piece.part,
                    (piece.start, piece.end),
                    vector,
                )
            )
    return out


async def fill(log: PostgresLog, index: PostgresVectors, graph: Neo4jGraph, turns: int, dimensions: int) -> int:
    """Write to all stores; returns how many memories, that is turns and facts, there are."""
    auditor, memories = Auditor(load_settings(home=Path(tempfile.mkdtemp()), embedder="hash")), 0
    for user in range(USERS):
        scope, after = Scope(f"user{user}"), 0
        source = written(scope, turns // USERS)
        while changes := list(islice(source, AT_ONCE)):
            entries = await log.append(changes)
            rows = [
                auditor.build_write_entry(
                    entry.operation,
                    scope,
                    memory_type="episodic",
                    operation_id=entry.operation_id,
                    count=1,
                    latency_ms=1.0,
                    metadata={"turns": 1},
                )
                for entry in entries
            ]
            await log.write_audit([row for row in rows if row is not None])
            await index.apply({scope.user_id: VectorBatch(after, entries[-1].seq, found(entries, dimensions))})
            await graph.apply({scope.user_id: (after, entries)})
            after, memories = entries[-1].seq, memories + len(entries)
    return memories


async def measure(turns: int, dimensions: int, postgres: LocalServer, neo4j: LocalServer) -> int:
    """Fill both servers and fold the words, as maintenance does."""
    await migrate(postgres.url, START)
    log = await open_log(postgres.url, SettableClock())
    index = await open_vectors(log.database, f"synthetic:random:{dimensions}", dimensions)
    async with (
        open_sqlite_log(Path(tempfile.mkdtemp()) / "unused.db") as unused,
        open_server_graph(neo4j.url, unused) as graph,
    ):
        memories = await fill(log, index, graph, turns, dimensions)
    await log.maintain(START, 365)
    await log.close()
    return memories


def on_disk(neo4j: LocalServer) -> int:
    """Bytes of the graph's files, of a server that was stopped, so that all is in them."""
    neo4j.stop()
    files = (neo4j.folder / "data/databases/neo4j").rglob("*")
    size: int = sum(file.stat().st_size for file in files if file.is_file())
    neo4j.start()
    return size


def main() -> None:
    """Print bytes per memory, by table."""
    turns, dimensions = (int(n) for n in [*sys.argv[1:], *("20000", "384")[len(sys.argv) - 1 :]])
    with Postgres() as postgres, Neo4j() as neo4j:
        before = on_disk(neo4j)
        memories = asyncio.run(measure(turns, dimensions, postgres, neo4j))
        print(f"{turns} turns and {memories - turns} facts; bytes per memory")
        with psycopg.connect(postgres.url, autocommit=True) as owner:
            owner.execute("VACUUM ANALYZE")
            for name, rows, indexes, total in owner.execute(SIZES):
                print(f"{name:24}{rows / memories:8.0f} rows {indexes / memories:8.0f} indexes {total / memories:8.0f}")
            ((vectors,),) = owner.execute(f"SELECT count(*) FROM passages_{dimensions}").fetchall()
        print(f"{vectors / memories:.2f} vectors; graph {(on_disk(neo4j) - before) / memories:.0f}")


if __name__ == "__main__":
    main()
