"""Meaning: cosines of the query with whole records and with their sentences, each leaning on its neighbors.

A turn's vector is averaged with its neighbors' at query time, U = unit(V + .3 V before + .3 V after), from the cosines
alone: nothing of a neighbor is stored in a turn's vector. The sentences of a turn's gloss, and of facts taken from it,
count as sentences of the turn.
"""

from __future__ import annotations

import asyncio

import numpy as np
from pydantic import Field

from agentmem.core.columns import Floats, Ints
from agentmem.core.event_loop import offload_if_large
from agentmem.core.ranking import Doubles, ScoreList, nan_to_zero, zscore
from agentmem.recall.cache import NO_NEIGHBOR, TurnNeighbors, answers_question, neighbor_values
from agentmem.recall.request import RecallQuery
from agentmem.recall.technique import DEADLINE, ScoreLists, SearchContext, TechniqueOptions
from agentmem.recall.techniques._document_expansion import FACT, TURN_SUMMARY, expansion_kinds, find_expansions
from agentmem.stores.values import SENTENCE, WHOLE, ChunkScores, Where

# How much neighbors and questions count: tuned on the dialogues (786 questions, LoCoMo-shaped) and messages (170,
# BEAM-shaped) of docs/recall.md. Without neighbors R@10 changes by -.008 and -.011, without the penalty for asking by
# -.007 and +.004.
NEAR_WEIGHT = 0.3  # of a neighbor's whole vector, beside 1 of the turn's own
ASKING_PENALTY = 0.1  # from the cosine of a sentence that asks, as far as the memory states rather than asks
BEFORE_SHARE = 0.15  # of the good score of the turn before
ANSWER_SHARE = 0.3  # in addition, where the turn before asks
AFTER_SHARE = 0.1  # of the good score of the turn after
TOLD_PENALTY = 0.05  # from the cosine of what a fact says for its turn


class Options(TechniqueOptions):
    """The deadline is long, because at first it covers loading the vectors."""

    deadline: float = Field(default=2.0, gt=0, description=DEADLINE)


async def search(query: RecallQuery, context: SearchContext, options: Options) -> ScoreLists:
    """The lists `whole` and, where sentences have vectors, `sentence`. Nothing without a vector index."""
    if context.vectors is None:
        return {}
    vector = await context.embed(query.parsed.text_without_names)
    where = Where(kinds=(*query.request.kinds, *expansion_kinds(query.request.kinds)))
    cosines = context.cache.cosines_for(context.embedder_id).read(context.all_neighbors, context.vectors, context.scope)
    granularities = [WHOLE] + [SENTENCE] * (SENTENCE in context.granularities)
    between, scores = await asyncio.gather(
        cosines, context.vectors.score_all(vector, context.scope, where, granularities)
    )
    return await offload_if_large(context.columns.size, _build_lists, between, scores, context)


def _build_lists(cosines: Floats, scores: list[ChunkScores], context: SearchContext) -> ScoreLists:
    lists = {"whole": ScoreList(_score_whole(scores[0], cosines, context))}
    if len(scores) > 1:
        lists["sentence"] = ScoreList(_score_sentences(scores[1], context))
    return lists


def _score_whole(chunk_scores: ChunkScores, cosines: Floats, context: SearchContext) -> Floats:
    alone = _visible_scores(context, chunk_scores.ordinals, chunk_scores.scores)
    near, missing = context.context_neighbors, np.isnan(alone)
    if (missing & context.mask).any():  # some vectors are still to come, and nobody leans on what has none
        near = TurnNeighbors(
            np.where(neighbor_values(missing, near.previous), NO_NEIGHBOR, near.previous),
            np.where(neighbor_values(missing, near.next), NO_NEIGHBOR, near.next),
        )
        lengths = _window_lengths(near, cosines, NEAR_WEIGHT)
    else:
        lengths = context.cache.get_or_compute(
            (context.embedder_id, "window lengths"),
            context.columns,
            context.mask,
            lambda: _window_lengths(near, cosines, NEAR_WEIGHT),
            cosines,
        )
    sums = alone + NEAR_WEIGHT * (neighbor_values(alone, near.previous) + neighbor_values(alone, near.next))
    return np.asarray(sums / lengths, dtype=np.float32)


def _window_lengths(neighbors: TurnNeighbors, cosines: Floats, weight: float) -> Floats:
    """Lengths of V + weight (V before + V after), by ordinal, from the cosines between them alone."""
    first, last = neighbors.previous >= 0, neighbors.next >= 0
    with_before, across = nan_to_zero(cosines)
    inside = np.where(first, with_before, 0) + neighbor_values(with_before, neighbors.next)
    square = 1 + weight**2 * (first.astype(np.float32) + last)
    square += 2 * weight * inside + 2 * weight**2 * np.where(first & last, across, 0)
    return np.asarray(np.sqrt(np.maximum(square, 1e-6)), dtype=np.float32)


def _score_sentences(chunk_scores: ChunkScores, context: SearchContext) -> Floats:
    """The best sentence of each record as a z-score, plus a share of the neighbors' where theirs are above average."""
    if not len(chunk_scores.ordinals):
        return np.full(context.columns.size, np.nan, dtype=np.float32)
    kept, columns, near = context.cache, context.columns, context.context_neighbors
    scores = chunk_scores.scores - (ASKING_PENALTY * context.statement_ratio) * chunk_scores.is_question
    first = kept.get_or_compute(
        "first passages", columns, context.mask, lambda: _record_starts(chunk_scores.ordinals), chunk_scores.ordinals
    )
    share = kept.get_or_compute("shares before", columns, context.mask, lambda: _before_shares(context))
    best = _scores_by_ordinal(columns.size, chunk_scores.ordinals[first], np.maximum.reduceat(scores, first))
    for kind, less in ((TURN_SUMMARY, 0.0), (FACT, TOLD_PENALTY)):
        spoken = find_expansions(context, kind)
        np.fmax.at(best, spoken.turn_ordinals, best[spoken.ordinals] - np.float32(less))
    best[~context.mask] = np.nan
    standing = zscore(best, context.normalization_mask)
    good = np.fmax(standing, 0)
    standing += share * neighbor_values(good, near.previous) + AFTER_SHARE * neighbor_values(good, near.next)
    return standing.astype(np.float32)


def _record_starts(ordinals: Ints) -> Ints:
    """Where the passages of each record begin."""
    return np.flatnonzero(np.concatenate([[True], ordinals[1:] != ordinals[:-1]]))


def _before_shares(context: SearchContext) -> Doubles:
    return np.asarray(
        BEFORE_SHARE + ANSWER_SHARE * answers_question(context.context_neighbors, context.columns.asks),
        dtype=np.float64,
    )


def _visible_scores(context: SearchContext, ordinals: Ints, scores: Floats) -> Floats:
    """Scores by ordinal, NaN for what is not visible or has none."""
    column = _scores_by_ordinal(context.columns.size, ordinals, scores)
    column[~context.mask] = np.nan
    return column


def _scores_by_ordinal(size: int, ordinals: Ints, scores: Floats) -> Floats:
    """Scores by ordinal, NaN for what has none. An index ahead of the columns is cut off."""
    column = np.full(size, np.nan, dtype=np.float32)
    if len(ordinals) and ordinals[-1] >= size:
        inside = ordinals < size
        ordinals, scores = ordinals[inside], scores[inside]
    column[ordinals] = scores
    return column
