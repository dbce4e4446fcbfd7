"""What a worse reader read is read again, and what it wrote goes where nobody touched it since."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from agentmem import AsyncAgentMemory
from agentmem.errors import InvalidRecord, ModelUnavailable
from agentmem.extraction.plain import extractor
from tests.fakes.scribe import FakeExtractionLLM
from tests.flows.read_turns import open_memory_with_llm, read_summaries

SISTER = "My sister Nora lives in Graz, and she still plays the viola."
HOME = "I live in Lisbon."
VIOLA = {"claim": "Nora plays the viola.", "about": "Nora", "certainty": "explicit", "tense": "current"}
REPLIES = {SISTER: {"facts": [VIOLA]}}


async def read_claims(memory: AsyncAgentMemory) -> set[str]:
    return {fact.claim.rstrip(".") for fact in await memory.semantic.facts()}


async def test_a_window_that_failed_is_read_by_rules_and_again_by_a_model(tmp_path: Path) -> None:
    scribe = FakeExtractionLLM(REPLIES, intercept=lambda _: "no JSON")
    async with open_memory_with_llm(tmp_path, scribe) as memory:
        turns = await memory.store_turns([SISTER, HOME])
        (report,) = await memory.consolidate("consolidate")
        assert report.counts["by_rules"] == 2
        assert report.failed.keys() == {turn.id for turn in turns}
        assert report.has_read_nothing
        assert "The user lives in Lisbon" in await read_claims(memory)
        assert {gloss.extractor for gloss in await read_summaries(memory, turns[0].id)} == {extractor.EXTRACTOR}
        by_rules = await read_claims(memory)
        scribe.intercept = None
        (report,) = await memory.consolidate("consolidate", reread=True)
        assert (report.counts["released"], report.counts["turns"], report.failed) == (2, 2, {})
        assert not report.has_read_nothing
        assert await read_claims(memory) == by_rules | {"Nora plays the viola"}
        (report,) = await memory.consolidate("consolidate", reread=True)
        assert "released" not in report.counts


async def test_what_somebody_touched_stays_and_the_rest_goes(tmp_path: Path) -> None:
    scribe = FakeExtractionLLM(REPLIES, intercept=lambda _: "no JSON")
    async with open_memory_with_llm(tmp_path, scribe) as memory:
        await memory.store_turns([SISTER, HOME])
        await memory.consolidate("consolidate")
        facts = {fact.claim: fact for fact in await memory.semantic.facts()}
        await memory.semantic.supersede_fact(facts["The user lives in Lisbon"].id, "The user lives in Porto")
        scribe.intercept = None
        await memory.consolidate("consolidate", reread=True)
        claims = await read_claims(memory)
        assert {"The user lives in Porto", "Nora plays the viola"} <= claims
        assert "The user lives in Lisbon" not in claims
        assert len(claims) == len(facts) + 1


async def test_nothing_is_released_before_a_day_or_without_the_word(tmp_path: Path) -> None:
    scribe = FakeExtractionLLM(REPLIES, intercept=lambda _: "no JSON")
    async with open_memory_with_llm(tmp_path, scribe) as memory:
        await memory.store_turn(HOME)
        await memory.consolidate("consolidate")
        now = await memory.engine.now(memory.scope)
        (report,) = await memory.consolidate("consolidate", reread=True, since=now + timedelta(days=1))
        assert "released" not in report.counts
        with pytest.raises(InvalidRecord):
            await memory.consolidate("consolidate", by="rules")


async def test_a_model_that_is_away_is_no_success(tmp_path: Path) -> None:
    def leave(_: object) -> str:
        raise ModelUnavailable("away")

    async with open_memory_with_llm(tmp_path, FakeExtractionLLM(intercept=leave)) as memory:
        await memory.store_turn(HOME)
        (report,) = await memory.consolidate("consolidate")
        assert (report.has_read_nothing, report.pending) == (True, 1)
