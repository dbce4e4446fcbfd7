"""Whether a memory holds anything that the question is about. Recall delivers all the same, and says so."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from agentmem.model.ranking import Fusion
from agentmem.recall.query import Query
from agentmem.recall.technique import Memory

NOTHING_RELEVANT = "Nothing relevant was found: what follows is merely the nearest."


class Floor(NamedTuple):
    """Below both nothing is about the question: the best cosine of `whole`, and the best share of its words.

    The share is the best BM25 score over what all terms of the query could give if each were the rarest.
    """

    cosine: float
    words: float


# From `python -m tests.benchmarks.floors` over the development half of LoCoMo: docs/techniques.md has the figures.
FLOORS: Mapping[str, Floor] = MappingProxyType({
    "local:all-MiniLM-L6-v2": Floor(cosine=0.28, words=0.16),
    "local:sentence-transformers/all-MiniLM-L6-v2": Floor(cosine=0.28, words=0.16),
})  # fmt: skip
"""By the beginning of an embedder's identity; nothing is said of others."""

SPEAKING = ("date", "entities", "linked", "range")
"""Bonuses that only what the question names gets."""


def relevant(query: Query, memory: Memory, fusion: Fusion, few_turns: int) -> bool:
    """False when the best record is below the embedder's floors and nothing fits a date or an entity of the question.

    True where that cannot be told: an embedder without floors, no vectors, fewer than `few_turns` visible turns.
    """
    floor = next((floor for name, floor in FLOORS.items() if memory.identity.startswith(name)), None)
    if floor is None or "whole" not in fusion.lists or int(memory.turns.sum()) < max(few_turns, 1):
        return True
    if any((fusion.lists[name].values > 0).any() for name in SPEAKING if name in fusion.lists):
        return True
    return _highest("whole", memory, fusion) >= floor.cosine or _share(query, memory, fusion) >= floor.words


def _share(query: Query, memory: Memory, fusion: Fusion) -> float:
    """The best BM25 score over the most that the terms of the query could give; idf as `keyword` takes it."""
    if "words" not in fusion.lists:
        return 0.0
    rarest = np.log1p((int(memory.current.sum()) + 0.5) / 0.5)
    return _highest("words", memory, fusion) / max(float(len(query.read.terms) * rarest), 1e-9)


def _highest(name: str, memory: Memory, fusion: Fusion) -> float:
    values = fusion.lists[name].values[memory.mask]
    return float(np.fmax.reduce(values, initial=-1.0))
