"""Reads Neo4j as the log's graph is read, so that tests can compare what both hold. The product asks the log."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from agentmem.core.clock import Clock, derive_id, from_micros, to_micros
from agentmem.core.edges import EdgeTriple, structural_edge_id
from agentmem.core.record import Key
from agentmem.core.records import Edge, EdgeKind, build_record
from agentmem.core.scope import Scope
from agentmem.errors import InvalidRecord
from agentmem.stores.neo4j import Neo4jGraph
from agentmem.stores.neo4j.database import Transaction, fetch_rows
from agentmem.stores.neo4j.write import HIDDEN, node_key, parse_node_key
from agentmem.stores.protocols import RecordReader, ReplicatedGraph
from agentmem.stores.values import Neighbor

# For each record of the frontier, type and direction, the newest visible neighbors, all in one row.
HOP = """
UNWIND range(0, size($frontier) - 1) AS place
MATCH (n:Record {user_id: $user_id, key: $frontier[place]})
USING INDEX SEEK n:Record(user_id, key)
WHERE n.channel IN $channels AND n.visible_until > $now
MATCH (n)-[r:KINDS]-(m)
WHERE m.user_id = $user_id AND m.channel IN $channels AND m.visible_until > $now
  AND r.channel IN $channels AND r.visible_until > $now
WITH place, type(r) AS kind, startNode(r) = n AS outward, m, r ORDER BY m.ordinal DESC, r.ordinal DESC
WITH place, kind, outward, collect(m.key)[..$cap] AS keys, collect(r)[..$cap] AS nearest
WITH place, kind, outward, keys, [r IN nearest | elementId(r)] AS names LIMIT $groups
RETURN collect([place, kind, outward, keys, names])
"""
# What is said of a relationship is in itself or, when it follows from a record's fields, in that record.
DESCRIBE = """
UNWIND $steps AS step
MATCH (a)-[r]->(b)
WHERE elementId(r) = step.edge AND r.user_id = $user_id AND a.key = step.source AND b.key = step.target
WITH step, r, CASE r.owner WHEN a.key THEN a WHEN b.key THEN b END AS owner LIMIT $count
RETURN collect([step.edge, type(r), CASE
  WHEN owner IS NULL
  THEN r {.*, recorded_at: r.recorded_at.epochSeconds * 1000000 + r.recorded_at.microsecond}
  ELSE owner {.channel, .seq, .operation_id,
              recorded_at: owner.recorded_at.epochSeconds * 1000000 + owner.recorded_at.microsecond}
END])
"""


class WalkedGraph(Neo4jGraph):
    """A Neo4jGraph with the reading verbs of a GraphStore."""

    async def neighbors(
        self, keys: Sequence[Key], scope: Scope, kinds: Collection[str] | None = None, depth: int = 2, limit: int = 50
    ) -> list[Neighbor]:
        """Records within `depth` steps, nearest first, then by record id; never one of `keys`.

        Of a record with more than `limit` neighbors over one kind of edge, those recorded last are looked at.
        """
        walk = Neo4jWalk(scope, kinds, to_micros(self._clock.now()), limit)
        return await self.database.read(lambda tx: walk.neighbors(tx, keys, depth))

    async def edges(
        self, keys: Sequence[Key], scope: Scope, kinds: Collection[str] | None = None, limit: int = 1000
    ) -> list[Edge]:
        """The edges at these records, by kind, source, target and id, those of structure made on the fly.

        Both ends are visible in the scope and not retired. Asked for SUPERSEDES alone, retired ends are shown too.
        """
        history = kinds is not None and set(kinds) == {EdgeKind.SUPERSEDES}
        walk = Neo4jWalk(scope, kinds, HIDDEN if history else to_micros(self._clock.now()), limit)
        return await self.database.read(lambda tx: walk.edges(tx, keys))


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
            nearest = sorted(found, key=lambda key: (key[1], key[0]))[:room]
            reached += [(key, distance, found[key]) for key in nearest]
            seen.update(nearest)
            frontier = [key for key in nearest if key[0] != "User"]
        edges = await self._describe_edges(tx, [step for _, _, step in reached])
        return [Neighbor(key, distance, edges[step]) for key, distance, step in reached if step in edges]

    async def edges(self, tx: Transaction, keys: Sequence[Key]) -> list[Edge]:
        """The edges at these records, by kind, source, target and id."""
        steps = dict.fromkeys(step for _, step in await self._hop(tx, list(dict.fromkeys(keys))))
        found = (await self._describe_edges(tx, list(steps))).values()
        return sorted(found, key=lambda edge: (edge.edge_kind, edge.source, edge.target, edge.id))[: self.limit]

    async def _hop(self, tx: Transaction, frontier: Sequence[Key]) -> list[tuple[Key, _RelationshipStep]]:
        """Neighbors of the frontier: in its order, then by kind of edge, edges that go out first."""
        if not (frontier and self.kinds):
            return []
        names = [node_key(key) for key in frontier]
        groups = 2 * len(frontier) * len(self.kinds)
        text = HOP.replace("KINDS", "|".join(self.kinds))
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
        ((found,),) = await fetch_rows(tx, DESCRIBE, user_id=self.user_id, steps=asked, count=len(asked))
        properties = {(name, kind): values for name, kind, values in found}
        there = [(step, properties.get((step.element_id, str(step.link[0])))) for step in steps]
        return {step: _build_edge(self.user_id, step.link, values) for step, values in there if values is not None}


def _iter_steps(frontier: Sequence[Key], rows: Iterable[Sequence[Any]]) -> Iterator[tuple[Key, _RelationshipStep]]:
    for place, kind, outward, keys, names in rows:
        here = frontier[place]
        for other, name in zip(map(parse_node_key, keys), names, strict=True):
            yield (
                other,
                _RelationshipStep((EdgeKind(kind), here, other) if outward else (EdgeKind(kind), other, here), name),
            )


def _build_edge(user_id: str, link: EdgeTriple, properties: Mapping[str, Any]) -> Edge:
    """The Edge record of a relationship; its `recorded_at` in microseconds."""
    kind, (_, source), (_, target) = link
    given = {name: _to_python(value) for name, value in properties.items() if name in Edge.model_fields}
    if given.get("recorded_at") is not None:
        given["recorded_at"] = from_micros(given["recorded_at"])
    if "id" not in given:
        given["id"] = structural_edge_id(link)
    elif "owner" in properties:
        given["id"] = derive_id(structural_edge_id(link), given["fact_id"])
    if "properties" in given:
        given["properties"] = json.loads(given["properties"])
    return build_record(Edge, **{**given, "user_id": user_id, "edge_kind": kind, "source": source, "target": target})


def _to_python(value: Any) -> Any:
    """The driver's own times as Python's."""
    return value.to_native() if hasattr(value, "to_native") else value


def walk_replica(replica: ReplicatedGraph, clock: Clock, records: RecordReader) -> WalkedGraph:
    """The graph that a memory's projection writes to, to be read."""
    assert isinstance(replica, Neo4jGraph)
    return WalkedGraph(replica.database, clock, records)
