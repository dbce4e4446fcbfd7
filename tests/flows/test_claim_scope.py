"""A project and what every channel reads: what is said here stays here, what is meant for everywhere changes it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from agentmem import AsyncAgentMemory
from tests.fakes.scribe import FakeExtractionLLM
from tests.flows.read_turns import open_memory_with_llm

MOVE = "We made the move last week, Oslo is lovely so far."
OSLO = {"slot": "home", "value": "Oslo", "tense": "current", "mark": "change"}
ENGLISH = "From now on answer in English in all projects."


async def current(memory: AsyncAgentMemory, slot: str, channel: str) -> list[str]:
    found = await memory.scoped(channel=channel).beliefs("user", slot)
    return [fact.value for each in found for fact in each.current]


async def read(memory: AsyncAgentMemory, turn: str, channel: str = "boat") -> None:
    await memory.scoped(channel=channel).store_turn(turn)
    await memory.consolidate("consolidate")


@pytest.mark.parametrize("scope, elsewhere", [("everywhere", "Oslo"), ("here", "Bergen"), ("", "Bergen")])
async def test_a_claim_changes_every_channel_only_where_it_says_so(tmp_path: Path, scope: str, elsewhere: str) -> None:
    scribe = FakeExtractionLLM({MOVE: {"facts": [{**OSLO, "scope": scope}]}})
    async with open_memory_with_llm(tmp_path, scribe) as memory:
        await memory.learn_fact("The user lives in Bergen", slot="home", value="Bergen")
        await read(memory, MOVE)
        assert await current(memory, "home", "boat") == ["Oslo"]
        assert await current(memory, "home", "garden") == [elsewhere]
        (known,) = [text for text in scribe.requests[0].content.split('"') if "Bergen" in text]
        assert known.endswith(" (everywhere)")


async def test_what_no_channel_knew_stays_in_its_own(tmp_path: Path) -> None:
    scribe = FakeExtractionLLM({MOVE: {"facts": [{**OSLO, "scope": "everywhere"}]}})
    async with open_memory_with_llm(tmp_path, scribe) as memory:
        await read(memory, MOVE)
        assert (await current(memory, "home", "boat"), await current(memory, "home", "garden")) == (["Oslo"], [])


@pytest.mark.parametrize(
    "said, here, elsewhere",
    [
        ("I don't work at Acme any more.", [], ["Acme"]),
        ("I work at Globex.", ["Globex"], ["Acme"]),
        ("I work at Acme.", ["Acme"], ["Acme"]),
    ],
)
async def test_a_project_reads_its_own_word_in_place_of_the_general_one(
    home: Path, said: str, here: list[str], elsewhere: list[str]
) -> None:
    async with AsyncAgentMemory("ann", home=home, embedder="hash") as memory:
        await memory.learn_fact("The user works at Acme", slot="employer", value="Acme")
        await read(memory, said)
        assert [*dict.fromkeys(await current(memory, "employer", "boat"))] == here
        assert await current(memory, "employer", "garden") == elsewhere


async def test_the_newest_word_counts_but_an_instruction_of_the_channel_stays(home: Path) -> None:
    async with AsyncAgentMemory("ann", home=home, embedder="hash") as memory:
        boat = memory.scoped(channel="boat")
        for slot, value in (("home", "Bergen"), ("tone", "formal")):
            await boat.learn_fact(f"{slot}: {value}", slot=slot, value=value)
        for slot, value in (("home", "Oslo"), ("tone", "casual")):
            await memory.learn_fact(f"{slot}: {value}", slot=slot, value=value)
        assert (await current(memory, "home", "boat"), await current(memory, "tone", "boat")) == (["Oslo"], ["formal"])
        (found,) = await boat.beliefs("user", "home")
        assert [fact.value for fact in found.former] == ["Bergen"]


@pytest.mark.parametrize("is_limited, elsewhere", [(False, ["English"]), (True, ["German"])])
async def test_plain_words_reach_everywhere_but_not_by_a_key_of_one_channel(
    home: Path, is_limited: bool, elsewhere: list[str]
) -> None:
    async with AsyncAgentMemory("ann", home=home, embedder="hash") as memory:
        await memory.learn_fact("Answer in German", slot="answer_language", value="German")
        boat = memory.scoped(channel="boat")
        if is_limited:
            boat.scope = replace(boat.scope, own_channels=("boat",))
        await boat.store_turn(ENGLISH)
        await memory.consolidate("consolidate")
        assert await current(memory, "answer_language", "boat") == ["English"]
        assert await current(memory, "answer_language", "garden") == elsewhere
