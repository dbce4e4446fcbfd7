"""The synopsis: who the user is and what goes on, of facts that hold, in its channels, kept while they hold."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from itertools import count
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentmem import AgentMemory, InvalidRecord
from agentmem.extraction.recalled_text import recalled_lines
from agentmem.memory.synopsis import synopsis_id
from agentmem.settings.sections import SynopsisOptions
from agentmem.text.tokenizer import estimate_tokens
from tests.flows.given import START, ManualClock, context_of, engine_of, open_memory, read_head, run
from tests.scale import scaled

USERS = count(1)
COUNTERS = [estimate_tokens, len, lambda text: len(text.split())]


@pytest.fixture(scope="module")
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, clock: ManualClock) -> Iterator[AgentMemory]:
    with open_memory(tmp_path_factory.mktemp("synopsis") / "home", clock=clock) as memory:
        yield memory


@pytest.fixture
def memory(shared: AgentMemory, clock: ManualClock) -> AgentMemory:
    """A user of its own."""
    clock.time = max(clock.time, START)
    return shared.scoped(user_id=f"user-{next(USERS)}", conversation_id="first")


def write(memory: AgentMemory) -> Any:
    return memory.consolidate("synopsis")[0]


def kept(memory: AgentMemory) -> dict[str, Any]:
    return run(engine_of(memory).session.items(context_of(memory).scope, ""))


def cached(memory: AgentMemory) -> set[str]:
    return {name for name in kept(memory) if name.startswith(("identity", "context"))}


def test_the_defaults_are_those_of_the_documents() -> None:
    options = SynopsisOptions()
    assert (options.identity_ttl, options.context_ttl, options.refresh_on_access) == (604_800, 3_600, True)
    assert options.max_tokens == 1_000
    assert timedelta(seconds=options.identity_ttl) == timedelta(days=7)


def test_without_knowledge_it_is_empty(memory: AgentMemory) -> None:
    assert str(memory.synopsis()) == ""
    assert write(memory).counts == {}


def test_says_who_the_user_is_and_what_goes_on(memory: AgentMemory) -> None:
    memory.store_turn("We packed the tent and the stove for Norway.", timestamp=START)
    memory.learn_fact("The user prefers tea", memory_type="preference")
    memory.learn_fact("Ann runs a clinic", salience=0.9)
    memory.learn_fact("The user sails near Oslo", salience=0.6)
    memory.learn_fact("The user is called Mia Berg", salience=0.9)
    memory.learn_fact("The user has a cold", memory_type="context", tier="short")
    memory.add_goal({"description": "learn Norwegian", "deadline": START + timedelta(days=30)})
    memory.add_goal({"description": "win the lottery", "goal_status": "abandoned"})
    memory.update_profile(preferences={"tone": "short"})
    assert str(memory.synopsis()).splitlines() == [
        "# About the user",
        "- preferences: tone short",
        "- The user is called Mia Berg",
        "- Ann runs a clinic",
        "- The user sails near Oslo",
        "- The user prefers tea",
        "# What the user is up to",
        "- Goal: learn Norwegian (by 31 March 2026)",
        "- The user has a cold",
    ]


def test_what_does_not_hold_is_not_said(memory: AgentMemory, clock: ManualClock) -> None:
    wrong = memory.learn_fact("The user sails near Rome")
    memory.semantic.supersede_fact(wrong.id, "The user sails near Oslo")
    premise = memory.learn_fact("The user works at Acme")
    memory.learn_fact("The user has an Acme badge", depends_on=[premise.id])
    memory.learn_fact("The user is in Bergen", valid_to=clock.time + timedelta(hours=1))
    memory.learn_fact("The user may like jazz", confidence=0.5)
    memory.learn_fact("The user played rugby", temporal_context="past")
    said = str(memory.synopsis())
    assert "Bergen (until" in said
    assert "Oslo" in said
    memory.forget(premise.id)
    clock.advance(hours=2)
    assert str(memory.synopsis()).splitlines() == ["# About the user", "- The user sails near Oslo"]


def test_each_scope_is_told_what_it_may_read(memory: AgentMemory) -> None:
    memory.learn_fact("The user sails near Oslo")
    cook = memory.scoped(agent_id="cook", channel="_self_cook")
    cook.learn_fact("The user hates cilantro")
    memory.scoped(channel="work").learn_fact("The user ships on Friday")
    for _ in range(2):  # as it is put together, and as it is stored
        told = {
            "all": str(memory.synopsis()),
            "work": str(memory.scoped(channel="work").synopsis()),
            "cook": str(cook.synopsis()),
            "other": str(memory.scoped(agent_id="nurse").synopsis()),
            "stranger": str(memory.scoped(user_id="stranger").synopsis()),
        }
        assert {name for name, text in told.items() if "Oslo" in text} == {"all", "work", "cook", "other"}
        assert {name for name, text in told.items() if "cilantro" in text} == {"cook"}
        assert {name for name, text in told.items() if "Friday" in text} == {"work"}
        assert write(memory).counts in ({"synopsis": 3}, {})
    shown = memory.remember("what is known?", reinforce=False)
    assert "cilantro" not in str(shown)
    assert "cilantro" in str(cook.remember("what is known?", reinforce=False))


def test_is_kept_under_the_documents_keys_while_it_holds(memory: AgentMemory) -> None:
    fact = memory.learn_fact("The user sails near Oslo")
    first = memory.synopsis()
    assert cached(memory) == {"identity", "context"}
    value = kept(memory)["identity"]
    value["tier"]["sentences"][0]["text"] = "as it is cached"
    run(engine_of(memory).session.set(context_of(memory).scope, "identity", value, ttl=60))
    assert memory.synopsis().identity.text == "- as it is cached"
    memory.semantic.supersede_fact(fact.id, "The user sails near Rome")
    assert memory.synopsis().identity.text == "- The user sails near Rome"
    assert first.identity.text == "- The user sails near Oslo"
    run(engine_of(memory).session.set(context_of(memory).scope, "identity", {"tier": 7, "at": "soon"}, ttl=60))
    assert memory.synopsis().identity.text == "- The user sails near Rome"


def test_times_to_live_begin_anew_with_each_access(memory: AgentMemory, clock: ManualClock) -> None:
    memory.learn_fact("The user sails near Oslo")
    memory.synopsis()
    for _ in range(3):
        clock.advance(minutes=50)
        memory.synopsis()
        assert cached(memory) == {"identity", "context"}
    clock.advance(minutes=61)
    assert cached(memory) == {"identity"}
    clock.advance(days=6.8)
    assert cached(memory) == {"identity"}
    clock.advance(days=0.2)
    assert cached(memory) == set()


def test_is_the_profile_without_a_model(memory: AgentMemory) -> None:
    memory.store_turn("The piano needs tuning before the concert.")
    memory.learn_fact("The user sails near Graz", slot="home", value="Graz", valid_from=START - timedelta(days=30))
    memory.learn_fact("The user sails near Oslo", slot="home", value="Oslo", valid_from=START)
    memory.learn_fact("The user's bank is Wise", slot="bank", value="Wise")
    memory.learn_fact("Nora is the user's sister", slot="siblings", value="Nora")
    memory.learn_fact("Nora lives in Bern", subject="Nora", slot="home", value="Bern")
    lines = str(memory.synopsis()).splitlines()
    assert "- home: Oslo (since 1 Mar 2026; before: Graz)" in lines
    assert "- Nora (sibling): home Bern" in lines
    assert not any("Wise" in line or "piano" in line for line in lines)


def test_the_job_writes_once_and_when_something_changed(memory: AgentMemory) -> None:
    memory.learn_fact("The user sails near Oslo")
    before = read_head(memory)
    assert memory.consolidate("synopsis", dry_run=True)[0].counts == {"synopsis": 1}
    assert read_head(memory) == before
    first = write(memory)
    assert (first.counts, first.pending, first.calls) == ({"synopsis": 1}, 0, 0)
    at = read_head(memory)
    assert (write(memory).counts, read_head(memory)) == ({}, at)
    memory.learn_fact("The user plays the oboe")
    second = write(memory)
    assert second.counts == {"synopsis": 1}
    assert "oboe" in str(memory.remember("hello", reinforce=False))
    assert memory.remember("hello", reinforce=False).user_context["synopsis"] == memory.synopsis().model_copy(
        update={"id": ""}
    )
    memory.undo(second.operation_ids[0])
    (record,) = run(engine_of(memory).log.read_records("Synopsis", [_id(memory)], context_of(memory).scope))
    assert [sentence.text for sentence in record.identity.sentences] == ["The user sails near Oslo"]
    assert write(memory).counts == {"synopsis": 1}


def _id(memory: AgentMemory) -> str:
    return synopsis_id(context_of(memory).scope.user_id, "_global")


def profiles(memory: AgentMemory) -> list[tuple[Any, ...]]:
    """The rows of the user in the documents' table."""
    asked = "SELECT preferences, synopsis FROM user_profiles WHERE user_id = ?"
    user = context_of(memory).scope.user_id
    return run(engine_of(memory).log.database.read(lambda db: db.execute(asked, (user,)).fetchall()))


