"""Lexical vectors without a model: signed feature hashing of stems and of the letter groups inside them.

Weinberger et al., "Feature Hashing for Large Scale Multitask Learning" (2009). Two texts are near when they share words
or parts of words; it knows no synonyms. The same on every machine, nothing to download, no dependency beyond numpy.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from agentmem.errors import Closed, ConfigError
from agentmem.models.protocols import Embedder, EmbedderOptions, SyncEmbedder, Vectors
from agentmem.text.tokenizer import tokenize

VERSION = "v1"
DEFAULT_DIMENSIONS = 512
DIMENSIONS_RANGE = (16, 65_536)

GRANULARITIES = ("whole",)
"""A sentence holds no word that its text lacks: R@10 on dialogue is .745 without sentence vectors, .738 with."""

NGRAM_SIZES = (2, 3)
"""Lengths of the letter groups; the word is wrapped in `<` and `>` so that beginnings and ends count as such."""

NGRAM_WEIGHT = 1.0
"""Length of a word's letter groups together, beside 1.0 for the word itself."""

MAX_WEIGHTED_CHARS = 8
"""Letters from which a word weighs no more. Long words are rare words: the root of the length stands in for an idf."""

_CACHE_SIZE = 1 << 15
_MAX_INLINE_TEXTS = 32
"""Texts up to which a hop to a thread costs more than the work."""


def embedder(model: str, options: EmbedderOptions) -> Embedder:
    """Open `hash:v1`; `options.dimensions` from 16 to 65,536, 512 by default. Raises ConfigError for anything else."""
    if model not in ("", VERSION):
        raise ConfigError(f"embedder: no model hash:{model}; the one there is is 'hash:{VERSION}'")
    dimensions = DEFAULT_DIMENSIONS if options.dimensions is None else options.dimensions
    if not DIMENSIONS_RANGE[0] <= dimensions <= DIMENSIONS_RANGE[1]:
        raise ConfigError(
            f"embedder: hash takes {DIMENSIONS_RANGE[0]} to {DIMENSIONS_RANGE[1]} dimensions, got {dimensions}"
        )
    return HashEmbedder(dimensions)


class HashEmbedder(SyncEmbedder):
    """See `Embedder`. Thread-safe; keeps the features of the last 32,768 words."""

    def __init__(self, dimensions: int) -> None:
        self._dimensions = dimensions
        self._closed = False
        self._features = lru_cache(maxsize=_CACHE_SIZE)(self._hash_word)
        self._hash_ngram = lru_cache(maxsize=_CACHE_SIZE)(_hash)  # nearly every group of a new word is known

    def __repr__(self) -> str:
        return f"HashEmbedder({self.identity!r})"

    @property
    def identity(self) -> str:
        return f"hash:{VERSION}:{self._dimensions}"

    @property
    def dimensions(self) -> int:
        return self._dimensions

    @property
    def granularities(self) -> tuple[str, ...]:
        return GRANULARITIES

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors of `texts`; one without a word or sign gets the first axis. Raises Closed after `close`."""
        if self._closed:
            raise Closed("the embedder was closed")
        if len(texts) <= _MAX_INLINE_TEXTS:
            return self.embed_sync(texts)
        return await asyncio.to_thread(self.embed_sync, texts)

    async def close(self) -> None:
        self._closed = True
        self._features.cache_clear()
        self._hash_ngram.cache_clear()

    def embed_sync(self, texts: Sequence[str]) -> Vectors:
        """See SyncEmbedder."""
        out = np.empty((len(texts), self._dimensions), np.float32)
        for start in range(0, len(texts), 1024):
            out[start : start + 1024] = self._embed_batch(texts[start : start + 1024])
        return out

    def _embed_batch(self, texts: Sequence[str]) -> Vectors:
        places: list[NDArray[np.int32]] = []
        values: list[NDArray[np.float32]] = []
        weights: list[float] = []
        widths: list[int] = []
        for text in texts:
            width = 0
            for word, count in Counter(_tokenize(text)).items():
                place, value = self._features(word)
                places.append(place)
                values.append(value)
                weights.append(1.0 + math.log(count) if count > 1 else 1.0)
                width += len(place)
            widths.append(width)
        if not places:
            return self._normalize(np.zeros((len(texts), self._dimensions)))
        where, what = np.concatenate(places), np.concatenate(values)
        if any(weight != 1.0 for weight in weights):
            what = what * np.repeat(np.array(weights), [len(place) for place in places])
        if len(texts) > 1:
            where = where + np.repeat(np.arange(len(texts)) * self._dimensions, widths)
        sums = np.bincount(where, what, minlength=len(texts) * self._dimensions)
        return self._normalize(sums.reshape(len(texts), self._dimensions))

    def _normalize(self, sums: NDArray[np.floating | np.integer]) -> Vectors:
        units = np.empty(sums.shape, np.float32)
        # Row by row: calls over all rows cost a single text, which is what a write has, four times as much.
        for row, unit in zip(sums.astype(np.float64, copy=False), units, strict=True):
            if (length := math.sqrt(row.dot(row))) < 1e-9:
                row[0] = length = 1.0
            np.divide(row, length, out=unit, casting="same_kind")
        return units

    def _hash_word(self, word: str) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Where a word's features fall, and with what sign and weight."""
        wrapped = f"<{word}>"
        groups = {wrapped[at : at + size] for size in NGRAM_SIZES for at in range(len(wrapped) - size + 1)} - {wrapped}
        # The word's own feature is prefixed, so that it is no letter group of another word.
        names = [f"={word}", *sorted(groups)]
        hashes = [_hash(names[0]), *map(self._hash_ngram, names[1:])]
        root = np.float32(math.sqrt(min(len(word), MAX_WEIGHTED_CHARS)))
        others = np.float32(NGRAM_WEIGHT / math.sqrt(max(1, len(groups)))) * root
        weights = [others if each & 1 else -others for each in hashes]
        weights[0] = root if hashes[0] & 1 else -root
        places = [(each >> 1) % self._dimensions for each in hashes]
        return np.array(places, np.int32), np.array(weights, np.float32)


def _hash(name: str) -> int:
    return int.from_bytes(blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


def _tokenize(text: str) -> list[str]:
    """Index terms; where there are none (stop words, signs, emoji) whatever stands between spaces."""
    return tokenize(text) or text.casefold().split()
