"""all-MiniLM-L6-v2 from its wheel: what most people run, once from end to end."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest

from agentmem.models.protocols import Embedder, EmbedderOptions, TokenEmbedder
from agentmem.models.registry import open_embedder, resolve_auto

TURNS = [
    "I cannot eat peanuts, they make my throat swell.",
    "The train to Leeds leaves at nine.",
    "We planted tomatoes behind the shed.",
]


@pytest.fixture(scope="module")
def options(tmp_path_factory: pytest.TempPathFactory) -> EmbedderOptions:
    return EmbedderOptions(models_dir=tmp_path_factory.mktemp("models"))


@pytest.fixture
async def embedder(options: EmbedderOptions) -> AsyncIterator[Embedder]:
    embedder = open_embedder("auto", options)
    yield embedder
    await embedder.close()


def test_auto_takes_it_when_its_weights_are_there(options: EmbedderOptions) -> None:
    assert resolve_auto(options) == "local:all-MiniLM-L6-v2"
    identity = open_embedder("auto", options).identity
    assert identity == open_embedder("local", options).identity == "local:all-MiniLM-L6-v2:384"
    assert open_embedder(identity, options).identity == identity


async def test_meaning_counts_more_than_words(embedder: Embedder) -> None:
    vectors = await embedder.embed([*TURNS, "Is there a food allergy?", "When do I have to be at the station?"])
    allergy, station = vectors[3] @ vectors[:3].T, vectors[4] @ vectors[:3].T
    assert np.argmax(allergy) == 0
    assert np.argmax(station) == 1


async def test_word_pieces_find_their_like(embedder: Embedder) -> None:
    assert isinstance(embedder, TokenEmbedder)
    vectors, tokens = await embedder.embed_tokens([*TURNS, "peanut allergy"])
    np.testing.assert_array_equal(vectors, await embedder.embed([*TURNS, "peanut allergy"]))
    query = tokens[3].vectors.astype(np.float32) / 256
    best = [float((query @ turn.vectors.T.astype(np.float32) / 256).max(axis=1).mean()) for turn in tokens[:3]]
    assert np.argmax(best) == 0
    assert all(len(turn.ids) == len(turn.vectors) for turn in tokens)


def test_nothing_is_written(options: EmbedderOptions) -> None:
    assert list(Path(options.models_dir).iterdir()) == []
