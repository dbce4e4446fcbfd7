"""Ten agents of five users in a process, each with one adapter: `python -m tests.adapters.busy_agents PLACE SECONDS N`.

PLACE is JSON with what opens a memory. Prints as JSON all batches, those that were acknowledged and those cancelled.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

from google.adk.events.event import Event
from google.genai import types
from langchain_core.messages import HumanMessage
from langgraph.store.base import PutOp
from llama_index.core.llms import ChatMessage
from pydantic_ai.conversation import Conversation
from pydantic_ai.messages import ModelRequest, UserPromptPart

from agentmem import AgentMemory, AsyncAgentMemory
from agentmem.adapters.adk import AgentMemMemoryService
from agentmem.adapters.anthropic import FILES, AgentMemAsyncMemoryTool
from agentmem.adapters.langgraph import AgentMemChatHistory, AgentMemStore
from agentmem.adapters.llama_index import AgentMemChatStore
from agentmem.adapters.mem0 import AsyncMemory
from agentmem.adapters.openai_agents import SESSIONS, AgentMemSession
from agentmem.adapters.pydantic_ai import AgentMemConversationStore

AGENTS = 10  # in a process
USERS = 5
BATCH = 3  # items of one call
SHARED = "shared"  # the name of the list of each adapter
KINDS = (
    "langgraph store",
    "langchain history",
    "openai session",
    "anthropic tool",
    "llama index",
    "adk",
    "mem0",
    "pydantic ai",
)
Write = Callable[[list[str]], Awaitable[Any]]


def user_name(base: str, agent: int) -> str:
    """The user of an agent."""
    return f"{base}-{agent % USERS}"


def kind_of(agent: int) -> str:
    """The adapter of an agent."""
    return KINDS[agent % len(KINDS)]


def build_writer(memory: AsyncAgentMemory, mem0: AsyncMemory, kind: str) -> Write:
    """How one call of an adapter writes a batch, in one list that it shares with the others of its user."""
    user = memory.scope.user_id
    store, history, session = (
        AgentMemStore(memory),
        AgentMemChatHistory(memory, SHARED),
        AgentMemSession(SHARED, memory),
    )
    saved = AgentMemConversationStore(memory)
    tool, chats, service = AgentMemAsyncMemoryTool(memory), AgentMemChatStore(memory), AgentMemMemoryService(memory)
    writers: dict[str, Write] = {
        "langgraph store": lambda names: store.abatch([PutOp((SHARED,), name, {"name": name}) for name in names]),
        "langchain history": lambda names: history.aadd_messages([HumanMessage(name) for name in names]),
        "openai session": lambda names: session.add_items([{"role": "user", "content": name} for name in names]),
        "anthropic tool": lambda names: tool.call(
            {"command": "create", "path": f"/memories/{names[0]}", "file_text": "\n".join(names)}
        ),
        "llama index": lambda names: chats.add_messages(
            SHARED, [ChatMessage(role="user", content=name) for name in names]
        ),
        "adk": lambda names: service.add_events_to_memory(
            app_name=SHARED, user_id=user, session_id=SHARED, events=[build_event(name) for name in names]
        ),
        "mem0": lambda names: mem0.add(
            [{"role": "user", "content": name} for name in names], user_id=user, infer=False
        ),
        "pydantic ai": lambda names: saved.save(build_conversation(names), scope=SHARED),
    }
    return writers[kind]


def build_event(text: str) -> Event:
    """What a user says in ADK."""
    return Event(id=text, author="user", content=types.Content(role="user", parts=[types.Part(text=text)]))


def build_conversation(names: list[str]) -> Conversation:
    """A conversation of its own for each batch: two writers of one conflict, which is their contract."""
    return Conversation(messages=[ModelRequest([UserPromptPart(name)]) for name in names], conversation_id=names[0])


async def read_conversations(memory: AgentMemory) -> list[str]:
    """The prompts of all conversations of a user."""
    store, names = AgentMemConversationStore(memory), list[str]()
    for record in await store.list_conversations(scope=SHARED):
        loaded = await store.load(record.conversation_id)
        names += [str(part.content) for message in loaded.messages for part in message.parts] if loaded else []
    return names


async def run_agent(
    memory: AsyncAgentMemory, mem0: AsyncMemory, agent: int, process: int, until: float
) -> list[list[Any]]:
    """Write batches until a moment; every fourth call is cancelled while it runs. Returns what became of each."""
    write, done = build_writer(memory, mem0, kind_of(agent)), list[list[Any]]()
    chance, number = random.Random(agent * 100 + process), 0
    while time.monotonic() < until:
        names = [f"p{process}a{agent}n{number}i{item}" for item in range(BATCH)]
        call = asyncio.ensure_future(write(names))
        if number % 4 == 3:
            await asyncio.sleep(chance.random() * 0.01)
            call.cancel()
        outcome = (await asyncio.gather(call, return_exceptions=True))[0]
        cancelled = isinstance(outcome, asyncio.CancelledError)
        if isinstance(outcome, Exception):
            raise outcome
        done.append([kind_of(agent), memory.scope.user_id, names, cancelled])
        number += 1
    return done


async def main(place: dict[str, Any], seconds: float, process: int) -> None:
    """Run all agents side by side."""
    base = place.pop("user")
    async with AsyncAgentMemory(user_name(base, 0), **place) as memory, AsyncMemory(**place) as mem0:
        until = time.monotonic() + seconds
        views = [memory.scoped(user_id=user_name(base, agent)) for agent in range(AGENTS)]
        running = [run_agent(view, mem0, agent, process, until) for agent, view in enumerate(views)]
        done = [batch for batches in await asyncio.gather(*running) for batch in batches]
    sys.stdout.write(json.dumps(done))


def read_names(memory: AgentMemory, kind: str) -> list[str]:
    """The names of all items that a user's memory holds for an adapter, in their order."""
    if kind == "langgraph store":
        return [value["name"] for value in memory.documents.read_values((SHARED,))]
    if kind == "langchain history":
        return [str(message.text) for message in AgentMemChatHistory(memory, SHARED).messages]
    if kind == "openai session":
        return [str(value["content"]) for value in memory.documents.read_values((SESSIONS,))]
    if kind == "anthropic tool":
        return [name for value in memory.documents.read_values(FILES) for name in value["text"].split("\n")]
    if kind == "llama index":
        found = asyncio.run(AgentMemChatStore(memory).get_messages(SHARED))
        return [str(message.content) for message in found]
    if kind == "pydantic ai":
        return asyncio.run(read_conversations(memory))
    channel = f"adk:{SHARED}" if kind == "adk" else "_global"
    turns = memory.scoped(channel=channel, channels=(channel,)).episodic.recent_turns(1_000_000)
    return [turn.content for turn in sorted(turns, key=lambda turn: turn.seq) if agent_kind(turn.content) == kind]


def agent_kind(name: str) -> str:
    """The adapter of the agent that wrote a name: the turns of all adapters but ADK's lie side by side."""
    return kind_of(int(name.split("a")[1].split("n", maxsplit=1)[0]))


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])))
