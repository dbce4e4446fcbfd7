"""The graph in the store's file: edges made from records by the transaction that writes them, and bounded walks.

An edge whose other end is not stored keeps a mark in its place, a negative number made from the end's key; when the
record comes, the mark becomes its ordinal, and when it goes, its ordinal becomes the mark again. So the edges are a
function of the current records alone, and `rebuild` makes the same ones.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from agentmem.core.changes import RemovedRecord, StoredRecord
from agentmem.core.clock import Clock, SystemClock, from_micros, to_micros
from agentmem.core.edges import (
    TURN_POSITION_KIND,
    EdgeTriple,
    edge_triple,
    structural_edge_id,
    structural_edges,
    turn_position_key,
)
from agentmem.core.record import Key, Record
from agentmem.core.records import Edge, EdgeKind, Turn
from agentmem.core.scope import Scope
from agentmem.errors import InvalidRecord
from agentmem.stores.codec import RecordMetadata, decode
from agentmem.stores.sqlite.connection import SqliteConnection
from agentmem.stores.sqlite.database import SqliteDatabase
from agentmem.stores.values import Neighbor
from agentmem.text.templates import load_templates

_SQL = load_templates(__package__, "graph.sql")

RECORD_BATCH_SIZE = 2000
NO_EDGE_RECORD = -1  # replaces the ordinal of an Edge record that has none


class _EdgeStep(NamedTuple):
    """An edge in ordinals."""

    source: int
    kind: str
    target: int
    edge: int


def apply(
    db: SqliteConnection,
    user_id: str,
    upserts: Sequence[StoredRecord],
    removed: Sequence[RemovedRecord],
    *,
    new_ordinals: Collection[int] = (),
    known_ordinals: Mapping[Key, int] | None = None,
) -> None:
    """Bring the edges up to records that were put or left the current state.

    Runs inside the caller's transaction, after `memory_records` says what is current. Ordinals in `new_ordinals` were
    never used before, so no edge knows them; `known_ordinals` spares looking up the ordinals of current records by key.
    """
    before = [stored for stored in upserts if stored.ordinal not in new_ordinals]
    for ordinal in [*(item.ordinal for item in removed), *(stored.ordinal for stored in before)]:
        _delete_owned_edges(db, user_id, ordinal)
    for item in removed:
        _detach_record(db, user_id, item.ordinal, (item.kind, item.id))
    for stored in before:
        if isinstance(stored.record, Turn):
            _detach_position(db, user_id, stored.ordinal)  # it may have moved
    _attach_waiting(db, user_id, upserts)
    _insert_edges(db, user_id, upserts, known_ordinals or {})


def erase_user(db: SqliteConnection, user_id: str) -> None:
    """Take out all edges of a user."""
    db.execute(_SQL["forget_user"], {"user_id": user_id})


def rebuild_edges(db: SqliteConnection, user_id: str) -> None:
    """Make all edges of a user from the current records."""
    erase_user(db, user_id)
    for stored in _iter_current(db, user_id):
        _insert_edges(db, user_id, [stored], {})


def open_graph(database: SqliteDatabase, clock: Clock | None = None) -> SqliteGraph:
    """The graph of a store. The clock says which facts have ended."""
    return SqliteGraph(database, clock or SystemClock())


def _delete_owned_edges(db: SqliteConnection, user_id: str, ordinal: int) -> None:
    """Take out what a record states: what ends at it, and what ends elsewhere."""
    for name in ("forget_own", "forget_owner"):
        db.execute(_SQL[name], {"user_id": user_id, "slot": ordinal})


def _detach_record(db: SqliteConnection, user_id: str, ordinal: int, key: Key) -> None:
    _detach_position(db, user_id, ordinal)  # first, because a place has a mark of its own
    keys = {"user_id": user_id, "slot": ordinal, "mark": _placeholder(key)}
    db.execute(_SQL["leave_source"], keys)
    db.execute(_SQL["leave_target"], keys)


def _detach_position(db: SqliteConnection, user_id: str, ordinal: int) -> None:
    """Release what this turn held by its position."""
    keys = {"user_id": user_id, "slot": ordinal}
    held: list[Any] = db.execute(_SQL["held_by_place"], keys).fetchall()
    for owner, conversation_id, position in held:
        mark = _placeholder(turn_position_key(conversation_id, position - 1))
        db.execute(_SQL["leave_place"], {**keys, "owner": owner, "mark": mark})


def _attach_waiting(db: SqliteConnection, user_id: str, upserts: Sequence[StoredRecord]) -> None:
    """Join what waited for these records."""
    ordinals: dict[int, int] = {}
    for stored in upserts:
        ordinals[_placeholder(stored.record.key)] = stored.ordinal
        if isinstance(stored.record, Turn):
            ordinals[_placeholder(turn_position_key(*stored.record.position_key()))] = stored.ordinal
    asked = {"user_id": user_id, "marks": json.dumps(list(ordinals))}
    waiting: list[Any] = db.execute(_SQL["waiting"], asked).fetchall()
    for mark, as_source, as_target in waiting:
        keys = {"user_id": user_id, "slot": ordinals[mark], "mark": mark}
        if as_source:
            db.execute(_SQL["arrive_source"], keys)
        if as_target:
            db.execute(_SQL["arrive_target"], keys)


def _insert_edges(
    db: SqliteConnection, user_id: str, upserts: Sequence[StoredRecord], known_ordinals: Mapping[Key, int]
) -> None:
    known_ordinals = {**known_ordinals, **{stored.record.key: stored.ordinal for stored in upserts}}
    rows: list[tuple[str, int, str, int, int, int]] = []
    for stored in upserts:
        record, ordinal = stored.record, stored.ordinal
        links = [edge_triple(record)] if isinstance(record, Edge) else structural_edges(record)
        edge = ordinal if isinstance(record, Edge) else NO_EDGE_RECORD
        for kind, source, target in links:
            ends = (
                _resolve_endpoint(db, user_id, source, known_ordinals),
                _resolve_endpoint(db, user_id, target, known_ordinals),
            )
            rows.append((user_id, ends[0], str(kind), ends[1], edge, ordinal))
    db.executemany(_SQL["add"], rows)


def _resolve_endpoint(db: SqliteConnection, user_id: str, key: Key, known_ordinals: Mapping[Key, int]) -> int:
    """The ordinal of a current record, or its mark."""
    if key in known_ordinals:
        return known_ordinals[key]
    if key[0] == TURN_POSITION_KIND:
        position, _, conversation_id = key[1].partition(":")
        asked = {"user_id": user_id, "conversation_id": conversation_id, "position": int(position)}
        found = db.execute(_SQL["slot_at"], asked).fetchone()
    else:
        found = db.execute(_SQL["slot_of"], {"user_id": user_id, "kind": key[0], "id": key[1]}).fetchone()
    return _placeholder(key) if found is None else int(found[0])


def _placeholder(key: Key) -> int:
    digest = hashlib.blake2b("\x1f".join(key).encode(), digest_size=8).digest()
    return -2 - (int.from_bytes(digest, "big") >> 2)


class SqliteGraph:
    """A GraphStore over `graph_edges`; see the protocol for its promises."""

    def __init__(self, database: SqliteDatabase, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def neighbors(
        self, keys: Sequence[Key], scope: Scope, kinds: Collection[str] | None = None, depth: int = 2, limit: int = 50
    ) -> list[Neighbor]:
        """Records within `depth` steps, nearest first, then by record id; never one of `keys`.

        Of a record with more than `limit` neighbors over one kind of edge, those recorded last are looked at.
        """
        walk = self._build_walk(scope, kinds, limit=limit)
        return await self._database.read(lambda db: walk.neighbors(db, keys, depth, limit))

    async def edges(
        self, keys: Sequence[Key], scope: Scope, kinds: Collection[str] | None = None, limit: int = 1000
    ) -> list[Edge]:
        """The edges at these records, by kind, source, target and id, those of structure made on the fly.

        Both ends are visible in the scope and not retired. Asked for SUPERSEDES alone, retired ends are shown too.
        """
        walk = self._build_walk(scope, kinds, limit=limit)
        walk.params["retired"] = kinds is not None and set(kinds) == {EdgeKind.SUPERSEDES}
        return await self._database.read(lambda db: walk.edges(db, keys, limit))

    async def watermark(self, user_id: str) -> int:
        """The head of the journal, because both are written together; 0 between `clear` and `rebuild`."""
        return await self._database.read(lambda db: int(db.execute(_SQL["watermark"], {"user_id": user_id}).get))

    async def clear(self, user_id: str) -> None:
        """Take out the user's edges, so that they are built again."""

        def write(db: SqliteConnection) -> None:
            erase_user(db, user_id)
            db.execute(_SQL["mark_cleared"], {"user_id": user_id})

        await self._database.write(write)

    async def rebuild(self, scope: Scope) -> int:
        """Make the user's edges again, in all channels; returns how many join two current records."""
        keys = {"user_id": scope.user_id}

        def write(db: SqliteConnection) -> int:
            rebuild_edges(db, scope.user_id)
            db.execute(_SQL["mark_rebuilt"], keys)
            return int(db.execute(_SQL["count"], keys).get)

        return await self._database.write(write)

    def _build_walk(self, scope: Scope, kinds: Collection[str] | None, limit: int) -> _SqliteWalk:
        unknown = set(kinds or ()) - set(EdgeKind)
        if unknown:
            raise InvalidRecord(f"kinds must be edge kinds, got {', '.join(sorted(unknown))}", field="kinds")
        named = [str(kind) for kind in EdgeKind if kinds is None or kind in kinds]
        asked: dict[str, Any] = {
            "user_id": scope.user_id,
            "channels": json.dumps(scope.readable_channels()),
            "kinds": json.dumps(named),
            "now": to_micros(self._clock.now()),
            "retired": False,
            "cap": max(limit, 0),
        }
        return _SqliteWalk(asked)


