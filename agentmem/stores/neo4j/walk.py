"""Walks over the graph, one hop a statement, in one read transaction."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from agentmem.errors import InvalidRecord
from agentmem.model.edges import Link
from agentmem.model.records import Edge, EdgeKind, Key
from agentmem.model.scope import Scope
from agentmem.stores import Neighbour
from agentmem.stores.neo4j.connection import Transaction, rows
from agentmem.stores.neo4j.shape import edge, key_of, name_of
from agentmem.stores.neo4j.statements import walking


class _Step(NamedTuple):
    """A relationship that was met: its type and ends, and the server's name for it."""

    link: Link
    name: str


class Walk:
    """What a walk may see: a scope's channels, some kinds of edges, what is visible after `now`, so many of a kind."""

    def __init__(self, scope: Scope, kinds: Collection[str] | None, now: int, limit: int) -> None:
        unknown = set(kinds or ()) - set(EdgeKind)
        if unknown:
            raise InvalidRecord(f"kinds must be edge kinds, got {', '.join(sorted(unknown))}", field="kinds")
        self.kinds = [kind for kind in EdgeKind if kinds is None or kind in kinds]
        self.limit = limit
        self.user_id = scope.user_id
        self._seen = {"user_id": scope.user_id, "channels": list(scope.readable()), "now": now, "cap": max(limit, 0)}

    async def neighbours(self, tx: Transaction, keys: Sequence[Key], depth: int) -> list[Neighbour]:
        """Records within `depth` steps, nearest first, then by id; of a hop, no more than the limit leaves."""
        frontier = list(dict.fromkeys(keys))
        seen = set(frontier)
        reached: list[tuple[Key, int, _Step]] = []
        for distance in range(1, depth + 1):
            room = self.limit - len(reached)
            if not frontier or room <= 0:
                break
            found: dict[Key, _Step] = {}
            for key, step in await self._hop(tx, frontier):
                if key not in seen:
                    found.setdefault(key, step)
            frontier = sorted(found, key=lambda key: (key[1], key[0]))[:room]
            reached += [(key, distance, found[key]) for key in frontier]
            seen.update(frontier)
        edges = await self._described(tx, [step for _, _, step in reached])
        return [Neighbour(key, distance, edges[step]) for key, distance, step in reached if step in edges]

    async def edges(self, tx: Transaction, keys: Sequence[Key]) -> list[Edge]:
        """The edges at these records, by kind, source, target and id."""
        steps = dict.fromkeys(step for _, step in await self._hop(tx, list(dict.fromkeys(keys))))
        found = (await self._described(tx, list(steps))).values()
        return sorted(found, key=lambda edge: (edge.edge_kind, edge.source, edge.target, edge.id))[: self.limit]

    async def _hop(self, tx: Transaction, frontier: Sequence[Key]) -> list[tuple[Key, _Step]]:
        """Neighbours of the frontier: in its order, then by kind of edge, edges that go out first."""
        if not (frontier and self.kinds):
            return []
        names = [name_of(key) for key in frontier]
        groups = 2 * len(frontier) * len(self.kinds)
        text = walking("hop", tuple(self.kinds))
        ((found,),) = await rows(tx, text, frontier=names, groups=groups, **self._seen)
        order = {str(kind): place for place, kind in enumerate(self.kinds)}
        found.sort(key=lambda row: (row[0], order[row[1]], not row[2]))
        return list(_met(frontier, found))

    async def _described(self, tx: Transaction, steps: Sequence[_Step]) -> dict[_Step, Edge]:
        """The edges of these steps; what went meanwhile is left out."""
        if not steps:
            return {}
        asked = [
            {"edge": step.name, "source": name_of(step.link[1]), "target": name_of(step.link[2])} for step in steps
        ]
        ((found,),) = await rows(tx, walking("describe"), user_id=self.user_id, steps=asked, count=len(asked))
        properties = {(name, kind): values for name, kind, values in found}
        there = [(step, properties.get((step.name, str(step.link[0])))) for step in steps]
        return {step: edge(self.user_id, step.link, values) for step, values in there if values is not None}


def _met(frontier: Sequence[Key], found: Iterable[Sequence[Any]]) -> Iterator[tuple[Key, _Step]]:
    for place, kind, outward, keys, names in found:
        here = frontier[place]
        for other, name in zip(map(key_of, keys), names, strict=True):
            yield other, _Step((EdgeKind(kind), here, other) if outward else (EdgeKind(kind), other, here), name)
