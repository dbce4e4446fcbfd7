"""`agentmem reviews`: shows what waits, on what it rests and what may be decided, and decides it."""

from __future__ import annotations

from typing import Any

import pytest

from agentmem import AgentMemory
from agentmem.cli.commands.reviews import REVIEW_TOPICS
from agentmem.core.records import Review
from agentmem.memory.semantic.reviews import ALLOWED_DECISIONS
from tests.flows.test_reviews import ask


@pytest.fixture
def waiting(cli: Any) -> list[Review]:
    """Two reviews of the default user: a claim with its turn, and two entities."""
    with AgentMemory("default", home=cli.home, embedder="hash") as memory:
        turn = memory.store_turn("I might move to\x1b[31m Oslo in May.", speaker="Aiko")
        ann, anna = (memory.upsert_entity({"name": name, "type": "person"}).id for name in ("Ann", "Anna"))
        proposed = {
            "claim": "Aiko moves to Oslo",
            "source_turn_ids": [turn.id],
            "source_spans": [[turn.id, 2, 15], 7, [turn.id, "x", None], [[], 1, 2]],
        }
        return [
            ask(memory, "doubtful", "Does Aiko move?", proposed=proposed, source_turn_ids=(turn.id, "gone")),
            ask(memory, "same_entity", "Are Ann and Anna one person?", record_ids=(ann, anna)),
        ]


def test_the_kinds_of_doubt_are_those_of_reviews() -> None:
    assert tuple(ALLOWED_DECISIONS) == REVIEW_TOPICS


def test_a_review_is_shown_with_its_ground_and_its_choices(cli: Any, waiting: list[Review]) -> None:
    shown = cli("reviews")
    assert "doubtful: Does Aiko move?\n    proposed: Aiko moves to Oslo\n    turn: " in shown
    assert "Aiko: I might move to\ufffd[31m Oslo in May.\n    quote: might move to\n" in shown
    assert "choices: accept, reject\n" in shown
    assert "same_entity: Are Ann and Anna one person?\n    entity: Ann (person)\n    entity: Anna (person)\n" in shown
    assert f"{waiting[1].id}  since " in shown
    assert "choices: merge, keep_apart\n" in shown
    assert "\x1b" not in shown


def test_reviews_are_listed_as_json_by_kind_and_number(cli: Any, waiting: list[Review]) -> None:
    assert [row["id"] for row in cli.lines("reviews")] == [review.id for review in waiting]
    assert [row["about"] for row in cli.lines("reviews", "--about", "same_entity")] == ["same_entity"]
    assert len(cli.lines("reviews", "--limit", "1")) == 1
    assert cli("reviews", "--about", "correction") == "nothing waits for a decision\n"
    assert cli("reviews", "--user", "bob") == "nothing waits for a decision\n"
    assert cli.lines("reviews", "--about", "correction") == []


def test_a_review_is_decided(cli: Any, waiting: list[Review]) -> None:
    first, second = waiting
    said = cli("reviews", "resolve", first.id, "reject")
    assert said.startswith("rejected: Does Aiko move?\n    operation ")
    refused = cli.run("reviews", "resolve", first.id, "accept")
    assert (refused.exit_code, "decided before: reject" in refused.stderr) == (2, True)
    decided = cli.json("reviews", "resolve", second.id, "merge")
    assert (decided["review_status"], decided["decision"]) == ("accepted", "merge")
    assert cli.lines("reviews") == []


@pytest.mark.parametrize(
    "typed, why",
    [
        (["resolve", "nothing", "accept"], "nothing"),
        (["resolve", "nothing"], "DECISION"),
        (["--about", "taste"], "taste"),
        (["--limit", "0"], "limit"),
    ],
)
def test_what_cannot_be_is_refused(cli: Any, typed: list[str], why: str) -> None:
    result = cli.run("reviews", *typed)
    assert (result.exit_code, result.stdout) == (2, "")
    assert why in result.stderr


def test_a_wrong_decision_names_the_choices(cli: Any, waiting: list[Review]) -> None:
    result = cli.run("reviews", "resolve", waiting[0].id, "merge")
    assert result.exit_code == 2
    assert "accept, reject" in result.stderr
    assert len(cli.lines("reviews")) == 2
