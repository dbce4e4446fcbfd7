"""Turns become knowledge: each read once, in one Change per window, whatever happens to models and workers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agentmem import AsyncAgentMemory
from agentmem.errors import InvalidRecord, ModelUnavailable
from agentmem.extraction.settle import Settling
from agentmem.model.changes import Change, Write
from agentmem.model.records import Gloss, Status
from agentmem.providers import LLMRequest
from agentmem.upkeep.doctor import doctor
from tests.fakes.scribe import SPEC, Said, Scribe, listening
from tests.flows.given import StoppedClock

LIVES = "I live in Lisbon, by the river."
MOVED = "We moved again: I live in Porto now."
PLEASANT = "Hi there, good morning!"
BOOK: dict[str, Said] = {
    LIVES: {
        "facts": [{"claim": "The user lives in Lisbon.", "certainty": "explicit", "temporal": "current",
                   "entities": ["Lisbon"]}],
        "entities": [{"name": "Lisbon", "type": "place"}],
        "standalone": "The user said that home is in Lisbon, by the river.", "keys": ["home town", "residence"],
    },
    MOVED: {
        "facts": [{"claim": "The user lives in Porto.", "certainty": "explicit", "temporal": "current",
                   "entities": ["Porto"], "replaces": "The user lives in Lisbon.", "why_replaced": "changed"}],
        "entities": [{"name": "Porto", "type": "place"}],
        "standalone": "The user moved to Porto.", "keys": ["residence"],
    },
}  # fmt: skip


@asynccontextmanager
async def opened(home: Path, scribe: Scribe, user: str = "alice", **settings: Any) -> AsyncIterator[AsyncAgentMemory]:
    async with AsyncAgentMemory(user, home=home, embedder="hash", llm=SPEC, **settings) as memory:
        yield listening(memory, scribe)


async def glosses(memory: AsyncAgentMemory, *turn_ids: str) -> list[Gloss]:
    found = await memory.resources.log.get("Gloss", turn_ids, memory.scope)
    return [record for record in found if isinstance(record, Gloss)]


async def test_a_turn_becomes_a_fact_with_its_quote_and_a_gloss(tmp_path: Path) -> None:
    async with opened(tmp_path, Scribe(BOOK)) as memory:
        turn = await memory.store_turn(LIVES)
        (report,) = await memory.consolidate()
        (fact,) = await memory.semantic.facts()
        assert (fact.claim, fact.source_turn_ids, fact.source) == ("The user lives in Lisbon.", (turn.id,), "user")
        assert fact.source_spans == ((turn.id, 0, len(LIVES) - 1),)
        assert fact.confidence == 0.95
        (place,) = await memory.semantic.entities("Lisbon")
        assert fact.entity_ids == (place.id,)
        (gloss,) = await glosses(memory, turn.id)
        assert gloss.keys == ("home town", "residence")
        assert gloss.extractor.startswith(SPEC)
        assert report.counts["fact"] == 1
        assert report.calls == 1
        assert report.pending == 0
        (conversation,) = await memory.episodic.conversations()
        assert conversation.consolidated is not None


async def test_a_second_run_without_new_turns_makes_no_call(tmp_path: Path) -> None:
    scribe = Scribe(BOOK)
    async with opened(tmp_path, scribe) as memory:
        await memory.store_turns([LIVES, PLEASANT, "The weather is rather mild for November."])
        await memory.consolidate()
        asked, head = len(scribe.requests), await memory.resources.log.head(memory.scope)
        (report,) = await memory.consolidate()
        assert len(scribe.requests) == asked
        assert report.conversations == 0
        assert (await memory.resources.log.head(memory.scope)).seq == head.seq


async def test_a_turn_is_found_by_the_words_of_its_gloss(tmp_path: Path) -> None:
    async with opened(tmp_path, Scribe(BOOK)) as memory:
        turns = await memory.store_turns([LIVES, *(f"Number {n} of the list was read out." for n in range(30))])
        before = await memory.remember("residence", top_k=3, techniques=["keyword"], reinforce=False)
        await memory.consolidate()
        await memory.flush()
        after = await memory.remember("residence", top_k=3, techniques=["keyword"], reinforce=False)
        assert after.turns[0].id == turns[0].id
        assert before.items[0].score < after.items[0].score


async def test_a_changed_world_supersedes_from_the_day_it_was_said(tmp_path: Path) -> None:
    async with opened(tmp_path, Scribe(BOOK)) as memory:
        await memory.store_turn({"content": LIVES, "timestamp": "2024-01-05T10:00:00Z"})
        await memory.consolidate()
        await memory.store_turn({"content": MOVED, "timestamp": "2024-06-05T10:00:00Z"})
        (report,) = await memory.consolidate()
        assert [fact.claim for fact in await memory.semantic.facts()] == ["The user lives in Porto."]
        now = (await memory.semantic.facts())[0]
        assert now.valid_from is not None
        assert now.valid_from.date().isoformat() == "2024-06-05"
        history = await memory.semantic.history(now.id)
        assert {fact.claim for fact in history} == {"The user lives in Lisbon.", "The user lives in Porto."}
        await memory.undo(report.operation_ids[-1])
        assert [fact.claim for fact in await memory.semantic.facts()] == ["The user lives in Lisbon."]


async def test_pleasantries_cost_no_call_and_the_first_run_reaches_what_matters(tmp_path: Path) -> None:
    scribe = Scribe(BOOK)
    async with opened(tmp_path, scribe) as memory:
        for number in range(20):
            await memory.store_turn({"content": PLEASANT, "conversation_id": f"chat {number}"})
        await memory.store_turn({"content": LIVES, "conversation_id": "real"})
        (report,) = await memory.consolidate()
        assert len(scribe.requests) == 1
        assert report.counts["skipped"] == 20
        assert [fact.claim for fact in await memory.semantic.facts()] == ["The user lives in Lisbon."]
        assert report.pending == 0


async def test_a_poison_conversation_is_parked_after_three_tries_and_told_by_the_doctor(tmp_path: Path) -> None:
    poison = "POISON makes every reply unusable, as long as it stands here."
    scribe = Scribe(BOOK, trouble=lambda request: "no JSON at all" if "POISON" in request.content else None)
    async with opened(tmp_path, scribe) as memory:
        bad = await memory.store_turn({"content": poison, "conversation_id": "bad"})
        await memory.store_turn({"content": LIVES, "conversation_id": "good"})
        for tries in (1, 2, 3):
            (report,) = await memory.consolidate()
            assert list(report.failed) == [bad.id]
            assert bool(report.parked) == (tries == 3)
        asked = len(scribe.requests)
        (report,) = await memory.consolidate()
        assert len(scribe.requests) == asked
        assert not report.failed
        assert [fact.claim for fact in await memory.semantic.facts()] == ["The user lives in Lisbon."]
        findings = await doctor(memory.resources.settings)
        (told,) = [finding for finding in findings if finding.what == "parked" and finding.level == "warning"]
        assert "consolidate" in told.detail
        assert "reply cannot be used" in told.detail
        assert told.fix == "run: agentmem consolidate --again"
        scribe.trouble = None
        (report,) = await memory.consolidate(again=True)
        assert not report.failed
        assert await glosses(memory, bad.id)
    findings = await doctor(memory.resources.settings)
    assert [finding.level for finding in findings if finding.what == "parked"] == ["ok"]


async def test_an_unusable_half_costs_its_sibling_nothing(tmp_path: Path) -> None:
    lines = [LIVES, "The first one is quite alright.", "So is the second one, I think.", "POISON is in the fourth."]
    scribe = Scribe(BOOK, trouble=lambda request: "[]" if "POISON" in request.content else None)
    async with opened(tmp_path, scribe) as memory:
        turns = await memory.store_turns(lines)
        (report,) = await memory.consolidate()
        assert list(report.failed) == [turns[2].id, turns[3].id]
        assert [fact.claim for fact in await memory.semantic.facts()] == ["The user lives in Lisbon."]


async def test_while_the_model_is_away_everything_waits_and_then_catches_up(tmp_path: Path) -> None:
    def away(_: LLMRequest) -> str | None:
        raise ModelUnavailable("scribe: nobody answers")

    scribe = Scribe(BOOK, trouble=away)
    clock = StoppedClock()
    async with opened(tmp_path, scribe, clock=clock) as memory:
        turn = await memory.store_turn(LIVES)
        for _ in range(5):  # an hour, and longer than the tries that park a turn
            clock.ahead(minutes=15)
            (report,) = await memory.consolidate()
            assert report.stopped
            assert report.pending == 1
            assert not report.failed
        assert not await glosses(memory, turn.id)
        assert not await memory.semantic.facts()
        scribe.trouble = None
        (report,) = await memory.consolidate()
        assert report.pending == 0
        assert len(await memory.semantic.facts()) == 1


async def test_a_spent_budget_stops_cleanly_and_leaves_the_rest_pending(tmp_path: Path) -> None:
    scribe = Scribe(BOOK)
    async with opened(tmp_path, scribe, max_calls=2) as memory:
        for number in range(5):
            await memory.store_turn({"content": f"{LIVES} {number}", "conversation_id": f"chat {number}"})
        (report,) = await memory.consolidate()
        assert len(scribe.requests) == 2
        assert report.calls == 2
        assert report.pending == 3
        assert "2 of at most 2 calls" in report.stopped
        for _ in range(2):
            await memory.consolidate()
        assert (await memory.consolidate())[0].pending == 0
        assert len(scribe.requests) == 5


async def test_two_workers_at_once_extract_each_turn_once(tmp_path: Path) -> None:
    scribes = [Scribe(BOOK), Scribe(BOOK)]
    async with opened(tmp_path, scribes[0]) as one, opened(tmp_path, scribes[1]) as two:
        for number in range(12):
            said = {"content": f"Line {number} of what is to be read once.", "conversation_id": f"chat {number}"}
            await one.store_turn(said)
        while sum(report.pending for reports in await asyncio.gather(one.consolidate(), two.consolidate())
                  for report in reports):  # fmt: skip
            await asyncio.sleep(0)
        read = [text for scribe in scribes for request in scribe.requests
                for text in request.content.split('"text": ')[1:]]  # fmt: skip
        assert sorted(read) == sorted(set(read))
        assert len(read) == 12


async def test_what_is_doubtful_becomes_a_review_and_is_never_recalled(tmp_path: Path) -> None:
    text = "I might look at flats in Porto one day, who knows."
    book = {text: {"facts": [{"claim": "The user owns a castle in Wales.", "quote": "I own a castle in Wales"}]}}
    async with opened(tmp_path, Scribe(book)) as memory:
        turn = await memory.store_turn(text)
        await memory.consolidate()
        assert not await memory.semantic.facts()
        (review,) = await memory.semantic.reviews()
        assert review.about == "ungrounded"
        assert review.source_turn_ids == (turn.id,)
        bundle = await memory.remember("who owns a castle in Wales?")
        assert not bundle.facts
        assert "castle" not in str(bundle)
        await memory.semantic.resolve_review(review.id, "accept")
        assert [fact.claim for fact in await memory.semantic.facts()] == ["The user owns a castle in Wales."]


async def test_a_contradiction_goes_by_the_verdict(tmp_path: Path) -> None:
    new = {"claim": "The user has 3 cats.", "certainty": "explicit"}
    for verdict, current, waiting in (
        ("prefer_new", ["The user has 3 cats."], 0),
        ("flag_review", ["The user has 2 cats."], 1),
        ("prefer_old", ["The user has 2 cats."], 1),
        ("unrelated", ["The user has 2 cats.", "The user has 3 cats."], 0),
    ):
        text = "I have 3 cats, all in all, these days."
        pair = ("The user has 3 cats.", "The user has 2 cats.")
        scribe = Scribe({text: {"facts": [new]}}, verdicts={pair: verdict})
        async with opened(tmp_path / verdict, scribe) as memory:
            await memory.learn_fact("The user has 2 cats.")
            await memory.flush()
            await memory.store_turn(text)
            await memory.consolidate()
            assert sorted(fact.claim for fact in await memory.semantic.facts()) == current
            assert len(await memory.semantic.reviews()) == waiting


async def test_the_same_said_again_adds_a_source_and_no_second_fact(tmp_path: Path) -> None:
    again = "As I said: Lisbon is where I live."
    book = {**BOOK, again: BOOK[LIVES]}
    async with opened(tmp_path, Scribe(book)) as memory:
        first = await memory.store_turn(LIVES)
        await memory.consolidate()
        second = await memory.store_turn(again)
        await memory.consolidate()
        (fact,) = await memory.semantic.facts()
        assert fact.source_turn_ids == (first.id, second.id)
        assert len(await memory.semantic.entities()) == 1


async def test_a_dry_run_reads_and_writes_nothing(tmp_path: Path) -> None:
    scribe = Scribe(BOOK)
    async with opened(tmp_path, scribe) as memory:
        await memory.store_turns([LIVES, PLEASANT])
        head = await memory.resources.log.head(memory.scope)
        (report,) = await memory.consolidate(dry_run=True)
        assert report.dry_run
        assert report.counts == {"turns": 2, "windows": 1}
        assert report.pending == 1
        assert not scribe.requests
        assert (await memory.resources.log.head(memory.scope)).seq == head.seq


async def test_a_turn_forgotten_while_the_model_reads_leaves_nothing_behind(tmp_path: Path) -> None:
    scribe = Scribe(BOOK)
    async with opened(tmp_path, scribe) as memory:
        turn = await memory.store_turn(LIVES)
        complete = scribe.complete

        async def slow(request: LLMRequest) -> Any:
            await memory.forget(turn.id)
            return await complete(request)

        scribe.complete = slow  # type: ignore[method-assign]
        await memory.consolidate()
        assert not await memory.semantic.facts()
        assert not await glosses(memory, turn.id)


async def test_an_agents_own_words_go_to_its_private_channel(tmp_path: Path) -> None:
    promise = "I will keep the reports under two pages from now on."
    book = {promise: {"facts": [{"claim": "The agent keeps reports under two pages.", "subject": "agent",
                                 "certainty": "explicit"}]}}  # fmt: skip
    async with opened(tmp_path, Scribe(book)) as memory:
        helper = memory.scoped(agent_id="helper")
        await helper.store_turns([{"content": LIVES}, {"content": promise, "role": "assistant"}])
        await memory.consolidate()
        assert not [fact for fact in await memory.semantic.facts() if "pages" in fact.claim]
        (own,) = [fact for fact in await helper.semantic.facts() if "pages" in fact.claim]
        assert own.channel == "_self_helper"
        assert own.source == "agent"
        assert own.trust < 1


async def test_without_a_model_rules_fill_the_graph(tmp_path: Path) -> None:
    async with AsyncAgentMemory("alice", home=tmp_path, embedder="hash") as memory:
        await memory.store_turns([PLEASANT, "I'm allergic to peanuts. My sister Anna lives in Berlin."])
        (report,) = await memory.consolidate()
        facts = await memory.semantic.facts()
        assert any("allergic to peanuts" in fact.claim for fact in facts)
        assert report.calls == 0
        assert {fact.source for fact in facts} == {"rules"}
        assert "Anna" in {entity.name for entity in await memory.semantic.entities()}
        assert (await memory.consolidate())[0].conversations == 0


async def test_an_unknown_job_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    async with AsyncAgentMemory("alice", home=tmp_path, embedder="hash") as memory:
        with pytest.raises(InvalidRecord, match="consolidate"):
            await memory.consolidate("tidy")


async def test_a_worker_that_was_too_slow_writes_nothing_any_more(tmp_path: Path) -> None:
    scribe = Scribe(BOOK)
    async with opened(tmp_path, scribe) as memory:
        turn = await memory.store_turn({"content": LIVES, "conversation_id": "talk"})
        complete, log = scribe.complete, memory.resources.log

        async def late(request: LLMRequest) -> Any:
            name = "consolidate:alice:_global:talk"
            held = await log.database.read(
                lambda db: db.execute("SELECT owner FROM leases WHERE name = ?", (name,)).get
            )
            await log.release(name, held)
            assert await log.lease(name, 60, "another worker") is not None
            return await complete(request)

        scribe.complete = late  # type: ignore[method-assign]
        (report,) = await memory.consolidate()
        assert not await glosses(memory, turn.id)
        assert report.pending == 1
        assert "lease" in report.notes[-1]


async def test_what_cannot_be_settled_is_parked_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    change = Settling.change

    async def refused(settling: Settling, write: Write) -> Any:
        if any("BROKEN" in turn.content for turn in settling.window.turns):
            raise InvalidRecord("claim: broken on purpose", field="claim")
        return await change(settling, write)

    monkeypatch.setattr(Settling, "change", refused)
    async with opened(tmp_path, Scribe(BOOK)) as memory:
        bad = await memory.store_turn({"content": "This one is BROKEN for sure.", "conversation_id": "bad"})
        await memory.store_turn({"content": LIVES, "conversation_id": "good"})
        for _ in range(3):
            (report,) = await memory.consolidate()
        assert report.parked == {bad.id: "claim: broken on purpose"}
        assert [fact.claim for fact in await memory.semantic.facts()] == ["The user lives in Lisbon."]


async def test_a_gloss_that_was_forgotten_alone_is_written_again(tmp_path: Path) -> None:
    async with opened(tmp_path, Scribe(BOOK)) as memory:
        turn = await memory.store_turn(LIVES)
        await memory.consolidate()
        (gloss,) = await glosses(memory, turn.id)
        gone = gloss.model_copy(update={"status": Status.FORGOTTEN, "superseded_at": gloss.recorded_at})

        async def forget(write: Write) -> Change:
            return write.change(gone, expects={gloss.key: gloss.seq})

        await memory.resources.write(memory.scope, "forget", forget, kind="Gloss")
        (report,) = await memory.consolidate()
        assert not report.failed
        (again,) = await glosses(memory, turn.id)
        assert again.superseded_at is None
        assert len(await memory.semantic.facts()) == 1


async def test_facts_whose_premise_fell_are_asked_about_once(tmp_path: Path) -> None:
    async with opened(tmp_path, Scribe()) as memory:
        home = await memory.learn_fact("The user lives in Lisbon.")
        kept = await memory.learn_fact("The user surfs at Caparica.", depends_on=[home.id])
        gone = await memory.learn_fact("The user takes tram 28.", depends_on=[home.id])
        assert not (await memory.consolidate())[0].counts
        await memory.semantic.supersede_fact(home.id, "The user lives in Porto.")
        (report,) = await memory.consolidate()
        assert report.counts == {"review": 2}
        reviews = {review.record_ids[0]: review for review in await memory.semantic.reviews()}
        assert set(reviews) == {kept.id, gone.id}
        assert "which no longer holds" in reviews[kept.id].question
        await memory.semantic.resolve_review(reviews[kept.id].id, "accept")
        await memory.semantic.resolve_review(reviews[gone.id].id, "reject")
        assert not (await memory.consolidate())[0].counts
        bundle = await memory.remember("what does the user do?", reinforce=False)
        stale = {fact.claim: bool(fact.fallen_premise) for fact in bundle.facts}
        assert stale["The user surfs at Caparica."] is False
        assert stale["The user takes tram 28."] is True
