"""A model that fails costs no write and no recall: words answer, a notice says so, and vectors catch up afterwards.

All in virtual time, so that a minute of silence takes none.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentmem.admin.doctor import diagnose
from agentmem.admin.rebuild import rebuild
from agentmem.engine.vector_projection import BACKOFF_SECONDS
from agentmem.errors import ModelUnavailable
from agentmem.facade.async_memory import AsyncAgentMemory
from agentmem.models import providers
from agentmem.recall.technique import EMBED_TIMEOUT_SECONDS
from agentmem.settings.settings import Settings
from tests.faults import checks
from tests.faults.virtual import VirtualClock, run

NAME = "vectors/fickle:v1:64"


@pytest.fixture(autouse=True)
def _dropped_in(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A new vendor is a file in the folder of providers."""
    monkeypatch.setattr(providers, "__path__", [*providers.__path__, str(Path(__file__).parent / "providers")])
    yield
    sys.modules.pop("agentmem.models.providers.fickle", None)


async def _open(home: Path, clock: VirtualClock, **settings: Any) -> tuple[AsyncAgentMemory, Any]:
    memory = AsyncAgentMemory("ann", home=home, embedder="fickle", clock=clock, conversation_id="talk", **settings)
    await memory.open()
    return memory, memory.engine.vector_projections[0].embedder


def _seconds() -> float:
    return asyncio.get_running_loop().time()


async def _answers_by_words(memory: AsyncAgentMemory, query: str, found: str) -> tuple[str, ...]:
    bundle = await memory.remember(query)
    assert found in {turn.id for turn in bundle.turns}
    return bundle.notices


async def _vectors_missed(memory: AsyncAgentMemory, query: str) -> bool:
    return any("Recalled without vector" in notice for notice in (await memory.remember(query)).notices)


async def _healed(memory: AsyncAgentMemory) -> None:
    await checks.check_settled(memory)
    await checks.check_rebuild_equal(memory.engine, [memory.scope])
    await checks.check_healthy(memory.engine)
    await memory.close()


def test_a_model_that_is_away_costs_nothing_but_a_notice(home: Path) -> None:
    async def story(clock: VirtualClock) -> None:
        memory, model = await _open(home, clock)
        await memory.store_turn("Bees like lavender.", turn_id="t0")
        model.mode = "away"
        began = _seconds()
        turn = await memory.store_turn("The chef avoids peanuts.", turn_id="t1")
        assert turn.index == 1
        assert _seconds() - began < 0.5
        assert await memory.lag() == {"graph": 0, NAME: 1}
        notices = await _answers_by_words(memory, "what does the chef avoid?", "t1")
        assert any("vectors are not built yet" in notice for notice in notices)
        assert any("Recalled without vector: ModelUnavailable: the model is away" in notice for notice in notices)
        with pytest.raises(ModelUnavailable, match="the model is away"):
            await memory.flush()
        model.mode = "well"
        assert not await _vectors_missed(memory, "what does the chef avoid?")  # a refusal cost no wait
        await memory.store_turn("Within half a minute it is left alone.", turn_id="t2")
        assert await memory.lag() == {"graph": 0, NAME: 2}
        await asyncio.sleep(BACKOFF_SECONDS)
        await memory.store_turn("After that the next write brings all along.", turn_id="t3")
        assert await memory.lag() == {"graph": 0, NAME: 0}
        assert await _answers_by_words(memory, "what does the chef avoid?", "t1") == ()
        await _healed(memory)

    run(story)


def test_flush_does_not_wait_for_the_rest_to_end(home: Path) -> None:
    async def story(clock: VirtualClock) -> None:
        memory, model = await _open(home, clock)
        model.mode = "away"
        await memory.store_turns([f"number {n}" for n in range(700)])
        assert (await memory.lag())[NAME] == 700
        model.mode = "well"
        began = _seconds()
        await memory.flush()
        assert _seconds() - began < BACKOFF_SECONDS / 2
        await _healed(memory)

    run(story)


