"""Four tools over the graph of what is known: around an entity, between two, groups, and who matters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from pydantic import BaseModel, Field

from agentmem.core.jsonable import to_jsonable
from agentmem.core.record import Key
from agentmem.core.records import Edge, Entity
from agentmem.facade.async_memory import AsyncAgentMemory
from agentmem.memory.graph.edge_reader import describe_key, find_ends
from agentmem.server.mcp.records import FoundRecord, describe_record
from agentmem.server.mcp.tools import tool
from agentmem.text.plain_line import to_plain_line

MAX_MEMBERS = 10  # entities of a community that a model is told


class FoundRelation(BaseModel):
    """A relation between two entities."""

    source: str
    relation: str
    target: str
    since: str = Field("", description="When it began, where that is known.")


class NeighborhoodResult(BaseModel):
    """Nearest first."""

    entities: list[FoundRecord]
    facts: list[FoundRecord]
    relations: list[FoundRelation]


@tool("Explore an entity", is_read_only=True)
async def explore_entity(
    memory: AsyncAgentMemory,
    entity: Annotated[str, "Its name, or its id from a search."],
    depth: Annotated[int, "Steps, 1 to 3."] = 1,
    limit: Annotated[int, "How many records at most."] = 30,
) -> NeighborhoodResult:
    """List what is tied to a person, place or thing: entities, facts and relations. Example: {"entity": "Mira"}"""
    near = await memory.graph.neighborhood(entity, depth, limit=limit)
    names = {each.key: each.name for each in near.entities}
    return NeighborhoodResult(
        entities=[describe_record(each) for each in near.entities],
        facts=[describe_record(each) for each in near.facts],
        relations=_describe_relations(near.edges, names),
    )


class FoundPath(BaseModel):
    """Records in order, and the relations between them."""

    records: list[FoundRecord]
    relations: list[FoundRelation]
    rests_on: list[FoundRecord] = Field(description="Facts and turns that say so.")


class PathsResult(BaseModel):
    """The shortest first; empty when nothing ties the two."""

    paths: list[FoundPath]
    notices: list[str] = []


@tool("Find paths", is_read_only=True)
async def find_paths(
    memory: AsyncAgentMemory,
    a: Annotated[str, "Name or id of an entity; user for the user."],
    b: Annotated[str, "Name or id of another one; user for the user."],
    limit: Annotated[int, "How many paths, 1 to 50."] = 3,
) -> PathsResult:
    """Find how two people, places or things are tied, over relations or what names both, with what says so.
    Example: {"a": "Mira", "b": "Oslo"}
    """
    found = await memory.graph.paths(a, b, limit=limit)
    paths = []
    for path in found.paths:
        names = {each.key: each.name for each in path.records if isinstance(each, Entity)}
        grounds = {each.key: each for step in path.steps for each in step.rests_on}
        edges = [edge for step in path.steps for edge in step.edges]
        paths.append(
            FoundPath(
                records=[describe_record(each) for each in path.records],
                relations=_describe_relations(edges, names),
                rests_on=[describe_record(each) for each in grounds.values() if each not in path.records],
            )
        )
    return PathsResult(paths=paths, notices=list(found.notices))


class FoundCommunity(BaseModel):
    """Some that belong together, the most central first."""

    size: int
    entities: list[FoundRecord]


class CommunitiesResult(BaseModel):
    """The largest first."""

    communities: list[FoundCommunity]
    notices: list[str] = []


@tool("List communities", is_read_only=True)
async def list_communities(
    memory: AsyncAgentMemory,
    min_size: Annotated[int, "How many entities one has at least, 2 or more."] = 2,
    limit: Annotated[int, "How many communities."] = 10,
) -> CommunitiesResult:
    """List groups of people, places and things that are tied more to each other than to the rest."""
    found = await memory.graph.communities(min_size, limit=limit, members=MAX_MEMBERS)
    groups = [
        FoundCommunity(size=group.size, entities=[describe_record(each) for each in group.entities])
        for group in found.communities
    ]
    return CommunitiesResult(communities=groups, notices=list(found.notices))


class CentralEntitiesResult(BaseModel):
    """The most central first."""

    entities: list[FoundRecord]
    notices: list[str] = []


@tool("List central entities", is_read_only=True)
async def list_central_entities(
    memory: AsyncAgentMemory, limit: Annotated[int, "How many."] = 10
) -> CentralEntitiesResult:
    """List the people, places and things that are tied most to others: what the user's memory is about."""
    found = await memory.graph.central_entities(limit=limit)
    shown = [describe_record(each.entity) for each in found.entities]
    return CentralEntitiesResult(entities=shown, notices=list(found.notices))


class CypherRows(BaseModel):
    """The rows of a query, by column."""

    columns: list[str]
    rows: list[dict[str, Any]]
    notices: list[str] = []


@tool("Ask the graph in Cypher", is_read_only=True)
async def ask_graph_in_cypher(
    memory: AsyncAgentMemory,
    query: Annotated[str, "MATCH … WHERE … RETURN …: nodes are :Entity, :Fact, :Turn and others, with a title."],
    parameters: Annotated[dict[str, Any] | None, "Values for the names after $ in the query."] = None,
    limit: Annotated[int, "Rows at most."] = 50,
) -> CypherRows:
    """Ask the user's graph on Neo4j a reading query. Example: {"query": "MATCH (f:Fact) RETURN f.title LIMIT 5"}"""
    found = await memory.graph.cypher(query, parameters, limit=limit)
    return CypherRows(columns=list(found.columns), rows=to_jsonable(found.rows), notices=list(found.notices))


def _describe_relations(edges: Iterable[Edge], names: Mapping[Key, str]) -> list[FoundRelation]:
    """Relations by the names of their ends; an end without a name is told by its kind."""
    out = []
    for edge in edges:
        said = str(edge.properties.get("name") or edge.edge_kind)
        ends = [to_plain_line(names.get(key) or describe_key(key)) for key in find_ends(edge)]
        since = "" if edge.valid_from is None else edge.valid_from.date().isoformat()
        out.append(FoundRelation(source=ends[0], relation=to_plain_line(said), target=ends[1], since=since))
    return out


KNOWLEDGE_GRAPH_TOOLS = (explore_entity, find_paths, list_communities, list_central_entities, ask_graph_in_cypher)
