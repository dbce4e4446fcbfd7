"""Late interaction: the best turns once more, word piece by word piece (ColBERT's MaxSim; Khattab and Zaharia 2020).

Each word piece of the query looks for its nearest in the turn, or at a discount in a neighbour. Vectors of word pieces
come from the embedder's own forward pass and are kept as int8 (recall profile `best`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from agentmem.model.outline import Floats, Ints
from agentmem.model.ranking import Doubles, Fusion
from agentmem.providers import TokenVectors
from agentmem.recall.neighbours import answers
from agentmem.recall.technique import Memory

Tokens = Mapping[int, tuple[NDArray[np.int32], NDArray[np.int8]]]


class RerankOptions(BaseModel):
    """`depth` turns are looked at again. `weight` is that of one more list beside the scaled ones. A neighbour's word
    piece counts `near` of its own, or `answer` where the turn before asks; `length` is taken per ln(1 + words)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    depth: int = Field(default=50, ge=2, le=1000)
    weight: float = Field(default=0.8, gt=0)
    near: float = Field(default=0.7, ge=0, le=1)
    answer: float = Field(default=0.9, ge=0, le=1)
    length: float = Field(default=0.02, ge=0)


async def late_interaction(
    order: Ints, fusion: Fusion, query: TokenVectors, memory: Memory, options: RerankOptions
) -> Fusion | None:
    """The fusion with new scores for the turns in `order` (best first), which all stay ahead of the other turns.

    None when one of them has no word pieces yet, or the query has none.
    """
    if memory.vectors is None or len(order) < 2 or not len(query.ids):
        return None
    near = memory.near
    needed = np.unique(np.concatenate([order, near.before[order], near.after[order]]))
    tokens = await memory.vectors.tokens([int(slot) for slot in needed[needed >= 0]], memory.scope)
    if any(int(slot) not in tokens for slot in order):
        return None
    rarity = await memory.kept.pieces_of(memory.identity).rarity(query.ids, memory.turns, memory.vectors, memory.scope)
    match = await asyncio.to_thread(_max_sim, order, query, rarity, tokens, memory, options)
    low, high = float(match.min()), float(match.max())
    scaled = (match - low) / (high - low) if high > low else np.zeros(len(match))
    fresh = (fusion.scaled[order] + options.weight * scaled) / (fusion.weight + options.weight) + fusion.added[order]
    return replace(fusion, scores=_keep_ahead(order, fresh, fusion.scores, memory))


def _max_sim(
    order: Ints, query: TokenVectors, rarity: Doubles, tokens: Tokens, memory: Memory, options: RerankOptions
) -> Doubles:
    slots = [slot for slot, (ids, _) in tokens.items() if len(ids)]
    place = {slot: row for row, slot in enumerate(slots)}
    lengths = np.array([len(tokens[slot][0]) for slot in slots])
    pieces = _unit(np.concatenate([tokens[slot][1] for slot in slots]))
    starts = np.concatenate(([0], np.cumsum(lengths)[:-1]))
    nearest = np.maximum.reduceat(_unit(query.vectors) @ pieces.T, starts, axis=1)
    nearest = np.concatenate([nearest, np.full((len(nearest), 1), -1.0, dtype=np.float32)], axis=1)

    def of(wanted: Ints) -> Floats:
        return np.asarray(nearest[:, [place.get(int(slot), -1) for slot in wanted]])

    back = np.where(answers(memory.near, memory.outline.asks)[order], options.answer, options.near)
    best = of(order)
    best = np.maximum(best, np.where(memory.near.before[order] >= 0, back * of(memory.near.before[order]), -1.0))
    best = np.maximum(best, np.where(memory.near.after[order] >= 0, options.near * of(memory.near.after[order]), -1.0))
    weights = rarity / max(rarity.sum(), 1e-9)
    return np.asarray(weights @ best - options.length * np.log1p(memory.outline.words[order]))


def _unit(vectors: NDArray[np.int8]) -> Floats:
    wide = vectors.astype(np.float32)
    return np.asarray(wide / np.maximum(np.linalg.norm(wide, axis=1, keepdims=True), 1e-6))


def _keep_ahead(order: Ints, fresh: Doubles, scores: Doubles, memory: Memory) -> Doubles:
    """The new scores; all other turns move down together where one of them would pass."""
    out = scores.copy()
    rest = memory.turns.copy()
    rest[order] = False
    if rest.any() and (over := float(scores[rest].max()) - float(fresh.min())) >= 0:
        out[rest] -= over + 1e-5
    out[order] = fresh
    return out
