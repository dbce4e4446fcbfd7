"""`AgentMemory`: the same verbs without `await`, one line each, over one background event loop per process.

Works from many threads and inside a running loop (Jupyter). It holds no logic.
"""

from __future__ import annotations

from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Unpack

from agentmem.core.event_loop import BACKGROUND_LOOP, SyncFacade, async_to_sync
from agentmem.core.scope import ScopeFields
from agentmem.facade.async_memory import AsyncAgentMemory
from agentmem.settings.overrides import SettingsOverrides
from agentmem.settings.settings import Settings

if TYPE_CHECKING:  # what not every program uses is loaded where it is first asked for
    from agentmem.facade.sync_subsystems import (
        SyncAuditView,
        SyncCuration,
        SyncDocuments,
        SyncEpisodicMemory,
        SyncGoals,
        SyncKnowledgeGraph,
        SyncProceduralMemory,
        SyncSchedules,
        SyncSemanticMemory,
        SyncStoredRecords,
        SyncWorkingMemory,
    )


class AgentMemory(SyncFacade[AsyncAgentMemory]):
    """One memory of one user: episodic, semantic and working memory behind one object. See `AsyncAgentMemory`."""

    def __init__(
        self,
        user_id: str,
        *,
        channel: str = "_global",
        conversation_id: str | None = None,
        session_id: str | None = None,
        agent_id: str | None = None,
        settings: Settings | None = None,
        **overrides: Unpack[SettingsOverrides],
    ) -> None:
        super().__init__(
            AsyncAgentMemory(
                user_id,
                channel=channel,
                conversation_id=conversation_id,
                session_id=session_id,
                agent_id=agent_id,
                settings=settings,
                **overrides,
            )
        )
        BACKGROUND_LOOP.run(self._inner.open())
        self._context = self._inner._context  # made now: threads may ask for subsystems at once

    @cached_property
    def episodic(self) -> SyncEpisodicMemory:
        """Turns and conversations."""
        from agentmem.facade.sync_subsystems import SyncEpisodicMemory

        return SyncEpisodicMemory(self._inner.episodic)

    @cached_property
    def semantic(self) -> SyncSemanticMemory:
        """Facts, entities and relations."""
        from agentmem.facade.sync_subsystems import SyncSemanticMemory

        return SyncSemanticMemory(self._inner.semantic)

    @cached_property
    def procedural(self) -> SyncProceduralMemory:
        """What was done, and what works."""
        from agentmem.facade.sync_subsystems import SyncProceduralMemory

        return SyncProceduralMemory(self._inner.procedural)

    @cached_property
    def documents(self) -> SyncDocuments:
        """What programs keep under names, exactly as given."""
        from agentmem.facade.sync_subsystems import SyncDocuments

        return SyncDocuments(self._inner.documents)

    @cached_property
    def goals(self) -> SyncGoals:
        """What is to be reached."""
        from agentmem.facade.sync_subsystems import SyncGoals

        return SyncGoals(self._inner.goals)

    @cached_property
    def schedules(self) -> SyncSchedules:
        """What is to be done at which time."""
        from agentmem.facade.sync_subsystems import SyncSchedules

        return SyncSchedules(self._inner.schedules)

    @cached_property
    def working(self) -> SyncWorkingMemory:
        """What the running session has at hand."""
        from agentmem.facade.sync_subsystems import SyncWorkingMemory

        return SyncWorkingMemory(self._inner.working)

    @cached_property
    def curation(self) -> SyncCuration:
        """What fades, what stays, and what says the same."""
        from agentmem.facade.sync_subsystems import SyncCuration

        return SyncCuration(self._inner.curation)

    @cached_property
    def graph(self) -> SyncKnowledgeGraph:
        """Who is near, how two are tied, who belongs together, who matters."""
        from agentmem.facade.sync_subsystems import SyncKnowledgeGraph

        return SyncKnowledgeGraph(self._inner.graph)

    @cached_property
    def records(self) -> SyncStoredRecords:
        """Records as they are stored, by kind and id."""
        from agentmem.facade.sync_subsystems import SyncStoredRecords

        return SyncStoredRecords(self._inner.records)

    @cached_property
    def audit(self) -> SyncAuditView:
        """What was done, and why a recall answered as it did."""
        from agentmem.facade.sync_subsystems import SyncAuditView

        return SyncAuditView(self._inner.audit)

    def scoped(self, **view: Unpack[ScopeFields]) -> AgentMemory:
        """Another view that shares what is open: another user, channel, conversation, agent or session.

        `channels` are the only ones that the view reads. `key_id` is the key by which a server let the caller in; the
        journal and audit rows name it as the actor. A key of one channel or agent writes into `own_channels` alone.
        """
        other = AgentMemory.__new__(AgentMemory)
        other._inner = self._inner.scoped(**view)
        other._context = other._inner._context
        return other

    @property
    def async_view(self) -> AsyncAgentMemory:
        """The memory behind this face. Its verbs run on the background loop alone."""
        return self._inner

    def __enter__(self) -> AgentMemory:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return repr(self._inner).replace("AsyncAgentMemory", "AgentMemory")

    store_turn = async_to_sync(AsyncAgentMemory.store_turn)
    store_turns = async_to_sync(AsyncAgentMemory.store_turns)
    import_file = async_to_sync(AsyncAgentMemory.import_file)
    remember = async_to_sync(AsyncAgentMemory.remember)
    context = async_to_sync(AsyncAgentMemory.context)
    synopsis = async_to_sync(AsyncAgentMemory.synopsis)
    learn_fact = async_to_sync(AsyncAgentMemory.learn_fact)
    upsert_entity = async_to_sync(AsyncAgentMemory.upsert_entity)
    add_goal = async_to_sync(AsyncAgentMemory.add_goal)
    get_goal = async_to_sync(AsyncAgentMemory.get_goal)
    complete_goal = async_to_sync(AsyncAgentMemory.complete_goal)
    announce = async_to_sync(AsyncAgentMemory.announce)
    get_record = async_to_sync(AsyncAgentMemory.get_record)
    find_standing = async_to_sync(AsyncAgentMemory.find_standing)
    list_records = async_to_sync(AsyncAgentMemory.list_records)
    forget = async_to_sync(AsyncAgentMemory.forget)
    restore = async_to_sync(AsyncAgentMemory.restore)
    observe_usage = async_to_sync(AsyncAgentMemory.observe_usage)
    reflect = async_to_sync(AsyncAgentMemory.reflect)
    consolidate = async_to_sync(AsyncAgentMemory.consolidate)
    lag = async_to_sync(AsyncAgentMemory.lag)
    flush = async_to_sync(AsyncAgentMemory.flush)
    beliefs = async_to_sync(AsyncAgentMemory.beliefs)
    profile = async_to_sync(AsyncAgentMemory.profile)
    update_profile = async_to_sync(AsyncAgentMemory.update_profile)
    undo = async_to_sync(AsyncAgentMemory.undo)
    diff = async_to_sync(AsyncAgentMemory.diff)
    erase = async_to_sync(AsyncAgentMemory.erase)
    close = async_to_sync(AsyncAgentMemory.close)
