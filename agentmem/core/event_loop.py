"""One event loop in the background for callers without one, and threads for work that would hold a loop up."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

T = TypeVar("T")

P = ParamSpec("P")
S = TypeVar("S")

# rows; half a millisecond of arithmetic, about what a change of threads costs on a busy machine
MAX_INLINE_ROWS = 16_384


class BackgroundLoop:
    """An event loop in a daemon thread, made at first use and again after a fork."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._pid = 0

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """What the coroutine returns, once it has; raises what it raises.

        Raises RuntimeError on the loop's own thread, where waiting for the loop would never end.
        """
        loop = self._ensure_running()
        if self._thread is threading.current_thread():
            coroutine.close()
            raise RuntimeError(
                "this call waits, and was made from a coroutine that agentmem runs; use asyncio.to_thread"
            )
        return asyncio.run_coroutine_threadsafe(coroutine, loop).result()

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """The same without waiting: what the coroutine will have returned."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._ensure_running())

    def _ensure_running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None or self._pid != os.getpid():
                self._loop, self._pid = asyncio.new_event_loop(), os.getpid()
                self._thread = threading.Thread(target=self._loop.run_forever, name="agentmem-loop", daemon=True)
                self._thread.start()
            return self._loop


BACKGROUND_LOOP = BackgroundLoop()  # holds a thread only once a blocking verb has been called


def loop_time() -> float:
    """Seconds on the running loop's own clock, which never goes back."""
    return asyncio.get_running_loop().time()


class Backoff:
    """Leaves what failed alone for a while, by the running loop's own clock."""

    def __init__(self) -> None:
        self._failed_at = float("-inf")

    def start(self) -> None:
        """It failed just now."""
        self._failed_at = loop_time()

    def reset(self) -> None:
        """Try again at once."""
        self._failed_at = float("-inf")

    def is_active(self, seconds: float) -> bool:
        """Whether it failed less than so many seconds ago."""
        return loop_time() - self._failed_at < seconds


class SyncFacade(Generic[S]):
    """Wraps an object whose verbs are coroutines."""

    def __init__(self, inner: S) -> None:
        self._inner = inner


def async_to_sync(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Any, P], T]:
    """The same verb, waiting for its result; signature, types and docstring carry over."""

    @wraps(method)
    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return BACKGROUND_LOOP.run(method(self._inner, *args, **kwargs))

    return call


async def offload_if_large(row_count: int, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function over so many rows."""
    if row_count <= MAX_INLINE_ROWS:
        return function(*args, **kwargs)
    return await asyncio.to_thread(function, *args, **kwargs)
