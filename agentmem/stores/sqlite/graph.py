"""The graph in the store's file: edges made from records by the transaction that writes them, and bounded walks.

An edge whose other end is not stored keeps a mark in its place, a negative number made from the end's key; when the
record comes, the mark becomes its slot, and when it goes, its slot becomes the mark again. So the edges are a function
of the current records alone, and `rebuild` makes the same ones.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from agentmem.errors import InvalidRecord
from agentmem.model.changes import Gone, Stored
from agentmem.model.clock import Clock, SystemClock, from_micros, micros
from agentmem.model.edges import PLACE, Link, link_id, stated_link, structural_edges, turn_at
from agentmem.model.records import Edge, EdgeKind, Key, Record, Turn
from agentmem.model.scope import Scope
from agentmem.stores import Neighbour
from agentmem.stores.payload import Stamp, decode
from agentmem.stores.sqlite.connection import Connection, Database
from agentmem.text.blocks import load_blocks

RECORDS_AT_ONCE = 2000
STRUCTURAL = -1  # what stands for the slot of an Edge record where there is none


class _Step(NamedTuple):
    """An edge in slots."""

    source: int
    kind: str
    target: int
    edge: int


def apply(
    db: Connection, user_id: str, puts: Sequence[Stored], gone: Sequence[Gone], *,
    new: Collection[int] = (), known: Mapping[Key, int] | None = None,
) -> None:  # fmt: skip
    """Bring the edges up to records that were put or left the current state.

    Runs inside the caller's transaction, after `memory_records` says what is current. Slots in `new` were never used
    before, so no edge knows them; `known` spares looking up the slots of current records by key.
    """
    before = [stored for stored in puts if stored.slot not in new]
    for slot in [*(item.slot for item in gone), *(stored.slot for stored in before)]:
        _forget_owner(db, user_id, slot)
    for item in gone:
        _leave(db, user_id, item.slot, (item.kind, item.id))
    for stored in before:
        if isinstance(stored.record, Turn):
            _leave_place(db, user_id, stored.slot)  # it may have moved
    _arrive(db, user_id, puts)
    _add(db, user_id, puts, known or {})


def erase_user(db: Connection, user_id: str) -> None:
    """Take out all edges of a user."""
    db.execute(_sql()["forget_user"], {"user_id": user_id})


def make_again(db: Connection, user_id: str) -> None:
    """Make all edges of a user from the current records."""
    erase_user(db, user_id)
    for stored in _current(db, user_id):
        _add(db, user_id, [stored], {})


def open_graph(database: Database, clock: Clock | None = None) -> SqliteGraph:
    """The graph of a store. The clock says which facts have ended."""
    return SqliteGraph(database, clock or SystemClock())


def _forget_owner(db: Connection, user_id: str, slot: int) -> None:
    """Take out what a record states: what ends at it, and what ends elsewhere."""
    for name in ("forget_own", "forget_owner"):
        db.execute(_sql()[name], {"user_id": user_id, "slot": slot})


def _leave(db: Connection, user_id: str, slot: int, key: Key) -> None:
    _leave_place(db, user_id, slot)  # first, because a place has a mark of its own
    keys = {"user_id": user_id, "slot": slot, "mark": _mark(key)}
    db.execute(_sql()["leave_source"], keys)
    db.execute(_sql()["leave_target"], keys)


def _leave_place(db: Connection, user_id: str, slot: int) -> None:
    """Give back what held this turn because of where it stood."""
    keys = {"user_id": user_id, "slot": slot}
    held: list[Any] = db.execute(_sql()["held_by_place"], keys).fetchall()
    for owner, conversation_id, position in held:
        mark = _mark(turn_at(conversation_id, position - 1))
        db.execute(_sql()["leave_place"], {**keys, "owner": owner, "mark": mark})


def _arrive(db: Connection, user_id: str, puts: Sequence[Stored]) -> None:
    """Join what waited for these records."""
    slots: dict[int, int] = {}
    for stored in puts:
        slots[_mark(stored.record.key)] = stored.slot
        if isinstance(stored.record, Turn):
            slots[_mark(turn_at(*stored.record.place()))] = stored.slot
    asked = {"user_id": user_id, "marks": json.dumps(list(slots))}
    waiting: list[Any] = db.execute(_sql()["waiting"], asked).fetchall()
    for mark, as_source, as_target in waiting:
        keys = {"user_id": user_id, "slot": slots[mark], "mark": mark}
        if as_source:
            db.execute(_sql()["arrive_source"], keys)
        if as_target:
            db.execute(_sql()["arrive_target"], keys)


def _add(db: Connection, user_id: str, puts: Sequence[Stored], known: Mapping[Key, int]) -> None:
    known = {**known, **{stored.record.key: stored.slot for stored in puts}}
    rows: list[tuple[str, int, str, int, int, int]] = []
    for stored in puts:
        record, slot = stored.record, stored.slot
        links = [stated_link(record)] if isinstance(record, Edge) else structural_edges(record)
        edge = slot if isinstance(record, Edge) else STRUCTURAL
        for kind, source, target in links:
            ends = _end(db, user_id, source, known), _end(db, user_id, target, known)
            rows.append((user_id, ends[0], str(kind), ends[1], edge, slot))
    db.executemany(_sql()["add"], rows)


def _end(db: Connection, user_id: str, key: Key, known: Mapping[Key, int]) -> int:
    """The slot of a current record, or its mark."""
    if key in known:
        return known[key]
    if key[0] == PLACE:
        position, _, conversation_id = key[1].partition(":")
        asked = {"user_id": user_id, "conversation_id": conversation_id, "position": int(position)}
        found = db.execute(_sql()["slot_at"], asked).fetchone()
    else:
        found = db.execute(_sql()["slot_of"], {"user_id": user_id, "kind": key[0], "id": key[1]}).fetchone()
    return _mark(key) if found is None else int(found[0])


def _mark(key: Key) -> int:
    digest = hashlib.blake2b("\x1f".join(key).encode(), digest_size=8).digest()
    return -2 - (int.from_bytes(digest, "big") >> 2)


class SqliteGraph:
    """A GraphStore over `graph_edges`; see the protocol for its promises."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def neighbours(
        self, keys: Sequence[Key], scope: Scope, kinds: Collection[str] | None = None, depth: int = 2, limit: int = 50
    ) -> list[Neighbour]:
        """Records within `depth` steps, nearest first, then by record id; never one of `keys`.

        Of a record with more than `limit` neighbours over one kind of edge, those recorded last are looked at.
        """
        walk = self._walk(scope, kinds, cap=limit)
        return await self._database.read(lambda db: walk.neighbours(db, keys, depth, limit))

    async def edges(
        self, keys: Sequence[Key], scope: Scope, kinds: Collection[str] | None = None, limit: int = 1000
    ) -> list[Edge]:
        """The edges at these records, by kind, source, target and id, those of structure made on the fly.

        Both ends are visible in the scope and not retired. Asked for SUPERSEDES alone, retired ends are shown too.
        """
        walk = self._walk(scope, kinds, cap=limit)
        walk.asked["retired"] = kinds is not None and set(kinds) == {EdgeKind.SUPERSEDES}
        return await self._database.read(lambda db: walk.edges(db, keys, limit))

    async def watermark(self, user_id: str) -> int:
        """The head of the journal, because both are written together; 0 between `clear` and `rebuild`."""
        return await self._database.read(lambda db: int(db.execute(_sql()["watermark"], {"user_id": user_id}).get))

    async def clear(self, user_id: str) -> None:
        """Take out the user's edges, so that they are built again."""

        def write(db: Connection) -> None:
            erase_user(db, user_id)
            db.execute(_sql()["mark_cleared"], {"user_id": user_id})

        await self._database.write(write)

    async def rebuild(self, scope: Scope) -> int:
        """Make the user's edges again, in all channels; returns how many join two current records."""
        keys = {"user_id": scope.user_id}

        def write(db: Connection) -> int:
            make_again(db, scope.user_id)
            db.execute(_sql()["mark_rebuilt"], keys)
            return int(db.execute(_sql()["count"], keys).get)

        return await self._database.write(write)

    def _walk(self, scope: Scope, kinds: Collection[str] | None, cap: int) -> _Walk:
        unknown = set(kinds or ()) - set(EdgeKind)
        if unknown:
            raise InvalidRecord(f"kinds must be edge kinds, got {', '.join(sorted(unknown))}", field="kinds")
        named = [str(kind) for kind in EdgeKind if kinds is None or kind in kinds]
        asked: dict[str, Any] = {
            "user_id": scope.user_id,
            "channels": json.dumps(scope.readable()),
            "kinds": json.dumps(named),
            "now": micros(self._clock.now()),
            "retired": False,
            "cap": max(cap, 0),
        }
        return _Walk(asked)


