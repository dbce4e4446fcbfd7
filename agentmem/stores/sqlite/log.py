"""The log in one SQLite file: every promise of LogStore, each kept by the module named like it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, TypeVar

from agentmem.core.changes import AuditEntry, Change, JournalEntry
from agentmem.core.clock import Clock
from agentmem.core.columns import RecordColumnBatch
from agentmem.core.lifecycle import LifecyclePolicy
from agentmem.core.record import Key, Record
from agentmem.core.scope import Operator, Scope
from agentmem.errors import StoreError, StoreUnavailable
from agentmem.stores.due_updates import DEFAULT_POLICY, UsageEvent
from agentmem.stores.sqlite import audit, journal, meta, records, usage
from agentmem.stores.sqlite.database import Connection, SqliteDatabase, is_out_of_room
from agentmem.stores.sqlite.erase import SqliteErasure
from agentmem.stores.sqlite.terms import SqliteTermIndex
from agentmem.stores.sqlite.write import SqliteInlineVectorWriter, SqliteWrite
from agentmem.stores.values import DeadLetter, ErasureScan, Head, Postings, RecordUsage, Where
from agentmem.stores.write_plan import VectorSource, no_vectors

T = TypeVar("T")
MAX_REWRITE_BYTES = 64 * 1024 * 1024  # of a file that each erasure rewrites, in memory first
UNUSED_PARTS = "unused parts of the file's pages, which `agentmem admin compact` rewrites"
WAL_DEFERRED = "write-ahead log: another process is reading it; it is emptied when the last one closes the store"


def _count_bytes(db: Connection) -> int:
    return int(db.pragma("page_count") * db.pragma("page_size"))


def _ignore_step(step: str) -> None:
    """The hook of a log that nobody watches."""


class SqliteLog:
    """A LogStore. `hook` is called between the steps of a write (`append.STEPS`, `erase.STEPS`), for tests."""

    def __init__(
        self,
        database: SqliteDatabase,
        clock: Clock,
        *,
        policy: LifecyclePolicy = DEFAULT_POLICY,
        hook: Callable[[str], None] = _ignore_step,
    ) -> None:
        self.database = database
        self._clock = clock
        self._policy = policy
        self._hook = hook
        self._term_index = SqliteTermIndex(database)
        self._vector_source: VectorSource = no_vectors

    async def _read(self, function: Callable[..., T], *arguments: Any) -> T:
        return await self.database.read(lambda db: function(db, *arguments))

    async def _write(self, function: Callable[..., T], *arguments: Any, durable: bool | None = None) -> T:
        return await self.database.write(lambda db: function(db, *arguments), durable=durable)

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
        try:
            return await self._append(changes, audit, fence)
        except StoreUnavailable as error:
            if not await self._make_room(error):
                raise
            return await self._append(changes, audit, fence)

    async def _append(
        self, changes: Sequence[Change], audit: AuditEntry | None, fence: int | None
    ) -> list[JournalEntry]:
        work = SqliteWrite(changes, audit, fence, self._clock, self._hook, self._policy)
        vectors = SqliteInlineVectorWriter(self.database, self._vector_source())

        def write(db: Connection) -> list[JournalEntry]:
            entries = work.apply(db)
            vectors.write(db, entries)
            self._hook("vectors")
            return entries

        entries = await self.database.write(write, prepare=work.prepare, on_committed=vectors.on_committed)
        self._hook("committed")
        return entries

    async def _make_room(self, error: StoreError) -> bool:
        """On a full disk, move the write-ahead log into the file, which gives back what it took; True when it did."""
        if not is_out_of_room(error):
            return False
        try:
            return await self.database.truncate_wal(attempts=1)
        except StoreUnavailable:  # the file would have to grow for it
            return False

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
        """See LogStore. Skips unknown keys; what other processes hold of the write-ahead log is `deferred`."""
        work = SqliteErasure(scope, keys, operation_id, erased_at, self._hook, seen_seq, pruned)
        try:
            await self.database.write(work.apply)
        except StoreUnavailable as error:
            if not await self._make_room(error):
                raise
            await self.database.write(work.apply)
        self._hook("erased")
        deferred = (*await self._rewrite_after_erasure(), *await self._empty_log_after_erasure())
        self._hook("emptied")
        places, remnants = await self.database.read(work.find_leftovers)
        return ErasureScan(places, remnants, deferred)

    async def _rewrite_after_erasure(self) -> tuple[str, ...]:
        """Rewrite the file: what SQLite moves from page to page stays in the unused part of the old one, and its
        `secure_delete` does not reach it there. Says what was not rewritten, or ().
        """
        bytes_used = await self._read(_count_bytes)
        if bytes_used > MAX_REWRITE_BYTES:
            return (f"{UNUSED_PARTS}, of a file of more than {MAX_REWRITE_BYTES // 1024**2} MiB",)
        try:
            await self.database.rewrite()
        except StoreUnavailable as error:
            return (f"{UNUSED_PARTS}: {error}",)
        return ()

    async def _empty_log_after_erasure(self) -> tuple[str, ...]:
        """Cut the write-ahead log, which still holds what was erased; what keeps it from being cut, or ()."""
        try:
            return () if await self.database.truncate_wal() else (WAL_DEFERRED,)
        except StoreUnavailable as error:  # a full disk, of a store that is erased nevertheless
            return (f"write-ahead log, which `agentmem admin compact` empties once there is room: {error}",)

    async def write_audit(self, entries: Sequence[AuditEntry]) -> None:
        """Add rows to memory_audit_log, in order."""
        if entries:
            await self._write(audit.insert, entries, self._clock)

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
        """See LogStore. In a power cut the last counts may be lost, so it waits for no disk."""
        touch = UsageEvent(receipt_id, used, used_at, tuple(context_tags), boost, touched)
        await self._write(usage.record_usage, scope, keys, touch, self._policy, durable=False)

    # -- reading the journal

    async def find_applied(self, change_id: str, request_hash: str, scope: Scope) -> JournalEntry | None:
        """See LogStore."""

        def read(db: Connection) -> JournalEntry | None:
            seqs = journal.find_applied(db, scope.user_id, {change_id: request_hash})
            found = journal.entries_at(db, scope.user_id, seqs.values())
            return replace(found[0], already_applied=True) if found else None

        return await self.database.read(read)

    async def head(self, scope: Scope) -> Head:
        """How far the user's journal reaches; all 0 for a user never seen."""
        return await self._read(journal.head, scope.user_id)

    async def seq_at_time(self, scope: Scope, moment: datetime) -> int:
        """See LogStore."""
        return await self._read(journal.seq_at_time, scope.user_id, moment)

    async def changes(self, scope: Scope, after_seq: int, limit: int) -> list[JournalEntry]:
        """See LogStore. What was erased since is missing in the old entries and named `gone` in that of the erasure."""
        return await self._read(journal.entries_after, scope.user_id, after_seq, limit)

    async def versions(self, key: Key, scope: Scope) -> list[Record]:
        """See LogStore."""
        return await self._read(journal.versions, scope.user_id, key)

    async def snapshot_at(self, keys: Sequence[Key] | None, scope: Scope, through_seq: int) -> dict[Key, Record]:
        """See LogStore. Keys that held nothing then are left out."""
        return await self._read(journal.snapshot_at, scope.user_id, keys, through_seq)

    async def operation(self, operation_id: str, scope: Scope) -> list[JournalEntry]:
        """See LogStore; [] for an unknown operation."""
        return await self._read(journal.operation, scope.user_id, operation_id)

    async def changed_keys_since(self, keys: Sequence[Key], scope: Scope, after_seq: int) -> dict[Key, int]:
        """See LogStore."""
        return await self._read(journal.changed_keys_since, scope.user_id, keys, after_seq)

    # -- reading records

    async def read_records(self, kind: str, ids: Sequence[str], scope: Scope) -> list[Record]:
        """See RecordReader."""
        return await self._read(records.read_records, scope.user_id, kind, ids)

    async def read_by_ordinal(
        self, ordinals: Sequence[int], scope: Scope, through_seq: int | None = None
    ) -> list[Record]:
        """See RecordReader."""
        found = await self._read(records.read_by_ordinal, scope.user_id, ordinals, through_seq)
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
        return await self._read(records.find, scope.user_id, where, (order, descending), (limit, offset))

    async def count(self, scope: Scope, where: Where) -> int:
        """See RecordReader."""
        return await self._read(records.count, scope.user_id, where)

    async def read_columns(self, scope: Scope, after_seq: int) -> tuple[RecordColumnBatch, list[int], Head]:
        """See RecordReader."""

        def read(db: Connection) -> tuple[RecordColumnBatch, list[int], Head]:
            return *records.read_columns(db, scope.user_id, after_seq), journal.head(db, scope.user_id)

        return await self.database.read(read)

    async def read_columns_patch(self, scope: Scope, through_seq: int) -> tuple[RecordColumnBatch, list[int]]:
        """See RecordReader."""
        return await self._read(records.read_columns_patch, scope.user_id, through_seq)

    async def match(self, terms: Sequence[str], scope: Scope) -> dict[str, Postings]:
        """See TermIndex."""
        return await self._term_index.match(terms, scope)

    async def audit_rows(self, scope: Scope, **filters: Any) -> list[dict[str, Any]]:
        """See LogStore. Times are ISO text as in the table; at most `limit` rows, 100 when it is not given."""
        return await self._read(audit.audit_rows, scope.user_id, filters)

    async def write_receipt(
        self, scope: Scope, receipt_id: str, receipt: str, created_at: datetime, seen_seq: int | None = None
    ) -> None:
        """See LogStore."""
        await self._write(audit.write_receipt, (scope.user_id, receipt_id), receipt, created_at, seen_seq)

    async def find_receipt(self, receipt_id: str, scope: Scope) -> str | None:
        """See LogStore."""
        return await self._read(audit.find_receipt, scope.user_id, receipt_id)

    async def usage(self, keys: Sequence[Key], scope: Scope) -> dict[Key, RecordUsage]:
        """How often these records were delivered and used; those never used are left out."""
        return await self._read(usage.usage, scope.user_id, keys)

    # -- the store as a whole

    async def users(self, operator: Operator, limit: int = 1000, after: str = "") -> list[str]:
        """Users with current records, by name, from `after` (exclusive) on."""
        return await self._read(meta.users, limit, after)

    async def lagging_users(self, projection: str, operator: Operator, limit: int = 100) -> list[str]:
        """See LogStore."""
        return await self._read(meta.lagging_users, projection, limit)

    async def write_watermark_hints(self, projection: str, watermarks: Mapping[str, int]) -> None:
        """See LogStore."""
        if watermarks:
            await self._write(meta.write_watermark_hints, projection, watermarks)

    async def write_dead_letter(self, dead_letter: DeadLetter) -> None:
        """Note a change that a projection passed over; the same one again replaces the note."""
        await self._write(meta.write_dead_letter, dead_letter)

    async def dead_letters(self, scope: Scope | Operator) -> list[DeadLetter]:
        """What was parked for a user, or for all."""
        return await self._read(meta.dead_letters, scope)

    async def meta(self) -> dict[str, str]:
        """See LogStore."""
        return await self._read(meta.meta)

    async def set_meta(self, values: Mapping[str, str]) -> None:
        """Record these values, over any that are there."""
        await self._write(meta.set_meta, values)

    async def init_meta(self, values: Mapping[str, str]) -> dict[str, str]:
        """See LogStore."""
        return await self._write(functools.partial(meta.set_meta, overwrite=False), values)

    async def increment_openings(self) -> int:
        """See LogStore."""
        return await self._write(meta.increment_openings)

    async def acquire_lease(self, name: str, ttl: float, owner: str) -> int | None:
        """See LogStore. `ttl` in seconds. The holder's own renewal keeps its token: its open writes stay good."""
        return await self._write(meta.acquire_lease, name, ttl, owner)

    async def release_lease(self, name: str, owner: str) -> None:
        """Give up a lease; nothing when another holds it."""
        await self._write(meta.release_lease, name, owner)

    async def maintain(self, now: datetime, keep_audit_days: int) -> dict[str, int]:
        """See LogStore. Returns how many rows were folded and dropped."""
        return await meta.maintain(self.database, now, keep_audit_days)

    async def stats(self, operator: Operator) -> dict[str, Any]:
        """Sizes of the file and counts of what is in it, over all users."""
        return await self._read(meta.stats, self.database)

    async def check(self, operator: Operator) -> list[str]:
        """See LogStore. Looks at the journal's gaplessness, projections ahead of it, and file permissions too."""
        return await self._read(meta.check, self.database)

    async def close(self) -> None:
        """Finish what runs and close the file; a second call does nothing."""
        await self.database.close()
