"""LogStore on one SQLite file: appending, erasing and what else differs from a server. The rest is in `SqlLog`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, TypeVar

from agentmem.core.changes import AuditEntry, Change, JournalEntry
from agentmem.core.columns import RecordColumnBatch
from agentmem.core.record import Key
from agentmem.core.scope import Operator, Scope
from agentmem.errors import StoreUnavailable
from agentmem.stores.protocols import InlineVectors
from agentmem.stores.sql import meta
from agentmem.stores.sql.log import SqlLog
from agentmem.stores.sqlite import audit, records
from agentmem.stores.sqlite.connection import SqliteConnection
from agentmem.stores.sqlite.database import SqliteDatabase, check_permissions
from agentmem.stores.sqlite.erase import SqliteErasure
from agentmem.stores.sqlite.terms import SqliteTermIndex
from agentmem.stores.sqlite.write import SqliteInlineVectorWriter, SqliteWrite
from agentmem.stores.values import ErasureScan, Postings

T = TypeVar("T")

MAX_REWRITE_BYTES = 64 * 1024 * 1024  # of a file that each erasure rewrites, in memory first
UNUSED_PARTS = "unused parts of the file's pages, which `agentmem admin compact` rewrites"
WAL_DEFERRED = "write-ahead log: another process is reading it; it is emptied when the last one closes the store"


def _count_bytes(db: SqliteConnection) -> int:
    return int(db.pragma("page_count") * db.pragma("page_size"))


class SqliteLog(SqlLog[SqliteDatabase]):
    """A LogStore over one file."""

    uses_durable_counts = False  # in a power cut the last counts may be lost, so they wait for no disk

    def __init__(self, database: SqliteDatabase, *arguments: Any, **options: Any) -> None:
        super().__init__(database, *arguments, **options)
        self._term_index = SqliteTermIndex(database)

    async def append(
        self,
        changes: Sequence[Change],
        audit: AuditEntry | None = None,
        fence: int | None = None,
        vectors: InlineVectors | None = None,
    ) -> list[JournalEntry]:
        """See LogStore."""
        if not changes:
            return []
        inline = SqliteInlineVectorWriter(self.database, vectors)
        work = SqliteWrite(changes, audit, fence, self._clock, self._hook, policy=self._policy, vectors=inline)
        entries = await self.database.commit(
            work.user_id, work.apply, prepare=work.prepare, on_committed=inline.on_committed
        )
        self._hook("committed")
        return entries

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
        await self.database.commit(scope, work.apply)
        self._hook("erased")
        deferred = (*await self._rewrite_after_erasure(), *await self._empty_log_after_erasure())
        self._hook("emptied")
        places, remnants = await self.database.query(scope, work.find_leftovers)
        return ErasureScan(places, remnants, deferred)

    async def _rewrite_after_erasure(self) -> tuple[str, ...]:
        """Rewrite the file: what SQLite moves from page to page stays in the unused part of the old one, and its
        `secure_delete` does not reach it there. Says what was not rewritten, or ().
        """
        bytes_used = await self.database.read(_count_bytes)
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

    async def match(self, terms: Sequence[str], scope: Scope) -> dict[str, Postings]:
        """See TermIndex."""
        return await self._term_index.match(terms, scope)

    async def maintain(self, now: datetime, keep_audit_days: int) -> dict[str, int]:
        """See LogStore."""
        done = await super().maintain(now, keep_audit_days)
        await self.database.truncate_wal(attempts=1)  # an erasure may have left this pending
        return done

    async def stats(self, operator: Operator) -> dict[str, Any]:
        """Sizes of the file and counts of what is in it, over all users."""

        async def read(db: SqliteConnection) -> dict[str, Any]:
            path, page_size = self.database.path, db.pragma("page_size")
            wal = path.with_name(path.name + "-wal")
            return {
                "path": str(path),
                "bytes": db.pragma("page_count") * page_size,
                "wal_bytes": wal.stat().st_size if wal.exists() else 0,
                "free_bytes": db.pragma("freelist_count") * page_size,
                **await meta.count_rows(db),
            }

        return await self.database.query(operator, read)

    async def check(self, operator: Operator) -> list[str]:
        """See LogStore. Runs the engine's integrity check and looks at file permissions too."""

        async def read(db: SqliteConnection) -> list[str]:
            damage = [f"integrity: {line}" for (line,) in db.execute("PRAGMA integrity_check(20)") if line != "ok"]
            return damage + await meta.check(db)

        return await self.database.query(operator, read) + check_permissions(self.database.path)

    async def _find_seq_at_time(self, db: SqliteConnection, user_id: str, moment: datetime) -> int:
        return await records.find_seq_at_time(db, user_id, moment)

    async def _read_columns(
        self, db: SqliteConnection, user_id: str, after_seq: int
    ) -> tuple[RecordColumnBatch, list[int]]:
        return await records.read_columns(db, user_id, after_seq)

    async def _drop_audit_days(self, db: SqliteConnection, now: datetime, keep_days: int) -> int:
        return await audit.drop_old_days(db, now, keep_days)
