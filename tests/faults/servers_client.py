"""A client of the servers, in a thread of its own: it writes and asks, stands still at one step, and is checked."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Coroutine
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, TypeVar

from agentmem.core.records import Fact, Turn
from agentmem.errors import AgentMemError, StoreUnavailable
from agentmem.facade.async_memory import AsyncAgentMemory
from tests.faults import servers_checks

T = TypeVar("T")
TIMEOUT_SECONDS = 90.0  # seconds until what gives no answer is given up
INTERVAL_SECONDS = 0.5  # seconds between two writes, and between two recalls: eleven clients share one process
SLOW_INTERVAL_SECONDS = 3.0  # while only a server's start is waited for, which needs the machine more
IDLE = "idle"


class Gate:
    """Stops a client's thread at one step of one write, when armed, until it is opened."""

    def __init__(self, step: str) -> None:
        self.step = step
        self.reached, self._open = threading.Event(), threading.Event()
        self._armed = False

    def arm(self) -> None:
        """Stop the client when it takes the step next."""
        self.reached.clear()
        self._open.clear()
        self._armed = True

    def is_open(self) -> bool:
        """Whether it was opened since it was armed."""
        return self._open.is_set()

    def open(self) -> None:
        """Let it go on, whether it has come or not."""
        self._armed = False
        self._open.set()

    def __call__(self, step: str) -> None:
        if self._armed and step == self.step:
            self._armed = False
            self.reached.set()
            self._open.wait(TIMEOUT_SECONDS)


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt at a write, or a recall: when it began and ended, and what came of it."""

    began: float
    ended: float
    error: str = ""


@dataclass
class ClientLog:
    """What a client saw in one round."""

    writes: list[Attempt] = field(default_factory=list)
    recalls: list[Attempt] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)  # what no fault excuses


class Client:
    """One agent with one user of its own. It is opened once and outlives all faults."""

    def __init__(self, memory: AsyncAgentMemory, step: str) -> None:
        self.step = step
        self.gate = Gate(step)
        self.log = ClientLog()
        self.acknowledged: dict[int, tuple[str, int]] = {}  # what each write gave: id and seq
        self.interval = INTERVAL_SECONDS
        self._checked = 0
        self._memory = memory
        self._ending = False
        self._tasks: list[asyncio.Task[None]] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=f"client {step}", daemon=True)
        self._thread.start()

    def do(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Have something done in the client's thread."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    async def open(self) -> None:
        """Open the memory."""
        await self._memory.open()
        servers_checks.instrument(self._memory, self.gate, inline_vectors=servers_checks.has_inline_vectors(self.step))
        await self._memory.upsert_entity({"name": "Ann"}, idempotency_key="Ann")
        await self._memory.remember("what does Ann say?")
        await self._memory.flush()  # first times are slow, and at its step no client should wait long for the others

    async def begin(self) -> None:
        """Write and ask from now on."""
        self.log, self._ending, self.interval = ClientLog(), False, INTERVAL_SECONDS
        self._tasks = [asyncio.ensure_future(self._write()), asyncio.ensure_future(self._ask())]

    async def end(self) -> None:
        """Finish the write under way, make one more, and stop."""
        self._ending, self.interval = True, INTERVAL_SECONDS
        await asyncio.wait(self._tasks, timeout=TIMEOUT_SECONDS)
        for task in self._tasks:
            if not task.done():
                self.log.failures.append("writer or reader did not come to an end")
                task.cancel()
        for error in await asyncio.gather(*self._tasks, return_exceptions=True):
            if isinstance(error, Exception):
                self.log.failures.append(f"{type(error).__name__}: {error}")

    async def wait_until_synced(self) -> None:
        """Look on until everything has caught up."""
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while True:
                try:
                    if set((await self._memory.lag()).values()) == {0}:
                        return
                except StoreUnavailable:
                    pass
                await asyncio.sleep(INTERVAL_SECONDS)

    async def close(self) -> None:
        """Close the memory, and let what closes in the background come to its end; `stop` then ends the thread."""
        await self._memory.close()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        await asyncio.sleep(INTERVAL_SECONDS)

    def stop(self) -> None:
        """End the thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(TIMEOUT_SECONDS)
        self._loop.close()

    # -- what it does

    async def _write(self) -> None:
        while True:
            last = self._ending
            number = len(self.acknowledged) + 1
            while not await self._try_write(number):
                await asyncio.sleep(self.interval)
            self.gate(IDLE)
            if last:
                return
            await asyncio.sleep(self.interval)

    async def _try_write(self, number: int) -> bool:
        """One attempt at a write; whether it was acknowledged."""
        began, error = time.monotonic(), ""
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                record = await self._put(number)
            self.acknowledged[number] = (record.id, record.seq)
        except StoreUnavailable as caught:
            error = str(caught)
        except (AgentMemError, TimeoutError) as caught:
            error = f"{type(caught).__name__}: {caught}"
            self.log.failures.append(f"write {number}: {error}")
        self.log.writes.append(Attempt(began, time.monotonic(), error))
        return not error

    async def _put(self, number: int) -> Turn | Fact:
        if number % 4 == 0:
            return await self._memory.learn_fact(fact_claim(number), idempotency_key=f"f{number}")
        return await self._memory.store_turn(turn_text(number), turn_id=f"t{number}")

    async def _ask(self) -> None:
        while not self.gate.is_open():  # a recall that stood still with its client would find its time over
            await asyncio.sleep(self.interval)
        while not self._ending:
            began, error = time.monotonic(), ""
            try:
                async with asyncio.timeout(TIMEOUT_SECONDS):
                    await self._memory.remember("what does Ann say?")
            except StoreUnavailable as caught:
                error = str(caught)
            except (AgentMemError, TimeoutError) as caught:
                error = f"{type(caught).__name__}: {caught}"
                self.log.failures.append(f"recall: {error}")
            self.log.recalls.append(Attempt(began, time.monotonic(), error))
            await asyncio.sleep(self.interval)

    # -- what must hold

    async def check_with_retry(self) -> None:
        """`check`, again while a server that has more to do is too slow to answer."""
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while True:
                try:
                    return await self.check()
                except StoreUnavailable:
                    await asyncio.sleep(self.interval)

    async def check(self) -> None:
        """Raise AssertionError unless what was acknowledged is there, once, and tried again gives the same."""
        engine, scope = self._memory.engine, self._memory.scope
        head = (await engine.log.head(scope)).seq
        for number in list(self.acknowledged)[self._checked :]:
            again = await self._put(number)
            assert (again.id, again.seq) == self.acknowledged[number], (
                f"write {number} gave another record when retried"
            )
        assert (await engine.log.head(scope)).seq == head, "what was acknowledged was not there"
        self._checked = len(self.acknowledged)
        turns = await self._memory.episodic.get_conversation("talk", limit=100_000)
        facts = await self._memory.semantic.facts({})
        numbers = range(1, len(self.acknowledged) + 1)
        assert [turn.content for turn in turns] == [turn_text(n) for n in numbers if n % 4], (
            "turns are lost, or there twice"
        )
        assert [turn.index for turn in turns] == list(range(len(turns)))
        assert sorted(fact.claim for fact in facts) == sorted(fact_claim(n) for n in numbers if n % 4 == 0), (
            "facts differ"
        )
        await servers_checks.check_complete(engine, scope)
        await self._memory.engine.drain_background()
        assert set((await self._memory.lag()).values()) == {0}, "behind again"


def turn_text(number: int) -> str:
    """What the turn of this number holds."""
    return f"Ann says number {number}"


def fact_claim(number: int) -> str:
    """What the fact of this number claims."""
    return f"Ann counted up to {number}"
