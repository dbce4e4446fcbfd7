"""A context joins all tiers of memory, says nothing twice, and is never over its budget, whoever counts."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentmem import AgentMemory
from agentmem.core.record import Record
from agentmem.core.records import Fact, Synopsis, SynopsisSection, SynopsisSentence, Turn
from agentmem.extraction.recalled_text import recalled_lines
from agentmem.memory.procedural.memory import ProceduralMemory
from agentmem.recall.context import DEFAULT_CONTEXT_TOKENS, Context, ContextSources, pack
from agentmem.recall.options import ContextOptions
from agentmem.text.tokenizer import estimate_tokens
from tests.flows.given import START, ManualClock, context_of, open_memory, read_tables, run
from tests.scale import scaled

COUNTERS = [estimate_tokens, lambda text: len(text.split()), len]
SECTIONS = (
    "## How to answer",
    "## The user",
    "## People",
    "## Planned",
    "## Not known any more",
    "## Goals",
    "## Known about this",
    "## Outputs of tools",
    "## Said about this",
    "[1 Mar 2026]",
)

QUERY = "which tent for the trip to Norway?"


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentMemory]:
    """Everything that a context may hold, in the conversation `trip`, and a long history beside it."""
    home = tmp_path_factory.mktemp("tiers") / "home"
    with open_memory(home, conversation_id="trip", clock=ManualClock()) as memory:
        old = [
            {
                "content": f"Remark {n}: the {'garden ' * (n % 9 + 1)}was quiet.",
                "conversation_id": f"old-{n % 7}",
                "timestamp": START - timedelta(days=n % 7 + 1),
            }
            for n in range(400)
        ]
        memory.store_turns([*old, "Our tent for Norway has a broken pole.", {"content": "Noted.", "role": "assistant"}])
        memory.store_turns([f"Small talk number {n}." for n in range(12)])
        memory.learn_fact("The user travels to Norway in June", valid_from=START)
        memory.learn_fact("The user is called Mia Berg", slot="name", value="Mia Berg")
        memory.learn_fact("Ann is the user's sister", slot="siblings", value="Ann")
        memory.learn_fact(
            "The user flies to Oslo", slot="flight:Oslo", value="9 June, SK 1472", temporal_context="future"
        )
        memory.learn_fact("The user lives in Bern", slot="home", value="Bern", valid_to=START - timedelta(days=9))
        memory.learn_fact("The user's phone number is 0151 2345", slot="phone", value="0151 2345")
        for number in range(40):
            memory.learn_fact(f"The user has a postcard from town {number}", salience=0.4)
        memory.add_goal({"description": "buy a stove", "deadline": START + timedelta(days=9)})
        procedural = ProceduralMemory(context_of(memory))
        run(procedural.accept_procedure(run(procedural.stage_candidate("Answer in metric units")).id))
        memory.working.remember_output("The shop has a tent for two\nfor 99 euros.", source="shop search")
        memory.working.remember_output('{"log": "' + "line of a tent log; " * 500 + '"}', source="log")
        yield memory


def test_joins_all_tiers(memory: AgentMemory) -> None:
    context = memory.context(QUERY)
    lines = context.text.splitlines()
    assert [line for line in lines if line in SECTIONS] == list(SECTIONS)
    for line in (
        "- Answer in metric units",
        "- buy a stove (by 10 Mar 2026)",
        "- name: Mia Berg",
        "- home: none known since 20 Feb 2026 (before: Bern)",
        "- Ann (sibling)",
        "- flight to Oslo, 9 June, SK 1472",
        "- The user travels to Norway in June (from 1 Mar 2026)",
        "- shop search, 1 Mar 2026: The shop has a tent for two for 99 euros.",
    ):
        assert sum(each.startswith(line) for each in lines) == 1, line
    assert context.tokens <= DEFAULT_CONTEXT_TOKENS == 4_000
    assert "0151" not in context.text  # private, and not asked for


@pytest.mark.parametrize("query", ["What is my phone number?", "How can you reach me?", "0151 2345?"])
def test_tells_what_is_private_when_it_is_asked_for(memory: AgentMemory, query: str) -> None:
    assert "- phone: 0151 2345" in memory.context(query).text.splitlines()


def test_holds_the_last_ten_turns_of_the_conversation(memory: AgentMemory) -> None:
    context = memory.context("postcards", max_tokens=600)
    recent = [turn.id for turn in memory.working.turns(10)]
    assert set(recent) <= {name for _, name in context.records}
    assert ContextOptions().recent == len(recent) == 10
    assert ContextOptions().outputs == 5
    elsewhere = memory.scoped(conversation_id="old-1").context("postcards", max_tokens=600)
    assert not set(recent) & {name for _, name in elsewhere.records}


def test_says_nothing_twice(memory: AgentMemory) -> None:
    for query in (QUERY, "who is Mia Berg?", "postcards", "what to buy?"):
        context = memory.context(query)
        assert len(set(context.records)) == len(context.records)
        claims = [line.split(" (")[0].split(" [")[0] for line in context.text.splitlines() if line.startswith("- ")]
        assert len(set(claims)) == len(claims)


def test_says_what_was_left_out_and_what_was_saved(memory: AgentMemory) -> None:
    small, large = memory.context("garden", max_tokens=300), memory.context("garden", max_tokens=100_000)
    held = [kind for kind, _ in small.records]
    assert small.omitted["Turn"] > 0
    assert small.left_out == sum(small.omitted.values())
    assert "Procedure" not in small.omitted
    assert held.count("Turn") > 0
    assert large.omitted == {"Turn": 1, "Fact": 1}  # "Noted.", and what is private
    said = [line for part in large.parts if part.section == "turns" for line in part.lines]
    turns = sum(len(line.partition(": ")[2]) for line in said) + len("Noted.")
    assert large.full_tokens == estimate_tokens("x" * turns)
    assert small.full_tokens == pytest.approx(large.full_tokens, rel=0.2)  # by the words of fewer turns
    assert small.savings == pytest.approx(1 - small.tokens / small.full_tokens)
    assert Context("", 0, ()).savings == 0.0
    counted = memory.context("garden", max_tokens=300, counter=lambda text: len(text.split()))
    assert counted.full_tokens == pytest.approx(turns / len(counted.text) * counted.tokens, rel=0.2)


def test_a_context_is_known_again_and_changes_nothing(memory: AgentMemory) -> None:
    before = read_tables(memory)
    text = memory.context(QUERY).text
    assert memory.context(QUERY).text == text
    assert read_tables(memory) == before
    assert [text[start:end] for start, end in recalled_lines(text)] == text.splitlines()


def test_others_see_none_of_it(memory: AgentMemory) -> None:
    assert memory.scoped(user_id="bob", conversation_id="trip").context(QUERY).text == ""
    aside = memory.scoped(agent_id="cook", channel="_self_cook")
    aside.learn_fact("The user hates cilantro")
    aside.working.remember_output("cilantro is out of stock", source="shop")
    assert "cilantro" not in memory.context("cilantro?").text
    assert aside.context("cilantro?").text.count("cilantro") == 2


@settings(max_examples=scaled(25, least=8))
@given(
    budget=st.integers(1, 5_000),
    counter=st.sampled_from(COUNTERS),
    query=st.sampled_from([QUERY, "postcards", "garden"]),
)
def test_is_never_over_its_budget(memory: AgentMemory, budget: int, counter: Any, query: str) -> None:
    context = memory.context(query, max_tokens=budget, counter=counter)
    assert counter(context.text) == context.tokens <= budget


sizes = st.lists(st.integers(1, 400), max_size=12)


@settings(max_examples=scaled(25, least=8))
@given(sizes=sizes, said=sizes, budget=st.integers(1, 300), counter=st.sampled_from([None, *COUNTERS]))
def test_no_shape_of_the_tiers_goes_over(sizes: list[int], said: list[int], budget: int, counter: Any) -> None:
    turns = [Turn(id=f"t{n}", conversation_id="c", index=n, content="w " * size) for n, size in enumerate(sizes)]
    facts: list[Record] = [Fact(id=f"f{n}", claim=f"{n} " + "x" * size) for n, size in enumerate(said)]
    synopsis = Synopsis(
        identity=SynopsisSection(
            sentences=tuple(SynopsisSentence(text=fact.search_text(), grounds=(fact.key,)) for fact in facts[::2])
        ),
        context=SynopsisSection(sentences=tuple(SynopsisSentence(text="y" * size) for size in said)),
    )
    beside = ContextSources(recent_turns=turns[-3:], synopsis=synopsis)
    packed = pack([*facts, *turns], max_tokens=budget, counter=counter, knowledge_share=0.3, sources=beside)
    assert packed.tokens == (counter or estimate_tokens)(packed.text) <= budget


def test_a_sentence_goes_where_what_it_rests_on_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = [Fact(id="a", claim="Mia sails"), Fact(id="b", claim="Mia sings")]
    both = SynopsisSentence(text="Mia sails and sings", grounds=(facts[0].key, facts[1].key))
    beside = ContextSources(synopsis=Synopsis(identity=SynopsisSection(sentences=(both,))))
    monkeypatch.setattr("agentmem.recall.context.SYNOPSIS_SHARE", 1.0)
    assert "and sings" in pack(facts[:1], sources=beside).text
    assert "and sings" not in pack(facts, sources=beside).text
