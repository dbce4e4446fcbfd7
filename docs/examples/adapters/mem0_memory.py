"""A chat written for mem0, with the import changed: what one run is told, the next one knows.

Install:  pip install "agentmem-graph[local]"
Run:      python docs/examples/adapters/mem0_memory.py [USER]

The model is a function below that answers from what memory found; put a call to your own in its place. Memory is one
file in the folder AGENTMEM_HOME (~/.agentmem).
"""

# ruff: noqa: T201

from __future__ import annotations

import sys
from collections.abc import Sequence

from agentmem.adapters.mem0 import Memory  # was: from mem0 import Memory

SAID = ("I live in Paris.", "I'm allergic to peanuts.", "Where do I live?")


def main(arguments: Sequence[str] = ()) -> None:
    """Say three things as the user named by the first argument (alice), and print each answer."""
    user_id = arguments[0] if arguments else "alice"
    with Memory() as memory:
        for message in SAID:
            print(f"{user_id}> {message}\n{chat(memory, message, user_id)}")


def chat(memory: Memory, message: str, user_id: str) -> str:
    """Recall, ask the model, and remember what the user said."""
    found = memory.search(message, filters={"user_id": user_id}, top_k=3)
    reply = ask_model(message, [entry["memory"] for entry in found["results"]])
    memory.add(message, user_id=user_id)
    return reply


def ask_model(message: str, memories: Sequence[str]) -> str:
    """The answer to a message: here, what memory holds about a question."""
    if not message.endswith("?"):
        return "Noted."
    return f"I remember: {'; '.join(memories) or 'nothing yet'}."


if __name__ == "__main__":
    main(sys.argv[1:])
