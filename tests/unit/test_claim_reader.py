"""Sentences given by hand: what they say of a slot, and what is no such sentence."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from agentmem.facade.claim_reader import read_spoken_claim

NOW = datetime(2026, 6, 10, tzinfo=UTC)


@pytest.mark.parametrize(
    "sentence, wanted",
    [
        ("The user lives in Oslo", "user home Oslo is"),
        ("user lives in Oslo.", "user home Oslo is"),
        ("I live in Oslo", "user home Oslo is"),
        ("Ich wohne in Oslo", "user home Oslo is"),
        ("The user's name is Dan", "user name Dan is"),
        ("Ida is allergic to nuts", "Ida allergies nuts is"),
        ("My sister Ida is allergic to nuts", "Ida allergies nuts is"),
        ("The user no longer works at Acme", "user employer Acme over"),
        ("I'm not allergic to nuts", "user allergies nuts deny"),
        ("Always answer in German", "user answer_language German is"),
    ],
)
def test_a_plain_sentence_names_subject_slot_and_value(sentence: str, wanted: str) -> None:
    said = read_spoken_claim(sentence, NOW)
    assert said is not None
    assert " ".join((*map(said.fields.__getitem__, ("subject", "slot", "value")), said.words.operation)) == wanted


@pytest.mark.parametrize(
    "text",
    [
        "",
        "It is vegan",
        "Does the user live in Oslo?",
        "The user said she lives in Oslo",
        "The user lives in Oslo. The sun shines.",
        "The user is allergic to nuts and fish",
        "The release is in Oslo",
    ],
)
def test_what_does_not_say_one_thing_as_a_whole_is_not_read(text: str) -> None:
    assert read_spoken_claim(text, NOW) is None
