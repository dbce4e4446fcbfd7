"""All edges at many records, read in small parts, and what each of them joins."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
from typing import NamedTuple

from agentmem.core.clock import derive_id
from agentmem.core.edges import edge_triple, structural_edge_id
from agentmem.core.record import Key
from agentmem.core.records import PROFILE_ID, Edge
from agentmem.core.scope import Scope
from agentmem.stores.protocols import GraphStore

BATCH_RECORDS = 25  # whose edges are read in one go: on a file, 100 took a quarter longer
BATCH_EDGES = 4_000  # of one go; a record with more shows this many


_ENTITY_OF_THAT_ID: Key = ("Entity", PROFILE_ID)
_USER: Key = ("User", PROFILE_ID)


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


def find_ends(edge: Edge) -> tuple[Key, Key]:
    """The records that an edge joins; the User where a fact of theirs states the edge.

    An edge holds ids alone, and an entity may have the User's. Only the id of the edge tells the two apart.
    """
    kind, *ends = edge_triple(edge)
    for place, key in enumerate(ends):
        if key == _ENTITY_OF_THAT_ID:
            theirs = [*ends[:place], _USER, *ends[place + 1 :]]
            stated = structural_edge_id((kind, theirs[0], theirs[1]))
            if edge.id in (stated, derive_id(stated, edge.fact_id or "")):
                return theirs[0], theirs[1]
    return ends[0], ends[1]


def describe_key(key: Key) -> str:
    """A record without a name in words."""
    return "the user" if key == _USER else f"{key[0].lower()} {key[1]}"
