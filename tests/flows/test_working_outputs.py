"""Outputs of tools: found by meaning, by their own user alone, bounded by bytes, the oldest out first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentmem import AgentMemory, Closed, InvalidRecord
from agentmem.memory.working.tool_outputs import StoredOutput, ToolOutput, ToolOutputStore, get_output_store
from agentmem.settings.settings import load_settings
from tests.fakes.moody_embedder import FlakyEmbedder
from tests.flows.given import START, ManualClock, engine_of, open_memory

PARTS = (
    "The flight LH 454 leaves Frankfurt at 10:15.",
    "It will snow in Oslo on Friday.",
    "The invoice 77 is not paid.",
    "The museum is closed on Mondays.",
    "A taxi to the airport costs 42 euros.",
    "Olga's birthday is 3 May.",
)
USERS = count(1)


@pytest.fixture(scope="module")
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, clock: ManualClock) -> Iterator[AgentMemory]:
    home = tmp_path_factory.mktemp("outputs") / "home"
    with open_memory(home, clock=clock, buffer={"outputs_mb": 0.05}) as memory:
        yield memory


@pytest.fixture
def memory(shared: AgentMemory) -> AgentMemory:
    """Somebody of whom nothing is kept yet; 50 kB at most."""
    return shared.scoped(user_id=f"user {next(USERS)}", channel="trip", conversation_id="c")


def texts(memory: AgentMemory, query: str = "anything at all", k: int = 100) -> list[str]:
    return [found.output.text for found in memory.working.search_outputs(query, k)]


def test_outputs_are_found_by_meaning(memory: AgentMemory, clock: ManualClock) -> None:
    assert memory.working.search_outputs("flight") == []
    for number, text in enumerate(PARTS):
        memory.working.remember_output(text, source="browser", metadata={"page": number})
    found = memory.working.search_outputs("When does the flight to Frankfurt leave?")
    assert len(found) == 5, "k is 5"
    best = found[0]
    assert best.output.text == PARTS[0]
    assert best.output.model_dump(exclude={"id"}) == {
        "text": PARTS[0],
        "source": "browser",
        "metadata": {"page": 0},
        "channel": "trip",
        "conversation_id": "c",
        "at": clock.time,
    }
    scores = [each.score for each in found]
    assert scores == sorted(scores, key=lambda score: -(score or 0.0))
    assert texts(memory, "snow", 1) == [PARTS[1]]


def test_beyond_the_cap_the_oldest_go_first(memory: AgentMemory) -> None:
    one = memory.working.remember_output("0" + "x" * 9_999, source="tool")
    for number in range(1, 6):
        memory.working.remember_output(f"{number}" + "x" * 9_999, source="tool")
    assert sorted(text[0] for text in texts(memory, "x" * 30)) == ["2", "3", "4", "5"], "12 kB each with its vector"
    assert one.text.startswith("0")
    with pytest.raises(InvalidRecord, match="outputs_mb") as refused:
        memory.working.remember_output("x" * 60_000, source="tool")
    assert refused.value.field == "text"
    assert len(texts(memory)) == 4, "what cannot be kept costs nothing that is"


def kept(number: int, size: int, channel: str = "a") -> StoredOutput:
    return StoredOutput(ToolOutput(id=str(number), text=str(number), source="t", channel=channel, at=START), size)


@settings(max_examples=25)
@given(st.lists(st.integers(1, 100), max_size=40))
def test_what_is_kept_is_the_end_of_what_was_given_and_never_more_than_the_cap(sizes: list[int]) -> None:
    here = ToolOutputStore(100, timedelta(hours=1), timedelta(minutes=5))
    for number, size in enumerate(sizes):
        here.add("u", kept(number, size), START)
    left = here.list_outputs("u", ["a"], START)
    numbers = [int(each.output.id) for each in left]
    assert numbers == list(range(len(sizes) - len(left), len(sizes)))
    assert sum(each.size_bytes for each in left) <= 100
    assert not left or numbers[0] == 0 or sum(sizes[numbers[0] - 1 :]) > 100, "and nothing went without need"


def test_the_documents_numbers_are_the_defaults() -> None:
    options = load_settings().buffer
    assert (options.outputs_mb, options.outputs_sweep_minutes) == (10, 5)
    assert ToolOutputStore.from_settings(load_settings()).max_bytes == 10 * 1024 * 1024


def test_every_five_minutes_those_who_fell_silent_are_swept() -> None:
    hour, minute = timedelta(hours=1), timedelta(minutes=1)
    here = ToolOutputStore(100, hour, 5 * minute)
    here.add("silent", kept(1, 1), START)
    here.add("busy", kept(2, 1), START)
    assert here.list_outputs("busy", ["a"], START + 59 * minute)
    here.add("new", kept(3, 1), START + 59 * minute)  # sweeps, and nobody's time is over
    here.add("new", kept(4, 1), START + 61 * minute)
    assert len(here) == 3, "the next sweep is due at 64"
    assert here.list_outputs("silent", ["a"], START + 61 * minute) == [], "but what is over is not found"
    here.add("silent", kept(5, 1), START + 62 * minute)
    here.add("new", kept(6, 1), START + 59 * minute + hour)
    assert [here.list_outputs(user, ["a"], START + 59 * minute + hour) != [] for user in ("silent", "busy", "new")] == [
        True,
        False,
        True,
    ]
    here.add("new", kept(7, 1), START)  # a clock that was set back
    assert len(here.list_outputs("new", ["a"], START)) == 4


def test_nobody_finds_anothers_outputs(memory: AgentMemory, shared: AgentMemory) -> None:
    bot = memory.scoped(agent_id="bot", channel="_self_bot")
    memory.working.remember_output("In the channel of the trip.", source="t")
    bot.working.remember_output("In the bot's own.", source="t")
    memory.scoped(channel="_global").working.remember_output("For everybody.", source="t")
    assert sorted(texts(memory)) == ["For everybody.", "In the channel of the trip."]
    assert sorted(texts(bot)) == ["For everybody.", "In the bot's own."]
    assert texts(memory.scoped(agent_id="spy", channel="other")) == ["For everybody."]
    assert texts(shared.scoped(user_id=f"user {next(USERS)}", channel="trip", conversation_id="c")) == []


@settings(max_examples=15)
@given(others=st.lists(st.sampled_from(PARTS), max_size=8))
def test_what_others_keep_changes_nothing(shared: AgentMemory, others: list[str]) -> None:
    mine, theirs = (shared.scoped(user_id=f"user {next(USERS)}") for _ in range(2))
    for text in PARTS:
        mine.working.remember_output(text, source="t")
    before = mine.working.search_outputs("airport")
    for text in others:
        theirs.working.remember_output(text * 300, source="t")
    assert mine.working.search_outputs("airport") == before


def test_clear_forgets_the_conversation_and_erasure_the_user(memory: AgentMemory) -> None:
    other = memory.scoped(conversation_id="d")
    memory.working.remember_output("of c", source="t")
    other.working.remember_output("of d", source="t")
    memory.working.clear()
    assert texts(other) == texts(memory) == ["of d"]
    memory.erase()
    assert texts(other) == []


def test_while_the_embedder_is_away_words_find_them(home: Path) -> None:
    with open_memory(home) as memory:
        embedder = FlakyEmbedder(unavailable=True)
        engine_of(memory).vector_projections[0].embedder = embedder
        for text in PARTS:
            memory.working.remember_output(text, source="t")
        assert len(embedder.texts) == 1, "it is left alone for a while"
        found = memory.working.search_outputs("invoice", 3)
        assert [(each.output.text, each.score) for each in found] == [(PARTS[2], None)]
        embedder.unavailable = False
        get_output_store(engine_of(memory)).embedder_backoff.reset()
        assert memory.working.search_outputs("invoice", 1)[0].score is not None
        embedder.poison = "\N{SECTION SIGN}"
        memory.working.remember_output("A \N{SECTION SIGN} pirate.", source="t")
        assert texts(memory, "pirate", 1) != ["A \N{SECTION SIGN} pirate."], "it has no vector"
        assert texts(memory, "\N{SECTION SIGN} invoice", 1) == [PARTS[2]]
    with pytest.raises(Closed):
        memory.working.search_outputs("invoice")


@pytest.mark.parametrize(
    "wrong, field",
    [
        (lambda w: w.remember_output(" ", source="t"), "text"),
        (lambda w: w.remember_output("x", source=""), "source"),
        (lambda w: w.remember_output("x", source="t", metadata={"a": {1}}), "metadata"),
        (lambda w: w.search_outputs(" "), "query"),
        (lambda w: w.search_outputs("x", 0), "limit"),
        (lambda w: w.search_outputs("x", 101), "limit"),
    ],
)
def test_bad_input_is_refused(memory: AgentMemory, wrong: Callable[[Any], Any], field: str) -> None:
    with pytest.raises(InvalidRecord) as refused:
        wrong(memory.working)
    assert refused.value.field == field
    assert texts(memory) == []
