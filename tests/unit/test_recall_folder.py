"""The folder of techniques and their settings: what is dropped in, disabled, unknown, failing or late."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agentmem.errors import ConfigError, CorruptStore, InvalidRecord, ModelUnavailable
from agentmem.facade.async_memory import AsyncAgentMemory
from agentmem.recall import techniques
from agentmem.recall.options import discover_techniques, parse_options
from agentmem.recall.pipeline import RecallLayer
from agentmem.recall.request import RecallRequest
from tests.unit.talking import (
    DEFAULT_TECHNIQUES,
    ManualClock,
    build_recall_layer,
    open_memory,
    store_lines,
    turn_contents,
)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def memory(home: Path, clock: ManualClock) -> AsyncIterator[AsyncAgentMemory]:
    async with open_memory(home, clock) as alice:
        yield alice


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A second place for techniques."""
    techniques.__path__.append(str(tmp_path))
    yield tmp_path
    techniques.__path__.remove(str(tmp_path))


async def test_a_technique_dropped_in_as_one_file_is_found_and_used(memory: AsyncAgentMemory, folder: Path) -> None:
    (folder / "dropped_in.py").write_text(
        "import numpy as np\n"
        "from agentmem.recall.technique import TechniqueOptions as Base; from agentmem.core.ranking import ScoreList\n"
        "class Options(Base):\n    size: float = 1.0\n"
        "async def search(query, memory, options):\n"
        "    return {'latest': ScoreList((options.size * memory.columns.position).astype(np.float32), 'bonus')}\n"
    )
    await store_lines(memory, "Ann: I play the cello.", "Ann: Nothing.")
    layer = build_recall_layer(memory, dropped_in={"size": 9.0})
    bundle = await layer.recall(RecallRequest(query="cello"), memory.scope)
    assert bundle.turns[0].content == "Nothing."
    assert "latest +9.00" in bundle.items[0].why
    alone = await layer.recall(RecallRequest(query="cello", techniques=("dropped_in",)), memory.scope)
    assert [line.technique for line in alone.receipt.trace] == ["dropped_in"]


def test_a_file_that_is_no_technique_is_refused(folder: Path) -> None:
    (folder / "half_done.py").write_text("class Options: ...\n")
    with pytest.raises(ConfigError, match="half_done"):
        discover_techniques()