class _Walk:
    """One walk, on a reader's thread, inside its transaction."""

    def __init__(self, asked: dict[str, Any]) -> None:
        self.asked = asked

    def neighbours(self, db: Connection, keys: Sequence[Key], depth: int, limit: int) -> list[Neighbour]:
        frontier = self._starts(db, keys)
        seen = set(frontier)
        reached: list[tuple[Key, int, _Step]] = []
        for distance in range(1, depth + 1):
            if not frontier or len(reached) >= limit:
                break
            found: dict[int, tuple[Key, _Step]] = {}
            for slot, key, step in self._hop(db, frontier):
                if slot not in seen:
                    found.setdefault(slot, (key, step))
            nearest = sorted(found.items(), key=lambda item: (item[1][0][1], item[1][0][0]))[: limit - len(reached)]
            reached += [(key, distance, step) for _, (key, step) in nearest]
            frontier = [slot for slot, _ in nearest]
            seen.update(frontier)
        edges = self._described(db, [step for _, _, step in reached])
        return [Neighbour(key, distance, edge) for (key, distance, _), edge in zip(reached, edges, strict=True)]

    def edges(self, db: Connection, keys: Sequence[Key], limit: int) -> list[Edge]:
        steps = dict.fromkeys(step for _, _, step in self._hop(db, self._starts(db, keys)))
        edges = self._described(db, list(steps))
        return sorted(edges, key=lambda edge: (edge.edge_kind, edge.source, edge.target, edge.id))[:limit]

    def _starts(self, db: Connection, keys: Sequence[Key]) -> list[int]:
        found = db.execute(_sql()["starts"], {**self.asked, "keys": json.dumps([list(key) for key in keys])})
        return list(dict.fromkeys(slot for (slot,) in found))

    def _hop(self, db: Connection, frontier: Sequence[int]) -> Iterator[tuple[int, Key, _Step]]:
        """Neighbours of the frontier: in its order, then by kind of edge, edges that go out first."""
        for slot, kind, outward, inward in db.execute(_sql()["hop"], {**self.asked, "frontier": json.dumps(frontier)}):
            for other, edge, label, name in json.loads(outward):
                yield other, (label, name), _Step(slot, kind, other, edge)
            for other, edge, label, name in json.loads(inward):
                yield other, (label, name), _Step(other, kind, slot, edge)

    def _described(self, db: Connection, steps: Sequence[_Step]) -> list[Edge]:
        rows = db.execute(_sql()["describe"], {**self.asked, "edges": json.dumps(steps)})
        return [_edge(self.asked["user_id"], *row) for row in rows]


