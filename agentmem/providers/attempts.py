"""Sends a request again when it failed for a passing reason: too many requests, a fault of the server, a time-out."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

_Result = TypeVar("_Result")

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 8.0
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
