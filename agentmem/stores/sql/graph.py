"""The graph in the log's database: edges made from records by the transaction that writes them, and bounded walks.

An edge whose other end is not stored keeps a mark in its place, a negative number made from the end's key; when the
record comes, the mark becomes its ordinal, and when it goes, its ordinal becomes the mark again. So the edges are a
function of the current records alone, and `rebuild` makes the same ones.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from typing import Any, NamedTuple

from agentmem.core.changes import RemovedRecord, StoredRecord
from agentmem.core.clock import Clock, from_micros, to_micros
from agentmem.core.edges import (
    ENDPOINT_LABELS,
    TURN_POSITION_KIND,
    USER_EDGE_KINDS,
    EdgeTriple,
    build_stated_relation,
    edge_triple,
    structural_edge_id,
    structural_edges,
    turn_position_key,
)
from agentmem.core.record import Key
from agentmem.core.records import RELATION_KINDS, Edge, EdgeKind, Fact, Turn, User
from agentmem.core.scope import Scope
from agentmem.errors import InvalidRecord
from agentmem.stores.codec import RecordMetadata, decode
from agentmem.stores.sql.connection import Keys, SqlConnection, SqlDatabase
from agentmem.stores.values import Neighbor

RECORD_BATCH_SIZE = 2000
NO_EDGE_RECORD = -1  # in place of the ordinal of the Edge, or Fact, that says how long an edge holds
_SOURCE_LABELS, _TARGET_LABELS = (
    {
        kind: {ends[place], *((User.__name__,) if kind in USER_EDGE_KINDS and ends[place] == "Entity" else ())}
        for kind, ends in ENDPOINT_LABELS.items()
    }
    for place in (0, 1)
)
REBUILD_SECONDS = 600.0  # for all edges of one user


class _EdgeStep(NamedTuple):
    """An edge in ordinals."""

    source: int
    kind: str
    target: int
    edge: int


async def update_edges(
    db: SqlConnection,
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
    if gone := [*(item.ordinal for item in removed), *(stored.ordinal for stored in before)]:
        await db.run("graph.delete_stated_at_target", user_id=user_id, ordinals=gone)
        await db.run("graph.delete_stated", user_id=user_id, ordinals=gone)
    # First, because a place has a mark of its own; a turn that is written again may have moved.
    turns = [item.ordinal for item in removed if item.kind == "Turn"]
    await _detach_positions(db, user_id, turns + [each.ordinal for each in before if isinstance(each.record, Turn)])
    left = [{"ordinal": item.ordinal, "mark": _placeholder((item.kind, item.id))} for item in removed]
    await db.run_each("graph.detach_source", left, user_id=user_id)
    await db.run_each("graph.detach_target", left, user_id=user_id)
    came = [{"ordinal": ordinal, "mark": mark} for mark, ordinal in _marks_of(upserts).items()]
    await db.run_each("graph.attach_source", came, user_id=user_id)
    await db.run_each("graph.attach_target", came, user_id=user_id)
    await _insert_edges(db, user_id, upserts, known_ordinals or {})


async def erase_user(db: SqlConnection, user_id: str) -> None:
    """Take out all edges of a user."""
    await db.run("graph.delete_user", user_id=user_id)


async def rebuild_edges(db: SqlConnection, user_id: str) -> None:
    """Make all edges of a user from the current records."""
    await erase_user(db, user_id)
    async for records in _read_records(db, user_id):
        await _insert_edges(db, user_id, records, {})
    await db.run("graph.mark_rebuilt", user_id=user_id)


async def count_differences(db: SqlConnection, user_id: str) -> int:
    """How many edges are missing or too many, by the current records of the user, which are all held meanwhile."""
    records = [stored async for page in _read_records(db, user_id) for stored in page]
    known = {stored.record.key: stored.ordinal for stored in records}
    for stored in records:
        if isinstance(stored.record, Turn):
            known[turn_position_key(*stored.record.position_key())] = stored.ordinal
    expected = set()
    for row in _build_rows(records, known):
        source, target = (row[end] if row[end] is not None else row[f"{end}_mark"] for end in ("source", "target"))
        expected.add((source, row["kind"], target, row["edge"]))
    return len(expected ^ set(await db.rows("graph.stored", user_id=user_id)))


async def _read_records(db: SqlConnection, user_id: str) -> AsyncIterator[list[StoredRecord]]:
    after: int | None = -1
    while after is not None:
        rows = await db.rows("graph.records", user_id=user_id, after=after, limit=RECORD_BATCH_SIZE)
        yield [
            StoredRecord(ordinal, decode(kind, payload, RecordMetadata(user_id, name, channel, recorded_at, seq, "")))
            for ordinal, kind, payload, name, channel, recorded_at, seq in rows
        ]
        after = rows[-1][0] if len(rows) == RECORD_BATCH_SIZE else None


async def _detach_positions(db: SqlConnection, user_id: str, ordinals: Sequence[int]) -> None:
    """Release what these turns held by their position."""
    if not ordinals:
        return
    left = [
        {"ordinal": source, "owner": owner, "mark": _placeholder(turn_position_key(conversation_id, position - 1))}
        for source, owner, conversation_id, position in await db.rows(
            "graph.held_by_position", user_id=user_id, ordinals=list(ordinals)
        )
    ]
    await db.run_each("graph.detach_position", left, user_id=user_id)


def _marks_of(upserts: Sequence[StoredRecord]) -> dict[int, int]:
    """The marks that may wait for these records, with their ordinals."""
    ordinals: dict[int, int] = {}
    for stored in upserts:
        ordinals[_placeholder(stored.record.key)] = stored.ordinal
        if isinstance(stored.record, Turn):
            ordinals[_placeholder(turn_position_key(*stored.record.position_key()))] = stored.ordinal
    return ordinals


async def _insert_edges(
    db: SqlConnection, user_id: str, upserts: Sequence[StoredRecord], known_ordinals: Mapping[Key, int]
) -> None:
    rows = _build_rows(upserts, {**known_ordinals, **{stored.record.key: stored.ordinal for stored in upserts}})
    await db.run_each("graph.add", rows, user_id=user_id)


def _build_rows(upserts: Sequence[StoredRecord], known: Mapping[Key, int]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for stored in upserts:
        record, ordinal = stored.record, stored.ordinal
        links = [edge_triple(record)] if isinstance(record, Edge) else structural_edges(record)
        for kind, source, target in links:
            edge = ordinal if isinstance(record, Edge) or kind in RELATION_KINDS else NO_EDGE_RECORD
            ends = {**_describe_end("source", source, known), **_describe_end("target", target, known)}
            rows.append({"kind": str(kind), "edge": edge, "owner": ordinal, **ends})
    return rows


def _describe_end(end: str, key: Key, known_ordinals: Mapping[Key, int]) -> dict[str, Any]:
    """What `graph.add` is told of an end: its ordinal, or how to look it up and the mark where it is not stored."""
    ordinal, position = known_ordinals.get(key), None
    kind, name = key
    if kind == TURN_POSITION_KIND:
        index, _, name = name.partition(":")
        position = int(index)
    unknown = (kind, name, position, _placeholder(key)) if ordinal is None else (None, None, None, None)
    names = (end, f"{end}_kind", f"{end}_id", f"{end}_position", f"{end}_mark")
    return dict(zip(names, (ordinal, *unknown), strict=True))


def _placeholder(key: Key) -> int:
    digest = hashlib.blake2b("\x1f".join(key).encode(), digest_size=8).digest()
    return -2 - (int.from_bytes(digest, "big") >> 2)


class SqlGraph:
    """A GraphStore over `graph_edges`; see the protocol for its promises. The clock says which facts have ended."""

    def __init__(self, database: SqlDatabase, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def neighbors(
        self, keys: Sequence[Key], scope: Scope, kinds: Collection[str] | None = None, depth: int = 2, limit: int = 50
    ) -> list[Neighbor]:
        """Records within `depth` steps, nearest first, then by record id; never one of `keys`.

        Of a record with more than `limit` neighbors over one kind of edge, those recorded last are looked at.
        """
        walk = self._build_walk(scope, kinds, limit=limit)
        return await self._database.query(scope, lambda db: walk.neighbors(db, keys, depth, limit), by_key=True)

    async def edges(
        self, keys: Sequence[Key], scope: Scope, kinds: Collection[str] | None = None, limit: int = 1000
    ) -> list[Edge]:
        """The edges at these records, by kind, source, target and id, those of structure made on the fly.

        Both ends are visible in the scope and not retired. Asked for SUPERSEDES alone, retired ends are shown too.
        """
        walk = self._build_walk(scope, kinds, limit=limit)
        walk.params["retired"] = kinds is not None and set(kinds) == {EdgeKind.SUPERSEDES}
        return await self._database.query(scope, lambda db: walk.edges(db, keys, limit), by_key=True)

    async def links(self, keys: Sequence[Key], scope: Scope, kinds: Collection[str], limit: int) -> list[EdgeTriple]:
        """What `edges` finds, without times and properties: of each record and kind those recorded last, `limit`."""
        walk = self._build_walk(scope, kinds, limit=limit)
        return await self._database.query(scope, lambda db: walk.links(db, keys), by_key=True)

    async def rebuild(self, scope: Scope) -> int:
        """Make the user's edges again, in all channels; returns how many join two current records."""
        user_id = scope.user_id

        async def write(db: SqlConnection) -> int:
            await db.lock_user(user_id)
            await rebuild_edges(db, user_id)
            return int(await db.value("graph.count", user_id=user_id))

        return await self._database.commit(user_id, write, timeout_seconds=REBUILD_SECONDS)

    def _build_walk(self, scope: Scope, kinds: Collection[str] | None, limit: int) -> _GraphWalk:
        unknown = set(kinds or ()) - set(EdgeKind)
        if unknown:
            raise InvalidRecord(f"kinds must be edge kinds, got {', '.join(sorted(unknown))}", field="kinds")
        asked: dict[str, Any] = {
            "user_id": scope.user_id,
            "channels": list(scope.readable_channels()),
            "now": to_micros(self._clock.now()),
            "retired": False,
            "cap": max(limit, 0),
        }
        return _GraphWalk(asked, [kind for kind in EdgeKind if kinds is None or kind in kinds])


