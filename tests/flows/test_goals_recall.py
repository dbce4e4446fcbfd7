"""Recall with goals: what serves an active one ranks a little higher, and open ones stand in every bundle."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentmem import AgentMemory, MemoryBundle
from tests.flows.given import ManualClock, bundle_ids, open_memory

ASKED = "What did we say about the tickets?"


def lifted(bundle: MemoryBundle) -> dict[str, float]:
    """The candidates that serve a goal, by id, each with its factor."""
    found = {each["id"]: each["factors"].get("goal", 1.0) for each in bundle.receipt.as_dict()["candidates"]}
    return {name: factor for name, factor in found.items() if factor != 1.0}


@pytest.fixture
def talked(memory: AgentMemory) -> AgentMemory:
    """Two talks about tickets, and facts from each."""
    for place, words in (
        ("trip", "The tickets to Oslo by train cost much."),
        ("opera", "The tickets to the opera cost much."),
    ):
        turn = memory.store_turn({"content": words, "conversation_id": place})
        memory.learn_fact(f"{words} ({place})", source_turn_ids=[turn.id])
    return memory


def best_fact(bundle: MemoryBundle) -> str:
    """The talk that the first fact comes from."""
    return bundle.facts[0].claim.rpartition("(")[2].strip(")")


def test_what_serves_the_goal_at_hand_comes_first(talked: AgentMemory) -> None:
    here = talked.scoped(conversation_id="today")
    plain = here.remember(ASKED, reinforce=False)
    assert lifted(plain) == {}
    about = {turn.conversation_id: turn.id for turn in plain.turns}
    for words, this, that in (("Travel to Oslo by train", "trip", "opera"), ("Go to the opera", "opera", "trip")):
        with here.goals.pursue(words):
            bundle = here.remember(ASKED, reinforce=False)
        found = lifted(bundle)
        assert best_fact(bundle) == this
        assert found[about[this]] > found[about[that]]
        assert all(1.0 < factor <= 1.1 for factor in found.values())
    assert lifted(here.remember(ASKED, reinforce=False)) == {}


def test_what_was_said_where_the_goal_came_up_counts_without_its_words(talked: AgentMemory) -> None:
    for place in ("opera", "trip"):
        goal = talked.add_goal({"description": "zzz", "conversation_id": place})
        bundle = talked.remember(ASKED, reinforce=False)
        assert best_fact(bundle) == place
        assert list(lifted(bundle).values()) == [1.05, 1.05]
        talked.complete_goal(goal.id)
    assert lifted(talked.remember(ASKED, reinforce=False)) == {}


def test_goals_of_others_and_ended_ones_lift_nothing(home: Path) -> None:
    with open_memory(home, clock=ManualClock(), seed=1) as memory:
        memory.store_turn("The tickets to the opera cost much.")
        memory.add_goal("Go to the opera")
        memory.scoped(agent_id="bot", channel="_self_bot").add_goal("Go to the opera")
        memory.complete_goal(memory.goals.active()[0].id)
        assert lifted(memory.remember(ASKED)) == {}


def test_open_goals_stand_in_the_bundle_however_many_have_ended(memory: AgentMemory) -> None:
    for number in range(12):
        memory.complete_goal(memory.add_goal(f"Buy tickets number {number}").id)
    waiting = memory.add_goal("Sleep")
    other = memory.add_goal({"description": "Rest", "blocked_by": [waiting.id]})
    here = memory.scoped(conversation_id="c")
    here.working.set_active_goal(other.id)
    bundle = here.remember("tickets", top_k=2)
    assert [goal.id for goal in bundle.goals] == [other.id, waiting.id]
    assert waiting.id in bundle_ids(bundle)
    assert "- Sleep" in str(bundle).splitlines()
