"""The memories of Mnemex as a graph: relations between them, and reading both.

The library relates entities only. So a memory that is related gets an entity that stands for it, by its id and without
its text, in a channel of its own which nothing else reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from agentmem.core.edges import build_relation
from agentmem.core.records import Edge, Fact
from agentmem.facade.async_memory import AsyncAgentMemory
from agentmem.server.compat.mnemex_records import (
    KNOWN_STATUSES,
    Answer,
    MemoryEntry,
    PageNumber,
    PageSize,
    Pagination,
    StatusName,
    check_at_least,
    cut_page,
    find_memories,
    get_memory,
    list_memories,
    read_names,
    read_use,
)
from agentmem.server.mcp.tools import tool

CHANNEL = "mnemex"
MEMORY_TYPE = "memory"  # of an entity that stands for a memory
MAX_RELATIONS = 1000  # read around some memories


class CreatedRelation(Answer):
    """The relation."""

    relation_id: str
    message: str


class RelationEntry(BaseModel):
    """One relation."""

    id: str
    from_memory_id: str
    to_memory_id: str
    relation_type: str
    strength: float
    metadata: dict[str, Any]


class GraphStats(BaseModel):
    """Of all memories of the status, and of what is shown."""

    total_memories: int
    total_relations: int
    average_score: float = Field(description="0 without scores.")


class MemoryGraph(Answer):
    """Memories, and the relations between them."""

    memories: list[MemoryEntry]
    relations: list[RelationEntry]
    stats: GraphStats
    pagination: Pagination


class OpenedMemories(Answer):
    """Memories by their ids."""

    memories: list[MemoryEntry]
    relations: list[RelationEntry]
    not_found: list[str]
    pagination: Pagination


@tool("Create a relation", is_idempotent=True)
async def create_relation(
    memory: AsyncAgentMemory,
    from_memory_id: Annotated[str, "Id of the memory it begins at."],
    to_memory_id: Annotated[str, "Id of the memory it leads to."],
    relation_type: Annotated[str, "As related, causes, supports, contradicts."],
    strength: Annotated[float, "0 to 1."] = 1.0,
    metadata: Annotated[dict[str, Any] | None, "Anything to keep with it."] = None,
) -> CreatedRelation:
    """Relate one memory to another."""
    source = await get_memory(memory, from_memory_id)
    target = await get_memory(memory, to_memory_id)
    edge = await relate_memories(memory, (source, target), relation_type, strength, metadata)
    return CreatedRelation(relation_id=edge.id, message=f"Related as {relation_type}.")


@tool("Read the graph", is_read_only=True)
async def read_graph(
    memory: AsyncAgentMemory,
    status: Annotated[Literal["active", "promoted", "archived", "all"], "Of this status."] = "active",
    include_scores: Annotated[bool, "Show what each is worth."] = True,
    limit: Annotated[int | None, "At most so many memories."] = None,
    page: PageNumber = None,
    page_size: PageSize = None,
) -> MemoryGraph:
    """All memories, the latest first, with the relations between them."""
    check_at_least(1, limit=limit)
    statuses: Sequence[StatusName] = KNOWN_STATUSES if status == "all" else (status,)
    every = await list_memories(memory, statuses)
    facts, place = cut_page(every[:limit], page, page_size)
    ids = {fact.id for fact in facts}
    edges = [edge for edge in await _read_relations(memory, facts) if set(_ends(edge)) <= ids]
    shown = await _show(memory, facts, with_score=include_scores)
    average = round(sum(entry.score for entry in shown) / max(1, len(shown)), 4)
    stats = GraphStats(total_memories=len(every), total_relations=len(edges), average_score=average)
    return MemoryGraph(
        memories=shown, relations=_show_relations(edges), stats=stats, pagination=place, notices=_notices(edges)
    )


@tool("Open memories", is_read_only=True)
async def open_memories(
    memory: AsyncAgentMemory,
    memory_ids: Annotated[list[str], "Ids from a search."],
    include_relations: Annotated[bool, "Show their relations."] = True,
    include_scores: Annotated[bool, "Show what each is worth."] = True,
    page: PageNumber = None,
    page_size: PageSize = None,
) -> OpenedMemories:
    """Memories by their ids, with their relations."""
    found, missing = await find_memories(memory, memory_ids)
    facts, place = cut_page(found, page, page_size)
    edges = await _read_relations(memory, facts) if include_relations else []
    _, hidden = await find_memories(memory, [name for edge in edges for name in _ends(edge)])
    visible = [edge for edge in edges if set(_ends(edge)).isdisjoint(hidden)]
    return OpenedMemories(
        memories=await _show(memory, facts, with_score=include_scores),
        relations=_show_relations(visible),
        not_found=missing,
        pagination=place,
        notices=_notices(edges),
    )


async def _show(memory: AsyncAgentMemory, facts: Sequence[Fact], *, with_score: bool) -> list[MemoryEntry]:
    names = await read_names(memory, facts)
    return [used.show(names, with_score=with_score) for used in await read_use(memory, facts)]


def _open_relations(memory: AsyncAgentMemory) -> AsyncAgentMemory:
    """The memory as it writes relations: beside its own channels it reads that of the relations."""
    return memory.scoped(channel=CHANNEL, channels=(CHANNEL, *memory.scope.readable_channels()))


async def relate_memories(
    memory: AsyncAgentMemory,
    ends: tuple[Fact, Fact],
    relation_type: str,
    strength: float,
    metadata: dict[str, Any] | None = None,
) -> Edge:
    """Store a relation between two memories. Raises InvalidRecord before anything is stored."""
    source, target = ends
    said = {"from": source.id, "to": target.id, "type": relation_type, "metadata": metadata or {}}
    build_relation(  # refuses what is wrong before anything is stored
        memory.scope.user_id, CHANNEL, (source.id, target.id), relation_type, confidence=strength, properties=said
    )
    own = _open_relations(memory)
    first, second = [await own.upsert_entity({"name": _stand_in(each.id), "type": MEMORY_TYPE}) for each in ends]
    return await own.semantic.relate(first.id, relation_type, second.id, said, confidence=strength, fact_id=source.id)


async def move_relations(memory: AsyncAgentMemory, keep: Fact, others: Sequence[Fact]) -> list[Edge]:
    """Relate a memory to what those that became it by merging were related to; [] where they were to nothing."""
    gone, moved = {fact.id for fact in others}, list[Edge]()
    for edge in await _read_relations(memory, others):
        ends, _ = await find_memories(memory, [keep.id if name in gone else name for name in _ends(edge)])
        if len(ends) == 2:  # none of a memory to itself, or to what is gone
            (entry,) = _show_relations([edge])
            pair = ends[0], ends[1]
            moved.append(await relate_memories(memory, pair, entry.relation_type, entry.strength, entry.metadata))
    return moved


def _stand_in(memory_id: str) -> str:
    """The name of the entity that stands for a memory."""
    return f"{MEMORY_TYPE} {memory_id}"


async def _read_relations(memory: AsyncAgentMemory, facts: Sequence[Fact]) -> list[Edge]:
    """The relations that these memories stand in."""
    own, wanted = _open_relations(memory), {_stand_in(fact.id) for fact in facts}
    stored = await own.semantic.entities(type=MEMORY_TYPE, limit=MAX_RELATIONS * 2) if wanted else []
    ids = [each.id for each in stored if each.channel == CHANNEL and each.name in wanted]
    around = await own.semantic.get_entity_graph(ids, 1, limit=MAX_RELATIONS) if ids else None
    shown = {fact.id for fact in facts}
    return [] if around is None else [edge for edge in around.edges if not shown.isdisjoint(_ends(edge))]


def _ends(edge: Edge) -> tuple[str, str]:
    """The memories that a relation joins; empty ids where it is none between memories."""
    return str(edge.properties.get("from", "")), str(edge.properties.get("to", ""))


def _show_relations(edges: Sequence[Edge]) -> list[RelationEntry]:
    return [
        RelationEntry(
            id=edge.id,
            from_memory_id=_ends(edge)[0],
            to_memory_id=_ends(edge)[1],
            relation_type=str(edge.properties.get("type", edge.edge_kind.value)),
            strength=edge.confidence,
            metadata=dict(edge.properties.get("metadata") or {}),
        )
        for edge in edges
    ]


def _notices(edges: Sequence[Edge]) -> list[str]:
    return ["There are more relations; ask for fewer memories at once."] if len(edges) >= MAX_RELATIONS else []


MNEMEX_GRAPH_TOOLS = (read_graph, open_memories, create_relation)
