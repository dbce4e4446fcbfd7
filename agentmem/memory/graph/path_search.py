"""Shortest simple paths between two records: breadth-first from both ends, within fixed bounds."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from agentmem.core.record import Key
from agentmem.core.records import Edge
from agentmem.core.scope import Scope
from agentmem.memory.graph.edge_reader import find_ends, iter_edges
from agentmem.stores.protocols import GraphStore

MAX_VISITED = 5_000  # records that one search looks at
MAX_PARTIAL_PATHS = 50_000  # beginnings of paths that one search puts together

KeyPath = tuple[Key, ...]


@dataclass
class PathSearch:
    """One search between two records. `is_cut` says that a bound ended it, so that paths may be missing.

    A path never goes through the User, who is tied to most of what is known.
    """

    graph: GraphStore
    scope: Scope
    kinds: Collection[str]
    is_cut: bool = False
    _links: dict[Key, dict[Key, dict[str, Edge]]] = field(default_factory=dict)

    async def find(self, start: Key, goal: Key, max_steps: int, limit: int) -> list[KeyPath]:
        """Up to `limit` paths of at most `max_steps` edges, the shortest first, then by the keys of their records."""
        self._links = {start: {}, goal: {}}
        seen = ({start}, {goal})
        frontiers = [[start], [goal]]
        found: list[KeyPath] = []
        for known_steps in range(1, max_steps + 1):
            side = 0 if len(frontiers[0]) <= len(frontiers[1]) else 1
            frontiers[side] = await self._expand(frontiers[side], seen[side], stop=(goal, start)[side])
            is_exhausted = self.is_cut or not frontiers[side]
            # One edge more is known from either end, so that every path of this length is.
            found = self._list_paths(start, goal, max_steps if is_exhausted else known_steps, limit)
            if is_exhausted or len(found) >= limit:
                break
        return found

    def get_edges(self, one: Key, other: Key) -> list[Edge]:
        """The edges between two records that follow each other on a path, by kind and id."""
        return sorted(self._links[one][other].values(), key=lambda edge: (edge.edge_kind, edge.id))

    async def _expand(self, frontier: Sequence[Key], seen: set[Key], stop: Key) -> list[Key]:
        """Read the edges of records; returns the records reached for the first time from this end."""
        reached: dict[Key, None] = {}
        async for page in iter_edges(self.graph, self.scope, frontier, self.kinds):
            self.is_cut = self.is_cut or page.is_cut
            for edge in page.edges:
                source, target = find_ends(edge)
                if self._link(source, target, edge):
                    reached |= dict.fromkeys(key for key in (source, target) if key not in seen)
        seen.update(reached)
        return [key for key in reached if key != stop and key[0] != "User"]

    def _link(self, source: Key, target: Key, edge: Edge) -> bool:
        """Note an edge; False where one of its ends would be a record too many."""
        new = {source, target} - self._links.keys()
        if len(self._links) + len(new) > MAX_VISITED:
            self.is_cut = True
            return False
        for one, other in ((source, target), (target, source)):
            self._links.setdefault(one, {}).setdefault(other, {})[edge.id] = edge
        return True

    def _list_paths(self, start: Key, goal: Key, max_steps: int, limit: int) -> list[KeyPath]:
        """Paths in what was read, by best-first search: each beginning is led by how far it is from the goal."""
        distances = self._measure_distances(goal, start)
        if start not in distances:
            return []
        found: list[KeyPath] = []
        waiting: list[tuple[int, KeyPath]] = [(distances[start], (start,))]
        made = 1
        while waiting and len(found) < limit:
            _, path = heapq.heappop(waiting)
            if path[-1] == goal:
                found.append(path)
                continue
            for key in self._links[path[-1]]:
                length = len(path) + distances.get(key, max_steps)
                if length > max_steps or key in path:
                    continue
                if made >= MAX_PARTIAL_PATHS:
                    self.is_cut = True
                    return found
                heapq.heappush(waiting, (length, (*path, key)))
                made += 1
        return found

    def _measure_distances(self, goal: Key, start: Key) -> dict[Key, int]:
        """Steps to the goal in what was read, through nothing that a path may not go through."""
        distances = {goal: 0}
        frontier = [goal]
        while frontier:
            reached = {key for each in frontier for key in self._links[each] if key not in distances}
            distances |= dict.fromkeys(reached, distances[frontier[0]] + 1)
            frontier = [key for key in reached if key[0] != "User" and key != start]
        # The User counts as an end alone.
        return {key: steps for key, steps in distances.items() if key[0] != "User" or key in (start, goal)}
