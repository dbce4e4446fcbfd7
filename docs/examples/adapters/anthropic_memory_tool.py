"""Claude with the memory tool: what it writes below /memories lies in agentmem.

Install:  pip install "agentmem-graph[anthropic,local]"
Run:      ANTHROPIC_API_KEY=… python docs/examples/adapters/anthropic_memory_tool.py claude-haiku-4-5

Without the name of a model the commands of a scripted conversation run, so that the program needs no key. It prints
what the tool answers, and what memory knows afterwards.
"""

# ruff: noqa: T201

from __future__ import annotations

import sys

from agentmem import AgentMemory
from agentmem.adapters.anthropic import AgentMemMemoryTool

QUESTION = "I moved to Oslo last week. Please remember it."
SCRIPTED = (
    {"command": "view", "path": "/memories"},
    {"command": "create", "path": "/memories/user.md", "file_text": "# The user\n- The user lives in Bergen\n"},
    {"command": "str_replace", "path": "/memories/user.md", "old_str": "Bergen", "new_str": "Oslo"},
    {"command": "view", "path": "/memories/user.md"},
)


def ask_claude(tool: AgentMemMemoryTool, model: str) -> str:
    """The last answer of a model that may use the tool."""
    from anthropic import Anthropic

    runner = Anthropic().beta.messages.tool_runner(
        model=model,
        max_tokens=1024,
        messages=[{"role": "user", "content": QUESTION}],
        tools=[tool],
        betas=["context-management-2025-06-27"],
    )
    return str(runner.until_done().content)


def main(model: str = "") -> None:
    """Ask a model of Anthropic, or run the scripted commands."""
    with AgentMemory("ann") as memory:
        tool = AgentMemMemoryTool(memory, learn=True)
        if model:
            print(ask_claude(tool, model))
        else:
            for command in SCRIPTED:
                print(tool.call(command))
        print(memory.remember("Where does the user live?"))


if __name__ == "__main__":
    main(*sys.argv[1:2])
