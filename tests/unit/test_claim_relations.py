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
    ("My boss fired Tom.", "The user's boss was fired by Tom."),
    ("My sister lent me 50 euros.", "The user lent his sister 50 euros."),
    ("I told Anna that Bob left.", "Anna left Bob."),
    ("I told Anna about it.", "The user sued Anna."),
    ("I told Anna about it.", "The user kissed Anna."),
    ("I told Anna about it.", "The user loves Anna."),
    ("I talked to my boss Tom.", "The user insulted Tom."),
    ("I met Anna in Paris.", "The user proposed to Anna in Paris."),
    ("Anna cooked dinner for us.", "Anna poisoned the user."),
    ("Tom borrowed my bike.", "Tom broke the user's bike."),
    ("I have a meeting with the bank.", "The user robbed the bank."),
    ("I read about Berlin.", "The user moved to Berlin."),
    ("I sold my car.", "The user bought a car."),
    ("I left the choir.", "The user joined the choir."),
    ("We lost the match.", "The user won the match."),
    ("I stopped smoking.", "The user started smoking."),
    ("I need to finish my thesis.", "The user finished the thesis."),
    ("We should probably visit Rome.", "The user visited Rome."),
    ("Anna asked whether I smoke.", "The user smokes."),
    ("I was at the doctor with Anna.", "Anna is a doctor."),
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
    ("My boss fired Tom.", "Tom was fired by the user's boss."),
    ("I told Anna about it.", "The user told Anna about it."),
    ("Anna is such a great friend.", "The user values Anna."),
    ("I just got a new bike!", "The user bought a bike."),
    ("I got back in my new Prius.", "The user owns a Prius."),
    ("My knee is messed up.", "The user injured a knee."),
    ("I gave up smoking.", "The user quit smoking."),
    ("I take chess lessons from Tom.", "Tom teaches the user chess."),
    ("I can't eat nuts, allergic.", "The user avoids nuts."),
    ("I hate coffee.", "The user does not like coffee."),
    ("I finally finished my thesis.", "The user finished the thesis."),
    ("Went climbing with Tom on Sunday.", "The user climbed with Tom."),
    ("My friend Anna is a doctor.", "Anna is a doctor."),
    ("The company downsized and I was part of that, my job is gone.", "The user lost a job."),
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
