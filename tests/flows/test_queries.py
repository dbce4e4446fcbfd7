"""Any text is a query: stop words, other languages, short terms, code, ten thousand characters."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from agentmem import AgentMemory, MemoryBundle
from tests.flows.given import START, bundle_texts, open_memory

TOLD = {
    "go": "At work I write Go all day.",
    "r": "For statistics she prefers R.",
    "ai": "He moved into AI last year.",
    "cpp": "The engine is written in C++ for speed.",
    "csharp": "The tools are in C#.",
    "code": "The bug sits in parse_config_file() of settings/loader.py.",
    "ticket": "See ticket ABC-1234 for the outage.",
    "russian": "Моя сестра живёт в Новосибирске.",
    "chinese": "我对花生过敏。",
    "japanese": "来週は京都へ行きます。",
    "arabic": "أختي تعمل طبيبة في القاهرة.",
    "german": "Meine Großmutter wohnt in München.",
    "dog": "My dog Rex chewed the sofa.",
}
FINDS = [
    ("Who uses Go?", "go"),
    ("R", "r"),
    ("is he doing AI", "ai"),
    ("C++", "cpp"),
    ("C#", "csharp"),
    ("parse_config_file", "code"),
    ("loader.py", "code"),
    ("ABC-1234", "ticket"),
    ("где живёт сестра", "russian"),
    ("花生", "chinese"),
    ("京都", "japanese"),
    ("القاهرة", "arabic"),
    ("Grossmutter München", "german"),
    ("rex", "dog"),
]
ODD = [
    "the of and is",
    "?",
    "...",
    "😀🎉",
    "'; DROP TABLE memory_records; --",
    '"AND" OR NEAR(',
    "\x00.",
    "a",
    "%",
    "_",
    "\u200b x",
    "x" * 10_000,
    "what " * 2_000,
    "花" * 10_000,
    "a\nb\tc",
    "\ud83d half a pair",
    "SELECT * FROM users WHERE 1=1",
    "2026-13-45",
    "99999999999999999999",
    "NaN",
    "null",
    "١٢٣",
    "ﬁ",
    "İstanbul",
]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentMemory]:
    with open_memory(tmp_path_factory.mktemp("queries") / "home") as memory:
        memory.store_turns([{"content": text, "turn_id": name, "conversation_id": name} for name, text in TOLD.items()])
        memory.learn_fact("Rex is a dog")
        memory.upsert_entity({"name": "Rex", "type": "dog"})
        yield memory


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentMemory]:
    with open_memory(tmp_path_factory.mktemp("nothing") / "home") as memory:
        yield memory


@pytest.mark.parametrize("query, name", FINDS)
def test_a_term_of_any_length_and_language_finds_its_turn(told: AgentMemory, query: str, name: str) -> None:
    assert told.remember(query, include=("episodic",)).turns[0].id == name
    assert told.remember(query, techniques=["keyword"], include=("episodic",)).turns[0].id == name


@pytest.mark.parametrize("query", ODD, ids=range(len(ODD)))
def test_any_text_gives_a_bundle(told: AgentMemory, empty: AgentMemory, query: str) -> None:
    bundle = told.remember(query, top_k=5)
    assert isinstance(bundle, MemoryBundle)
    assert max(len(bundle.turns), len(bundle.facts), len(bundle.items)) <= 5
    assert [item.score for item in bundle.items] == sorted((item.score for item in bundle.items), reverse=True)
    assert told.context(query, 100).tokens <= 100
    nothing = empty.remember(query)
    assert (nothing.items, nothing.turns, nothing.facts, str(nothing)) == ((), (), (), "")
    assert empty.context(query).text == ""


def test_a_bundle_reads_as_a_context_with_dates_speakers_and_ids(memory: AgentMemory) -> None:
    turn = memory.store_turn("My sister's name is Ann.", speaker="Lee")
    fact = memory.learn_fact("Lee's sister is called Ann")
    bundle = memory.remember("what is the name of the sister?")
    for part in ("Lee: My sister's name is Ann.", "1 Mar 2026", fact.claim):
        assert part in str(bundle)
    for part in (fact.id[-8:], turn.conversation_id[-8:]):
        assert part in bundle.to_context(ids=True)
        assert part not in str(bundle)


def test_at_most_top_k_of_a_kind_and_in_the_common_ranking(memory: AgentMemory) -> None:
    memory.store_turns([f"The garden, day {number}." for number in range(20)])
    for number in range(8):
        memory.learn_fact(f"Garden fact number {number}")
    bundle = memory.remember("garden", top_k=3)
    assert [len(bundle.turns), len(bundle.facts), len(bundle.items)] == [3, 3, 3]
    assert next(item.record for item in memory.remember("garden", top_k=1, include="semantic").items).kind == "Fact"


def test_every_item_says_why(told: AgentMemory) -> None:
    best = told.remember("dog Rex sofa").items[0]
    assert best.record.id == "dog"
    assert "words #1" in best.why
    assert "whole #1" in best.why


def test_a_window_of_time_bounds_where_world_time_begins(memory: AgentMemory) -> None:
    for days in (1, 3, 10):
        when = START.replace(day=1) - (START - START.replace(day=1))
        memory.store_turn(f"garden {days}", timestamp=when.fromordinal(when.toordinal() - days))
    assert bundle_texts(memory.remember("garden", time_window_hours=100)) == ["garden 1", "garden 3"]
    assert bundle_texts(memory.remember("garden", until=START.fromordinal(START.toordinal() - 2))) == [
        "garden 10",
        "garden 3",
    ]
    assert bundle_texts(memory.remember("garden", since=START.fromordinal(START.toordinal() - 3))) == [
        "garden 1",
        "garden 3",
    ]


def test_facts_that_are_too_unsure_stay_out_when_asked(memory: AgentMemory) -> None:
    memory.learn_fact("Rumour: the shop closes", confidence=0.2)
    sure = memory.learn_fact("The shop opens at nine", confidence=0.9)
    assert memory.remember("shop", min_confidence=0.5).facts == (sure,)
