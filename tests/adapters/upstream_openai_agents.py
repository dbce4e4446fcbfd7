"""A plugin of pytest that puts our session in place of `SQLiteSession`, for the tests of the OpenAI Agents SDK.

See `tests/adapters/upstream.py`.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import agents
import agents.memory
import agents.memory.sqlite_session

from agentmem import AgentMemory
from agentmem.adapters.openai_agents import AgentMemSession

_OPEN: dict[str, AgentMemory] = {}


class UpstreamSession(AgentMemSession):
    """Opened by a path, as theirs is."""

    def __init__(self, session_id: str, db_path: str | Path = ":memory:", *names: str, **options: Any) -> None:
        home = tempfile.mkdtemp() if str(db_path) == ":memory:" else f"{db_path}.agentmem"
        if home not in _OPEN:
            _OPEN[home] = AgentMemory("u", home=home, embedder="hash")
        super().__init__(session_id, _OPEN[home], **options)

    def close(self) -> None:
        """The memory stays open for other sessions of its file."""


for module in (agents, agents.memory, agents.memory.sqlite_session):
    vars(module)["SQLiteSession"] = UpstreamSession
