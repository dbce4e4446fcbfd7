"""Facts by hand and facts that were read, in one table."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from agentmem import AgentMemory
from tests.flows.given import ManualClock, open_memory

JANUARY = datetime(2026, 1, 5, tzinfo=UTC)


@pytest.fixture
def memory(home: Path, clock: ManualClock) -> Iterator[AgentMemory]:
    with open_memory(home, clock=clock) as made:
        yield made


def read(memory: AgentMemory, text: str, clock: ManualClock) -> str:
    turn = memory.store_turn(text, timestamp=clock.now())
    memory.consolidate("consolidate")
    return turn.id


def told(memory: AgentMemory, slot: str, subject: str = "user") -> tuple[list[str], list[str]]:
    """The current and the former values."""
    found = memory.beliefs(subject, slot)
    return [f.value for each in found for f in each.current], [f.value for each in found for f in each.former]


def test_a_fact_by_hand_and_one_that_was_read_replace_each_other(memory: AgentMemory, clock: ManualClock) -> None:
    turn = read(memory, "I live in Bergen.", clock)
    clock.advance(days=150)
    source = memory.store_turn("Bergen it is.")
    known = memory.learn_fact("The user lives in Bergen", source_turn_ids=[source.id])
    assert known.source_turn_ids == (turn, source.id)
    clock.advance(days=1)
    memory.learn_fact("The user lives in Oslo")
    assert told(memory, "home") == (["Oslo"], ["Bergen"])
    clock.advance(days=30)
    read(memory, "I live in Lund.", clock)
    assert told(memory, "home") == (["Lund"], ["Oslo", "Bergen"])
    assert [fact.value for fact in memory.semantic.facts()] == ["Lund"]


def test_what_takes_the_place_of_a_fact_fills_its_slot(memory: AgentMemory, clock: ManualClock) -> None:
    first = memory.learn_fact("Ida is allergic to nuts")
    open_claim = memory.learn_fact("She cannot eat peanuts")
    second = memory.semantic.supersede_fact(open_claim.id, "Ida is allergic to peanuts")
    third = memory.semantic.update_fact(first.id, claim="Ida is allergic to hazelnuts")
    assert [(fact.slot, fact.value) for fact in (second, third)] == [
        ("allergies", "peanuts"),
        ("allergies", "hazelnuts"),
    ]
    home = memory.learn_fact("The user lives in Bergen")
    clock.advance(days=1)
    memory.semantic.supersede_fact(home.id, "I live in Oslo", is_correction=True)
    assert told(memory, "home") == (["Oslo"], [])
    clock.advance(days=1)
    memory.semantic.supersede_fact(home.id, "I live in Lund")
    assert told(memory, "home") == (["Lund"], ["Oslo"])


def test_a_sentence_ends_what_is_known_and_else_stays_as_it_is(memory: AgentMemory, clock: ManualClock) -> None:
    nothing = memory.learn_fact("The user no longer works at Acme")
    assert (nothing.claim, nothing.slot) == ("The user no longer works at Acme", "employer")
    memory.learn_fact("The user works at Globex")
    clock.advance(days=1)
    memory.learn_fact("The user no longer works at Globex")
    assert told(memory, "employer") == ([], ["Globex", "Acme"])


def test_what_is_given_wins_over_what_the_sentence_says(memory: AgentMemory) -> None:
    other = memory.learn_fact("The user lives in Oslo", slot="address", value="Storgata 1")
    left = memory.learn_fact("The user lives in Oslo", slot="")
    whose = memory.learn_fact("I live in Oslo", subject="Ida")
    assert [(fact.subject, fact.slot, fact.value) for fact in (other, left, whose)] == [
        ("user", "address", "Storgata 1"),
        ("", "", ""),
        ("Ida", "home", "Oslo"),
    ]


def list_orders(memory: AgentMemory, query: str = "Hello") -> list[str]:
    return [line for part in memory.context(query).parts if part.section == "instructions" for line in part.lines]


def test_of_orders_about_one_slot_a_context_tells_the_latest(memory: AgentMemory, clock: ManualClock) -> None:
    memory.store_turn("From now on reply in French.", timestamp=clock.now())
    memory.consolidate("distill_procedures")
    assert list_orders(memory) == ["- Reply in French"]
    clock.advance(days=1)
    memory.learn_fact("Always answer in German")
    assert list_orders(memory, "Should you reply in French?") == ["- answer language: German"]
    clock.advance(days=1)
    memory.procedural.accept_procedure(memory.procedural.stage_candidate("Always answer in Spanish").id)
    assert list_orders(memory, "What is the answer language?") == ["- Always answer in Spanish"]


def test_an_order_that_is_taken_back_is_told_no_more(memory: AgentMemory, clock: ManualClock) -> None:
    for said in ("Never use emojis.", "Emojis are fine again."):
        memory.store_turn(said, timestamp=clock.now())
        memory.consolidate("consolidate")
        memory.consolidate("distill_procedures")
        clock.advance(days=1)
    assert list_orders(memory) == []
    assert (told(memory, "emoji"), memory.procedural.procedures()) == (([], ["none"]), [])
