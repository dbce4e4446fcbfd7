"""Packing: never over the budget, best first, shown in time order."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentmem.core.record import Record
from agentmem.core.records import Entity, Fact, Goal, Turn
from agentmem.errors import InvalidRecord
from agentmem.recall.context import ContextSources, has_content, pack
from agentmem.recall.context_builder import CUT_MARK, DATA_NOTE
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


def inside(text: str) -> list[str]:
    """The lines between the markers, without the note."""
    lines = text.splitlines()
    assert lines[0].startswith("<memory")
    assert (lines[1], lines[-1]) == (DATA_NOTE, "</memory>")
    return lines[2:-1]


def test_shows_knowledge_first_and_turns_in_time_order() -> None:
    order = [turn(4, "second"), turn(0, "later day", "c2", days=3), fact(1, "Ann likes tea"), turn(3, "first")]
    packed = pack(order, max_tokens=150, moment=START)
    assert packed.text.splitlines()[0] == '<memory as_of="2023-05-07">'
    assert inside(packed.text) == [
        "## Known about this",
        "- Ann likes tea (from 7 May 2023)",
        "## Said about this",
        "[7 May 2023]",
        "Ann: first",
        "Ann: second",
        "[10 May 2023]",
        "Ann: later day",
    ]


def test_tells_ids_when_asked_to() -> None:
    text = pack([turn(4, "second"), fact(1, "Ann likes tea")], with_ids=True).text
    assert inside(text) == [
        "## Known about this",
        "- Ann likes tea (from 7 May 2023) [f1]",
        "## Said about this",
        "[7 May 2023, conversation c1]",
        "4 Ann: second [c1-4]",
    ]


def test_gives_the_same_as_parts() -> None:
    packed = pack([turn(4, "second"), turn(0, "later day", "c2", days=3), fact(1, "Ann likes tea")])
    assert [(part.section, part.title, part.lines) for part in packed.parts] == [
        ("known", "Known about this", ("- Ann likes tea (from 7 May 2023)",)),
        ("turns", "[7 May 2023]", ("Ann: second",)),
        ("turns", "[10 May 2023]", ("Ann: later day",)),
    ]
    assert [part.records for part in packed.parts] == [(("Fact", "f1"),), (("Turn", "c1-4"),), (("Turn", "c2-0"),)]
    assert packed.to_dict()["parts"][0]["records"] == [{"kind": "Fact", "id": "f1"}]


def test_facts_keep_the_order_of_their_ranking() -> None:
    text = pack([fact(2, "best"), fact(1, "second best")]).text
    assert text.index("best (") < text.index("second best")


def test_says_how_a_record_stands() -> None:
    shaky = Fact(
        id="f", claim="Ann lives in Oslo", confidence=0.5, temporal_context="past", valid_to=START, stale_since=START
    )
    goal = Goal(id="g", description="learn Dutch", deadline=START)
    blocked = Goal(id="h", description="sail", goal_status="blocked")
    entity = Entity(id="e", name="Oslo", type="place", aliases=("Kristiania",), description="a town")
    text = pack([shaky, goal, blocked, entity], profile={"expertise_areas": ("law",), "preferences": {}}).text
    assert inside(text) == [
        "## The user",
        "- expertise areas: law",
        "## Goals",
        "- learn Dutch (by 7 May 2023)",
        "- sail (blocked)",
        "## Known about this",
        "- Ann lives in Oslo (until 7 May 2023; past; confidence 0.50; may be out of date)",
        "- Oslo (place; also Kristiania): a town",
    ]


def test_an_entity_without_a_description_takes_no_room() -> None:
    assert pack([Entity(id="e", name="Tokyo", type="place")]).text == ""


def test_a_short_reply_stands_with_its_question() -> None:
    asked, reply = turn(1, "Is the Golf sold?", speaker="Bo"), turn(2, "Yes, yesterday.")
    packed = pack([reply], questions={reply.key: asked})
    assert inside(packed.text)[2:] == ["Bo: Is the Golf sold?", "Ann: Yes, yesterday. [yesterday = 6 May 2023]"]
    assert set(packed.records) == {asked.key, reply.key}
    long = turn(2, "Yes, we sold the Golf to a neighbour in March.")
    assert pack([long], questions={long.key: asked}).records == (long.key,)


@pytest.mark.parametrize(
    "content", ["Thanks!", "ok great", "<3", "Yes.", "😀", "42", "Oh wow, lovely!", "Genau, danke."]
)
def test_a_turn_without_content_is_never_shown_alone(content: str) -> None:
    assert not has_content(content)
    order = [turn(2, content), turn(3, "We sold the Golf.")]
    assert pack(order).records == (("Turn", "c1-3"),)
    assert pack(order[:1], sources=ContextSources(recent_turns=order[:1])).text == ""
    asked = turn(1, "Is the Golf sold?")
    assert set(pack(order[:1], questions={order[0].key: asked}).records) == {asked.key, order[0].key}


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
        said = record.claim if isinstance(record, Fact) else record.search_text()
        assert " ".join(said.split()) in packed.text


def test_what_ranks_first_is_packed_first() -> None:
    order = [turn(index, "word " * 10) for index in (5, 3, 1, 2, 4)]
    assert {name for _, name in pack(order, max_tokens=72).records} == {"c1-5", "c1-3"}


def test_a_turn_is_cut_only_where_it_alone_exceeds_the_room() -> None:
    order = [turn(0, "word " * 10), turn(1, "word " * 100)]
    packed = pack(order, max_tokens=160)
    assert packed.records == (("Turn", "c1-0"),)
    assert CUT_MARK not in packed.text


def test_a_record_too_large_is_cut_with_a_mark_and_not_counted() -> None:
    packed = pack([turn(0, "word " * 500)], max_tokens=80)
    assert packed.text.endswith(f"{CUT_MARK}\n</memory>")
    assert packed.records == ()
    assert packed.left_out == 1
    assert packed.tokens <= 80


def test_one_large_record_does_not_crowd_out_the_others() -> None:
    packed = pack([turn(0, "word " * 500), turn(1, "small")], max_tokens=140)
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
