"""The program that is killed: it writes one of everything, says what was acknowledged, and dies at a given step."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from agentmem.core.records import Fact
from agentmem.facade.async_memory import AsyncAgentMemory
from agentmem.jobs import runner
from agentmem.stores.sqlite import SqliteLog
from agentmem.stores.sqlite.vectors import SqliteVectors
from tests.fakes.as_a_model import AsyncOnlyEmbedder

LEASE_SECONDS = 0.2  # what a killed worker holds is free soon
ANN = "Ann moved to Lisbon in spring. She keeps bees."
Action = Callable[[AsyncAgentMemory, str], Awaitable[Any]]


async def open_memory(home: Path) -> AsyncAgentMemory:
    runner.LEASE_SECONDS = LEASE_SECONDS
    return await AsyncAgentMemory("ann", home=home, embedder="hash", dimensions=64, conversation_id="talk").open()


async def _fact(memory: AsyncAgentMemory, claim: str) -> str:
    found: list[Fact] = await memory.semantic.facts({"claim": claim, "retired": True})
    return found[0].id


async def _store_turn(memory: AsyncAgentMemory, key: str) -> None:
    await memory.store_turn(ANN, turn_id="t1")


async def _store_turns(memory: AsyncAgentMemory, key: str) -> None:
    said = ["What do bees eat?", "Nectar and pollen, mostly.", "My password is swordfish."]
    await memory.store_turns([{"turn_id": f"t{n}", "content": text} for n, text in enumerate(said, 2)])


async def _learn(memory: AsyncAgentMemory, key: str) -> None:
    await memory.learn_fact("Ann works at Acme", source_turn_ids=["t1"], idempotency_key=key)


async def _learn_more(memory: AsyncAgentMemory, key: str) -> None:
    await memory.learn_fact("Ann keeps bees", source_turn_ids=["t1", "t4"], idempotency_key=key)


async def _relate(memory: AsyncAgentMemory, key: str) -> None:
    await memory.upsert_entity({"name": "Acme", "type": "organisation"}, idempotency_key=key)


async def _supersede(memory: AsyncAgentMemory, key: str) -> None:
    await memory.semantic.supersede_fact(
        await _fact(memory, "Ann works at Acme"), "Ann works at Globex", idempotency_key=key
    )


async def _forget(memory: AsyncAgentMemory, key: str) -> None:
    await memory.forget(await _fact(memory, "Ann keeps bees"), idempotency_key=key)


async def _restore(memory: AsyncAgentMemory, key: str) -> None:
    await memory.restore(await _fact(memory, "Ann keeps bees"), idempotency_key=key)


async def _profile(memory: AsyncAgentMemory, key: str) -> None:
    await memory.update_profile(preferences={"language": "Portuguese"}, idempotency_key=key)


async def _erase(memory: AsyncAgentMemory, key: str) -> None:
    await memory.forget("t4", hard=True, idempotency_key=key)


async def _store_last(memory: AsyncAgentMemory, key: str) -> None:
    await memory.store_turn("I work at Initech. My sister Clara lives in Porto.", turn_id="t9")


async def _read(memory: AsyncAgentMemory, key: str) -> None:
    while (await memory.consolidate("consolidate"))[0].pending:
        await asyncio.sleep(LEASE_SECONDS / 2)  # of somebody who was killed


async def _think(memory: AsyncAgentMemory, key: str) -> None:
    await memory.working.push_thought("Ask about the bees.")


ACTIONS: Mapping[str, Action] = {
    "a turn": _store_turn,
    "a thought": _think,
    "three turns": _store_turns,
    "a fact": _learn,
    "another fact": _learn_more,
    "an entity": _relate,
    "a change of mind": _supersede,
    "a fact forgotten": _forget,
    "and restored": _restore,
    "a profile": _profile,
    "a turn erased": _erase,
    "a last turn": _store_last,
    "turns read": _read,
}


class StepCounter:
    """Counts the steps of all writes, and kills the process at the n-th occurrence of one."""

    def __init__(self, step: str = "", nth: int = 0) -> None:
        self._step, self._nth = step, nth
        self.counts: Counter[str] = Counter()

    def __call__(self, step: str) -> None:
        self.counts[step] += 1
        if step == self._step and self.counts[step] == self._nth:
            os.kill(os.getpid(), signal.SIGKILL)


class StepProxy:
    """Stands before a store's file, or a store, and tells of the steps of one of its calls."""

    def __init__(self, inner: Any, name: str, call: str, steps: StepCounter) -> None:
        self._inner, self._name, self._call, self._steps = inner, name, call, steps

    def __getattr__(self, attribute: str) -> Any:
        value = getattr(self._inner, attribute)
        if attribute != self._call:
            return value

        async def called(*args: Any, **kwargs: Any) -> Any:
            self._steps(f"{self._name}: before")
            if self._call == "write":
                function, *args = args
                args = [lambda db: (function(db), self._steps(f"{self._name}: not committed"))[0], *args]
            result = await value(*args, **kwargs)
            self._steps(f"{self._name}: after")
            return result

        return called


def instrument(memory: AsyncAgentMemory, steps: StepCounter, *, inline_vectors: bool = False) -> None:
    """Have every step of a write told to `steps`. Vectors follow as those of a model do, or come with the log."""
    engine: Any = memory.engine
    engine.log = SqliteLog(engine.log.database, engine.clock, hook=steps)
    engine.session = StepProxy(engine.session, "session", "push", steps)
    for projection in engine.vector_projections:
        projection.log = engine.log
        if not inline_vectors:
            embedder = projection.embedder = AsyncOnlyEmbedder(projection.embedder)
            database: Any = StepProxy(engine.log.database, "vectors", "write", steps)
            projection.index = SqliteVectors(database, embedder.identity, embedder.dimensions)


async def write_all(memory: AsyncAgentMemory, on_acknowledged: Callable[[str], None] = lambda name: None) -> None:
    """Do every act, each under its own name as its key; `on_acknowledged` hears of what was acknowledged."""
    for name, act in ACTIONS.items():
        await act(memory, name)
        on_acknowledged(name)


async def _run_child(
    home: Path, step: str, nth: int, on_acknowledged: Callable[[str], None], inline_vectors: bool
) -> None:
    memory = await open_memory(home)
    instrument(memory, StepCounter(step, nth), inline_vectors=inline_vectors)
    await write_all(memory, on_acknowledged)
    await memory.close()


def run_child(home: str, step: str, nth: int, pipe: Connection, inline_vectors: bool) -> None:
    """What a child process runs."""
    asyncio.run(_run_child(Path(home), step, nth, pipe.send, inline_vectors))
