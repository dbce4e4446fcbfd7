"""One memory for callers with an event loop and for callers without one."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from agentmem.core.event_loop import BACKGROUND_LOOP
from agentmem.errors import ConfigError
from agentmem.facade.async_memory import AsyncAgentMemory
from agentmem.facade.memory import AgentMemory

T = TypeVar("T")


class MemoryBridge:
    """Runs the verbs of a memory where it was opened.

    An `AgentMemory` serves both kinds of callers, from any thread and any event loop. An `AsyncAgentMemory` serves
    coroutines of its own loop alone.
    """

    def __init__(self, memory: AgentMemory | AsyncAgentMemory) -> None:
        if not isinstance(memory, AgentMemory | AsyncAgentMemory):
            raise ConfigError(f"memory must be an AgentMemory or an AsyncAgentMemory, got a {type(memory).__name__}")
        self.memory = memory.async_view if isinstance(memory, AgentMemory) else memory
        self._is_background = isinstance(memory, AgentMemory)

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """What a coroutine of the memory returns; ConfigError where the memory is an AsyncAgentMemory."""
        if not self._is_background:
            coroutine.close()
            raise ConfigError("a call without await needs an AgentMemory; this adapter was made with an async one")
        return BACKGROUND_LOOP.run(coroutine)

    async def run_async(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """The same, awaited. A caller who is cancelled leaves at once; what was begun is finished."""
        return await asyncio.shield(self._start(coroutine))

    async def finish(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """The same for a write: a caller who is cancelled leaves when it is done."""
        task = self._start(coroutine)
        cancelled: asyncio.CancelledError | None = None
        while not task.done():
            try:
                await asyncio.wait({task})
            except asyncio.CancelledError as error:
                cancelled = cancelled or error
        if cancelled is not None:
            task.exception()  # nobody else asks for it
            raise cancelled
        return task.result()

    def _start(self, coroutine: Coroutine[Any, Any, T]) -> asyncio.Future[T]:
        if self._is_background:
            return asyncio.wrap_future(BACKGROUND_LOOP.submit(coroutine))
        return asyncio.ensure_future(coroutine)
