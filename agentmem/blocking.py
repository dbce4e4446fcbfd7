"""`AgentMemory`: the same verbs without `await`, one line each, over one background event loop per process.

Works from many threads and inside a running loop (Jupyter). It holds no logic.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from agentmem.agent_memory import AsyncAgentMemory
from agentmem.memory.curation import Curation
from agentmem.memory.episodic import Episodic
from agentmem.memory.goals import Goals, Pursuit
from agentmem.memory.procedural import Procedural
from agentmem.memory.schedules import Schedules
from agentmem.memory.semantic import Semantic
from agentmem.memory.working import Working
from agentmem.model.loop import LOOP as _LOOP
from agentmem.model.records import Goal
from agentmem.recall.trail import AuditView
from agentmem.settings import Settings

P = ParamSpec("P")
T = TypeVar("T")
S = TypeVar("S")


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
    clear_channel = blocking(Episodic.clear_channel)


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


class BlockingPursuit(Blocking[Pursuit]):
    """A goal for the length of a `with` block."""

    def __enter__(self) -> Goal:
        return _LOOP.run(self._inner.__aenter__())

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _LOOP.run(self._inner.__aexit__(kind, error, trace))


class BlockingGoals(Blocking[Goals]):
    """What is to be reached."""

    update = blocking(Goals.update)
    progress = blocking(Goals.progress)
    block = blocking(Goals.block)
    unblock = blocking(Goals.unblock)
    all = blocking(Goals.all)
    active = blocking(Goals.active)
    overdue = blocking(Goals.overdue)
    for_conversation = blocking(Goals.for_conversation)
    sub_goals = blocking(Goals.sub_goals)

    def pursue(self, description: str, **fields: Any) -> BlockingPursuit:
        return BlockingPursuit(self._inner.pursue(description, **fields))

    pursue.__doc__ = Goals.pursue.__doc__


class BlockingProcedural(Blocking[Procedural]):
    """What was done, and what works."""

    record_invocation = blocking(Procedural.record_invocation)
    tool_stats = blocking(Procedural.tool_stats)
    learn_strategy = blocking(Procedural.learn_strategy)
    find_strategies = blocking(Procedural.find_strategies)
    reinforce_strategy = blocking(Procedural.reinforce_strategy)
    procedures = blocking(Procedural.procedures)
    stage_candidate = blocking(Procedural.stage_candidate)
    accept_procedure = blocking(Procedural.accept_procedure)
    retire_procedure = blocking(Procedural.retire_procedure)


class BlockingSchedules(Blocking[Schedules]):
    """What is to be done at which time."""

    add = blocking(Schedules.add)
    heartbeat = blocking(Schedules.heartbeat)
    get = blocking(Schedules.get)
    list = blocking(Schedules.list)
    pause = blocking(Schedules.pause)
    resume = blocking(Schedules.resume)
    remove = blocking(Schedules.remove)
    due = blocking(Schedules.due)
    claim = blocking(Schedules.claim)
    done = blocking(Schedules.done)
    on_due = blocking(Schedules.on_due)


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
    set_active_goal = blocking(Working.set_active_goal)
    active_goal = blocking(Working.active_goal)
    remember_output = blocking(Working.remember_output)
    search_outputs = blocking(Working.search_outputs)
    clear = blocking(Working.clear)
    new_session = blocking(Working.new_session)
    current_markdown = blocking(Working.current_markdown)
    write_current = blocking(Working.write_current)


class BlockingCuration(Blocking[Curation]):
    """What fades, what stays, and what says the same."""

    queue = blocking(Curation.queue)
    touch = blocking(Curation.touch)
    clusters = blocking(Curation.clusters)
    merge = blocking(Curation.merge)
    promote = blocking(Curation.promote)
    gc = blocking(Curation.gc)


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
        self.procedural = BlockingProcedural(self._inner.procedural)
        self.goals = BlockingGoals(self._inner.goals)
        self.schedules = BlockingSchedules(self._inner.schedules)
        self.working = BlockingWorking(self._inner.working)
        self.curation = BlockingCuration(self._inner.curation)
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
