"""Writing journal entries into the graph: records as nodes and relationships.

A record is a node `(:Record:Fact {user_id, key: 'Fact:7f…', …})` with its fields as properties; maps, and lists that
are not of strings, are JSON text. Every node has a `title` for people and `current_until`: what is true and known now
has it after now. A missing record that others name is a node with `user_id` and `key` alone. An Edge record is the
relationship itself, with its `id`; a relationship that follows from a record's fields has that record's key as `owner`
instead, and its `channel` and `visible_until`. `key`, `ordinal`, `owner`, `states` (how many relationships follow from
a record) and `visible_until` serve this module.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from functools import cache
from typing import Any

from pydantic_core import to_json

from agentmem.core.changes import JournalEntry, StoredRecord
from agentmem.core.clock import to_micros
from agentmem.core.edges import (
    TURN_POSITION_KIND,
    EdgeTriple,
    build_stated_relation,
    edge_triple,
    find_stated_relation,
    structural_edges,
)
from agentmem.core.record import Key, Record, Status
from agentmem.core.records import Edge, EdgeKind, Fact, Turn
from agentmem.stores.neo4j.database import Transaction, fetch_rows
from agentmem.stores.neo4j.descriptions import Link, build_title, list_descriptive_links
from agentmem.stores.neo4j.migrations import graph_update

HIDDEN, RETIRED, ENDLESS = -(2**63), -(2**63) + 1, 2**63 - 1
"""`visible_until` of what no walk sees, of what only history shows, and of what has no end."""

NO_EDGE_RECORD = -1  # in place of the ordinal of an Edge record

MACHINERY_PROPERTIES = frozenset(
    {"key", "ordinal", "owner", "states", "visible_until", "user_id", "seq", "operation_id", "embedding"}
)
# of maps, and of lists that are not of strings
JSON_PROPERTIES = frozenset(
    {"communication_style", "context", "doubt_spans", "identity", "metadata", "preferences", "proposed", "properties"}
    | {"source_spans"}
)
_LATEST_TIME = to_micros(datetime(9999, 12, 31, tzinfo=UTC))  # `current_until` of what has no end
_ENDPOINT_FIELDS = frozenset({"edge_kind", "source", "target"})
_PROPERTY_NAMES = {"Goal": {"goal_status": "status", "status": "record_status"}}

Row = Mapping[str, Any]
MAX_EMPTY_NODES = 1_000_000


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
    properties |= {"user_id": user_id, "key": node_key(record.key), "ordinal": stored.ordinal, **_visibility(record)}
    properties |= {"states": len(_list_links(record)), "title": build_title(record)}
    times["current_until"] = _current_until(record)
    if record.kind == "Turn":
        properties["archived"] = record.status is Status.ARCHIVED
    if isinstance(record, Fact):
        times |= {"created_at": times["recorded_at"]} if "recorded_at" in times else {}
        relation = find_stated_relation(record)
        properties |= {"relation": str(relation[0])} if relation else {}
    names = {"user_id": user_id, "key": properties["key"], "kind": record.kind}
    return {**names, "properties": properties, "times": times}


def build_relationship_rows(user_id: str, stored: StoredRecord) -> Iterator[dict[str, Any]]:
    """The rows that put what a record states, but for the turn before a turn, which is named by its place."""
    record = stored.record
    if isinstance(record, Edge):
        yield _build_relation_row(user_id, edge_triple(record), record, {"ordinal": stored.ordinal})
        return
    owner, relation = node_key(record.key), find_stated_relation(record) if isinstance(record, Fact) else None
    for link in _list_links(record):
        if link == relation and isinstance(record, Fact):
            edge = build_stated_relation(record, relation)
            row = _build_relation_row(user_id, relation, edge, {"ordinal": stored.ordinal, "owner": owner, "id": owner})
            if since := record.valid_from or record.first_said_at or record.recorded_at:
                row["times"]["since"] = _to_seconds(to_micros(since))
            yield row
        elif TURN_POSITION_KIND not in (link[1][0], link[2][0]):
            yield _build_structural_row(user_id, link, owner, _visibility(record))


def _list_links(record: Record) -> list[Link]:
    """All that follows from a record's fields: what walks in the log go over, and what only people look at."""
    return [*structural_edges(record), *list_descriptive_links(record)]


