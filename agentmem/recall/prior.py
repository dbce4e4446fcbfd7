"""A conversation that holds good matches lends a little to all its turns."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from agentmem.model.outline import Bools, Floats, Outline
from agentmem.model.ranking import minmax


def conversation_prior(scores: NDArray[np.float64], turns: Bools, outline: Outline, best: int = 3) -> Floats:
    """For each turn the mean of its conversation's `best` highest scores, scaled to [0, 1] over the turns; else 0.

    `turns` are the slots that count. A conversation with fewer turns takes the mean of what it has.
    """
    slots = outline.in_order()
    slots = slots[turns[slots]]
    out = np.zeros(len(scores), dtype=np.float32)
    if not len(slots):
        return out
    same = np.diff(outline.conversation[slots]) == 0
    same &= np.diff(outline.channel[slots]) == 0
    start = np.concatenate(([0], np.flatnonzero(~same) + 1))
    group = np.repeat(np.arange(len(start)), np.diff(start, append=len(slots)))
    left, total, count = scores[slots].copy(), np.zeros(len(start)), np.zeros(len(start))
    for _ in range(best):
        high = np.maximum.reduceat(left, start)
        there = high > -np.inf
        total[there] += high[there]
        count += there
        _, first = np.unique(group[left == high[group]], return_index=True)
        left[np.flatnonzero(left == high[group])[first]] = -np.inf
    mean = total / np.maximum(count, 1)
    known = np.zeros(len(scores), dtype=np.bool_)
    known[slots] = True
    spread = np.zeros(len(scores))
    spread[slots] = mean[group]
    out[slots] = minmax(spread, known)[slots]
    return out
