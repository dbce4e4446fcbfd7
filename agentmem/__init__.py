"""agentmem: memory for AI agents that is durable, exact about whose it is and when it was true, and needs no model.

from agentmem import AgentMemory

with AgentMemory("alice") as memory:
    memory.store_turn("I'm allergic to peanuts.")
    print(memory.remember("what must the chef avoid?"))
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agentmem.core.procedural_records import Outcome, Procedure, Schedule, Strategy, Tool, ToolInvocation
    from agentmem.core.record import Record, Status
    from agentmem.core.records import Conversation, Edge, EdgeKind, Entity, Fact, Goal, Review, Synopsis, Turn, User
    from agentmem.errors import (
        AgentMemError,
        BudgetExceeded,
        Closed,
        ConfigError,
        Conflict,
        CorruptStore,
        InvalidModelOutput,
        InvalidRecord,
        LeaseLost,
        ModelError,
        ModelUnavailable,
        NotFound,
        RateLimited,
        SchemaMismatch,
        ScopeError,
        StoreError,
        StoreUnavailable,
    )
    from agentmem.facade.async_memory import AsyncAgentMemory
    from agentmem.facade.memory import AgentMemory
    from agentmem.jobs.job import JobReport
    from agentmem.memory.curation import ReviewItem
    from agentmem.memory.goals import GoalNode
    from agentmem.memory.procedural.strategies import StrategyMatch
    from agentmem.memory.procedural.tools import ToolStats
    from agentmem.memory.semantic.merge_facts import Cluster
    from agentmem.memory.semantic.promotion import PromotionResult
    from agentmem.memory.working.buffer import BufferMemory
    from agentmem.recall.bundle import MemoryBundle
    from agentmem.recall.context import Context
    from agentmem.settings.settings import Settings

__version__ = "0.1.0"
__all__ = [
    "AgentMemError",
    "AgentMemory",
    "AsyncAgentMemory",
    "BudgetExceeded",
    "BufferMemory",
    "Closed",
    "Cluster",
    "ConfigError",
    "Conflict",
    "Context",
    "Conversation",
    "CorruptStore",
    "Edge",
    "EdgeKind",
    "Entity",
    "Fact",
    "Goal",
    "GoalNode",
    "InvalidModelOutput",
    "InvalidRecord",
    "JobReport",
    "LeaseLost",
    "MemoryBundle",
    "ModelError",
    "ModelUnavailable",
    "NotFound",
    "Outcome",
    "Procedure",
    "PromotionResult",
    "RateLimited",
    "Record",
    "Review",
    "ReviewItem",
    "Schedule",
    "SchemaMismatch",
    "ScopeError",
    "Settings",
    "Status",
    "StoreError",
    "StoreUnavailable",
    "Strategy",
    "StrategyMatch",
    "Synopsis",
    "Tool",
    "ToolInvocation",
    "ToolStats",
    "Turn",
    "User",
    "__version__",
]

_PUBLIC_MODULES = {
    "AgentMemory": "agentmem.facade.memory",
    "AsyncAgentMemory": "agentmem.facade.async_memory",
    "BufferMemory": "agentmem.memory.working.buffer",
    "Cluster": "agentmem.memory.semantic.merge_facts",
    "Context": "agentmem.recall.context",
    "StrategyMatch": "agentmem.memory.procedural.strategies",
    "GoalNode": "agentmem.memory.goals",
    "JobReport": "agentmem.jobs.job",
    "MemoryBundle": "agentmem.recall.bundle",
    "PromotionResult": "agentmem.memory.semantic.promotion",
    "Settings": "agentmem.settings.settings",
    "ReviewItem": "agentmem.memory.curation",
    "ToolStats": "agentmem.memory.procedural.tools",
    **dict.fromkeys(
        (
            "Conversation",
            "Edge",
            "EdgeKind",
            "Entity",
            "Fact",
            "Goal",
            "Outcome",
            "Procedure",
            "Record",
            "Review",
            "Schedule",
            "Status",
            "Strategy",
            "Synopsis",
            "Tool",
            "ToolInvocation",
            "Turn",
            "User",
        ),
        "agentmem.core.records",
    ),
}


def __getattr__(name: str) -> Any:
    """Load a public name when it is first asked for, so that importing the package stays quick."""
    if name not in __all__:
        raise AttributeError(f"module 'agentmem' has no attribute {name!r}")
    return getattr(import_module(_PUBLIC_MODULES.get(name, "agentmem.errors")), name)


def __dir__() -> list[str]:
    return __all__
