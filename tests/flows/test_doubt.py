"""A held belief comes into doubt by a later turn that nobody could read, and what ends the doubt."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from agentmem import AgentMemory
from agentmem.memory.semantic.belief_view import SlotBeliefs
from tests.flows.given import FILE_FIRST, START, ManualClock, open_memory, stack_options

MOVE = "I gave back the keys of the old flat and slept between boxes in the other one."


@pytest.fixture(params=FILE_FIRST)
def memory(request: pytest.FixtureRequest, home: Path, clock: ManualClock) -> Iterator[AgentMemory]:
    """The home is Bergen since the start; ten days later a turn casts doubt on it."""
    with open_memory(home, clock=clock, **stack_options(request)) as made:
        made.learn_fact("Alice lives in Bergen", slot="home", value="Bergen")
        made.learn_fact("The rent is 900 euros", slot="rent", value="900 euros")
        clock.advance(days=10)
        made.store_turn(MOVE)
        made.consolidate("consolidate")
        yield made


def find_home(memory: AgentMemory, **more: object) -> SlotBeliefs:
    (found,) = memory.beliefs("user", "home", **more)  # type: ignore[arg-type]
    return found


def list_values(memory: AgentMemory, **more: object) -> tuple[list[str], list[str]]:
    """The current and the doubtful homes."""
    found = find_home(memory, **more)
    return [fact.value for fact in found.current], [fact.value for fact in found.doubtful]


def test_a_doubted_belief_is_told_with_the_newer_words_and_carries_nothing(memory: AgentMemory) -> None:
    doubt = f"Bergen (in doubt since 11 Mar 2026: '{MOVE.removesuffix('.')}')"
    assert list_values(memory) == ([], ["Bergen"])
    assert f"home: {doubt}" in memory.context("Where do I live?").text
    assert MOVE.removesuffix(".") in str(find_home(memory))
    assert find_home(memory).to_dict()["doubtful"][0]["words"] == MOVE.removesuffix(".")
    (rent,) = memory.beliefs("user", "rent")
    assert (rent.current, [fact.value for fact in rent.stale]) == ((), ["900 euros"])
    assert list_values(memory, as_of=START + timedelta(days=1)) == (["Bergen"], [])
    assert list_values(memory, known_at=START + timedelta(days=1)) == (["Bergen"], [])


@pytest.mark.parametrize("value", ["Bergen", "Lund"])
def test_a_newer_word_about_the_slot_ends_the_doubt(memory: AgentMemory, clock: ManualClock, value: str) -> None:
    clock.advance(days=1)
    memory.store_turn(f"I live in {value}.")
    memory.consolidate("consolidate")
    assert list_values(memory) == ([value], [])


def test_erasing_the_turn_ends_the_doubt_and_leaves_no_word_of_it(memory: AgentMemory) -> None:
    memory.forget(find_home(memory).doubtful[0].doubt_spans[0][0], hard=True)
    assert list_values(memory) == (["Bergen"], [])
    (fact,) = find_home(memory).current
    assert (fact.doubt_spans, fact.stale_since) == ((), None)
    assert "boxes" not in memory.context("Where do I live?").text


def test_the_doubting_turn_comes_before_what_it_doubts(home: Path, clock: ManualClock) -> None:
    with open_memory(home, clock=clock) as memory:
        old = memory.store_turn("I live in Bergen.")
        memory.consolidate("consolidate")
        clock.advance(days=10)
        new = memory.store_turn(MOVE)
        memory.consolidate("consolidate")
        assert list_values(memory) == ([], ["Bergen"])
        found = [turn.id for turn in memory.remember("Where do I live now?").turns]
        assert found.index(new.id) < found.index(old.id)
