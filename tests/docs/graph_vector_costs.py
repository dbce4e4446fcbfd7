"""`python -m tests.docs.graph_vector_costs [TURNS [DIMENSIONS]]`: the figures of docs/graph_vectors.md.

Ten users say that many synthetic turns, with random vectors. Each release of Neo4j is started anew.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from agentmem.core.records import Turn, build_record
from agentmem.core.scope import Scope
from agentmem.stores.neo4j import Neo4jGraph, Neo4jNodeVectors, create_indexes
from agentmem.stores.neo4j.database import fetch_rows
from agentmem.stores.sqlite import SqliteLog
from tests.benchmarks.synthetic import SyntheticConversations
from tests.conformance.graphs import open_server_graph
from tests.conformance.stores import open_sqlite_log, write_records
from tests.docs.sizes import on_disk
from tests.servers.neo4j import NEWER, Neo4j

USERS, AT_ONCE, TIMES = 10, 250, 50
PAGE = Path(__file__).resolve().parents[2] / "docs/graph_vectors.md"
RANDOM = np.random.default_rng(1)


async def write(log: SqliteLog, graph: Neo4jGraph, turns: int, dimensions: int) -> tuple[float, float]:
    """Write turns, then their vectors; seconds of each."""
    nodes, of_graph, of_vectors = Neo4jNodeVectors(graph.database), 0.0, 0.0
    for number in range(USERS):
        scope = Scope(f"user{number}")
        given = SyntheticConversations(number).generate_turns(turns // USERS, scope.user_id)
        said = [build_record(Turn, id=one.pop("turn_id"), **one) for one in given]
        for start in range(0, len(said), AT_ONCE):
            await write_records(log, scope, *said[start : start + AT_ONCE])
            seq = start // AT_ONCE + 1
            (entry,) = await log.changes(scope, seq - 1, 1)
            vectors = RANDOM.standard_normal((len(entry.upserts), dimensions)).astype(np.float16)
            held = {stored.record.key: (stored.ordinal, vectors[n]) for n, stored in enumerate(entry.upserts)}
            began = perf_counter()
            await graph.apply({scope.user_id: (seq - 1, [entry])})
            between = perf_counter()
            assert await nodes.write(scope, "graph_vectors/random", seq - 1, seq, held)
            of_graph, of_vectors = of_graph + between - began, of_vectors + perf_counter() - between
    return of_graph, of_vectors


async def median(ask: Callable[[], Awaitable[Any]]) -> float:
    """The median of some calls, in milliseconds."""
    took = []
    for _ in range(TIMES):
        began = perf_counter()
        await ask()
        took.append(perf_counter() - began)
    return statistics.median(took) * 1000


async def measure(url: str, turns: int, dimensions: int, indexed: str) -> str:
    """One line of what it costs: without an index, with one, or with one that can filter."""
    async with open_sqlite_log(Path(tempfile.mkdtemp()) / "log.db") as log, open_server_graph(url, log) as graph:
        if indexed:
            await create_indexes(url, dimensions)
        of_graph, of_vectors = await write(log, graph, turns, dimensions)
        exact, filtered, _ = [block.split("```")[0] for block in PAGE.read_text().split("```cypher\n")[1:]]
        vector = RANDOM.standard_normal(dimensions).tolist()
        values = {"user_id": "user1", "vector": vector, "channels": ["_global"], "now": 0, "k": 10}

        def ask(text: str) -> Callable[[], Awaitable[Any]]:
            return lambda: graph.database.read(lambda tx: fetch_rows(tx, text, **values))

        times = [f"exact {await median(ask(exact)):.1f} ms"]
        if indexed == "filtered":
            times.append(f"SEARCH {await median(ask(filtered)):.1f} ms")
    return f"graph {turns / of_graph:.0f} nodes a second, {turns / of_vectors:.0f} vectors a second, {', '.join(times)}"


def main() -> None:
    """Print a line for each release, without and with indexes."""
    turns, dimensions = (int(n) for n in [*sys.argv[1:], *("5000", "384")[len(sys.argv) - 1 :]])
    for release, kinds in ((None, ("", "plain")), (NEWER, ("", "filtered"))):
        for indexed in kinds:
            with Neo4j(release) as server:
                before = on_disk(server)
                line = asyncio.run(measure(server.url, turns, dimensions, indexed))
                size = (on_disk(server) - before) / turns
                print(f"{release or '5.26'}, {indexed or 'no'} index: {line}, {size:,.0f} bytes a node", flush=True)


if __name__ == "__main__":
    main()
