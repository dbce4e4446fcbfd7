"""The tools of Mnemex by their names, parameters and results, over the verbs of this memory."""

from __future__ import annotations

from agentmem.server.mcp.tools import ModelTool

MNEMEX_TOOLS: tuple[ModelTool, ...] = ()
