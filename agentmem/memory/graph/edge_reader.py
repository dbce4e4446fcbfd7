"""All edges at many records, read in small parts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
from typing import NamedTuple

from agentmem.core.record import Key
from agentmem.core.records import Edge
from agentmem.core.scope import Scope
from agentmem.stores.protocols import GraphStore

BATCH_RECORDS = 25  # whose edges are read in one go: on a file, 100 took a quarter longer
BATCH_EDGES = 4_000  # of one go; a record with more shows this many


class EdgePage(NamedTuple):
    """The edges at some records. `is_cut` says that a record has more of them."""

    edges: list[Edge]
    is_cut: bool


async def iter_edges(
    graph: GraphStore, scope: Scope, keys: Sequence[Key], kinds: Collection[str]
) -> AsyncIterator[EdgePage]:
    """The edges of these kinds at these records, as the scope sees them. One between two of them may come twice."""
    waiting = [keys[start : start + BATCH_RECORDS] for start in range(0, len(keys), BATCH_RECORDS)][::-1]
    while waiting:
        batch = waiting.pop()
        edges = await graph.edges(batch, scope, kinds, BATCH_EDGES)
        is_full = len(edges) >= BATCH_EDGES
        if is_full and len(batch) > 1:
            middle = len(batch) // 2
            waiting += [batch[middle:], batch[:middle]]
        else:
            yield EdgePage(edges, is_full)
