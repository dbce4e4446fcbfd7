"""Reading a query: names, what it asks for, and the words that are left."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentmem.text.query_parser import parse_query
from agentmem.text.temporal import DateHint

NAMES = ["Caroline", "Mary", "Mary Ann", "Will", "James", "\u7530\u4e2d"]


@pytest.mark.parametrize(
    "text,bare,named",
    [
        ("When did Caroline's dog run?", "When did dog run?", ("Caroline",)),
        ("Did Mary Ann see Mary\u2019s hat?", "Did see hat?", ("Mary Ann", "Mary")),
        ("What sparked James' passion?", "What sparked passion?", ("James",)),
        ("Caroliners and Jameson", "Caroliners and Jameson", ()),
        ("what will caroline do", "what will do", ("Caroline",)),
        ("What will caroline do", "What will caroline do", ()),
        ("\u7530\u4e2d\u3055\u3093\u306f\uff1f", "\u3055\u3093\u306f\uff1f", ("\u7530\u4e2d",)),
        ("Caroline?", "Caroline?", ("Caroline",)),
        ("", "", ()),
    ],
)
def test_names_are_taken_out(text: str, bare: str, named: tuple[str, ...]) -> None:
    read = parse_query(text, NAMES)
    assert (read.text, read.text_without_names, read.named_speakers) == (text, bare, named)


def test_names_with_signs_are_plain_text_and_roles_are_no_names() -> None:
    read = parse_query("What did (x.y)+ tell the user?", ["(x.y)+", "user", "", " "])
    assert read.named_speakers == ("(x.y)+",)
    assert read.text_without_names == "What did tell the user?"


def test_terms_are_those_of_the_bare_text_or_of_the_text() -> None:
    assert parse_query("What did Caroline paint?", NAMES).terms == ["paint"]
    assert parse_query("Who is Caroline?", NAMES).terms == ["carolin"]
    assert parse_query("who is it").terms == []


@pytest.mark.parametrize(
    "text",
    [
        "When did we meet?",
        "how long was it",
        "In which month did he go?",
        "What date is it?",
        "how many weeks passed",
        "What time does it start?",
        "Since when does she paint?",
    ],
)
def test_asks_when(text: str) -> None:
    assert parse_query(text).asks_when


@pytest.mark.parametrize("text", ["Who called when it rained?", "How many games?", "What did he say?", "whenever"])
def test_does_not_ask_when(text: str) -> None:
    assert not parse_query(text).asks_when


@pytest.mark.parametrize(
    "text",
    [
        "Which games did John start?",
        "What are the names of my pets?",
        "what kinds of food do I like",
        "How many children did she adopt?",
        "List my hobbies",
        "Name all the places we went",
        "In what ways did he help?",
        "What outdoor activities has Sam done?",
        "Who are the members?",
        "Can you put these events in order?",
        "What people have I met?",
        "What do we have in common?",
        "Give me a summary of my plans",
        "Where has she travelled?",
    ],
)
def test_asks_for_a_list(text: str) -> None:
    assert parse_query(text).asks_list


@pytest.mark.parametrize(
    "text",
    [
        "What is John's favourite game?",
        "When did James adopt the puppy?",
        "What was James playing?",
        "What does this mean?",
        "How many days ago was it?",
        "Which city has she moved to?",
        "What class is Sam taking?",
        "Who called?",
    ],
)
def test_does_not_ask_for_a_list(text: str) -> None:
    assert not parse_query(text).asks_list


def test_dates_are_read_without_names() -> None:
    assert parse_query("What did June buy in 2023?", ["June"]).date_hint == DateHint(
        frozenset({2023}), frozenset(), frozenset()
    )
    assert parse_query("What did we buy?").date_hint is None


@given(st.text(st.characters(), max_size=200), st.lists(st.text(st.characters(), max_size=5), max_size=5))
@settings(deadline=None)
def test_any_query_is_read(text: str, names: list[str]) -> None:
    read = parse_query(text, names)
    assert set(read.named_speakers) <= set(names)
    assert len(read.text_without_names) <= len(text)
    assert bool(read.text_without_names) == bool(text)


@given(st.lists(st.sampled_from(["Ann", "Ann Lee", "Lee", "saw", "and", "'s", "x"]), max_size=12))
@settings(deadline=None)
def test_no_name_is_left_beside_other_words(words: list[str]) -> None:
    read = parse_query(" ".join([*words, "today"]), {"Ann", "Ann Lee", "Lee"})
    assert not {"Ann", "Lee"} & set(read.text_without_names.split())
    assert bool(read.named_speakers) == bool({"Ann", "Ann Lee", "Lee"} & set(words))


@pytest.mark.parametrize("piece", ["what ", "Ann ", "all the ", "5/8/2023 ", "may ", "last ", "a", " ", "which is "])
def test_ten_thousand_characters_of_one_kind(piece: str) -> None:
    text = piece * (10_000 // len(piece))
    assert parse_query(text, ["Ann", "Bob"]).text == text
