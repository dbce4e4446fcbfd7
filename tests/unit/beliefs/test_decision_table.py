"""The decision table row by row, and what holds whatever is said in whatever order."""

from __future__ import annotations

from datetime import timedelta
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentmem.beliefs.slots import builtin_slots, find_slot
from agentmem.beliefs.values import is_refinement, is_same_value, normalize_value
from agentmem.errors import InvalidRecord
from tests.unit.beliefs.table_cases import CASES, START, WEEK, Beliefs, Case, parse_claim, play

VALUES = ("Ann", "Ann Bee", "Bob", "12 Elm Road", "no tea")
FLAGS = (
    "",
    "",
    "",
    "| over",
    "| deny",
    "| plan",
    "| plan since+3",
    "| past",
    "| correct",
    "| change",
    "| guess",
    "| reported",
)
SLOTS = ("home", "employer", "boss", "allergies", "likes", "dislikes", "birthplace", "date:exam", "age")
SAID = st.lists(
    st.builds(
        lambda slot, value, flag: f"{slot}={value} {flag}".strip(),
        st.sampled_from(SLOTS),
        st.sampled_from(VALUES),
        st.sampled_from(FLAGS),
    ),
    min_size=1,
    max_size=12,
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.said} -> {case.told}")
def test_a_claim_does_what_its_row_says(case: Case) -> None:
    beliefs, decision, claim = play(case.said)
    told = beliefs.told(claim.subject, case.of or claim.slot.name, claim.said_at + timedelta(days=1))
    assert (decision.action, ", ".join(told)) == (case.action, case.told)


@given(SAID)
def test_what_is_said_twice_is_believed_as_if_said_once(said: list[str]) -> None:
    """The last claim again, at the same moment, changes no value that is told."""
    once, _, last = play(said)
    before = _told(once, last.said_at + WEEK)
    once.settle(last)
    if last.operation == "is" and last.tense == "current" and last.mark != "correct":
        assert _told(once, last.said_at + WEEK) == before


@given(SAID)
def test_one_value_at_a_time(said: list[str]) -> None:
    """Slots of kind one and fixed never tell two values, whatever was said."""
    beliefs, _, last = play(said)
    for slot in SLOTS:
        told = beliefs.told("user", slot, last.said_at)
        if find_slot(slot).kind != "set":
            assert len(told) <= 1, told
        assert len(set(map(normalize_value, told))) == len(told)


@given(SAID)
def test_plans_guesses_and_hearsay_never_end_what_the_user_said(said: list[str]) -> None:
    beliefs, _, last = play([*said, "home=Quito"])
    told = beliefs.told("user", "home", last.said_at)
    weak = ("home=Lima | plan", "home=Lima | guess", "home=Lima | reported", "home=Lima | past")
    for number, text in enumerate(weak, start=1):
        beliefs.settle(parse_claim(text, last.said_at + number * timedelta(days=1)))
    assert beliefs.told("user", "home", last.said_at + WEEK) == told


@given(SAID)
def test_the_newest_plain_word_is_told(said: list[str]) -> None:
    for slot in ("home", "employer", "age"):
        beliefs, _, last = play([*said, f"{slot}=Quito 7"])
        assert beliefs.told("user", slot, last.said_at) == ["Quito 7"]


@given(st.lists(st.sampled_from(("Ann", "Bob", "Cid", "Dee")), min_size=1, max_size=4, unique=True))
def test_windows_read_in_another_order_leave_the_same_belief(values: list[str]) -> None:
    claims = [parse_claim(f"home={value}", START + number * WEEK) for number, value in enumerate(values)]
    for order in permutations(claims):
        beliefs = Beliefs()
        for claim in order:
            beliefs.settle(claim)
        assert beliefs.told("user", "home", claims[-1].said_at + WEEK) == [values[-1]], [each.value for each in order]


@given(SAID)
def test_nothing_that_was_retired_comes_back(said: list[str]) -> None:
    beliefs, gone = Beliefs(), set[str]()
    for number, text in enumerate(said):
        beliefs.settle(parse_claim(text, START + number * WEEK))
        gone |= {key for key, each in beliefs.found.items() if each.retired}
        assert all(beliefs.found[key].retired for key in gone)


def _told(beliefs: Beliefs, moment: object) -> dict[str, list[str]]:
    return {slot: beliefs.told("user", slot, moment) for slot in SLOTS}  # type: ignore[arg-type]


def test_values_are_compared_by_their_words() -> None:
    assert is_same_value("1,200 euros", "1200 Euros!")
    assert not is_same_value("1,20", "120")
    assert is_same_value("city of Graz.", "City of Graz")
    assert not is_refinement(find_slot("age"), "4 already", "4")
    assert normalize_value("— !") == ""


def test_slots_are_known_by_name_or_open_key() -> None:
    assert {"home", "employer", "answer_language"} <= set(builtin_slots())
    assert all(name in builtin_slots() for slot in builtin_slots().values() for name in slot.rests_on)
    assert find_slot("version:Postgres").kind == "one"
    for wrong in ("hoem", "date:", "color:car", "", "x" * 300):
        with pytest.raises(InvalidRecord, match="slot"):
            find_slot(wrong)
