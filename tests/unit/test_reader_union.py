"""With a model, whatever it replies, there are never fewer facts than by rules alone, and none is invented."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from agentmem.core.lifecycle import DOUBTFUL
from agentmem.core.records import Turn
from agentmem.errors import InvalidModelOutput
from agentmem.extraction.drafts import Window
from agentmem.extraction.llm_extractor import extract
from agentmem.extraction.plain import extractor
from tests.fakes.recorded_llm import Answer, RecordedLLM

TEXTS = ("My name is Lena Brandt.", "I work at Kestrel Labs.", "I live in Hamburg.", "I'm allergic to walnuts.")
WINDOW = Window(
    conversation_id="c",
    channel="_global",
    turns=tuple(
        Turn(id=f"t{n}", conversation_id="c", index=n, content=text, timestamp=datetime(2026, 3, 4, n, tzinfo=UTC))
        for n, text in enumerate(TEXTS, 1)
    ),
)
BY_RULES = {(fact.turn_id, fact.slot, fact.value) for fact in extractor.extract(WINDOW).facts}


def item(label: Any, slot: str, value: str, **fields: Any) -> dict[str, Any]:
    place = int("".join(c for c in str(label) if c.isdigit()) or 1)
    quote = TEXTS[place - 1] if place <= len(TEXTS) else "I am not there."
    return {"turn": label, "quote": quote, "about": "P1", "slot": slot, "value": value, **fields}


TRUE = [
    item("T1", "name", "Lena Brandt"),
    item("T2", "employer", "Kestrel Labs"),
    item("T3", "home", "Hamburg"),
    item("T4", "allergies", "walnuts"),
]
WHOLE = json.dumps({"facts": TRUE})
USABLE: dict[str, Answer] = {
    "right": {"facts": TRUE},
    "labels as numbers": {"facts": [{**one, "turn": n} for n, one in enumerate(TRUE, 1)]},
    "labels in words": {"facts": [{**one, "turn": f"Turn {n}"} for n, one in enumerate(TRUE, 1)]},
    "slots in words": {"facts": [{**one, "slot": f"P1.{one['slot'].title()}"} for one in TRUE]},
    "a list": TRUE,
    "a wrapper": {"result": {"facts": TRUE}},
    "thoughts": f"<think>T1 may be a name.</think>{WHOLE}",
    "a fence and prose": f"Sure!\n```json\n{WHOLE}\n```\nI left out greetings.",
    "one fact": {"facts": TRUE[:1]},
    "another value": {"facts": [*TRUE[:2], item("T3", "home", "Berlin"), item("T4", "allergies", "almonds")]},
    "the cue as a value": {"facts": [TRUE[0], item("T2", "employer", "work"), item("T3", "home", "live")]},
    "an end that nobody said": {"facts": [{**one, "op": "over"} for one in TRUE[1:]] + TRUE[:1]},
    "an owner that nobody named": {"facts": [TRUE[0], {**TRUE[2], "about": "Mateo"}]},
}
USELESS: dict[str, Answer] = {
    "no JSON": "I am sorry, I cannot do that.",
    "an empty object": {},
    "empty lists": {"facts": [], "entities": [], "relations": [], "turns": []},
    "one empty turn": {"turns": [{"turn": "T1"}], "facts": []},
    "unknown labels": {"facts": [item(f"M{n}", "home", "Hamburg") for n in range(4)], "turns": [{"turn": "T1"}]},
    "other labels": {"facts": [item("T9", "home", "Hamburg")]},
    "quotes that nobody said": {"facts": [{**one, "quote": "I sold everything in June"} for one in TRUE]},
    "refused": InvalidModelOutput("the model refused to answer"),
    "cut at the start": '{"facts": [{"turn": "T1", "quo',
}


async def read(answer: Answer) -> tuple[set[tuple[str, str, str]], dict[str, str], int]:
    llm = RecordedLLM(answer)
    result = await extract(WINDOW, llm.structured())
    believed = [fact for fact in result.draft.facts if fact.certainty != DOUBTFUL]
    return {(fact.turn_id, fact.slot, fact.value) for fact in believed}, dict(result.failed), len(llm.requests)


def test_the_rules_read_each_turn() -> None:
    assert {name for name, _, _ in BY_RULES} == {turn.id for turn in WINDOW.turns}


@pytest.mark.parametrize("shape", USABLE)
async def test_a_usable_reply_adds_to_the_rules(shape: str) -> None:
    facts, failed, calls = await read(USABLE[shape])
    assert (facts, failed, calls) == (BY_RULES, {}, 1)


@pytest.mark.parametrize("shape", USELESS)
async def test_a_useless_reply_leaves_the_rules_and_is_told(shape: str) -> None:
    facts, failed, _ = await read(USELESS[shape])
    assert facts == BY_RULES
    assert failed.keys() == {turn.id for turn in WINDOW.turns}


@pytest.mark.parametrize("shape", ["an empty object", "empty lists", "unknown labels", "quotes that nobody said"])
async def test_a_reply_that_says_nothing_is_asked_for_once_more(shape: str) -> None:
    llm = RecordedLLM(USELESS[shape], USABLE["right"])
    result = await extract(WINDOW, llm.structured())
    assert (len(llm.requests), result.failed) == (2, {})
    assert "of no use" in llm.requests[1].content
    assert len(result.draft.facts) == len(BY_RULES)


async def test_nothing_to_keep_is_an_answer_where_rules_find_nothing() -> None:
    llm = RecordedLLM({"facts": []})
    chat = Window(conversation_id="c", channel="_global", turns=(Turn(id="t", content="What is a fjord, actually?"),))
    result = await extract(chat, llm.structured())
    assert (len(llm.requests), result.failed, result.draft.facts) == (1, {}, ())


async def test_a_more_exact_value_of_the_model_stands_alone() -> None:
    turn = Turn(id="t", conversation_id="c", index=0, content="I live in Hamburg, in Altona.")
    home = {**item("T1", "home", "Hamburg, Altona"), "quote": "I live in Hamburg, in Altona"}
    result = await extract(
        Window(conversation_id="c", channel="_global", turns=(turn,)), RecordedLLM({"facts": [home]}).structured()
    )
    assert len({fact.value for fact in result.draft.facts if fact.slot == "home"}) == 1


async def test_an_open_claim_gains_the_slot_that_a_rule_reads_in_it() -> None:
    home = {"turn": "T3", "quote": "I live in Hamburg", "about": "P1", "claim": "The user lives in Hamburg."}
    result = await extract(WINDOW, RecordedLLM({"facts": [home]}).structured())
    (fact,) = [fact for fact in result.draft.facts if fact.turn_id == "t3"]
    assert (fact.claim, fact.slot, fact.value) == ("The user lives in Hamburg.", "home", "Hamburg")


async def test_what_is_said_for_sure_is_not_doubted_in_the_same_window() -> None:
    replies = {"facts": [TRUE[3], {**TRUE[3], "turn": "T3", "quote": "I live in Hamburg", "op": "over"}, *TRUE[:1]]}
    result = await extract(WINDOW, RecordedLLM(replies).structured())
    claims = [fact.claim for fact in result.draft.facts]
    assert len(claims) == len(set(claims))
