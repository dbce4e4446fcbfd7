"""Whether a memory holds anything that the question is about. Recall delivers all the same, and says so."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from agentmem.model.ranking import Fusion
from agentmem.recall.query import RecallQuery
from agentmem.recall.technique import SearchContext

NOTICE_NOTHING_RELEVANT = "Nothing relevant was found: what follows is merely the nearest."


class RelevanceThreshold(NamedTuple):
    """Below both nothing is about the question: the best cosine of `whole`, and the best share of its words.

    The share is the best BM25 score over what all terms of the query could give if each were the rarest.
    """

    cosine: float
    term_coverage: float


# From `python -m tests.benchmarks.floors` over the development half of LoCoMo: docs/techniques.md has the figures.
RELEVANCE_THRESHOLDS: Mapping[str, RelevanceThreshold] = MappingProxyType({
    "local:all-MiniLM-L6-v2": RelevanceThreshold(cosine=0.28, term_coverage=0.16),
    "local:sentence-transformers/all-MiniLM-L6-v2": RelevanceThreshold(cosine=0.28, term_coverage=0.16),
})  # fmt: skip
"""By the beginning of an embedder's identity; nothing is said of others."""

NAMED_MATCH_LISTS = ("date", "entities", "linked", "range")
"""Bonuses that only what the question names gets."""


def has_relevant_result(query: RecallQuery, context: SearchContext, fusion: Fusion, min_turns: int) -> bool:
    """False when the best record is below the embedder's floors and nothing fits a date or an entity of the question.

    True where that cannot be told: an embedder without floors, no vectors, fewer than `min_turns` visible turns.
    """
    floor = next((floor for name, floor in RELEVANCE_THRESHOLDS.items() if context.embedder_id.startswith(name)), None)
    if floor is None or "whole" not in fusion.lists or int(context.turn_mask.sum()) < max(min_turns, 1):
        return True
    if any((fusion.lists[name].values > 0).any() for name in NAMED_MATCH_LISTS if name in fusion.lists):
        return True
    return (
        _best_score("whole", context, fusion) >= floor.cosine
        or _best_term_coverage(query, context, fusion) >= floor.term_coverage
    )


def _best_term_coverage(query: RecallQuery, context: SearchContext, fusion: Fusion) -> float:
    """The best BM25 score over the most that the terms of the query could give; idf as `keyword` takes it."""
    if "words" not in fusion.lists:
        return 0.0
    rarest = np.log1p((int(context.current_mask.sum()) + 0.5) / 0.5)
    return _best_score("words", context, fusion) / max(float(len(query.parsed.terms) * rarest), 1e-9)


def _best_score(name: str, context: SearchContext, fusion: Fusion) -> float:
    values = fusion.lists[name].values[context.mask]
    return float(np.fmax.reduce(values, initial=-1.0))
