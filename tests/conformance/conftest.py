"""Every backend that is there, opened for one test. A backend is added by one entry in BACKENDS."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from agentmem.model.clock import Clock
from agentmem.model.scope import Scope
from agentmem.stores import LogStore
from tests.conformance.writing import SetClock

OpenLog = Callable[[], Awaitable[LogStore]]


async def open_sqlite(home: Path, clock: Clock) -> LogStore:
    """The embedded backend in a folder of its own."""
    from agentmem.stores.sqlite import open_log

    return await open_log(home / "memory.db", clock)


BACKENDS = {"sqlite": open_sqlite}


@pytest.fixture
def clock() -> SetClock:
    """The clock of every log of a test."""
    return SetClock()


@pytest.fixture
def scope() -> Scope:
    """Whose memory the test is about."""
    return Scope("alice")


@pytest.fixture
def stranger() -> Scope:
    """Another user of the same store."""
    return Scope("mallory")


@pytest.fixture(params=sorted(BACKENDS))
async def open_log(request: pytest.FixtureRequest, home: Path, clock: SetClock) -> AsyncIterator[OpenLog]:
    """Opens the test's store; called again, once more, as another process would. All are closed in the end."""
    opened: list[LogStore] = []

    async def open_one() -> LogStore:
        opened.append(await BACKENDS[request.param](home, clock))
        return opened[-1]

    yield open_one
    for log in opened:
        await log.close()


@pytest.fixture
async def log(open_log: OpenLog) -> LogStore:
    """The test's store."""
    return await open_log()
