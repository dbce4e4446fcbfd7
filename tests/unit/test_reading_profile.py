"""Small models are given two turns at a time and asked for six fields."""

from __future__ import annotations

import pytest

from agentmem.core.records import Turn
from agentmem.extraction.drafts import Window
from agentmem.extraction.llm_extractor import FULL, SMALL, ReadingProfile, choose_profile, extract
from agentmem.models.structured_llm import to_strict_schema
from agentmem.text.tokenizer import estimate_tokens
from tests.fakes.recorded_llm import RecordedLLM

LONG = "My sister Nora lives in Graz, and we went there by train. " * 60


@pytest.mark.parametrize(
    "name, context, chosen",
    [
        ("auto", None, FULL),
        ("auto", 4_096, SMALL),
        ("auto", 32_768, FULL),
        ("small", None, SMALL),
        ("full", 4_096, FULL),
    ],
)
def test_the_profile_goes_by_the_setting_and_then_by_the_context(
    name: str, context: int | None, chosen: ReadingProfile
) -> None:
    assert choose_profile(name, context) is chosen


async def test_the_small_profile_fits_4096_tokens_and_reads_facts() -> None:
    texts = (LONG, "I'm allergic to walnuts.")
    spoken = tuple(Turn(id=f"t{n}", conversation_id="c", index=n, content=text) for n, text in enumerate(texts))
    fact = {
        "turn": "2",
        "quote": "allergic to walnuts",
        "about": "P1",
        "slot": "allergies",
        "value": "walnuts",
        "op": "is",
    }
    llm = RecordedLLM({"facts": [fact]})
    result = await extract(Window(conversation_id="c", channel="_global", turns=spoken), llm.structured(), SMALL)
    assert ("t1", "allergies", "walnuts") in {(each.turn_id, each.slot, each.value) for each in result.draft.facts}
    (request,) = llm.requests
    schema = estimate_tokens(str(request.schema))
    assert estimate_tokens(request.system + request.content) + schema + request.max_tokens <= 4_096
    assert to_strict_schema(SMALL.reply)["properties"]["facts"]["items"]["required"] == [
        "turn",
        "quote",
        "about",
        "slot",
        "value",
        "op",
    ]
