"""Words: BM25 over the user's own words and statistics, where a turn also speaks with the words of its neighbors.

BM25 after Robertson and Zaragoza 2009, idf as Lucene takes it. Term frequencies are smoothed over neighboring turns:
an answer inherits the words of its question, which it rarely repeats.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from agentmem.core.columns import CONTAINS_QUESTION, Bools, Floats, Ints, RecordColumns
from agentmem.core.event_loop import offload_if_large
from agentmem.core.ranking import Doubles, ScoreList
from agentmem.recall.cache import TurnNeighbors, answers_question, context_window, invert, neighbor_values
from agentmem.recall.request import RecallQuery
from agentmem.recall.technique import ScoreLists, SearchContext, TechniqueOptions
from agentmem.recall.techniques._document_expansion import TURN_SUMMARY
from agentmem.stores.values import Postings

DENSE_FRACTION = 16  # a term in more than every sixteenth ordinal is summed by column, others by sorting


# Tuned on the dialogues (786 questions, LoCoMo-shaped) and messages (170, BEAM-shaped) of docs/recall.md. Without
# neighbors R@10 changes by -.016 and +.006.
K1 = 0.9  # BM25: how soon a repeated word counts no more
B = 0.3  # BM25: how much length counts
BEFORE_SHARE = 0.3  # of the term frequencies of the turn before
ANSWER_SHARE = 0.8  # the same where that turn asks
AFTER_SHARE = 0.2  # of the term frequencies of the turn after


class Options(TechniqueOptions):
    """Nothing beside what every technique has."""


async def search(query: RecallQuery, context: SearchContext, options: Options) -> ScoreLists:
    """The list `words`: 0 where no term of the query occurs. Nothing for a query without terms."""
    if not query.parsed.terms:
        return {}
    matches = await context.match(list(dict.fromkeys(query.parsed.terms)))
    return {
        "words": ScoreList(
            await offload_if_large(context.columns.size, score_bm25, query.parsed.terms, matches, context)
        )
    }


def score_bm25(query_terms: list[str], postings_by_term: Mapping[str, Postings], context: SearchContext) -> Floats:
    """Scores by ordinal. A term that the query repeats counts as often."""
    columns = context.columns
    ground = context.cache.get_or_compute(
        "word statistics", columns, context.mask, lambda: _build_collection_stats(context), context.current_mask
    )
    scores = np.zeros(columns.size)
    for term, repeats in sorted(Counter(query_terms).items()):
        if (postings := postings_by_term.get(term)) is None:
            continue
        postings = _add_summary_postings(postings, context, ground)
        held = int(ground.document_mask[postings.ordinals].sum())
        rarity = np.log1p(max(ground.document_count - held + 0.5, 0.5) / (held + 0.5))
        ordinals, frequency = _smooth_frequencies(postings, context, ground)
        scores[ordinals] += repeats * rarity * frequency / (frequency + ground.length_norm[ordinals])
    return scores.astype(np.float32)


class _CollectionStats(NamedTuple):
    """What does not depend on the query: by ordinal the share of the length in BM25, and who leans back and forward on
    it with what weight of its words, and which turn it explains, -1 for none; and which records count as having words,
    and how many they are: the current ones without glosses."""

    length_norm: Doubles
    next_turns: Ints
    next_turn_shares: Doubles
    previous_turns: Ints
    summarized_turns: Ints
    document_mask: Bools
    document_count: int


def _build_collection_stats(context: SearchContext) -> _CollectionStats:
    columns, near = context.columns, context.context_neighbors
    counted = context.current_mask & (columns.kind != columns.kinds.find_code(TURN_SUMMARY))
    return _CollectionStats(
        length_norm=K1 * (1 - B + B * _relative_lengths(context)),
        next_turns=invert(near.previous),
        next_turn_shares=np.where((columns.asks & CONTAINS_QUESTION) != 0, ANSWER_SHARE, BEFORE_SHARE),
        previous_turns=invert(near.next),
        summarized_turns=_summarized_turns(context),
        document_mask=counted,
        document_count=int((counted & (columns.words > 0)).sum()),
    )


def _summarized_turns(context: SearchContext) -> Ints:
    """By ordinal of a gloss, the turn that it explains and that has its words beside its own; -1 for others."""
    columns = context.columns
    gloss = context.current_mask & (columns.kind == columns.kinds.find_code(TURN_SUMMARY))
    return np.asarray(np.where(gloss, columns.turn, -1))


def _add_summary_postings(postings: Postings, context: SearchContext, stats: _CollectionStats) -> Postings:
    """One term's postings, and once for each turn that lacks it and whose gloss has it."""
    turns = stats.summarized_turns[postings.ordinals]
    turns = turns[turns >= 0]
    if not len(turns):
        return postings
    more = np.setdiff1d(turns, postings.ordinals)
    ordinals = np.concatenate([postings.ordinals, more])
    counts = np.concatenate([postings.counts, np.ones(len(more), dtype=postings.counts.dtype)])
    order = np.argsort(ordinals, kind="stable")
    return Postings(ordinals[order], counts[order])


def _smooth_frequencies(postings: Postings, context: SearchContext, stats: _CollectionStats) -> tuple[Ints, Doubles]:
    """Ordinals and frequencies of one term."""
    seen = context.mask[postings.ordinals]
    ordinals, counts = postings.ordinals[seen], postings.counts[seen].astype(np.float64)
    where = np.concatenate([ordinals, stats.next_turns[ordinals], stats.previous_turns[ordinals]])
    weight = np.concatenate([counts, counts * stats.next_turn_shares[ordinals], counts * AFTER_SHARE])
    where, weight = where[where >= 0], weight[where >= 0]
    if DENSE_FRACTION * len(where) < context.columns.size:
        distinct, place = np.unique(where, return_inverse=True)
        return distinct, np.bincount(place.reshape(-1), weights=weight).astype(np.float64)
    column = np.bincount(where, weights=weight).astype(np.float64)
    distinct = np.flatnonzero(column)
    return distinct, column[distinct]


def _relative_lengths(context: SearchContext) -> Doubles:
    """Smoothed length of each record over the mean of its kind: claims are not measured by the length of turns."""
    columns = context.columns
    lengths = _smooth_lengths(context.context_neighbors, columns)
    known = lengths
    counted = context.current_mask & (columns.words > 0)
    if not np.array_equal(counted, context.mask):  # the mean is over what is current in all channels
        known = _smooth_lengths(context_window(context.all_neighbors, context.current_mask, columns.words), columns)
    kinds = np.maximum(columns.kind, 0)
    number = np.bincount(kinds[counted], minlength=len(columns.kinds.values))
    total = np.bincount(kinds[counted], weights=known[counted], minlength=len(columns.kinds.values))
    mean = np.where(total > 0, total / np.maximum(number, 1), 1.0)
    return np.asarray(lengths / mean[kinds])


def _smooth_lengths(neighbors: TurnNeighbors, columns: RecordColumns) -> Doubles:
    lengths = columns.length.astype(np.float64)
    share = np.where(answers_question(neighbors, columns.asks), ANSWER_SHARE, BEFORE_SHARE)
    return np.asarray(
        lengths
        + share * neighbor_values(lengths, neighbors.previous)
        + AFTER_SHARE * neighbor_values(lengths, neighbors.next)
    )
