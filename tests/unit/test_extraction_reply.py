"""Replies: strict for the vendor, read item by item, bounded."""

from __future__ import annotations

import json
import re
from typing import Any, get_args

import pytest
from pydantic import ValidationError

from agentmem.extraction.reply_schema import (
    MAX_CLAIM_CHARS,
    MAX_ITEMS,
    MAX_KEY_CHARS,
    MAX_KEYS,
    AgentExtractionReply,
    ExtractionReply,
    FactItem,
)
from agentmem.models.structured_llm import to_strict_schema

FACT = {"turn": "T1", "claim": "Ann rows.", "quote": "I row"}


def read(**lists: Any) -> ExtractionReply:
    return ExtractionReply.model_validate_json(json.dumps({"turns": [], **lists}))


def test_the_schemas_are_those_that_vendors_follow() -> None:
    schema = to_strict_schema(ExtractionReply)
    assert schema["required"] == ["facts", "entities", "relations", "turns"]
    fact = schema["properties"]["facts"]["items"]
    assert fact["required"] == list(FactItem.model_fields)
    assert fact["properties"]["certainty"]["enum"] == ["explicit", "implied", "inferred", "uncertain", ""]
    assert to_strict_schema(AgentExtractionReply)["required"] == ["facts"]


@pytest.mark.parametrize(
    "field, label",
    [
        (name, label)
        for name, field in FactItem.model_fields.items()
        for label in get_args(field.annotation)
        if isinstance(label, str) and label
    ],
)
def test_labels_count_in_any_case(field: str, label: str) -> None:
    for written in (label.upper(), f" {label.capitalize()} ", label):
        assert getattr(read(facts=[{**FACT, field: written}]).facts[0], field) == label


def test_one_malformed_item_never_drops_its_siblings() -> None:
    reply = read(facts=[FACT, None, 5, {"claim": "no turn"}, {**FACT, "claim": ""}, {**FACT, "claim": "Bob rows."}])
    assert [item.claim for item in reply.facts] == ["Ann rows.", "Bob rows."]
    assert reply.notes == ("facts: a malformed item was left out",) * 4


@pytest.mark.parametrize("text", ["[]", "7", '{"turns": [], "facts": [1]}'])
def test_an_envelope_without_anything_usable_is_refused(text: str) -> None:
    with pytest.raises(ValidationError):
        ExtractionReply.model_validate_json(text)


def test_lists_that_are_missing_or_null_are_empty() -> None:
    assert ExtractionReply.model_validate({}) == ExtractionReply()
    reply = read(facts=None, entities="none")
    assert (reply.facts, reply.entities, reply.relations, reply.notes) == ([], [], [], ())


def test_lengths_and_counts_are_bounded() -> None:
    reply = read(facts=[{**FACT, "claim": "x" * (MAX_CLAIM_CHARS + 1)}, *([FACT] * 200)])
    assert len(reply.facts) == MAX_ITEMS["facts"]
    assert reply.notes == ("facts: a malformed item was left out", "facts: more than 30 items, the rest was left out")
    keys = ["a", "a", "", 5, "x" * (MAX_KEY_CHARS + 1), *"bcdefgh"]
    turn = read(turns=[{"turn": "T1", "standalone": None, "keys": keys}]).turns[0]
    assert (turn.standalone, turn.keys) == ("", ["a", "b", "c", "d", "e", "f"])
    assert len(turn.keys) == MAX_KEYS


def test_unknown_words_are_empty_and_wrong_types_the_default() -> None:
    odd = {"op": "me", "certainty": 1, "tense": "", "mark": "bored", "about": [3], "slot": None, "value": []}
    item = read(facts=[{**FACT, **odd, "since": 7, "until": {}, "rests_on": "F1", "ends": {}}]).facts[0]
    assert (item.op, item.certainty, item.tense, item.mark) == ("",) * 4
    assert (item.about, item.slot, item.value, item.since, item.until) == ("",) * 5
    assert (item.rests_on, item.ends) == ([], [])


def test_an_item_needs_a_claim_or_a_slot() -> None:
    bare = {"turn": "T1", "quote": "I row"}
    reply = read(facts=[bare, {**bare, "slot": "hobbies", "value": "row"}, {**bare, "claim": "Ann rows."}])
    assert [(item.slot, item.claim) for item in reply.facts] == [("hobbies", ""), ("", "Ann rows.")]


def test_a_claim_is_one_line_without_control_characters() -> None:
    item = read(facts=[{**FACT, "claim": " Ann\n\trows\u0000 \u202enow. "}]).facts[0]
    assert item.claim == "Ann rows now."


@pytest.mark.parametrize("written", [2, "2", "t2", "Turn 2", "turn T2", "T2:", " [T2]", "T02"])
def test_a_label_is_read_in_every_form(written: object) -> None:
    item = read(facts=[{**FACT, "turn": written, "ends": [written], "rests_on": ["n3", written], "about": written}])
    turn = read(turns=[{"turn": written, "leans_on": [written, "c1"]}]).turns[0]
    assert (item.facts[0].turn, turn.turn, turn.leans_on) == ("T2", "T2", ["T2", "C1"])
    bare = not re.search("[tT]", str(written))  # a number alone is counted by where it stands
    assert item.facts[0].about == ("P2" if bare else "T2")
    assert (item.facts[0].ends, item.facts[0].rests_on) == (["F2"], ["N3", "F2"]) if bare else (["T2"], ["N3", "T2"])


@pytest.mark.parametrize(
    "slot, about, read_as",
    [
        ("Call Me", "P1", ("P1", "call_me")),
        ("P2.employer", "", ("P2", "employer")),
        ("P2.Employer", "P3", ("P3", "employer")),
        ("Nora.call me", "", ("Nora", "call_me")),
        ("The: Staging Server", "P1", ("P1", "the:Staging Server")),
        ("version:Node.js", "P1", ("P1", "version:Node.js")),
        (" Team.Size ", "P1", ("P1", "Team.Size")),
    ],
)
def test_a_slot_is_read_in_every_form(slot: str, about: str, read_as: tuple[str, str]) -> None:
    item = read(facts=[{**FACT, "slot": slot, "about": about}]).facts[0]
    assert (item.about, item.slot) == read_as
