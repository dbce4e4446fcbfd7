"""The nine tools of the reference server `server-memory`, over entities, facts about them and relations.

They stand in a channel of their own. An observation is a fact about its entity, a relation an edge.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from agentmem.core.edges import build_relation
from agentmem.core.records import RELATION_KINDS, Edge, Entity, Fact, build_record
from agentmem.errors import NotFound
from agentmem.facade.async_memory import AsyncAgentMemory
from agentmem.server.mcp.tools import tool

CHANNEL = "server-memory"
MAX_READ = 10_000  # entities, facts or relations of one answer


class CamelModel(BaseModel):
    """Names of arguments and results are in camel case, as the reference has them."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid")


class GraphEntity(CamelModel):
    """A node."""

    name: str = Field(description="Its name, unlike any other.")
    entity_type: str = Field(description="As person, place, project.")
    observations: list[str] = Field(description="What is known of it, one claim each.")


class GraphRelation(CamelModel):
    """What one node is to another, in active voice."""

    source: str = Field(alias="from", description="Name of the entity it begins at.")
    target: str = Field(alias="to", description="Name of the entity it leads to.")
    relation_type: str = Field(description="In active voice, as works with.")


Relations = Annotated[list[GraphRelation], "Relations between entities that exist."]


class Graph(CamelModel):
    """Nodes, and the relations that they stand in."""

    entities: list[GraphEntity]
    relations: list[GraphRelation]
    notices: list[str] = Field(default=[], description="What was left out.", exclude_if=lambda notices: not notices)


class EntityObservations(CamelModel):
    """What to add to a node."""

    entity_name: str = Field(description="Name of an entity that exists.")
    contents: list[str] = Field(description="What is known of it, one claim each.")


class ObservationDeletion(CamelModel):
    """What to take from a node."""

    entity_name: str = Field(description="Name of the entity.")
    observations: list[str] = Field(description="What to forget, word for word.")


class AddedObservations(CamelModel):
    """What was new of a node."""

    entity_name: str
    added_observations: list[str]


class CreatedEntities(CamelModel):
    """The nodes that were new."""

    entities: list[GraphEntity]


class CreatedRelations(CamelModel):
    """The relations that were new."""

    relations: list[GraphRelation]


class ObservationResults(CamelModel):
    """What was new, by node."""

    results: list[AddedObservations]


class Deletion(CamelModel):
    """What was done."""

    success: bool = True
    message: str


@tool("Create entities", is_idempotent=True)
async def create_entities(
    memory: AsyncAgentMemory, entities: Annotated[list[GraphEntity], "The new entities."]
) -> CreatedEntities:
    """Store people, places and things with what is known of them. Names that exist stay as they are."""
    memory, created = _open_channel(memory), []
    for asked in entities:
        build_record(Entity, name=asked.name, type=asked.entity_type)
        _check_claims(asked.observations)
    for asked in entities:
        if await memory.semantic.entities(asked.name):
            continue
        entity = await memory.upsert_entity({"name": asked.name, "type": asked.entity_type})
        added = await _add_facts(memory, entity, asked.observations)
        created.append(GraphEntity(name=entity.name, entity_type=entity.type, observations=added))
    return CreatedEntities(entities=created)


@tool("Create relations", is_idempotent=True)
async def create_relations(memory: AsyncAgentMemory, relations: Relations) -> CreatedRelations:
    """Relate stored entities, in active voice."""
    memory, created = _open_channel(memory), []
    ends = [(await _get_node(memory, asked.source), await _get_node(memory, asked.target)) for asked in relations]
    for asked, (source, target) in zip(relations, ends, strict=True):
        build_relation(memory.scope.user_id, CHANNEL, (source.id, target.id), asked.relation_type)
    for asked, (source, target) in zip(relations, ends, strict=True):
        if await _find_edges(memory, source, target, asked.relation_type):
            continue
        await memory.semantic.relate(source.id, asked.relation_type, target.id)
        created.append(asked)
    return CreatedRelations(relations=created)


@tool("Add observations", is_idempotent=True)
async def add_observations(
    memory: AsyncAgentMemory, observations: Annotated[list[EntityObservations], "What to add, by entity."]
) -> ObservationResults:
    """Store what is known of entities that exist."""
    memory, results = _open_channel(memory), []
    nodes = [await _get_node(memory, asked.entity_name) for asked in observations]
    _check_claims([claim for asked in observations for claim in asked.contents])
    for asked, entity in zip(observations, nodes, strict=True):
        added = await _add_facts(memory, entity, asked.contents)
        results.append(AddedObservations(entity_name=entity.name, added_observations=added))
    return ObservationResults(results=results)


@tool("Delete entities", base=CamelModel, is_destructive=True, is_idempotent=True)
async def delete_entities(
    memory: AsyncAgentMemory, entity_names: Annotated[list[str], "Names of the entities."]
) -> Deletion:
    """Forget entities with their observations and relations. A person can restore them."""
    memory = _open_channel(memory)
    for name in entity_names:
        for entity in await memory.semantic.entities(name):
            edges = await memory.records.relations([entity], limit=MAX_READ)
            for each in (*edges, *await _read_facts(memory, entity), entity):
                await memory.forget(each.id)
    return Deletion(message="Entities deleted successfully")


