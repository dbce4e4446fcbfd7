"""What every adapter that keeps values promises, as one kit: users, names, restarts, threads and cancelled calls."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.store.base import PutOp
from llama_index.core.llms import ChatMessage

from agentmem import AgentMemory
from agentmem.adapters.anthropic import AgentMemAsyncMemoryTool
from agentmem.adapters.langgraph import AgentMemChatHistory, AgentMemStore
from agentmem.adapters.llama_index import AgentMemChatStore
from agentmem.adapters.openai_agents import AgentMemSession
from tests.flows.given import STACKS, stack_options

NAMES = ("a", "ab", "A", "a b", "a%2Fb", "a'; --", "*", "ключ", "🗝️", "-" * 150)
BATCH = ["first line", "second line", "third line"]
Write = Callable[[AgentMemory, str, list[str]], Awaitable[Any]]
Read = Callable[[AgentMemory, str], Awaitable[list[str]]]


@dataclass(frozen=True)
class Kept:
    """How one adapter writes some texts under a name in one call, and reads all under it, in order."""

    write: Write
    read: Read


async def put_items(memory: AgentMemory, name: str, texts: list[str]) -> None:
    ops = [PutOp((name,), f"{name}-{text}", {"text": text}) for text in texts]
    await AgentMemStore(memory).abatch(ops)


async def list_items(memory: AgentMemory, name: str) -> list[str]:
    found = await AgentMemStore(memory).asearch((name,), limit=1000)
    return [item.value["text"] for item in reversed(found) if item.namespace == (name,)]


async def write_file(memory: AgentMemory, name: str, texts: list[str]) -> None:
    path, tool = f"/memories/{name}/{texts[0]}", AgentMemAsyncMemoryTool(memory)
    await tool.call({"command": "create", "path": path, "file_text": "\n".join(texts)})


async def read_files(memory: AgentMemory, name: str) -> list[str]:
    found = await asyncio.to_thread(memory.documents.find, ("anthropic_memory_tool",), limit=None, newest_first=False)
    return [line for file in found if file.name.startswith(f"{name}/") for line in file.load()["text"].split("\n")]


KEPT = {
    "langgraph store": Kept(put_items, list_items),
    "langchain history": Kept(
        lambda memory, name, texts: AgentMemChatHistory(memory, name).aadd_messages([HumanMessage(t) for t in texts]),
        lambda memory, name: read_texts(AgentMemChatHistory(memory, name).aget_messages(), lambda each: each.text),
    ),
    "openai agents session": Kept(
        lambda memory, name, texts: AgentMemSession(name, memory).add_items(
            [{"role": "user", "content": text} for text in texts]
        ),
        lambda memory, name: read_texts(AgentMemSession(name, memory).get_items(), lambda each: each["content"]),
    ),
    "anthropic memory tool": Kept(write_file, read_files),
    "llama index chat store": Kept(
        lambda memory, name, texts: AgentMemChatStore(memory).add_messages(
            name, [ChatMessage(role="user", content=text) for text in texts]
        ),
        lambda memory, name: read_texts(AgentMemChatStore(memory).get_messages(name), lambda each: each.content),
    ),
}


async def read_texts(found: Awaitable[Any], text: Callable[[Any], str]) -> list[str]:
    return [text(each) for each in await found]


@pytest.fixture(params=KEPT)
def kept(request: pytest.FixtureRequest) -> Kept:
    return KEPT[request.param]


@pytest.fixture(params=STACKS)
def place(request: pytest.FixtureRequest, home: Path) -> dict[str, Any]:
    """What opens a memory."""
    return {"user": "ann", "home": str(home), "embedder": "hash", **stack_options(request)}


def open_as(place: dict[str, Any], suffix: str = "") -> AgentMemory:
    """A memory of the user of a place, or of another user."""
    return AgentMemory(place["user"] + suffix, **{name: value for name, value in place.items() if name != "user"})


async def test_users_and_names_keep_their_own_through_a_restart(kept: Kept, place: dict[str, Any]) -> None:
    with open_as(place) as memory:
        views = (memory, memory.scoped(user_id=place["user"] + " 2"))
        for number, view in enumerate(views):
            for name in NAMES:
                await kept.write(view, name, [f"{number} {name} {text}" for text in BATCH])
    with open_as(place) as memory:
        views = (memory, memory.scoped(user_id=place["user"] + " 2"))
        for number, view in enumerate(views):
            for name in NAMES:
                assert await kept.read(view, name) == [f"{number} {name} {text}" for text in BATCH]
        await asyncio.to_thread(memory.erase)
        assert [await kept.read(memory, name) for name in NAMES] == [[]] * len(NAMES)
        assert len(await kept.read(views[1], NAMES[0])) == len(BATCH)


def test_threads_with_loops_of_their_own_lose_nothing(kept: Kept, place: dict[str, Any]) -> None:
    with open_as(place) as memory:

        def work(number: int) -> None:
            async def write() -> None:
                await asyncio.gather(*(kept.write(memory, "shared", [f"t{number} n{n}"]) for n in range(4)))

            asyncio.run(write())

        threads = [threading.Thread(target=work, args=(number,)) for number in range(5)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        found = asyncio.run(kept.read(memory, "shared"))
        assert sorted(found) == sorted(f"t{number} n{n}" for number in range(5) for n in range(4))


async def test_a_cancelled_call_is_done_whole_or_not_at_all(kept: Kept, place: dict[str, Any]) -> None:
    with open_as(place) as memory:
        for number in range(8):
            batch = [f"{number} {text}" for text in BATCH]
            call = asyncio.ensure_future(kept.write(memory, "one", batch))
            await asyncio.sleep(0.0005 * number)
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)
            await kept.write(memory, "one", [f"{number} after"])
            found = await kept.read(memory, "one")
            assert [text for text in found if text.startswith(f"{number} ")] in (
                [*batch, f"{number} after"],
                [f"{number} after"],
            )
