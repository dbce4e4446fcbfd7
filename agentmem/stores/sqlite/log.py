"""The log in one SQLite file: every promise of LogStore, each kept by the module named like it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, TypeVar

from agentmem.model.changes import Audit, Change, JournalEntry
from agentmem.model.clock import Clock
from agentmem.model.dues import Laws
from agentmem.model.outline import OutlineRows
from agentmem.model.records import Key, Record
from agentmem.model.scope import Operator, Scope
from agentmem.stores import Head, Parked, Postings, Scan, Usage, Where
from agentmem.stores.fading import DEFAULT, Touch
from agentmem.stores.instant import Served, nothing_served
from agentmem.stores.sqlite import audit, journal, operations, records, usage
from agentmem.stores.sqlite.append import Append
from agentmem.stores.sqlite.beside import Beside
from agentmem.stores.sqlite.connection import Connection, Database
from agentmem.stores.sqlite.erase import Erasure
from agentmem.stores.sqlite.words import SqliteWords

T = TypeVar("T")
WAL_PENDING = "write-ahead log: another process is reading it; it is emptied when the last one closes the store"


def _ignored(step: str) -> None:
    """The hook of a log that nobody watches."""


class SqliteLog:
    """A LogStore. `hook` is called between the steps of a write (`append.STEPS`, `erase.STEPS`), for tests."""

    def __init__(
        self, database: Database, clock: Clock, *, laws: Laws = DEFAULT, hook: Callable[[str], None] = _ignored
    ) -> None:  # fmt: skip
        self.database = database
        self._clock = clock
        self._laws = laws
        self._hook = hook
        self._words = SqliteWords(database)
        self._served: Served = nothing_served

    async def _read(self, function: Callable[..., T], *arguments: Any) -> T:
        return await self.database.read(lambda db: function(db, *arguments))

    async def _write(self, function: Callable[..., T], *arguments: Any, durable: bool | None = None) -> T:
        return await self.database.write(lambda db: function(db, *arguments), durable=durable)

    # -- writing

    def serve(self, served: Served) -> None:
        """Write the vectors of what is served together with the log, where no model makes them."""
        self._served = served

    async def append(
        self, changes: Sequence[Change], audit: Audit | None = None, fence: int | None = None
    ) -> list[JournalEntry]:
        """See LogStore. A `fence` that no lease has any more is LeaseLost."""
        if not changes:
            return []
        work = Append(changes, audit, fence, self._clock, self._hook, self._laws)
        vectors = Beside(self.database, self._served())

        def write(db: Connection) -> list[JournalEntry]:
            entries = work.apply(db)
            vectors.write(db, entries)
            self._hook("vectors")
            return entries

        entries = await self.database.write(write, before=work.prepare, after=vectors.committed)
        self._hook("committed")
        return entries

    async def erase(
        self, scope: Scope, keys: Sequence[Key] | None, *, operation_id: str, at: datetime, seen: int | None = None
    ) -> Scan:
        """See LogStore. Unknown keys are passed over; what other processes hold of the write-ahead log is `pending`."""
        work = Erasure(scope, keys, operation_id, at, self._hook, seen)
        await self.database.write(work.apply)
        self._hook("erased")
        emptied = await self.database.truncate_log()
        self._hook("emptied")
        places, remnants = await self.database.read(work.remnants)
        return Scan(places, remnants, () if emptied else (WAL_PENDING,))

    async def audit(self, entries: Sequence[Audit]) -> None:
        """Add rows to memory_audit_log, in order."""
        if entries:
            await self._write(audit.insert, entries, self._clock)

    async def touch(
        self, keys: Sequence[Key], scope: Scope, receipt_id: str, *, used: bool = False, at: datetime,
        context_tags: Sequence[str] = (), boost: float = 0.0,
    ) -> None:  # fmt: skip
        """See LogStore. In a power cut the last counts may be lost, so it waits for no disk."""
        touch = Touch(receipt_id, used, at, tuple(context_tags), boost)
        await self._write(usage.touch, scope, keys, touch, self._laws, durable=False)

    # -- reading the journal

    async def applied(self, change_id: str, payload: str, scope: Scope) -> JournalEntry | None:
        """See LogStore."""

        def read(db: Connection) -> JournalEntry | None:
            seqs = journal.applied(db, scope.user_id, {change_id: payload})
            found = journal.entries_among(db, scope.user_id, seqs.values())
            return replace(found[0], repeated=True) if found else None

        return await self.database.read(read)

    async def head(self, scope: Scope) -> Head:
        """How far the user's journal reaches; all 0 for a user never seen."""
        return await self._read(journal.head, scope.user_id)

    async def seq_at(self, scope: Scope, moment: datetime) -> int:
        """See LogStore."""
        return await self._read(journal.seq_at, scope.user_id, moment)

    async def changes(self, scope: Scope, after: int, limit: int) -> list[JournalEntry]:
        """See LogStore. What was erased since is missing in the old entries and named `gone` in that of the erasure."""
        return await self._read(journal.entries_after, scope.user_id, after, limit)

    async def versions(self, key: Key, scope: Scope) -> list[Record]:
        """See LogStore."""
        return await self._read(journal.versions, scope.user_id, key)

    async def states(self, keys: Sequence[Key] | None, scope: Scope, through: int) -> dict[Key, Record]:
        """See LogStore. Keys that held nothing then are left out."""
        return await self._read(journal.states, scope.user_id, keys, through)

    async def operation(self, operation_id: str, scope: Scope) -> list[JournalEntry]:
        """See LogStore; [] for an unknown operation."""
        return await self._read(journal.operation, scope.user_id, operation_id)

    async def touched_since(self, keys: Sequence[Key], scope: Scope, after: int) -> dict[Key, int]:
        """See LogStore."""
        return await self._read(journal.touched_since, scope.user_id, keys, after)

    # -- reading records

    async def get(self, kind: str, ids: Sequence[str], scope: Scope) -> list[Record]:
        """See RecordStore."""
        return await self._read(records.get, scope.user_id, kind, ids)

    async def by_slot(self, slots: Sequence[int], scope: Scope, through: int | None = None) -> list[Record]:
        """See RecordStore."""
        found = await self._read(records.by_slot, scope.user_id, slots, through)
        return [record for _, record in found]

    async def find(
        self,
        scope: Scope,
        where: Where,
        *,
        order: str = "seq",
        descending: bool = False,
        limit: int = 100,
        offset: int = 0,
    ) -> list[Record]:
        """See RecordStore. Ties go by kind and id, whichever the direction."""
        return await self._read(records.find, scope.user_id, where, (order, descending), (limit, offset))

    async def count(self, scope: Scope, where: Where) -> int:
        """See RecordStore."""
        return await self._read(records.count, scope.user_id, where)

    async def outline(self, scope: Scope, after: int) -> tuple[OutlineRows, list[int], Head]:
        """See RecordStore."""

        def read(db: Connection) -> tuple[OutlineRows, list[int], Head]:
            return *records.outline(db, scope.user_id, after), journal.head(db, scope.user_id)

        return await self.database.read(read)

    async def outline_at(self, scope: Scope, through: int) -> tuple[OutlineRows, list[int]]:
        """See RecordStore."""
        return await self._read(records.outline_at, scope.user_id, through)

    async def match(self, terms: Sequence[str], scope: Scope) -> dict[str, Postings]:
        """See WordIndex."""
        return await self._words.match(terms, scope)

    async def audit_rows(self, scope: Scope, **filters: Any) -> list[dict[str, Any]]:
        """See LogStore. Times are ISO text as in the table; at most `limit` rows, 100 when it is not given."""
        return await self._read(audit.rows, scope.user_id, filters)

    async def keep_receipt(
        self, scope: Scope, receipt_id: str, receipt: str, at: datetime, seen: int | None = None
    ) -> None:
        """See LogStore."""
        await self._write(audit.keep_receipt, (scope.user_id, receipt_id), receipt, at, seen)

    async def receipt(self, receipt_id: str, scope: Scope) -> str | None:
        """See LogStore."""
        return await self._read(audit.receipt, scope.user_id, receipt_id)

    async def usage(self, keys: Sequence[Key], scope: Scope) -> dict[Key, Usage]:
        """How often these records were delivered and used; those never used are left out."""
        return await self._read(usage.usage, scope.user_id, keys)

    # -- the store as a whole

    async def users(self, operator: Operator, limit: int = 1000, after: str = "") -> list[str]:
        """Users with current records, by name, from `after` (exclusive) on."""
        return await self._read(operations.users, limit, after)

    async def behind(self, projection: str, operator: Operator, limit: int = 100) -> list[str]:
        """See LogStore."""
        return await self._read(operations.behind, projection, limit)

    async def note_reached(self, projection: str, marks: Mapping[str, int]) -> None:
        """See LogStore."""
        if marks:
            await self._write(operations.note_reached, projection, marks)

    async def park(self, parked: Parked) -> None:
        """Note a change that a projection passed over; the same one again replaces the note."""
        await self._write(operations.park, parked)

    async def parked(self, scope: Scope | Operator) -> list[Parked]:
        """What was parked for a user, or for all."""
        return await self._read(operations.parked, scope)

    async def meta(self) -> dict[str, str]:
        """See LogStore."""
        return await self._read(operations.meta)

    async def set_meta(self, values: Mapping[str, str]) -> None:
        """Record these values, over any that are there."""
        await self._write(operations.set_meta, values)

    async def default_meta(self, values: Mapping[str, str]) -> dict[str, str]:
        """See LogStore."""
        return await self._write(functools.partial(operations.set_meta, overwrite=False), values)

    async def count_opening(self) -> int:
        """See LogStore."""
        return await self._write(operations.count_opening)

    async def lease(self, name: str, ttl: float, owner: str) -> int | None:
        """See LogStore. `ttl` in seconds. The holder's own renewal keeps its token: its open writes stay good."""
        return await self._write(operations.lease, name, ttl, owner)

    async def release(self, name: str, owner: str) -> None:
        """Give up a lease; nothing when another holds it."""
        await self._write(operations.release, name, owner)

    async def maintain(self, now: datetime, keep_audit_days: int) -> dict[str, int]:
        """See LogStore. Returns how many rows were folded and dropped."""
        return await operations.maintain(self.database, now, keep_audit_days)

    async def stats(self, operator: Operator) -> dict[str, Any]:
        """Sizes of the file and counts of what is in it, over all users."""
        return await self._read(operations.stats, self.database)

    async def check(self, operator: Operator) -> list[str]:
        """See LogStore. Looks at the journal's gaplessness, projections ahead of it, and file permissions too."""
        return await self._read(operations.check, self.database)

    async def close(self) -> None:
        """Finish what runs and close the file; a second call does nothing."""
        await self.database.close()
