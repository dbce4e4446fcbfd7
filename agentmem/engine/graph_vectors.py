"""Keeps vectors on the nodes of a graph outside of the log, for people who search there (setting `graph_vectors`).

They come from the log's own vectors, after those and after the graph, in the background: no write and no recall waits
for them or reads them. A record's node loses its vector when the graph writes it anew, and gets it back here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

from agentmem.core.changes import JournalEntry
from agentmem.core.event_loop import Backoff
from agentmem.core.record import Key
from agentmem.core.scope import Scope
from agentmem.core.telemetry import WARNING, log_event
from agentmem.engine.vector_projection import VectorProjection
from agentmem.errors import AgentMemError, StoreError, StoreUnavailable
from agentmem.stores.protocols import GraphNodeVectors, LogStore

CHANGE_BATCH_SIZE = 500  # changes written at once
MAX_CONCURRENT_USERS = 4  # side by side
MAX_TRACKED_USERS = 10_000  # that wait
BACKOFF_SECONDS = 5.0  # seconds without tries after the graph was away


@dataclass
class GraphVectorProjection:
    """Vectors of the embedder that serves, on nodes. `sync` waits for a user, `notify` does not."""

    nodes: GraphNodeVectors
    log: LogStore
    served_projection: Callable[[], VectorProjection]
    last_error: str = ""
    _queue: dict[str, None] = field(default_factory=dict)
    _locks: WeakValueDictionary[str, asyncio.Lock] = field(default_factory=WeakValueDictionary)
    _backoff: Backoff = field(default_factory=Backoff)
    _closing: bool = False
    _task: asyncio.Task[None] | None = None

    @property
    def name(self) -> str:
        """The projection's name in watermarks and lag."""
        return f"graph_vectors/{self.served_projection().embedder.identity}"

    def is_backing_off(self) -> bool:
        """Whether the graph was away a moment ago and is left alone."""
        return self._backoff.is_active(BACKOFF_SECONDS)

    def notify(self, user_id: str) -> None:
        """The graph has come further for this user: follow in the background."""
        self._queue[user_id] = None
        while len(self._queue) > MAX_TRACKED_USERS:  # the log knows that they are behind
            del self._queue[next(iter(self._queue))]
        if self._task is None or self._task.done():
            self._task = asyncio.ensure_future(self._run())

    async def sync(self, scope: Scope, *, through_seq: int | None = None, from_start: bool = False) -> bool:
        """Write what graph and vectors have of the user's journal, `from_start` from its start.

        True when that is all of it, or goes `through_seq` this position. False also when the graph is away, or another
        embedder serves the store by now; `last_error` says which.
        """
        async with self._locks.setdefault(scope.user_id, asyncio.Lock()):
            try:
                if from_start:
                    await self.nodes.clear(scope.user_id)
                return await self._sync(scope, self.served_projection(), through_seq)
            except StoreError as error:
                log_event(WARNING, "graph_vectors_away", user_id=scope.user_id, error=str(error))
                self.last_error = str(error)
                self._backoff.start()
                return False

    async def watermark(self, user_id: str) -> int:
        """Up to where the user's nodes have their vectors; 0 while the graph is away."""
        with suppress(StoreUnavailable):
            return (await self.nodes.watermarks([user_id], self.name))[user_id][0]
        return 0

    def reset_after_fork(self) -> None:
        """Forget what belongs to the loop of another process."""
        self._task = None
        self._queue.clear()
        self._locks.clear()

    async def close(self, timeout_seconds: float | None) -> None:
        """Finish what is wanted when the graph is well, for at most so long."""
        self._closing = True
        if self._task is not None:
            if self.is_backing_off():
                self._task.cancel()
            await asyncio.wait({self._task}, timeout=timeout_seconds)
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while self._queue:
            if self.is_backing_off():
                if self._closing:
                    return
                await asyncio.sleep(BACKOFF_SECONDS)
            users = list(self._queue)[:MAX_CONCURRENT_USERS]
            for user in users:
                del self._queue[user]
            await asyncio.gather(*(self._sync_user(user) for user in users))

    async def _sync_user(self, user: str) -> None:
        """Follow once the user's vectors are made; whose are not is for the projector, or for the next write."""
        scope = Scope(user)
        try:
            await self.served_projection().sync(scope)
        except AgentMemError as error:
            self.last_error = str(error)
        if not await self.sync(scope) and self.is_backing_off():
            self._queue.setdefault(user)

    async def _sync(self, scope: Scope, vectors: VectorProjection, through_seq: int | None) -> bool:
        user, identity = scope.user_id, vectors.embedder.identity
        name, before = f"graph_vectors/{identity}", -1
        if (await self.log.meta()).get("embedder") != identity:  # its own vectors would be taken for the new one's
            self.last_error = f"the store has another embedder than {identity} by now"
            return False
        while True:
            after, graph = (await self.nodes.watermarks([user], name))[user]
            reach = min(graph, await vectors.index.watermark(user))
            entries = await self.log.changes(scope, after, CHANGE_BATCH_SIZE)
            todo = [entry for entry in entries if entry.seq <= reach]
            if not todo or after == before:  # the latter when the graph is being rebuilt
                break
            before = after
            ordinals = _ordinals_by_key(todo)
            found = await vectors.index.read_vectors(list(ordinals.values()), scope)
            if await vectors.index.watermark(user) < todo[-1].seq:  # they are being made again
                break
            rows = {key: (ordinal, found.get(ordinal)) for key, ordinal in ordinals.items()}
            await self.nodes.write(scope, name, after, todo[-1].seq, rows)
        with suppress(StoreError):  # only a hint; the projector looks for itself
            await self.log.write_watermark_hints(name, {user: after})
        if entries:
            self.last_error = "the graph or the vectors have not come so far yet"
        return not entries if through_seq is None else after >= through_seq


def _ordinals_by_key(entries: Sequence[JournalEntry]) -> dict[Key, int]:
    """What these changes put and leave there."""
    ordinals: dict[Key, int] = {}
    for entry in entries:
        for item in entry.removals:
            ordinals.pop((item.kind, item.id), None)
        ordinals |= {stored.record.key: stored.ordinal for stored in entry.upserts if stored.record.kind != "Edge"}
    return ordinals
