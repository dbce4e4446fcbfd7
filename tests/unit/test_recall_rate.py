"""How often a user may ask."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from agentmem import AgentMemory
from agentmem.errors import RateLimited
from agentmem.recall import rate
from agentmem.recall.rate import RateLimit


async def test_a_burst_passes_and_then_so_many_a_second() -> None:
    limit = RateLimit(20, 3)
    for _ in range(3):
        limit.take("ann")
    with pytest.raises(RateLimited) as refused:
        limit.take("ann")
    assert 0 < refused.value.retry_after <= 0.05
    limit.take("bob")  # others have a bucket of their own
    await asyncio.sleep(refused.value.retry_after + 0.001)
    limit.take("ann")
    with pytest.raises(RateLimited):
        limit.take("ann")


async def test_no_rate_is_no_limit() -> None:
    limit = RateLimit(0, 1)
    for _ in range(1000):
        limit.take("ann")


async def test_users_beyond_what_is_kept_start_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rate, "USERS_KNOWN", 2)
    limit = RateLimit(0.001, 1)
    for name in ("ann", "bob", "cid"):
        limit.take(name)
    limit.take("ann")
    with pytest.raises(RateLimited):
        limit.take("cid")


def test_a_memory_with_a_limit_says_when_to_come_again(home: Path) -> None:
    with AgentMemory("ann", home=home, embedder="hash", recall_rate=0.01, recall_burst=2) as memory:
        memory.remember("bees")
        memory.context("bees")
        with pytest.raises(RateLimited, match="recall_rate"):
            memory.remember("bees")
