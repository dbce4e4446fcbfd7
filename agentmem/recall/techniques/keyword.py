"""Words: BM25 over the user's own words and statistics, where a turn also speaks with the words of its neighbours.

BM25 after Robertson and Zaragoza 2009, idf as Lucene takes it. Term frequencies are smoothed over neighbouring turns:
an answer inherits the words of its question, which it rarely repeats.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from pydantic import Field

from agentmem.model.outline import ASKS_ANY, Bools, Floats, Ints, Outline
from agentmem.model.ranking import Doubles
from agentmem.recall.aside import aside
from agentmem.recall.neighbours import Neighbours, answers, inverse, leaning, taken
from agentmem.recall.spoken import GLOSS
from agentmem.recall.technique import Hits, Memory, Query, Ranked
from agentmem.recall.technique import Options as TechniqueOptions
from agentmem.stores import Postings

DENSE = 16  # a term in more than every sixteenth slot is summed by column, others by sorting


class Options(TechniqueOptions):
    """`before` and `after` are shares of the neighbours' term frequencies, `answer` that of a question before."""

    k1: float = Field(default=0.9, ge=0)
    b: float = Field(default=0.3, ge=0, le=1)
    before: float = Field(default=0.3, ge=0)
    answer: float = Field(default=0.8, ge=0)
    after: float = Field(default=0.2, ge=0)


async def search(query: Query, memory: Memory, options: Options) -> Hits:
    """The list `words`: 0 where no term of the query occurs. Nothing for a query without terms."""
    if not query.read.terms:
        return {}
    matches = await memory.match(list(dict.fromkeys(query.read.terms)))
    return {"words": Ranked(await aside(memory.outline.size, bm25, query.read.terms, matches, memory, options))}


def bm25(terms: list[str], matches: Mapping[str, Postings], memory: Memory, options: Options) -> Floats:
    """Scores by slot. A term that the query repeats counts as often."""
    outline = memory.outline
    ground = memory.kept.once(options, outline, memory.mask, lambda: _ground(memory, options), memory.current)
    scores = np.zeros(outline.size)
    for term, repeats in sorted(Counter(terms).items()):
        if (postings := matches.get(term)) is None:
            continue
        postings = _with_glosses(postings, memory, ground)
        held = int(ground.counted[postings.slots].sum())
        rarity = np.log1p(max(ground.total - held + 0.5, 0.5) / (held + 0.5))
        slots, frequency = _smoothed(postings, memory, ground, options)
        scores[slots] += repeats * rarity * frequency / (frequency + ground.norm[slots])
    return scores.astype(np.float32)


class _Ground(NamedTuple):
    """What does not depend on the query: by slot the share of the length in BM25, and who leans back and forward on it
    with what weight of its words, and which turn it explains, -1 for none; and which records count as having words, and
    how many they are: the current ones without glosses."""

    norm: Doubles
    heirs: Ints
    handed: Doubles
    tellers: Ints
    explained: Ints
    counted: Bools
    total: int


def _ground(memory: Memory, options: Options) -> _Ground:
    outline, near = memory.outline, memory.near
    counted = memory.current & (outline.kind != outline.kinds.find(GLOSS))
    return _Ground(
        norm=options.k1 * (1 - options.b + options.b * _relative_lengths(memory, options)),
        heirs=inverse(near.before),
        handed=np.where((outline.asks & ASKS_ANY) != 0, options.answer, options.before),
        tellers=inverse(near.after),
        explained=_explained(memory),
        counted=counted,
        total=int((counted & (outline.words > 0)).sum()),
    )


def _explained(memory: Memory) -> Ints:
    """By slot of a gloss, the turn that it explains and that has its words beside its own; -1 for others."""
    outline = memory.outline
    gloss = memory.current & (outline.kind == outline.kinds.find(GLOSS))
    return np.asarray(np.where(gloss, outline.turn, -1))


def _with_glosses(postings: Postings, memory: Memory, ground: _Ground) -> Postings:
    """One term's postings, and once for each turn that lacks it and whose gloss has it."""
    turns = ground.explained[postings.slots]
    turns = turns[turns >= 0]
    if not len(turns):
        return postings
    more = np.setdiff1d(turns, postings.slots)
    slots = np.concatenate([postings.slots, more])
    counts = np.concatenate([postings.counts, np.ones(len(more), dtype=postings.counts.dtype)])
    order = np.argsort(slots, kind="stable")
    return Postings(slots[order], counts[order])


def _smoothed(postings: Postings, memory: Memory, ground: _Ground, options: Options) -> tuple[Ints, Doubles]:
    """Slots and frequencies of one term."""
    seen = memory.mask[postings.slots]
    slots, counts = postings.slots[seen], postings.counts[seen].astype(np.float64)
    where = np.concatenate([slots, ground.heirs[slots], ground.tellers[slots]])
    weight = np.concatenate([counts, counts * ground.handed[slots], counts * options.after])
    where, weight = where[where >= 0], weight[where >= 0]
    if DENSE * len(where) < memory.outline.size:
        distinct, place = np.unique(where, return_inverse=True)
        return distinct, np.bincount(place.reshape(-1), weights=weight).astype(np.float64)
    column = np.bincount(where, weights=weight).astype(np.float64)
    distinct = np.flatnonzero(column)
    return distinct, column[distinct]


def _relative_lengths(memory: Memory, options: Options) -> Doubles:
    """Smoothed length of each record over the mean of its kind: claims are not measured by the length of turns."""
    outline = memory.outline
    lengths = _smoothed_lengths(memory.near, outline, options)
    known = lengths
    counted = memory.current & (outline.words > 0)
    if not np.array_equal(counted, memory.mask):  # the mean is over what is current in all channels
        known = _smoothed_lengths(leaning(memory.links, memory.current, outline.words), outline, options)
    kinds = np.maximum(outline.kind, 0)
    number = np.bincount(kinds[counted], minlength=len(outline.kinds.values))
    total = np.bincount(kinds[counted], weights=known[counted], minlength=len(outline.kinds.values))
    mean = np.where(total > 0, total / np.maximum(number, 1), 1.0)
    return np.asarray(lengths / mean[kinds])


def _smoothed_lengths(near: Neighbours, outline: Outline, options: Options) -> Doubles:
    lengths = outline.length.astype(np.float64)
    share = np.where(answers(near, outline.asks), options.answer, options.before)
    return np.asarray(lengths + share * taken(lengths, near.before) + options.after * taken(lengths, near.after))
