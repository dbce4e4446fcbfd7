"""The columns of users that this process has at hand, topped up from the log."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

from agentmem.core.columns import RecordColumns
from agentmem.core.scope import Scope
from agentmem.core.telemetry import CacheStats
from agentmem.stores.protocols import LogStore

MAX_CACHED_ROWS = 1_000_000  # of all cached columns together; at some 300 bytes a row


@dataclass
class ColumnCache:
    """Columns by user, the least lately used given up first. `on_erasure` is told whom another process erased from."""

    on_erasure: Callable[[str], None]
    cache_stats: CacheStats
    recorded_embedder: str = ""  # the embedder that the store named when it was last asked
    _cached_rows: int = 0  # of all that are kept
    _columns_by_user: OrderedDict[str, tuple[int, RecordColumns]] = field(default_factory=OrderedDict)
    _locks: WeakValueDictionary[str, asyncio.Lock] = field(default_factory=WeakValueDictionary)

    async def get(self, log: LogStore, scope: Scope, through_seq: int | None = None) -> RecordColumns:
        """The user's columns as of now, or as they were at a journal position."""
        user = scope.user_id
        async with self._locks.setdefault(user, asyncio.Lock()):
            erasures, columns = self._columns_by_user.pop(user, (-1, RecordColumns()))
            self._cached_rows -= columns.size
            self.cache_stats.add("columns", columns.seq > 0)
            if columns.seq:
                head = await log.head(scope)
            else:  # with the rows comes the head as well
                rows, _, head = await log.read_columns(scope, 0)
                erasures = head.erasures
                columns.put(rows, head.seq)
            while head.seq != columns.seq or head.erasures != erasures:
                if head.erasures != erasures or head.seq < columns.seq:  # the latter when a backup was restored
                    if columns.seq:
                        self.on_erasure(user)
                    columns, erasures = RecordColumns(), head.erasures
                rows, gone, head = await log.read_columns(scope, columns.seq)
                if head.erasures == erasures:
                    columns.put(rows, head.seq)
                    columns.drop(gone, head.seq)
            columns.last_at, columns.watermarks, self.recorded_embedder = head.last_at, head.watermarks, head.embedder
            self._columns_by_user[user] = (head.erasures, columns)
            self._cached_rows += columns.size
            snapshot = columns.snapshot()
        self._evict()
        if through_seq is None or through_seq >= snapshot.seq:
            return snapshot
        earlier, absent = await log.read_columns_patch(scope, through_seq)
        patched = snapshot.copy()
        patched.drop(absent, snapshot.seq)
        patched.put(earlier, snapshot.seq)
        return patched

    def reset_after_fork(self) -> None:
        """Forget locks that another process holds; nobody here would ever release them."""
        self._locks.clear()

    def _evict(self) -> None:
        while self._cached_rows > MAX_CACHED_ROWS and len(self._columns_by_user) > 1:
            _, (_, columns) = self._columns_by_user.popitem(last=False)
            self._cached_rows -= columns.size
