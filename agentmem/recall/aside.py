"""Where arithmetic runs: small arrays here, large ones on a thread, so that the event loop is never held for long."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
# rows; half a millisecond of arithmetic, about what a change of threads costs on a busy machine
MAX_INLINE_ROWS = 16_384


async def offload_if_large(row_count: int, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function over so many rows."""
    if row_count <= MAX_INLINE_ROWS:
        return function(*args, **kwargs)
    return await asyncio.to_thread(function, *args, **kwargs)
