"""What a program that only stores and recalls need not load, it does not load."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LEFT_OUT = [
    "agentmem.facade.sync_subsystems",
    "agentmem.jobs.runner",
    "agentmem.extraction",
    "agentmem.memory.curation",
    "agentmem.memory.semantic.entities",
    "agentmem.memory.erasure",
    "agentmem.memory.semantic.facts",
    "agentmem.memory.goals",
    "agentmem.memory.graph.knowledge_graph",
    "agentmem.memory.history",
    "agentmem.memory.procedural.strategies",
    "agentmem.memory.working.tool_outputs",
    "agentmem.memory.procedural.procedures",
    "agentmem.memory.profile",
    "agentmem.memory.schedules",
    "agentmem.memory.semantic.memory",
    "agentmem.memory.synopsis",
    "agentmem.memory.synopsis_sources",
    "agentmem.memory.procedural.tools",
    "agentmem.memory.working.memory",
    "agentmem.recall.reranking",
]
BLOCKING = """
from agentmem import AgentMemory
with AgentMemory("anna", home=sys.argv[1], embedder="hash") as memory:
    memory.store_turn("I like tea in Bergen.")
    assert "tea" in str(memory.remember("what do I drink in Bergen?"))
"""
ASKING = """
import asyncio
from agentmem import AsyncAgentMemory
async def main():
    async with AsyncAgentMemory("anna", home=sys.argv[1], embedder="hash") as memory:
        await memory.store_turn("I like tea in Bergen.")
        assert "tea" in str(await memory.remember("what do I drink in Bergen?"))
asyncio.run(main())
"""


@pytest.mark.parametrize("program", [BLOCKING, ASKING], ids=["AgentMemory", "AsyncAgentMemory"])
def test_to_store_and_recall_loads_no_other_subsystem(program: str, home: Path) -> None:
    assert [name for name in LEFT_OUT if find_spec(name) is None] == [], "renamed or gone"
    script = [sys.executable, "-c", f"import sys\n{program}\nprint('\\n'.join(sys.modules))", str(home)]
    loaded = subprocess.run(script, capture_output=True, text=True, check=True, cwd=ROOT).stdout.split()
    assert "agentmem.memory.episodic" in loaded
    assert set(LEFT_OUT) & set(loaded) == set()
