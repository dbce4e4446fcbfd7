"""Late interaction: the best turns once more, word piece by word piece (ColBERT's MaxSim; Khattab and Zaharia 2020).

Each word piece of the query looks for its nearest in the turn, or at a discount in a neighbor. Vectors of word pieces
come from the embedder's own forward pass and are kept as int8 (recall profile `best`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from agentmem.core.columns import Floats, Ints
from agentmem.core.ranking import Doubles, Fusion
from agentmem.models.protocols import TokenVectors
from agentmem.recall.cache import answers_question
from agentmem.recall.technique import SearchContext

TokensByOrdinal = Mapping[int, tuple[NDArray[np.int32], NDArray[np.int8]]]


# Tuned on the dialogues (786 questions, LoCoMo-shaped) and messages (170, BEAM-shaped) of docs/recall.md:
# profile `best` has R@10 .856 and .697, `default` .843 and .690.
DEPTH = 50  # turns that are looked at again
WEIGHT = 0.8  # of this list; each scaled list weighs 1
NEAR_SHARE = 0.7  # what a neighbor's word piece counts of its own
ANSWER_SHARE = 0.9  # the same where the turn before asks
LENGTH_PENALTY = 0.02  # for each ln(1 + words)


async def rerank_late_interaction(
    order: Ints, fusion: Fusion, query_tokens: TokenVectors, context: SearchContext
) -> Fusion | None:
    """The fusion with new scores for the turns in `order` (best first), which all stay ahead of the other turns.

    None when one of them has no word pieces yet, or the query has none.
    """
    if context.vectors is None or len(order) < 2 or not len(query_tokens.ids):
        return None
    near = context.context_neighbors
    needed = np.unique(np.concatenate([order, near.previous[order], near.next[order]]))
    tokens = await context.vectors.read_token_vectors([int(ordinal) for ordinal in needed[needed >= 0]], context.scope)
    if any(int(ordinal) not in tokens for ordinal in order):
        return None
    rarity = await context.cache.token_sample_for(context.embedder_id).estimate_idf(
        query_tokens.ids, context.turn_mask, context.vectors, context.scope
    )
    match = await asyncio.to_thread(_max_sim, order, query_tokens, rarity, tokens, context)
    low, high = float(match.min()), float(match.max())
    scaled = (match - low) / (high - low) if high > low else np.zeros(len(match))
    fresh = (fusion.normalized_sum[order] + WEIGHT * scaled) / (fusion.weight_sum + WEIGHT) + fusion.bonus_sum[order]
    return replace(fusion, scores=_keep_ahead(order, fresh, fusion.scores, context))


def _max_sim(
    order: Ints,
    query_tokens: TokenVectors,
    idf: Doubles,
    tokens: TokensByOrdinal,
    context: SearchContext,
) -> Doubles:
    ordinals = [ordinal for ordinal, (ids, _) in tokens.items() if len(ids)]
    place = {ordinal: row for row, ordinal in enumerate(ordinals)}
    lengths = np.array([len(tokens[ordinal][0]) for ordinal in ordinals])
    pieces = _normalize_rows(np.concatenate([tokens[ordinal][1] for ordinal in ordinals]))
    starts = np.concatenate(([0], np.cumsum(lengths)[:-1]))
    nearest = np.maximum.reduceat(_normalize_rows(query_tokens.vectors) @ pieces.T, starts, axis=1)
    nearest = np.concatenate([nearest, np.full((len(nearest), 1), -1.0, dtype=np.float32)], axis=1)

    def of(wanted: Ints) -> Floats:
        return np.asarray(nearest[:, [place.get(int(ordinal), -1) for ordinal in wanted]])

    back = np.where(answers_question(context.context_neighbors, context.columns.asks)[order], ANSWER_SHARE, NEAR_SHARE)
    best = of(order)
    best = np.maximum(
        best,
        np.where(
            context.context_neighbors.previous[order] >= 0, back * of(context.context_neighbors.previous[order]), -1.0
        ),
    )
    best = np.maximum(
        best,
        np.where(
            context.context_neighbors.next[order] >= 0, NEAR_SHARE * of(context.context_neighbors.next[order]), -1.0
        ),
    )
    weights = idf / max(idf.sum(), 1e-9)
    return np.asarray(weights @ best - LENGTH_PENALTY * np.log1p(context.columns.words[order]))


def _normalize_rows(vectors: NDArray[np.int8]) -> Floats:
    wide = vectors.astype(np.float32)
    return np.asarray(wide / np.maximum(np.linalg.norm(wide, axis=1, keepdims=True), 1e-6))


def _keep_ahead(order: Ints, new_scores: Doubles, scores: Doubles, context: SearchContext) -> Doubles:
    """The new scores; all other turns move down together where one of them would pass."""
    out = scores.copy()
    rest = context.turn_mask.copy()
    rest[order] = False
    if rest.any() and (over := float(scores[rest].max()) - float(new_scores.min())) >= 0:
        out[rest] -= over + 1e-5
    out[order] = new_scores
    return out
