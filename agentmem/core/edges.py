"""Which edges records state by themselves, and what kinds of records each kind of edge joins. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from agentmem.core.clock import derive_id
from agentmem.core.procedural_records import Strategy, ToolInvocation
from agentmem.core.record import Key, Record
from agentmem.core.records import (
    PROFILE_ID,
    RELATION_KINDS,
    Edge,
    EdgeKind,
    Fact,
    Goal,
    Turn,
    build_record,
)
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
"""The labels of source and target of each kind. In place of an Entity, `USER_EDGE_KINDS` may have the User."""

RELATION_BY_SLOT: Mapping[str, EdgeKind] = {
    "home": EdgeKind.LIVES_IN,
    "employer": EdgeKind.WORKS_FOR,
    "boss": EdgeKind.REPORTS_TO,
    "school": EdgeKind.STUDIES_AT,
    "partner": EdgeKind.PARTNER_OF,
    "children": EdgeKind.PARENT_OF,
    "parents": EdgeKind.PARENT_OF,
    "siblings": EdgeKind.SIBLING_OF,
    "friends": EdgeKind.KNOWS,
    "pets": EdgeKind.OWNS,
}
"""The relation that a fact states between its subject and its value, by its slot."""

INVERSE_SLOTS = frozenset({"parents"})
"""Slots whose value is the source of the relation, and the subject its target."""

USER_EDGE_KINDS = frozenset({EdgeKind.ABOUT, *RELATION_BY_SLOT.values()})
"""Kinds of edges that may join the User record in place of an Entity."""

USER_KEY: Key = ("User", PROFILE_ID)
"""The record that stands for the user."""


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
        links = [(EdgeKind.HAS_GOAL, USER_KEY, record.key)]
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
    links += [(EdgeKind.ABOUT, fact.key, USER_KEY)] if fact.subject_entity_id == PROFILE_ID else []
    links += [(EdgeKind.DEPENDS_ON, fact.key, ("Fact", premise)) for premise in fact.depends_on]
    links += [(EdgeKind.SUPERSEDES, fact.key, ("Fact", old)) for old in (fact.supersedes,) if old]
    links += [(EdgeKind.PROMOTED_FROM, fact.key, ("Fact", old)) for old in (fact.promoted_from,) if old]
    relation = find_stated_relation(fact)
    return links + ([relation] if relation else [])


def find_stated_relation(fact: Fact) -> EdgeTriple | None:
    """The relation that a fact states by its slot; None for plans, denials, other slots and ends without an entity."""
    kind, value = RELATION_BY_SLOT.get(fact.slot), fact.value_entity_id
    if kind is None or fact.is_denied or fact.temporal_context == "future" or value not in fact.entity_ids:
        return None
    is_own = fact.subject_entity_id == PROFILE_ID
    if not is_own and (fact.subject_entity_id not in fact.entity_ids or fact.subject_entity_id == value):
        return None
    subject = USER_KEY if is_own else ("Entity", fact.subject_entity_id)
    ends = subject, ("Entity", value)
    return (kind, *(reversed(ends) if fact.slot in INVERSE_SLOTS else ends))


def build_stated_relation(fact: Fact, link: EdgeTriple) -> Edge:
    """The Edge for the relation that a fact states: as long, as sure and as well founded as the fact."""
    kind, (_, source), (_, target) = link
    return Edge(
        id=derive_id(structural_edge_id(link), fact.id),
        user_id=fact.user_id,
        channel=fact.channel,
        status=fact.status,
        recorded_at=fact.recorded_at,
        superseded_at=fact.superseded_at,
        seq=fact.seq,
        operation_id=fact.operation_id,
        edge_kind=kind,
        source=source,
        target=target,
        properties={"slot": fact.slot},
        confidence=fact.confidence,
        fact_id=fact.id,
        valid_from=fact.valid_from,
        valid_to=fact.valid_to,
        source_turn_ids=fact.source_turn_ids,
    )


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
