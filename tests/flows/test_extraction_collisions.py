"""What somebody else forgets, merges or changes while a window is read or settled: nothing of it is left behind."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agentmem import AsyncAgentMemory
from agentmem.extraction.reconciler import _ChangeBuilder
from agentmem.jobs.builtin import consolidate
from agentmem.memory.semantic.memory import SemanticMemory
from agentmem.models.protocols import LLMRequest
from tests.fakes.scribe import SPEC, FakeExtractionLLM, TurnReply, install_extraction_llm
from tests.flows.meanwhile import run_once_before, run_once_before_append
from tests.flows.read_turns import LIVES, MOVED, REPLIES, open_memory_with_llm, read_summaries

WINDY = "It is quite windy there, I must say, all year round."
READ: TurnReply = {"standalone": "It is quite windy in Lisbon all year round.", "keys": ["weather in Lisbon"]}
UNSURE: dict[str, TurnReply] = {
    MOVED: {**REPLIES[MOVED], "facts": [{**REPLIES[MOVED]["facts"][0], "certainty": "uncertain"}]}
}
CATS, OLD_CATS, NEW_CATS = "I have 3 cats, all in all, these days.", "The user has 2 cats.", "The user has 3 cats."


class Leaning(FakeExtractionLLM):
    """A model that takes something from all that it is shown."""

    def _read(self, data: Mapping[str, Any]) -> dict[str, Any]:
        reply = super()._read(data)
        for item in reply["turns"]:
            item["leans_on"] = [turn["label"] for turn in (*data.get("earlier", ()), *data["turns"])]
        return reply


def while_it_answers(
    scribe: FakeExtractionLLM, act: Callable[[], Awaitable[Any]], purpose: str = "extract"
) -> list[str]:
    """Do something once while the model answers a request for this purpose; the list is filled when it was done."""
    complete, done = scribe.complete, list[str]()

    async def slow(request: LLMRequest) -> Any:
        if request.purpose == purpose and not done:
            done.append(purpose)
            await act()
        return await complete(request)

    scribe.complete = slow  # type: ignore[method-assign]
    return done


async def claims(memory: AsyncAgentMemory) -> list[str]:
    return sorted(fact.claim for fact in await memory.semantic.facts())


@pytest.mark.parametrize("when", ["reading", "settling"])
@pytest.mark.parametrize("hard", [True, False])
@pytest.mark.parametrize("where", ["earlier", "window"])
async def test_a_gloss_takes_nothing_from_a_turn_that_was_forgotten_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str, hard: bool, when: str
) -> None:
    scribe = Leaning({LIVES: {}, WINDY: READ})
    async with open_memory_with_llm(tmp_path, scribe) as memory:
        lives = await memory.store_turn(LIVES)
        if where == "earlier":
            await memory.consolidate("consolidate")
        windy = await memory.store_turn(WINDY)

        async def forget() -> None:
            await memory.forget(lives.id, hard=hard)

        if when == "reading":
            done = while_it_answers(scribe, forget)
        else:
            done = run_once_before_append(monkeypatch, memory.engine, "consolidate", forget)
        (report,) = await memory.consolidate("consolidate")
        (gloss,) = await read_summaries(memory, windy.id)
        assert (len(done), gloss.search_text(), gloss.source_turn_ids) == (1, "", (windy.id,))
        assert (report.failed, report.pending) == ({}, 0)


async def test_a_gloss_keeps_what_it_takes_from_turns_that_are_there(tmp_path: Path) -> None:
    async with open_memory_with_llm(tmp_path, Leaning({LIVES: {}, WINDY: READ})) as memory:
        lives = await memory.store_turn(LIVES)
        await memory.consolidate("consolidate")
        windy = await memory.store_turn(WINDY)
        await memory.consolidate("consolidate")
        (gloss,) = await read_summaries(memory, windy.id)
        assert (gloss.standalone, gloss.source_turn_ids) == (READ["standalone"], (windy.id, lives.id))


@pytest.mark.parametrize("when", ["reading", "settling"])
@pytest.mark.parametrize("hard", [True, False])
async def test_no_question_quotes_a_fact_that_was_forgotten_while_the_model_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hard: bool, when: str
) -> None:
    scribe = FakeExtractionLLM(UNSURE)
    async with open_memory_with_llm(tmp_path, scribe) as memory:
        known = await memory.learn_fact("The user lives in Lisbon.", slot="")
        await memory.flush()
        await memory.store_turn(MOVED)

        async def forget() -> None:
            await memory.forget(known.id, hard=hard)

        if when == "reading":
            done = while_it_answers(scribe, forget)
        else:
            done = run_once_before_append(monkeypatch, memory.engine, "consolidate", forget)
        (report,) = await memory.consolidate("consolidate")
        assert (len(done), report.failed) == (1, {})
        assert [review.question for review in await memory.semantic.reviews()] == []
        assert await claims(memory) == ["The user lives in Porto."]


@pytest.mark.parametrize("when", ["judging", "settling"])
@pytest.mark.parametrize("verdict", ["flag_review", "prefer_old"])
async def test_nothing_is_asked_because_of_a_fact_that_was_forgotten_while_it_was_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verdict: str, when: str
) -> None:
    book: dict[str, TurnReply] = {CATS: {"facts": [{"claim": NEW_CATS, "certainty": "explicit"}]}}
    scribe = FakeExtractionLLM(book, verdicts={(NEW_CATS, OLD_CATS): verdict})
    async with open_memory_with_llm(tmp_path, scribe) as memory:
        known = await memory.learn_fact(OLD_CATS)
        await memory.flush()
        await memory.store_turn(CATS)

        async def forget() -> None:
            await memory.forget(known.id, hard=True)

        if when == "judging":
            done = while_it_answers(scribe, forget, "verdict")
        else:
            done = run_once_before_append(monkeypatch, memory.engine, "consolidate", forget)
        await memory.consolidate("consolidate")
        assert len(done) == 1
        assert [review.question for review in await memory.semantic.reviews()] == []
        assert await claims(memory) == [NEW_CATS]


async def test_a_claim_is_not_learned_in_the_words_of_a_fact_that_was_erased(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_memory_with_llm(tmp_path, FakeExtractionLLM(REPLIES)) as memory:
        known = await memory.learn_fact("the user lives in LISBON", slot="")
        await memory.flush()
        await memory.store_turn(LIVES)

        async def forget() -> None:
            await memory.forget(known.id, hard=True)

        done = run_once_before(monkeypatch, SemanticMemory, "build_learn_change", forget)
        await memory.consolidate("consolidate")
        assert (len(done), await claims(memory)) == (1, ["The user lives in Lisbon."])


async def test_nothing_rests_on_a_turn_that_was_forgotten_while_its_facts_were_settled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_memory_with_llm(tmp_path, FakeExtractionLLM(REPLIES)) as memory:
        turn = await memory.store_turn(LIVES)
        done = run_once_before(monkeypatch, SemanticMemory, "build_learn_change", lambda: memory.forget(turn.id))
        await memory.consolidate("consolidate")
        assert (len(done), await claims(memory), await read_summaries(memory, turn.id)) == (1, [], [])


async def test_a_fact_is_about_what_an_entity_became_while_it_was_settled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_memory_with_llm(tmp_path, FakeExtractionLLM(REPLIES)) as memory:
        kept, other = [await memory.upsert_entity({"name": name, "type": "place"}) for name in ("White City", "Lisbon")]
        turn = await memory.store_turn(LIVES)
        done = run_once_before(
            monkeypatch, _ChangeBuilder, "add_facts", lambda: memory.semantic.merge_entities(kept.id, other.id)
        )
        await memory.consolidate("consolidate")
        (fact,) = await memory.semantic.facts()
        assert (len(done), fact.entity_ids, fact.source_turn_ids) == (1, (kept.id,), (turn.id,))


async def test_no_question_names_somebody_who_was_forgotten_while_it_was_put(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "Anna Berg came to dinner on Sunday evening."
    book: dict[str, TurnReply] = {text: {"entities": [{"name": "Anna Berg", "type": "person"}]}}
    async with open_memory_with_llm(tmp_path, FakeExtractionLLM(book)) as memory:
        anna = await memory.upsert_entity({"name": "Anna", "type": "person"})
        await memory.store_turn(text)
        done = run_once_before(monkeypatch, _ChangeBuilder, "add_facts", lambda: memory.forget(anna.id, hard=True))
        await memory.consolidate("consolidate")
        assert (len(done), [review.question for review in await memory.semantic.reviews()]) == (1, [])
        assert [entity.name for entity in await memory.semantic.entities()] == ["Anna Berg"]


async def test_a_name_like_one_of_another_channel_is_an_entity_of_its_own(tmp_path: Path) -> None:
    text = "The Lisbon Chess Club meets on Sunday."
    book: dict[str, TurnReply] = {text: {"entities": [{"name": "The Lisbon Chess Club", "type": "organisation"}]}}
    async with AsyncAgentMemory("alice", home=tmp_path, embedder="local", llm=SPEC) as memory:
        install_extraction_llm(memory, FakeExtractionLLM(book))
        await memory.upsert_entity({"name": "Lisbon Chess Club", "type": "organisation"})
        await memory.flush()
        work = memory.scoped(channel="work")
        await work.store_turn(text)
        (report,) = await memory.consolidate("consolidate")
        assert (report.failed, report.pending) == ({}, 0)
        found = {entity.channel: entity.name for entity in await work.semantic.entities()}
        assert found == {"_global": "Lisbon Chess Club", "work": "The Lisbon Chess Club"}


@asynccontextmanager
async def with_fallen_ground(home: Path) -> AsyncIterator[tuple[AsyncAgentMemory, str, str, list[str]]]:
    """A memory with two facts whose premise fell; with the ids of the premise, of its end, and of the two."""
    async with open_memory_with_llm(home, FakeExtractionLLM()) as memory:
        home_town = await memory.learn_fact("The user lives in Lisbon.", slot="")
        resting = [
            await memory.learn_fact(claim, depends_on=[home_town.id])
            for claim in ("The user surfs at Caparica.", "The user takes tram 28.")
        ]
        moved = await memory.semantic.supersede_fact(home_town.id, "The user lives in Porto.", slot="")
        yield memory, home_town.id, moved.operation_id, [fact.id for fact in resting]


@pytest.mark.parametrize("fate", ["erased", "back"])
@pytest.mark.parametrize("moment", ["build", "append"])
async def test_nobody_is_asked_about_a_premise_that_is_erased_or_back_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str, fate: str
) -> None:
    async with with_fallen_ground(tmp_path) as (memory, premise, operation_id, _):

        async def change() -> None:
            await (memory.forget(premise, hard=True) if fate == "erased" else memory.undo(operation_id))

        if moment == "build":
            done = run_once_before(monkeypatch, consolidate, "_write_reviews", change)
        else:
            done = run_once_before_append(monkeypatch, memory.engine, "consolidate", change)
        (report,) = await memory.consolidate("consolidate")
        assert (len(done), report.counts) == (1, {})
        assert [review.question for review in await memory.semantic.reviews()] == []


@pytest.mark.parametrize("moment", ["build", "append"])
async def test_a_stale_fact_that_changes_meanwhile_keeps_nobody_from_being_asked_about_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    async with with_fallen_ground(tmp_path) as (memory, _, _, (surfs, tram)):

        async def change() -> None:
            await memory.semantic.boost_salience(surfs, 0.2)

        if moment == "build":
            done = run_once_before(monkeypatch, consolidate, "_write_reviews", change)
        else:
            done = run_once_before_append(monkeypatch, memory.engine, "consolidate", change)
        (report,) = await memory.consolidate("consolidate")
        assert (len(done), report.counts) == (1, {"review": 1})
        assert [review.record_ids[0] for review in await memory.semantic.reviews()] == [tram]
        assert (await memory.consolidate("consolidate"))[0].counts == {"review": 1}
        assert {review.record_ids[0] for review in await memory.semantic.reviews()} == {surfs, tram}


async def test_who_is_asked_about_by_two_workers_is_asked_about_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with with_fallen_ground(tmp_path) as (memory, *_):
        done = run_once_before_append(
            monkeypatch, memory.engine, "consolidate", lambda: memory.consolidate("consolidate")
        )
        (report,) = await memory.consolidate("consolidate")
        assert (len(done), report.counts, len(await memory.semantic.reviews())) == (1, {}, 2)