@pytest.mark.parametrize(
    "settings, said",
    [
        ({"telepathy": {}}, "unknown section recall.telepathy; known ones: context, decompose, dialogue"),
        ({"keyword": {"k2": 1}}, "unknown option recall.keyword.k2; known ones: enabled, deadline"),
        ({"entity": {"depth": 4}}, "recall.entity.depth: "),
        ({"keyword": 3}, "recall.keyword must be a table"),
        ({"ranking": {"kinds": {"Turn": 0}}}, "recall.ranking.kinds.Turn must be above 0"),
        ({"ranking": {"kinds": {"Car": 1}}}, "unknown kind 'Car'"),
    ],
)
def test_settings_that_do_not_exist_are_refused(settings: Any, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_options(settings)
    assert str(caught.value).startswith(said) or said in str(caught.value)


def test_profile_best_looks_at_the_best_turns_again() -> None:
    assert not parse_options({}).reranks
    best = parse_options({"ranking": {"kinds": {"Fact": 0.4}}}, "best")
    assert best.reranks
    assert (best.ranking.kinds["Fact"], best.ranking.kinds["Turn"]) == (0.4, 0.3)


async def test_best_without_word_pieces_says_so(memory: AsyncAgentMemory) -> None:
    await store_lines(memory, "Ann: I play the cello.", "Ann: I play the flute.")
    bundle = await RecallLayer(memory.engine, profile="best").recall(RecallRequest(query="cello"), memory.scope)
    assert any("Word piece vectors" in notice for notice in bundle.notices)
    assert "conversation" in bundle.receipt.pool.list_names


async def test_unknown_techniques_are_refused(memory: AsyncAgentMemory) -> None:
    with pytest.raises(InvalidRecord, match="unknown technique 'telepathy'; known ones: decompose, dialogue, entity"):
        await memory.remember("x", techniques=["telepathy"])


async def test_a_disabled_technique_does_not_run(memory: AsyncAgentMemory) -> None:
    await store_lines(memory, "Ann: I play the cello.")
    bundle = await build_recall_layer(memory, vector={"enabled": False}).recall(
        RecallRequest(query="cello"), memory.scope
    )
    assert [line.technique for line in bundle.receipt.trace] == [
        name for name in DEFAULT_TECHNIQUES if name != "vector"
    ]


class Failing:
    """An embedder that cannot be reached."""

    identity, dimensions, granularities = "hash:v1:512", 512, ("whole",)

    def __init__(self, error: Exception) -> None:
        self.error = error

    async def embed(self, texts: list[str]) -> Any:
        raise self.error


def without(memory: AsyncAgentMemory, error: Exception) -> Any:
    """What is open, with a failing embedder."""
    open_now = memory.engine
    served = SimpleNamespace(embedder=Failing(error), index=open_now.vector_projections[0].index)
    return SimpleNamespace(
        clock=open_now.clock,
        ids=open_now.ids,
        log=open_now.log,
        graph=open_now.graph,
        vector_projections=[served],
        is_deterministic=True,
        cache_stats=open_now.cache_stats,
        read_columns=open_now.read_columns,
        zone=open_now.zone,
        wait_for_own_writes=open_now.wait_for_own_writes,
    )


async def test_a_failing_technique_costs_a_line_and_a_notice(memory: AsyncAgentMemory) -> None:
    await store_lines(memory, "Ann: I play the cello.")
    layer = RecallLayer(without(memory, ModelUnavailable("no route")))
    bundle = await layer.recall(RecallRequest(query="cello"), memory.scope, ["said before"])
    assert turn_contents(bundle) == ["I play the cello."]
    assert bundle.notices == ("said before", "Recalled without vector: ModelUnavailable: no route")
    assert {line.technique: line.error for line in bundle.receipt.trace}["vector"] == "ModelUnavailable: no route"


async def test_when_everything_fails_the_first_failure_is_raised(memory: AsyncAgentMemory) -> None:
    layer = RecallLayer(without(memory, ModelUnavailable("no route")))
    with pytest.raises(ModelUnavailable, match="no route"):
        await layer.recall(RecallRequest(query="cello", techniques=("vector",)), memory.scope)


async def test_a_damaged_store_is_never_passed_over(memory: AsyncAgentMemory) -> None:
    layer = RecallLayer(without(memory, CorruptStore("page 3")))
    with pytest.raises(CorruptStore, match="page 3"):
        await layer.recall(RecallRequest(query="cello"), memory.scope)


async def test_a_late_technique_is_left_out_unless_ids_are_seeded(memory: AsyncAgentMemory, folder: Path) -> None:
    (folder / "slow.py").write_text(
        "import asyncio\nimport numpy as np\n"
        "from agentmem.recall.technique import TechniqueOptions as Options\n"
        "from agentmem.core.ranking import ScoreList\n"
        "async def search(query, memory, options):\n"
        "    for _ in range(3):\n        await asyncio.sleep(0)\n"
        "    return {'slow': ScoreList(np.ones(memory.columns.size, dtype=np.float32), 'bonus')}\n"
    )
    await store_lines(memory, "Ann: I play the cello.")
    source = SimpleNamespace(
        **vars(without(memory, ModelUnavailable(""))),
    )
    lines = {}
    for seeded in (True, False):
        source.is_deterministic = seeded
        layer = RecallLayer(source, {"slow": {"deadline": 1e-6}})
        bundle = await layer.recall(RecallRequest(query="cello", techniques=("slow", "keyword")), memory.scope)
        lines[seeded] = {line.technique: line.error for line in bundle.receipt.trace}["slow"]
    assert lines == {True: "", False: "no answer within 1e-06 s"}
