"""The session of the OpenAI Agents SDK, and memory before its model."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, RunConfig, Runner, SessionSettings
from agents.memory import Session
from agents.testing import ScriptedModel, assistant_message

from agentmem import AgentMemory, AsyncAgentMemory, ConfigError, InvalidRecord
from agentmem.adapters.openai_agents import AgentMemSession, recall_before_model
from tests.flows.given import STACKS, open_memory, stack_options

ITEMS: list[Any] = [
    {"role": "user", "content": "I moved to Oslo."},
    {"type": "reasoning", "id": "r1", "summary": [], "encrypted_content": "\u0000\ud800"},
    {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": '{"city": "Oslo"}'},
    {"type": "function_call_output", "call_id": "c1", "output": "rain"},
    {
        "type": "message",
        "role": "assistant",
        "id": "m1",
        "content": [{"type": "output_text", "text": "It rains in Oslo.", "annotations": []}],
    },
    {"role": "user", "content": [{"type": "input_image", "image_url": "data:image/png;base64,AAAA"}]},
    {"role": "system", "content": "Be kind."},
]


@pytest.fixture(params=STACKS)
def memory(request: pytest.FixtureRequest, home: Path) -> Iterator[AgentMemory]:
    with open_memory(home, **stack_options(request)) as made:
        yield made


async def test_items_come_back_equal_and_what_is_said_is_remembered(memory: AgentMemory) -> None:
    session = AgentMemSession("s", memory)
    assert isinstance(session, Session)
    await session.add_items(ITEMS[:3])
    await session.add_items(ITEMS[3:])
    assert await session.get_items() == ITEMS
    turns = await asyncio.to_thread(memory.episodic.get_conversation, "s")
    assert [(turn.role, turn.content) for turn in turns] == [
        ("user", "I moved to Oslo."),
        ("assistant", "It rains in Oslo."),
    ]
    assert [await session.pop_item() for _ in range(3)] == ITEMS[:-4:-1]
    left = await asyncio.to_thread(memory.episodic.get_conversation, "s")
    assert [turn.content for turn in left] == ["I moved to Oslo."]
    await session.clear_session()
    assert (await session.get_items(), await session.pop_item()) == ([], None)
    assert not (await asyncio.to_thread(memory.remember, "Oslo")).turns


@pytest.mark.parametrize(
    "limit, setting, found", [(None, None, 7), (3, None, 3), (0, None, 0), (None, 2, 2), (4, 2, 4), (99, None, 7)]
)
async def test_a_limit_gives_the_latest_items_in_order(
    home: Path, limit: int | None, setting: int | None, found: int
) -> None:
    with open_memory(home) as memory:
        session = AgentMemSession("s", memory, session_settings=SessionSettings(limit=setting))
        await session.add_items(ITEMS)
        assert await session.get_items(limit) == ITEMS[len(ITEMS) - found :]


async def test_sessions_and_users_keep_their_own(memory: AgentMemory) -> None:
    ids = ("a", "ab", "a%", "a\x1fb", "a/../b", "ключ")
    views = (memory, memory.scoped(user_id=f"{memory.async_view.scope.user_id} 2"))
    sessions = [(AgentMemSession(name, view), [{"n": name, "v": at}]) for at, view in enumerate(views) for name in ids]
    for session, items in sessions:
        await session.add_items(items)  # type: ignore[arg-type]
    for session, items in sessions:
        assert await session.get_items() == items
    await sessions[0][0].clear_session()
    assert [len(await session.get_items()) for session, _ in sessions] == [0, *[1] * (len(sessions) - 1)]


async def test_a_cancelled_write_is_done_when_the_caller_leaves(home: Path) -> None:
    with open_memory(home) as memory:
        session = AgentMemSession("s", memory)
        for number in range(10):
            task = asyncio.ensure_future(session.add_items([{"n": number}] * 20))  # type: ignore[list-item]
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert len(await session.get_items()) == 20 * (number + 1)


def test_loops_in_threads_share_a_session(memory: AgentMemory) -> None:
    def work(number: int) -> None:
        async def add() -> None:
            await asyncio.gather(*(session.add_items([{"w": number, "n": n}]) for n in range(5)))  # type: ignore[list-item]

        asyncio.run(add())

    session = AgentMemSession("s", memory)
    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    found = asyncio.run(session.get_items())
    assert sorted((each["w"], each["n"]) for each in found) == [(w, n) for w in range(6) for n in range(5)]  # type: ignore[typeddict-item]


async def test_what_cannot_be_kept_is_refused_whole(home: Path) -> None:
    async with AsyncAgentMemory("ann", home=home, embedder="hash") as memory:
        session = AgentMemSession("s", memory)
        with pytest.raises(InvalidRecord):
            await session.add_items([{"role": "user", "content": "kept?"}, {"bad": {1}}])  # type: ignore[list-item]
        assert await session.get_items() == []
        assert not (await memory.remember("kept")).turns
        with pytest.raises(ConfigError):
            AgentMemSession("", memory)


async def test_the_model_is_given_what_other_sessions_said(home: Path) -> None:
    with open_memory(home) as memory:
        model = ScriptedModel([[assistant_message("Noted.")], [assistant_message("Peanuts.")]])
        agent = Agent(name="Helper", instructions="Be short.", model=model)
        config = RunConfig(call_model_input_filter=recall_before_model(memory), tracing_disabled=True)
        monday, friday = AgentMemSession("monday", memory), AgentMemSession("friday", memory)
        await Runner.run(agent, "I'm allergic to peanuts.", session=monday, run_config=config)
        result = await Runner.run(agent, "What am I allergic to?", session=friday, run_config=config)
        assert result.final_output == "Peanuts."
        given, asked = model.calls[-1].input
        assert given["role"] == "user"
        assert "peanuts" in given["content"]
        assert asked["content"] == "What am I allergic to?"
        assert model.calls[-1].system_instructions == "Be short."
        assert [each.get("role") for each in await friday.get_items()] == ["user", "assistant"]
