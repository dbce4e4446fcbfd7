"""Records and changes as the conformance tests write them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

from agentmem.core.changes import Change, JournalEntry, hash_request
from agentmem.core.clock import derive_id
from agentmem.core.record import Key, Record
from agentmem.core.records import Conversation, Edge, EdgeKind, Entity, Fact, Turn, build_record
from agentmem.core.scope import Scope
from agentmem.stores.protocols import LogStore

START = datetime(2024, 3, 1, 12, 0, tzinfo=UTC)
_numbers = count()


class SettableClock:
    """A clock that stands still until it is set."""

    def __init__(self, now: datetime = START) -> None:
        self.time = now

    def now(self) -> datetime:
        """The moment it was set to."""
        return self.time

    def advance(self, **by: float) -> datetime:
        """Move on, or back, by a timedelta's arguments."""
        self.time += timedelta(**by)
        return self.time


def build_turn(name: str, content: str = "", conversation: str = "talk", **fields: Any) -> Turn:
    """A turn of a conversation, without an index unless one is given."""
    fields.setdefault("timestamp", START)
    return build_record(Turn, id=name, content=content or f"This is {name}.", conversation_id=conversation, **fields)


def build_fact(name: str, claim: str = "", **fields: Any) -> Fact:
    """A fact; facts with the same claim have the same unique value."""
    claim = claim or f"The claim of {name}"
    return build_record(Fact, id=name, claim=claim, claim_hash=hash_request(claim=claim), **fields)


def build_entity(name: str, **fields: Any) -> Entity:
    """An entity called by its id."""
    return build_record(Entity, id=name, name=name.title(), slug=name, **fields)


def build_edge(name: str, source: str, target: str) -> Edge:
    """A relation between two entities."""
    return build_record(Edge, id=name, edge_kind=EdgeKind.KNOWS, source=source, target=target)


def build_change(scope: Scope, *puts: Record, key: str | None = None, **fields: Any) -> Change:
    """A change that puts records; the same `key` makes the same change_id, otherwise each is its own."""
    name = key if key is not None else f"change {next(_numbers)}"
    fields.setdefault("operation", "store")
    fields.setdefault("operation_id", f"operation of {name}")
    return Change(scope=scope, change_id=derive_id(scope.user_id, name), upserts=puts, **fields)


def build_turn_changes(scope: Scope, *names: str, conversation: str = "talk") -> list[Change]:
    """One change per turn, as `store_turns` makes them, each ensuring the conversation."""
    return [
        build_change(
            scope,
            build_turn(name, conversation=conversation),
            key=f"turn {name}",
            inserts_if_absent=(Conversation(id=conversation),),
            expected_versions={("Turn", name): None},
            request_hash=f"what {name} says",
        )
        for name in names
    ]


async def write_records(log: LogStore, scope: Scope, *records: Record, **fields: Any) -> JournalEntry:
    """Write one change and return its entry."""
    (entry,) = await log.append([build_change(scope, *records, **fields)])
    return entry


async def delete_records(log: LogStore, scope: Scope, *keys: Key) -> JournalEntry:
    """Take records out of the current state."""
    (entry,) = await log.append([build_change(scope, deletes=keys)])
    return entry


def record_ids(records: Sequence[Record]) -> list[str]:
    """The ids, in order."""
    return [record.id for record in records]


def entry_seqs(entries: Sequence[JournalEntry]) -> list[int]:
    """The positions, in order."""
    return [entry.seq for entry in entries]


def claims_by_id(states: Mapping[Key, Record]) -> dict[str, str]:
    """The claims of facts, by id."""
    return {key[1]: record.claim for key, record in states.items() if isinstance(record, Fact)}


async def query_view(log: LogStore, scope: Scope, columns: str, view: str) -> list[tuple[object, ...]]:
    """What a view of the store shows of a user."""
    from agentmem.stores.postgres import PostgresLog
    from agentmem.stores.sqlite import SqliteLog

    asked = f"SELECT {columns} FROM {view} WHERE user_id = "
    if isinstance(log, SqliteLog):
        return await log.database.read(lambda db: list(db.execute(asked + "?", (scope.user_id,))))
    assert isinstance(log, PostgresLog)

    async def read(db: Any) -> list[tuple[object, ...]]:
        cursor = await db.execute(asked + "%s", (scope.user_id,))
        return list(await cursor.fetchall())

    return await log.database.query(scope, read)
