"""An agent of Pydantic AI that keeps its conversations in agentmem and recalls what other conversations said.

Install:  pip install "agentmem-graph[local,pydantic-ai]"
Run:      python docs/examples/adapters/pydantic_ai_chat.py openai:gpt-5-mini

Without the name of a model a scripted one answers, so that the program runs without a key. It prints what the model was
given in the second conversation, and its answer.
"""

# ruff: noqa: T201

from __future__ import annotations

import asyncio
import sys
from typing import Any

from pydantic_ai import Agent
from pydantic_ai.conversation import Conversation
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from agentmem import AgentMemory
from agentmem.adapters.pydantic_ai import AgentMemConversationStore, build_memory_toolset, recall_before_model


def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Answer as a model would, and show what it was given."""
    given = "\n".join(str(getattr(part, "content", "")) for part in messages[-1].parts)
    if "What am I" in given:
        print(given)
    return ModelResponse([TextPart("You are allergic to peanuts." if "peanuts" in given else "I do not know.")])


async def chat(memory: AgentMemory, model: Any) -> str:
    """Say something in one conversation, and ask for it in another; returns the answer."""
    agent = Agent(
        model,
        instructions="Answer in one sentence.",
        toolsets=[build_memory_toolset(memory)],
        capabilities=[recall_before_model(memory)],
    )
    store, said = AgentMemConversationStore(memory), ""
    for name, prompt in (("monday", "I'm allergic to peanuts."), ("friday", "What am I allergic to?")):
        conversation = await store.load(name) or Conversation(conversation_id=name)
        result = await agent.run(prompt, conversation=conversation)
        await store.save(result)
        said = result.output
    return said


def main(model: str = "") -> None:
    """Run the two conversations with a model, or with a scripted one."""
    with AgentMemory("ann") as memory:
        print(asyncio.run(chat(memory, model or FunctionModel(answer))))


if __name__ == "__main__":
    main(*sys.argv[1:2])
