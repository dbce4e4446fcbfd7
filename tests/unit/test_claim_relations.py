"""Open claims of a model that relate what the quote does not, or the other way round, and true ones that stay."""

from __future__ import annotations

import pytest

from tests.unit.test_grounding_claims import parse

LIES = [
    ("I told Anna about it.", "The user hates Anna."),
    ("I watched Dune.", "The user disliked Dune."),
    ("Anna called me yesterday.", "Anna lives with the user."),
    ("I met Anna in Paris.", "The user married Anna in Paris."),
    ("Tom was at the office.", "Tom was fired at the office."),
    ("Tom borrowed my bike.", "Tom stole the user's bike."),
    ("Anna visited Bob.", "Anna cheated on Bob."),
    ("I lent Tom 50 euros.", "Tom lent the user 50 euros."),
    ("Anna is older than me.", "The user is older than Anna."),
    ("Tom taught Anna chess.", "Anna taught Tom chess."),
    ("Tom was hired by Anna.", "Tom hired Anna."),
]
TRUTHS = [
    ("I can't stand Anna.", "The user hates Anna."),
    ("Dune was so boring!", "The user disliked Dune."),
    ("Anna moved in with me.", "Anna lives with the user."),
    ("Anna and I tied the knot in Paris.", "The user married Anna in Paris."),
    ("They let Tom go in May.", "Tom was fired in May."),
    ("Somebody took my bike.", "The user's bike was stolen."),
    ("I lent Tom 50 euros.", "The user lent Tom 50 euros."),
    ("Tom was hired by Anna.", "Anna hired Tom."),
    ("Anna is older than me.", "Anna is older than the user."),
    ("I met Anna in Paris.", "Anna met the user in Paris."),
    ("We lost grandpa Ben last week.", "The user's grandpa Ben died."),
]


def is_kept(text: str, claim: str) -> bool:
    facts = [{"about": "P1", "claim": claim, "tense": "current", "certainty": "explicit"}]
    return bool(parse(text, facts=facts).facts)


@pytest.mark.parametrize("text, claim", LIES)
def test_a_relation_that_was_not_said_is_no_fact(text: str, claim: str) -> None:
    assert not is_kept(text, claim)


@pytest.mark.parametrize("text, claim", TRUTHS)
def test_a_relation_said_in_other_words_stays(text: str, claim: str) -> None:
    assert is_kept(text, claim)
