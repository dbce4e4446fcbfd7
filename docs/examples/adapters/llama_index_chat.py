"""A chat engine of LlamaIndex that keeps its chats in agentmem and recalls what other chats said.

Install:  pip install "agentmem-graph[local,llama-index]"
Run:      python docs/examples/adapters/llama_index_chat.py

A scripted model answers with what it was given, so that the program runs without a key. Put a model of LlamaIndex in
its place.
"""

# ruff: noqa: T201

from __future__ import annotations

from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.llms import LLM, MockLLM
from llama_index.core.memory import Memory

from agentmem import AgentMemory
from agentmem.adapters.llama_index import AgentMemBlock, AgentMemChatStore


def chat(memory: AgentMemory, llm: LLM, session: str, message: str) -> str:
    """Say something in a chat; returns the answer."""
    history = Memory.from_defaults(
        session,
        memory_blocks=[AgentMemBlock(memory, accept_short_term_memory=False)],
        chat_store=AgentMemChatStore(memory),
    )
    engine = SimpleChatEngine.from_defaults(llm=llm, memory=history, system_prompt="Answer in one sentence.")
    return str(engine.chat(message))


def main() -> None:
    """Say something in one chat, and ask for it in another."""
    with AgentMemory("ann") as memory:
        chat(memory, MockLLM(), "monday", "I'm allergic to peanuts.")
        print(chat(memory, MockLLM(), "friday", "What am I allergic to?"))


if __name__ == "__main__":
    main()
