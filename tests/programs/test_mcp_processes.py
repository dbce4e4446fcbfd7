"""Eight MCP servers on one file at the same time, as clients that start one for each session make them."""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from agentmem import AsyncAgentMemory
from agentmem.core.records import Turn
from tests.programs.served import AGENTMEM
from tests.scale import NIGHTLY, scaled

PROCESSES = scaled(8, least=2)
SECONDS = 60.0 if NIGHTLY else 1.5
MAX_TURNS = 100_000


@dataclass
class Tally:
    """What the clients saw: acknowledged turns by id, searches, errors, and the slowest call in seconds."""

    turns: dict[str, str] = field(default_factory=dict)
    searches: int = 0
    errors: list[str] = field(default_factory=list)
    slowest: float = 0.0

    async def call(self, client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
        """The structured result of a call; empty for an error."""
        started = time.perf_counter()
        result = await client.call_tool(tool, arguments)
        self.slowest = max(self.slowest, time.perf_counter() - started)
        if result.is_error:
            self.errors.append(str(result.content))
        return result.structured_content or {}

    def __str__(self) -> str:
        counts = f"{len(self.turns)} turns, {self.searches} searches, {len(self.errors)} errors"
        return f"{PROCESSES} processes, {SECONDS:g} s: {counts}, slowest call {self.slowest * 1000:.0f} ms"


@pytest.mark.nightly  # by day test_sessions_that_end_at_once_are_read_once_each and test_two_processes_write_at_once
async def test_processes_on_one_file_lose_nothing_and_find_what_they_stored(home: Path) -> None:
    environment = {**os.environ, "AGENTMEM_HOME": str(home), "AGENTMEM_EMBEDDER": "hash"}
    parameters = StdioServerParameters(command=AGENTMEM, args=["mcp", "--user", "ann"], env=environment)
    tally, all_started = Tally(), asyncio.Barrier(PROCESSES)

    async def talk(number: int) -> None:
        async with Client(stdio_client(parameters)) as client:
            await all_started.wait()
            ends_at, count = time.monotonic() + SECONDS, 0
            place: dict[str, str] = {}
            while time.monotonic() < ends_at:
                count += 1
                word = f"parcel{number}x{count}"
                turn = await tally.call(client, "store_turn", text=f"I sent {word} to Oslo.", **place)
                tally.turns[turn["id"]] = f"I sent {word} to Oslo."
                place = {"conversation_id": turn["conversation_id"]}
                found = await tally.call(client, "search_memory", query=f"where did {word} go?")
                tally.searches += 1
                assert turn["id"] in {each["id"] for each in found["results"]}, (tally.errors, found)

    await asyncio.gather(*(talk(number) for number in range(PROCESSES)))
    print(tally)
    assert tally.errors == []
    assert len(tally.turns) == tally.searches >= PROCESSES
    stored = await _read_all_turns(home)
    assert {turn.id: turn.content for turn in stored} == tally.turns
    assert max(Counter(turn.content for turn in stored).values()) == 1


async def _read_all_turns(home: Path) -> list[Turn]:
    """What is in the file at the end, by a reader that starts then; what each conversation shows is the same."""
    async with AsyncAgentMemory("ann", home=home, embedder="hash") as memory:
        stored = await memory.episodic.recent_turns(MAX_TURNS)
        threads = await memory.episodic.conversations()
        by_thread = [turn for each in threads for turn in await memory.episodic.get_conversation(each.id)]
    assert len(threads) == PROCESSES
    assert Counter(turn.id for turn in by_thread) == Counter(turn.id for turn in stored)
    return stored
