"""A client of the servers, in a thread of its own: it writes and asks, stands still at one step, and is checked."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Coroutine
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, TypeVar

from agentmem.agent_memory import AsyncAgentMemory
from agentmem.errors import AgentMemError, StoreUnavailable
from agentmem.model.records import Fact, Turn
from tests.faults import servers_checks

T = TypeVar("T")
PATIENCE = 90.0  # seconds until what gives no answer is given up
PACE = 0.5  # seconds between two writes, and between two recalls: eleven clients share one process
SLOW_PACE = 3.0  # while only a server's start is waited for, which needs the machine more
IDLE = "idle"


class Gate:
    """Stops a client's thread at one step of one write, when armed, until it is opened."""

    def __init__(self, step: str) -> None:
        self.step = step
        self.there, self._open = threading.Event(), threading.Event()
        self._armed = False

    def arm(self) -> None:
        """Stop the client when it takes the step next."""
        self.there.clear()
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
            self.there.set()
            self._open.wait(PATIENCE)


@dataclass(frozen=True, slots=True)
class Try:
    """One attempt at a write, or a recall: when it began and ended, and what came of it."""

    began: float
    ended: float
    error: str = ""
    notices: tuple[str, ...] = ()


@dataclass
class Notes:
    """What a client saw in one round."""

    writes: list[Try] = field(default_factory=list)
    recalls: list[Try] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)  # what no fault excuses


class Client:
    """One agent with one user of its own. It is opened once and outlives all faults."""

    def __init__(self, memory: AsyncAgentMemory, step: str) -> None:
        self.step = step
        self.gate = Gate(step)
        self.notes = Notes()
        self.acknowledged: dict[int, tuple[str, int]] = {}  # what each write gave: id and seq
        self.pace = PACE
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
        servers_checks.watch(self._memory, self.gate, at_once=servers_checks.comes_at_once(self.step))
        await self._memory.upsert_entity({"name": "Ann"}, idempotency_key="Ann")
        await self._memory.remember("what does Ann say?")
        await self._memory.flush()  # first times are slow, and at its step no client should wait long for the others

    async def begin(self) -> None:
        """Write and ask from now on."""
        self.notes, self._ending, self.pace = Notes(), False, PACE
        self._tasks = [asyncio.ensure_future(self._write()), asyncio.ensure_future(self._ask())]

    async def end(self) -> None:
        """Finish the write under way, make one more, and stop."""
        self._ending, self.pace = True, PACE
        await asyncio.wait(self._tasks, timeout=PATIENCE)
        for task in self._tasks:
            if not task.done():
                self.notes.wrong.append("writer or reader did not come to an end")
                task.cancel()
        for error in await asyncio.gather(*self._tasks, return_exceptions=True):
            if isinstance(error, Exception):
                self.notes.wrong.append(f"{type(error).__name__}: {error}")

    async def settle(self) -> None:
        """Look on until everything has caught up."""
        async with asyncio.timeout(PATIENCE):
            while True:
                try:
                    if set((await self._memory.lag()).values()) == {0}:
                        return
                except StoreUnavailable:
                    pass
                await asyncio.sleep(PACE)

    async def close(self) -> None:
        """Close the memory, and let what closes in the background come to its end; `stop` then ends the thread."""
        await self._memory.close()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        await asyncio.sleep(PACE)

    def stop(self) -> None:
        """End the thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE)
        self._loop.close()

    # -- what it does

    async def _write(self) -> None:
        while True:
            last = self._ending
            number = len(self.acknowledged) + 1
            while not await self._tried(number):
                await asyncio.sleep(self.pace)
            self.gate(IDLE)
            if last:
                return
            await asyncio.sleep(self.pace)

    async def _tried(self, number: int) -> bool:
        """One attempt at a write; whether it was acknowledged."""
        began, error = time.monotonic(), ""
        try:
            async with asyncio.timeout(PATIENCE):
                record = await self._put(number)
            self.acknowledged[number] = (record.id, record.seq)
        except StoreUnavailable as caught:
            error = str(caught)
        except (AgentMemError, TimeoutError) as caught:
            error = f"{type(caught).__name__}: {caught}"
            self.notes.wrong.append(f"write {number}: {error}")
        self.notes.writes.append(Try(began, time.monotonic(), error))
        return not error

    async def _put(self, number: int) -> Turn | Fact:
        if number % 4 == 0:
            return await self._memory.learn_fact(claim(number), idempotency_key=f"f{number}")
        return await self._memory.store_turn(said(number), turn_id=f"t{number}")

    async def _ask(self) -> None:
        while not self.gate.is_open():  # a recall that stood still with its client would find its time over
            await asyncio.sleep(self.pace)
        while not self._ending:
            began, error, notices = time.monotonic(), "", ()
            try:
                async with asyncio.timeout(PATIENCE):
                    notices = (await self._memory.remember("what does Ann say?")).notices
            except StoreUnavailable as caught:
                error = str(caught)
            except (AgentMemError, TimeoutError) as caught:
                error = f"{type(caught).__name__}: {caught}"
                self.notes.wrong.append(f"recall: {error}")
            self.notes.recalls.append(Try(began, time.monotonic(), error, notices))
            await asyncio.sleep(self.pace)

    # -- what must hold

    async def checked(self) -> None:
        """`check`, again while a server that has more to do is too slow to answer."""
        async with asyncio.timeout(PATIENCE):
            while True:
                try:
                    return await self.check()
                except StoreUnavailable:
                    await asyncio.sleep(self.pace)

    async def check(self) -> None:
        """Raise AssertionError unless what was acknowledged is there, once, and tried again gives the same."""
        resources, scope = self._memory.resources, self._memory.scope
        head = (await resources.log.head(scope)).seq
        for number in list(self.acknowledged)[self._checked :]:
            again = await self._put(number)
            assert (again.id, again.seq) == self.acknowledged[number], (
                f"write {number} gave another record when retried"
            )
        assert (await resources.log.head(scope)).seq == head, "what was acknowledged was not there"
        self._checked = len(self.acknowledged)
        turns = await self._memory.episodic.get_conversation("talk", limit=100_000)
        facts = await self._memory.semantic.facts({})
        numbers = range(1, len(self.acknowledged) + 1)
        assert [turn.content for turn in turns] == [said(n) for n in numbers if n % 4], "turns are lost, or there twice"
        assert [turn.index for turn in turns] == list(range(len(turns)))
        assert sorted(fact.claim for fact in facts) == sorted(claim(n) for n in numbers if n % 4 == 0), "facts differ"
        await servers_checks.whole(resources, scope)
        await self._memory.resources.settle()
        assert set((await self._memory.lag()).values()) == {0}, "behind again"


def said(number: int) -> str:
    """What the turn of this number holds."""
    return f"Ann says number {number}"


def claim(number: int) -> str:
    """What the fact of this number claims."""
    return f"Ann counted up to {number}"
