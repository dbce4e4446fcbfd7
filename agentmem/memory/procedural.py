"""What was done and what works: tools and their calls, strategies, procedures."""

from __future__ import annotations

from dataclasses import dataclass

from agentmem.memory.procedures import Procedures
from agentmem.memory.strategies import Strategies
from agentmem.memory.tools import Tools


@dataclass
class ProceduralMemory(Tools, Strategies, Procedures):
    """Tools, strategies and procedures."""
