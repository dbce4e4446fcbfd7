"""The rule extractor: its cases, what it leaves alone, and that its claims rest on the text, whatever that is."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentmem.core.plain_values import has_visible
from agentmem.core.records import Entity, Turn
from agentmem.extraction.drafts import ExtractionDraft, Window
from agentmem.extraction.plain.extractor import EXTRACTOR, extract
from agentmem.extraction.plain.turn_text import MAX_READ_CHARS
from tests.benchmarks.rule_cases import load_cases, run_rules_cases
from tests.scale import scaled

CASES = load_cases()
NOW = datetime(2024, 3, 14, 10, tzinfo=UTC)
PIECES = (
    "I ",
    "and I ",
    "I'm ",
    "my sister Anna ",
    "I moved to ",
    "I love ",
    " - ",
    ", ",
    '"',
    "\u201c",
    "'",
    ". ",
    "! ",
    "? ",
    "\n",
    "yesterday ",
    "in May 2020 ",
    "two weeks ago ",
    "Aa ",
    "A",
    "of the ",
    "for ",
    "zoo ",
    "so ",
    "really ",
    "if ",
    "not ",
    "\U0001f600",
    "I used to ",
    "I no longer work at ",
    "My favourite tea is ",
    "> ",
    "1",
    "\u00e9",
    "\u2019",
    "My dog Rex ",
)


def read(text: str, **fields: object) -> ExtractionDraft:
    turn = Turn(**{"id": "t", "conversation_id": "c", "index": 0, "content": text, "timestamp": NOW, **fields})
    return extract(Window(conversation_id="c", channel="_global", turns=(turn,)))


def test_there_are_enough_cases_and_a_third_of_them_are_traps() -> None:
    assert len(CASES) >= 40
    assert sum(case.none for case in CASES) * 3 >= len(CASES)
    assert len({case.id for case in CASES}) == len(CASES)
    assert all(case.none is not bool(case.facts) for case in CASES)


def test_precision_on_the_cases_and_every_trap_silent() -> None:
    report = run_rules_cases()
    assert report.precision >= 0.95
    assert [verdict.case.id for verdict in report.results if verdict.case.none and verdict.claim_count] == []
    assert report.failures == {}
    assert report.rows()[-1] == {"rule": "all", "cases": len(CASES), "right": len(CASES), "share": 1.0}


@pytest.mark.parametrize("case", [case for case in CASES if case.facts][:3], ids=lambda case: case.id)
def test_a_case_can_fail(case) -> None:
    spoilt = run_rules_cases([replace(case, facts=("Nobody said this",), fields={})])
    assert spoilt.precision == 0.0
    assert spoilt.failures


def test_facts_are_tagged_with_their_slot_and_extraction_with_the_version() -> None:
    (fact,) = read("I'm allergic to walnuts.", speaker="Vera").facts
    assert (fact.claim, fact.tags, fact.certainty) == (
        "Vera is allergic to walnuts",
        ("slot:allergies",),
        "explicit",
    )
    assert EXTRACTOR == "rules:3"
    assert read("I live in Porto.").summaries == ()


def test_a_quote_is_the_stretch_at_its_span() -> None:
    text = "Hey Sam! Good to hear from you. I live in Oslo, and it is cold."
    (fact,) = read(text).facts
    assert fact.claim == "The user lives in Oslo"
    assert fact.span is not None
    assert text[slice(*fact.span)] == fact.quote == "I live in Oslo"


def test_a_person_whom_no_slot_takes_is_an_open_claim() -> None:
    (fact,) = read("My colleague Rob cycles to work.").facts
    assert (fact.claim, fact.slot, fact.tags) == ("The user has a colleague named Rob", "", ("rule:kin",))
    assert read("My late uncle Piet built this.").facts == ()


@pytest.mark.parametrize(
    "text, claim",
    [
        ("My sister Anna called.", "The user has a sister named Anna"),
        ("Mi hermana se llama Ana.", "The user has a sister named Ana"),
        ("My boss is called Ingrid.", "The user has a boss named Ingrid"),
        ("I'm a nurse.", "The user works as a nurse"),
        ("I'm retired.", "The user is retired"),
        ("I'm vegan.", "The user is vegan"),
        ("My cat is called Miso.", "The user has a cat named Miso"),
    ],
)
def test_claims_are_plain_sentences(text: str, claim: str) -> None:
    assert [fact.claim for fact in read(text).facts] == [claim]


def test_a_known_entity_keeps_its_type() -> None:
    turn = Turn(id="t", conversation_id="c", index=0, content="I went to Fernhill yesterday.", timestamp=NOW)
    known = Entity(id="e", name="Fernhill", type="organisation")
    draft = extract(Window(conversation_id="c", channel="_global", turns=(turn,), known_entities=(known,)))
    assert [(entity.name, entity.type) for entity in draft.entities] == [("Fernhill", "organisation")]


def test_an_alias_is_kept_only_where_it_is_stated() -> None:
    (robert, _) = read("My uncle Robert, or Bob, lives in Ghent.").entities
    assert (robert.name, robert.type, robert.aliases) == ("Robert", "person", ("Bob",))
    (kate,) = read("My aunt Kate and my uncle walked here.").entities
    assert kate.aliases == ()


def test_claims_are_read_only_at_the_beginning_of_a_long_turn() -> None:
    assert read("I live in Porto. " + "word. " * 3000).facts
    assert not read("word. " * 3000 + "I live in Porto.").facts


@pytest.mark.parametrize(
    "unit", [pytest.param(unit, marks=[pytest.mark.nightly] * (place % 3 > 0)) for place, unit in enumerate(PIECES)]
)
def test_long_runs_are_read_to_their_end(unit: str) -> None:
    for text in (unit * MAX_READ_CHARS, "I moved to " + unit * MAX_READ_CHARS):
        if text.strip():
            assert read(text[:25_000]).summaries == ()


@settings(deadline=None, max_examples=scaled(150, least=40))
@given(st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=12)), max_size=60), st.booleans())
def test_any_text_gives_facts_that_rest_on_it_and_the_same_ones_again(parts: list[str], named: bool) -> None:
    text = "".join(parts).encode("utf-8", "ignore").decode()
    if not has_visible(text):
        return
    draft = read(text, speaker="Vera" if named else None)
    assert draft == read(text, speaker="Vera" if named else None)
    names = {entity.name for entity in draft.entities}
    for fact in draft.facts:
        assert fact.span is not None
        assert text[slice(*fact.span)] == fact.quote
        assert fact.quote.strip()
        assert len(fact.claim) < 600
        assert set(fact.entities) <= names
