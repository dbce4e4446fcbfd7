"""Reading a window with a language model: what it is given, how often it is asked, and what fails how."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import Any

import pytest

from agentmem.beliefs.slots import builtin_slots
from agentmem.core.records import Entity, Fact, Turn
from agentmem.errors import BudgetExceeded, InvalidModelOutput, ModelUnavailable
from agentmem.extraction.drafts import TurnSummaryDraft, Window
from agentmem.extraction.llm_extractor import PURPOSE, PURPOSE_AGENT, extract, extractor_name
from agentmem.extraction.reply_schema import ExtractionReply
from agentmem.extraction.windows import split_into_windows
from agentmem.models.structured_llm import Budget
from agentmem.text.templates import load_templates
from tests.fakes.recorded_llm import RecordedLLM

SAID = datetime(2026, 3, 4, 10, tzinfo=UTC)
DAY = "Wednesday 2026-03-04"
NOTHING: dict[str, Any] = {"turns": []}
IDS = "0190a1b2-3c4d-7000-8000-00000000000"


def turns(*texts: str, first: int = 1, **fields: Any) -> tuple[Turn, ...]:
    return tuple(
        Turn(id=f"{IDS}{n}", conversation_id="c", index=n, timestamp=SAID, content=text, **fields)
        for n, text in enumerate(texts, first)
    )


def window(*texts: str, **fields: Any) -> Window:
    return Window(conversation_id="c", channel="_global", **{"turns": turns(*texts), **fields})


def fact(claim: str, quote: str, label: str = "T1", **fields: Any) -> dict[str, Any]:
    return {"turn": label, "claim": claim, "quote": quote, "about": "P1", **fields}


async def test_the_model_is_given_labels_and_words_but_no_ids() -> None:
    llm = RecordedLLM(NOTHING)
    given = window(
        "I row on the Thames.",
        context_turns=turns("Where do you row?", first=8, speaker="Bob"),
        participants=("Ann", "Bob"),
        known_facts=(Fact(id=f"{IDS}6", claim="Ann rows."),),
        known_entities=(Entity(id=f"{IDS}7", name="Thames", type="place"),),
    )
    await extract(given, llm.structured())
    request = llm.requests[0]
    lead, _, data = request.content.partition("\n")
    assert "data" in lead
    assert json.loads(data) == {
        "participants": ["Ann", "Bob"],
        "known_entities": ["Thames (place)"],
        "people": {"P1": "the user"},
        "known_facts": {"F1": "Ann rows."},
        "earlier": [{"label": "C1", "role": "user", "speaker": "Bob", "text": "Where do you row?", "date": DAY}],
        "turns": [{"label": "T1", "role": "user", "text": "I row on the Thames.", "date": DAY}],
    }
    assert "0190" not in request.system + request.content


async def test_the_fixed_part_is_the_same_for_every_window() -> None:
    llm = RecordedLLM(NOTHING)
    for text in ("I row on the Thames.", "I bake bread every day."):
        await extract(window(text), llm.structured())
    assert len({(request.system, request.purpose) for request in llm.requests}) == 1
    assert "instruction" in llm.requests[0].system


async def test_room_for_the_reply_grows_with_the_window_and_is_bounded() -> None:
    llm = RecordedLLM(NOTHING)
    for texts in (["I row boats."], ["I row boats."] * 6, ["I row boats. " * 900], ["x" * 30_000] * 3):
        await extract(window(*texts), llm.structured())
    room = [request.max_tokens for request in llm.requests]
    assert room == sorted(room)
    assert room[0] < room[1] < room[2] < room[3] == 16_000
    assert len(llm.requests[-1].content) < 80_000  # of each turn only the beginning is read


async def test_pleasantries_cost_no_call() -> None:
    llm = RecordedLLM(NOTHING)
    spending = Budget()
    read = await extract(window("Hello!", "Thanks so much, bye!", agent_id="a"), llm.structured(spending))
    assert (llm.requests, spending.total.calls, read.failed) == ([], 0, {})
    assert read.draft.summaries == (TurnSummaryDraft(turn_id=f"{IDS}1"), TurnSummaryDraft(turn_id=f"{IDS}2"))


async def test_every_turn_gets_one_gloss() -> None:
    said = [{"turn": "T2", "standalone": "The user bakes bread.", "keys": ["baking"], "leans_on": ["T1", "T9", "T2"]}]
    llm = RecordedLLM({"turns": [*said, *said, {"turn": "T7"}]})
    read = await extract(window("I row boats.", "And I bake bread."), llm.structured())
    assert read.draft.summaries == (
        TurnSummaryDraft(turn_id=f"{IDS}1"),
        TurnSummaryDraft(
            turn_id=f"{IDS}2", standalone="The user bakes bread.", keys=("baking",), context_turn_ids=(f"{IDS}1",)
        ),
    )
    assert read.draft.notes == ("gloss: turn unknown",)


async def test_the_assistants_turns_are_asked_about_on_their_own() -> None:
    own = fact("The assistant promised to send the report.", "I will send the report", "T2", about="agent")
    llm = RecordedLLM(NOTHING, by_purpose={PURPOSE_AGENT: [{"facts": [own]}]})
    mixed = (*turns("Please send the report."), *turns("I will send the report.", first=2, role="assistant"))
    read = await extract(window(turns=mixed, agent_id="helper"), llm.structured())
    assert [request.purpose for request in llm.requests] == [PURPOSE, PURPOSE_AGENT]
    assert [(each.claim, each.agent_private) for each in read.draft.facts] == [(own["claim"], True)]
    assert llm.requests[0].system != llm.requests[1].system


@pytest.mark.parametrize(
    "agent_id, text",
    [(None, "I will send the report."), ("helper", "Sure!"), ("helper", "Reports are due on Friday, as a rule.")],
)
async def test_without_an_agent_or_a_word_of_its_own_there_is_no_second_call(agent_id: str | None, text: str) -> None:
    llm = RecordedLLM(NOTHING)
    mixed = (*turns("Please send the report."), *turns(text, first=2, role="assistant"))
    await extract(window(turns=mixed, agent_id=agent_id), llm.structured())
    assert [request.purpose for request in llm.requests] == [PURPOSE]


async def test_a_bad_reply_is_split_once_and_what_the_other_half_gave_is_kept() -> None:
    good = {"turns": [], "facts": [fact("The user bakes bread.", "I bake bread", "T2")]}
    llm = RecordedLLM("{", "{", "{", "{", good)
    read = await extract(window("I row boats.", "I sail a lot.", "I bake bread."), llm.structured())
    assert len(llm.requests) == 5  # the window, its repair; the first half, its repair; the second half
    assert [(each.turn_id, each.review_reason) for each in read.draft.facts] == [(f"{IDS}3", "")]
    assert set(read.failed) == {f"{IDS}1"}
    assert "cannot be used" in read.failed[f"{IDS}1"]
    assert [gloss.turn_id for gloss in read.draft.summaries] == [f"{IDS}2", f"{IDS}3"]
    assert "I row boats." in json.loads(llm.requests[4].content.partition("\n")[2])["earlier"][0]["text"]


async def test_a_single_turn_is_tried_once_more_with_more_room() -> None:
    good = {"turns": [], "facts": [fact("The user rows boats.", "I row boats")]}
    llm = RecordedLLM(InvalidModelOutput("cut off"), good)
    read = await extract(window("I row boats."), llm.structured())
    assert [each.claim for each in read.draft.facts] == ["The user rows boats."]
    assert llm.requests[1].max_tokens == 2 * llm.requests[0].max_tokens
    again = RecordedLLM(InvalidModelOutput("cut off"))
    read = await extract(window("I row boats."), again.structured())
    assert (len(again.requests), read.draft.summaries, read.failed) == (2, (), {f"{IDS}1": "cut off"})


async def test_what_was_whole_of_a_cut_reply_is_kept_and_its_other_turns_have_failed() -> None:
    cut = json.dumps({"facts": [fact("The user rows boats.", "I row boats")]})[:-2] + ', {"turn": "T2", "quo'
    read = await extract(window("I row boats.", "I bake bread."), RecordedLLM("{", "{", cut).structured())
    assert [each.claim for each in read.draft.facts] == ["The user rows boats."]
    assert set(read.failed) == {f"{IDS}2"}


async def test_nothing_of_a_failed_turn_is_left_in_the_draft() -> None:
    mixed = (*turns("I row boats."), *turns("I will send the report.", first=2, role="assistant"))
    said = {
        "turns": [{"turn": "T2", "standalone": "A report will be sent."}],
        "facts": [fact("The user rows boats.", "I row boats")],
    }
    llm = RecordedLLM(said, by_purpose={PURPOSE_AGENT: ["no JSON"]})
    read = await extract(window(turns=mixed, agent_id="helper"), llm.structured())
    assert [each.turn_id for each in read.draft.facts] == [f"{IDS}1"]
    assert [each.turn_id for each in read.draft.summaries] == [f"{IDS}1"]
    assert set(read.failed) == {f"{IDS}2"}


@pytest.mark.parametrize("error", [ModelUnavailable("away"), BudgetExceeded("spent")])
async def test_a_model_that_is_away_and_a_spent_budget_are_told(error: Exception) -> None:
    llm = RecordedLLM(error)
    with pytest.raises(type(error)):
        await extract(window("I row boats.", "I bake bread."), llm.structured())
    assert len(llm.requests) == 1


async def test_a_hundred_turns_cost_a_tenth_of_a_call_for_each_turn_and_kind() -> None:
    spoken = [
        Turn(id=f"t{n}", conversation_id="c", index=n, content=f"I saw film number {n}.", role=role)
        for n, role in enumerate(["user", "assistant"] * 50)
    ]
    llm = RecordedLLM(NOTHING, by_purpose={PURPOSE_AGENT: [{"facts": []}]})
    for some in split_into_windows(spoken):
        await extract(window(turns=tuple(some), agent_id="helper"), llm.structured())
    kinds = ("entities", "facts", "relations", "glosses")
    assert len(llm.requests) == 17
    assert len(llm.requests) <= 0.25 * len(spoken) * len(kinds)


def test_the_extractor_is_named_after_its_model_and_its_prompts() -> None:
    assert extractor_name("anthropic:claude-haiku-4-5") == "anthropic:claude-haiku-4-5/4"


def test_the_prompt_lists_each_slot_by_how_many_values_it_holds() -> None:
    lines = load_templates("agentmem.extraction", "extract.md")["system"].splitlines()
    one, many = (
        next(line.removeprefix(start).rstrip(".").split(", ") for line in lines if line.startswith(start))
        for start in ("Slots of one value: ", "Of many: ")
    )
    kinds = {name: slot.kind == "set" for name, slot in builtin_slots().items()}
    assert dict.fromkeys(one, False) | dict.fromkeys(many, True) == kinds


def test_the_examples_of_the_prompt_are_replies() -> None:
    text = load_templates("agentmem.extraction", "extract.md")["system"]
    found = [json.JSONDecoder().raw_decode(text, at.start())[0] for at in re.finditer(r'\{"facts"', text)]
    replies = [ExtractionReply.model_validate(each) for each in found]
    assert [len(reply.facts) for reply in replies] == [2, 0]
    assert not any(reply.notes for reply in replies)


async def test_a_date_is_told_once() -> None:
    llm = RecordedLLM(NOTHING)
    await extract(window("I row boats.", "I bake bread."), llm.structured())
    assert ["date" in turn for turn in json.loads(llm.requests[0].content.partition("\n")[2])["turns"]] == [True, False]
