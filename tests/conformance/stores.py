"""What tests of the stores share: opened files, a clock set by hand, short ways to write records, faces of a log."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import apsw

from agentmem.core.changes import Change
from agentmem.core.record import Key, Record
from agentmem.core.records import Entity, Fact, Goal, Turn, build_record
from agentmem.core.scope import Scope
from agentmem.stores.admin import StoreAdmin
from agentmem.stores.protocols import LogStore, VectorIndex
from agentmem.stores.sqlite import SqliteLog, open_log

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
_CHANGES = count(1)


class ManualClock:
    """A clock that stands still until it is moved."""

    def __init__(self, now: datetime = START) -> None:
        self._time = now

    def now(self) -> datetime:
        return self._time

    def advance(self, seconds: float) -> None:
        self._time += timedelta(seconds=seconds)


@asynccontextmanager
async def open_sqlite_log(path: Path, clock: ManualClock | None = None) -> AsyncIterator[SqliteLog]:
    """The log of a file, closed at the end."""
    log = await open_log(path, clock or ManualClock())
    try:
        yield log
    finally:
        await log.close()


def admin_of(log: LogStore) -> StoreAdmin:
    """The upkeep face of a log, whatever its backend is."""
    if isinstance(log, SqliteLog):
        from agentmem.stores.sqlite import SqliteAdmin

        return SqliteAdmin(log.database)
    from agentmem.stores import postgres

    assert isinstance(log, postgres.PostgresLog)
    return postgres.PostgresAdmin(log.database)


async def open_vector_index(log: LogStore, identity: str, dimensions: int) -> VectorIndex:
    """The vectors of an embedder beside a log, whatever its backend is."""
    if isinstance(log, SqliteLog):
        from agentmem.stores.sqlite import open_vectors

        return await open_vectors(log.database, identity, dimensions)
    from agentmem.stores import postgres

    assert isinstance(log, postgres.PostgresLog)
    return await postgres.open_vectors(log.database, identity, dimensions)


def deferred_places(log: LogStore) -> tuple[str, ...]:
    """What an erasure leaves to others: nothing in a file that nobody else reads, vacuum and backups on a server."""
    if isinstance(log, SqliteLog):
        return ()
    from agentmem.stores.postgres.log import DEFERRED_REMOVALS

    return DEFERRED_REMOVALS


def build_change(scope: Scope, puts: Iterable[Record] = (), retracts: Iterable[Key] = ()) -> Change:
    """A change with ids of its own that nothing else is expected of."""
    name = f"change-{next(_CHANGES)}"
    return Change(
        scope=scope, operation="test", operation_id=name, change_id=name, upserts=tuple(puts), deletes=tuple(retracts)
    )


async def write_records(log: LogStore, scope: Scope, *records: Record) -> None:
    """Store records in one change, each in its own channel."""
    await log.append([build_change(scope, [_owned(record, scope) for record in records])])


async def delete_records(log: LogStore, scope: Scope, *keys: Key) -> None:
    """Take records out of the current state."""
    await log.append([build_change(scope, retracts=keys)])


def _owned(record: Record, scope: Scope) -> Record:
    return record.model_copy(update={"user_id": scope.user_id})


def build_turn(name: str, index: int, conversation: str = "c1", /, **fields: Any) -> Turn:
    """A turn with some text."""
    return build_record(
        Turn, **{"id": name, "conversation_id": conversation, "index": index, "content": f"text {name}", **fields}
    )


def build_fact(name: str, /, **fields: Any) -> Fact:
    """A fact with a claim of its own."""
    return build_record(Fact, **{"id": name, "claim": f"claim {name}", "claim_hash": name, **fields})


def build_entity(name: str, /, **fields: Any) -> Entity:
    """An entity with a slug of its own."""
    return build_record(Entity, **{"id": name, "name": name, "slug": name, **fields})


def build_goal(name: str, /, **fields: Any) -> Goal:
    """A goal."""
    return build_record(Goal, **{"id": name, "description": f"reach {name}", **fields})


def explain_query(db: apsw.Connection, statement: str, values: Mapping[str, Any]) -> list[str]:
    """The lines of the query plan."""
    known = {name: value for name, value in values.items() if f":{name}" in statement}
    return [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {statement}", known)]


def find_full_scans(lines: list[str]) -> list[str]:
    """The lines that read a table or an index from end to end; lists given as JSON are read whole, of course."""
    harmless = ("VIRTUAL TABLE", "CONSTANT ROW", "(subquery")
    return [line for line in lines if line.startswith("SCAN") and not any(mark in line for mark in harmless)]
