"""Which embedder a store uses is decided once and recorded."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from agentmem import AgentMemory, ConfigError, Settings
from agentmem.admin.doctor import diagnose
from agentmem.engine.opening import CHANGE_COMMAND
from agentmem.models.providers import local
from tests.flows.given import engine_of, open_memory

KEEPS = "keeps it"
NO_MODEL = "No local model was found"


def test_another_embedder_at_opening_keeps_the_recorded_one_with_a_notice(home: Path) -> None:
    with open_memory(home, embedder="hash", dimensions=64) as memory:
        memory.store_turn("The garden.")
        assert memory.remember("garden").notices == ()
    with open_memory(home, embedder="hash", dimensions=None) as memory:
        bundle = memory.remember("garden")
        assert bundle.receipt.embedder == "hash:v1:64"
        assert len(bundle.notices) == 1
        for part in ("hash:v1:64", KEEPS, "agentmem admin rebuild --embedder hash"):
            assert part in bundle.notices[0]
        assert bundle.turns
        assert memory.lag() == {"graph": 0, "vectors/hash:v1:64": 0}
    with open_memory(home, embedder="auto") as memory:
        assert memory.remember("garden").notices == ()


def test_auto_without_local_weights_takes_the_lexical_one_and_says_so(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "is_ready", lambda options: False)
    with open_memory(home, embedder="auto") as memory:
        memory.store_turn("The garden.")
        bundle = memory.remember("garden")
        assert bundle.receipt.embedder == "hash:v1:512"
        assert [NO_MODEL in notice for notice in bundle.notices] == [True]
        assert "pip install 'agentmem-graph[local]'" in bundle.notices[0]
    with open_memory(home, embedder="auto") as memory:
        assert NO_MODEL in str(memory.remember("garden"))
    findings = asyncio.run(diagnose(Settings(home=home)))
    (found,) = [finding for finding in findings if finding.check == "embedder"]
    fix = f"Install one with: pip install 'agentmem-graph[local]', then run: {CHANGE_COMMAND}"
    assert (found.level, found.fix) == ("warning", fix)
    monkeypatch.setattr(local, "is_ready", lambda options: True)
    with open_memory(home, embedder="auto") as memory:
        assert memory.remember("garden").notices[0].endswith(f"A local model is here now; run: {CHANGE_COMMAND}")
    with open_memory(home, embedder="hash") as memory:
        assert memory.remember("garden").notices == ()


def test_a_store_that_was_made_by_words_on_purpose_says_nothing(home: Path) -> None:
    open_memory(home, embedder="hash").close()
    with open_memory(home, embedder="auto") as memory:
        memory.store_turn("The garden.")
        assert memory.remember("garden").notices == ()


def test_auto_never_sends_text_away(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    monkeypatch.setattr(local, "is_ready", lambda options: False)
    with open_memory(home, embedder="auto") as memory:
        assert memory.remember("x").receipt.embedder == "hash:v1:512"


def test_two_spellings_of_one_embedder_are_one(home: Path) -> None:
    for spelling in ("hash", "hash:v1", "hash/v1", "hash:v1:512"):
        with open_memory(home, embedder=spelling) as memory:
            assert memory.remember("x").notices == ()


def test_wrong_dimensions_are_refused_before_anything_is_made(home: Path) -> None:
    with pytest.raises(ConfigError, match="dimensions"):
        open_memory(home, embedder="hash", dimensions=3)
    with open_memory(home) as memory:
        assert engine_of(memory).vector_projections[0].embedder.dimensions == 512


def test_every_vector_carries_its_embedder(memory: AgentMemory) -> None:
    memory.store_turn("The garden.")
    memory.flush()
    from tests.flows.given import read_tables

    content = read_tables(memory)
    assert [row[0] for row in content["embedders"]] == ["hash:v1:512"]
    assert {row[2] for row in content["passages_512"]} == {content["embedders"][0][1]}
