"""What the tests of consolidation share: a memory whose model reads from a book."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from agentmem import AsyncAgentMemory
from agentmem.core.records import Gloss
from tests.fakes.scribe import SPEC, FakeExtractionLLM, TurnReply, install_extraction_llm

LIVES = "Where I live by now is Lisbon, by the river."  # no plain statement: rules do not read it
MOVED = "We moved again: I live in Porto now."
PLEASANT = "Hi there, good morning!"
REPLIES: dict[str, TurnReply] = {
    LIVES: {
        "facts": [
            {
                "claim": "The user lives in Lisbon.",
                "certainty": "explicit",
                "tense": "current",
            }
        ],
        "entities": [{"name": "Lisbon", "type": "place"}],
        "standalone": "The user said that home is in Lisbon, by the river.",
        "keys": ["home town", "residence"],
    },
    MOVED: {
        "facts": [
            {
                "claim": "The user lives in Porto.",
                "certainty": "explicit",
                "tense": "current",
                "ends": ["The user lives in Lisbon."],
                "mark": "change",
            }
        ],
        "entities": [{"name": "Porto", "type": "place"}],
        "standalone": "The user moved to Porto.",
        "keys": ["residence"],
    },
}


@asynccontextmanager
async def open_memory_with_llm(
    home: Path, scribe: FakeExtractionLLM, user: str = "alice", **settings: Any
) -> AsyncIterator[AsyncAgentMemory]:
    async with AsyncAgentMemory(user, home=home, embedder="hash", llm=SPEC, **settings) as memory:
        yield install_extraction_llm(memory, scribe)


async def read_summaries(memory: AsyncAgentMemory, *turn_ids: str) -> list[Gloss]:
    found = await memory.engine.log.read_records("Gloss", turn_ids, memory.scope)
    return [record for record in found if isinstance(record, Gloss)]
