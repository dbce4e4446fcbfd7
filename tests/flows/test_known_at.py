"""What memory knew at a moment of the record, and what was so at a moment of the world: every question agrees."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from agentmem import AsyncAgentMemory
from tests.flows.given import ManualClock

CLAIM = "The commute takes 20 minutes by tram."


def day(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(day("2026-06-11"))


@pytest.fixture
async def memory(home: Path, clock: ManualClock) -> AsyncIterator[AsyncAgentMemory]:
    async with AsyncAgentMemory("ann", home=home, embedder="hash", clock=clock) as opened:
        yield opened


async def test_between_forgetting_and_restoring_a_premise_was_not_known(
    memory: AsyncAgentMemory, clock: ManualClock
) -> None:
    office = await memory.learn_fact("The office is in Oslo.")
    await memory.learn_fact(CLAIM, depends_on=[office.id])
    clock.time = day("2026-07-01")
    await memory.forget(office.id)
    clock.time = day("2026-08-01")
    await memory.restore(office.id)
    clock.time = day("2026-09-01")
    told = {}
    for moment in ("2026-06-20", "2026-07-15", "2026-08-15"):
        (fact,) = [
            each for each in (await memory.remember("commute", known_at=day(moment))).facts if each.claim == CLAIM
        ]
        told[moment] = (fact.stale_since, fact.fallen_premise)
    assert told == {
        "2026-06-20": (None, ""),
        "2026-07-15": (day("2026-07-01"), "The office is in Oslo."),
        "2026-08-15": (None, ""),
    }


async def test_beliefs_and_contexts_tell_what_was_known(memory: AsyncAgentMemory, clock: ManualClock) -> None:
    await memory.store_turn("I live in Bergen.", timestamp=day("2026-01-12"))
    await memory.store_turn("I live in Oslo now.", timestamp=day("2026-06-10"))
    await memory.consolidate()
    oslo = (await memory.beliefs("user", "home"))[0].current[0]
    clock.time = day("2026-07-01")
    await memory.forget(oslo.id)
    clock.time = day("2026-08-01")
    await memory.restore(oslo.id)
    clock.time = day("2026-09-01")
    for moment, held in (("2026-06-20", ["Oslo"]), ("2026-07-15", []), ("2026-08-15", ["Oslo"])):
        known = (await memory.beliefs("user", "home", known_at=day(moment)))[0]
        assert [fact.value for fact in known.current] == held, moment
        text = (await memory.context("Where do I live?", known_at=day(moment))).text
        assert ("- home: Oslo" in text) is bool(held), moment
