"""Which turns cast doubt on a belief; the stories are lines of `doubt_stories.txt`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from agentmem.beliefs.belief import Belief, BeliefSet
from agentmem.beliefs.slots import find_slot
from agentmem.core.records import Fact
from agentmem.core.truth_maintenance import find_stale
from agentmem.extraction.doubt import Held, find_doubt, list_changes
from agentmem.extraction.doubted_beliefs import ChangingTurn, mark_doubted
from agentmem.extraction.plain.turn_text import read_turn

NOW, DAY = datetime(2026, 3, 1, tzinfo=UTC), timedelta(days=1)
STORIES = Path(__file__).with_name("doubt_stories.txt")


def test_most_endings_cast_doubt_and_few_mentions_do() -> None:
    found: dict[str, list[tuple[str, bool]]] = {"ends": [], "stays": []}
    for line in STORIES.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            kind, subject, slot, value, text = line.split(" | ", 4)
            found[kind].append(
                (text, find_doubt(Held(subject, slot, value), list_changes(read_turn(text))) is not None)
            )
    missed = [text for text, is_doubted in found["ends"] if not is_doubted]
    wrong = [text for text, is_doubted in found["stays"] if is_doubted]
    assert len(found["ends"]) >= 60
    assert len(found["stays"]) >= 60
    assert len(missed) <= 0.1 * len(found["ends"]), missed
    assert len(wrong) <= 0.03 * len(found["stays"]), wrong


def test_a_doubt_names_its_sentence() -> None:
    text = "Busy week. Sold the Volvo on Friday. More soon."
    span = find_doubt(Held("user", "car", "Volvo"), list_changes(read_turn(text)))
    assert span is not None
    assert text[slice(*span)] == "Sold the Volvo on Friday"


def test_what_the_user_is_told_by_others_or_quotes_casts_no_doubt() -> None:
    belief = Held("user", "employer", "Acme")
    for text in ('She wrote: "I quit my job at Acme."', "> I quit my job at Acme", "Did I quit my job at Acme?"):
        assert find_doubt(belief, list_changes(read_turn(text))) is None


def test_nothing_rests_on_a_doubted_fact_until_it_is_said_again() -> None:
    doubt = {"said_at": NOW - DAY, "doubted_at": NOW, "doubt_spans": (("turn", 0, 9),)}
    premise = Fact(id="home", claim="Ann lives in Bergen", **doubt)
    ferry = Fact(id="ferry", claim="Ann takes the ferry", depends_on=("home",))
    again = premise.model_copy(update={"said_at": NOW})
    assert find_stale({"home": premise, "ferry": ferry}, NOW).keys() == {"ferry"}
    assert not find_stale({"home": premise, "ferry": ferry}, NOW - DAY)
    assert not find_stale({"home": again, "ferry": ferry}, NOW)


@pytest.mark.parametrize(
    "text, is_doubted",
    [
        ("The release slips to 10 April.", True),
        ("Our release was called off.", True),
        ("The release is on 27 March.", False),
        ("My sister's release was called off.", False),
        ("I moved the chair, the release is fine.", False),
    ],
)
def test_an_event_that_is_moved_is_in_doubt(text: str, is_doubted: bool) -> None:
    event = Held("user", "date:release", "27 March")
    assert (find_doubt(event, list_changes(read_turn(text))) is not None) is is_doubted


def test_one_value_of_several_is_in_doubt() -> None:
    said = {"subject": "user", "slot": "pets", "said_at": NOW - DAY, "first_said_at": NOW - DAY}
    beliefs = [Belief(key="1", value="Pixel", doubted_at=NOW, **said), Belief(key="2", value="Momo", **said)]
    state = BeliefSet(beliefs, {"pets": find_slot("pets")}).state("user", "pets", NOW)
    assert ([each.value for each in state.current], [each.value for each in state.doubtful]) == (["Momo"], ["Pixel"])


IN_DOUBT = {"doubted_at": NOW - DAY, "doubt_spans": (("older", 0, 9),)}
LEFT = "I handed in my notice and we moved out of the flat."


@pytest.mark.parametrize(
    "fact, plan, claimed, doubted",
    [
        ({"slot": "home", "value": "Bergen"}, {}, {}, True),
        ({"slot": "home", "value": "Bergen", "said_at": NOW}, {}, {}, False),
        ({"slot": "home", "value": "Bergen", "valid_to": NOW - DAY}, {}, {}, False),
        ({"slot": "home", "value": "Bergen", "temporal_context": "future"}, {}, {}, False),
        ({"slot": "home", "value": "Bergen"}, {}, {("user", "home"): NOW}, False),
        ({"slot": "home", "value": "Bergen"}, {}, {("user", "home"): NOW - DAY}, True),
        ({"slot": "rent", "value": "900 euros"}, {}, {("user", "home"): NOW}, False),
        ({"slot": "rent", "value": "900 euros"}, {"slot": "home", "value": "Lund"}, {}, False),
        ({"slot": "rent", "value": "900 euros"}, {"slot": "home", "value": "Bergen", **IN_DOUBT}, {}, False),
        ({"slot": "home", "value": "Bergen"}, {"slot": "home", "value": "Lund"}, {}, True),
        ({"slot": "employer", "value": "Acme"}, {"slot": "home", "value": "Lund"}, {("user", "home"): NOW}, True),
        ({"slot": "answer_language", "value": "notice"}, {}, {}, False),
        ({"slot": "home", "value": "Bergen", "subject": "Nora"}, {}, {}, False),
    ],
)
def test_what_a_turn_casts_doubt_on(
    fact: dict[str, Any], plan: dict[str, Any], claimed: dict[tuple[str, str], datetime], doubted: bool
) -> None:
    said = {"claim": "x", "subject": "user", "said_at": NOW - DAY}
    known = [Fact(id="held", **{**said, **fact})]
    if plan:
        is_planned = {"temporal_context": "" if "doubted_at" in plan else "future"}
        known.append(Fact(id="plan", **{**said, "said_at": NOW - 2 * DAY, **is_planned, **plan}))
    turn = ChangingTurn("turn", NOW, [*list_changes(read_turn(LEFT))])
    found = [each.id for each in mark_doubted(known, [turn], claimed, {}) if each.in_doubt_since == NOW]
    assert found == (["held"] if doubted else [])
