"""What tests of the session cache in Redis share: opened caches, one of every key, and a memory that uses one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from agentmem.core.scope import Scope
from agentmem.facade.async_memory import AsyncAgentMemory
from agentmem.stores.redis import RedisSession, open_session
from tests.conformance.stores import ManualClock

ANN, BOB = Scope("ann"), Scope("bob")


@asynccontextmanager
async def open_redis_session(url: str) -> AsyncIterator[RedisSession]:
    """The cache at a URL, closed in the end."""
    session = await open_session(url, ManualClock())
    try:
        yield session
    finally:
        await session.close()


async def write_sample_keys(session: RedisSession, scope: Scope = ANN) -> None:
    """A key of each kind, each ways of reading, and two that are gone again."""
    await session.set(scope, "identity", {"name": "Ann"}, ttl=60)
    await session.set(scope, "working:_global:talk:context:city", "Oslo", ttl=60)
    await session.push(scope, "working:_global:talk:turns", {"n": 1}, keep=3, ttl=120)
    await session.increment(scope, "session:s1:recalls", ttl=60)
    await session.increment(scope, "session:s1:recalls", ttl=60)
    await session.set(scope, "gone", 1, ttl=60)
    await session.delete(scope, "gone")
    await session.set(scope, "gone:too", 1, ttl=60)
    await session.clear(scope, "gone:")
    await session.get(scope, "identity")
    await session.tail(scope, "working:_global:talk:turns", 2)
    await session.items(scope, "working:")


@asynccontextmanager
async def open_memory_with_session(home: Path, session: RedisSession, **scope: str) -> AsyncIterator[AsyncAgentMemory]:
    """A memory whose session cache is this one."""
    async with AsyncAgentMemory("ann:b {c}", home=home, embedder="hash", **scope) as memory:
        await memory.engine.session.close()
        memory.engine.session = session
        yield memory
