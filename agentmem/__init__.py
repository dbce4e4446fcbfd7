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
    from agentmem.core.documents import Document
    from agentmem.core.graph_records import Community
    from agentmem.core.procedural_records import Outcome, Procedure, Schedule, Strategy, Tool, ToolInvocation
    from agentmem.core.record import Record, Status
    from agentmem.core.records import Conversation, Edge, EdgeKind, Entity, Fact, Goal, Review, Synopsis, Turn, User
    from agentmem.core.scope import Scope
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
        PermissionDenied,
        RateLimited,
        SchemaMismatch,
        ScopeError,
        StoreError,
        StoreUnavailable,
    )
    from agentmem.facade.async_memory import AsyncAgentMemory
    from agentmem.facade.memory import AgentMemory
    from agentmem.importers.importer import Importer
    from agentmem.importers.items import ImportReport
    from agentmem.jobs.job import JobReport
    from agentmem.jobs.runner import RunReport
    from agentmem.jobs.worker import ConsolidationWorker
    from agentmem.memory.context import Diff, ErasureReceipt, ForgetReceipt
    from agentmem.memory.curation import Curation, ReviewItem
    from agentmem.memory.documents import DocumentDraft, DocumentMatch, Documents
    from agentmem.memory.episodic import EpisodicMemory, StoredTurns
    from agentmem.memory.goals import GoalNode, Goals
    from agentmem.memory.graph.knowledge_graph import CentralEntities, Communities, GraphPaths, KnowledgeGraph
    from agentmem.memory.procedural.memory import ProceduralMemory
    from agentmem.memory.procedural.strategies import StrategyMatch
    from agentmem.memory.procedural.tools import ToolStats
    from agentmem.memory.schedules import Schedules
    from agentmem.memory.semantic.belief_view import SlotBeliefs
    from agentmem.memory.semantic.entities import EntityGraph
    from agentmem.memory.semantic.memory import SemanticMemory
    from agentmem.memory.semantic.merge_facts import Cluster
    from agentmem.memory.semantic.promotion import PromotionResult
    from agentmem.memory.semantic.standing import Standing
    from agentmem.memory.semantic.user_profile import UserProfile
    from agentmem.memory.working.buffer import BufferMemory
    from agentmem.memory.working.memory import WorkingMemory
    from agentmem.models.protocols import LLM, Embedder, Reranker
    from agentmem.recall.audit import AuditView
    from agentmem.recall.bundle import MemoryBundle, ScoredRecord
    from agentmem.recall.context import Context
    from agentmem.recall.receipt import Receipt, ThreadLead, WhyNot
    from agentmem.settings.settings import Settings
    from agentmem.stores.values import ErasureScan

__version__ = "0.1.0"
__all__ = [
    "LLM",
    "AgentMemError",
    "AgentMemory",
    "AsyncAgentMemory",
    "AuditView",
    "BudgetExceeded",
    "BufferMemory",
    "CentralEntities",
    "Closed",
    "Cluster",
    "Communities",
    "Community",
    "ConfigError",
    "Conflict",
    "ConsolidationWorker",
    "Context",
    "Conversation",
    "CorruptStore",
    "Curation",
    "Diff",
    "Document",
    "DocumentDraft",
    "DocumentMatch",
    "Documents",
    "Edge",
    "EdgeKind",
    "Embedder",
    "Entity",
    "EntityGraph",
    "EpisodicMemory",
    "ErasureReceipt",
    "ErasureScan",
    "Fact",
    "ForgetReceipt",
    "Goal",
    "GoalNode",
    "Goals",
    "GraphPaths",
    "ImportReport",
    "Importer",
    "InvalidModelOutput",
    "InvalidRecord",
    "JobReport",
    "KnowledgeGraph",
    "LeaseLost",
    "MemoryBundle",
    "ModelError",
    "ModelUnavailable",
    "NotFound",
    "Outcome",
    "PermissionDenied",
    "ProceduralMemory",
    "Procedure",
    "PromotionResult",
    "RateLimited",
    "Receipt",
    "Record",
    "Reranker",
    "Review",
    "ReviewItem",
    "RunReport",
    "Schedule",
    "Schedules",
    "SchemaMismatch",
    "Scope",
    "ScopeError",
    "ScoredRecord",
    "SemanticMemory",
    "Settings",
    "SlotBeliefs",
    "Standing",
    "Status",
    "StoreError",
    "StoreUnavailable",
    "StoredTurns",
    "Strategy",
    "StrategyMatch",
    "Synopsis",
    "ThreadLead",
    "Tool",
    "ToolInvocation",
    "ToolStats",
    "Turn",
    "User",
    "UserProfile",
    "WhyNot",
    "WorkingMemory",
    "__version__",
]

_PUBLIC_MODULES = {
    "AuditView": "agentmem.recall.audit",
    "Curation": "agentmem.memory.curation",
    "Diff": "agentmem.memory.context",
    "Document": "agentmem.core.documents",
    "DocumentDraft": "agentmem.memory.documents",
    "DocumentMatch": "agentmem.memory.documents",
    "Documents": "agentmem.memory.documents",
    "ErasureReceipt": "agentmem.memory.context",
    "ForgetReceipt": "agentmem.memory.context",
    "ErasureScan": "agentmem.stores.values",
    "EntityGraph": "agentmem.memory.semantic.entities",
    "SlotBeliefs": "agentmem.memory.semantic.belief_view",
    "EpisodicMemory": "agentmem.memory.episodic",
    "StoredTurns": "agentmem.memory.episodic",
    "Standing": "agentmem.memory.semantic.standing",
    "UserProfile": "agentmem.memory.semantic.user_profile",
    "Goals": "agentmem.memory.goals",
    **dict.fromkeys(
        ("CentralEntities", "Communities", "GraphPaths", "KnowledgeGraph"), "agentmem.memory.graph.knowledge_graph"
    ),
    "Community": "agentmem.core.graph_records",
    "ImportReport": "agentmem.importers.importer",
    "Importer": "agentmem.importers.importer",
    "ConsolidationWorker": "agentmem.jobs.worker",
    "RunReport": "agentmem.jobs.runner",
    "LLM": "agentmem.models.protocols",
    "Embedder": "agentmem.models.protocols",
    "Reranker": "agentmem.models.protocols",
    "ProceduralMemory": "agentmem.memory.procedural.memory",
    "Receipt": "agentmem.recall.receipt",
    "ThreadLead": "agentmem.recall.receipt",
    "WhyNot": "agentmem.recall.receipt",
    "Schedules": "agentmem.memory.schedules",
    "Scope": "agentmem.core.scope",
    "ScoredRecord": "agentmem.recall.bundle",
    "SemanticMemory": "agentmem.memory.semantic.memory",
    "WorkingMemory": "agentmem.memory.working.memory",
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
