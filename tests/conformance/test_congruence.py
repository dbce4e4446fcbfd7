"""Random histories give the same on the embedded stack and on each stack of servers, to the last byte of an export.

AGENTMEM_TEST_HISTORIES=2000 does as many; 17:18 does history 17 alone.
"""

from __future__ import annotations

import os
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from agentmem.facade.async_memory import AsyncAgentMemory
from tests.conformance.congruence import MemoryPair
from tests.flows.given import ManualClock
from tests.scale import scaled
from tests.servers.stack import Stack

STEPS = 12
PARTS = scaled(8, least=1)
FIRST, _, LAST = os.environ.get("AGENTMEM_TEST_HISTORIES", str(scaled(200))).rpartition(":")
HISTORIES = range(int(FIRST or 0), int(LAST))
SERVER_STACKS = (("log_url",), ("log_url", "session_url"), ("log_url", "graph_url", "session_url"))
TECHNIQUES = ("vector", "keyword", "entity", "temporal")
# No deadline: what comes too late on a busy machine would be a difference.
GIVEN: dict[str, Any] = {
    "embedder": "hash",
    "audit_level": "reads",
    "catch_up_ms": 60_000,
    "recall_rate": 0,
    "recall": {name: {"deadline": 60} for name in TECHNIQUES},
}


@pytest.mark.long
@pytest.mark.timeout(300 + len(HISTORIES) * 2)
@pytest.mark.parametrize("part", range(PARTS))
async def test_random_histories_give_the_same_on_all_stacks(home: Path, stack: Stack, part: int) -> None:
    clock, urls = ManualClock(), stack.urls
    settings = [{}, *({name: urls[name] for name in names} for names in SERVER_STACKS)]
    async with AsyncExitStack() as opened:
        embedded, *servers = [
            await opened.enter_async_context(
                AsyncAgentMemory("nobody", home=home / str(place), clock=clock, **GIVEN, **given)
            )
            for place, given in enumerate(settings)
        ]
        for number in HISTORIES[part::PARTS]:
            memories = {"embedded": embedded, "servers": servers[number % len(servers)]}
            await MemoryPair(memories, clock, stack.user(f"user {number}"), number).run(STEPS)
