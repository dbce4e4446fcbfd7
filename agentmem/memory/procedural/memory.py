"""What was done and what works: tools and their calls, strategies, procedures."""

from __future__ import annotations

from dataclasses import dataclass

from agentmem.memory.procedural.procedures import Procedures
from agentmem.memory.procedural.strategies import Strategies
from agentmem.memory.procedural.tools import Tools


@dataclass
class ProceduralMemory(Tools, Strategies, Procedures):
    """Tools, strategies and procedures."""
