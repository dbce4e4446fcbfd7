"""When two claims say the same: those of equal content, in which polarity, numbers, names and times agree."""

from __future__ import annotations

import pytest

from agentmem.core.records import Fact
from agentmem.extraction.claims import group_signature, is_duplicate, polarity
from agentmem.text.normalization import claimed_numbers, comparable_numbers, quotable_numbers


def fact(claim: str, **fields: object) -> Fact:
    return Fact.model_validate({"claim": claim, **fields})


@pytest.mark.parametrize(
    "new, known",
    [
        ("Ann has two cats", "Ann has 2 cats"),
        ("Ann earns 5,000 euros", "Ann earns 5k euros"),
        ("Ann lives in Oslo.", "ann lives in Oslo"),
        ("Ann doesn't eat meat", "Ann does not eat meat"),
        ("Ann never eats meat", "Ann does not eat meat"),
        ("Ann's dog is called Rex", "Ann has a dog called Rex"),
    ],
)
def test_a_near_copy_says_the_same(new: str, known: str) -> None:
    assert is_duplicate(fact(new), fact(known))
    assert is_duplicate(fact(known), fact(new))


@pytest.mark.parametrize(
    "new, known",
    [
        ("Ann has two cats", "Ann has three cats"),
        ("Ann has one cat", "Ann has cats"),
        ("Ann has 2 cats and three dogs", "Ann has three cats and 2 dogs"),
        ("Ann came first", "Ann came second"),
        ("Ann was there once", "Ann was there twice"),
        ("Ann ran 5k", "Ann ran 5 miles"),
        ("Ann eats meat", "Ann does not eat meat"),
        ("Ann likes meat", "Ann dislikes meat"),
        ("Ann works at Lumen", "Ann used to work at Lumen"),
        ("Ann refuses meat", "Ann eats meat"),
        ("Ann taught Ben", "Ben taught Ann"),
        ("Ann taught Ben", "Ann taught Bea"),
        ("Cleo taught Ben", "Ann taught Ben"),
        ("Ann swims on Monday", "Ann swims on Friday"),
        ("the dog bit the man", "the man bit the dog"),
        ("the left knee hurts", "the right knee hurts"),
        ("Ann has a small cat", "Ann has a little cat"),
        ("Ann takes the pill before dinner", "Ann takes the pill after dinner"),
        ("Ann drinks tea with milk", "Ann drinks tea without milk"),
        ("Ann rents the house", "Ann owns the house"),
        ("Ann's older brother sings", "Ann's younger brother sings"),
    ],
)
def test_what_differs_in_one_word_that_counts_does_not(new: str, known: str) -> None:
    assert not is_duplicate(fact(new), fact(known))
    assert not is_duplicate(fact(known), fact(new))


def test_entities_subject_and_time_must_agree() -> None:
    new, known = fact("Ann has a cat"), fact("Ann has one of the cats")
    assert is_duplicate(fact("Ann has a cat"), fact("Ann has cats"))
    for other in ({"entity_ids": ("e1",)}, {"subject": "agent"}, {"temporal_context": "past"}):
        assert not is_duplicate(fact("Ann has a cat"), fact("Ann has cats", **other))
    assert not is_duplicate(new, known)


def test_contrasts_are_never_grouped() -> None:
    contrasts = ("left right", "upper lower", "morning evening", "buy sell", "like dislike", "north south", "red blue")
    for one, other in map(str.split, contrasts):
        assert group_signature(fact(f"Ann says {one} today")) != group_signature(fact(f"Ann says {other} today"))
    assert group_signature(fact("Ann likes tea a lot")) == group_signature(fact("Ann likes tea very much"))


def test_numbers_are_compared_in_one_form_and_in_their_order() -> None:
    text = "One of 21 runs of twenty-five hundred steps, her second, took 2.50 hours at 5k, once"
    assert comparable_numbers(text) == ["1", "21", "2500", "2", "2.5", "5000", "1"]
    assert claimed_numbers(text) == {"21", "2500", "2.5", "5"}
    assert {"5", "5000", "2", "1"} <= quotable_numbers(text)
    assert comparable_numbers("") == []


def test_an_idiom_with_a_denial_is_none() -> None:
    assert polarity("Ann can't wait to go") == polarity("Ann is keen to go")
    assert polarity("Ann can’t go") != polarity("Ann goes")
