"""A store that is too slow for a deadline costs some recalls their vectors, not all of them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from agentmem.core.columns import Floats, Ints
from agentmem.core.scope import Scope
from agentmem.facade.async_memory import AsyncAgentMemory
from agentmem.recall.cache import PAIR_BATCH_SIZE
from tests.faults.virtual import VirtualClock, run

THOUSANDS = 4  # of turns, with two cosines each
SECONDS = 1.0 / PAIR_BATCH_SIZE  # of each cosine; the deadline is 2 s


class _Slow:
    """A vector index that takes its time for cosines of neighbors."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def score_pairs(self, left: Ints, right: Ints, scope: Scope) -> Floats:
        await asyncio.sleep(SECONDS * len(left))
        found: Floats = await self._inner.score_pairs(left, right, scope)
        return found


def test_cosines_of_neighbours_are_completed_by_recalls_that_are_each_cut_off(home: Path) -> None:
    async def story(clock: VirtualClock) -> None:
        memory = AsyncAgentMemory("ann", home=home, embedder="hash", dimensions=32, clock=clock)
        await memory.open()
        for thousand in range(THOUSANDS):
            said = [f"number {thousand}.{n}" for n in range(1000)]
            await memory.store_turns([{"content": text, "conversation_id": "talk"} for text in said])
        await memory.flush()
        slow: Any = _Slow(memory.engine.vector_projections[0].index)
        memory.engine.vector_projections[0].index = slow
        cut_off = 0
        while any("Recalled without vector" in notice for notice in (await memory.remember("which number?")).notices):
            cut_off += 1
            assert cut_off < 10
        assert cut_off > 1
        await memory.close()

    run(story)
