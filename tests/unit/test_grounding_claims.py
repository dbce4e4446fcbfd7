"""Claims whose quote does not say them are refused or doubtful, whatever a model says of them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from agentmem.core.lifecycle import DOUBTFUL
from agentmem.core.records import Fact, Turn
from agentmem.extraction.drafts import ExtractionDraft, FactDraft, Window
from agentmem.extraction.reply_parser import parse_reply
from agentmem.extraction.reply_schema import ExtractionReply
from tests.unit.grounding_claims import KNOWN, ClaimCase, list_cases

SAID = datetime(2026, 3, 4, 10, tzinfo=UTC)


def read_case(case: ClaimCase) -> FactDraft | None:
    """What becomes of a case's claim, quoted with all of its turn; None where it is refused."""
    known = tuple(
        Fact(id=name, claim=f"The user's {slot} is {name}", subject="user", slot=slot, value=name)
        for name, slot in KNOWN.items()
    )
    asked = (Turn(id="a", conversation_id="c", role="assistant", content=case.asked),) if case.asked else ()
    turn = Turn(id="t", conversation_id="c", index=1, timestamp=SAID, content=case.text)
    window = Window(conversation_id="c", channel="_global", turns=(turn,), context_turns=asked, known_facts=known)
    item = {"turn": "T1", "quote": case.text, "about": "P1" if case.about == "me" else case.about, "slot": case.slot}
    item |= {"value": case.value, "op": case.op, "tense": case.tense, "certainty": "explicit"}
    reply = ExtractionReply.model_validate({"turns": [], "facts": [item]})
    drafts = parse_reply(reply, window, "").facts
    return drafts[0] if drafts else None


def is_told(draft: FactDraft | None) -> bool:
    """Whether a claim is told as so."""
    return draft is not None and draft.certainty != DOUBTFUL


def test_nearly_all_true_claims_are_kept_and_few_others_are_told() -> None:
    cases = list(list_cases())
    drafts = [(case, read_case(case)) for case in cases]
    true = [(case, draft) for case, draft in drafts if case.wanted == "kept"]
    false = [(case, draft) for case, draft in drafts if case.wanted != "kept"]
    refused = [case.line for case, draft in true if draft is None]
    doubtful = [case.line for case, draft in true if draft is not None and not is_told(draft)]
    told = [case.line for case, draft in false if is_told(draft)]
    assert len(cases) >= 200
    assert len(refused) <= 0.03 * len(true), refused
    assert len(doubtful) <= 0.12 * len(true), doubtful
    assert len(told) <= 0.07 * len(false), told


def parse(text: str, known: tuple[Fact, ...] = (), **lists: object) -> ExtractionDraft:
    """The draft of a reply about one turn, each item of which quotes all of it."""
    turn = Turn(id="t", conversation_id="c", index=1, timestamp=SAID, content=text)
    people = tuple(
        Fact(id=name, claim=f"{name} is known", subject="user", slot=slot, value=name) for name, slot in KNOWN.items()
    )
    window = Window(conversation_id="c", channel="_global", turns=(turn,), known_facts=(*known, *people))
    items = {kind: [{"turn": "T1", "quote": text, **item} for item in given] for kind, given in lists.items()}
    return parse_reply(ExtractionReply.model_validate({"turns": [], **items}), window, "")


@pytest.mark.parametrize(
    "text, about, claim, is_told_as_so",
    [
        ("My sister rows boats.", "P1", "The user rows boats.", False),
        ("My sister rows boats.", "P1", "The user's sister rows boats.", True),
        ("I row boats with Nora.", "P1", "The user rows boats with Nora.", True),
        ("I row boats.", "Nora", "Nora rows boats.", False),
        ("Nora rows boats.", "Nora", "Nora rows boats.", True),
        ("My neighbor breeds finches.", "P1", "The user breeds finches.", False),
        ("My sister gave me a canoe.", "P1", "The user got a canoe.", True),
        ("I'm planning to sell the boat.", "P1", "The user sold the boat.", False),
        ("I'm planning to sell the boat.", "P1", "The user plans to sell the boat.", True),
        ("I don't row boats.", "P1", "The user rows boats.", False),
    ],
)
def test_an_open_claim_is_about_whom_the_words_name(text: str, about: str, claim: str, is_told_as_so: bool) -> None:
    facts = parse(text, facts=[{"about": about, "claim": claim, "certainty": "explicit"}]).facts
    assert any(map(is_told, facts)) is is_told_as_so