def test_stands_in_the_table_of_profiles(memory: AgentMemory) -> None:
    memory.learn_fact("The user sails near Oslo")
    assert profiles(memory) == []
    write(memory)
    ((preferences, synopsis),) = profiles(memory)
    assert preferences == "{}"
    assert "The user sails near Oslo" in synopsis
    memory.update_profile(preferences={"tone": "short"})
    ((preferences, synopsis),) = profiles(memory)
    assert "short" in preferences
    assert "Oslo" in synopsis


def test_bundles_tell_it_while_it_holds_and_replay_it(memory: AgentMemory, clock: ManualClock) -> None:
    fact = memory.learn_fact("The user sails near Oslo")
    early = clock.advance(minutes=1)
    clock.advance(minutes=1)
    write(memory)
    bundle = memory.remember("weather", reinforce=False)
    assert "Oslo" in bundle.user_context["synopsis"].text
    assert "synopsis" not in memory.remember("weather", known_at=early, reinforce=False).user_context
    memory.forget(fact.id)
    assert "synopsis" not in memory.remember("weather", reinforce=False).user_context
    assert memory.audit.replay(bundle.receipt.id).user_context == bundle.user_context


def test_goes_with_what_is_erased(memory: AgentMemory) -> None:
    fact = memory.learn_fact("The user collects zithers")
    memory.learn_fact("The user sails near Oslo")
    write(memory)
    memory.forget(fact.id)
    write(memory)  # the stored one says no word of it any more, but its history does
    memory.synopsis()
    receipt = memory.forget(fact.id, hard=True)
    assert receipt.scan is not None
    assert receipt.scan.leftovers == {}
    assert receipt.derived == ()
    assert run(engine_of(memory).log.versions(("Synopsis", _id(memory)), context_of(memory).scope)) == []
    assert cached(memory) == set()
    assert str(memory.synopsis()) == "# About the user\n- The user sails near Oslo"
    assert write(memory).counts == {"synopsis": 1}
    assert memory.erase().scan.leftovers == {}
    assert str(memory.synopsis()) == ""
    assert profiles(memory) == []


