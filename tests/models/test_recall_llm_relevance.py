"""Whether anything relevant was found, and what each technique took and gave."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agentmem.facade.async_memory import AsyncAgentMemory
from agentmem.recall import scoring, visibility
from agentmem.recall.executor import MAX_SAMPLES, RecallMetrics
from agentmem.recall.pipeline import RecallLayer
from agentmem.recall.receipt import TraceLine
from agentmem.recall.request import RecallRequest
from agentmem.recall.scoring import NOTICE_NOTHING_RELEVANT, RELEVANCE_THRESHOLDS, RelevanceThreshold
from tests.fakes.llm_replies import GOOD, ScriptedLLM, build_llm_recall_layer, recall_with
from tests.unit.talking import ManualClock, open_memory, store_lines, turn_contents

LINES = [
    "Ann: We painted the kitchen yellow.",
    "Bob: My sister Clara moved to Oslo.",
    "Ann: The cello lesson is on Friday.",
    "Bob: I planted tomatoes behind the shed.",
    "Ann: The dog chewed my slippers.",
    "Bob: Our train was late again.",
]


@pytest.fixture
async def memory(home: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[AsyncAgentMemory]:
    """One whose embedder has floors, with enough turns to tell."""
    monkeypatch.setattr(scoring, "RELEVANCE_THRESHOLDS", {"hash:": RELEVANCE_THRESHOLDS["local:all-MiniLM-L6-v2"]})
    async with open_memory(home, ManualClock()) as alice:
        for number in range(4):
            await store_lines(alice, *LINES, conversation=f"c{number}", days=number)
        yield alice


async def test_a_bundle_says_when_nothing_relevant_was_found(memory: AsyncAgentMemory) -> None:
    bundle = await memory.remember("boiling point of tungsten?")
    assert (bundle.relevant, bundle.notices) == (False, (NOTICE_NOTHING_RELEVANT,))
    assert len(bundle.turns) == 10  # recall hides nothing
    assert bundle.receipt.as_dict()["relevant"] is False
    assert (await memory.audit.replay(bundle.receipt.id)).relevant is False
    assert NOTICE_NOTHING_RELEVANT in (await memory.context("boiling point of tungsten?")).notices
    about = await memory.remember("which room was painted yellow?")
    assert (about.relevant, about.notices) == (True, ())
    assert about.receipt.as_dict()["relevant"] is True


async def test_a_date_or_an_entity_of_the_question_is_relevant_by_itself(memory: AsyncAgentMemory) -> None:
    assert (await memory.remember("boiling point in May 2023?")).relevant
    assert not (await memory.remember("boiling point in May 2019?")).relevant
    assert not (await memory.remember("Zanzibar?")).relevant
    await memory.upsert_entity({"name": "Zanzibar", "type": "place"})
    assert (await memory.remember("Zanzibar?")).relevant


async def test_words_alone_are_relevant_where_vectors_are_far(
    memory: AsyncAgentMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scoring, "RELEVANCE_THRESHOLDS", {"hash:": RelevanceThreshold(cosine=2.0, term_coverage=0.16)})
    assert (await memory.remember("slippers?")).relevant
    assert not (await memory.remember("pyjamas?")).relevant


async def test_a_common_verb_alone_is_not_relevant(memory: AsyncAgentMemory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring, "RELEVANCE_THRESHOLDS", {"hash:": RelevanceThreshold(cosine=2.0, term_coverage=0.16)})
    await store_lines(memory, "Ann: I like tea.", conversation="tea")
    assert not (await memory.remember("do I like golf?")).relevant
    assert (await memory.remember("do I like tea?")).relevant


async def test_nothing_is_said_where_it_cannot_be_told(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_memory(home, ManualClock()) as few:
        await store_lines(few, *LINES)
        assert (await few.remember("boiling point of tungsten?")).relevant is None  # an embedder without floors
        monkeypatch.setattr(scoring, "RELEVANCE_THRESHOLDS", {"hash:": RelevanceThreshold(0.28, 0.16)})
        assert (await few.remember("boiling point of tungsten?")).relevant is None  # too few turns
        monkeypatch.setattr(visibility, "FEW_TURNS", 6)
        layer = RecallLayer(few.engine)
        assert not (await layer.recall(RecallRequest(query="boiling point of tungsten?"), few.scope)).relevant
        assert (await few.remember("boiling point of tungsten?", techniques=["keyword"])).relevant is None  # no vectors


async def test_with_a_model_of_meaning_it_tells_near_from_far(home: Path) -> None:
    async with AsyncAgentMemory("alice", home=home, embedder="local", clock=ManualClock(), seed=7) as memory:
        for number in range(4):
            await store_lines(memory, *LINES, conversation=f"c{number}")
        near = ["which instrument does she learn?", "what did the puppy ruin?", "where does Bob's sibling live?"]
        far = ["How do I configure a reverse proxy in nginx?", "Who signed the Magna Carta?", "What is a monad?"]
        assert [(await memory.remember(query)).relevant for query in near] == [True] * 3
        assert [(await memory.remember(query)).relevant for query in far] == [False] * 3


# -- metrics


async def test_every_technique_is_measured(memory: AsyncAgentMemory) -> None:
    layer = build_llm_recall_layer(memory, ScriptedLLM({**GOOD, "expansion": "not JSON"}), "hyde", "expansion")
    await recall_with(layer, memory, "which room was painted yellow?", top_k=3)
    bundle = await recall_with(layer, memory, "boiling point of tungsten?", top_k=3)
    await layer.context(RecallRequest(query="slippers?"), memory.scope)
    measured = layer.metrics.as_dict()
    assert (measured["recalls"], measured["irrelevant"]) == (3, 1)
    found = layer.metrics.techniques
    assert {name: (one.calls, one.failures, one.timeouts) for name, one in found.items()} == {
        "dialogue": (3, 0, 0),
        "entity": (3, 0, 0),
        "expansion": (3, 3, 0),
        "hyde": (3, 0, 0),
        "keyword": (3, 0, 0),
        "temporal": (3, 0, 0),
        "vector": (3, 0, 0),
    }
    assert (found["keyword"].results, found["expansion"].results) == (3 * 24, 0)
    assert found["keyword"].contributions == 3  # none of them for tungsten
    assert {line.technique: line.contributed for line in bundle.receipt.trace}["keyword"] == 0
    assert turn_contents(bundle)


async def test_a_bonus_contributes_and_a_malus_does_not(memory: AsyncAgentMemory) -> None:
    bundle = await memory.remember("what did Bob plant?", top_k=4)
    lines = {line.technique: line for line in bundle.receipt.trace}
    assert all(turn.speaker == "Bob" for turn in bundle.turns)
    assert lines["dialogue"].contributed == 4
    assert lines["temporal"].contributed == 0


def test_percentiles_are_over_the_latest_times() -> None:
    metrics = RecallMetrics()
    for number in range(MAX_SAMPLES + 500):
        metrics.add_recall(
            [TraceLine("slow", float(number), {"list": 2}, "late" if number % 2 else "", late=bool(number % 2))]
        )
    slow = metrics.techniques["slow"]
    assert (slow.calls, slow.failures, slow.timeouts, slow.results) == (1500, 750, 750, 3000)
    assert (slow.percentile_ms(0), slow.percentile_ms(50), slow.percentile_ms(100)) == (500.0, 999.5, 1499.0)
    assert slow.as_dict()["p95_ms"] == pytest.approx(1449.05)
    assert RecallMetrics().as_dict() == {"recalls": 0, "irrelevant": 0, "techniques": {}}
