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
from agentmem.recall.technique import EMBED_TIMEOUT_SECONDS, ScoreLists, SearchContext, TechniqueOptions
from agentmem.recall.techniques._document_expansion import FACT, TURN_SUMMARY, expansion_kinds, find_expansions
from agentmem.stores.values import SENTENCE, WHOLE, ChunkScores, Where


class Options(TechniqueOptions):
    """`near`: weight of a neighbor's whole vector. The others steer the sentences: `asking` is taken from one that
    asks, `told` from what a fact says for its turn; `before`, `answer` (on top, when the turn before asks) and `after`
    are shares of a neighbor's good score.
    The deadline is long, because at first it covers loading the vectors. `patience` is the longest wait for the query's
    own vector, in seconds; the deadline stands still meanwhile."""

    deadline: float = Field(default=2.0, gt=0)
    patience: float = Field(default=EMBED_TIMEOUT_SECONDS, gt=0)
    near: float = Field(default=0.3, ge=0)
    asking: float = Field(default=0.1, ge=0)
    before: float = Field(default=0.15, ge=0)
    answer: float = Field(default=0.3, ge=0)
    after: float = Field(default=0.1, ge=0)
    told: float = Field(default=0.05, ge=0)


async def search(query: RecallQuery, context: SearchContext, options: Options) -> ScoreLists:
    """The lists `whole` and, where sentences have vectors, `sentence`. Nothing without a vector index."""
    if context.vectors is None:
        return {}
    vector = await context.embed(query.parsed.text_without_names, options.patience)
    where = Where(kinds=(*query.request.kinds, *expansion_kinds(query.request.kinds)))
    cosines = context.cache.cosines_for(context.embedder_id).read(context.all_neighbors, context.vectors, context.scope)
    granularities = [WHOLE] + [SENTENCE] * (SENTENCE in context.granularities)
    between, scores = await asyncio.gather(
        cosines, context.vectors.score_all(vector, context.scope, where, granularities)
    )
    return await offload_if_large(context.columns.size, _build_lists, between, scores, context, options)


def _build_lists(cosines: Floats, scores: list[ChunkScores], context: SearchContext, options: Options) -> ScoreLists:
    lists = {"whole": ScoreList(_score_whole(scores[0], cosines, context, options))}
    if len(scores) > 1:
        lists["sentence"] = ScoreList(_score_sentences(scores[1], context, options))
    return lists


def _score_whole(chunk_scores: ChunkScores, cosines: Floats, context: SearchContext, options: Options) -> Floats:
    alone = _visible_scores(context, chunk_scores.ordinals, chunk_scores.scores)
    near, missing = context.context_neighbors, np.isnan(alone)
    if (missing & context.mask).any():  # some vectors are still to come, and nobody leans on what has none
        near = TurnNeighbors(
            np.where(neighbor_values(missing, near.previous), NO_NEIGHBOR, near.previous),
            np.where(neighbor_values(missing, near.next), NO_NEIGHBOR, near.next),
        )
        lengths = _window_lengths(near, cosines, options.near)
    else:
        lengths = context.cache.get_or_compute(
            (context.embedder_id, options.near),
            context.columns,
            context.mask,
            lambda: _window_lengths(near, cosines, options.near),
            cosines,
        )
    sums = alone + options.near * (neighbor_values(alone, near.previous) + neighbor_values(alone, near.next))
    return np.asarray(sums / lengths, dtype=np.float32)


def _window_lengths(neighbors: TurnNeighbors, cosines: Floats, weight: float) -> Floats:
    """Lengths of V + weight (V before + V after), by ordinal, from the cosines between them alone."""
    first, last = neighbors.previous >= 0, neighbors.next >= 0
    with_before, across = nan_to_zero(cosines)
    inside = np.where(first, with_before, 0) + neighbor_values(with_before, neighbors.next)
    square = 1 + weight**2 * (first.astype(np.float32) + last)
    square += 2 * weight * inside + 2 * weight**2 * np.where(first & last, across, 0)
    return np.asarray(np.sqrt(np.maximum(square, 1e-6)), dtype=np.float32)


def _score_sentences(chunk_scores: ChunkScores, context: SearchContext, options: Options) -> Floats:
    """The best sentence of each record as a z-score, plus a share of the neighbors' where theirs are above average."""
    if not len(chunk_scores.ordinals):
        return np.full(context.columns.size, np.nan, dtype=np.float32)
    kept, columns, near = context.cache, context.columns, context.context_neighbors
    scores = chunk_scores.scores - (options.asking * context.statement_ratio) * chunk_scores.is_question
    first = kept.get_or_compute(
        "first passages", columns, context.mask, lambda: _record_starts(chunk_scores.ordinals), chunk_scores.ordinals
    )
    share = kept.get_or_compute(options, columns, context.mask, lambda: _before_shares(context, options))
    best = _scores_by_ordinal(columns.size, chunk_scores.ordinals[first], np.maximum.reduceat(scores, first))
    for kind, less in ((TURN_SUMMARY, 0.0), (FACT, options.told)):
        spoken = find_expansions(context, kind)
        np.fmax.at(best, spoken.turn_ordinals, best[spoken.ordinals] - np.float32(less))
    best[~context.mask] = np.nan
    standing = zscore(best, context.normalization_mask)
    good = np.fmax(standing, 0)
    standing += share * neighbor_values(good, near.previous) + options.after * neighbor_values(good, near.next)
    return standing.astype(np.float32)


def _record_starts(ordinals: Ints) -> Ints:
    """Where the passages of each record begin."""
    return np.flatnonzero(np.concatenate([[True], ordinals[1:] != ordinals[:-1]]))


def _before_shares(context: SearchContext, options: Options) -> Doubles:
    return np.asarray(
        options.before + options.answer * answers_question(context.context_neighbors, context.columns.asks),
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
