"""Questions to the graph of what is known: who is near, how two are tied, who belongs together, who matters.

They read the log's own links, as everything else does, so they need no graph database.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Annotated, Any

from agentmem.beliefs.slots import USER_SUBJECT
from agentmem.core.arguments import check_arguments
from agentmem.core.plain_values import copy_json, describe_value
from agentmem.core.record import Key, Record, Status
from agentmem.core.records import PROFILE_ID, RELATION_KINDS, Edge, EdgeKind, Entity
from agentmem.errors import InvalidRecord, NotFound
from agentmem.memory.context import ID_BATCH_SIZE, MemoryContext
from agentmem.memory.graph.analysis import MENTION_KINDS, read_network
from agentmem.memory.graph.community_records import read_current_communities
from agentmem.memory.graph.edge_reader import find_ends
from agentmem.memory.graph.path_search import MAX_VISITED, KeyPath, PathSearch
from agentmem.memory.read_audit import audit_read
from agentmem.memory.semantic.entities import Entities, EntityGraph, resolve_merged_ids

MAX_STEPS = 6  # of a path; beyond it, nearly everything is tied to everything
MAX_PATHS = 50  # of one answer
MAX_LISTED = 1_000  # communities, members of each, or entities of one answer
MAX_ROWS = 10_000  # of one answer to a query
MAX_NAMED_CHOICES = 5  # entities that an error about an ambiguous name lists


@dataclass(frozen=True, slots=True)
class PathStep:
    """The edges between two records of a path, with both times, and the facts and turns that they rest on."""

    edges: tuple[Edge, ...]
    rests_on: tuple[Record, ...]


@dataclass(frozen=True, slots=True)
class GraphPath:
    """One path: its records in order, and a step between each two of them."""

    records: tuple[Record, ...]
    steps: tuple[PathStep, ...]


@dataclass(frozen=True, slots=True)
class GraphPaths:
    """Paths between two entities, the shortest first. `notices` say in what the search falls short."""

    paths: tuple[GraphPath, ...]
    notices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EntityGroup:
    """Entities that hang together, the most central first; `size` counts all of them."""

    size: int
    entities: tuple[Entity, ...]


@dataclass(frozen=True, slots=True)
class Communities:
    """Groups of entities, the largest first. `notices` say what was left out of the analysis."""

    communities: tuple[EntityGroup, ...]
    notices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CentralEntity:
    """An entity and its share of the centrality of all (PageRank)."""

    entity: Entity
    score: float


@dataclass(frozen=True, slots=True)
class CentralEntities:
    """Entities, the most central first. `notices` say what was left out of the analysis."""

    entities: tuple[CentralEntity, ...]
    notices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CypherResult:
    """The rows of a query, by column: nodes and relationships as dictionaries. `notices` say what may be missing."""

    columns: tuple[str, ...]
    rows: tuple[dict[str, Any], ...]
    notices: tuple[str, ...] = ()


@check_arguments
@dataclass
class KnowledgeGraph:
    """Questions to the graph of what is known. They see what the scope may read, and nothing forgotten or over."""

    _context: MemoryContext

    @audit_read
    async def neighborhood(
        self,
        entity: Annotated[str, "Id, name or alias of an entity."],
        depth: Annotated[int, "1 to 3 steps."] = 1,
        *,
        limit: int = 50,
    ) -> EntityGraph:
        """Entities and facts around an entity, nearest first, with the relations between these and to the user.

        NotFound for an unknown entity; InvalidRecord for a name that several have, with their ids.
        """
        _, found = await self._find_entity("entity", entity)
        near = await self._entities().get_entity_graph([found], depth, limit=limit)
        shown = {("User", PROFILE_ID), *(entity.key for entity in near.entities)}
        return replace(near, edges=tuple(edge for edge in near.edges if shown.issuperset(find_ends(edge))))

    @audit_read
    async def paths(
        self,
        a: Annotated[str, "Id, name or alias of an entity; user for the user."],
        b: Annotated[str, "Id, name or alias of another entity; user for the user."],
        max_steps: Annotated[int, "How many edges a path may have: 1 to 6."] = 4,
        *,
        limit: Annotated[int, "1 to 50."] = 5,
        kinds: Annotated[Sequence[str] | None, "Only edges of these kinds, such as WORKS_FOR or MENTIONS."] = None,
    ) -> GraphPaths:
        """The shortest paths between two entities, each with what its edges rest on.

        They go over relations; where none tie the two, also over turns and facts that name both, or others between.
        """
        _check_range("max_steps", max_steps, 1, MAX_STEPS)
        _check_range("limit", limit, 1, MAX_PATHS)
        start, goal = await self._find_end("a", a), await self._find_end("b", b)
        if start == goal:
            raise InvalidRecord("b must name another entity than a; for what is near one use neighborhood", field="b")
        searches: list[Collection[str]] = [RELATION_KINDS, RELATION_KINDS | MENTION_KINDS]
        notices: tuple[str, ...] = ()
        for asked in searches if kinds is None else [kinds]:
            search = PathSearch(self._context.engine.graph, self._context.scope, asked)
            if found := await search.find(start, goal, max_steps, limit):
                notices = _tell_bound(search)
                return GraphPaths(await self._describe_paths(search, found), notices)
            notices = _tell_bound(search)
        return GraphPaths((), notices)

    @audit_read
    async def communities(
        self,
        min_size: Annotated[int, "Entities that a community has at least: 2 or more."] = 2,
        *,
        limit: Annotated[int, "How many communities."] = 20,
        members: Annotated[int, "How many entities of each."] = 100,
    ) -> Communities:
        """Groups of entities that relations, turns and facts tie more to each other than to the rest.

        Read as the job `communities` stored them where nothing changed since, else computed: that needs the extra
        `graph-analysis` (NetworkX), ConfigError without it. The same records give the same groups.
        """
        _check_range("min_size", min_size, 2, None)
        _check_range("limit", limit, 1, MAX_LISTED)
        _check_range("members", members, 1, MAX_LISTED)
        notices: tuple[str, ...] = ()
        groups = await read_current_communities(self._context)
        if groups is None:
            network = await read_network(self._context)
            groups = await asyncio.to_thread(network.group)
            notices = network.notices
        large = [list(group) for group in groups if len(group) >= min_size][:limit]
        known = await self._read_entities(name for group in large for name in group[:members])
        found = [
            EntityGroup(len(group), tuple(known[name] for name in group[:members] if name in known)) for group in large
        ]
        return Communities(tuple(found), notices)

    @audit_read
    async def central_entities(self, *, limit: Annotated[int, "1 to 1,000."] = 20) -> CentralEntities:
        """The entities that relations, turns and facts tie most to others, by PageRank."""
        _check_range("limit", limit, 1, MAX_LISTED)
        notices: tuple[str, ...] = ()
        groups = await read_current_communities(self._context)
        scores = {name: score for group in groups or () for name, score in group.items()}
        if groups is None:
            network = await read_network(self._context)
            ranks = await asyncio.to_thread(network.rank) if network.ids else ()
            scores, notices = dict(zip(network.ids, map(float, ranks), strict=True)), network.notices
        best = sorted(scores, key=lambda name: (-scores[name], name))[:limit]
        known = await self._read_entities(best)
        found = [CentralEntity(known[name], scores[name]) for name in best if name in known]
        return CentralEntities(tuple(found), notices)

    @audit_read
    async def cypher(
        self,
        query: Annotated[str, "Reading Cypher: MATCH, WHERE, WITH, UNWIND, RETURN."],
        parameters: Annotated[Mapping[str, Any] | None, "Values for the names after $ in the query."] = None,
        *,
        limit: Annotated[int, "The most rows: 1 to 10,000."] = 1_000,
    ) -> CypherResult:
        """Ask the graph on Neo4j a query over what the scope may read: docs/ask-the-graph.md says what is there.

        The system binds the user and the channels; nothing else of the server can be read, and nothing written.
        InvalidRecord for another kind of query and without `graph_url`, StoreUnavailable where Neo4j does not answer in
        10 seconds.
        """
        _check_range("limit", limit, 1, MAX_ROWS)
        engine, scope = self._context.engine, self._context.scope
        if engine.graph_projection is None:
            said = "this memory has no graph on Neo4j: set graph_url. The other questions to the graph work without it"
            raise InvalidRecord(f"query: {said}", field="query")
        if parameters is not None and not isinstance(parameters, Mapping):
            raise InvalidRecord(f"parameters must be a mapping, got {describe_value(parameters)}", field="parameters")
        given = copy_json(dict(parameters or {}), "parameters")
        missing = (await engine.log.head(scope)).seq - await engine.graph_projection.watermark(scope.user_id)
        found = await engine.graph_projection.graph.ask(query, scope, given, limit)
        notices = [f"There are more than {limit:,} rows; raise limit or narrow the query."] if found.is_cut else []
        notices += [f"Neo4j is {missing:,} changes behind; what came last may be missing."] if missing > 0 else []
        return CypherResult(found.columns, found.rows, tuple(notices))

    # -- finding records

    def _entities(self) -> Entities:
        return Entities(replace(self._context, is_facade=False))  # the verb that asks leaves the audit row

    async def _find_end(self, field: str, named: str) -> Key:
        try:
            return await self._find_entity(field, named)
        except NotFound:
            if named.casefold() != USER_SUBJECT:
                raise
            return "User", PROFILE_ID

    async def _find_entity(self, field: str, named: str) -> Key:
        """The entity of an id or a name that the scope can read."""
        (stored,) = await resolve_merged_ids(self._context, await self._context.resolve_ids("Entity", [named]))
        if await self._read_current([("Entity", stored)]):
            return "Entity", stored
        found = await self._entities().entities(named) if named.strip() else []
        if not found:
            raise NotFound(
                f"{field}: no entity has the id, name or alias {describe_value(named)}; semantic.entities() lists them"
            )
        if len(found) > 1:
            choices = ", ".join(f"{each.id} ({each.type})" for each in found[:MAX_NAMED_CHOICES])
            more = ", …" if len(found) > MAX_NAMED_CHOICES else ""
            said = f"{len(found)} entities are named {describe_value(named)}; give the id of one: {choices}{more}"
            raise InvalidRecord(f"{field}: {said}", field=field)
        return found[0].key

    async def _describe_paths(self, search: PathSearch, found: Sequence[KeyPath]) -> tuple[GraphPath, ...]:
        """Paths with their records; one that has lost a record meanwhile is left out."""
        steps = {(one, other): search.get_edges(one, other) for path in found for one, other in pairwise(path)}
        grounds = {edge.id: _list_grounds(edge) for edges in steps.values() for edge in edges}
        wanted = [key for path in found for key in path] + [key for keys in grounds.values() for key in keys]
        known = await self._read_current(wanted)
        out = []
        for path in found:
            if not all(key in known for key in path):
                continue
            between = []
            for pair in pairwise(path):
                keys = dict.fromkeys(key for edge in steps[pair] for key in grounds[edge.id])
                between.append(PathStep(tuple(steps[pair]), tuple(known[key] for key in keys if key in known)))
            out.append(GraphPath(tuple(known[key] for key in path), tuple(between)))
        return tuple(out)

    async def _read_entities(self, ids: Iterable[str]) -> dict[str, Entity]:
        found = await self._read_current([("Entity", name) for name in ids])
        return {record.id: record for record in found.values() if isinstance(record, Entity)}

    async def _read_current(self, keys: Sequence[Key]) -> Mapping[Key, Record]:
        """Those of these records that the scope can read and that are neither retired nor archived."""
        log, scope = self._context.engine.log, self._context.scope
        readable, found = scope.readable_channels(), dict[Key, Record]()
        for kind in dict.fromkeys(key[0] for key in keys):
            ids = list(dict.fromkeys(key[1] for key in keys if key[0] == kind))
            for start in range(0, len(ids), ID_BATCH_SIZE):
                for record in await log.read_records(kind, ids[start : start + ID_BATCH_SIZE], scope):
                    if record.channel in readable and record.status in (Status.ACTIVE, Status.PROMOTED):
                        found[record.key] = record
        return found


def _list_grounds(edge: Edge) -> list[Key]:
    """What an edge rests on: the fact and the turns of a relation, or the turn or fact that names an entity."""
    if edge.edge_kind is EdgeKind.MENTIONS:
        return [("Turn", edge.source)]
    if edge.edge_kind is EdgeKind.ABOUT:
        return [("Fact", edge.source)]
    facts = [("Fact", edge.fact_id)] if edge.fact_id else []
    return [*facts, *(("Turn", turn) for turn in edge.source_turn_ids)]


def _tell_bound(search: PathSearch) -> tuple[str, ...]:
    if not search.is_cut:
        return ()
    return (f"The search ended at its bound of {MAX_VISITED:,} records; other or shorter paths may be missing.",)


def _check_range(field: str, value: int, least: int, most: int | None) -> None:
    if value < least or (most is not None and value > most):
        wanted = f"{least} or more" if most is None else f"{least} to {most:,}"
        raise InvalidRecord(f"{field} must be {wanted}, got {value}", field=field)
