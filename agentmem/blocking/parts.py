"""The subsystems without `await`. Apart from `AgentMemory`: to wrap their verbs takes all the subsystems."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from agentmem.blocking.waiting import Blocking, blocking
from agentmem.memory.curation import Curation
from agentmem.memory.episodic import Episodic
from agentmem.memory.goals import Goals, Pursuit
from agentmem.memory.procedural import Procedural
from agentmem.memory.schedules import Schedules
from agentmem.memory.semantic import Semantic
from agentmem.memory.working import Working
from agentmem.model.loop import LOOP
from agentmem.model.records import Goal
from agentmem.recall.trail import AuditView


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
        return LOOP.run(self._inner.__aenter__())

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        LOOP.run(self._inner.__aexit__(kind, error, trace))


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
