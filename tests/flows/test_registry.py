"""A registry is a folder: one new file is found and used, and nothing else is touched."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentmem import ConfigError
from agentmem.models import providers
from agentmem.recall import techniques
from tests.flows.given import open_memory

TECHNIQUE = '''
"""Shouting: what is written in capitals comes first."""
import numpy as np
from pydantic import Field
from agentmem.core.ranking import ScoreList
from agentmem.recall.technique import ScoreLists, SearchContext
from agentmem.recall.request import RecallQuery
from agentmem.recall.technique import TechniqueOptions

class Options(TechniqueOptions):
    loud: float = Field(default=5.0, ge=0)

async def search(query: RecallQuery, memory: SearchContext, options: Options) -> ScoreLists:
    slots = [int(slot) for slot in np.flatnonzero(memory.turn_mask)]
    worth = np.zeros(memory.columns.size, dtype=np.float32)
    for slot, turn in zip(slots, await memory.read(slots), strict=True):
        worth[slot] = options.loud * turn.content.isupper()
    return {"loud": ScoreList(worth, "bonus")}
'''
EMBEDDER = '''
"""Vectors of two numbers: long texts and short ones."""
import numpy as np

class Lengths:
    granularities = ("whole",)
    dimensions = 2
    def __init__(self, model):
        self.identity = f"lengths:{model}:2"
    async def embed(self, texts):
        vectors = [[1.0, 0.0] if len(text) > 20 else [0.0, 1.0] for text in texts]
        return np.array(vectors, dtype=np.float32).reshape(-1, 2)
    async def close(self):
        pass

def embedder(model, options):
    return Lengths(model or "v1")
'''
BROKEN = "def search(): ...\n"


@pytest.fixture
def drop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Folders whose files count as part of the registries."""
    registries = {"techniques": techniques, "providers": providers}
    for name, package in registries.items():
        (tmp_path / name).mkdir()
        monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path / name)])
    yield tmp_path
    for name, package in registries.items():
        for path in (tmp_path / name).glob("*.py"):
            sys.modules.pop(f"{package.__name__}.{path.stem}", None)
            monkeypatch.delattr(package, path.stem, raising=False)


def test_a_dropped_in_technique_is_found_used_and_explained(home: Path, drop: Path) -> None:
    (drop / "techniques" / "loudness.py").write_text(TECHNIQUE)
    with open_memory(home) as memory:
        memory.store_turns(["The garden is quiet.", "COME HERE NOW", "The garden again."])
        bundle = memory.remember("garden")
        assert bundle.turns[0].content == "COME HERE NOW"
        assert "loud +5.00" in bundle.items[0].why
        assert "loudness" in {line.technique for line in bundle.receipt.trace}
        assert memory.remember("garden", techniques=["loudness"]).turns[0].content == "COME HERE NOW"
    with open_memory(home, recall={"loudness": {"loud": 0}}) as memory:
        assert memory.remember("garden").turns[-1].content == "COME HERE NOW"
    with open_memory(home, recall={"loudness": {"enabled": False}}) as memory:
        assert "loudness" not in {line.technique for line in memory.remember("garden").receipt.trace}


def test_a_technique_that_fails_costs_a_notice_not_the_recall(home: Path, drop: Path) -> None:
    (drop / "techniques" / "faulty.py").write_text(
        TECHNIQUE.replace("    slots =", "    raise RuntimeError('broken on purpose')\n    slots =")
    )
    with open_memory(home) as memory:
        memory.store_turn("The garden is quiet.")
        bundle = memory.remember("garden")
        assert [turn.content for turn in bundle.turns] == ["The garden is quiet."]
        assert any("faulty" in notice and "RuntimeError" in notice for notice in bundle.notices)
        with pytest.raises(RuntimeError, match="on purpose"):
            memory.remember("garden", techniques=["faulty"])


def test_a_technique_that_is_none_is_named_at_the_door(home: Path, drop: Path) -> None:
    (drop / "techniques" / "shapeless.py").write_text(BROKEN)
    with pytest.raises(ConfigError, match="shapeless"):
        open_memory(home)


def test_a_dropped_in_embedder_is_found_by_its_vendor_and_used(home: Path, drop: Path) -> None:
    (drop / "providers" / "lengths.py").write_text(EMBEDDER)
    with open_memory(home, embedder="lengths:v1") as memory:
        memory.store_turns(["short one", "a turn that is rather long, as turns go"])
        bundle = memory.remember("something that has many letters", techniques=["vector"])
        assert bundle.turns[0].content.startswith("a turn")
        assert bundle.receipt.embedder == "lengths:v1:2"
        assert memory.lag() == {"graph": 0, "vectors/lengths:v1:2": 0}
    with open_memory(home, embedder="lengths") as memory:
        assert memory.remember("brief", techniques=["vector"]).turns[0].content == "short one"


def test_without_the_file_the_vendor_is_unknown(home: Path) -> None:
    with pytest.raises(ConfigError, match="lengths"):
        open_memory(home, embedder="lengths:v1")
    with open_memory(home) as memory:
        assert memory.remember("x").receipt.embedder == "hash:v1:512"


def test_seeded_recall_waits_for_slow_techniques_and_unseeded_does_not(home: Path, drop: Path) -> None:
    slow = TECHNIQUE.replace("    slots =", "    import asyncio\n    await asyncio.sleep(0.2)\n    slots =")
    (drop / "techniques" / "slowness.py").write_text(slow)
    hurried = {"slowness": {"deadline": 1e-6}}
    for seed, waits in ((None, False), (1, True)):
        with open_memory(home, seed=seed, recall=hurried) as memory:
            memory.store_turn("COME HERE NOW")
            said = [notice for notice in memory.remember("garden").notices if "slowness" in notice]
            assert (said == []) is waits
