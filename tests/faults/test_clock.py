"""A clock set back by an hour between writes: record time goes on, what was known and what is over stays so."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from agentmem.admin.doctor import diagnose
from agentmem.facade.async_memory import AsyncAgentMemory
from agentmem.recall.bundle import MemoryBundle
from agentmem.settings.settings import Settings
from tests.conformance.writing import START, SettableClock
from tests.faults import checks


def _memory(home: Path, clock: SettableClock) -> AsyncAgentMemory:
    return AsyncAgentMemory(
        "ann", home=home, embedder="hash", dimensions=64, clock=clock, conversation_id="talk", session_id="s"
    )


@pytest.fixture
def clock() -> SettableClock:
    return SettableClock()


@pytest.fixture
async def memory(home: Path, clock: SettableClock) -> AsyncIterator[AsyncAgentMemory]:
    async with _memory(home, clock) as opened:
        yield opened
        await checks.check_settled(opened)
        await checks.check_journal(opened.engine, opened.scope)  # record time never ran backwards
        await checks.check_rebuild_equal(opened.engine, [opened.scope])


def _claims(bundle: MemoryBundle) -> set[str]:
    return {fact.claim for fact in bundle.facts}


async def _known(memory: AsyncAgentMemory, **when: datetime) -> set[str]:
    return _claims(await memory.remember("where does Ann work, and what does she keep?", **when))


async def test_record_time_stands_still_until_the_clock_has_caught_up(
    memory: AsyncAgentMemory, clock: SettableClock
) -> None:
    first = await memory.store_turn("It is noon.")
    clock.advance(hours=-1)
    second = await memory.store_turn("It is eleven, they say.")
    fact = await memory.learn_fact("Ann keeps bees")
    clock.advance(minutes=90)
    last = await memory.store_turn("Half past twelve.")
    assert [turn.index for turn in (first, second, last)] == [0, 1, 2]
    assert [one.recorded_at for one in (first, second, fact, last)] == [START] * 3 + [START + timedelta(minutes=30)]
    assert second.timestamp == START - timedelta(hours=1)  # the world's time is what the clock said


async def test_what_was_known_at_a_moment_does_not_depend_on_the_clock_of_now(
    memory: AsyncAgentMemory, clock: SettableClock
) -> None:
    fact = await memory.learn_fact("Ann sings at Acme")
    noon = clock.advance(minutes=1)
    clock.advance(hours=-1)
    await memory.learn_fact("Ann keeps bees")
    clock.advance(hours=2)
    await memory.semantic.supersede_fact(fact.id, "Ann sings at Globex")
    for back in (0, -3):
        clock.advance(hours=back)
        assert await _known(memory, known_at=START - timedelta(minutes=30)) == set()
        assert await _known(memory, known_at=noon) == {"Ann sings at Acme", "Ann keeps bees"}
        assert await _known(memory) == {"Ann sings at Globex", "Ann keeps bees"}


@pytest.mark.parametrize("again", [False, True], ids=["same process", "opened again"])
async def test_what_is_over_stays_over(memory: AsyncAgentMemory, clock: SettableClock, home: Path, again: bool) -> None:
    fact = await memory.learn_fact("Ann sings at Acme")
    await memory.learn_fact("Ann sings at Initech")
    clock.advance(minutes=5)
    await memory.semantic.supersede_fact(fact.id, "Ann sings at Initech")  # which is known already: no record is new
    clock.advance(hours=-1)
    asked = await _memory(home, clock).open() if again else memory
    assert await _known(asked) == {"Ann sings at Initech"}
    assert [fact.claim for fact in await asked.semantic.facts()] == ["Ann sings at Initech"]
    assert "Acme" not in (await asked.context("where does Ann sing?")).text
    if again:
        await asked.close()


async def test_a_change_of_mind_under_a_clock_set_back_leaves_one_current_fact(
    memory: AsyncAgentMemory, clock: SettableClock
) -> None:
    fact = await memory.learn_fact("Ann sings at Acme", valid_from=START)
    clock.advance(hours=-1)
    new = await memory.semantic.supersede_fact(fact.id, "Ann sings at Globex")
    assert await _known(memory) == {"Ann sings at Globex"}
    clock.advance(hours=5)
    assert await _known(memory) == {"Ann sings at Globex"}
    assert [one.id for one in await memory.semantic.facts()] == [new.id]
    await memory.undo(new.operation_id)
    assert await _known(memory) == {"Ann sings at Acme"}


async def test_session_values_end_in_spite_of_it(memory: AsyncAgentMemory, clock: SettableClock) -> None:
    await memory.working.set("mood", "calm", ttl=60)
    clock.advance(hours=-1)
    await memory.working.set("place", "garden", ttl=60)
    assert await memory.working.context() == {"mood": "calm", "place": "garden"}
    clock.advance(minutes=2)
    assert await memory.working.get("place") is None
    clock.advance(hours=1)
    assert await memory.working.context() == {}


async def test_leases_go_by_the_databases_clock(memory: AsyncAgentMemory, clock: SettableClock) -> None:
    log: Any = memory.engine.log
    token = await log.acquire_lease("job", 60.0, "one")
    clock.advance(days=1)
    assert await log.acquire_lease("job", 60.0, "another") is None
    clock.advance(days=-2)
    assert await log.acquire_lease("job", 60.0, "one") == token


async def test_the_doctor_sees_records_from_the_future(home: Path, clock: SettableClock) -> None:
    async with _memory(home, clock) as memory:
        await memory.store_turn("It is noon.")
    clock.advance(hours=-1)
    (finding,) = [one for one in await diagnose(Settings(home=home, clock=clock)) if one.check == "clock"]
    assert finding.level == "warning"
    assert finding.fix
