"""Claims that only look alike stay two facts, in reading and in the nightly job."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes.scribe import FakeExtractionLLM, TurnReply
from tests.flows.read_turns import open_memory_with_llm

CONTRASTS = [
    ("The choir votes for the new tram line.", "The choir votes against the new tram line."),
    ("The tram runs under the old town.", "The tram runs over the old town."),
    ("The choir will sing at the town hall.", "The choir should sing at the town hall."),
]


@pytest.mark.parametrize("both", CONTRASTS)
async def test_a_contrasting_claim_is_no_second_source(tmp_path: Path, both: tuple[str, str]) -> None:
    replies: dict[str, TurnReply] = {
        claim: {"facts": [{"claim": claim, "certainty": "explicit", "tense": "current"}]} for claim in both
    }
    async with open_memory_with_llm(tmp_path, FakeExtractionLLM(replies)) as memory:
        for claim in both:
            await memory.store_turn(claim)
            await memory.consolidate("consolidate")
        assert (await memory.consolidate("clusters"))[0].counts == {}
        found = await memory.semantic.facts()
        assert {(fact.claim, len(fact.source_turn_ids)) for fact in found} == {(claim, 1) for claim in both}