def test_a_silent_model_holds_up_neither_writes_nor_recall(home: Path) -> None:
    async def story(clock: VirtualClock) -> None:
        memory, model = await _open(home, clock, model_timeout=20.0)
        model.mode = "silent"
        for number in range(3):
            began = _seconds()
            await memory.store_turn(f"The chef avoids peanuts, {number}.", turn_id=f"t{number}")
            assert _seconds() - began < 3.0
            began = _seconds()
            notices = await _answers_by_words(memory, "what does the chef avoid?", f"t{number}")
            assert _seconds() - began < (1.0 if number else EMBED_TIMEOUT_SECONDS + 0.5)
            said = "Recalled without vector: ModelUnavailable: fickle:v1:64 did not answer within 2 s"
            assert any(said in notice for notice in notices), notices
        assert (await memory.lag())[NAME] == 3
        await asyncio.sleep(60)
        model.mode = "well"
        await memory.store_turn("It is back.", turn_id="t3")
        assert (await memory.lag())[NAME] == 0
        await _healed(memory)

    run(story)


@pytest.mark.parametrize("model_timeout, waits", [(1.0, 1), (60.0, 2)])
def test_a_silent_model_is_left_alone_for_half_a_minute(home: Path, model_timeout: float, waits: int) -> None:
    async def story(clock: VirtualClock) -> None:
        memory, model = await _open(home, clock, model_timeout=model_timeout)
        await memory.store_turn("The chef avoids peanuts.", turn_id="t0")
        model.mode = "silent"
        assert await _vectors_missed(memory, "what does the chef avoid?")
        asked, model.mode, began = model.request_count, "well", _seconds()
        (notice,) = await _answers_by_words(memory, "does the chef cook?", "t0")
        assert f"did not answer within {waits} s; it is left alone for 30 s more" in notice
        assert _seconds() - began < 0.2
        assert model.request_count == asked
        await asyncio.sleep(BACKOFF_SECONDS)
        assert not await _vectors_missed(memory, "does the chef cook?")
        await _healed(memory)

    run(story)


@pytest.mark.parametrize("settings", [{}, {"recall": {"vector": {"deadline": 0.3}}}])
def test_a_model_that_has_to_be_loaded_first_is_waited_for(home: Path, settings: dict[str, Any]) -> None:
    async def story(clock: VirtualClock) -> None:
        memory, model = await _open(home, clock, **settings)
        await memory.store_turn("The chef avoids peanuts.")
        model.delay_seconds = EMBED_TIMEOUT_SECONDS - 0.5
        assert not await _vectors_missed(memory, "what does the chef avoid?")
        await _healed(memory)

    run(story)


def test_an_answer_that_comes_too_late_is_kept_and_ends_the_rest(home: Path) -> None:
    async def story(clock: VirtualClock) -> None:
        memory, model = await _open(home, clock)
        await memory.store_turn("The chef avoids peanuts.")
        model.delay_seconds = EMBED_TIMEOUT_SECONDS + 1.0
        assert await _vectors_missed(memory, "what does the chef avoid?")
        model.delay_seconds = 0.0
        assert await _vectors_missed(memory, "does the chef cook?")
        await asyncio.sleep(1.0)
        assert not await _vectors_missed(memory, "does the chef cook?")
        model.mode = "silent"
        assert not await _vectors_missed(memory, "what does the chef avoid?")
        model.mode = "well"
        await _healed(memory)

    run(story)


def test_whoever_stops_waiting_for_a_recall_stops_the_model_too(home: Path) -> None:
    async def story(clock: VirtualClock) -> None:
        memory, model = await _open(home, clock)
        await memory.store_turn("The chef avoids peanuts.")
        model.mode = "silent"
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(memory.remember("what does the chef avoid?"), 1.0)
        assert model.active_requests == 0
        model.mode = "well"
        assert not await _vectors_missed(memory, "what does the chef avoid?")
        await _healed(memory)

    run(story)


def test_with_seeded_ids_a_model_is_waited_for_however_long_it_takes(home: Path) -> None:
    async def story(clock: VirtualClock) -> None:
        memory, model = await _open(home, clock, seed=1)
        await memory.store_turn("The chef avoids peanuts.")
        model.delay_seconds = 10 * EMBED_TIMEOUT_SECONDS
        assert not await _vectors_missed(memory, "what does the chef avoid?")
        await _healed(memory)

    run(story)


