"""Which edges records state by themselves, and what kinds of records each kind of edge joins. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from agentmem.core.clock import derive_id
from agentmem.core.procedural_records import Strategy, ToolInvocation
from agentmem.core.record import Key, Record
from agentmem.core.records import PROFILE_ID, RELATION_KINDS, Edge, EdgeKind, Fact, Goal, Turn, build_record
from agentmem.core.scope import check_identifier

EdgeTriple = tuple[EdgeKind, Key, Key]  # kind, source, target

MENTION_TEXTS = "texts"
"""The property of a MENTIONS edge that holds what its turn says of the entity."""

TURN_POSITION_KIND = "Turn at"
"""Kind of a Key that names a turn by its position, because a record does not know the id of the previous turn."""

ENDPOINT_LABELS: Mapping[EdgeKind, tuple[str, str]] = {
    EdgeKind.HAS_TURN: ("Conversation", "Turn"),
    EdgeKind.FOLLOWED_BY: ("Turn", "Turn"),
    EdgeKind.MENTIONS: ("Turn", "Entity"),
    EdgeKind.DERIVED_FROM: ("Fact", "Turn"),
    EdgeKind.ABOUT: ("Fact", "Entity"),
    EdgeKind.PROMOTED_FROM: ("Fact", "Fact"),
    EdgeKind.SUPERSEDES: ("Fact", "Fact"),
    EdgeKind.DEPENDS_ON: ("Fact", "Fact"),
    EdgeKind.SUPPORTS: ("Fact", "Fact"),
    EdgeKind.HAS_GOAL: ("User", "Goal"),
    EdgeKind.SUBGOAL_OF: ("Goal", "Goal"),
    EdgeKind.BLOCKED_BY: ("Goal", "Goal"),
    EdgeKind.USES_TOOL: ("Strategy", "Tool"),
    EdgeKind.SUCCEEDED_IN: ("Strategy", "Conversation"),
    EdgeKind.USED_TOOL: ("Conversation", "ToolInvocation"),
    EdgeKind.INVOKED: ("ToolInvocation", "Tool"),
    **dict.fromkeys(sorted(RELATION_KINDS), ("Entity", "Entity")),
}
"""The labels of source and target of each kind."""


def turn_position_key(conversation_id: str, index: int) -> Key:
    """The Key of the turn at this index of a conversation."""
    return TURN_POSITION_KIND, f"{index}:{conversation_id}"


def structural_edges(record: Record) -> list[EdgeTriple]:
    """The edges that a record states by its own fields, each once, in the order of the fields.

    One end is always the record itself. An end need not be stored. The turn before a turn is named by
    `turn_position_key`.
    """
    if isinstance(record, Turn):
        links = _turn_edges(record)
    elif isinstance(record, Fact):
        links = _fact_edges(record)
    elif isinstance(record, Goal):
        links = [(EdgeKind.HAS_GOAL, ("User", PROFILE_ID), record.key)]
        links += [(EdgeKind.SUBGOAL_OF, record.key, ("Goal", parent)) for parent in (record.parent_id,) if parent]
        links += [(EdgeKind.BLOCKED_BY, record.key, ("Goal", other)) for other in record.blocked_by]
    elif isinstance(record, ToolInvocation):
        links = [
            (EdgeKind.USED_TOOL, ("Conversation", place), record.key) for place in (record.conversation_id,) if place
        ]
        links += [(EdgeKind.INVOKED, record.key, ("Tool", tool)) for tool in (record.tool_id,) if tool]
    elif isinstance(record, Strategy):
        links = [(EdgeKind.USES_TOOL, record.key, ("Tool", tool)) for tool in record.tool_ids]
        links += [(EdgeKind.SUCCEEDED_IN, record.key, ("Conversation", place)) for place in record.conversation_ids]
    else:
        links = []
    return list(dict.fromkeys(links))


def _turn_edges(turn: Turn) -> list[EdgeTriple]:
    if not turn.conversation_id:
        return []
    links: list[EdgeTriple] = [(EdgeKind.HAS_TURN, ("Conversation", turn.conversation_id), turn.key)]
    if turn.index > 0:
        links.append((EdgeKind.FOLLOWED_BY, turn_position_key(turn.conversation_id, turn.index - 1), turn.key))
    return links


def _fact_edges(fact: Fact) -> list[EdgeTriple]:
    links: list[EdgeTriple] = [(EdgeKind.DERIVED_FROM, fact.key, ("Turn", turn)) for turn in fact.source_turn_ids]
    links += [(EdgeKind.ABOUT, fact.key, ("Entity", entity)) for entity in fact.entity_ids]
    links += [(EdgeKind.DEPENDS_ON, fact.key, ("Fact", premise)) for premise in fact.depends_on]
    links += [(EdgeKind.SUPERSEDES, fact.key, ("Fact", old)) for old in (fact.supersedes,) if old]
    links += [(EdgeKind.PROMOTED_FROM, fact.key, ("Fact", old)) for old in (fact.promoted_from,) if old]
    return links


def edge_triple(edge: Edge) -> EdgeTriple:
    """What an Edge record states, its ends labeled by its kind."""
    source, target = ENDPOINT_LABELS[edge.edge_kind]
    return edge.edge_kind, (source, edge.source), (target, edge.target)


def build_relation(user_id: str, channel: str, endpoints: tuple[str, str], kind: str, **fields: Any) -> Edge:
    """The Edge that states a relation between two entities, `endpoints` being the ids of source and target.

    An unknown kind is kept as the property `name` of a RELATED_TO. The same relation has the same id.
    """
    known = check_identifier(kind, "kind").upper().replace(" ", "_")
    edge_kind = EdgeKind(known) if known in RELATION_KINDS else EdgeKind.RELATED_TO
    extra = {} if edge_kind.value == known else {"name": kind}
    fields["properties"] = {**extra, **(fields.get("properties") or {})}
    name = derive_id(user_id, channel, endpoints[0], edge_kind, endpoints[1], extra.get("name", ""))
    return build_record(
        Edge, id=name, channel=channel, edge_kind=edge_kind, source=endpoints[0], target=endpoints[1], **fields
    )


def build_mention(user_id: str, channel: str, turn_id: str, entity_id: str, texts: Iterable[str] = ()) -> Edge:
    """The Edge that says that a turn names an entity: by which names, and how it describes it."""
    name = derive_id(user_id, channel, turn_id, EdgeKind.MENTIONS, entity_id)
    said = list(dict.fromkeys(texts))
    return build_record(
        Edge,
        id=name,
        channel=channel,
        edge_kind=EdgeKind.MENTIONS,
        source=turn_id,
        target=entity_id,
        properties={MENTION_TEXTS: said} if said else {},
    )


def structural_edge_id(triple: EdgeTriple) -> str:
    """The id of the Edge for a structural link: the same link has the same id."""
    kind, source, target = triple
    return derive_id(kind, *source, *target)
