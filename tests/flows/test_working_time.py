"""What every read of working memory does to its time to live, on both stores of sessions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agentmem import AgentMemory
from tests.flows.given import ManualClock, open_memory

STORES = ["sqlite", pytest.param("redis", marks=pytest.mark.server("redis"))]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=STORES)
def memory(request: pytest.FixtureRequest, home: Path, clock: ManualClock) -> Iterator[AgentMemory]:
    more = {"session_url": request.getfixturevalue("redis_database")} if request.param == "redis" else {}
    with open_memory(home, conversation_id="talk", clock=clock, **more) as memory:
        yield memory


def test_every_read_begins_the_time_anew(memory: AgentMemory, clock: ManualClock) -> None:
    memory.working.set("city", "Oslo")
    memory.working.set("short", "soon", ttl=3000)
    memory.working.push_thought("ask")
    for _ in range(3):
        clock.advance(seconds=2500)
        assert memory.working.context() == {"city": "Oslo", "short": "soon"}
        assert memory.working.thoughts() == ["ask"]
    clock.advance(seconds=3200)
    assert memory.working.context() == {"city": "Oslo"}, "its own time to live is kept"
    clock.advance(seconds=3700)
    assert (memory.working.context(), memory.working.thoughts()) == ({}, [])