def test_is_no_news_to_extraction(memory: AgentMemory) -> None:
    memory.learn_fact("The user sails near Oslo")
    memory.add_goal("learn Norwegian")
    pasted = str(memory.synopsis())
    assert [pasted[start:end] for start, end in recalled_lines(pasted)] == pasted.splitlines()
    memory.store_turn(pasted)
    memory.consolidate("consolidate")
    assert [fact.claim for fact in memory.semantic.facts()] == ["The user sails near Oslo"]


@pytest.fixture(scope="module")
def known(shared: AgentMemory) -> AgentMemory:
    """A user of whom much is known, in two channels."""
    memory = shared.scoped(user_id="much", conversation_id="first")
    for number in range(60):
        seen = memory if number % 3 else memory.scoped(channel="work")
        seen.learn_fact(f"The user has box {number} of {'shells ' * (number % 7 + 1)}")
        if number < 8:
            memory.add_goal(f"sort box {number} before the summer")
    return memory.scoped(channel="work")


@settings(max_examples=scaled(25, least=8))
@given(budget=st.integers(1, 1500), counter=st.sampled_from(COUNTERS))
def test_is_never_over_its_budget(known: AgentMemory, budget: int, counter: Any) -> None:
    said = known.synopsis(max_tokens=budget, counter=counter)
    assert counter(str(said)) <= budget
    assert len(set(str(said).splitlines())) == len(str(said).splitlines())


def test_has_at_most_a_thousand_tokens(known: AgentMemory) -> None:
    said = known.synopsis()
    assert 500 < estimate_tokens(str(said)) <= 1_000
    first, second = (str(sentence.text) for sentence in said.identity.sentences[:2])
    assert {int(text.split()[4]) % 3 == 0 for text in (first, second)} == {True, False}  # of each channel in turn


def test_refuses_a_budget_below_one(memory: AgentMemory) -> None:
    with pytest.raises(InvalidRecord, match="max_tokens") as caught:
        memory.synopsis(max_tokens=0)
    assert caught.value.field == "max_tokens"
