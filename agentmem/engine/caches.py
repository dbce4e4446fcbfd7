"""The columns of users that this process has at hand, topped up from the log."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

from agentmem.core.columns import RecordColumnBatch, RecordColumns
from agentmem.core.scope import Scope
from agentmem.core.telemetry import CacheStats
from agentmem.stores.protocols import LogStore
from agentmem.stores.values import Head

MAX_CACHED_ROWS = 1_000_000  # of all cached columns together; at some 300 bytes a row


@dataclass
class _CachedColumns:
    """A user's columns, and what tells that they still continue: the erasures seen, and the operation at their end."""

    columns: RecordColumns = field(default_factory=RecordColumns)
    erasures: int = -1
    operation_id: str = ""

    @property
    def size(self) -> int:
        return self.columns.size

    def is_current(self, head: Head) -> bool:
        return self.columns.seq == head.seq and self.is_continued_by(head)

    def is_continued_by(self, head: Head) -> bool:
        return self.erasures == head.erasures and not self.is_refuted_by(head)

    def is_refuted_by(self, head: Head) -> bool:
        """Whether the change at the end of these columns is another one by now, or gone: a backup was restored."""
        return self.columns.seq > 0 and head.operation_id_after != self.operation_id

    def put(self, rows: RecordColumnBatch, gone: list[int], head: Head) -> None:
        self.columns.put(rows, head.seq)
        self.columns.drop(gone, head.seq)
        self.erasures, self.operation_id = head.erasures, head.operation_id


@dataclass
class ColumnCache:
    """Columns by user, the least lately used given up first.

    `on_erasure` is told whom another process erased from, `on_restore` whose journal is not the one known here.
    """

    on_erasure: Callable[[str], None]
    on_restore: Callable[[str], None]
    cache_stats: CacheStats
    recorded_embedder: str = ""  # the embedder that the store named when it was last asked
    _cached_rows: int = 0  # of all that are kept
    _cached_by_user: OrderedDict[str, _CachedColumns] = field(default_factory=OrderedDict)
    _locks: WeakValueDictionary[str, asyncio.Lock] = field(default_factory=WeakValueDictionary)

    async def get(self, log: LogStore, scope: Scope, through_seq: int | None = None) -> RecordColumns:
        """The user's columns as of now, or as they were at a journal position."""
        user = scope.user_id
        async with self._locks.setdefault(user, asyncio.Lock()):
            cached = self._cached_by_user.pop(user, None) or _CachedColumns()
            self._cached_rows -= cached.size
            self.cache_stats.add("columns", cached.columns.seq > 0)
            cached, head = await self._top_up(log, scope, cached)
            columns = cached.columns
            columns.last_at, columns.watermarks, self.recorded_embedder = head.last_at, head.watermarks, head.embedder
            self._cached_by_user[user] = cached
            self._cached_rows += cached.size
            snapshot = columns.snapshot()
        self._evict()
        if through_seq is None or through_seq >= snapshot.seq:
            return snapshot
        earlier, absent = await log.read_columns_patch(scope, through_seq)
        patched = snapshot.copy()
        patched.drop(absent, snapshot.seq)
        patched.put(earlier, snapshot.seq)
        return patched

    async def _top_up(self, log: LogStore, scope: Scope, cached: _CachedColumns) -> tuple[_CachedColumns, Head]:
        """The columns up to the head; made anew where something was erased, or the journal is another one."""
        if cached.columns.seq:
            head = await log.head(scope, cached.columns.seq)
            if cached.is_current(head):
                return cached, head
            cached = self._check(scope.user_id, cached, head)
        while True:
            rows, gone, head = await log.read_columns(scope, cached.columns.seq)
            if cached.columns.seq == 0 or cached.is_continued_by(head):
                cached.put(rows, gone, head)
                return cached, head
            cached = self._check(scope.user_id, cached, head)

    def _check(self, user_id: str, cached: _CachedColumns, head: Head) -> _CachedColumns:
        if cached.is_continued_by(head):
            return cached
        if cached.is_refuted_by(head):
            self.on_restore(user_id)
        else:
            self.on_erasure(user_id)
        return _CachedColumns()

    def reset_after_fork(self) -> None:
        """Forget locks that another process holds; nobody here would ever release them."""
        self._locks.clear()

    def _evict(self) -> None:
        while self._cached_rows > MAX_CACHED_ROWS and len(self._cached_by_user) > 1:
            _, cached = self._cached_by_user.popitem(last=False)
            self._cached_rows -= cached.size
