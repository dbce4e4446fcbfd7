"""Meaning: cosines of the query with whole records and with their sentences, each leaning on its neighbours.

A turn's vector is averaged with its neighbours' at query time, U = unit(V + .3 V before + .3 V after), from the cosines
alone: nothing of a neighbour is stored in a turn's vector.
"""

from __future__ import annotations

import asyncio

import numpy as np
from pydantic import Field

from agentmem.model.outline import Floats, Ints
from agentmem.model.ranking import Ranked, zscore
from agentmem.recall.aside import aside
from agentmem.recall.neighbours import answers, taken
from agentmem.recall.technique import Hits, Memory, Query
from agentmem.recall.technique import Options as TechniqueOptions
from agentmem.stores import SENTENCE, WHOLE, Scores, Where


class Options(TechniqueOptions):
    """`near`: weight of a neighbour's whole vector. The others steer the sentences: `asking` is taken from one that
    asks; `before`, `answer` (on top, when the turn before asks) and `after` are shares of a neighbour's good score.
    The deadline is long, because it covers the query's embedding, and at first loading the model and the vectors."""

    deadline: float = Field(default=2.0, gt=0)
    near: float = Field(default=0.3, ge=0)
    asking: float = Field(default=0.1, ge=0)
    before: float = Field(default=0.15, ge=0)
    answer: float = Field(default=0.3, ge=0)
    after: float = Field(default=0.1, ge=0)


async def search(query: Query, memory: Memory, options: Options) -> Hits:
    """The lists `whole` and, where sentences have vectors, `sentence`. Nothing without a vector index."""
    if memory.vectors is None:
        return {}
    vector = await memory.embed(query.read.bare)
    where = Where(kinds=query.request.kinds)
    cosines = memory.kept.cosines_of(memory.identity).follow(memory.links, memory.vectors, memory.scope)
    grains = [WHOLE] + [SENTENCE] * (SENTENCE in memory.grains)
    found = [memory.vectors.nearest(vector, memory.scope, where, grain) for grain in grains]
    between, scores = await asyncio.gather(cosines, asyncio.gather(*found))
    return await aside(memory.outline.size, _lists, between, scores, memory, options)


def _lists(between: Floats, scores: list[Scores], memory: Memory, options: Options) -> Hits:
    lists = {"whole": Ranked(_whole(scores[0], between, memory, options))}
    if len(scores) > 1:
        lists["sentence"] = Ranked(_sentence(scores[1], memory, options))
    return lists


def _whole(found: Scores, cosines: Floats, memory: Memory, options: Options) -> Floats:
    alone = _column(memory, found.slots, found.scores)
    before = np.where(np.isnan(taken(alone, memory.near.before, np.nan)), -1, memory.near.before)
    after = np.where(np.isnan(taken(alone, memory.near.after, np.nan)), -1, memory.near.after)
    weight, near = options.near, alone + 0.0
    near += weight * (taken(alone, before) + taken(alone, after))
    with_before, across = cosines
    with_after = taken(np.nan_to_num(with_before), after)
    with_before = np.where(before >= 0, np.nan_to_num(with_before), 0)
    across = np.where((before >= 0) & (after >= 0), np.nan_to_num(across), 0)
    square = 1 + weight**2 * ((before >= 0).astype(np.float32) + (after >= 0))
    square += 2 * weight * (with_before + with_after) + 2 * weight**2 * across
    return np.asarray(near / np.sqrt(np.maximum(square, 1e-6)), dtype=np.float32)


def _sentence(found: Scores, memory: Memory, options: Options) -> Floats:
    """The best sentence of each record as a z-score, plus a share of the neighbours' where theirs are above average."""
    if not len(found.slots):
        return np.full(memory.outline.size, np.nan, dtype=np.float32)
    scores = found.scores - options.asking * memory.calm * found.asks
    first = np.flatnonzero(np.diff(found.slots, prepend=-1))
    best = _column(memory, found.slots[first], np.maximum.reduceat(scores, first))
    standing = zscore(best, memory.basis)
    good = np.maximum(np.nan_to_num(standing), 0)
    share = options.before + options.answer * answers(memory.near, memory.outline.asks)
    standing += share * taken(good, memory.near.before) + options.after * taken(good, memory.near.after)
    return standing.astype(np.float32)


def _column(memory: Memory, slots: Ints, scores: Floats) -> Floats:
    """Scores by slot, NaN for what is not visible or has none. An index ahead of the outline is cut off."""
    column = np.full(memory.outline.size, np.nan, dtype=np.float32)
    inside = slots < memory.outline.size
    column[slots[inside]] = scores[inside]
    column[~memory.mask] = np.nan
    return column
