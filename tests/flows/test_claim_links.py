"""A model names what a new claim ends: it ends from and to slots, in part, or comes into doubt."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from agentmem import AsyncAgentMemory
from tests.fakes.scribe import FakeExtractionLLM
from tests.flows.read_turns import open_memory_with_llm

QUIT = "I sold the cello, so no more Thursday rehearsals with the quartet."
SLOT_HOBBY = {"slot": "hobbies", "value": "cello", "op": "over", "tense": "past"}
OPEN_CLAIM = {"claim": "The user sold the cello.", "certainty": "explicit", "tense": "past"}


async def read(tmp_path: Path, known: dict[str, Any], turn: str, item: dict[str, Any]) -> tuple[list[str], list[str]]:
    """What is believed or claimed after one fact by hand and one turn: what is current, and what is in doubt."""
    scribe = FakeExtractionLLM({turn: {"facts": [{"ends": ["F1"], **item}]}})
    async with open_memory_with_llm(tmp_path, scribe) as memory:
        await memory.semantic.learn_fact(**known)
        await memory.store_turn(turn)
        await memory.consolidate("consolidate")
        return await list_current(memory), [fact.value for each in await memory.beliefs() for fact in each.doubtful]


async def list_current(memory: AsyncAgentMemory) -> list[str]:
    believed = [fact.value for each in await memory.beliefs() for fact in each.current]
    return [*believed, *(fact.claim for fact in await memory.semantic.facts() if not fact.slot)]


@pytest.mark.parametrize(
    "known, item",
    [
        pytest.param({"claim": "The user plays the cello in a quartet."}, SLOT_HOBBY, id="from a slot"),
        pytest.param(
            {"claim": "The user's hobby: cello", "slot": "hobbies", "value": "cello"}, OPEN_CLAIM, id="to a slot"
        ),
        pytest.param(
            {"claim": "habit: cello", "slot": "habit:music", "value": "cello"}, SLOT_HOBBY, id="between slots"
        ),
        pytest.param({"claim": "The user plays the cello."}, OPEN_CLAIM, id="between open claims"),
    ],
)
async def test_a_claim_ends_what_it_names(tmp_path: Path, known: dict[str, Any], item: dict[str, Any]) -> None:
    current, doubtful = await read(tmp_path, known, QUIT, item)
    assert not {known["claim"], known.get("value")} & {*current}
    assert doubtful == []


async def test_an_end_in_a_set_slot_takes_the_place_of_one_value(tmp_path: Path) -> None:
    item = {"slot": "hobbies", "value": "viola", "mark": "change"}
    known = {"claim": "The user's hobby: cello", "slot": "hobbies", "value": "cello"}
    assert await read(tmp_path, known, "I switched from the cello to the viola.", item) == (["viola"], [])


async def test_words_that_do_not_name_the_belief_put_it_in_doubt(tmp_path: Path) -> None:
    item = {"claim": "The user is looking at dating apps.", "certainty": "explicit"}
    known = {"claim": "The user has a partner named Mateo", "slot": "partner", "value": "Mateo"}
    turn = "I keep looking at dating apps on the tram."
    assert await read(tmp_path, known, turn, item) == ([item["claim"]], ["Mateo"])


async def test_a_belief_of_somebody_else_stays(tmp_path: Path) -> None:
    known = {"claim": "Ida's hobby: cello", "subject": "Ida", "slot": "hobbies", "value": "cello"}
    current, doubtful = await read(tmp_path, known, QUIT, OPEN_CLAIM)
    assert ("cello" in current, doubtful) == (True, [])


async def test_one_part_of_a_list_is_over_and_the_rest_stays(tmp_path: Path) -> None:
    item = {"slot": "code_style", "value": "snake_case", "op": "over"}
    known = {"claim": "code style: type hints, snake_case", "slot": "code_style", "value": "type hints, snake_case"}
    assert await read(tmp_path, known, "No need for snake_case any more.", item) == (["type hints"], [])


async def test_words_of_time_that_nobody_can_read_stay_beside_the_fact(tmp_path: Path) -> None:
    turn = "I work remotely until the new office opens."
    item = {"slot": "work_mode", "value": "remotely", "until": "until the new office opens", "tense": "current"}
    async with open_memory_with_llm(tmp_path, FakeExtractionLLM({turn: {"facts": [item]}})) as memory:
        await memory.store_turn(turn)
        await memory.consolidate("consolidate")
        (fact,) = await memory.semantic.facts()
        assert "until the new office opens" in fact.claim


async def test_a_plan_whose_day_has_passed_is_told_to_no_model(tmp_path: Path) -> None:
    scribe = FakeExtractionLLM({QUIT: {"facts": []}})
    async with open_memory_with_llm(tmp_path, scribe) as memory:
        now = await memory.engine.now(memory.scope)
        for days, value in ((-3, "rehearsal"), (3, "concert")):
            day = now + timedelta(days=days)
            plan = {"slot": f"date:{value}", "value": f"{day:%d %B}", "valid_from": day, "temporal_context": "future"}
            await memory.semantic.learn_fact(f"The {value} is on {day:%d %B}", **plan)
        await memory.store_turn(QUIT)
        await memory.consolidate("consolidate")
        assert ("concert" in scribe.requests[0].content, "date:rehearsal" in scribe.requests[0].content) == (
            True,
            False,
        )