class _SqliteWalk:
    """One walk, on a reader's thread, inside its transaction."""

    def __init__(self, params: dict[str, Any]) -> None:
        self.params = params

    def neighbors(self, db: SqliteConnection, keys: Sequence[Key], depth: int, limit: int) -> list[Neighbor]:
        frontier = self._start_ordinals(db, keys)
        seen = set(frontier)
        reached: list[tuple[Key, int, _EdgeStep]] = []
        for distance in range(1, depth + 1):
            if not frontier or len(reached) >= limit:
                break
            found: dict[int, tuple[Key, _EdgeStep]] = {}
            for ordinal, key, step in self._hop(db, frontier):
                if ordinal not in seen:
                    found.setdefault(ordinal, (key, step))
            nearest = sorted(found.items(), key=lambda item: (item[1][0][1], item[1][0][0]))[: limit - len(reached)]
            reached += [(key, distance, step) for _, (key, step) in nearest]
            frontier = [ordinal for ordinal, _ in nearest]
            seen.update(frontier)
        edges = self._describe_edges(db, [step for _, _, step in reached])
        return [Neighbor(key, distance, edge) for (key, distance, _), edge in zip(reached, edges, strict=True)]

    def edges(self, db: SqliteConnection, keys: Sequence[Key], limit: int) -> list[Edge]:
        steps = dict.fromkeys(step for _, _, step in self._hop(db, self._start_ordinals(db, keys)))
        edges = self._describe_edges(db, list(steps))
        return sorted(edges, key=lambda edge: (edge.edge_kind, edge.source, edge.target, edge.id))[:limit]

    def _start_ordinals(self, db: SqliteConnection, keys: Sequence[Key]) -> list[int]:
        found = db.execute(_SQL["starts"], {**self.params, "keys": json.dumps([list(key) for key in keys])})
        return list(dict.fromkeys(ordinal for (ordinal,) in found))

    def _hop(self, db: SqliteConnection, frontier: Sequence[int]) -> Iterator[tuple[int, Key, _EdgeStep]]:
        """Neighbors of the frontier: in its order, then by kind of edge, edges that go out first."""
        for ordinal, kind, outward, inward in db.execute(
            _SQL["hop"], {**self.params, "frontier": json.dumps(frontier)}
        ):
            for other, edge, label, name in json.loads(outward):
                yield other, (label, name), _EdgeStep(ordinal, kind, other, edge)
            for other, edge, label, name in json.loads(inward):
                yield other, (label, name), _EdgeStep(other, kind, ordinal, edge)

    def _describe_edges(self, db: SqliteConnection, steps: Sequence[_EdgeStep]) -> list[Edge]:
        rows = db.execute(_SQL["describe"], {**self.params, "edges": json.dumps(steps)})
        return [_build_edge(self.params["user_id"], *row) for row in rows]


