"""Which edges records state by themselves, and what kinds of records each kind of edge joins. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentmem.model.clock import derived_id
from agentmem.model.records import (
    PROFILE,
    RELATIONS,
    Edge,
    EdgeKind,
    Fact,
    Goal,
    Key,
    Record,
    Strategy,
    ToolInvocation,
    Turn,
    build,
)
from agentmem.model.scope import checked_name

Link = tuple[EdgeKind, Key, Key]  # kind, source, target

PLACE = "Turn at"
"""Kind of a Key that names a turn by where it stands, because a record does not know the id of the turn before it."""

ENDS: Mapping[EdgeKind, tuple[str, str]] = {
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
    **dict.fromkeys(sorted(RELATIONS), ("Entity", "Entity")),
}
"""The labels of source and target of each kind."""


def turn_at(conversation_id: str, index: int) -> Key:
    """The Key of whichever turn stands at this index of a conversation."""
    return PLACE, f"{index}:{conversation_id}"


def structural_edges(record: Record) -> list[Link]:
    """The edges that a record states by its own fields, each once, in the order of the fields.

    One end is always the record itself. An end need not be stored. The turn before a turn is named by `turn_at`.
    """
    if isinstance(record, Turn):
        links = _of_turn(record)
    elif isinstance(record, Fact):
        links = _of_fact(record)
    elif isinstance(record, Goal):
        links = [(EdgeKind.HAS_GOAL, ("User", PROFILE), record.key)]
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


def _of_turn(turn: Turn) -> list[Link]:
    if not turn.conversation_id:
        return []
    links: list[Link] = [(EdgeKind.HAS_TURN, ("Conversation", turn.conversation_id), turn.key)]
    if turn.index > 0:
        links.append((EdgeKind.FOLLOWED_BY, turn_at(turn.conversation_id, turn.index - 1), turn.key))
    return links


def _of_fact(fact: Fact) -> list[Link]:
    links: list[Link] = [(EdgeKind.DERIVED_FROM, fact.key, ("Turn", turn)) for turn in fact.source_turn_ids]
    links += [(EdgeKind.ABOUT, fact.key, ("Entity", entity)) for entity in fact.entity_ids]
    links += [(EdgeKind.DEPENDS_ON, fact.key, ("Fact", premise)) for premise in fact.depends_on]
    links += [(EdgeKind.SUPERSEDES, fact.key, ("Fact", old)) for old in (fact.supersedes,) if old]
    links += [(EdgeKind.PROMOTED_FROM, fact.key, ("Fact", old)) for old in (fact.promoted_from,) if old]
    return links


def stated_link(edge: Edge) -> Link:
    """What an Edge record states, its ends labelled by its kind."""
    source, target = ENDS[edge.edge_kind]
    return edge.edge_kind, (source, edge.source), (target, edge.target)


def related(user_id: str, channel: str, ends: tuple[str, str], kind: str, **said: Any) -> Edge:
    """The Edge that states a relation between two entities, `ends` being the ids of source and target.

    A name that is no known kind is kept as the property `name` of a RELATED_TO. The same relation has the same id.
    """
    known = checked_name(kind, "kind").upper().replace(" ", "_")
    edge_kind = EdgeKind(known) if known in RELATIONS else EdgeKind.RELATED_TO
    extra = {} if edge_kind.value == known else {"name": kind}
    said["properties"] = {**extra, **(said.get("properties") or {})}
    name = derived_id(user_id, channel, ends[0], edge_kind, ends[1], extra.get("name", ""))
    return build(Edge, id=name, channel=channel, edge_kind=edge_kind, source=ends[0], target=ends[1], **said)


def mentioned(user_id: str, channel: str, turn_id: str, entity_id: str) -> Edge:
    """The Edge that says that a turn names an entity."""
    name = derived_id(user_id, channel, turn_id, EdgeKind.MENTIONS, entity_id)
    return build(Edge, id=name, channel=channel, edge_kind=EdgeKind.MENTIONS, source=turn_id, target=entity_id)


def link_id(link: Link) -> str:
    """The id of the Edge that stands for a structural link: the same link has the same id."""
    kind, source, target = link
    return derived_id(kind, *source, *target)
