"""The log in one database: every promise of LogStore, each kept by the module named like it."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import groupby
from typing import TYPE_CHECKING, Any, TypeVar

from agentmem.core.changes import AuditEntry, Change, JournalEntry
from agentmem.core.clock import Clock
from agentmem.core.columns import RecordColumnBatch
from agentmem.core.lifecycle import LifecyclePolicy
from agentmem.core.record import Key, Record
from agentmem.core.scope import SYSTEM_USER, Operator, Scope
from agentmem.errors import AgentMemError
from agentmem.stores.due_updates import DEFAULT_POLICY, UsageEvent
from agentmem.stores.postgres import audit, journal, meta, records, usage
from agentmem.stores.postgres.database import PostgresDatabase, Principal, set_user
from agentmem.stores.postgres.erase import PostgresErasure
from agentmem.stores.postgres.terms import PostgresTermIndex
from agentmem.stores.postgres.write import PostgresInlineVectorWriter, PostgresWrite
from agentmem.stores.values import DeadLetter, ErasureScan, Head, Postings, RecordUsage, Where
from agentmem.stores.write_plan import VectorSource, no_vectors

if TYPE_CHECKING:
    from agentmem.stores.postgres.database import Connection

T = TypeVar("T")
ERASE_SECONDS = 300.0
DEFERRED_REMOVALS = (
    "dead rows: until the server's vacuum has gone over the tables",
    "write-ahead log: until the server has let go of the files written before the erasure, archived ones too",
    "backups and replicas: those made before the erasure hold what was erased",
)


def _ignore_step(step: str) -> None:
    """The hook of a log that nobody watches."""


class PostgresLog:
    """A LogStore. `hook` is told of the steps of a write (`append.STEPS`), for tests.

    A step is told when its statements were sent: they are sent without waiting, so the server may be behind. Where a
    transaction is tried again, its steps are told again.
    """

    def __init__(
        self,
        database: PostgresDatabase,
        clock: Clock,
        *,
        policy: LifecyclePolicy = DEFAULT_POLICY,
        hook: Callable[[str], None] = _ignore_step,
    ) -> None:
        self.database = database
        self._clock = clock
        self._policy = policy
        self._hook = hook
        self._term_index = PostgresTermIndex(database)
        self._vector_source: VectorSource = no_vectors

    async def _read(self, principal: Principal, function: Callable[..., Awaitable[T]], *arguments: Any) -> T:
        return await self.database.read(principal, lambda db: function(db, *arguments))

    async def _write(self, principal: Principal, function: Callable[..., Awaitable[T]], *arguments: Any) -> T:
        return await self.database.write(principal, lambda db: function(db, *arguments))

    # -- writing

    def set_vector_source(self, source: VectorSource) -> None:
        """Write the vectors of what is served together with the log, where no model makes them."""
        self._vector_source = source

    async def append(
        self, changes: Sequence[Change], audit: AuditEntry | None = None, fence: int | None = None
    ) -> list[JournalEntry]:
        """See LogStore. A `fence` that no lease has any more is LeaseLost."""
        if not changes:
            return []
        work = PostgresWrite(changes, audit, fence, self._clock, self._hook, self._policy)
        work.prepare()
        vectors = PostgresInlineVectorWriter(self.database, self._vector_source())
        try:
            entries = await self._append(work, vectors)
        except AgentMemError as error:
            if not vectors.should_retry_without_vectors(error):
                raise
            # nothing was committed; they follow
            entries = await self._append(work, PostgresInlineVectorWriter(self.database, None))
        else:
            await vectors.on_committed()
        self._hook("committed")
        return entries

    async def _append(self, work: PostgresWrite, vectors: PostgresInlineVectorWriter) -> list[JournalEntry]:
        async def write(db: Connection) -> list[JournalEntry]:
            entries = await vectors.write(db, work.apply)
            self._hook("vectors")
            return entries

        return await self.database.write(work.user_id, write, timeout_seconds=10 + len(work.changes) / 50)

    async def erase(
        self,
        scope: Scope,
        keys: Sequence[Key] | None,
        *,
        operation_id: str,
        erased_at: datetime,
        seen_seq: int | None = None,
        pruned: Sequence[Key] = (),
    ) -> ErasureScan:
        """See LogStore. Unknown keys are passed over; what only the server and its owner can remove is `deferred`."""
        work = PostgresErasure(scope, keys, operation_id, erased_at, seen_seq, pruned)
        await self.database.write(scope, work.apply, timeout_seconds=ERASE_SECONDS)
        places, remnants = await self.database.read(scope, work.find_leftovers, timeout_seconds=ERASE_SECONDS)
        return ErasureScan(places, remnants, DEFERRED_REMOVALS if work.has_erased else ())

    async def write_audit(self, entries: Sequence[AuditEntry]) -> None:
        """Add rows to memory_audit_log, in order."""

        async def write(db: Connection) -> None:
            for user_id, those in groupby(entries, audit.owner):
                await set_user(db, user_id)
                await audit.insert(db, list(those), self._clock)

        if entries:
            await self.database.write(audit.owner(entries[0]), write)

    async def record_usage(
        self,
        keys: Sequence[Key],
        scope: Scope,
        receipt_id: str,
        *,
        used: bool = False,
        used_at: datetime,
        context_tags: Sequence[str] = (),
        boost: float = 0.0,
        touched: bool = False,
    ) -> None:
        """See LogStore. That it was delivered may be lost with the server's machine; that it was used may not."""
        write = self.database.write if used else self.database.write_relaxed
        touch = UsageEvent(receipt_id, used, used_at, tuple(context_tags), boost, touched)
        await write(scope, lambda db: usage.record_usage(db, scope, keys, touch, self._policy))

    # -- reading the journal

    async def find_applied(self, change_id: str, request_hash: str, scope: Scope) -> JournalEntry | None:
        """See LogStore."""

        async def read(db: Connection) -> JournalEntry | None:
            seqs = await journal.find_applied(db, scope.user_id, {change_id: request_hash})
            found = await journal.entries_at(db, scope.user_id, seqs.values()) if seqs else []
            return replace(found[0], already_applied=True) if found else None

        return await self.database.read(scope, read)

    async def head(self, scope: Scope) -> Head:
        """How far the user's journal reaches; all 0 for a user never seen."""
        return await self._read(scope, journal.head, scope.user_id)

    async def seq_at_time(self, scope: Scope, moment: datetime) -> int:
        """See LogStore."""
        return await self._read(scope, journal.seq_at_time, scope.user_id, moment)

    async def changes(self, scope: Scope, after_seq: int, limit: int) -> list[JournalEntry]:
        """See LogStore. What was erased since is missing in the old entries and named `gone` in that of the erasure."""
        return await self._read(scope, journal.entries_after, scope.user_id, after_seq, limit)

    async def versions(self, key: Key, scope: Scope) -> list[Record]:
        """See LogStore."""
        return await self._read(scope, journal.versions, scope.user_id, key)

    async def snapshot_at(self, keys: Sequence[Key] | None, scope: Scope, through_seq: int) -> dict[Key, Record]:
        """See LogStore. Keys that held nothing then are left out."""
        return await self._read(scope, journal.snapshot_at, scope.user_id, keys, through_seq)

    async def operation(self, operation_id: str, scope: Scope) -> list[JournalEntry]:
        """See LogStore; [] for an unknown operation."""
        return await self._read(scope, journal.operation, scope.user_id, operation_id)

    async def changed_keys_since(self, keys: Sequence[Key], scope: Scope, after_seq: int) -> dict[Key, int]:
        """See LogStore."""
        return await self._read(scope, journal.changed_keys_since, scope.user_id, keys, after_seq)

    # -- reading records

    async def read_records(self, kind: str, ids: Sequence[str], scope: Scope) -> list[Record]:
        """See RecordReader."""
        return await self._read(scope, records.read_records, scope.user_id, kind, ids)

    async def read_by_ordinal(
        self, ordinals: Sequence[int], scope: Scope, through_seq: int | None = None
    ) -> list[Record]:
        """See RecordReader."""
        found = await self._read(scope, records.read_by_ordinal, scope.user_id, ordinals, through_seq)
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
        """See RecordReader. Ties go by kind and id, whichever the direction."""
        return await self._read(scope, records.find, scope.user_id, where, (order, descending), (limit, offset))

    async def count(self, scope: Scope, where: Where) -> int:
        """See RecordReader."""
        return await self._read(scope, records.count, scope.user_id, where)

    async def read_columns(self, scope: Scope, after_seq: int) -> tuple[RecordColumnBatch, list[int], Head]:
        """See RecordReader."""

        async def read(db: Connection) -> tuple[RecordColumnBatch, list[int], Head]:
            found, gone = await records.read_columns(db, scope.user_id, after_seq)
            return found, gone, await journal.head(db, scope.user_id)

        return await self.database.read(scope, read)

    async def read_columns_patch(self, scope: Scope, through_seq: int) -> tuple[RecordColumnBatch, list[int]]:
        """See RecordReader."""
        return await self._read(scope, records.read_columns_patch, scope.user_id, through_seq)

    async def match(self, terms: Sequence[str], scope: Scope) -> dict[str, Postings]:
        """See TermIndex."""
        return await self._term_index.match(terms, scope)

    async def audit_rows(self, scope: Scope, **filters: Any) -> list[dict[str, Any]]:
        """See LogStore. Times are ISO text; at most `limit` rows, 100 when it is not given."""
        return await self._read(scope, audit.audit_rows, scope.user_id, filters)

    async def write_receipt(
        self, scope: Scope, receipt_id: str, receipt: str, created_at: datetime, seen_seq: int | None = None
    ) -> None:
        """See LogStore."""
        await self._write(scope, audit.write_receipt, (scope.user_id, receipt_id), receipt, created_at, seen_seq)

    async def find_receipt(self, receipt_id: str, scope: Scope) -> str | None:
        """See LogStore."""
        return await self._read(scope, audit.find_receipt, scope.user_id, receipt_id)

    async def usage(self, keys: Sequence[Key], scope: Scope) -> dict[Key, RecordUsage]:
        """How often these records were delivered and used; those never used are left out."""
        return await self._read(scope, usage.usage, scope.user_id, keys)

    # -- the store as a whole

    async def users(self, operator: Operator, limit: int = 1000, after: str = "") -> list[str]:
        """Users with current records, by name, from `after` (exclusive) on."""
        return await self._read(operator, meta.users, limit, after)

    async def lagging_users(self, projection: str, operator: Operator, limit: int = 100) -> list[str]:
        """See LogStore."""
        return await self._read(operator, meta.lagging_users, projection, limit)

    async def write_watermark_hints(self, projection: str, watermarks: Mapping[str, int]) -> None:
        """See LogStore."""
        if watermarks:
            await self._write(min(watermarks), meta.write_watermark_hints, projection, watermarks)

    async def write_dead_letter(self, dead_letter: DeadLetter) -> None:
        """Note a change that a projection passed over; the same one again replaces the note."""
        await self._write(dead_letter.user_id, meta.write_dead_letter, dead_letter)

    async def dead_letters(self, scope: Scope | Operator) -> list[DeadLetter]:
        """What was parked for a user, or for all."""
        return await self._read(scope, meta.dead_letters, scope)

    async def meta(self) -> dict[str, str]:
        """See LogStore."""
        return await self._read(SYSTEM_USER, meta.meta)

    async def set_meta(self, values: Mapping[str, str]) -> None:
        """Record these values, over any that are there."""
        await self._write(SYSTEM_USER, meta.set_meta, values)

    async def init_meta(self, values: Mapping[str, str]) -> dict[str, str]:
        """See LogStore."""
        return await self._write(SYSTEM_USER, functools.partial(meta.set_meta, overwrite=False), values)

    async def increment_openings(self) -> int:
        """See LogStore."""
        return await self._write(SYSTEM_USER, meta.increment_openings)

    async def acquire_lease(self, name: str, ttl: float, owner: str) -> int | None:
        """See LogStore. `ttl` in seconds. The holder's own renewal keeps its token: its open writes stay good."""
        return await self._write(SYSTEM_USER, meta.acquire_lease, name, ttl, owner)

    async def release_lease(self, name: str, owner: str) -> None:
        """Give up a lease; nothing when another holds it."""
        await self._write(SYSTEM_USER, meta.release_lease, name, owner)

    async def maintain(self, now: datetime, keep_audit_days: int) -> dict[str, int]:
        """See LogStore. Returns how many rows were folded and dropped."""
        return await meta.maintain(self.database, now, keep_audit_days)

    async def stats(self, operator: Operator) -> dict[str, Any]:
        """Size of the database and counts of what is in it, over all users."""
        return await self._read(operator, meta.stats, self.database.address)

    async def check(self, operator: Operator) -> list[str]:
        """See LogStore. Looks at the journal's gaplessness, projections ahead of it, and indexes."""
        return await self._read(operator, meta.check)

    async def close(self) -> None:
        """Close the connections; a second call does nothing."""
        await self.database.close()
