"""The memory of CrewAI, kept in agentmem.

Install:  pip install "agentmem-graph[local,crewai]"
Run:      python docs/examples/adapters/crewai/crewai_memory.py

An embedder that counts words stands in place of a model, so that the program runs without a key. It prints what CrewAI
recalls, and what agentmem does.
"""

# ruff: noqa: T201

from __future__ import annotations

from crewai.memory.unified_memory import Memory

from agentmem import AgentMemory
from agentmem.adapters.crewai import AgentMemStorage

WORDS = ("allergic", "peanuts", "lives", "oslo")


def embed(texts: list[str]) -> list[list[float]]:
    """A vector of how often each word is in a text."""
    return [[0.1, *(float(text.lower().count(word)) for word in WORDS)] for text in texts]


def main() -> None:
    """Store two texts, and recall one of them."""
    with AgentMemory("ann") as memory:
        crew = Memory(storage=AgentMemStorage(memory), embedder=embed)
        for text in ("Ann is allergic to peanuts.", "Ann lives in Oslo."):
            crew.remember(text, scope="/ann", categories=["about"], importance=0.8)
        print(crew.recall("allergic", scope="/ann", depth="shallow", limit=1)[0].format())
        print(memory.remember("What is Ann allergic to?"))
        crew.close()


if __name__ == "__main__":
    main()
