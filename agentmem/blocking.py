"""`AgentMemory`: the same verbs without `await`, one line each, over one background event loop per process.

Works from many threads and inside a running loop (Jupyter). It holds no logic.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from agentmem.agent_memory import AsyncAgentMemory
from agentmem.memory.episodic import Episodic
from agentmem.memory.profile import Goals
from agentmem.memory.semantic import Semantic
from agentmem.memory.working import Working
from agentmem.recall.trail import AuditView
from agentmem.settings import Settings

P = ParamSpec("P")
T = TypeVar("T")
S = TypeVar("S")


class _Loop:
    """An event loop in a daemon thread, made at first use and again after a fork."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pid = 0

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._running()).result()

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None or self._pid != os.getpid():
                self._loop, self._pid = asyncio.new_event_loop(), os.getpid()
                threading.Thread(target=self._loop.run_forever, name="agentmem-loop", daemon=True).start()
            return self._loop


_LOOP = _Loop()  # holds a thread only once a blocking verb has been called


class Blocking(Generic[S]):
    """Wraps an object whose verbs are coroutines."""

    def __init__(self, inner: S) -> None:
        self._inner = inner


def blocking(
    verb: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Any, P], T]:
    """The same verb, waiting for its result; signature, types and docstring carry over."""

    @wraps(verb)
    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return _LOOP.run(verb(self._inner, *args, **kwargs))

    return call


class BlockingEpisodic(Blocking[Episodic]):
    """Turns and conversations."""

    get_conversation = blocking(Episodic.get_conversation)
    recent_turns = blocking(Episodic.recent_turns)
    read_thread = blocking(Episodic.read_thread)
    conversations = blocking(Episodic.conversations)
    delete_conversation = blocking(Episodic.delete_conversation)


class BlockingSemantic(Blocking[Semantic]):
    """Facts, entities and relations."""

    get_fact = blocking(Semantic.get_fact)
    facts = blocking(Semantic.facts)
    update_fact = blocking(Semantic.update_fact)
    supersede_fact = blocking(Semantic.supersede_fact)
    boost_salience = blocking(Semantic.boost_salience)
    provenance = blocking(Semantic.provenance)
    history = blocking(Semantic.history)
    entities = blocking(Semantic.entities)
    get_entity_graph = blocking(Semantic.get_entity_graph)
    relate = blocking(Semantic.relate)
    promote_to_global = blocking(Semantic.promote_to_global)
    merge_entities = blocking(Semantic.merge_entities)
    split_entity = blocking(Semantic.split_entity)
    reviews = blocking(Semantic.reviews)
    asked_about = blocking(Semantic.asked_about)
    resolve_review = blocking(Semantic.resolve_review)


class BlockingGoals(Blocking[Goals]):
    """What is to be reached."""

    active = blocking(Goals.active)


class BlockingWorking(Blocking[Working]):
    """What the running session has at hand."""

    turns = blocking(Working.turns)
    search = blocking(Working.search)
    set = blocking(Working.set)
    get = blocking(Working.get)
    delete = blocking(Working.delete)
    context = blocking(Working.context)
    push_thought = blocking(Working.push_thought)
    thoughts = blocking(Working.thoughts)
    clear = blocking(Working.clear)
    new_session = blocking(Working.new_session)
    current_markdown = blocking(Working.current_markdown)


class BlockingAudit(Blocking[AuditView]):
    """What was done, and why a recall answered as it did."""

    query = blocking(AuditView.query)
    receipt = blocking(AuditView.receipt)
    metrics = blocking(AuditView.metrics)
    why_not = blocking(AuditView.why_not)
    replay = blocking(AuditView.replay)


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
        **overrides: Any,
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
        self._wrap()

    def _wrap(self) -> None:
        self.episodic = BlockingEpisodic(self._inner.episodic)
        self.semantic = BlockingSemantic(self._inner.semantic)
        self.goals = BlockingGoals(self._inner.goals)
        self.working = BlockingWorking(self._inner.working)
        self.audit = BlockingAudit(self._inner.audit)

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
        other._wrap()
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
    learn_fact = blocking(AsyncAgentMemory.learn_fact)
    upsert_entity = blocking(AsyncAgentMemory.upsert_entity)
    add_goal = blocking(AsyncAgentMemory.add_goal)
    get_goal = blocking(AsyncAgentMemory.get_goal)
    complete_goal = blocking(AsyncAgentMemory.complete_goal)
    forget = blocking(AsyncAgentMemory.forget)
    restore = blocking(AsyncAgentMemory.restore)
    observe_usage = blocking(AsyncAgentMemory.observe_usage)
    consolidate = blocking(AsyncAgentMemory.consolidate)
    lag = blocking(AsyncAgentMemory.lag)
    flush = blocking(AsyncAgentMemory.flush)
    profile = blocking(AsyncAgentMemory.profile)
    update_profile = blocking(AsyncAgentMemory.update_profile)
    undo = blocking(AsyncAgentMemory.undo)
    diff = blocking(AsyncAgentMemory.diff)
    erase = blocking(AsyncAgentMemory.erase)
    close = blocking(AsyncAgentMemory.close)