def _edge(user_id: str, kind: str, *row: Any) -> Edge:
    from_kind, source, to_kind, target, edge, owner, channel, recorded_at, seq, operation_id, payload = row
    if edge >= 0:
        record = decode("Edge", payload, Stamp(user_id, owner, channel, recorded_at, seq, operation_id))
        assert isinstance(record, Edge)
        return record
    link: Link = (EdgeKind(kind), (from_kind, source), (to_kind, target))
    stamp = {"user_id": user_id, "channel": channel, "recorded_at": from_micros(recorded_at), "seq": seq}
    return Edge(id=link_id(link), edge_kind=link[0], source=source, target=target, operation_id=operation_id, **stamp)


def _current(db: Connection, user_id: str) -> Iterator[Stored]:
    after = -1
    while True:
        asked = {"user_id": user_id, "after": after, "limit": RECORDS_AT_ONCE}
        rows: list[Any] = db.execute(_sql()["records"], asked).fetchall()
        for slot, kind, payload, name, channel, recorded_at, seq in rows:
            record: Record = decode(kind, payload, Stamp(user_id, name, channel, recorded_at, seq, ""))
            yield Stored(slot, record)
        if len(rows) < RECORDS_AT_ONCE:
            return
        after = rows[-1][0]


def _sql() -> Mapping[str, str]:
    return load_blocks(__package__, "graph.sql")
