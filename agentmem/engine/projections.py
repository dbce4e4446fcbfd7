"""Bringing what is made from the log up to its journal: again after failures, in the background."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from agentmem.core.scope import Scope

RETRY_INTERVAL_SECONDS = 5.0  # seconds between two tries
MAX_TRACKED_USERS = 10_000  # beyond these, whoever waited longest is left to the projector


@dataclass
class SyncRetrier:
    """`sync` brings a user's projections along and says whether they are there; what fails in it is its own care."""

    sync: Callable[[Scope], Awaitable[bool]]
    _lagging: dict[str, Scope] = field(default_factory=dict)
    _task: asyncio.Task[None] | None = None

    def add(self, scope: Scope) -> None:
        """This user is behind."""
        self._lagging[scope.user_id] = Scope(scope.user_id)
        while len(self._lagging) > MAX_TRACKED_USERS:
            self._lagging.pop(next(iter(self._lagging)))
        if self._task is None or self._task.done():
            self._task = asyncio.ensure_future(self._run())

    def reset_after_fork(self) -> None:
        """Forget what belongs to the loop of another process."""
        self._task = None
        self._lagging.clear()

    async def close(self) -> None:
        """Stop trying; the next who opens the store, or the projector, goes on."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while self._lagging:
            await self._retry_all()

    async def _retry_all(self) -> None:
        await asyncio.sleep(RETRY_INTERVAL_SECONDS)
        for user, scope in list(self._lagging.items()):
            if await self.sync(scope):
                self._lagging.pop(user, None)
