"""A plugin of pytest that puts our memory tool in place of the one on a disk, for the tests of Anthropic's SDK.

See `tests/adapters/upstream.py`. Their tests look at a folder, so ours is written there after each command.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

from anthropic.lib.tools import _beta_builtin_memory_tool as theirs

from agentmem import AgentMemory
from agentmem.adapters.anthropic import FILES, AgentMemAsyncMemoryTool, AgentMemMemoryTool


def _write_tree(memory: AgentMemory, root: Path) -> None:
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    for document in memory.documents.find(FILES, limit=None):
        (root / document.name).parent.mkdir(parents=True, exist_ok=True)
        (root / document.name).write_text(document.load()["text"], encoding="utf-8")


class UpstreamTool(AgentMemMemoryTool):
    """Made with the path of a folder."""

    def __init__(self, base_path: str) -> None:
        self.memory = AgentMemory("u", home=tempfile.mkdtemp(), embedder="hash")
        super().__init__(self.memory)
        self.base_path = Path(base_path)
        self.memory_root = self.base_path / "memories"
        self.memory_root.mkdir(parents=True, exist_ok=True)


class AsyncUpstreamTool(AgentMemAsyncMemoryTool):
    """The same for coroutines."""

    def __init__(self, base_path: str) -> None:
        self.memory = AgentMemory("u", home=tempfile.mkdtemp(), embedder="hash")
        super().__init__(self.memory)
        self.base_path = Path(base_path)
        self.memory_root = self.base_path / "memories"
        self.memory_root.mkdir(parents=True, exist_ok=True)


def _mirror(name: str) -> None:
    command, async_command = getattr(AgentMemMemoryTool, name), getattr(AgentMemAsyncMemoryTool, name)

    def run(self: UpstreamTool, *given: Any) -> Any:
        answer = command(self, *given)
        _write_tree(self.memory, self.memory_root)
        return answer

    async def run_async(self: AsyncUpstreamTool, *given: Any) -> Any:
        answer = await async_command(self, *given)
        _write_tree(self.memory, self.memory_root)
        return answer

    setattr(UpstreamTool, name, run)
    setattr(AsyncUpstreamTool, name, run_async)


for each in ("create", "str_replace", "insert", "delete", "rename", "clear_all_memory"):
    _mirror(each)
vars(theirs)["BetaLocalFilesystemMemoryTool"] = UpstreamTool
vars(theirs)["BetaAsyncLocalFilesystemMemoryTool"] = AsyncUpstreamTool
