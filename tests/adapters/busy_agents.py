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

from langchain_core.messages import HumanMessage
from langgraph.store.base import PutOp

from agentmem import AgentMemory, AsyncAgentMemory
from agentmem.adapters.anthropic import FILES, AgentMemAsyncMemoryTool
from agentmem.adapters.langgraph import HISTORY, AgentMemChatHistory, AgentMemStore
from agentmem.adapters.openai_agents import SESSIONS, AgentMemSession

AGENTS = 10  # in a process
USERS = 5
BATCH = 3  # items of one call
STORE = "langgraph"
Write = Callable[[list[str]], Awaitable[Any]]


def user_name(base: str, agent: int) -> str:
    """The user of an agent."""
    return f"{base}-{agent % USERS}"


def build_writer(memory: AsyncAgentMemory, agent: int) -> tuple[str, Write]:
    """The namespace that an agent writes into, shared with the agents of its user, and how it writes a batch."""
    kind = agent % 4
    if kind == 0:
        store = AgentMemStore(memory)
        return STORE, lambda names: store.abatch([PutOp((STORE, "shared"), name, {"name": name}) for name in names])
    if kind == 1:
        history = AgentMemChatHistory(memory, "shared")
        return HISTORY, lambda names: history.aadd_messages([HumanMessage(name) for name in names])
    if kind == 2:
        session = AgentMemSession("shared", memory)
        return SESSIONS, lambda names: session.add_items([{"role": "user", "content": name} for name in names])
    tool = AgentMemAsyncMemoryTool(memory)
    return FILES[0], lambda names: tool.call(
        {"command": "create", "path": f"/memories/{names[0]}", "file_text": "\n".join(names)}
    )


async def run_agent(memory: AsyncAgentMemory, agent: int, process: int, until: float, done: list[Any]) -> None:
    """Write batches until a moment; every fourth call is cancelled while it runs."""
    namespace, write = build_writer(memory, agent)
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
        done.append([namespace, memory.scope.user_id, names, cancelled])
        number += 1


async def main(place: dict[str, Any], seconds: float, process: int) -> None:
    """Run all agents side by side."""
    base, done = place.pop("user"), list[Any]()
    async with AsyncAgentMemory(user_name(base, 0), **place) as memory:
        until = time.monotonic() + seconds
        views = [memory.scoped(user_id=user_name(base, agent)) for agent in range(AGENTS)]
        await asyncio.gather(*(run_agent(view, agent, process, until, done) for agent, view in enumerate(views)))
    sys.stdout.write(json.dumps(done))


def read_names(memory: AgentMemory, namespace: str) -> list[str]:
    """The names of all items that a user's memory holds in a namespace, in their order."""
    values = memory.documents.read_values((namespace,))
    if namespace == STORE:
        return [value["name"] for value in values]
    if namespace == HISTORY:
        return [value["data"]["content"] for value in values]
    if namespace == SESSIONS:
        return [value["content"] for value in values]
    return [name for value in values for name in value["text"].split("\n")]


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])))
