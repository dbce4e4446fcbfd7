"""Undo gives every record back the state from before, whatever the operation was."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentmem import AgentMemError, AgentMemory, Conflict, NotFound, Status
from tests.flows.given import (
    ManualClock,
    context_of,
    engine_of,
    last_operation_id,
    open_memory,
    read_head,
    read_state,
    run,
)
from tests.flows.test_idempotency import Ground
from tests.scale import scaled

OPERATIONS: dict[str, Callable[[Ground], Any]] = {
    "store_turn": lambda g: g.memory.store_turn("a third turn"),
    "store_turns in new conversations": lambda g: g.memory.store_turns(
        [
            {"content": "x", "conversation_id": "new"},
            {"content": "y", "conversation_id": "newer"},
        ]
    ),
    "learn_fact": lambda g: g.memory.learn_fact("Eve sings", entity_ids=[g.ann], source_turn_ids=[g.turn.id]),
    "learn_fact known": lambda g: g.memory.learn_fact("Ann sings", source_turn_ids=[g.turn.id]),
    "update_fact": lambda g: g.memory.semantic.update_fact(g.fact.id, tags=["a"]),
    "update_fact claim": lambda g: g.memory.semantic.update_fact(g.fact.id, claim="Ann hums"),
    "supersede_fact": lambda g: g.memory.semantic.supersede_fact(g.fact.id, "Ann hums"),
    "supersede_fact known": lambda g: g.memory.semantic.supersede_fact(g.fact.id, "Ben sings"),
    "boost_salience": lambda g: g.memory.semantic.boost_salience(g.fact.id),
    "promote_to_global": lambda g: g.roof.semantic.promote_to_global(g.project.id, "known"),
    "keep": lambda g: g.memory.curation.promote(g.fact.id),
    "merge_facts": lambda g: g.memory.curation.merge([g.fact.id, g.other.id]),
    "upsert_entity": lambda g: g.memory.upsert_entity({"name": "Eve"}),
    "upsert_entity known": lambda g: g.memory.upsert_entity({"name": "Ann", "description": "a singer"}),
    "relate": lambda g: g.memory.semantic.relate(g.ann, "KNOWS", g.ben),
    "add_goal": lambda g: g.memory.add_goal("dance"),
    "complete_goal": lambda g: g.memory.complete_goal(g.goal),
    "update_goal": lambda g: g.memory.goals.update(g.goal, priority=5),
    "block_goal": lambda g: g.memory.goals.block(g.goal, g.wish),
    "pursue_goal": lambda g: g.memory.working.set_active_goal(g.goal),
    "announce": lambda g: g.memory.announce("Tea is ready", expires_in=60),
    "announce in a turn": lambda g: g.memory.store_turn("[ANNOUNCE] Tea is ready", role="assistant"),
    "add_schedule": lambda g: g.memory.schedules.add_heartbeat("pulse", 60),
    "remove_schedule": lambda g: g.memory.schedules.remove("daily"),
    "update_profile": lambda g: g.memory.update_profile(preferences={"tone": "short"}),
    "forget": lambda g: g.memory.forget(g.fact.id),
    "forget a turn": lambda g: g.memory.forget(g.turn.id),
    "forget an entity": lambda g: g.memory.forget(g.ann),
    "delete_conversation": lambda g: g.memory.episodic.delete_conversation(g.turn.conversation_id),
    "restore": lambda g: g.memory.restore(g.gone),
    "undo": lambda g: g.memory.undo(g.other.operation_id),
}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_undo_restores_the_state_from_before_and_can_itself_be_undone(memory: AgentMemory, operation: str) -> None:
    ground = Ground(memory)
    before = read_state(memory)
    OPERATIONS[operation](ground)
    after = read_state(memory)
    assert after != before
    face = ground.roof if operation.startswith("promote") else memory
    undoing = face.undo(last_operation_id(memory))
    assert read_state(memory) == before
    assert undoing == last_operation_id(memory)
    face.undo(undoing)
    assert read_state(memory) == after
    memory.flush()
    assert set(memory.lag().values()) == {0}


def test_undo_is_refused_where_a_later_operation_touched(memory: AgentMemory) -> None:
    fact = memory.learn_fact("Ann sings")
    boosted = memory.semantic.boost_salience(fact.id)
    with pytest.raises(Conflict, match="later operation"):
        memory.undo(fact.operation_id)
    memory.undo(boosted.operation_id)
    with pytest.raises(Conflict):
        memory.undo(boosted.operation_id)
    memory.undo(fact.operation_id)
    assert memory.semantic.facts() == []


@pytest.mark.parametrize("fields", [{}, {"slot": "home", "value": "Bern"}], ids=["open claim", "belief"])
@pytest.mark.parametrize("way", ["undo", "restore"])
def test_what_was_said_again_since_gains_the_sources(memory: AgentMemory, fields: dict[str, Any], way: str) -> None:
    first, second = memory.store_turns(["Ann sings, they say.", "She sings indeed."])
    fact = memory.learn_fact("Ann sings", source_turn_ids=[first.id], tags=["old"], **fields)
    gone = memory.forget(fact.id)
    again = memory.learn_fact("Ann sings", source_turn_ids=[second.id], **fields)
    before = read_state(memory)
    if way == "undo":
        operation = memory.undo(gone.operation_id)
    else:
        (joined,) = memory.restore(fact.id)
        operation = joined.operation_id
    (found,) = memory.semantic.facts()
    assert (found.id, found.source_turn_ids, found.tags) == (again.id, (second.id, first.id), ("old",))
    assert memory.semantic.get_fact(fact.id).status is Status.FORGOTTEN
    memory.undo(operation)
    assert read_state(memory) == before


def test_undo_brings_no_second_turn_of_one_place(memory: AgentMemory) -> None:
    turn = memory.store_turn({"content": "one", "conversation_id": "c"})
    undone = memory.undo(turn.operation_id)
    memory.store_turn({"content": "two", "conversation_id": "c"})
    with pytest.raises(Conflict):
        memory.undo(undone)


def test_a_conversation_stays_while_others_have_turns_in_it(memory: AgentMemory) -> None:
    first = memory.store_turn("one")
    memory.store_turn("two")
    memory.undo(first.operation_id)
    assert [turn.content for turn in memory.episodic.get_conversation(first.conversation_id)] == ["two"]


def test_a_deleted_conversation_comes_back_though_a_turn_was_added_since(memory: AgentMemory) -> None:
    turn = memory.store_turn({"content": "one", "conversation_id": "c"})
    deleted = memory.episodic.delete_conversation("c")
    memory.store_turn({"content": "two", "conversation_id": "c"})
    memory.undo(deleted.operation_id)
    assert [each.content for each in memory.episodic.get_conversation("c")] == [turn.content, "two"]
    assert [each.id for each in memory.episodic.conversations()] == ["c"]


@pytest.mark.parametrize("key", [None, "k"])
def test_erasure_cannot_be_undone(memory: AgentMemory, key: str | None) -> None:
    turns = memory.store_turns(["one", "two"])
    fact = memory.learn_fact("Ann sings", source_turn_ids=[turns[0].id, turns[1].id])
    receipt = memory.forget(turns[0].id, hard=True, idempotency_key=key)
    with pytest.raises(Conflict, match="erasure cannot be undone"):
        memory.undo(receipt.operation_id)
    with pytest.raises(Conflict):
        memory.undo(fact.operation_id)
    erased = memory.erase()
    for operation in (receipt.operation_id, erased.operation_id, fact.operation_id, turns[1].operation_id):
        with pytest.raises((Conflict, NotFound)):
            memory.undo(operation)
    assert memory.remember("Ann").items == ()


def test_undo_after_erasure_brings_nothing_back(memory: AgentMemory) -> None:
    turn = memory.store_turn("one")
    memory.forget(turn.id)
    forgotten = last_operation_id(memory)
    memory.forget(turn.id, hard=True)
    with pytest.raises(NotFound):
        memory.undo(forgotten)
    memory.undo(turn.operation_id)  # what is left of it: the conversation that it began
    assert memory.episodic.conversations() == []
    assert memory.remember("one").items == ()


def test_usage_is_no_part_of_undo(memory: AgentMemory) -> None:
    fact = memory.learn_fact("Ann sings")
    memory.remember("Ann")
    memory.undo(memory.semantic.boost_salience(fact.id).operation_id)
    assert run(engine_of(memory).log.usage([fact.key], context_of(memory).scope))[fact.key].access_count == 1


def test_another_users_or_agents_operation_is_not_found(memory: AgentMemory) -> None:
    fact = memory.learn_fact("Ann sings")
    secret = memory.scoped(agent_id="bot", channel="_self_bot").learn_fact("The bot is shy")
    with pytest.raises(NotFound):
        memory.scoped(user_id="bob").undo(fact.operation_id)
    with pytest.raises(NotFound):
        memory.undo(secret.operation_id)


def test_what_a_job_did_in_a_project_is_undone_from_there_alone(memory: AgentMemory, clock: ManualClock) -> None:
    project = memory.scoped(channel="roof")
    fact = project.learn_fact("The roof is red", tier="short")
    clock.advance(days=13)
    (operation,) = memory.consolidate("gc")[0].operation_ids
    with pytest.raises(NotFound):
        memory.undo(operation)
    project.undo(operation)
    assert [each.id for each in project.semantic.facts()] == [fact.id]


STEPS = st.lists(st.tuples(st.integers(0, 11), st.integers(0, 5)), min_size=3, max_size=14)


def step(memory: AgentMemory, what: int, which: int) -> None:
    """One operation on one of six names; some change nothing, some are refused."""
    name = f"claim {which}"
    known = sorted(fact.id for fact in memory.semantic.facts({"retired": True}))
    chosen = known[which % len(known)] if known else "none"
    calls: list[Callable[[], Any]] = [
        lambda: memory.learn_fact(name),
        lambda: memory.semantic.supersede_fact(chosen, name),
        lambda: memory.semantic.update_fact(chosen, claim=name),
        lambda: memory.semantic.update_fact(chosen, tags=[name]),
        lambda: memory.forget(chosen),
        lambda: memory.restore(chosen),
        lambda: memory.store_turns([{"content": name, "conversation_id": f"c{which}"}] * (1 + which % 2)),
        lambda: memory.episodic.delete_conversation(f"c{which}"),
        lambda: memory.restore(f"c{which}"),
        lambda: memory.upsert_entity({"name": f"Entity {which % 2}", "aliases": [name]}),
        lambda: memory.update_profile(preferences={name: which}),
        lambda: memory.undo(last_operation_id(memory)) if read_head(memory) else None,
    ]
    calls[what]()


@pytest.mark.long
def test_any_history_is_unwound_step_by_step(home: Path, clock: ManualClock) -> None:
    users = iter(range(10_000))
    with open_memory(home, clock=clock, seed=3, audit_level="off") as shared:

        @settings(max_examples=scaled(40, least=8))
        @given(steps=STEPS)
        def unwind(steps: list[tuple[int, int]]) -> None:
            memory = shared.scoped(user_id=f"user {next(users)}")
            states, operations = [read_state(memory)], []
            for what, which in steps:
                clock.advance(minutes=1)
                at = read_head(memory)
                try:
                    step(memory, what, which)
                except AgentMemError:
                    assert read_head(memory) == at, "what is refused writes nothing"
                if read_head(memory) > at:
                    operations.append(last_operation_id(memory))
                    states.append(read_state(memory))
            assert operations or states == [{"edges": []}]
            for operation, earlier in zip(reversed(operations), reversed(states[:-1]), strict=True):
                memory.undo(operation)
                assert read_state(memory) == earlier

        unwind()
