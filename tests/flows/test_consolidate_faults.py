"""Consolidation when things go wrong: models away, silly or dear, workers that are slow, and turns that vanish."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agentmem.core.changes import Change, WriteAttempt
from agentmem.core.record import Status
from agentmem.errors import InvalidRecord, ModelUnavailable
from agentmem.extraction.reconciler import Reconciler
from agentmem.models.protocols import LLMRequest
from tests.fakes.scribe import SPEC, FakeExtractionLLM
from tests.flows.given import ManualClock
from tests.flows.read_turns import LIVES, REPLIES, open_memory_with_llm, read_summaries


async def test_a_poison_conversation_is_read_by_rules_and_taken_up_again(tmp_path: Path) -> None:
    poison = "POISON makes every reply unusable, as long as it stands here."
    scribe = FakeExtractionLLM(
        REPLIES, intercept=lambda request: "no JSON at all" if "POISON" in request.content else None
    )
    async with open_memory_with_llm(tmp_path, scribe) as memory:
        bad = await memory.store_turn({"content": poison, "conversation_id": "bad"})
        await memory.store_turn({"content": LIVES, "conversation_id": "good"})
        (report,) = await memory.consolidate("consolidate")
        assert list(report.failed) == [bad.id]
        assert "reply cannot be used" in report.failed[bad.id]
        assert (report.parked, report.counts["by_rules"]) == ({}, 1)
        asked = len(scribe.requests)
        (report,) = await memory.consolidate("consolidate")
        assert len(scribe.requests) == asked
        assert not report.failed
        assert [fact.claim for fact in await memory.semantic.facts()] == ["The user lives in Lisbon."]
        scribe.intercept = None
        (report,) = await memory.consolidate("consolidate", reread=True)
        assert (report.failed, report.counts["released"]) == ({}, 1)
        (gloss,) = await read_summaries(memory, bad.id)
        assert gloss.extractor.startswith(SPEC)


async def test_an_unusable_half_costs_its_sibling_nothing(tmp_path: Path) -> None:
    lines = [LIVES, "The first one is quite alright.", "So is the second one, I think.", "POISON is in the fourth."]
    scribe = FakeExtractionLLM(REPLIES, intercept=lambda request: "[]" if "POISON" in request.content else None)
    async with open_memory_with_llm(tmp_path, scribe) as memory:
        turns = await memory.store_turns(lines)
        (report,) = await memory.consolidate("consolidate")
        assert list(report.failed) == [turns[2].id, turns[3].id]
        assert [fact.claim for fact in await memory.semantic.facts()] == ["The user lives in Lisbon."]


async def test_while_the_model_is_away_everything_waits_and_then_catches_up(tmp_path: Path) -> None:
    def away(_: LLMRequest) -> str | None:
        raise ModelUnavailable("scribe: nobody answers")

    scribe = FakeExtractionLLM(REPLIES, intercept=away)
    clock = ManualClock()
    async with open_memory_with_llm(tmp_path, scribe, clock=clock) as memory:
        turn = await memory.store_turn(LIVES)
        for _ in range(5):  # an hour, and longer than the tries that park a turn
            clock.advance(minutes=15)
            (report,) = await memory.consolidate("consolidate")
            assert report.stop_reason
            assert report.pending == 1
            assert not report.failed
        assert not await read_summaries(memory, turn.id)
        assert not await memory.semantic.facts()
        scribe.intercept = None
        (report,) = await memory.consolidate("consolidate")
        assert report.pending == 0
        assert len(await memory.semantic.facts()) == 1


async def test_a_spent_budget_stops_cleanly_and_leaves_the_rest_pending(tmp_path: Path) -> None:
    scribe = FakeExtractionLLM(REPLIES)
    async with open_memory_with_llm(tmp_path, scribe, max_calls=2) as memory:
        for number in range(5):
            await memory.store_turn({"content": f"{LIVES} {number}", "conversation_id": f"chat {number}"})
        (report,) = await memory.consolidate("consolidate")
        assert len(scribe.requests) == 2
        assert report.calls == 2
        assert report.pending == 3
        assert "2 of at most 2 calls" in report.stop_reason
        for _ in range(2):
            await memory.consolidate("consolidate")
        assert (await memory.consolidate("consolidate"))[0].pending == 0
        assert len(scribe.requests) == 5


async def test_two_workers_at_once_extract_each_turn_once(tmp_path: Path) -> None:
    scribes = [FakeExtractionLLM(REPLIES), FakeExtractionLLM(REPLIES)]
    async with open_memory_with_llm(tmp_path, scribes[0]) as one, open_memory_with_llm(tmp_path, scribes[1]) as two:
        for number in range(12):
            said = {"content": f"Line {number} of what is to be read once.", "conversation_id": f"chat {number}"}
            await one.store_turn(said)
        both = (one, two)
        while sum(
            report.pending
            for reports in await asyncio.gather(*(each.consolidate("consolidate") for each in both))
            for report in reports
        ):
            await asyncio.sleep(0)
        read = [
            text for scribe in scribes for request in scribe.requests for text in request.content.split('"text": ')[1:]
        ]
        assert sorted(read) == sorted(set(read))
        assert len(read) == 12


async def test_a_turn_forgotten_while_the_model_reads_leaves_nothing_behind(tmp_path: Path) -> None:
    scribe = FakeExtractionLLM(REPLIES)
    async with open_memory_with_llm(tmp_path, scribe) as memory:
        turn = await memory.store_turn(LIVES)
        complete = scribe.complete

        async def slow(request: LLMRequest) -> Any:
            await memory.forget(turn.id)
            return await complete(request)

        scribe.complete = slow  # type: ignore[method-assign]
        await memory.consolidate("consolidate")
        assert not await memory.semantic.facts()
        assert not await read_summaries(memory, turn.id)


async def test_a_worker_that_was_too_slow_writes_nothing_any_more(tmp_path: Path) -> None:
    scribe = FakeExtractionLLM(REPLIES)
    async with open_memory_with_llm(tmp_path, scribe) as memory:
        turn = await memory.store_turn({"content": LIVES, "conversation_id": "talk"})
        complete, log = scribe.complete, memory.engine.log

        async def late(request: LLMRequest) -> Any:
            name = "consolidate:alice:_global:talk"
            held = await log.database.read(
                lambda db: db.execute("SELECT owner FROM leases WHERE name = ?", (name,)).get
            )
            await log.release_lease(name, held)
            assert await log.acquire_lease(name, 60, "another worker") is not None
            return await complete(request)

        scribe.complete = late  # type: ignore[method-assign]
        (report,) = await memory.consolidate("consolidate")
        assert not await read_summaries(memory, turn.id)
        assert report.pending == 1
        assert any("lease" in note for note in report.notes)


async def test_a_conversation_whose_lease_ran_out_is_read_in_the_same_run(tmp_path: Path) -> None:
    scribe = FakeExtractionLLM(REPLIES)
    async with open_memory_with_llm(tmp_path, scribe) as memory:
        await memory.store_turn({"content": LIVES, "conversation_id": "talk"})
        complete, log, name = scribe.complete, memory.engine.log, "consolidate:alice:_global:talk"

        async def asleep(request: LLMRequest) -> Any:
            if len(scribe.requests) == 0:
                held = await log.database.read(
                    lambda db: db.execute("SELECT owner FROM leases WHERE name = ?", (name,)).get
                )
                await log.release_lease(name, held)
            return await complete(request)

        scribe.complete = asleep  # type: ignore[method-assign]
        (report,) = await memory.consolidate("consolidate")
        assert (report.pending, report.conversations) == (0, 1)
        assert [fact.claim for fact in await memory.semantic.facts()] == ["The user lives in Lisbon."]


async def test_what_cannot_be_settled_is_parked_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    change = Reconciler.build_change

    async def refused(settling: Reconciler, write: WriteAttempt) -> Any:
        if any("BROKEN" in turn.content for turn in settling.window.turns):
            raise InvalidRecord("claim: broken on purpose", field="claim")
        return await change(settling, write)

    monkeypatch.setattr(Reconciler, "build_change", refused)
    async with open_memory_with_llm(tmp_path, FakeExtractionLLM(REPLIES)) as memory:
        bad = await memory.store_turn({"content": "This one is BROKEN for sure.", "conversation_id": "bad"})
        await memory.store_turn({"content": LIVES, "conversation_id": "good"})
        for _ in range(3):
            (report,) = await memory.consolidate("consolidate")
        assert report.parked == {bad.id: "claim: broken on purpose"}
        assert [fact.claim for fact in await memory.semantic.facts()] == ["The user lives in Lisbon."]


async def test_a_gloss_that_was_forgotten_alone_is_written_again(tmp_path: Path) -> None:
    async with open_memory_with_llm(tmp_path, FakeExtractionLLM(REPLIES)) as memory:
        turn = await memory.store_turn(LIVES)
        await memory.consolidate("consolidate")
        (gloss,) = await read_summaries(memory, turn.id)
        gone = gloss.model_copy(update={"status": Status.FORGOTTEN, "superseded_at": gloss.recorded_at})

        async def forget(write: WriteAttempt) -> Change:
            return write.build_change(gone, expected_versions={gloss.key: gloss.seq})

        await memory.engine.write(memory.scope, "forget", forget, kind="Gloss")
        (report,) = await memory.consolidate("consolidate")
        assert not report.failed
        (again,) = await read_summaries(memory, turn.id)
        assert again.superseded_at is None
        assert len(await memory.semantic.facts()) == 1
