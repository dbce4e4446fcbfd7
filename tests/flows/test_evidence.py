"""What counts as use: what is shown and fits is accessed, what the answer then says is used."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentmem import AgentMemory
from agentmem.core.record import Record
from tests.flows.given import FILE_FIRST, STACKS, ManualClock, context_of, engine_of, open_memory, run, stack_options

ASKED = "Where is the deploy key?"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=FILE_FIRST)
def memory(tmp_path: Path, clock: ManualClock, request: pytest.FixtureRequest) -> Iterator[AgentMemory]:
    with open_memory(tmp_path, conversation_id="c1", clock=clock, **stack_options(request)) as memory:
        yield memory


def usage(memory: AgentMemory, record: Record) -> tuple[int, int]:
    """How often a record was accessed and used."""
    found: Any = run(engine_of(memory).log.usage([record.key], context_of(memory).scope)).get(record.key)
    return (found.access_count, found.use_count) if found else (0, 0)


@pytest.mark.parametrize("verb", ["remember", "context"])
def test_only_what_fits_counts_as_accessed(memory: AgentMemory, verb: str) -> None:
    key = memory.learn_fact("The deploy key lies in the safe", tier="short")
    noise = memory.learn_fact("The kettle whistles", tier="short")
    shown = getattr(memory, verb)(ASKED)
    assert "kettle" in str(shown)  # a small memory shows everything
    assert (usage(memory, key), usage(memory, noise)) == ((1, 0), (0, 0))


@pytest.mark.parametrize("verb", ["remember", "context"])
def test_an_access_counts_once_per_conversation_and_day(memory: AgentMemory, clock: ManualClock, verb: str) -> None:
    key = memory.learn_fact("The deploy key lies in the safe", tier="short")
    for _ in range(3):
        getattr(memory, verb)(ASKED)
    assert usage(memory, key) == (1, 0)
    getattr(memory.scoped(conversation_id="c2"), verb)(ASKED)
    assert usage(memory, key) == (2, 0)
    clock.advance(days=1)
    getattr(memory, verb)(ASKED)
    getattr(memory, verb)(ASKED, reinforce=False)
    assert usage(memory, key) == (3, 0)


def test_a_slot_that_is_asked_for_fits(memory: AgentMemory) -> None:
    home = memory.learn_fact("The user has settled in Leipzig", slot="home", value="Leipzig")
    diet = memory.learn_fact("The user eats no meat", slot="diet", value="vegetarian")
    memory.context("Is my home far from here?")
    assert (usage(memory, home), usage(memory, diet)) == ((1, 0), (0, 0))


@pytest.mark.parametrize("verb", ["remember", "context"])
@pytest.mark.parametrize(
    "answer, used",
    [
        ("It is in the safe.", True),
        ("I do not know where the deploy key is.", False),
        ("See {id}.", True),
    ],
)
def test_what_an_answer_says_is_used(memory: AgentMemory, verb: str, answer: str, used: bool) -> None:
    key = memory.learn_fact("The deploy key lies in the safe", tier="short")
    getattr(memory, verb)(ASKED)
    memory.store_turns([ASKED, {"role": "assistant", "content": answer.format(id=key.id)}])
    assert usage(memory, key) == (1, int(used))
    memory.store_turn("It is in the safe.", role="assistant")  # another answer, to nothing that was shown
    assert usage(memory, key) == (1, int(used))


@pytest.mark.parametrize(
    "answer, reply, confirmed",
    [
        ("It is in the safe.", "Yes, exactly!", True),
        ("In the safe, right?", "genau", True),
        ("It is in the safe.", "Yes, but open it first.", False),
        ("Shall I look in the safe?", "yes", False),
        ("I do not know.", "exactly", False),
    ],
)
def test_a_yes_to_what_an_answer_stated_confirms_it(
    memory: AgentMemory, answer: str, reply: str, confirmed: bool
) -> None:
    key = memory.learn_fact("The deploy key lies in the safe", tier="short")
    memory.context(ASKED)
    memory.store_turns([ASKED, {"role": "assistant", "content": answer}])
    before = usage(memory, key)
    memory.store_turn(reply)
    assert usage(memory, key) == (before[0] + confirmed, before[1] + confirmed)
    memory.store_turn("exactly")  # to nothing that was stated
    assert usage(memory, key) == (before[0] + confirmed, before[1] + confirmed)


def test_a_users_own_words_and_another_conversation_use_nothing(memory: AgentMemory) -> None:
    key = memory.learn_fact("The deploy key lies in the safe", tier="short")
    memory.context(ASKED)
    memory.store_turn("It is in the safe.", role="user")
    memory.scoped(conversation_id="c2").store_turn("It is in the safe.", role="assistant")
    assert usage(memory, key) == (1, 0)


@pytest.mark.parametrize("memory", STACKS, indirect=True)
def test_what_was_shown_is_forgotten_with_an_erasure(memory: AgentMemory) -> None:
    key = memory.learn_fact("The deploy key lies in the safe", tier="short")
    other = memory.learn_fact("The spare key hangs at the door", tier="short")
    memory.context("Where are the keys?")
    memory.forget(other.id, hard=True)
    memory.store_turn("One is in the safe.", role="assistant")
    assert usage(memory, key)[1] == 0


@pytest.mark.parametrize("memory", STACKS, indirect=True)
def test_one_use_does_not_keep_a_fact_but_two_or_a_touch_do(memory: AgentMemory, clock: ManualClock) -> None:
    once = memory.learn_fact("The deploy key lies in the safe", tier="short")
    twice = memory.learn_fact("The spare key hangs at the door", tier="short")
    touched = memory.learn_fact("The alarm code is 7711", tier="short")
    memory.observe_usage([once.id, twice.id])
    memory.curation.touch(touched.id)
    clock.advance(days=1)
    memory.observe_usage([twice.id])
    clock.advance(days=3)
    memory.consolidate("promote")
    assert memory.get_record(once.id).tier == "short"  # type: ignore[attr-defined]
    assert memory.get_record(twice.id).tier == "long"  # type: ignore[attr-defined]
    assert memory.get_record(touched.id).tier == "long"  # type: ignore[attr-defined]


def test_what_is_said_again_is_confirmed(memory: AgentMemory) -> None:
    memory.store_turn("I live in Leipzig.")
    memory.consolidate("consolidate")
    (home,) = memory.beliefs("user", "home")[0].current
    assert usage(memory, home) == (0, 0)
    memory.scoped(conversation_id="c2").store_turn("I live in Leipzig.")
    memory.consolidate("consolidate")
    assert usage(memory, home) == (1, 1)


def test_a_line_that_is_always_told_counts_only_when_it_is_used(memory: AgentMemory) -> None:
    memory.store_turns([f"The kettle whistles, day {number}." for number in range(30)])
    diet = memory.learn_fact("The user eats no meat", slot="diet", value="vegetarian")
    assert "diet: vegetarian" in memory.context("What about the kettle?")
    assert usage(memory, diet) == (0, 0)
    memory.store_turn("It whistles. By the way, there is a vegetarian soup on it.", role="assistant")
    assert usage(memory, diet) == (0, 1)
