"""Time that costs nothing: an event loop that jumps to the next timer, and a clock that goes with it.

Work for threads is done while the loop waits for it, and its result arrives after a short delay of the seed's choosing.
So one seed gives one order of events, and an hour of waiting takes no time.
"""

from __future__ import annotations

import asyncio
import random
import selectors
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Executor, Future, wait
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

T = TypeVar("T")
START = datetime(2026, 3, 1, 12, tzinfo=UTC)
MAX_EXECUTOR_DELAY_SECONDS = 0.002  # seconds that work on a thread takes at most


class _JumpingSelector(selectors.SelectSelector):
    """Instead of waiting, moves the time on."""

    def __init__(self, advance: Callable[[float], None]) -> None:
        super().__init__()
        self._advance = advance

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        found = super().select(0)
        if not found:
            if timeout is None:
                raise RuntimeError("everything waits for something that will never happen")
            self._advance(timeout)
        return found


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose time begins at 0 and passes by jumps."""

    def __init__(self, seed: int = 0) -> None:
        self.now = 0.0
        self._delays = random.Random(f"delays {seed}")
        super().__init__(_JumpingSelector(self._advance))

    def _advance(self, seconds: float) -> None:
        self.now += max(0.0, seconds)

    def time(self) -> float:
        return self.now

    def run_in_executor(self, executor: Executor | None, func: Callable[..., T], *args: Any) -> asyncio.Future[T]:
        """Do the work at once, on the executor's own thread; its result arrives a little later."""
        future: asyncio.Future[T] = self.create_future()
        done: Future[T] = Future()
        if executor is not None:
            done = executor.submit(func, *args)
            wait([done])
        else:
            try:
                done.set_result(func(*args))
            except Exception as error:  # noqa: BLE001  whoever awaits it gets it
                done.set_exception(error)
        self.call_later(self._delays.uniform(0, MAX_EXECUTOR_DELAY_SECONDS), _hand_over, done, future)
        return future


def _hand_over(done: Future[T], future: asyncio.Future[T]) -> None:
    if future.cancelled():
        return
    if error := done.exception():
        future.set_exception(error)
    else:
        future.set_result(done.result())


class VirtualClock:
    """Goes with the loop's time; `jump` sets it forwards or, as a corrected clock, backwards; `hold` stops it."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        self._offset = 0.0
        self._moment: datetime | None = None

    def now(self) -> datetime:
        return self._moment or START + timedelta(seconds=self._loop.time() + self._offset)

    def jump(self, seconds: float) -> None:
        self._offset += seconds

    @contextmanager
    def hold(self) -> Iterator[None]:
        """One moment for all that is asked inside; the loop's own time, and so every deadline, goes on."""
        self._moment = self.now()
        try:
            yield
        finally:
            self._moment = None


def run(main: Callable[[VirtualClock], Coroutine[Any, Any, T]], seed: int = 0) -> T:
    """Run a coroutine to its end in virtual time."""
    made: list[VirtualLoop] = []

    def factory() -> VirtualLoop:
        made.append(VirtualLoop(seed))
        return made[-1]

    with asyncio.Runner(loop_factory=factory) as runner:
        runner.get_loop()
        return runner.run(main(VirtualClock(made[0])))
