"""The lexical embedder: the same everywhere, quick, and near where words are shared."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentmem.errors import Closed, ConfigError
from agentmem.models.protocols import EmbedderOptions, TokenEmbedder
from agentmem.models.providers.hash import HashEmbedder
from agentmem.models.registry import open_embedder

OPTIONS = EmbedderOptions(models_dir=Path("unused"))

LARGEST, VALUES = [15, 448, 501], [0.5288495, 0.4223834, -0.2550303]


def vectors(*texts: str) -> np.ndarray:
    return HashEmbedder(512).embed_sync(texts)


async def test_texts_become_unit_vectors_in_their_order() -> None:
    embedder = open_embedder("hash", OPTIONS)
    many = [f"turn number {number} about trains" for number in range(3000)]
    found = await embedder.embed(many)
    assert found.shape == (3000, 512)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found[1700:1701], await embedder.embed([many[1700]]))
    assert (await embedder.embed([])).shape == (0, 512)
    assert embedder.granularities == ("whole",)
    assert not isinstance(embedder, TokenEmbedder)
    await embedder.close()
    with pytest.raises(Closed):
        await embedder.embed(["a"])


def test_the_vectors_are_the_same_on_every_machine_and_day() -> None:
    """A stored vector must be comparable with one made by a later version; a change of these numbers is a new `v`."""
    vector = vectors("Peanuts, peanuts and the chef's allergies")[0]
    largest = np.argsort(-np.abs(vector), kind="stable")[:3]
    assert largest.tolist() == LARGEST
    np.testing.assert_allclose(vector[largest], VALUES, atol=1e-6)


def test_shared_words_and_shared_parts_of_words_bring_texts_near() -> None:
    query, same, stem, part, other = vectors(
        "peanut allergy", "an allergy to peanuts", "allergies", "allergen tests", "the train to Leeds"
    )
    assert query @ same > 0.95
    assert query @ same > query @ stem > query @ part > query @ other
    assert abs(query @ other) < 0.15


def test_a_repeated_word_counts_for_less_each_time() -> None:
    once, thrice, train = vectors("train rain", "train train train rain", "train")
    assert 0 < thrice @ train - once @ train < 1 - once @ train
    assert thrice @ train > once @ train


@given(st.lists(st.text(st.characters(codec=None), max_size=40), max_size=6))
def test_any_text_has_a_unit_vector(texts: list[str]) -> None:
    found = vectors(*texts)
    assert found.shape == (len(texts), 512)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), np.ones(len(texts)), atol=1e-5)


def test_texts_without_words_are_told_apart_and_empty_ones_are_all_alike() -> None:
    odd = vectors(
        "😀", "🚀", "the of and", "who is it", "", " \n", "\0", "\ud800", "x" * 100_000, "long text " * 10_000
    )
    assert np.isfinite(odd).all()
    np.testing.assert_array_equal(odd[4], odd[5])
    assert odd[4].tolist() == [1.0] + [0.0] * 511
    similar = odd[:5] @ odd[:5].T
    assert similar[~np.eye(5, dtype=bool)].max() < 0.7


@pytest.mark.parametrize("spec", ["hash", "hash:", "hash:v1", "hash/v1", "hash:v1:512"])
def test_every_way_to_write_it_is_the_same_embedder(spec: str) -> None:
    assert open_embedder(spec, OPTIONS).identity == "hash:v1:512"


def test_the_size_is_part_of_the_identity() -> None:
    embedder = open_embedder("hash:v1:64", OPTIONS)
    assert (embedder.identity, embedder.dimensions) == ("hash:v1:64", 64)


@pytest.mark.parametrize("spec", ["hash:v2", "hash:v1:8", "hash:v1:100000"])
def test_what_it_cannot_be_is_refused(spec: str) -> None:
    with pytest.raises(ConfigError, match="hash"):
        open_embedder(spec, OPTIONS)


def test_a_known_word_is_not_hashed_again() -> None:
    embedder = HashEmbedder(512)
    for _ in range(2):
        embedder.embed_sync(["cello garden", "garden cello train"])
    assert embedder._features.cache_info().misses == 3
