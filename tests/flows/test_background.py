"""Jobs beside the program: what was said becomes beliefs after a pause or at the end, and nobody calls for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentmem import AgentMemory, AsyncAgentMemory, ModelUnavailable
from agentmem.jobs import background
from agentmem.jobs.builtin import consolidate
from agentmem.stores.values import Where

PATIENCE = 60.0  # seconds until a test gives up


def opened(home: Path, user: str = "ann", **options: Any) -> AsyncAgentMemory:
    return AsyncAgentMemory(user, home=home, embedder="hash", **options)


async def home_values(memory: AsyncAgentMemory) -> list[str]:
    return [
        fact.value or "" for found in await memory.semantic.beliefs() if found.slot == "home" for fact in found.current
    ]


async def wait_for(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not await condition():
            await asyncio.sleep(0.02)


async def test_after_a_pause_what_was_said_is_believed(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "QUIET_SECONDS", 0.05)
    async with opened(home, background=True) as memory:
        await memory.store_turn("I live in Oslo.")
        await wait_for(lambda: home_values(memory))
        other = memory.scoped(user_id="bob")
        await other.store_turn("I live in Rome.")
        await wait_for(lambda: home_values(other))
        assert (await home_values(memory), await home_values(other)) == (["Oslo"], ["Rome"])


def test_three_lines_of_python_need_no_second_process(home: Path) -> None:
    with AgentMemory("ann", home=home, embedder="hash", background=True) as memory:
        memory.store_turn("I live in Oslo.")
    with AgentMemory("ann", home=home, embedder="hash") as memory:
        assert [slot.slot for slot in memory.semantic.beliefs()] == ["home"]


async def test_without_the_option_nothing_runs_by_itself(home: Path) -> None:
    async with opened(home) as memory:
        await memory.store_turn("I live in Oslo.")
    async with opened(home) as memory:
        assert await home_values(memory) == []


async def test_what_an_earlier_session_left_is_read(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "QUIET_SECONDS", 0.05)
    async with opened(home) as memory:
        for number in range(2 * background.MAX_CONVERSATIONS):
            await memory.scoped(conversation_id=f"c{number}").store_turn(f"My phone number is 555-010{number}.")
        await memory.store_turn("I live in Oslo.")
    async with opened(home, background=True) as memory:
        await wait_for(lambda: home_values(memory))


async def test_a_user_who_never_pauses_is_read_all_the_same(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "QUIET_SECONDS", PATIENCE)
    monkeypatch.setattr(background, "MAX_WAIT_SECONDS", 0.2)
    async with opened(home, background=True) as memory:

        async def talk() -> list[str]:
            await memory.store_turn("I live in Oslo.")
            return await home_values(memory)

        await wait_for(talk)


async def test_processes_beside_each_other_read_each_turn_once(home: Path) -> None:
    async with opened(home, background=True) as one, opened(home, background=True) as two:
        for number in range(4):
            await (one, two)[number % 2].scoped(conversation_id=f"c{number}").store_turn("I live in Oslo.")
    async with opened(home) as memory:
        assert await home_values(memory) == ["Oslo"]
        entries = await memory.engine.log.changes(memory.scope, 0, 100)
        assert sum(entry.operation == "consolidate" for entry in entries) == 4
        assert await memory.engine.log.count(memory.scope, Where(kinds=("Turn",))) == 4


async def test_the_end_waits_for_a_stated_time_alone(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started, gone = asyncio.Event(), asyncio.Event()

    async def hang(*_: object) -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            gone.set()

    monkeypatch.setattr(background.BackgroundJobs.stop, "__defaults__", (0.1,))
    async with opened(home, background=True) as memory:
        await memory.store_turn("I live in Oslo.")
        monkeypatch.setattr(consolidate, "JOB", replace(consolidate.JOB, run=hang))
    assert started.is_set()
    assert gone.is_set()


async def test_nothing_is_noted_of_a_user_who_was_erased_meanwhile(home: Path) -> None:
    async with opened(home, background=True) as memory:
        await memory.store_turn("I live in Oslo.")
        await memory.erase()
    async with opened(home) as memory:
        state = await memory.engine.job_queue.state(consolidate.NAME, memory.scope)
        assert state.last_run_at is None


@pytest.mark.parametrize("error", [ModelUnavailable("it is away"), RuntimeError("a bug")], ids=["away", "bug"])
async def test_what_failed_is_tried_again(home: Path, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    run, calls = consolidate.run, 0

    async def fail_once(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise error
        return await run(*arguments)

    monkeypatch.setattr(background, "QUIET_SECONDS", 0.05)
    monkeypatch.setattr(background, "RETRY_SECONDS", 0.05)
    monkeypatch.setattr(consolidate, "JOB", replace(consolidate.JOB, run=fail_once))
    async with opened(home, background=True) as memory:
        await memory.store_turn("I live in Oslo.")
        await wait_for(lambda: home_values(memory))
        assert calls > 1