def _build_relation_row(user_id: str, link: EdgeTriple, edge: Edge, more: Mapping[str, Any]) -> dict[str, Any]:
    """The row of a relation with its times, the name that somebody gave it, and the slot of its belief."""
    properties, times = _properties(edge)
    stated = {name: value for name, value in properties.items() if name not in _ENDPOINT_FIELDS}
    plain = {name: edge.properties[name] for name in ("name", "slot") if isinstance(edge.properties.get(name), str)}
    times["current_until"] = _current_until(edge)
    return _build_row(user_id, link, {**plain, **stated, **_visibility(edge), **more}, times)


def build_followed_by_row(user_id: str, previous: Mapping[str, Any], turn: Mapping[str, Any]) -> dict[str, Any]:
    """The row that puts FOLLOWED_BY between two turns, given the `key` of both and who may see the later one."""
    link: EdgeTriple = (EdgeKind.FOLLOWED_BY, parse_node_key(previous["key"]), parse_node_key(turn["key"]))
    return _build_structural_row(
        user_id, link, turn["key"], {name: turn[name] for name in ("channel", "visible_until")}
    )


def _build_structural_row(user_id: str, link: Link, owner: str, visibility: Mapping[str, Any]) -> dict[str, Any]:
    return _build_row(user_id, link, {**visibility, "ordinal": NO_EDGE_RECORD, "owner": owner}, {})


def _build_row(user_id: str, link: Link, properties: Mapping[str, Any], times: Mapping[str, Any]) -> dict[str, Any]:
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
            times[name] = _to_seconds(to_micros(value))
        elif (value := _to_property(value)) is not None:
            properties[renamed.get(name, name)] = value
    return properties, times


def _visibility(record: Record) -> dict[str, Any]:
    """Who may see it, and until when."""
    return {"channel": record.channel, "visible_until": _visible_until(record)}


def _current_until(record: Record) -> tuple[int, int]:
    """Until when it is true and known; 1970 for what is neither."""
    return _to_seconds(min(max(_visible_until(record), 0), _LATEST_TIME))


def _to_seconds(micros: int) -> tuple[int, int]:
    """Microseconds as seconds and nanoseconds."""
    seconds, microseconds = divmod(micros, 1_000_000)
    return seconds, microseconds * 1000


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


