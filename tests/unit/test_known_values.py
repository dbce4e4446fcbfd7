"""Changes to known values, told in words that no frame reads."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from agentmem.extraction.frames.known_values import KnownValue
from agentmem.extraction.frames.reader import FrameReader
from tests.unit.talk_cases import describe

NOW = datetime(2026, 3, 21, 10, tzinfo=UTC)
KNOWN = (
    KnownValue("user", "car", "transit custom"),
    KnownValue("user", "medications", "ramipril"),
    KnownValue("user", "hobbies", "pigeons"),
    KnownValue("user", "allergies", "prawns"),
    KnownValue("user", "age", "57"),
    KnownValue("-", "the:server", "moraine"),
    KnownValue("-", "version:pandas", "2.1.4"),
    KnownValue("user", "home", "hoyland", is_planned=True),
    KnownValue("user", "flight:tenerife", "12 may", is_planned=True),
    KnownValue("user", "date:hetas refresher", "26th march", is_planned=True),
    KnownValue("Ann", "car", "Focus"),
    KnownValue("Isla", "allergies", "eggs"),
    KnownValue("-", "the:cluster", "karst03"),
    KnownValue("-", "date:dfg proposal", "30 march", is_planned=True),
)


def read(text: str) -> list[str]:
    """The claims of a turn after which the values above are known."""
    return [describe(claim) for claim in FrameReader(people=("Ann",), known=KNOWN).read(text, NOW)]


@pytest.mark.parametrize(
    "text, expected",
    [
        ("transit went in part ex", ["user.car=transit over known"]),
        ("got shot of the transit", ["user.car=transit over known"]),
        ("last o the pigeons went this morning sold the lot", ["user.hobbies=pigeons over known"]),
        ("prawns is alright after all", ["user.allergies=prawns over known"]),
        ("IT is killing moraine this week", ["-.the:server=moraine over known"]),
        ("goodbye moraine", ["-.the:server=moraine over known"]),
        ("were in. hoyland. boxes up to me neck", ["user.home=hoyland change"]),
        ("airline messed us about, tenerifes 19 may now", ["user.flight:tenerife=19 may planned"]),
        (
            "hetas rang. thursdays course is cancelled. new date 16th april",
            ["user.date:hetas refresher=16th april planned"],
        ),
        ("me birthday today. 58 where did that go", ["user.age=58 change"]),
        ("eggs is fine for her", ["Isla.allergies=eggs over known"]),
        (
            "its not prawns i was wrong. its mussels",
            ["user.allergies=mussels correct", "user.allergies=prawns deny correct"],
        ),
        ("am 27. März ist der DFG-Antrag fällig, nicht am 20.", ["-.date:dfg proposal=27. März planned"]),
        ("we compute on karst07 now", ["-.the:cluster=karst07 change"]),
        ("the dfg gave us more time. deadline is now 13 april, not the 30th", ["-.date:dfg proposal=13 april planned"]),
        ("everything runs on 2.2.3 now", ["-.version:pandas=2.2.3 change"]),
    ],
)
def test_a_change_is_read_by_the_words_of_the_known_value(text: str, expected: list[str]) -> None:
    assert read(text) == expected


def test_another_drug_ends_the_one_that_the_sentence_names() -> None:
    claims = read("the ramipril has me coughin so he put me on losartan")
    assert claims == ["user.medications=losartan change", "user.medications=ramipril over known"]


@pytest.mark.parametrize(
    "text",
    [
        "the transit is running lovely",
        "might get shot of the transit",
        "never got shot of the transit",
        "Ann says the transit is scrapped",
        "is the transit gone?",
        "if the pigeons were sold id cry",
        "hoyland is nice enough",
        "will we be in hoyland by june",
        "the focus went to the scrapyard",
        "moraine is slow again",
        "tenerife is hot in may",
        "karst03 is down now",
        "58 bags of plaster in the van",
        "the script takes 2.2 minutes",
    ],
)
def test_other_words_about_a_known_value_change_nothing(text: str) -> None:
    assert read(text) == []
