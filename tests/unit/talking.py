"""A memory to talk to: a clock that stands still, and conversations in short."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from agentmem.facade.async_memory import AsyncAgentMemory
from agentmem.recall.bundle import MemoryBundle
from agentmem.recall.pipeline import RecallLayer

START = datetime(2023, 5, 1, 12, tzinfo=UTC)
DEFAULT_TECHNIQUES = ["dialogue", "entity", "keyword", "temporal", "vector"]


class ManualClock:
    """A clock that stands still until it is set."""

    def __init__(self) -> None:
        self.time = START

    def now(self) -> datetime:
        return self.time


@asynccontextmanager
async def open_memory(home: Path, clock: ManualClock) -> AsyncIterator[AsyncAgentMemory]:
    """Alice's memory, deterministic."""
    async with AsyncAgentMemory("alice", home=home, embedder="hash", clock=clock, seed=7) as memory:
        yield memory


async def store_lines(memory: AsyncAgentMemory, *lines: str, conversation: str = "c1", days: int = 0) -> list[str]:
    """Store `Speaker: text` lines as one conversation; the ids of the turns."""
    given = {"role": "user", "conversation_id": conversation, "timestamp": START + timedelta(days=days)}
    pairs = (line.split(": ", 1) for line in lines)
    turns = [{"speaker": speaker, "content": content, **given} for speaker, content in pairs]
    return [turn.id for turn in await memory.store_turns(turns)]


def build_recall_layer(memory: AsyncAgentMemory, **settings: Any) -> RecallLayer:
    """Recall with settings of its own."""
    return RecallLayer(memory.engine, settings)


def turn_contents(bundle: MemoryBundle) -> list[str]:
    """What the turns of a bundle say."""
    return [turn.content for turn in bundle.turns]
