"""Users whose projections could not follow, tried again in the background until they have."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from agentmem.model.scope import Scope

EVERY = 5.0  # seconds between two tries
USERS_KNOWN = 10_000  # beyond these, whoever waited longest is left to the projector


@dataclass
class Retries:
    """`follow` brings a user's projections along and says whether they are there; what fails in it is its own care."""

    follow: Callable[[Scope], Awaitable[bool]]
    _behind: dict[str, Scope] = field(default_factory=dict)
    _task: asyncio.Task[None] | None = None

    def add(self, scope: Scope) -> None:
        """This user is behind."""
        self._behind[scope.user_id] = Scope(scope.user_id)
        while len(self._behind) > USERS_KNOWN:
            self._behind.pop(next(iter(self._behind)))
        if self._task is None or self._task.done():
            self._task = asyncio.ensure_future(self._work())

    def after_fork(self) -> None:
        """Forget what belongs to the loop of another process."""
        self._task = None
        self._behind.clear()

    async def close(self) -> None:
        """Stop trying; the next who opens the store, or the projector, goes on."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _work(self) -> None:
        while self._behind:
            await self._once()

    async def _once(self) -> None:
        await asyncio.sleep(EVERY)
        for user, scope in list(self._behind.items()):
            if await self.follow(scope):
                self._behind.pop(user, None)