@pytest.mark.parametrize(
    "text, source, kind, target, is_kept",
    [
        ("Mateo's mother Ines came by.", "Ines", "mother of", "Mateo", True),
        ("Ines is the mother of Mateo.", "Ines", "mother of", "Mateo", True),
        ("Ines is the mother of a neighbor of Mateo.", "Ines", "mother of", "Mateo", False),
        ("Mateo's neighbor Ines came by.", "Ines", "mother of", "Mateo", False),
        ("Nora had lunch with Mateo.", "Nora", "sister of", "Mateo", False),
        ("My sister Nora met Mateo.", "Nora", "sister of", "Mateo", False),
    ],
)
def test_a_relation_needs_its_word_between_the_two(
    text: str, source: str, kind: str, target: str, is_kept: bool
) -> None:
    named = [{"name": name, "type": "person"} for name in (source, target)]
    relation = {"source": source, "kind": kind, "target": target}
    assert bool(parse(text, entities=named, relations=[relation]).relations) is is_kept


def known_fact(claim: str, **fields: str) -> Fact:
    return Fact(id="known", claim=claim, **fields)


@pytest.mark.parametrize(
    "known, item, is_linked",
    [
        (known_fact("Mateo plays chess.", subject="Mateo"), {"claim": "The user quit chess."}, False),
        (known_fact("The user plays chess.", subject="user"), {"claim": "The user quit chess."}, True),
        (known_fact("The user plays chess.", subject="user"), {"claim": "The user sings."}, False),
        (known_fact("The user plays chess.", subject="user"), {"slot": "hobbies", "value": "chess"}, True),
        (
            known_fact("Mateo works at Ikea", subject="Mateo", slot="employer", value="Ikea"),
            {"claim": "The user quit chess."},
            False,
        ),
    ],
)
def test_a_claim_ends_only_what_is_known_of_the_same_person(known: Fact, item: dict[str, str], is_linked: bool) -> None:
    given = {"about": "P1", "op": "over", "certainty": "explicit", "ends": ["F1"], **item}
    (draft,) = parse("I quit chess and I sing now.", (known,), facts=[given]).facts
    assert draft.ends_fact_ids == (("known",) if is_linked else ())


def test_a_fact_rests_on_another_of_the_same_reply() -> None:
    home = {"about": "P1", "slot": "home", "value": "Porto", "certainty": "explicit"}
    tram = {"about": "P1", "claim": "The user takes the tram.", "certainty": "explicit", "rests_on": ["N1", "N2", "N9"]}
    draft = parse("I live in Porto and take the tram.", facts=[home, tram])
    assert draft.facts[1].depends_on == (draft.facts[0].name,)


@pytest.mark.parametrize(
    "text, item, begins",
    [
        ("I work at Acme since June.", {"value": "Acme", "since": "since June", "tense": "current"}, (2025, 6)),
        ("I start at Acme in June.", {"value": "Acme", "since": "in June", "tense": "planned"}, (2026, 6)),
        ("I work at Acme, 11 years this summer.", {"value": "Acme", "since": "11 years this summer"}, None),
    ],
)
def test_the_tense_of_a_claim_decides_which_day_is_meant(
    text: str, item: dict[str, str], begins: tuple[int, int] | None
) -> None:
    given = {"about": "P1", "slot": "employer", "tense": "current", "certainty": "explicit", **item}
    (draft,) = parse(text, facts=[given]).facts
    assert (draft.valid_from and (draft.valid_from.year, draft.valid_from.month)) == begins
    assert ("11 years" in draft.claim) is (begins is None)