def _build_edge(user_id: str, kind: str, *row: Any) -> Edge:
    from_kind, source, to_kind, target, edge, owner, channel, recorded_at, seq, operation_id, payload = row
    if edge >= 0:
        record = decode("Edge", payload, RecordMetadata(user_id, owner, channel, recorded_at, seq, operation_id))
        assert isinstance(record, Edge)
        return record
    link: EdgeTriple = (EdgeKind(kind), (from_kind, source), (to_kind, target))
    stamp = {"user_id": user_id, "channel": channel, "recorded_at": from_micros(recorded_at), "seq": seq}
    return Edge(
        id=structural_edge_id(link), edge_kind=link[0], source=source, target=target, operation_id=operation_id, **stamp
    )


def _iter_current(db: SqliteConnection, user_id: str) -> Iterator[StoredRecord]:
    after = -1
    while True:
        asked = {"user_id": user_id, "after": after, "limit": RECORD_BATCH_SIZE}
        rows: list[Any] = db.execute(_SQL["records"], asked).fetchall()
        for ordinal, kind, payload, name, channel, recorded_at, seq in rows:
            record: Record = decode(kind, payload, RecordMetadata(user_id, name, channel, recorded_at, seq, ""))
            yield StoredRecord(ordinal, record)
        if len(rows) < RECORD_BATCH_SIZE:
            return
        after = rows[-1][0]