class _GraphWalk:
    """One walk, inside a transaction."""

    def __init__(self, params: dict[str, Any], kinds: Sequence[EdgeKind]) -> None:
        self.params = params
        self._kinds = kinds

    async def neighbors(self, db: SqlConnection, keys: Sequence[Key], depth: int, limit: int) -> list[Neighbor]:
        """Records within `depth` steps, nearest first, then by id; of a hop, no more than the limit leaves."""
        frontier = {ordinal: kind for ordinal, (kind, _) in (await self._find_starts(db, keys)).items()}
        seen = set(frontier)
        reached: list[tuple[Key, int, _EdgeStep]] = []
        for distance in range(1, depth + 1):
            if not frontier or len(reached) >= limit:
                break
            found: dict[int, tuple[Key, _EdgeStep]] = {}
            for ordinal, key, step in await self._hop(db, frontier):
                if ordinal not in seen:
                    found.setdefault(ordinal, (key, step))
            nearest = sorted(found.items(), key=lambda item: (item[1][0][1], item[1][0][0]))[: limit - len(reached)]
            reached += [(key, distance, step) for _, (key, step) in nearest]
            seen.update(ordinal for ordinal, _ in nearest)
            # Nothing is near by being of the same user.
            frontier = {ordinal: key[0] for ordinal, (key, _) in nearest if key[0] != User.__name__}
        edges = await self._describe_edges(db, [step for _, _, step in reached])
        return [Neighbor(key, distance, edge) for (key, distance, _), edge in zip(reached, edges, strict=True)]

    async def edges(self, db: SqlConnection, keys: Sequence[Key], limit: int) -> list[Edge]:
        """The edges at these records, by kind, source, target and id."""
        starts = await self._find_starts(db, keys)
        hop = await self._hop(db, {ordinal: kind for ordinal, (kind, _) in starts.items()})
        steps = dict.fromkeys(step for _, _, step in hop)
        edges = await self._describe_edges(db, list(steps))
        return sorted(edges, key=lambda edge: (edge.edge_kind, edge.source, edge.target, edge.id))[:limit]

    async def links(self, db: SqlConnection, keys: Sequence[Key]) -> list[EdgeTriple]:
        """The edges at these records by kind and ends, each once."""
        starts = await self._find_starts(db, keys)
        hop = await self._hop(db, {ordinal: kind for ordinal, (kind, _) in starts.items()})
        found = {
            (EdgeKind(step.kind), starts.get(step.source, key), starts.get(step.target, key)) for _, key, step in hop
        }
        return sorted(found)

    async def _find_starts(self, db: SqlConnection, keys: Sequence[Key]) -> dict[int, Key]:
        """The visible ones of these records by ordinal, in their order."""
        rows = await db.rows("graph.starts", **self.params, keys=Keys(keys)) if keys else []
        return {ordinal: (kind, name) for ordinal, kind, name in rows}

    async def _hop(self, db: SqlConnection, frontier: Mapping[int, str]) -> list[tuple[int, Key, _EdgeStep]]:
        """Neighbors of records, by ordinal and kind: in their order, then by kind of edge, edges that go out first."""
        asked = [
            [(ordinal, kind) for ordinal, label in frontier.items() for kind in self._kinds if label in labels[kind]]
            for labels in (_SOURCE_LABELS, _TARGET_LABELS)
        ]
        if not any(asked):
            return []
        outward, inward = map(json.dumps, asked)
        names = "graph.hop_out", "graph.hop_in"
        rows = await db.rows_of(*names, **self.params, outward=outward, inward=inward)
        by_place = [{(ordinal, kind): json.loads(found) for ordinal, kind, found in each} for each in rows]
        reached = []
        for place in ((ordinal, str(kind)) for ordinal in frontier for kind in self._kinds):
            for goes_out, found in zip((True, False), by_place, strict=True):
                for other, edge, label, name in found.get(place, ()):
                    source, target = (place[0], other) if goes_out else (other, place[0])
                    reached.append((other, (label, name), _EdgeStep(source, place[1], target, edge)))
        return reached

    async def _describe_edges(self, db: SqlConnection, steps: Sequence[_EdgeStep]) -> list[Edge]:
        rows = await db.rows("graph.describe", **self.params, steps=json.dumps(steps)) if steps else []
        return [_build_edge(self.params["user_id"], *row) for row in rows]


def _build_edge(user_id: str, kind: str, *row: Any) -> Edge:
    from_kind, source, to_kind, target, edge, label, owner, channel, recorded_at, seq, operation_id, payload = row
    link: EdgeTriple = (EdgeKind(kind), (from_kind, source), (to_kind, target))
    if edge >= 0:
        record = decode(label, payload, RecordMetadata(user_id, owner, channel, recorded_at, seq, operation_id))
        if isinstance(record, Fact):
            return build_stated_relation(record, link)
        assert isinstance(record, Edge)
        return record
    stamp = {"user_id": user_id, "channel": channel, "recorded_at": from_micros(recorded_at), "seq": seq}
    return Edge(
        id=structural_edge_id(link), edge_kind=link[0], source=source, target=target, operation_id=operation_id, **stamp
    )
