"""Threads that run calls for event loops: results, errors, order, and how they end."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from typing import Any

import pytest

from agentmem.stores.sqlite.database import WorkerThreads


@pytest.fixture
def one() -> Iterator[WorkerThreads]:
    made = WorkerThreads(1, "test-one")
    yield made
    made.shutdown()


@pytest.fixture
def four() -> Iterator[WorkerThreads]:
    made = WorkerThreads(4, "test-four")
    yield made
    made.shutdown()


async def test_results_and_errors_arrive(one: WorkerThreads) -> None:
    def fail() -> None:
        raise KeyError("missing")

    assert await one.run(lambda: threading.current_thread().name) == "test-one"
    with pytest.raises(KeyError, match="missing"):
        await one.run(fail)
    assert await one.run(lambda: 7) == 7


async def test_one_thread_takes_calls_in_order(one: WorkerThreads) -> None:
    seen: list[int] = []
    await asyncio.gather(*(one.run(lambda n=n: seen.append(n)) for n in range(50)))
    assert seen == list(range(50))


async def test_several_threads_work_side_by_side(four: WorkerThreads) -> None:
    together = threading.Barrier(4, timeout=20)
    await asyncio.gather(*(four.run(together.wait) for _ in range(4)))


async def test_there_are_never_more_threads_than_asked_for(four: WorkerThreads) -> None:
    await asyncio.gather(*(four.run(lambda: None) for _ in range(200)))
    assert 1 <= len([thread for thread in threading.enumerate() if thread.name == "test-four"]) <= 4


async def test_a_call_that_nobody_waits_for_any_more_is_left_out(one: WorkerThreads) -> None:
    go, seen = threading.Event(), []
    first = asyncio.ensure_future(one.run(go.wait))
    second = asyncio.ensure_future(one.run(lambda: seen.append("second")))
    await asyncio.sleep(0)
    second.cancel()
    await asyncio.sleep(0)
    go.set()
    await first
    await one.run(lambda: seen.append("third"))
    assert seen == ["third"]


async def test_cancelling_a_call_that_runs_spoils_nothing(one: WorkerThreads) -> None:
    begun, go = threading.Event(), threading.Event()
    call = asyncio.ensure_future(one.run(lambda: (begun.set(), go.wait())))
    await asyncio.to_thread(begun.wait)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    go.set()
    assert await one.run(lambda: "next") == "next"


def test_a_loop_that_was_closed_meanwhile_ends_no_thread(one: WorkerThreads) -> None:
    go = threading.Event()

    async def leave() -> None:
        task = asyncio.ensure_future(one.run(go.wait))
        await asyncio.sleep(0)
        task.cancel()

    asyncio.run(leave())
    begun, again = threading.Event(), threading.Event()
    loop = asyncio.new_event_loop()
    waiting = loop.create_task(one.run(lambda: (begun.set(), again.wait())))
    loop.run_until_complete(asyncio.sleep(0))
    go.set()
    begun.wait()
    waiting.cancel()
    loop.run_until_complete(asyncio.gather(waiting, return_exceptions=True))
    loop.close()
    again.set()

    async def after() -> str:
        return await one.run(lambda: "still there")

    assert asyncio.run(after()) == "still there"


class OwnWay(asyncio.SelectorEventLoop):
    """A loop that hands work over in a way of its own."""

    handed: int = 0

    def run_in_executor(self, executor: Executor | None, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        self.handed += 1
        return super().run_in_executor(executor, func, *args)


def test_a_loop_with_a_way_of_its_own_is_asked(one: WorkerThreads) -> None:
    def fail() -> None:
        raise KeyError("missing")

    async def main() -> None:
        assert await one.run(lambda: threading.current_thread().name) == "test-one"
        with pytest.raises(KeyError, match="missing"):
            await one.run(fail)

    loop = OwnWay()
    loop.run_until_complete(main())
    assert loop.handed == 2
    loop.close()


async def test_what_was_asked_for_is_done_before_the_end(one: WorkerThreads) -> None:
    seen: list[int] = []
    calls = [asyncio.ensure_future(one.run(lambda n=n: seen.append(n))) for n in range(20)]
    await asyncio.sleep(0)
    one.shutdown()
    assert seen == list(range(20))
    await asyncio.gather(*calls)
    with pytest.raises(RuntimeError, match="ended"):
        await one.run(lambda: None)


async def test_threads_that_are_forgotten_end() -> None:
    made = WorkerThreads(2, "test-forgotten")
    await asyncio.gather(made.run(lambda: None), made.run(lambda: None))
    del made
    gc.collect()
    assert [thread for thread in threading.enumerate() if thread.name == "test-forgotten"] == []
