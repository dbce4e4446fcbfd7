"""Clearing a channel: all of it, nothing else, and back again."""

from __future__ import annotations

import pytest

from agentmem import AgentMemory, InvalidRecord, NotFound
from agentmem.memory import erasure
from tests.flows.given import bundle_texts, read_state, read_tables


@pytest.fixture
def trip(memory: AgentMemory) -> AgentMemory:
    """A channel with one of everything, beside another one."""
    memory.store_turn("Global peanuts.")
    memory.learn_fact("Global fact of peanuts")
    memory.update_profile(preferences={"units": "metric"})
    trip = memory.scoped(channel="trip", conversation_id="c")
    turn = trip.store_turn("Peanuts on the trip.")
    trip.learn_fact("A fact of peanuts on the trip", source_turn_ids=[turn.id])
    trip.upsert_entity({"name": "Peanut"})
    trip.add_goal("Buy peanuts")
    trip.working.set("city", "Oslo")
    trip.working.remember_output("Peanuts cost 2 euros.", source="shop")
    return trip


def test_a_cleared_channel_is_empty_and_the_others_are_as_they_were(memory: AgentMemory, trip: AgentMemory) -> None:
    before = read_state(memory)
    receipt = trip.episodic.clear_channel(idempotency_key="k")
    assert bundle_texts(trip.remember("peanuts")) == ["Global fact of peanuts", "Global peanuts."]
    assert (trip.working.turns(), trip.working.context(), trip.working.search_outputs("peanuts")) == ([], {}, [])
    assert trip.goals.active() == []
    assert memory.profile().preferences == {"units": "metric"}
    later = trip.store_turn("A new start.")
    assert trip.episodic.clear_channel(idempotency_key="k").ids == receipt.ids
    assert trip.working.turns() == [later], "the same key again does nothing"
    trip.forget(later.id)
    with pytest.raises(NotFound, match="trip"):
        trip.episodic.clear_channel()
    trip.undo(receipt.operation_id)
    after = read_state(memory)
    assert {*before.pop("edges")} <= {*after.pop("edges")}
    assert {key: after[key] for key in before} == before
    assert "Peanuts on the trip." in bundle_texts(trip.remember("peanuts"))


def test_a_channel_cleared_for_good_is_gone(memory: AgentMemory, trip: AgentMemory) -> None:
    trip.forget(trip.store_turn("Forgotten softly before.").id)
    receipt = trip.episodic.clear_channel(hard=True)
    assert receipt.scan is not None
    assert receipt.scan.leftovers == {}
    rows = repr(read_tables(memory))
    assert ("on the trip" in rows, "Forgotten softly" in rows, "Global peanuts." in rows) == (False, False, True)


def test_a_channel_of_another_agent_or_user_is_out_of_reach(memory: AgentMemory, trip: AgentMemory) -> None:
    bot = memory.scoped(channel="_self_bot", agent_id="bot")
    bot.store_turn("Private peanuts.")
    trip.episodic.clear_channel()
    assert len(bot.working.turns()) == 1
    with pytest.raises(NotFound):
        memory.scoped(user_id="bob", channel="_self_bot", agent_id="bot").episodic.clear_channel()
    bot.episodic.clear_channel()
    assert bot.working.turns() == []


def test_too_much_for_one_operation_is_refused(trip: AgentMemory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(erasure, "MAX_CHANNEL_RECORDS", 3)
    with pytest.raises(InvalidRecord, match="delete its conversations first") as refused:
        trip.episodic.clear_channel()
    assert refused.value.field == "channel"
    assert len(trip.working.turns()) == 1
