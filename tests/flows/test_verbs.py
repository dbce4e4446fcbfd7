"""Every verb, on both faces, with the same words and the same result."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from agentmem import AgentMemory, AsyncAgentMemory, EdgeKind, Entity, Fact, NotFound, ScopeError, Status, Turn
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
from agentmem.memory.curation import Curation
from agentmem.memory.documents import Documents
from agentmem.memory.episodic import EpisodicMemory
from agentmem.memory.goals import Goals
from agentmem.memory.graph.knowledge_graph import KnowledgeGraph
from agentmem.memory.procedural.memory import ProceduralMemory
from agentmem.memory.schedules import Schedules
from agentmem.memory.semantic.memory import SemanticMemory
from agentmem.memory.stored_records import StoredRecords
from agentmem.memory.working.memory import WorkingMemory
from agentmem.recall.audit import AuditView
from agentmem.stores.values import WHOLE, Where
from tests.flows.given import ManualClock, bundle_texts, context_of, engine_of, normalize, open_memory, run

# Verbs that the everyday object offers, and steps that no caller takes: a subsystem's blocking face leaves them out.
INSIDE = {
    AsyncAgentMemory: {"open"},
    Documents: set(),
    EpisodicMemory: {"store", "store_beside"},
    SemanticMemory: {
        "learn_fact",
        "upsert_entity",
        "build_learn_change",
        "build_supersede_change",
        "get_current_successor",
        "promote_to_long_term",
        "copy_to_global",
    },
    Goals: {"add", "get", "complete", "find_active_in_conversation", "set_active_in_conversation"},
    Schedules: set(),
    WorkingMemory: {"drop_channel", "cache_turns"},
    AuditView: set(),
    ProceduralMemory: {"find_similar", "iter_calls", "build_request_change", "build_learn_change"},
    Curation: set(),
    StoredRecords: set(),
    KnowledgeGraph: set(),
}
FACES = [
    (AsyncAgentMemory, AgentMemory),
    (Documents, SyncDocuments),
    (EpisodicMemory, SyncEpisodicMemory),
    (KnowledgeGraph, SyncKnowledgeGraph),
    (SemanticMemory, SyncSemanticMemory),
    (Goals, SyncGoals),
    (Schedules, SyncSchedules),
    (ProceduralMemory, SyncProceduralMemory),
    (WorkingMemory, SyncWorkingMemory),
    (AuditView, SyncAuditView),
    (Curation, SyncCuration),
    (StoredRecords, SyncStoredRecords),
]
WRITES = [
    AsyncAgentMemory.store_turn,
    AsyncAgentMemory.store_turns,
    AsyncAgentMemory.learn_fact,
    AsyncAgentMemory.restore,
    AsyncAgentMemory.upsert_entity,
    AsyncAgentMemory.add_goal,
    AsyncAgentMemory.complete_goal,
    AsyncAgentMemory.forget,
    AsyncAgentMemory.update_profile,
    AsyncAgentMemory.undo,
    AsyncAgentMemory.observe_usage,
    SemanticMemory.update_fact,
    SemanticMemory.supersede_fact,
    SemanticMemory.boost_salience,
    SemanticMemory.relate,
    SemanticMemory.promote_to_global,
    EpisodicMemory.delete_conversation,
    Curation.touch,
    Curation.merge,
    Curation.promote,
    EpisodicMemory.start_session,
    EpisodicMemory.clear_channel,
    AsyncAgentMemory.announce,
    Goals.update,
    Goals.record_progress,
    Goals.block,
    Goals.unblock,
    Schedules.add,
    Schedules.add_heartbeat,
    Schedules.pause,
    Schedules.resume,
    Schedules.remove,
    WorkingMemory.set_active_goal,
    AsyncAgentMemory.reflect,
    ProceduralMemory.record_invocation,
    ProceduralMemory.learn_strategy,
    ProceduralMemory.reinforce_strategy,
    ProceduralMemory.stage_candidate,
    ProceduralMemory.accept_procedure,
    ProceduralMemory.retire_procedure,
]


def verbs(cls: type) -> dict[str, Any]:
    return {name: each for name, each in inspect.getmembers(cls, inspect.isfunction) if not name.startswith("_")}


@pytest.mark.parametrize("asking, blocking", FACES, ids=[face.__name__ for face, _ in FACES])
def test_the_blocking_face_has_the_same_verbs_signatures_and_docstrings(asking: type, blocking: type) -> None:
    wanted = {name: verb for name, verb in verbs(asking).items() if name not in INSIDE[asking]}
    assert set(verbs(blocking)) == set(wanted)
    for name, verb in wanted.items():
        given = inspect.signature(getattr(blocking, name))
        if name not in ("scoped", "pursue"):  # they return a blocking face
            assert given == inspect.signature(verb), name
        assert inspect.getdoc(getattr(blocking, name)) == inspect.getdoc(verb) != "", name
        assert inspect.iscoroutinefunction(verb) or name in ("scoped", "pursue"), name
    assert inspect.getdoc(blocking)


@pytest.mark.parametrize("face", [face for pair in FACES for face in pair], ids=lambda face: face.__name__)
def test_programs_can_look_up_the_types_of_every_verb(face: type) -> None:
    """Agent frameworks make tools of verbs by them: every type named there has to be at hand where the verb stands."""
    for name, verb in verbs(face).items():
        assert get_type_hints(verb).keys() == {*inspect.signature(verb).parameters, "return"} - {"self"}, name


@pytest.mark.parametrize("verb", WRITES, ids=[verb.__qualname__ for verb in WRITES])
def test_every_write_verb_takes_an_idempotency_key(verb: Any) -> None:
    assert inspect.signature(verb).parameters["idempotency_key"].default is None


def test_turns_are_stored_verbatim_in_order_in_one_conversation(memory: AgentMemory, clock: ManualClock) -> None:
    told = memory.store_turn("  I'm allergic\nto peanuts. ", speaker="Alice", metadata={"mood": "calm"})
    answer = memory.store_turn({"role": "assistant", "content": "Noted.", "turn_id": "t-2"})
    assert (told.content, told.speaker, told.metadata) == ("  I'm allergic\nto peanuts. ", "Alice", {"mood": "calm"})
    assert (told.index, answer.index, answer.id, answer.timestamp) == (0, 1, "t-2", clock.time)
    assert told.conversation_id == answer.conversation_id
    assert memory.episodic.get_conversation(told.conversation_id) == [told, answer]
    assert memory.episodic.recent_turns() == [told, answer] == memory.working.turns()
    assert memory.episodic.read_thread(told.conversation_id, "t-2", 0) == [answer]
    assert [each.id for each in memory.episodic.conversations()] == [told.conversation_id]


def test_a_list_of_turns_may_span_conversations_and_is_one_operation(memory: AgentMemory) -> None:
    stored = memory.store_turns(
        [
            {"content": "one", "conversation_id": "a"},
            Turn(content="two", conversation_id="b", timestamp=datetime(2020, 1, 1, tzinfo=UTC)),
            {"content": "three", "conversation_id": "a", "timestamp": datetime(2020, 1, 2)},
        ]
    )
    assert [(turn.conversation_id, turn.index) for turn in stored] == [("a", 0), ("b", 0), ("a", 1)]
    assert len({turn.operation_id for turn in stored}) == 1
    assert stored[2].timestamp == datetime(2020, 1, 2, tzinfo=UTC), "a naive moment is UTC"
    assert memory.store_turns([]) == []


def test_a_given_index_is_kept_and_the_next_follows_it(memory: AgentMemory) -> None:
    memory.store_turn({"content": "late", "conversation_id": "c", "index": 7})
    memory.store_turn({"content": "later", "conversation_id": "c"})
    memory.store_turn({"content": "early", "conversation_id": "c", "index": 2})
    thread = memory.episodic.get_conversation("c")
    assert [(turn.index, turn.content) for turn in thread] == [(2, "early"), (7, "late"), (8, "later")]


def test_a_given_embedding_is_kept_when_it_fits(memory: AgentMemory) -> None:
    vector = [0.0] * 511 + [2.0]
    memory.store_turn({"content": "nothing in common", "turn_id": "given", "embedding": vector})
    memory.store_turn({"content": "of another size", "turn_id": "other", "embedding": [1.0, 2.0]})
    memory.flush()
    index = memory._inner.engine.vector_projections[0].index
    found = run(index.search(normalize(vector), context_of(memory).scope, Where(), WHOLE))
    assert max(round(float(score), 3) for score in found.scores) == 1.0


def test_facts_gather_sources_and_say_what_they_rest_on(memory: AgentMemory) -> None:
    first, second = memory.store_turns(["Ann moved to Oslo.", "Ann lives in Oslo now."])
    ann = memory.upsert_entity({"name": "Ann", "type": "person", "aliases": ["Annie"]})
    fact = memory.learn_fact("Ann lives in Oslo", source_turn_ids=[first.id], entity_ids=[ann.id], tags=["home"])
    again = memory.learn_fact("ann lives in  OSLO.", source_turn_ids=[second.id], confidence=0.9)
    assert again.id == fact.id
    assert (again.source_turn_ids, again.confidence, again.claim) == ((first.id, second.id), 0.9, "Ann lives in Oslo")
    assert memory.semantic.provenance(fact.id) == [first, second]
    assert memory.semantic.facts({"tags": "home"}) == [again] == memory.semantic.facts({"entity_ids": [ann.id]})
    assert memory.semantic.get_fact(fact.id) == again


def test_entities_are_found_by_any_of_their_names(memory: AgentMemory) -> None:
    ann = memory.upsert_entity({"name": "Ann Müller", "type": "person", "aliases": ["Annie"]})
    same = memory.upsert_entity({"name": "annie", "type": "person", "description": "a nurse"})
    other = memory.upsert_entity({"name": "Annie", "type": "boat"})
    assert same.id == ann.id != other.id
    assert (same.name, same.description) == ("Ann Müller", "a nurse")
    assert [each.id for each in memory.semantic.entities("ann muller")] == [ann.id]
    assert {each.id for each in memory.semantic.entities("Annie")} == {ann.id, other.id}
    assert [each.id for each in memory.semantic.entities(type="boat")] == [other.id]


def test_relations_are_typed_and_walked_within_bounds(memory: AgentMemory) -> None:
    names = ["Ann", "Ben", "Cleo", "Dora"]
    ann, ben, cleo, dora = (memory.upsert_entity({"name": name, "type": "person"}) for name in names)
    memory.semantic.relate(ann.id, "KNOWS", ben.id)
    odd = memory.semantic.relate(ben.id, "sings with", cleo.id, {"since": 2019})
    memory.semantic.relate(cleo.id, "knows", dora.id)
    fact = memory.learn_fact("Ben sings", entity_ids=[ben.id])
    assert (odd.edge_kind, odd.properties) == (EdgeKind.RELATED_TO, {"name": "sings with", "since": 2019})
    near = memory.semantic.get_entity_graph([ann.id], 1)
    assert {each.name for each in near.entities} == {"Ann", "Ben"}
    wide = memory.semantic.get_entity_graph([ann.id], 2)
    assert {each.name for each in wide.entities} == {"Ann", "Ben", "Cleo"}
    assert [each.id for each in wide.facts] == [fact.id]
    again = memory.semantic.relate(ann.id, "KNOWS", ben.id, {"met": "school"})
    assert len([edge for edge in memory.semantic.get_entity_graph([ann.id], 1).edges if edge.source == ann.id]) == 1
    assert again.properties == {"met": "school"}


def test_goals_are_listed_by_urgency_until_they_end(memory: AgentMemory) -> None:
    later = memory.add_goal("Learn Norwegian")
    soon = memory.add_goal({"description": "Book a flight", "priority": 5, "parent_id": later.id})
    assert memory.goals.active() == [soon, later]
    done = memory.complete_goal(soon.id, "completed", "booked for May")
    assert (done.goal_status, done.result) == ("completed", "booked for May")
    assert memory.get_goal(soon.id) == done
    assert memory.goals.active() == [later]
    assert [goal.id for goal in memory.remember("flight Norwegian").goals] == [later.id]


def test_the_profile_is_merged_and_stands_in_every_bundle(memory: AgentMemory) -> None:
    assert memory.profile().preferences == {}
    memory.update_profile(preferences={"tone": "short", "units": "metric"}, expertise_areas=["law"])
    memory.update_profile(preferences={"units": None}, expertise_areas=["law", "tax"], metadata={"plan": "pro"})
    profile = memory.profile()
    assert (profile.preferences, profile.expertise_areas, profile.metadata) == (
        {"tone": "short"},
        ("law", "tax"),
        {"plan": "pro"},
    )
    assert memory.remember("anything").user_context["preferences"] == {"tone": "short"}
    assert "tone short" in memory.context("anything").text


def test_a_forgotten_profile_is_empty_and_begins_anew(memory: AgentMemory) -> None:
    memory.update_profile(preferences={"tone": "short"})
    memory.forget("profile")
    assert memory.profile().preferences == {}
    assert memory.update_profile(preferences={"units": "metric"}).preferences == {"units": "metric"}
    assert memory.profile().preferences == {"units": "metric"}


def test_working_memory_keeps_what_the_session_has_at_hand(memory: AgentMemory, clock: ManualClock) -> None:
    memory.store_turns(["The invoice is late.", "Which invoice?", "The one from May."])
    assert [turn.content for turn in memory.working.search("invoice", 1)] in (
        ["The invoice is late."],
        ["Which invoice?"],
    )
    memory.working.set("city", {"name": "Oslo"}, ttl=60)
    memory.working.push_thought("ask about the invoice")
    assert memory.working.get("city") == {"name": "Oslo"}
    assert memory.working.context() == {"city": {"name": "Oslo"}}
    assert memory.working.thoughts() == ["ask about the invoice"]
    page = memory.working.current_markdown()
    assert all(part in page for part in ("The invoice is late.", "city", "ask about the invoice"))
    for _ in range(3):
        clock.advance(seconds=50)
        assert memory.working.get("city") == {"name": "Oslo"}, "a read begins its time anew"
    clock.advance(seconds=61)
    assert memory.working.get("city") is None, "its time is over"
    memory.working.clear()
    assert memory.working.thoughts() == []
    session = memory.working.new_session()
    fresh = memory.store_turn("A new start.")
    assert fresh.session_id == session
    assert memory.working.turns() == [fresh]
    memory.working.set("x", 1)
    memory.working.delete("x")
    assert memory.working.get("x") is None


def test_names_with_colons_share_no_working_memory(memory: AgentMemory) -> None:
    one = memory.scoped(channel="a", conversation_id="b:context")
    two = memory.scoped(channel="a", conversation_id="b")
    three = memory.scoped(channel="a:b", conversation_id="context")
    for number, each in enumerate((one, two, three)):
        each.working.set("key", number)
    assert [each.working.context() for each in (one, two, three)] == [{"key": 0}, {"key": 1}, {"key": 2}]
    two.working.clear()
    assert [each.working.get("key") for each in (one, two, three)] == [0, None, 2]


def test_usage_is_counted_once_per_key(memory: AgentMemory) -> None:
    fact = memory.learn_fact("Ann likes tea")
    assert memory.observe_usage([fact.id, fact.id, "unknown"], ["chat"], idempotency_key="k") == 1
    assert memory.observe_usage([fact.id], idempotency_key="k") == 1
    assert memory.observe_usage([fact.id]) == 1
    usage: Mapping[Any, Any] = run(engine_of(memory).log.usage([fact.key], context_of(memory).scope))
    assert usage[fact.key].use_count == 2


def test_lag_is_zero_after_flush(memory: AgentMemory) -> None:
    memory.store_turns([f"turn {number}" for number in range(30)])
    memory.flush()
    assert set(memory.lag().values()) == {0}


def test_a_view_shares_what_is_open(memory: AgentMemory) -> None:
    memory.store_turn("In the global channel.")
    project = memory.scoped(channel="roof", conversation_id="c")
    project.store_turn("In the project.")
    assert bundle_texts(project.remember("channel project")) == ["In the global channel.", "In the project."]
    assert bundle_texts(memory.remember("channel project")) == ["In the global channel."]
    assert repr(project) == "AgentMemory('alice', channel='roof')"


def test_a_view_of_given_channels_reads_these_alone(memory: AgentMemory) -> None:
    memory.learn_fact("Ann lives in Oslo")
    inside = memory.scoped(channel="roof", channels=("roof",))
    fact = inside.learn_fact("Ann has a roof")
    assert inside.semantic.facts() == [fact]
    with pytest.raises(ScopeError, match="_self_bot"):
        memory.scoped(channels=("_self_bot",))


def test_stored_records_are_read_as_they_are(memory: AgentMemory) -> None:
    roof = memory.scoped(channel="roof")
    ann, ben = [roof.upsert_entity({"name": name, "type": "person"}) for name in ("Ann", "Ben")]
    edge = roof.semantic.relate(ann.id, "KNOWS", ben.id)
    fact = roof.learn_fact("Ann sings")
    roof.forget(fact.id)
    (gone,) = roof.records.find(Fact, [fact.id, "unknown"])
    assert (gone.status, roof.records.find(Fact, status=Status.ACTIVE)) == (Status.FORGOTTEN, [])
    assert [version.status for version in roof.records.versions(gone)] == [Status.ACTIVE, Status.FORGOTTEN]
    assert [usage.id for usage in roof.records.usage([ann, ben])] == [ann.id, ben.id]
    assert roof.records.relations([ben]) == [edge]
    assert memory.records.find(Entity) == []
    assert memory.records.channels(["Fact", "Entity"]) == ["roof"] == memory.records.channels(["Fact"], [fact.id])


def test_a_session_begins_as_a_conversation_without_turns(memory: AgentMemory) -> None:
    begun = memory.episodic.start_session("s-1", idempotency_key="k")
    assert memory.episodic.conversations() == [begun] == [memory.episodic.start_session("s-1", idempotency_key="k")]
    assert memory.episodic.get_conversation("s-1") == []


def test_a_conversation_is_read_from_every_channel_that_has_turns_of_it(memory: AgentMemory) -> None:
    memory.scoped(channel="roof").store_turn({"content": "tiles", "conversation_id": "c"})
    memory.scoped(channel="cellar").store_turn({"content": "pipes", "conversation_id": "c"})
    assert [turn.content for turn in memory.scoped(channel="cellar").episodic.get_conversation("c")] == ["pipes"]
    with pytest.raises(NotFound, match="c"):
        memory.episodic.get_conversation("c")


async def test_the_coroutine_face_does_the_same(home: Path) -> None:
    async with AsyncAgentMemory("alice", home=home, embedder="hash") as memory:
        turn = await memory.store_turn("I'm allergic to peanuts.")
        fact = await memory.learn_fact("Alice is allergic to peanuts", source_turn_ids=[turn.id])
        bundle = await memory.remember("peanuts")
        assert (bundle.turns, bundle.facts) == ((turn,), (fact,))
        assert await memory.scoped(user_id="bob").episodic.recent_turns() == []
    with open_memory(home) as blocking:
        assert blocking.semantic.facts() == [fact]
