"""How often and how long a model is asked: again after a passing failure, and not for a while once it is silent."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from agentmem.errors import ModelUnavailable

_Result = TypeVar("_Result")

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 8.0
REST = 30.0
"""Seconds for which a model that kept callers waiting in vain is left alone."""

FELT = 0.3
"""Seconds in which a refusal costs callers nothing: such a model may be asked again at once."""

LONGEST_WAIT = 60.0
"""Seconds of a server's `retry-after` that are honoured; when it asks for more, the request fails at once."""


async def attempt(
    send: Callable[[], Awaitable[_Result]],
    *,
    tries: int,
    passing: Callable[[Exception], float | None],
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> _Result:
    """Await `send()` up to `tries` times and return its first result; raises the last error as it came.

    `passing(error)` says whether the error may pass: None when not, else the seconds the server asked to wait (0 when
    it named none). Pauses double from 0.5 to 8 s, a random quarter shorter so that clients do not come back together.
    """
    pause = FIRST_PAUSE
    for left in range(max(1, tries) - 1, -1, -1):
        try:
            return await send()
        except Exception as error:
            asked = passing(error)
            if asked is None or asked > LONGEST_WAIT or not left:
                raise
            await sleep(asked or pause * random.uniform(0.75, 1.0))  # noqa: S311  no secret
            pause = min(2 * pause, LONGEST_PAUSE)
    raise AssertionError("unreachable: the last attempt returns or raises")


class Patience:
    """Asks one model for callers that cannot wait for long. Once they waited in vain, it is left alone for 30 s.

    A request that nobody waits for any longer goes on: an answer that comes late, as from a model that has to be loaded
    first, ends the rest.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._rests_until = float("-inf")
        self._reason = ""
        self._asked: set[asyncio.Task[Any]] = set()  # the loop itself would let go of them

    async def ask(self, send: Callable[[], Coroutine[Any, Any, _Result]], seconds: float) -> _Result:
        """What `send()` gives. Raises ModelUnavailable after so many seconds or, without asking, while the model rests;
        besides that what `send` raises.
        """
        now = asyncio.get_running_loop().time
        began = now()
        if (left := self._rests_until - began) > 0:
            raise ModelUnavailable(f"{self._reason}; it is left alone for {left:.0f} s more")
        task = asyncio.create_task(send())
        self._asked.add(task)
        task.add_done_callback(self._ended)
        try:
            await asyncio.wait({task}, timeout=seconds)
        except asyncio.CancelledError:
            task.cancel()
            raise
        try:
            if not task.done():
                raise ModelUnavailable(f"{self._name} did not answer within {seconds:g} s")
            return task.result()
        except ModelUnavailable as error:
            if now() - began > FELT:
                self._reason, self._rests_until = str(error), now() + REST
            raise

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._asked.discard(task)
        if not task.cancelled() and task.exception() is None:
            self._rests_until = float("-inf")