@tool("Delete observations", is_destructive=True, is_idempotent=True)
async def delete_observations(
    memory: AsyncAgentMemory, deletions: Annotated[list[ObservationDeletion], "What to forget, by entity."]
) -> Deletion:
    """Forget what is known of entities, word for word."""
    memory = _open_channel(memory)
    for asked in deletions:
        for entity in await memory.semantic.entities(asked.entity_name):
            for fact in await _read_facts(memory, entity):
                if fact.claim in asked.observations:
                    await memory.forget(fact.id)
    return Deletion(message="Observations deleted successfully")


@tool("Delete relations", is_destructive=True, is_idempotent=True)
async def delete_relations(memory: AsyncAgentMemory, relations: Relations) -> Deletion:
    """Forget relations between entities."""
    memory = _open_channel(memory)
    for asked in relations:
        for source in await memory.semantic.entities(asked.source):
            for target in await memory.semantic.entities(asked.target):
                for edge in await _find_edges(memory, source, target, asked.relation_type):
                    await memory.forget(edge.id)
    return Deletion(message="Relations deleted successfully")


@tool("Read the graph", is_read_only=True)
async def read_graph(memory: AsyncAgentMemory) -> Graph:
    """All entities and relations."""
    memory = _open_channel(memory)
    return await _build_graph(memory, await memory.semantic.entities(limit=MAX_READ))


@tool("Search nodes", is_read_only=True)
async def search_nodes(
    memory: AsyncAgentMemory, query: Annotated[str, "Any part of a name, a type or an observation."]
) -> Graph:
    """Entities that a query is part of, with their relations."""
    memory, wanted = _open_channel(memory), query.casefold()
    graph = await _build_graph(memory, await memory.semantic.entities(limit=MAX_READ))
    found = [
        node
        for node in graph.entities
        if any(wanted in text.casefold() for text in (node.name, node.entity_type, *node.observations))
    ]
    names = {node.name for node in found}
    relations = [each for each in graph.relations if each.source in names or each.target in names]
    return Graph(entities=found, relations=relations, notices=graph.notices)


@tool("Open nodes", is_read_only=True)
async def open_nodes(memory: AsyncAgentMemory, names: Annotated[list[str], "Names of the entities."]) -> Graph:
    """Entities by their names, with their relations."""
    memory = _open_channel(memory)
    found = {each.id: each for name in names if name for each in await memory.semantic.entities(name)}
    return await _build_graph(memory, list(found.values()))


def _open_channel(memory: AsyncAgentMemory) -> AsyncAgentMemory:
    return memory.scoped(channel=CHANNEL, channels=(CHANNEL,))


async def _get_node(memory: AsyncAgentMemory, name: str) -> Entity:
    found = await memory.semantic.entities(name)
    if not found:
        raise NotFound(f"entity with name {name} not found; create it first")
    return found[0]


def _check_claims(claims: Sequence[str]) -> None:
    """Refuse what is wrong before anything is stored."""
    for claim in claims:
        build_record(Fact, claim=claim)


async def _read_facts(memory: AsyncAgentMemory, entity: Entity) -> list[Fact]:
    return await memory.semantic.facts({"entity_ids": entity.id}, limit=MAX_READ)


async def _add_facts(memory: AsyncAgentMemory, entity: Entity, claims: Sequence[str]) -> list[str]:
    known = {fact.claim for fact in await _read_facts(memory, entity)}
    added = [claim for claim in dict.fromkeys(claims) if claim not in known]
    for claim in added:
        await memory.learn_fact(claim, entity_ids=[entity.id], slot="")  # kept word for word
    return added


async def _find_edges(memory: AsyncAgentMemory, source: Entity, target: Entity, relation: str) -> list[Edge]:
    def same(name: str) -> bool:  # the library has one spelling of a known kind
        known = relation.upper().replace(" ", "_")
        return name == relation or name.upper().replace(" ", "_") == known in RELATION_KINDS

    edges = await memory.records.relations([source], limit=MAX_READ)
    return [edge for edge in edges if edge.target == target.id and edge.source == source.id and same(_get_name(edge))]


def _get_name(edge: Edge) -> str:
    return str(edge.properties.get("name") or edge.edge_kind.value)


async def _build_graph(memory: AsyncAgentMemory, entities: Sequence[Entity]) -> Graph:
    claims = defaultdict[str, list[str]](list)
    facts = await memory.semantic.facts(limit=MAX_READ)
    for fact in facts:
        for entity_id in fact.entity_ids:
            claims[entity_id].append(fact.claim)
    edges = await memory.records.relations(entities, limit=MAX_READ)
    others = await memory.records.find(Entity, [end for edge in edges for end in (edge.source, edge.target)])
    names = {each.id: each.name for each in (*others, *entities)}
    read = {"entities": entities, "observations": facts, "relations": edges}
    return Graph(
        entities=[
            GraphEntity(name=each.name, entity_type=each.type, observations=claims[each.id]) for each in entities
        ],
        relations=[
            GraphRelation(source=names[edge.source], target=names[edge.target], relation_type=_get_name(edge))
            for edge in edges
        ],
        notices=[
            f"Only {MAX_READ:,} {what} were read; there may be more."
            for what, found in read.items()
            if len(found) >= MAX_READ
        ],
    )


GRAPH_TOOLS = (
    create_entities,
    create_relations,
    add_observations,
    delete_entities,
    delete_observations,
    delete_relations,
    read_graph,
    search_nodes,
    open_nodes,
)
