"""A LangChain agent whose memory, store and middleware are agentmem's.

Install:  pip install "agentmem-graph[langchain,local]" langchain-anthropic
Run:      ANTHROPIC_API_KEY=… python docs/examples/adapters/langgraph_memory.py anthropic:claude-haiku-4-5

The agent is told something in one thread and asked for it in another. A tool writes into LangGraph's store, and memory
finds what it wrote. Without the name of a model a scripted one answers, so that the program runs without a key.
"""

# ruff: noqa: T201

from __future__ import annotations

import sys
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.language_models.fake_chat_models import FakeListChatModel

from agentmem import AgentMemory
from agentmem.adapters.langchain import AgentMemMiddleware
from agentmem.adapters.langgraph import AgentMemStore

SAID = (("monday", "I'm allergic to peanuts."), ("friday", "What am I allergic to?"))
SCRIPTED = ["Noted.", "You are allergic to peanuts."]


def build_agent(memory: AgentMemory, model: str | BaseChatModel) -> Any:
    """An agent that recalls before each call of its model, and stores both sides after a run."""
    middleware = [AgentMemMiddleware(memory)]
    return create_agent(model, middleware=middleware, store=AgentMemStore(memory, user_label=1))


def main(model: str = "") -> None:
    """Say something, ask for it, and find what the store keeps."""
    with AgentMemory("ann") as memory:
        agent = build_agent(memory, model or FakeListChatModel(responses=SCRIPTED))
        for thread, text in SAID:
            asked = {"messages": [{"role": "user", "content": text}]}
            answer = agent.invoke(asked, {"configurable": {"thread_id": thread}})["messages"][-1].text
            print(f"{thread}: {text}\n  {answer}")
        agent.store.put(("profiles", "ann"), "food", {"text": "Ann cooks for six every Sunday"})
        print(memory.remember("What does Ann do on Sunday?"))


if __name__ == "__main__":
    main(*sys.argv[1:2])
