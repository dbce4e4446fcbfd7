"""The plain reader: what it reads in five languages, and all the turns in which it must read nothing."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from agentmem.core.records import Fact, Turn
from agentmem.extraction.drafts import Window
from agentmem.extraction.plain.reader import PlainReader
from agentmem.extraction.plain.slot_claim import SlotClaim
from agentmem.extraction.plain.turn_text import mask_turn, read_turn
from agentmem.extraction.plain.window_claims import read_slot_claims

NOW = datetime(2026, 3, 10, 12, tzinfo=UTC)
CASES = [
    json.loads(line) for line in Path(__file__).with_name("plain_cases.jsonl").read_text(encoding="utf-8").splitlines()
]
WORDS = sorted({word for case in CASES for word in case["say"].split(" ")})


def _write(claim: SlotClaim) -> str:
    parts = [f"{claim.subject}.{claim.slot}={claim.value}"]
    parts += [claim.operation] if claim.operation != "is" else []
    parts += [claim.tense] if claim.tense != "current" else []
    parts += [claim.mark] if claim.mark else []
    if claim.tense == "current":
        parts += [f"since {claim.since:%Y-%m-%d}"] if claim.since else []
        parts += [f"until {claim.until:%Y-%m-%d}"] if claim.until else []
    return " ".join(parts)


def test_each_turn_gives_exactly_the_claims_that_are_plainly_said() -> None:
    wrong = []
    for case in CASES:
        found = [_write(claim) for claim in PlainReader().read(case["say"], NOW, case.get("asked", ""))]
        if sorted(found) != sorted(case["want"]):
            wrong.append((case["say"], case["want"], found))
    assert wrong == []
    assert len(CASES) >= 150


@given(st.lists(st.sampled_from(WORDS), max_size=14).map(" ".join) | st.text(max_size=120))
def test_claims_of_any_text_have_spans_inside_of_it(text: str) -> None:
    for claim in PlainReader(["Anna"], {"sister": "Anna"}).read(text, NOW, "Where do you live?"):
        start, end = claim.span
        assert 0 <= start < end <= len(text)


@given(st.text(max_size=200))
def test_masks_keep_the_length_of_a_turn(text: str) -> None:
    assert len(mask_turn(text)) == len(text)
    for sentence in read_turn(text).sentences:
        assert mask_turn(text).startswith(sentence.text, sentence.start)


def test_people_who_are_known_are_read_by_name_and_by_kin() -> None:
    reader = PlainReader(["Nora Lind", "Rex (dog)"], {"sister": "Nora"})
    assert [_write(each) for each in reader.read("Nora lives in Graz.", NOW)] == ["Nora Lind.home=Graz"]
    assert [_write(each) for each in reader.read("My sister is vegan.", NOW)] == ["Nora.diet=vegan"]


def test_a_first_name_of_two_people_tells_nobody() -> None:
    assert PlainReader(["Max Weber", "Max"]).read("Max is vegan.", NOW) == []
    assert PlainReader().read("My boss is Max Weber. My friend Max cooks. He's vegan.", NOW)[2:] == []


def test_a_window_is_read_with_what_is_known_and_asked() -> None:
    turns = [("a", "assistant", "Where do you live?"), ("b", "user", "Ghent"), ("c", "user", "My sister is vegan.")]
    window = Window(
        conversation_id="c",
        channel="_global",
        turns=tuple(
            Turn(id=name, conversation_id="c", index=number, content=text, role=role, timestamp=NOW)
            for number, (name, role, text) in enumerate(turns)
        ),
        known_facts=(Fact(id="f", claim="Anna is the user's sister", subject="user", slot="siblings", value="Anna"),),
    )
    found = {turn: [_write(claim) for claim in claims] for turn, claims in read_slot_claims(window).items()}
    assert found == {"b": ["user.home=Ghent"], "c": ["Anna.diet=vegan"]}
