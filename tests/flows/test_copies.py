"""The copy of a project's fact in `_global` ends with the fact, however that ends, and comes back with it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from agentmem import AgentMemory, Fact
from tests.flows.given import ManualClock, bundle_ids, read_state

CODE = "The door code is 1234"


@pytest.fixture
def house(memory: AgentMemory) -> AgentMemory:
    return memory.scoped(channel="house")


@pytest.fixture
def fact(house: AgentMemory) -> Fact:
    turn = house.store_turn("The door code is 1234.")
    return house.learn_fact(CODE, source_turn_ids=[turn.id])


def known_elsewhere(memory: AgentMemory) -> list[str]:
    """The facts that another project is told of the door, by every way to ask."""
    elsewhere = memory.scoped(channel="garden")
    found = {each.id: each.claim for each in elsewhere.semantic.facts()}
    recalled = bundle_ids(elsewhere.remember("What is the door code?", reinforce=False, include=("semantic",)))
    assert recalled <= set(found)
    return list(found.values())


ENDINGS: dict[str, Callable[[AgentMemory, str], object]] = {
    "supersede": lambda house, fact: house.semantic.supersede_fact(fact, "The door code is 9999"),
    "supersede, wrong": lambda house, fact: house.semantic.supersede_fact(
        fact, "The door code is 9999", is_correction=True
    ),
    "update": lambda house, fact: house.semantic.update_fact(fact, claim="The door code is 9999"),
    "forget": lambda house, fact: house.forget(fact),
    "erase": lambda house, fact: house.forget(fact, hard=True),
}


@pytest.mark.parametrize("how", ENDINGS)
def test_a_copy_ends_with_its_fact(memory: AgentMemory, house: AgentMemory, fact: Fact, how: str) -> None:
    house.semantic.promote_to_global(fact.id, "everybody needs it")
    assert known_elsewhere(memory) == [CODE]
    ENDINGS[how](house, fact.id)
    assert known_elsewhere(memory) == []


def test_both_are_brought_back_together(
    memory: AgentMemory, house: AgentMemory, fact: Fact, clock: ManualClock
) -> None:
    copy = house.semantic.promote_to_global(fact.id, "everybody needs it")
    before = read_state(memory)
    receipt = house.forget(fact.id)
    assert set(receipt.ids) == {fact.id, copy.id}
    assert {each.id for each in house.restore(fact.id)} == {fact.id, copy.id}
    assert known_elsewhere(memory) == [CODE]
    house.undo(house.forget(fact.id).operation_id)
    assert read_state(memory) == before
    clock.advance(days=1)
    changed = house.semantic.supersede_fact(fact.id, "The door code is 9999")
    assert [each.claim for each in memory.scoped(channel="garden").semantic.facts({"as_of": fact.recorded_at})] == [
        CODE
    ]
    house.undo(changed.operation_id)
    assert known_elsewhere(memory) == [CODE]


def test_what_stands_by_itself_stays(memory: AgentMemory, house: AgentMemory, fact: Fact) -> None:
    """Said elsewhere too, or known in every channel before: not a copy alone."""
    copy = house.semantic.promote_to_global(fact.id, "everybody needs it")
    said = memory.store_turn("By the way, the door code is 1234.")
    assert memory.learn_fact(CODE, source_turn_ids=[said.id]).id == copy.id
    house.semantic.supersede_fact(fact.id, "The door code is 9999")
    assert known_elsewhere(memory) == [CODE]
    blue = memory.learn_fact("The door is blue")
    mine = house.learn_fact("The door is blue")
    assert house.semantic.promote_to_global(mine.id, "everybody sees it").id == blue.id
    house.forget(mine.id)
    assert known_elsewhere(memory) == [CODE, "The door is blue"]


def test_a_copy_that_says_the_new_claim_already_is_the_successor(
    memory: AgentMemory, house: AgentMemory, fact: Fact
) -> None:
    house.semantic.promote_to_global(fact.id, "everybody needs it")
    new = house.learn_fact("The door code is 9999")
    assert house.semantic.supersede_fact(fact.id, "The door code is 9999").id == new.id
    assert known_elsewhere(memory) == []