def test_a_slow_model_catches_up_by_itself(home: Path) -> None:
    async def story(clock: VirtualClock) -> None:
        memory, model = await _open(home, clock)
        model.delay_seconds = 10.0
        began = _seconds()
        await memory.store_turn("The chef avoids peanuts.", turn_id="t0")
        assert _seconds() - began < 3.0
        assert (await memory.lag())[NAME] == 1
        await asyncio.sleep(10)
        assert (await memory.lag())[NAME] == 0
        await _healed(memory)

    run(story)


def test_what_was_erased_while_a_slow_model_read_it_leaves_no_vector(home: Path) -> None:
    async def story(clock: VirtualClock) -> None:
        memory, model = await _open(home, clock)
        other, _ = await _open(home, clock)
        model.delay_seconds = 10.0
        for eraser, turn_id in ((memory, "t0"), (other, "t1")):
            await memory.store_turn("My password is swordfish.", turn_id=turn_id)
            receipt = await eraser.forget(turn_id, hard=True)
            assert receipt.scan is not None
            assert not receipt.scan.leftovers
        await asyncio.sleep(60)
        await checks.check_settled(memory)
        assert (await checks.read_projections(memory.engine, memory.scope))["passages"] == []
        await other.close()
        await _healed(memory)

    run(story)


def test_one_poisonous_text_is_parked_and_passed_over(home: Path) -> None:
    async def story(clock: VirtualClock) -> None:
        memory, model = await _open(home, clock)
        model.poison = "arsenic"
        said = ["Bees like lavender.", "Old lace and arsenic.", "The chef avoids peanuts."]
        await memory.store_turns([{"content": text, "turn_id": f"t{n}"} for n, text in enumerate(said)])
        assert (await memory.lag())[NAME] == 2  # the first is in, the others wait for three tries of the second
        for number in range(2):
            await asyncio.sleep(BACKOFF_SECONDS)
            await memory.store_turn(f"Meanwhile, {number}.")
        assert (await memory.lag())[NAME] == 1  # what was parked counts
        (parked,) = await memory.engine.log.dead_letters(memory.scope)
        assert (parked.attempts, parked.reason) == (3, "the model answered with nonsense")
        assert await _answers_by_words(memory, "lace and arsenic", "t1") != ()
        await memory.flush()
        await memory.close()
        findings = await diagnose(Settings(home=home))
        assert any(finding.check == "parked" and finding.level == "warning" for finding in findings), findings

    run(story)


def test_flush_goes_through_poisonous_texts_and_a_rebuild_takes_them_up_again(home: Path) -> None:
    async def story(clock: VirtualClock) -> None:
        memory, model = await _open(home, clock)
        model.poison = "arsenic"
        await memory.store_turns(["Arsenic and old lace.".lower(), "In between.", "More arsenic.", "And lavender."])
        await memory.flush()
        assert (await memory.lag())[NAME] == 2
        model.poison = ""
        await rebuild(memory.engine, ["ann"])
        await _healed(memory)

    run(story)


@pytest.mark.parametrize("mood, said", [("odd", "shape"), ("mad", "finite"), ("broken", "ValueError")])
def test_a_reply_that_is_no_vector_is_a_bad_reply(home: Path, mood: str, said: str) -> None:
    async def story(clock: VirtualClock) -> None:
        memory, model = await _open(home, clock)
        model.mode = mood
        await memory.store_turn("The chef avoids peanuts.", turn_id="t0")
        assert (await memory.lag())[NAME] == 1
        notices = await _answers_by_words(memory, "what does the chef avoid?", "t0")
        assert any("Recalled without vector" in notice and said in notice for notice in notices), notices
        await memory.flush()
        (parked,) = await memory.engine.log.dead_letters(memory.scope)
        assert said in parked.reason
        assert "fell over" not in f"{parked.reason} {notices}"  # the words of the error, which may quote a text
        model.mode = "well"
        assert not await _vectors_missed(memory, "what does the chef avoid?")
        await rebuild(memory.engine, ["ann"])
        await _healed(memory)

    run(story)
