"""The outlines of users that this process has at hand, topped up from the log."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

from agentmem.events import Lookups
from agentmem.model.outline import Outline
from agentmem.model.scope import Scope
from agentmem.stores import LogStore

ROWS = 1_000_000  # of all kept outlines together; at some 300 bytes a row


@dataclass
class Outlines:
    """Outlines by user, the least lately used given up first. `erased` is told whom another process erased from."""

    erased: Callable[[str], None]
    lookups: Lookups
    recorded: str = ""  # the embedder that the store named when it was last asked
    _rows: int = 0  # of all that are kept
    _kept: OrderedDict[str, tuple[int, Outline]] = field(default_factory=OrderedDict)
    _locks: WeakValueDictionary[str, asyncio.Lock] = field(default_factory=WeakValueDictionary)

    async def get(self, log: LogStore, scope: Scope, through: int | None = None) -> Outline:
        """The user's outline as of now, or as it was at a journal position."""
        user = scope.user_id
        async with self._locks.setdefault(user, asyncio.Lock()):
            erasures, outline = self._kept.pop(user, (-1, Outline()))
            self._rows -= outline.size
            self.lookups.add("outlines", outline.seq > 0)
            if outline.seq:
                head = await log.head(scope)
            else:  # with the rows comes the head as well
                rows, _, head = await log.outline(scope, 0)
                erasures = head.erasures
                outline.put(rows, head.seq)
            while head.seq != outline.seq or head.erasures != erasures:
                if head.erasures != erasures or head.seq < outline.seq:  # the latter when a backup was restored
                    if outline.seq:
                        self.erased(user)
                    outline, erasures = Outline(), head.erasures
                rows, gone, head = await log.outline(scope, outline.seq)
                if head.erasures == erasures:
                    outline.put(rows, head.seq)
                    outline.drop(gone, head.seq)
            outline.at, outline.marks, self.recorded = head.at, head.marks, head.embedder
            self._kept[user] = (head.erasures, outline)
            self._rows += outline.size
            snapshot = outline.snapshot()
        self._trim()
        if through is None or through >= snapshot.seq:
            return snapshot
        earlier, absent = await log.outline_at(scope, through)
        patched = snapshot.copy()
        patched.drop(absent, snapshot.seq)
        patched.put(earlier, snapshot.seq)
        return patched

    def after_fork(self) -> None:
        """Forget locks that another process holds; nobody here would ever release them."""
        self._locks.clear()

    def _trim(self) -> None:
        while self._rows > ROWS and len(self._kept) > 1:
            _, (_, outline) = self._kept.popitem(last=False)
            self._rows -= outline.size
