"""Packing: never over the budget, best first, shown in time order."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentmem.core.record import Record
from agentmem.core.records import Entity, Fact, Goal, Turn
from agentmem.errors import InvalidRecord
from agentmem.recall.context import CUT_MARK, pack
from agentmem.text.tokenizer import estimate_tokens

START = datetime(2023, 5, 7, 9, tzinfo=UTC)


def turn(index: int, content: str, conversation: str = "c1", days: int = 0, speaker: str | None = "Ann") -> Turn:
    return Turn(
        id=f"{conversation}-{index}",
        conversation_id=conversation,
        index=index,
        content=content,
        speaker=speaker,
        timestamp=START + timedelta(days=days),
    )


def fact(number: int, claim: str) -> Fact:
    return Fact(id=f"f{number}", claim=claim, valid_from=START)


def test_shows_knowledge_first_and_turns_in_time_order() -> None:
    order = [turn(4, "second"), turn(0, "later day", "c2", days=3), fact(1, "Ann likes tea"), turn(3, "first")]
    text = pack(order, max_tokens=100).text
    assert text == (
        "# Facts\n- Ann likes tea (from 7 May 2023) [f1]\n"
        "# 7 May 2023, conversation c1\n3 Ann: first\n4 Ann: second\n"
        "# 10 May 2023, conversation c2\n0 Ann: later day"
    )


def test_facts_keep_the_order_of_their_ranking() -> None:
    text = pack([fact(2, "best"), fact(1, "second best")]).text
    assert text.index("best (") < text.index("second best")


def test_says_how_a_record_stands() -> None:
    shaky = Fact(
        id="f", claim="Ann lives in Oslo", confidence=0.5, temporal_context="past", valid_to=START, stale_since=START
    )
    goal = Goal(id="g", description="learn Dutch", deadline=START)
    entity = Entity(id="e", name="Oslo", type="place", aliases=("Kristiania",), description="a town")
    lines = pack([shaky, goal, entity], profile={"expertise_areas": ("law",), "preferences": {}}).text.splitlines()
    assert lines == [
        "# About the user",
        "- expertise areas: law",
        "# Goals",
        "- learn Dutch (active; by 7 May 2023) [g]",
        "# Facts",
        "- Ann lives in Oslo (until 7 May 2023; past; confidence 0.50; may be out of date) [f]",
        "# People, places and things",
        "- Oslo (place; also Kristiania): a town [e]",
    ]


@given(
    st.lists(st.tuples(st.integers(1, 300), st.integers(0, 3), st.booleans()), max_size=30),
    st.integers(1, 200),
    st.sampled_from([None, len, lambda text: len(text.split()), lambda text: len(text) ** 2 // 50]),
)
def test_never_exceeds_any_budget(shapes: list[tuple[int, int, bool]], budget: int, counter: object) -> None:
    order: list[Record] = [
        fact(number, "x" * size) if known else turn(number, "x " * size, f"c{group}", group)
        for number, (size, group, known) in enumerate(shapes)
    ]
    packed = pack(order, max_tokens=budget, counter=counter, knowledge_share=0.3)  # type: ignore[arg-type]
    assert packed.tokens == (counter or estimate_tokens)(packed.text)  # type: ignore[operator]
    assert packed.tokens <= budget
    assert packed.left_out == len(order) - len(packed.records)
    whole = {record.key: record for record in order}
    for key in packed.records:
        record = whole[key]
        assert (record.claim if isinstance(record, Fact) else record.search_text()) in packed.text


def test_what_ranks_first_is_packed_first() -> None:
    order = [turn(index, "word " * 10) for index in (5, 3, 1, 2, 4)]
    assert {name for _, name in pack(order, max_tokens=45).records} == {"c1-5", "c1-3"}


def test_a_record_too_large_is_cut_with_a_mark_and_not_counted() -> None:
    packed = pack([turn(0, "word " * 500)], max_tokens=50)
    assert packed.text.endswith(CUT_MARK)
    assert packed.records == ()
    assert packed.left_out == 1
    assert packed.tokens <= 50


def test_one_large_record_does_not_crowd_out_the_others() -> None:
    packed = pack([turn(0, "word " * 500), turn(1, "small")], max_tokens=100)
    assert packed.records == (("Turn", "c1-1"),)
    assert CUT_MARK in packed.text


def test_knowledge_takes_at_most_its_share_while_there_are_turns() -> None:
    order: list[Record] = [fact(number, f"claim {number} " + "x" * 60) for number in range(20)]
    order += [turn(index, "word " * 10) for index in range(20)]
    kinds = [kind for kind, _ in pack(order, max_tokens=300, knowledge_share=0.3).records]
    assert 1 <= kinds.count("Fact") <= 6
    assert kinds.count("Turn") >= 8


def test_refuses_a_budget_below_one_and_gives_nothing_for_nothing() -> None:
    with pytest.raises(InvalidRecord, match="max_tokens"):
        pack([], max_tokens=0)
    assert pack([], max_tokens=1).text == ""
