"""Fixtures of the flow tests: one memory of one user, opened in a home of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agentmem import AgentMemory
from tests.flows.given import ManualClock, open_memory


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def memory(home: Path, clock: ManualClock) -> Iterator[AgentMemory]:
    """Alice's memory under a stopped clock and seeded ids."""
    with open_memory(home, clock=clock, seed=7) as opened_memory:
        yield opened_memory
