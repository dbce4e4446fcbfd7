"""Records as nodes and relationships, and back.

A record is a node `(:Record:Fact {user_id, key: 'Fact:7f…', …})` with its fields as properties; maps and what is no
list of strings are JSON text. Seen by walks is what has `visible_until` after now and a channel of the scope. A record
that others name and that is not there is a node with `user_id` and `key` alone. An Edge record is the relationship
itself, with its `id`; a relationship that follows from a record's fields has that record's key as `owner` instead, and
its `channel` and `visible_until`. `states` is how many of those a record has.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from enum import StrEnum
from functools import cache
from typing import Any

from pydantic_core import to_json

from agentmem.model.changes import StoredRecord
from agentmem.model.clock import from_micros, to_micros
from agentmem.model.edges import TURN_POSITION_KIND, EdgeTriple, edge_triple, structural_edge_id, structural_edges
from agentmem.model.records import Edge, EdgeKind, Key, Record, Status, build_record

HIDDEN, RETIRED, ENDLESS = -(2**63), -(2**63) + 1, 2**63 - 1
"""`visible_until` of what no walk sees, of what only history shows, and of what has no end."""

NO_EDGE_RECORD = -1  # in place of the slot of an Edge record

_ENDPOINT_FIELDS = frozenset({"edge_kind", "source", "target"})
_PROPERTY_NAMES = {"Goal": {"goal_status": "status", "status": "record_status"}}


def node_key(key: Key) -> str:
    """The `key` of a node. A kind holds no colon."""
    return f"{key[0]}:{key[1]}"


def parse_node_key(name: str) -> Key:
    """The Key that a node's `key` names."""
    kind, _, record_id = name.partition(":")
    return kind, record_id


def build_node_row(user_id: str, stored: StoredRecord) -> dict[str, Any]:
    """The row that puts a record's node."""
    record = stored.record
    properties, times = _properties(record)
    properties |= {"user_id": user_id, "key": node_key(record.key), "slot": stored.ordinal, **_visibility(record)}
    properties["states"] = len(structural_edges(record))
    if record.kind == "Turn":
        properties["archived"] = record.status is Status.ARCHIVED
    if record.kind == "Fact" and "recorded_at" in times:
        times["created_at"] = times["recorded_at"]
    names = {"user_id": user_id, "key": properties["key"], "kind": record.kind}
    return {**names, "properties": properties, "times": times}


def build_relationship_rows(user_id: str, stored: StoredRecord) -> Iterator[dict[str, Any]]:
    """The rows that put what a record states, but for the turn before a turn, which is named by its place."""
    record = stored.record
    if isinstance(record, Edge):
        properties, times = _properties(record)
        stated = {name: value for name, value in properties.items() if name not in _ENDPOINT_FIELDS}
        yield _build_row(user_id, edge_triple(record), {**stated, "slot": stored.ordinal, **_visibility(record)}, times)
        return
    for link in structural_edges(record):
        if TURN_POSITION_KIND not in (link[1][0], link[2][0]):
            yield _build_structural_row(user_id, link, node_key(record.key), _visibility(record))


def build_followed_by_row(user_id: str, previous: Mapping[str, Any], turn: Mapping[str, Any]) -> dict[str, Any]:
    """The row that puts FOLLOWED_BY between two turns, given the `key` of both and who may see the later one."""
    link: EdgeTriple = (EdgeKind.FOLLOWED_BY, parse_node_key(previous["key"]), parse_node_key(turn["key"]))
    return _build_structural_row(
        user_id, link, turn["key"], {name: turn[name] for name in ("channel", "visible_until")}
    )


def build_edge(user_id: str, link: EdgeTriple, properties: Mapping[str, Any]) -> Edge:
    """The Edge record that a relationship is or stands for; its `recorded_at` in microseconds."""
    kind, (_, source), (_, target) = link
    given = {name: _to_python(value) for name, value in properties.items() if name in Edge.model_fields}
    if given.get("recorded_at") is not None:
        given["recorded_at"] = from_micros(given["recorded_at"])
    if "id" not in given:
        given["id"] = structural_edge_id(link)
    if "properties" in given:
        given["properties"] = json.loads(given["properties"])
    return build_record(Edge, **{**given, "user_id": user_id, "edge_kind": kind, "source": source, "target": target})


def _build_structural_row(user_id: str, link: EdgeTriple, owner: str, visibility: Mapping[str, Any]) -> dict[str, Any]:
    return _build_row(user_id, link, {**visibility, "slot": NO_EDGE_RECORD, "owner": owner}, {})


def _build_row(
    user_id: str, link: EdgeTriple, properties: Mapping[str, Any], times: Mapping[str, Any]
) -> dict[str, Any]:
    kind, source, target = link
    ends = {"user_id": user_id, "source": node_key(source), "target": node_key(target)}
    return {**ends, "kind": str(kind), "properties": {**properties, "user_id": user_id}, "times": times}


def _properties(record: Record) -> tuple[dict[str, Any], dict[str, tuple[int, int]]]:
    """What a record's fields hold: plain values, and times as seconds and nanoseconds."""
    renamed = _PROPERTY_NAMES.get(record.kind, {})
    properties: dict[str, Any] = {}
    times: dict[str, tuple[int, int]] = {}
    for name in _fields(type(record)):
        value = getattr(record, name)
        if isinstance(value, datetime):
            seconds, microseconds = divmod(to_micros(value), 1_000_000)
            times[name] = (seconds, microseconds * 1000)
        elif (value := _to_property(value)) is not None:
            properties[renamed.get(name, name)] = value
    return properties, times


def _visibility(record: Record) -> dict[str, Any]:
    """Who may see it, and until when."""
    return {"channel": record.channel, "visible_until": _visible_until(record)}


@cache
def _fields(cls: type[Record]) -> tuple[str, ...]:
    return tuple(name for name, field in cls.model_fields.items() if not field.exclude)


def _visible_until(record: Record) -> int:
    if record.status in (Status.FORGOTTEN, Status.ARCHIVED):
        return HIDDEN
    if record.superseded_at is not None:
        return RETIRED
    end = record.valid_interval()[1]
    return ENDLESS if end is None else to_micros(end)


def _to_property(value: Any) -> Any:
    """What a property can hold; None for what is empty, which is left out."""
    if value is None or value in ("", (), {}):
        return None
    if isinstance(value, StrEnum):
        return str(value)
    if isinstance(value, int) and not HIDDEN <= value <= ENDLESS:
        return str(value)
    if isinstance(value, (str, int, float)):
        return value
    if isinstance(value, tuple) and all(isinstance(item, str) for item in value):
        return list(value)
    return to_json(value, inf_nan_mode="null").decode()


def _to_python(value: Any) -> Any:
    """The driver's own times as Python's."""
    return value.to_native() if hasattr(value, "to_native") else value
