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

from agentmem.errors import AgentMemError, StoreError, StoreUnavailable
from agentmem.events import WARNING, tell
from agentmem.model.changes import JournalEntry
from agentmem.model.records import Key
from agentmem.model.scope import Scope
from agentmem.projections.vectors import VectorProjection
from agentmem.stores import LogStore, NodeVectors

BATCH = 500  # changes written at once
USERS = 4  # side by side
USERS_KNOWN = 10_000  # that wait
REST = 5.0  # seconds without tries after the graph was away


@dataclass
class GraphVectorProjection:
    """Vectors of the embedder that serves, on nodes. `follow` waits for a user, `nudge` does not."""

    nodes: NodeVectors
    log: LogStore
    served: Callable[[], VectorProjection]
    last_error: str = ""
    _wanted: dict[str, None] = field(default_factory=dict)
    _locks: WeakValueDictionary[str, asyncio.Lock] = field(default_factory=WeakValueDictionary)
    _failed_at: float = float("-inf")
    _closing: bool = False
    _task: asyncio.Task[None] | None = None

    @property
    def name(self) -> str:
        """The projection's name in watermarks and lag."""
        return f"graph_vectors/{self.served().embedder.identity}"

    def resting(self) -> bool:
        """Whether the graph was away a moment ago and is left alone."""
        return _now() - self._failed_at < REST

    def nudge(self, user_id: str) -> None:
        """The graph has come further for this user: follow in the background."""
        self._wanted[user_id] = None
        while len(self._wanted) > USERS_KNOWN:  # the log knows that they are behind
            del self._wanted[next(iter(self._wanted))]
        if self._task is None or self._task.done():
            self._task = asyncio.ensure_future(self._drain())

    async def follow(self, scope: Scope, *, through: int | None = None, again: bool = False) -> bool:
        """Write what graph and vectors have of the user's journal, `again` from its start.

        True when that is all of it, or goes `through` this position. False also when the graph is away, or another
        embedder serves the store by now; `last_error` says which.
        """
        async with self._locks.setdefault(scope.user_id, asyncio.Lock()):
            try:
                if again:
                    await self.nodes.clear(scope.user_id)
                return await self._follow(scope, self.served(), through)
            except StoreError as error:
                tell(WARNING, "graph_vectors_away", user_id=scope.user_id, error=str(error))
                self.last_error, self._failed_at = str(error), _now()
                return False

    async def watermark(self, user_id: str) -> int:
        """Up to where the user's nodes have their vectors; 0 while the graph is away."""
        with suppress(StoreUnavailable):
            return (await self.nodes.watermarks([user_id], self.name))[user_id][0]
        return 0

    def after_fork(self) -> None:
        """Forget what belongs to the loop of another process."""
        self._task = None
        self._wanted.clear()
        self._locks.clear()

    async def close(self, seconds: float | None) -> None:
        """Finish what is wanted when the graph is well, for at most so long."""
        self._closing = True
        if self._task is not None:
            if self.resting():
                self._task.cancel()
            await asyncio.wait({self._task}, timeout=seconds)
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _drain(self) -> None:
        while self._wanted:
            if self.resting():
                if self._closing:
                    return
                await asyncio.sleep(REST)
            users = list(self._wanted)[:USERS]
            for user in users:
                del self._wanted[user]
            await asyncio.gather(*(self._bring(user) for user in users))

    async def _bring(self, user: str) -> None:
        """Follow once the user's vectors are made; whose are not is for the projector, or for the next write."""
        scope = Scope(user)
        try:
            await self.served().follow(scope)
        except AgentMemError as error:
            self.last_error = str(error)
        if not await self.follow(scope) and self.resting():
            self._wanted.setdefault(user)

    async def _follow(self, scope: Scope, vectors: VectorProjection, through: int | None) -> bool:
        user, identity = scope.user_id, vectors.embedder.identity
        name, before = f"graph_vectors/{identity}", -1
        if (await self.log.meta()).get("embedder") != identity:  # its own vectors would be taken for the new one's
            self.last_error = f"the store has another embedder than {identity} by now"
            return False
        while True:
            after, graph = (await self.nodes.watermarks([user], name))[user]
            reach = min(graph, await vectors.index.watermark(user))
            entries = await self.log.changes(scope, after, BATCH)
            todo = [entry for entry in entries if entry.seq <= reach]
            if not todo or after == before:  # the latter when the graph is being rebuilt
                break
            before = after
            slots = _slots(todo)
            found = await vectors.index.whole(list(slots.values()), scope)
            if await vectors.index.watermark(user) < todo[-1].seq:  # they are being made again
                break
            rows = {key: (slot, found.get(slot)) for key, slot in slots.items()}
            await self.nodes.write(scope, name, after, todo[-1].seq, rows)
        with suppress(StoreError):  # only a hint; the projector looks for itself
            await self.log.note_reached(name, {user: after})
        if entries:
            self.last_error = "the graph or the vectors have not come so far yet"
        return not entries if through is None else after >= through


def _slots(entries: Sequence[JournalEntry]) -> dict[Key, int]:
    """What these changes put and leave there."""
    slots: dict[Key, int] = {}
    for entry in entries:
        for item in entry.gone:
            slots.pop((item.kind, item.id), None)
        slots |= {stored.record.key: stored.slot for stored in entry.puts if stored.record.kind != "Edge"}
    return slots


def _now() -> float:
    """Seconds on the loop's own clock, which never goes back."""
    return asyncio.get_running_loop().time()
