"""How often and how long a model is asked: again after a passing failure, and not for a while once it is silent."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from agentmem.errors import ModelUnavailable

_Result = TypeVar("_Result")

INITIAL_BACKOFF_SECONDS, MAX_BACKOFF_SECONDS = 0.5, 8.0
CIRCUIT_OPEN_SECONDS = 30.0
"""Seconds for which a model that kept callers waiting in vain is left alone."""

SLOW_FAILURE_SECONDS = 0.3
"""Seconds in which a refusal costs callers nothing: such a model may be asked again at once."""

MAX_RETRY_AFTER_SECONDS = 60.0
"""Seconds of a server's `retry-after` that are honoured; when it asks for more, the request fails at once."""


async def retry(
    send: Callable[[], Awaitable[_Result]],
    *,
    max_attempts: int,
    retry_after: Callable[[Exception], float | None],
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> _Result:
    """Await `send()` up to `max_attempts` times and return its first result; raises the last error as it came.

    `retry_after(error)` says whether the error may pass: None when not, else the seconds the server asked to wait (0
    when it named none). Pauses double from 0.5 to 8 s, a random quarter shorter so that clients do not come back
    together.
    """
    pause = INITIAL_BACKOFF_SECONDS
    for left in range(max(1, max_attempts) - 1, -1, -1):
        try:
            return await send()
        except Exception as error:
            asked = retry_after(error)
            if asked is None or asked > MAX_RETRY_AFTER_SECONDS or not left:
                raise
            await sleep(asked or pause * random.uniform(0.75, 1.0))  # noqa: S311  no secret
            pause = min(2 * pause, MAX_BACKOFF_SECONDS)
    raise AssertionError("unreachable: the last attempt returns or raises")


class CircuitBreaker:
    """Asks one model for callers that cannot wait for long. Once they waited in vain, it is left alone for 30 s.

    A request that nobody waits for any longer goes on: an answer that comes late, as from a model that has to be loaded
    first, ends the rest.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._open_until = float("-inf")
        self._reason = ""
        self._tasks: set[asyncio.Task[Any]] = set()  # the loop itself would let go of them

    async def call(self, send: Callable[[], Coroutine[Any, Any, _Result]], timeout: float) -> _Result:
        """What `send()` gives. Raises ModelUnavailable after so many seconds or, without asking, while the model rests;
        besides that what `send` raises.
        """
        now = asyncio.get_running_loop().time
        began = now()
        if (left := self._open_until - began) > 0:
            raise ModelUnavailable(f"{self._reason}; it is left alone for {left:.0f} s more")
        task = asyncio.create_task(send())
        self._tasks.add(task)
        task.add_done_callback(self._on_done)
        try:
            await asyncio.wait({task}, timeout=timeout)
        except asyncio.CancelledError:
            task.cancel()
            raise
        try:
            if not task.done():
                raise ModelUnavailable(f"{self._name} did not answer within {timeout:g} s")
            return task.result()
        except ModelUnavailable as error:
            if now() - began > SLOW_FAILURE_SECONDS:
                self._reason, self._open_until = str(error), now() + CIRCUIT_OPEN_SECONDS
            raise

    def _on_done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is None:
            self._open_until = float("-inf")
