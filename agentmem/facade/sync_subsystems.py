"""The subsystems without `await`. Apart from `AgentMemory`: to wrap their verbs takes all the subsystems."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from agentmem.core.event_loop import BACKGROUND_LOOP, SyncFacade, async_to_sync
from agentmem.core.records import Goal
from agentmem.memory.curation import Curation
from agentmem.memory.documents import Documents
from agentmem.memory.episodic import EpisodicMemory
from agentmem.memory.goals import Goals, GoalSession
from agentmem.memory.graph.knowledge_graph import KnowledgeGraph
from agentmem.memory.procedural.memory import ProceduralMemory
from agentmem.memory.schedules import Schedules
from agentmem.memory.semantic.memory import SemanticMemory
from agentmem.memory.stored_records import StoredRecords
from agentmem.memory.working.memory import WorkingMemory
from agentmem.recall.audit import AuditView


class SyncEpisodicMemory(SyncFacade[EpisodicMemory]):
    """Turns and conversations."""

    get_conversation = async_to_sync(EpisodicMemory.get_conversation)
    recent_turns = async_to_sync(EpisodicMemory.recent_turns)
    read_thread = async_to_sync(EpisodicMemory.read_thread)
    conversations = async_to_sync(EpisodicMemory.conversations)
    delete_conversation = async_to_sync(EpisodicMemory.delete_conversation)
    start_session = async_to_sync(EpisodicMemory.start_session)
    clear_channel = async_to_sync(EpisodicMemory.clear_channel)


class SyncDocuments(SyncFacade[Documents]):
    """What programs keep under names, exactly as given."""

    put = async_to_sync(Documents.put)
    write = async_to_sync(Documents.write)
    edit = async_to_sync(Documents.edit)
    append = async_to_sync(Documents.append)
    pop = async_to_sync(Documents.pop)
    clear = async_to_sync(Documents.clear)
    delete = async_to_sync(Documents.delete)
    refresh = async_to_sync(Documents.refresh)
    remove_expired = async_to_sync(Documents.remove_expired)
    get = async_to_sync(Documents.get)
    read_many = async_to_sync(Documents.read_many)
    find = async_to_sync(Documents.find)
    read_values = async_to_sync(Documents.read_values)
    search = async_to_sync(Documents.search)
    list_namespaces = async_to_sync(Documents.list_namespaces)


class SyncStoredRecords(SyncFacade[StoredRecords]):
    """Reads of stored records, the retired ones included."""

    find = async_to_sync(StoredRecords.find)
    versions = async_to_sync(StoredRecords.versions)
    usage = async_to_sync(StoredRecords.usage)
    relations = async_to_sync(StoredRecords.relations)
    channels = async_to_sync(StoredRecords.channels)


class SyncSemanticMemory(SyncFacade[SemanticMemory]):
    """Facts, entities and relations."""

    get_fact = async_to_sync(SemanticMemory.get_fact)
    facts = async_to_sync(SemanticMemory.facts)
    beliefs = async_to_sync(SemanticMemory.beliefs)
    update_fact = async_to_sync(SemanticMemory.update_fact)
    supersede_fact = async_to_sync(SemanticMemory.supersede_fact)
    boost_salience = async_to_sync(SemanticMemory.boost_salience)
    provenance = async_to_sync(SemanticMemory.provenance)
    history = async_to_sync(SemanticMemory.history)
    entities = async_to_sync(SemanticMemory.entities)
    get_entity_graph = async_to_sync(SemanticMemory.get_entity_graph)
    relate = async_to_sync(SemanticMemory.relate)
    promote_to_global = async_to_sync(SemanticMemory.promote_to_global)
    merge_entities = async_to_sync(SemanticMemory.merge_entities)
    split_entity = async_to_sync(SemanticMemory.split_entity)
    reviews = async_to_sync(SemanticMemory.reviews)
    find_same_entity_review = async_to_sync(SemanticMemory.find_same_entity_review)
    resolve_review = async_to_sync(SemanticMemory.resolve_review)


class SyncKnowledgeGraph(SyncFacade[KnowledgeGraph]):
    """Questions to the graph of what is known."""

    neighborhood = async_to_sync(KnowledgeGraph.neighborhood)
    paths = async_to_sync(KnowledgeGraph.paths)
    communities = async_to_sync(KnowledgeGraph.communities)
    central_entities = async_to_sync(KnowledgeGraph.central_entities)
    cypher = async_to_sync(KnowledgeGraph.cypher)


class SyncGoalSession(SyncFacade[GoalSession]):
    """A goal for the length of a `with` block."""

    def __enter__(self) -> Goal:
        return BACKGROUND_LOOP.run(self._inner.__aenter__())

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        BACKGROUND_LOOP.run(self._inner.__aexit__(kind, error, trace))


class SyncGoals(SyncFacade[Goals]):
    """What is to be reached."""

    update = async_to_sync(Goals.update)
    record_progress = async_to_sync(Goals.record_progress)
    block = async_to_sync(Goals.block)
    unblock = async_to_sync(Goals.unblock)
    all = async_to_sync(Goals.all)
    active = async_to_sync(Goals.active)
    overdue = async_to_sync(Goals.overdue)
    for_conversation = async_to_sync(Goals.for_conversation)
    sub_goals = async_to_sync(Goals.sub_goals)

    def pursue(self, description: str, **fields: Any) -> SyncGoalSession:
        return SyncGoalSession(self._inner.pursue(description, **fields))

    pursue.__doc__ = Goals.pursue.__doc__


class SyncProceduralMemory(SyncFacade[ProceduralMemory]):
    """What was done, and what works."""

    record_invocation = async_to_sync(ProceduralMemory.record_invocation)
    tool_stats = async_to_sync(ProceduralMemory.tool_stats)
    learn_strategy = async_to_sync(ProceduralMemory.learn_strategy)
    get_strategy = async_to_sync(ProceduralMemory.get_strategy)
    find_strategies = async_to_sync(ProceduralMemory.find_strategies)
    reinforce_strategy = async_to_sync(ProceduralMemory.reinforce_strategy)
    procedures = async_to_sync(ProceduralMemory.procedures)
    stage_candidate = async_to_sync(ProceduralMemory.stage_candidate)
    accept_procedure = async_to_sync(ProceduralMemory.accept_procedure)
    retire_procedure = async_to_sync(ProceduralMemory.retire_procedure)


class SyncSchedules(SyncFacade[Schedules]):
    """What is to be done at which time."""

    add = async_to_sync(Schedules.add)
    add_heartbeat = async_to_sync(Schedules.add_heartbeat)
    get = async_to_sync(Schedules.get)
    list = async_to_sync(Schedules.list)
    pause = async_to_sync(Schedules.pause)
    resume = async_to_sync(Schedules.resume)
    remove = async_to_sync(Schedules.remove)
    due = async_to_sync(Schedules.due)
    claim = async_to_sync(Schedules.claim)
    mark_done = async_to_sync(Schedules.mark_done)
    on_due = async_to_sync(Schedules.on_due)


class SyncWorkingMemory(SyncFacade[WorkingMemory]):
    """What the running session has at hand."""

    turns = async_to_sync(WorkingMemory.turns)
    search = async_to_sync(WorkingMemory.search)
    set = async_to_sync(WorkingMemory.set)
    get = async_to_sync(WorkingMemory.get)
    delete = async_to_sync(WorkingMemory.delete)
    context = async_to_sync(WorkingMemory.context)
    push_thought = async_to_sync(WorkingMemory.push_thought)
    thoughts = async_to_sync(WorkingMemory.thoughts)
    set_active_goal = async_to_sync(WorkingMemory.set_active_goal)
    active_goal = async_to_sync(WorkingMemory.active_goal)
    remember_output = async_to_sync(WorkingMemory.remember_output)
    search_outputs = async_to_sync(WorkingMemory.search_outputs)
    clear = async_to_sync(WorkingMemory.clear)
    new_session = async_to_sync(WorkingMemory.new_session)
    current_markdown = async_to_sync(WorkingMemory.current_markdown)
    write_current_markdown = async_to_sync(WorkingMemory.write_current_markdown)


class SyncCuration(SyncFacade[Curation]):
    """What fades, what stays, and what says the same."""

    queue = async_to_sync(Curation.queue)
    touch = async_to_sync(Curation.touch)
    clusters = async_to_sync(Curation.clusters)
    merge = async_to_sync(Curation.merge)
    promote = async_to_sync(Curation.promote)
    gc = async_to_sync(Curation.gc)


class SyncAuditView(SyncFacade[AuditView]):
    """What was done, and why a recall answered as it did."""

    query = async_to_sync(AuditView.query)
    receipt = async_to_sync(AuditView.receipt)
    metrics = async_to_sync(AuditView.metrics)
    why_not = async_to_sync(AuditView.why_not)
    replay = async_to_sync(AuditView.replay)
