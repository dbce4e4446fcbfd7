"""Which entities hang together, and which matter most: a weighted graph of a user's entities and two measures of it.

Two entities are tied by each relation between them (weight 1), and by each turn or fact that names both (1 / (n - 1)
where it names n entities, so that a list of many people ties each pair of them but little).
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentmem.core.record import Key, Status
from agentmem.core.records import RELATION_KINDS, EdgeKind
from agentmem.errors import ConfigError
from agentmem.memory.context import MemoryContext
from agentmem.memory.graph.edge_reader import find_ends, iter_edges
from agentmem.stores.values import Where

MAX_ENTITIES = 20_000  # that one analysis takes, those written last
MAX_MENTIONS = 500_000  # of these entities in turns and facts that one analysis takes
MAX_NAMED_TOGETHER = 30  # entities in one turn or fact; one that names more is a list, and ties nothing
DAMPING = 0.85  # of PageRank, as its authors have it
TOLERANCE = 1e-10  # a change of all scores below it ends PageRank
MAX_ROUNDS = 200  # of PageRank
SCORE_DIGITS = 12  # beyond them equal scores differ by the order of additions
LOUVAIN_SEED = 0  # so that the same graph always gives the same communities
MENTION_KINDS = frozenset({EdgeKind.MENTIONS, EdgeKind.ABOUT})

RankedIds = dict[str, float]
"""Ids of entities and their scores, the most central first."""


def import_networkx() -> Any:
    """NetworkX, which takes a while to load; ConfigError where it is not installed."""
    try:
        import networkx as nx
    except ImportError as error:
        raise ConfigError("communities need NetworkX: pip install 'agentmem-graph[graph-analysis]'") from error
    return nx


@dataclass
class EntityNetwork:
    """The linked entities of a user and the weights between them. `pairs` holds indexes into `ids`, smaller first."""

    ids: list[str]
    pairs: NDArray[np.int64]
    weights: NDArray[np.float64]
    notices: tuple[str, ...] = ()

    def rank(self) -> NDArray[np.float64]:
        """The PageRank of each entity; their sum is 1."""
        count = len(self.ids)
        source, target = np.concatenate([self.pairs, self.pairs[:, ::-1]]).T
        weights = np.concatenate([self.weights, self.weights])
        shares = weights / np.bincount(source, weights, count)[source]
        scores = np.full(count, 1 / count)
        for _ in range(MAX_ROUNDS):
            passed = np.bincount(target, scores[source] * shares, count)
            before, scores = scores, (1 - DAMPING) / count + DAMPING * passed
            if np.abs(scores - before).sum() < TOLERANCE:
                break
        return scores.round(SCORE_DIGITS)

    def group(self) -> list[RankedIds]:
        """Communities by the method of Louvain, the largest first; ConfigError without NetworkX."""
        if not self.ids:
            return []
        nx = import_networkx()
        graph = nx.Graph()
        graph.add_nodes_from(range(len(self.ids)))
        ends = (map(int, pair) for pair in self.pairs)
        graph.add_weighted_edges_from((*pair, float(weight)) for pair, weight in zip(ends, self.weights, strict=True))
        found = nx.community.louvain_communities(graph, weight="weight", seed=LOUVAIN_SEED)
        scores = self.rank().tolist()
        groups = sorted(map(sorted, found), key=lambda group: (-len(group), group))
        ordered = (sorted(group, key=lambda index: (-scores[index], index)) for group in groups)
        return [{self.ids[index]: scores[index] for index in group} for group in ordered]


async def read_network(context: MemoryContext) -> EntityNetwork:
    """The network of the entities that a scope can read."""
    ids, is_cut = await _list_entities(context)
    keys = [("Entity", name) for name in ids]
    ties = _Ties({key: index for index, key in enumerate(keys)})
    graph, scope = context.engine.graph, context.scope
    is_sampled = False
    async for page in iter_edges(graph, scope, keys, RELATION_KINDS | MENTION_KINDS):
        is_sampled = is_sampled or page.is_cut
        for edge in page.edges:
            source, target = find_ends(edge)
            if edge.edge_kind in RELATION_KINDS:
                ties.add_relation(edge.id, source, target)
            elif ties.mentions < MAX_MENTIONS:
                ties.add_mention(source, target)
            else:
                is_sampled = True
    notices = []
    if is_cut:
        notices.append(f"Of more than {MAX_ENTITIES:,} entities, those written last were taken.")
    if is_sampled:
        notices.append("Of entities that very many turns or facts name, only the latest of these were taken.")
    return await asyncio.to_thread(ties.build_network, ids, tuple(notices))


async def count_entities(context: MemoryContext) -> int:
    """How many entities a scope can read."""
    return await context.engine.log.count(context.scope, _select_entities(context))


def _select_entities(context: MemoryContext) -> Where:
    status = (Status.ACTIVE, Status.PROMOTED)
    return Where(kinds=("Entity",), channels=context.scope.readable_channels(), status=status)


async def _list_entities(context: MemoryContext) -> tuple[list[str], bool]:
    """The ids of the entities written last, in order of id, and whether there are more."""
    latest: list[tuple[int, str]] = []
    is_cut = False
    async for page in context.iter_pages(_select_entities(context)):
        latest = sorted([*latest, *((record.seq, record.id) for record in page)])
        is_cut = is_cut or len(latest) > MAX_ENTITIES
        latest = latest[-MAX_ENTITIES:]
    return sorted(name for _, name in latest), is_cut


@dataclass
class _Ties:
    """What ties entities, collected edge by edge."""

    indexes: Mapping[Key, int]
    mentions: int = 0
    _weights: dict[tuple[int, int], float] = field(default_factory=dict)
    _relations: set[str] = field(default_factory=set)
    _named: dict[Key, list[int]] = field(default_factory=dict)

    def add_relation(self, edge_id: str, source: Key, target: Key) -> None:
        """Count a relation once, unless one end is no entity of the network, such as the User."""
        one, other = self.indexes.get(source), self.indexes.get(target)
        if one is None or other is None or one == other or edge_id in self._relations:
            return
        self._relations.add(edge_id)
        self._add((one, other), 1.0)

    def add_mention(self, place: Key, named: Key) -> None:
        """Note that a turn or a fact names an entity."""
        index = self.indexes.get(named)
        if index is not None:
            self._named.setdefault(place, []).append(index)
            self.mentions += 1

    def build_network(self, ids: Sequence[str], notices: tuple[str, ...]) -> EntityNetwork:
        """The network of the entities that something ties."""
        for named in self._named.values():
            together = sorted(set(named))
            if 2 <= len(together) <= MAX_NAMED_TOGETHER:
                self._add_all(itertools.combinations(together, 2), 1 / (len(together) - 1))
        linked = sorted({index for pair in self._weights for index in pair})
        places = {index: place for place, index in enumerate(linked)}
        ordered = sorted(self._weights)
        pairs = np.array([(places[one], places[other]) for one, other in ordered], np.int64).reshape(-1, 2)
        weights = np.array([self._weights[pair] for pair in ordered], np.float64)
        return EntityNetwork([ids[index] for index in linked], pairs, weights, notices)

    def _add_all(self, pairs: Iterable[tuple[int, int]], weight: float) -> None:
        for pair in pairs:
            self._add(pair, weight)

    def _add(self, pair: tuple[int, int], weight: float) -> None:
        ordered = (min(pair), max(pair))
        self._weights[ordered] = self._weights.get(ordered, 0.0) + weight
