"""How turns and facts stand by what is believed."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from agentmem.core.records import Fact, Turn, build_record
from agentmem.memory.semantic.belief_view import group_by_slot
from agentmem.memory.semantic.standing import CURRENT, Standing, Standings, build_standings

NOW = datetime(2026, 11, 27, tzinfo=UTC)
JANUARY, JUNE, NEXT_MAY = (datetime(*day, tzinfo=UTC) for day in ((2026, 1, 12), (2026, 6, 10), (2027, 5, 4)))


def fact(name: str, slot: str, value: str, said: datetime, turn: str, **fields: Any) -> Fact:
    given = {"claim": f"{slot} {value}", "subject": "user", "said_at": said, "first_said_at": said, **fields}
    return build_record(Fact, id=name, slot=slot, value=value, source_turn_ids=(turn,), recorded_at=said, **given)


def turn(name: str, said: datetime) -> Turn:
    return build_record(Turn, id=name, content="said", timestamp=said, conversation_id="c", index=0)


def build(*facts: Fact, retired: tuple[Fact, ...] = ()) -> Standings:
    return build_standings(group_by_slot(facts, NOW), retired)


BERGEN = fact("f1", "home", "Bergen", JANUARY, "t1", valid_to=JUNE, superseded_by="f2")
OSLO = fact("f2", "home", "Oslo", JUNE, "t2", valid_from=JUNE)
ACME = fact("f3", "employer", "Acme", JANUARY, "t1")
LUND = fact("f4", "home", "Lund", JUNE, "t3", valid_from=NEXT_MAY, temporal_context="future")


def test_what_was_is_outdated_since_the_day_and_by_the_turn() -> None:
    found = build(BERGEN, OSLO)
    expected = Standing("outdated", JUNE, "t2", "home", "Oslo")
    assert (found.find(turn("t1", JANUARY), NOW), found.find(BERGEN, NOW)) == (expected, expected)
    assert str(expected) == "outdated since 10 Jun 2026"
    assert found.find(turn("t2", JUNE), NOW) == found.find(OSLO, NOW) == CURRENT
    assert found.find(turn("unknown", JUNE), NOW) == CURRENT


def test_a_turn_that_tells_of_the_past_is_not_outdated() -> None:
    lived = fact("f1", "home", "Bergen", JUNE, "t1", valid_to=JANUARY)
    assert build(lived, OSLO).find(turn("t1", JUNE), NOW) == CURRENT


def test_a_turn_of_several_slots_says_which_is_meant() -> None:
    assert str(build(BERGEN, OSLO, ACME).find(turn("t1", JANUARY), NOW)) == "outdated since 10 Jun 2026 (home)"


def test_a_value_that_came_back_is_not_outdated() -> None:
    again = fact("f5", "home", "Bergen", NOW, "t5", valid_from=NOW)
    assert build(BERGEN, again).find(turn("t1", JANUARY), NOW) == CURRENT


def test_a_plan_is_marked_with_its_day() -> None:
    assert str(build(OSLO, LUND).find(turn("t3", JUNE), NOW)) == "planned for 4 May 2027"
    undated = LUND.model_copy(update={"valid_from": None})
    assert build(OSLO, undated).find(turn("t3", JUNE), NOW) == CURRENT


@pytest.mark.parametrize("successor, state", [("f2", "outdated"), (None, "current")])
def test_what_was_corrected_is_outdated_and_what_was_misread_is_not(successor: str | None, state: str) -> None:
    gone = {"superseded_at": NOW, "reason": "wrong", "superseded_by": successor}
    wrong = fact("f6", "home", "Odense", JANUARY, "t6", **gone)
    assert build(OSLO, retired=(wrong,)).find(turn("t6", JANUARY), NOW).state == state


@pytest.mark.parametrize(
    "question, terms, is_answered",
    [
        ("Where do I live?", ["live"], True),
        ("What is my home?", ["home"], True),
        ("Where does Ann live?", ["ann", "live"], False),
        ("What do I drive?", ["drive"], False),
    ],
)
def test_a_held_value_answers_a_question_about_its_slot(question: str, terms: list[str], is_answered: bool) -> None:
    assert build(BERGEN, OSLO).holds_answer(question, terms) is is_answered
