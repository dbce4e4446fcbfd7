"""Writing the graph: what a batch of changes leaves behind, in a handful of statements for all its users together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentmem.model.changes import JournalEntry, StoredRecord
from agentmem.model.clock import to_micros
from agentmem.model.records import Key, Turn
from agentmem.stores.neo4j.connection import Transaction, fetch_rows
from agentmem.stores.neo4j.shape import build_followed_by_row, build_node_row, build_relationship_rows, node_key
from agentmem.stores.neo4j.statements import graph_update

Row = Mapping[str, Any]
MAX_EMPTY_NODES = 1_000_000  # empty nodes


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
        loose = await _unlink(tx, gone, stated=False) + await self._delete_stated_edges(tx)
        await _run(tx, "leave", records=gone)
        stated = _build_key_rows(await _run(tx, "put", records=nodes, count=len(nodes)))
        loose += await _unlink(tx, stated, stated=True)
        relations = [
            row for (user_id, _), stored in self.upserts.items() for row in build_relationship_rows(user_id, stored)
        ]
        await _run(tx, "link", relations=relations + await self._build_followed_by_rows(tx))
        await _run(tx, "sweep", records=loose + gone)
        await _run(tx, "erased", records=[
            {"user_id": user_id, "key": node_key(key), "at": at} for (user_id, key), at in self.erased_at.items()
        ])  # fmt: skip

    async def _delete_stated_edges(self, tx: Transaction) -> list[Row]:
        """Take out the relations that the touched edges stated before; returns empty nodes, as `_unlink` does."""
        edges = [(user_id, key[1]) for user_id, key in [*self.upserts, *self.removed] if key[0] == "Edge"]
        relations = [{"user_id": user_id, "id": edge_id} for user_id, edge_id in edges]
        return _build_key_rows(await _run(tx, "unstate", relations=relations, count=MAX_EMPTY_NODES))

    async def _build_followed_by_rows(self, tx: Transaction) -> list[Row]:
        """FOLLOWED_BY to and from each turn put, as far as there is a turn before and after it."""
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
    return [{"user_id": user_id, "key": name} for user_id, name in rows]


def _has_position(stored: StoredRecord) -> bool:
    conversation, index = stored.record.position_key()
    return isinstance(stored.record, Turn) and bool(conversation) and index >= 0


def _build_node_ref(user_id: str, key: Key) -> dict[str, Any]:
    return {"user_id": user_id, "key": node_key(key), "kind": key[0]}


async def _run(tx: Transaction, name: str, **values: Any) -> list[list[Any]]:
    """Run a statement for a list of rows; nothing for an empty one."""
    given: Sequence[Row] = next(iter(values.values()))
    return await fetch_rows(tx, graph_update(name), **values) if given else []
