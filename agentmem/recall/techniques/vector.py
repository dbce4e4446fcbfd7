"""Meaning: cosines of the query with whole records and with their sentences, each leaning on its neighbours.

A turn's vector is averaged with its neighbours' at query time, U = unit(V + .3 V before + .3 V after), from the cosines
alone: nothing of a neighbour is stored in a turn's vector. The sentences of a turn's gloss, and of facts taken from it,
count as sentences of the turn.
"""

from __future__ import annotations

import asyncio

import numpy as np
from pydantic import Field

from agentmem.model.outline import Floats, Ints
from agentmem.model.ranking import Doubles, Ranked, filled, zscore
from agentmem.recall.aside import aside
from agentmem.recall.neighbours import NONE, Neighbours, answers, taken
from agentmem.recall.spoken import FACT, GLOSS, speakers, speaking_for_turns
from agentmem.recall.technique import PATIENCE, Hits, Memory, Query
from agentmem.recall.technique import Options as TechniqueOptions
from agentmem.stores import SENTENCE, WHOLE, Scores, Where


class Options(TechniqueOptions):
    """`near`: weight of a neighbour's whole vector. The others steer the sentences: `asking` is taken from one that
    asks, `told` from what a fact says for its turn; `before`, `answer` (on top, when the turn before asks) and `after`
    are shares of a neighbour's good score.
    The deadline is long, because at first it covers loading the vectors. `patience` is the longest wait for the query's
    own vector, in seconds; the deadline stands still meanwhile."""

    deadline: float = Field(default=2.0, gt=0)
    patience: float = Field(default=PATIENCE, gt=0)
    near: float = Field(default=0.3, ge=0)
    asking: float = Field(default=0.1, ge=0)
    before: float = Field(default=0.15, ge=0)
    answer: float = Field(default=0.3, ge=0)
    after: float = Field(default=0.1, ge=0)
    told: float = Field(default=0.05, ge=0)


async def search(query: Query, memory: Memory, options: Options) -> Hits:
    """The lists `whole` and, where sentences have vectors, `sentence`. Nothing without a vector index."""
    if memory.vectors is None:
        return {}
    vector = await memory.embed(query.read.bare, options.patience)
    where = Where(kinds=(*query.request.kinds, *speaking_for_turns(query.request.kinds)))
    cosines = memory.kept.cosines_of(memory.identity).follow(memory.links, memory.vectors, memory.scope)
    grains = [WHOLE] + [SENTENCE] * (SENTENCE in memory.grains)
    between, scores = await asyncio.gather(cosines, memory.vectors.scores(vector, memory.scope, where, grains))
    return await aside(memory.outline.size, _lists, between, scores, memory, options)


def _lists(between: Floats, scores: list[Scores], memory: Memory, options: Options) -> Hits:
    lists = {"whole": Ranked(_whole(scores[0], between, memory, options))}
    if len(scores) > 1:
        lists["sentence"] = Ranked(_sentence(scores[1], memory, options))
    return lists


def _whole(found: Scores, cosines: Floats, memory: Memory, options: Options) -> Floats:
    alone = _column(memory, found.slots, found.scores)
    near, missing = memory.near, np.isnan(alone)
    if (missing & memory.mask).any():  # some vectors are still to come, and nobody leans on what has none
        near = Neighbours(
            np.where(taken(missing, near.before), NONE, near.before),
            np.where(taken(missing, near.after), NONE, near.after),
        )
        lengths = _lengths(near, cosines, options.near)
    else:
        lengths = memory.kept.once(
            (memory.identity, options.near), memory.outline, memory.mask,
            lambda: _lengths(near, cosines, options.near), cosines,
        )  # fmt: skip
    sums = alone + options.near * (taken(alone, near.before) + taken(alone, near.after))
    return np.asarray(sums / lengths, dtype=np.float32)


def _lengths(near: Neighbours, cosines: Floats, weight: float) -> Floats:
    """Lengths of V + weight (V before + V after), by slot, from the cosines between them alone."""
    first, last = near.before >= 0, near.after >= 0
    with_before, across = filled(cosines)
    inside = np.where(first, with_before, 0) + taken(with_before, near.after)
    square = 1 + weight**2 * (first.astype(np.float32) + last)
    square += 2 * weight * inside + 2 * weight**2 * np.where(first & last, across, 0)
    return np.asarray(np.sqrt(np.maximum(square, 1e-6)), dtype=np.float32)


def _sentence(found: Scores, memory: Memory, options: Options) -> Floats:
    """The best sentence of each record as a z-score, plus a share of the neighbours' where theirs are above average."""
    if not len(found.slots):
        return np.full(memory.outline.size, np.nan, dtype=np.float32)
    kept, outline, near = memory.kept, memory.outline, memory.near
    scores = found.scores - (options.asking * memory.calm) * found.asks
    first = kept.once("first passages", outline, memory.mask, lambda: _first(found.slots), found.slots)
    share = kept.once(options, outline, memory.mask, lambda: _share(memory, options))
    best = _by_slot(outline.size, found.slots[first], np.maximum.reduceat(scores, first))
    for kind, less in ((GLOSS, 0.0), (FACT, options.told)):
        spoken = speakers(memory, kind)
        np.fmax.at(best, spoken.turns, best[spoken.slots] - np.float32(less))
    best[~memory.mask] = np.nan
    standing = zscore(best, memory.basis)
    good = np.fmax(standing, 0)
    standing += share * taken(good, near.before) + options.after * taken(good, near.after)
    return standing.astype(np.float32)


def _first(slots: Ints) -> Ints:
    """Where the passages of each record begin."""
    return np.flatnonzero(np.concatenate([[True], slots[1:] != slots[:-1]]))


def _share(memory: Memory, options: Options) -> Doubles:
    return np.asarray(options.before + options.answer * answers(memory.near, memory.outline.asks), dtype=np.float64)


def _column(memory: Memory, slots: Ints, scores: Floats) -> Floats:
    """Scores by slot, NaN for what is not visible or has none."""
    column = _by_slot(memory.outline.size, slots, scores)
    column[~memory.mask] = np.nan
    return column


def _by_slot(size: int, slots: Ints, scores: Floats) -> Floats:
    """Scores by slot, NaN for what has none. An index ahead of the outline is cut off."""
    column = np.full(size, np.nan, dtype=np.float32)
    if len(slots) and slots[-1] >= size:
        inside = slots < size
        slots, scores = slots[inside], scores[inside]
    column[slots] = scores
    return column
