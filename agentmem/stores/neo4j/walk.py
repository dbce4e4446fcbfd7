"""Walks over the graph, one hop a statement, in one read transaction."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from agentmem.errors import InvalidRecord
from agentmem.model.edges import EdgeTriple
from agentmem.model.records import Edge, EdgeKind, Key
from agentmem.model.scope import Scope
from agentmem.stores import Neighbor
from agentmem.stores.neo4j.connection import Transaction, fetch_rows
from agentmem.stores.neo4j.shape import build_edge, node_key, parse_node_key
from agentmem.stores.neo4j.statements import graph_query


class _RelationshipStep(NamedTuple):
    """A relationship that was met: its type and ends, and the server's name for it."""

    link: EdgeTriple
    element_id: str


class Neo4jWalk:
    """What a walk may see: a scope's channels, some kinds of edges, what is visible after `now`, so many of a kind."""

    def __init__(self, scope: Scope, kinds: Collection[str] | None, now: int, limit: int) -> None:
        unknown = set(kinds or ()) - set(EdgeKind)
        if unknown:
            raise InvalidRecord(f"kinds must be edge kinds, got {', '.join(sorted(unknown))}", field="kinds")
        self.kinds = [kind for kind in EdgeKind if kinds is None or kind in kinds]
        self.limit = limit
        self.user_id = scope.user_id
        self._visibility = {
            "user_id": scope.user_id,
            "channels": list(scope.readable_channels()),
            "now": now,
            "cap": max(limit, 0),
        }

    async def neighbors(self, tx: Transaction, keys: Sequence[Key], depth: int) -> list[Neighbor]:
        """Records within `depth` steps, nearest first, then by id; of a hop, no more than the limit leaves."""
        frontier = list(dict.fromkeys(keys))
        seen = set(frontier)
        reached: list[tuple[Key, int, _RelationshipStep]] = []
        for distance in range(1, depth + 1):
            room = self.limit - len(reached)
            if not frontier or room <= 0:
                break
            found: dict[Key, _RelationshipStep] = {}
            for key, step in await self._hop(tx, frontier):
                if key not in seen:
                    found.setdefault(key, step)
            frontier = sorted(found, key=lambda key: (key[1], key[0]))[:room]
            reached += [(key, distance, found[key]) for key in frontier]
            seen.update(frontier)
        edges = await self._describe_edges(tx, [step for _, _, step in reached])
        return [Neighbor(key, distance, edges[step]) for key, distance, step in reached if step in edges]

    async def edges(self, tx: Transaction, keys: Sequence[Key]) -> list[Edge]:
        """The edges at these records, by kind, source, target and id."""
        steps = dict.fromkeys(step for _, step in await self._hop(tx, list(dict.fromkeys(keys))))
        found = (await self._describe_edges(tx, list(steps))).values()
        return sorted(found, key=lambda edge: (edge.edge_kind, edge.source, edge.target, edge.id))[: self.limit]

    async def _hop(self, tx: Transaction, frontier: Sequence[Key]) -> list[tuple[Key, _RelationshipStep]]:
        """Neighbours of the frontier: in its order, then by kind of edge, edges that go out first."""
        if not (frontier and self.kinds):
            return []
        names = [node_key(key) for key in frontier]
        groups = 2 * len(frontier) * len(self.kinds)
        text = graph_query("hop", tuple(self.kinds))
        ((found,),) = await fetch_rows(tx, text, frontier=names, groups=groups, **self._visibility)
        order = {str(kind): place for place, kind in enumerate(self.kinds)}
        found.sort(key=lambda row: (row[0], order[row[1]], not row[2]))
        return list(_iter_steps(frontier, found))

    async def _describe_edges(
        self, tx: Transaction, steps: Sequence[_RelationshipStep]
    ) -> dict[_RelationshipStep, Edge]:
        """The edges of these steps; what went meanwhile is left out."""
        if not steps:
            return {}
        asked = [
            {"edge": step.element_id, "source": node_key(step.link[1]), "target": node_key(step.link[2])}
            for step in steps
        ]
        ((found,),) = await fetch_rows(tx, graph_query("describe"), user_id=self.user_id, steps=asked, count=len(asked))
        properties = {(name, kind): values for name, kind, values in found}
        there = [(step, properties.get((step.element_id, str(step.link[0])))) for step in steps]
        return {step: build_edge(self.user_id, step.link, values) for step, values in there if values is not None}


def _iter_steps(frontier: Sequence[Key], rows: Iterable[Sequence[Any]]) -> Iterator[tuple[Key, _RelationshipStep]]:
    for place, kind, outward, keys, names in rows:
        here = frontier[place]
        for other, name in zip(map(parse_node_key, keys), names, strict=True):
            yield (
                other,
                _RelationshipStep((EdgeKind(kind), here, other) if outward else (EdgeKind(kind), other, here), name),
            )
