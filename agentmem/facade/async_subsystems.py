"""The parts of one memory for programs with an event loop, as properties of its face."""

from __future__ import annotations

from functools import cached_property, partial
from typing import TYPE_CHECKING

from agentmem.core.scope import Scope
from agentmem.engine.engine import Engine
from agentmem.facade.engine_handle import EngineHandle
from agentmem.memory.context import MemoryContext
from agentmem.memory.episodic import EpisodicMemory
from agentmem.recall.audit import AuditView
from agentmem.settings.settings import Settings

if TYPE_CHECKING:  # what not every program uses is loaded where it is first asked for
    from agentmem.memory.documents import Documents
    from agentmem.memory.goals import Goals
    from agentmem.memory.graph.knowledge_graph import KnowledgeGraph
    from agentmem.memory.procedural.memory import ProceduralMemory
    from agentmem.memory.schedules import Schedules
    from agentmem.memory.semantic.memory import SemanticMemory
    from agentmem.memory.stored_records import StoredRecords
    from agentmem.memory.working.memory import WorkingMemory


class AsyncSubsystems:
    """What a view shares with the others, and its subsystems."""

    scope: Scope
    _opening: EngineHandle

    @property
    def settings(self) -> Settings:
        """What it was made with, also before `open`."""
        return self._opening.settings

    @property
    def engine(self) -> Engine:
        """What is open; Closed before `open`."""
        return self._opening.get()[0]

    @cached_property
    def _context(self) -> MemoryContext:
        return MemoryContext(self.engine, self.scope, is_facade=True)

    # -- subsystems

    @cached_property
    def episodic(self) -> EpisodicMemory:
        """Turns and conversations."""
        return EpisodicMemory(self._context)

    @cached_property
    def semantic(self) -> SemanticMemory:
        """Facts, entities and relations."""
        from agentmem.facade.claim_reader import read_spoken_claim
        from agentmem.memory.semantic.memory import SemanticMemory

        return SemanticMemory(self._context, partial(read_spoken_claim, day_first=self.settings.day_first))

    @cached_property
    def working(self) -> WorkingMemory:
        """What the running session has at hand."""
        from agentmem.memory.working.memory import WorkingMemory

        return WorkingMemory(self._context)

    @cached_property
    def procedural(self) -> ProceduralMemory:
        """What was done, and what works."""
        from agentmem.memory.procedural.memory import ProceduralMemory

        return ProceduralMemory(self._context)

    @cached_property
    def documents(self) -> Documents:
        """What programs keep under names, exactly as given."""
        from agentmem.memory.documents import Documents

        return Documents(self._context)

    @cached_property
    def goals(self) -> Goals:
        """What is to be reached."""
        from agentmem.memory.goals import Goals

        return Goals(self._context)

    @cached_property
    def schedules(self) -> Schedules:
        """What is to be done at which time."""
        from agentmem.memory.schedules import Schedules

        return Schedules(self._context)

    @cached_property
    def graph(self) -> KnowledgeGraph:
        """Who is near, how two are tied, who belongs together, who matters."""
        from agentmem.memory.graph.knowledge_graph import KnowledgeGraph

        return KnowledgeGraph(self._context)

    @cached_property
    def records(self) -> StoredRecords:
        """Records as they are stored, by kind and id."""
        from agentmem.memory.stored_records import StoredRecords

        return StoredRecords(self._context)

    @cached_property
    def audit(self) -> AuditView:
        """What was done, and why a recall answered as it did."""
        return AuditView(self._context, self._opening.get()[1])
