"""How often a user may ask."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from agentmem import AgentMemory
from agentmem.errors import RateLimited
from agentmem.recall import request
from agentmem.recall.request import RateLimiter


async def test_a_burst_passes_and_then_so_many_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now[0])
    limit = RateLimiter(20, 3)
    for _ in range(3):
        limit.acquire("ann")
    with pytest.raises(RateLimited) as refused:
        limit.acquire("ann")
    assert refused.value.retry_after == pytest.approx(0.05)
    limit.acquire("bob")  # others have a bucket of their own
    now[0] += refused.value.retry_after + 0.001
    limit.acquire("ann")
    with pytest.raises(RateLimited):
        limit.acquire("ann")


async def test_no_rate_is_no_limit() -> None:
    limit = RateLimiter(0, 1)
    for _ in range(1000):
        limit.acquire("ann")


async def test_users_beyond_what_is_kept_start_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request, "MAX_TRACKED_USERS", 2)
    limit = RateLimiter(0.001, 1)
    for name in ("ann", "bob", "cid"):
        limit.acquire(name)
    limit.acquire("ann")
    with pytest.raises(RateLimited):
        limit.acquire("cid")


def test_a_memory_with_a_limit_says_when_to_come_again(home: Path) -> None:
    with AgentMemory("ann", home=home, embedder="hash", recall_rate=0.01, recall_burst=2) as memory:
        memory.remember("bees")
        memory.context("bees")
        with pytest.raises(RateLimited, match="recall_rate"):
            memory.remember("bees")
