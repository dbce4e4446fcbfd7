"""One event loop in a thread of its own, on which code that does not await waits for coroutines."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


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

    def _ensure_running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None or self._pid != os.getpid():
                self._loop, self._pid = asyncio.new_event_loop(), os.getpid()
                self._thread = threading.Thread(target=self._loop.run_forever, name="agentmem-loop", daemon=True)
                self._thread.start()
            return self._loop


BACKGROUND_LOOP = BackgroundLoop()  # holds a thread only once a blocking verb has been called
