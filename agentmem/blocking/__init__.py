"""`AgentMemory`: the same verbs without `await`, one line each, over one background event loop per process.

Works from many threads and inside a running loop (Jupyter). It holds no logic.
"""

from __future__ import annotations

from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Unpack

from agentmem.agent_memory import AsyncAgentMemory
from agentmem.blocking.waiting import Blocking, blocking
from agentmem.model.loop import LOOP as _LOOP
from agentmem.settings import Settings
from agentmem.settings_overrides import SettingsOverrides

if TYPE_CHECKING:  # what not every program uses is loaded where it is first asked for
    from agentmem.blocking.parts import (
        BlockingAudit,
        BlockingCuration,
        BlockingEpisodic,
        BlockingGoals,
        BlockingProcedural,
        BlockingSchedules,
        BlockingSemantic,
        BlockingWorking,
    )


class AgentMemory(Blocking[AsyncAgentMemory]):
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
        _LOOP.run(self._inner.open())
        self._seat = self._inner._seat  # made now: threads may ask for subsystems at once

    @cached_property
    def episodic(self) -> BlockingEpisodic:
        """Turns and conversations."""
        from agentmem.blocking.parts import BlockingEpisodic

        return BlockingEpisodic(self._inner.episodic)

    @cached_property
    def semantic(self) -> BlockingSemantic:
        """Facts, entities and relations."""
        from agentmem.blocking.parts import BlockingSemantic

        return BlockingSemantic(self._inner.semantic)

    @cached_property
    def procedural(self) -> BlockingProcedural:
        """What was done, and what works."""
        from agentmem.blocking.parts import BlockingProcedural

        return BlockingProcedural(self._inner.procedural)

    @cached_property
    def goals(self) -> BlockingGoals:
        """What is to be reached."""
        from agentmem.blocking.parts import BlockingGoals

        return BlockingGoals(self._inner.goals)

    @cached_property
    def schedules(self) -> BlockingSchedules:
        """What is to be done at which time."""
        from agentmem.blocking.parts import BlockingSchedules

        return BlockingSchedules(self._inner.schedules)

    @cached_property
    def working(self) -> BlockingWorking:
        """What the running session has at hand."""
        from agentmem.blocking.parts import BlockingWorking

        return BlockingWorking(self._inner.working)

    @cached_property
    def curation(self) -> BlockingCuration:
        """What fades, what stays, and what says the same."""
        from agentmem.blocking.parts import BlockingCuration

        return BlockingCuration(self._inner.curation)

    @cached_property
    def audit(self) -> BlockingAudit:
        """What was done, and why a recall answered as it did."""
        from agentmem.blocking.parts import BlockingAudit

        return BlockingAudit(self._inner.audit)

    def scoped(
        self,
        *,
        user_id: str | None = None,
        channel: str | None = None,
        conversation_id: str | None = None,
        agent_id: str | None = None,
        session_id: str | None = None,
    ) -> AgentMemory:
        """Another view that shares what is open: another user, channel, conversation, agent or session."""
        other = AgentMemory.__new__(AgentMemory)
        other._inner = self._inner.scoped(
            user_id=user_id, channel=channel, conversation_id=conversation_id, agent_id=agent_id, session_id=session_id
        )
        other._seat = other._inner._seat
        return other

    def __enter__(self) -> AgentMemory:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return repr(self._inner).replace("AsyncAgentMemory", "AgentMemory")

    store_turn = blocking(AsyncAgentMemory.store_turn)
    store_turns = blocking(AsyncAgentMemory.store_turns)
    remember = blocking(AsyncAgentMemory.remember)
    context = blocking(AsyncAgentMemory.context)
    synopsis = blocking(AsyncAgentMemory.synopsis)
    learn_fact = blocking(AsyncAgentMemory.learn_fact)
    upsert_entity = blocking(AsyncAgentMemory.upsert_entity)
    add_goal = blocking(AsyncAgentMemory.add_goal)
    get_goal = blocking(AsyncAgentMemory.get_goal)
    complete_goal = blocking(AsyncAgentMemory.complete_goal)
    announce = blocking(AsyncAgentMemory.announce)
    forget = blocking(AsyncAgentMemory.forget)
    restore = blocking(AsyncAgentMemory.restore)
    observe_usage = blocking(AsyncAgentMemory.observe_usage)
    reflect = blocking(AsyncAgentMemory.reflect)
    consolidate = blocking(AsyncAgentMemory.consolidate)
    lag = blocking(AsyncAgentMemory.lag)
    flush = blocking(AsyncAgentMemory.flush)
    profile = blocking(AsyncAgentMemory.profile)
    update_profile = blocking(AsyncAgentMemory.update_profile)
    undo = blocking(AsyncAgentMemory.undo)
    diff = blocking(AsyncAgentMemory.diff)
    erase = blocking(AsyncAgentMemory.erase)
    close = blocking(AsyncAgentMemory.close)