@dataclass
class GraphBatch:
    """What is current after some changes, and what is not: the last word on each record of each user."""

    upserts: dict[tuple[str, Key], StoredRecord] = field(default_factory=dict)
    removed: dict[tuple[str, Key], None] = field(default_factory=dict)
    erased_at: dict[tuple[str, Key], int] = field(default_factory=dict)  # when, in microseconds

    def add(self, user_id: str, entries: Iterable[JournalEntry]) -> None:
        """Follow the journal of a user, in its order."""
        for entry in entries:
            self.remove(user_id, [(item.kind, item.id) for item in entry.removals])
            self.erased_at |= {
                (user_id, (item.kind, item.id)): to_micros(entry.recorded_at) for item in entry.removals if item.erased
            }
            self.upsert(user_id, entry.upserts)

    def upsert(self, user_id: str, records: Iterable[StoredRecord]) -> None:
        """These are current."""
        for stored in records:
            if stored.record.IS_IN_GRAPH:
                self.removed.pop((user_id, stored.record.key), None)
                self.upserts[user_id, stored.record.key] = stored

    def remove(self, user_id: str, keys: Iterable[Key]) -> None:
        """These are not."""
        for key in keys:
            self.upserts.pop((user_id, key), None)
            self.removed[user_id, key] = None

    async def write(self, tx: Transaction) -> None:
        """Bring the graph to it. The caller holds the locks of the users."""
        gone = [_build_node_ref(user_id, key) for user_id, key in self.removed if key[0] != "Edge"]
        nodes = [
            build_node_row(user_id, stored)
            for (user_id, _), stored in self.upserts.items()
            if stored.record.kind != "Edge"
        ]
        loose = await _unlink(tx, gone, stated=False)
        await _run(tx, "leave", records=gone)
        before = await _run(tx, "put", records=nodes, count=len(nodes))
        loose += await _unlink(tx, _build_key_rows(before), stated=True)
        loose += await self._delete_relations(tx, [(user_id, name) for user_id, name, had_one in before if had_one])
        relations = [
            row for (user_id, _), stored in self.upserts.items() for row in build_relationship_rows(user_id, stored)
        ]
        await _run(tx, "link", relations=relations + await self._build_followed_by_rows(tx))
        await _run(tx, "sweep", records=loose + gone)
        await _run(
            tx,
            "erased",
            records=[
                {"user_id": user_id, "key": node_key(key), "at": at} for (user_id, key), at in self.erased_at.items()
            ],
        )

    async def _delete_relations(self, tx: Transaction, facts: Sequence[tuple[str, str]]) -> list[Row]:
        """Take out relations of the touched edges, and of facts that had one; returns empty nodes as `_unlink` does.

        A fact's relation has the key of the fact as its id.
        """
        gone = [(user_id, node_key(key)) for user_id, key in self.removed if key[0] == "Fact"]
        edges = [(user_id, key[1]) for user_id, key in [*self.upserts, *self.removed] if key[0] == "Edge"]
        relations = [{"user_id": user_id, "id": name} for user_id, name in (*edges, *gone, *facts)]
        return _build_key_rows(await _run(tx, "unstate", relations=relations, count=MAX_EMPTY_NODES))

    async def _build_followed_by_rows(self, tx: Transaction) -> list[Row]:
        """FOLLOWED_BY to and from each turn put, where it has a previous and a next turn."""
        put = [
            (user_id, *stored.record.position_key())
            for (user_id, _), stored in self.upserts.items()
            if _has_position(stored)
        ]
        around = dict.fromkeys((u, c, index + step) for u, c, index in put for step in (-1, 0, 1))
        places = [{"user_id": u, "conversation_id": c, "index": index} for u, c, index in around]
        found = await _run(tx, "standing", places=places, count=len(places))
        standing = {(u, c, index): turn for (turns,) in found for u, c, index, turn in turns}
        targets = dict.fromkeys((u, c, index + step) for u, c, index in put for step in (0, 1))
        pairs = [((u, c, index - 1), (u, c, index)) for u, c, index in targets]
        return [
            build_followed_by_row(before[0], standing[before], standing[after])
            for before, after in pairs
            if before in standing and after in standing
        ]


async def _unlink(tx: Transaction, records: Sequence[Row], *, stated: bool) -> list[Row]:
    """Take out what these records stated before; returns empty nodes that may be left with nothing."""
    asked = [{**record, "stated": stated} for record in records]
    return _build_key_rows(await _run(tx, "unlink", records=asked, count=MAX_EMPTY_NODES))


def _build_key_rows(rows: Iterable[Sequence[Any]]) -> list[Row]:
    return [{"user_id": row[0], "key": row[1]} for row in rows]


def _has_position(stored: StoredRecord) -> bool:
    conversation, index = stored.record.position_key()
    return isinstance(stored.record, Turn) and bool(conversation) and index >= 0


def _build_node_ref(user_id: str, key: Key) -> dict[str, Any]:
    return {"user_id": user_id, "key": node_key(key), "kind": key[0]}


async def _run(tx: Transaction, name: str, **values: Any) -> list[list[Any]]:
    """Run a statement for a list of rows; nothing for an empty one."""
    given: Sequence[Row] = next(iter(values.values()))
    return await fetch_rows(tx, graph_update(name), **values) if given else []
