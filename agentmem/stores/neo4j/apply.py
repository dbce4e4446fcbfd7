"""Writing the graph: what a batch of changes leaves behind, in a handful of statements for all its users together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentmem.model.changes import JournalEntry, Stored
from agentmem.model.clock import micros
from agentmem.model.records import Key, Turn
from agentmem.stores.neo4j.connection import Transaction, rows
from agentmem.stores.neo4j.shape import follows, name_of, node, relationships
from agentmem.stores.neo4j.statements import writing

Row = Mapping[str, Any]
MOST = 1_000_000  # empty nodes


@dataclass
class Draft:
    """What is current after some changes, and what is not: the last word on each record of each user."""

    puts: dict[tuple[str, Key], Stored] = field(default_factory=dict)
    gone: dict[tuple[str, Key], None] = field(default_factory=dict)
    erased: dict[tuple[str, Key], int] = field(default_factory=dict)  # when, in microseconds

    def add(self, user_id: str, entries: Iterable[JournalEntry]) -> None:
        """Follow the journal of a user, in its order."""
        for entry in entries:
            self.drop(user_id, [(item.kind, item.id) for item in entry.gone])
            self.erased |= {(user_id, (item.kind, item.id)): micros(entry.at) for item in entry.gone if item.erased}
            self.put(user_id, entry.puts)

    def put(self, user_id: str, records: Iterable[Stored]) -> None:
        """These are current."""
        for stored in records:
            self.gone.pop((user_id, stored.record.key), None)
            self.puts[user_id, stored.record.key] = stored

    def drop(self, user_id: str, keys: Iterable[Key]) -> None:
        """These are not."""
        for key in keys:
            self.puts.pop((user_id, key), None)
            self.gone[user_id, key] = None

    async def write(self, tx: Transaction) -> None:
        """Bring the graph to it. The caller holds the locks of the users."""
        gone = [_place_of(user_id, key) for user_id, key in self.gone if key[0] != "Edge"]
        nodes = [node(user_id, stored) for (user_id, _), stored in self.puts.items() if stored.record.kind != "Edge"]
        loose = await _unlinked(tx, gone, stated=False) + await self._unstate(tx)
        await _run(tx, "leave", records=gone)
        stated = _named(await _run(tx, "put", records=nodes, count=len(nodes)))
        loose += await _unlinked(tx, stated, stated=True)
        relations = [row for (user_id, _), stored in self.puts.items() for row in relationships(user_id, stored)]
        await _run(tx, "link", relations=relations + await self._follows(tx))
        await _run(tx, "sweep", records=loose + gone)
        await _run(tx, "erased", records=[
            {"user_id": user_id, "key": name_of(key), "at": at} for (user_id, key), at in self.erased.items()
        ])  # fmt: skip

    async def _unstate(self, tx: Transaction) -> list[Row]:
        """Take out the relations that the touched edges stated before; returns empty nodes, as `_unlinked` does."""
        edges = [(user_id, key[1]) for user_id, key in [*self.puts, *self.gone] if key[0] == "Edge"]
        relations = [{"user_id": user_id, "id": edge_id} for user_id, edge_id in edges]
        return _named(await _run(tx, "unstate", relations=relations, count=MOST))

    async def _follows(self, tx: Transaction) -> list[Row]:
        """FOLLOWED_BY to and from each turn put, as far as there is a turn before and after it."""
        put = [(user_id, *stored.record.place()) for (user_id, _), stored in self.puts.items() if _is_placed(stored)]
        around = dict.fromkeys((u, c, index + step) for u, c, index in put for step in (-1, 0, 1))
        places = [{"user_id": u, "conversation_id": c, "index": index} for u, c, index in around]
        found = await _run(tx, "standing", places=places, count=len(places))
        standing = {(u, c, index): turn for (turns,) in found for u, c, index, turn in turns}
        targets = dict.fromkeys((u, c, index + step) for u, c, index in put for step in (0, 1))
        pairs = [((u, c, index - 1), (u, c, index)) for u, c, index in targets]
        return [
            follows(before[0], standing[before], standing[after])
            for before, after in pairs
            if before in standing and after in standing
        ]


async def _unlinked(tx: Transaction, records: Sequence[Row], *, stated: bool) -> list[Row]:
    """Take out what these records stated before; returns empty nodes that may be left with nothing."""
    asked = [{**record, "stated": stated} for record in records]
    return _named(await _run(tx, "unlink", records=asked, count=MOST))


def _named(found: Iterable[Sequence[Any]]) -> list[Row]:
    return [{"user_id": user_id, "key": name} for user_id, name in found]


def _is_placed(stored: Stored) -> bool:
    conversation, index = stored.record.place()
    return isinstance(stored.record, Turn) and bool(conversation) and index >= 0


def _place_of(user_id: str, key: Key) -> dict[str, Any]:
    return {"user_id": user_id, "key": name_of(key), "kind": key[0]}


async def _run(tx: Transaction, name: str, **values: Any) -> list[list[Any]]:
    """Run a statement for a list of rows; nothing for an empty one."""
    given: Sequence[Row] = next(iter(values.values()))
    return await rows(tx, writing(name), **values) if given else []
