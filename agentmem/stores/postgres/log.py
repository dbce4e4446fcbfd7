"""The log in one database: every promise of LogStore, each kept by the module named like it."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import groupby
from typing import TYPE_CHECKING, Any, TypeVar

from agentmem.errors import AgentMemError
from agentmem.model.changes import Audit, Change, JournalEntry
from agentmem.model.clock import Clock
from agentmem.model.dues import Laws
from agentmem.model.outline import OutlineRows
from agentmem.model.records import Key, Record
from agentmem.model.scope import SYSTEM_USER, Operator, Scope
from agentmem.stores.fading import DEFAULT, Touch
from agentmem.stores.instant import Served, nothing_served
from agentmem.stores.postgres import audit, journal, operations, records, usage
from agentmem.stores.postgres.append import Append
from agentmem.stores.postgres.beside import Beside
from agentmem.stores.postgres.connection import Database, Who, become
from agentmem.stores.postgres.erase import Erasure
from agentmem.stores.postgres.words import PostgresWords
from agentmem.stores.values import Head, Parked, Postings, Scan, Usage, Where

if TYPE_CHECKING:
    from agentmem.stores.postgres.connection import Connection

T = TypeVar("T")
ERASE_SECONDS = 300.0
PENDING = (
    "dead rows: until the server's vacuum has gone over the tables",
    "write-ahead log: until the server has let go of the files written before the erasure, archived ones too",
    "backups and replicas: those made before the erasure hold what was erased",
)


def _ignored(step: str) -> None:
    """The hook of a log that nobody watches."""


class PostgresLog:
    """A LogStore. `hook` is told of the steps of a write (`append.STEPS`), for tests.

    A step is told when its statements were sent: they are sent without waiting, so the server may be behind. Where a
    transaction is tried again, its steps are told again.
    """

    def __init__(
        self, database: Database, clock: Clock, *, laws: Laws = DEFAULT, hook: Callable[[str], None] = _ignored
    ) -> None:  # fmt: skip
        self.database = database
        self._clock = clock
        self._laws = laws
        self._hook = hook
        self._words = PostgresWords(database)
        self._served: Served = nothing_served

    async def _read(self, who: Who, function: Callable[..., Awaitable[T]], *arguments: Any) -> T:
        return await self.database.read(who, lambda db: function(db, *arguments))

    async def _write(self, who: Who, function: Callable[..., Awaitable[T]], *arguments: Any) -> T:
        return await self.database.write(who, lambda db: function(db, *arguments))

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
        work.prepare()
        vectors = Beside(self.database, self._served())
        try:
            entries = await self._append(work, vectors)
        except AgentMemError as error:
            if not vectors.may_have_failed(error):
                raise
            entries = await self._append(work, Beside(self.database, None))  # nothing was committed; they follow
        else:
            await vectors.committed()
        self._hook("committed")
        return entries

    async def _append(self, work: Append, vectors: Beside) -> list[JournalEntry]:
        async def write(db: Connection) -> list[JournalEntry]:
            entries = await vectors.write(db, work.apply)
            self._hook("vectors")
            return entries

        return await self.database.write(work.user_id, write, seconds=10 + len(work.changes) / 50)

    async def erase(
        self, scope: Scope, keys: Sequence[Key] | None, *, operation_id: str, at: datetime, seen: int | None = None
    ) -> Scan:
        """See LogStore. Unknown keys are passed over; what only the server and its owner can remove is `pending`."""
        work = Erasure(scope, keys, operation_id, at, seen)
        await self.database.write(scope, work.apply, seconds=ERASE_SECONDS)
        places, remnants = await self.database.read(scope, work.remnants, seconds=ERASE_SECONDS)
        return Scan(places, remnants, PENDING if work.erased else ())

    async def audit(self, entries: Sequence[Audit]) -> None:
        """Add rows to memory_audit_log, in order."""

        async def write(db: Connection) -> None:
            for user_id, those in groupby(entries, audit.owner):
                await become(db, user_id)
                await audit.insert(db, list(those), self._clock)

        if entries:
            await self.database.write(audit.owner(entries[0]), write)

    async def touch(
        self, keys: Sequence[Key], scope: Scope, receipt_id: str, *, used: bool = False, at: datetime,
        context_tags: Sequence[str] = (), boost: float = 0.0,
    ) -> None:  # fmt: skip
        """See LogStore. That it was delivered may be lost with the server's machine; that it was used may not."""
        write = self.database.write if used else self.database.note
        touch = Touch(receipt_id, used, at, tuple(context_tags), boost)
        await write(scope, lambda db: usage.touch(db, scope, keys, touch, self._laws))

    # -- reading the journal

    async def applied(self, change_id: str, payload: str, scope: Scope) -> JournalEntry | None:
        """See LogStore."""

        async def read(db: Connection) -> JournalEntry | None:
            seqs = await journal.applied(db, scope.user_id, {change_id: payload})
            found = await journal.entries_among(db, scope.user_id, seqs.values()) if seqs else []
            return replace(found[0], repeated=True) if found else None

        return await self.database.read(scope, read)

    async def head(self, scope: Scope) -> Head:
        """How far the user's journal reaches; all 0 for a user never seen."""
        return await self._read(scope, journal.head, scope.user_id)

    async def seq_at(self, scope: Scope, moment: datetime) -> int:
        """See LogStore."""
        return await self._read(scope, journal.seq_at, scope.user_id, moment)

    async def changes(self, scope: Scope, after: int, limit: int) -> list[JournalEntry]:
        """See LogStore. What was erased since is missing in the old entries and named `gone` in that of the erasure."""
        return await self._read(scope, journal.entries_after, scope.user_id, after, limit)

    async def versions(self, key: Key, scope: Scope) -> list[Record]:
        """See LogStore."""
        return await self._read(scope, journal.versions, scope.user_id, key)

    async def states(self, keys: Sequence[Key] | None, scope: Scope, through: int) -> dict[Key, Record]:
        """See LogStore. Keys that held nothing then are left out."""
        return await self._read(scope, journal.states, scope.user_id, keys, through)

    async def operation(self, operation_id: str, scope: Scope) -> list[JournalEntry]:
        """See LogStore; [] for an unknown operation."""
        return await self._read(scope, journal.operation, scope.user_id, operation_id)

    async def touched_since(self, keys: Sequence[Key], scope: Scope, after: int) -> dict[Key, int]:
        """See LogStore."""
        return await self._read(scope, journal.touched_since, scope.user_id, keys, after)

    # -- reading records

    async def get(self, kind: str, ids: Sequence[str], scope: Scope) -> list[Record]:
        """See RecordStore."""
        return await self._read(scope, records.get, scope.user_id, kind, ids)

    async def by_slot(self, slots: Sequence[int], scope: Scope, through: int | None = None) -> list[Record]:
        """See RecordStore."""
        found = await self._read(scope, records.by_slot, scope.user_id, slots, through)
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
        return await self._read(scope, records.find, scope.user_id, where, (order, descending), (limit, offset))

    async def count(self, scope: Scope, where: Where) -> int:
        """See RecordStore."""
        return await self._read(scope, records.count, scope.user_id, where)

    async def outline(self, scope: Scope, after: int) -> tuple[OutlineRows, list[int], Head]:
        """See RecordStore."""

        async def read(db: Connection) -> tuple[OutlineRows, list[int], Head]:
            found, gone = await records.outline(db, scope.user_id, after)
            return found, gone, await journal.head(db, scope.user_id)

        return await self.database.read(scope, read)

    async def outline_at(self, scope: Scope, through: int) -> tuple[OutlineRows, list[int]]:
        """See RecordStore."""
        return await self._read(scope, records.outline_at, scope.user_id, through)

    async def match(self, terms: Sequence[str], scope: Scope) -> dict[str, Postings]:
        """See WordIndex."""
        return await self._words.match(terms, scope)

    async def audit_rows(self, scope: Scope, **filters: Any) -> list[dict[str, Any]]:
        """See LogStore. Times are ISO text; at most `limit` rows, 100 when it is not given."""
        return await self._read(scope, audit.audit_rows, scope.user_id, filters)

    async def keep_receipt(
        self, scope: Scope, receipt_id: str, receipt: str, at: datetime, seen: int | None = None
    ) -> None:
        """See LogStore."""
        await self._write(scope, audit.keep_receipt, (scope.user_id, receipt_id), receipt, at, seen)

    async def receipt(self, receipt_id: str, scope: Scope) -> str | None:
        """See LogStore."""
        return await self._read(scope, audit.receipt, scope.user_id, receipt_id)

    async def usage(self, keys: Sequence[Key], scope: Scope) -> dict[Key, Usage]:
        """How often these records were delivered and used; those never used are left out."""
        return await self._read(scope, usage.usage, scope.user_id, keys)

    # -- the store as a whole

    async def users(self, operator: Operator, limit: int = 1000, after: str = "") -> list[str]:
        """Users with current records, by name, from `after` (exclusive) on."""
        return await self._read(operator, operations.users, limit, after)

    async def behind(self, projection: str, operator: Operator, limit: int = 100) -> list[str]:
        """See LogStore."""
        return await self._read(operator, operations.behind, projection, limit)

    async def note_reached(self, projection: str, marks: Mapping[str, int]) -> None:
        """See LogStore."""
        if marks:
            await self._write(min(marks), operations.note_reached, projection, marks)

    async def park(self, parked: Parked) -> None:
        """Note a change that a projection passed over; the same one again replaces the note."""
        await self._write(parked.user_id, operations.park, parked)

    async def parked(self, scope: Scope | Operator) -> list[Parked]:
        """What was parked for a user, or for all."""
        return await self._read(scope, operations.parked, scope)

    async def meta(self) -> dict[str, str]:
        """See LogStore."""
        return await self._read(SYSTEM_USER, operations.meta)

    async def set_meta(self, values: Mapping[str, str]) -> None:
        """Record these values, over any that are there."""
        await self._write(SYSTEM_USER, operations.set_meta, values)

    async def default_meta(self, values: Mapping[str, str]) -> dict[str, str]:
        """See LogStore."""
        return await self._write(SYSTEM_USER, functools.partial(operations.set_meta, overwrite=False), values)

    async def count_opening(self) -> int:
        """See LogStore."""
        return await self._write(SYSTEM_USER, operations.count_opening)

    async def lease(self, name: str, ttl: float, owner: str) -> int | None:
        """See LogStore. `ttl` in seconds. The holder's own renewal keeps its token: its open writes stay good."""
        return await self._write(SYSTEM_USER, operations.lease, name, ttl, owner)

    async def release(self, name: str, owner: str) -> None:
        """Give up a lease; nothing when another holds it."""
        await self._write(SYSTEM_USER, operations.release, name, owner)

    async def maintain(self, now: datetime, keep_audit_days: int) -> dict[str, int]:
        """See LogStore. Returns how many rows were folded and dropped."""
        return await operations.maintain(self.database, now, keep_audit_days)

    async def stats(self, operator: Operator) -> dict[str, Any]:
        """Size of the database and counts of what is in it, over all users."""
        return await self._read(operator, operations.stats, self.database.place)

    async def check(self, operator: Operator) -> list[str]:
        """See LogStore. Looks at the journal's gaplessness, projections ahead of it, and indexes."""
        return await self._read(operator, operations.check)

    async def close(self) -> None:
        """Close the connections; a second call does nothing."""
        await self.database.close()
