"""A conversation that holds good matches lends a little to all its turns."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from agentmem.model.outline import Bools, Floats, RecordColumns
from agentmem.model.ranking import minmax


def conversation_prior(scores: NDArray[np.float64], turn_mask: Bools, columns: RecordColumns, top_n: int = 3) -> Floats:
    """For each turn the mean of its conversation's `top_n` highest scores, scaled to [0, 1] over the turns; else 0.

    `turn_mask` are the slots that count. A conversation with fewer turns takes the mean of what it has.
    """
    ordinals = columns.conversation_order()
    ordinals = ordinals[turn_mask[ordinals]]
    out = np.zeros(len(scores), dtype=np.float32)
    if not len(ordinals):
        return out
    same = np.diff(columns.conversation[ordinals]) == 0
    same &= np.diff(columns.channel[ordinals]) == 0
    start = np.concatenate(([0], np.flatnonzero(~same) + 1))
    group = np.repeat(np.arange(len(start)), np.diff(start, append=len(ordinals)))
    left, total, count = scores[ordinals].copy(), np.zeros(len(start)), np.zeros(len(start))
    for _ in range(top_n):
        high = np.maximum.reduceat(left, start)
        there = high > -np.inf
        total[there] += high[there]
        count += there
        _, first = np.unique(group[left == high[group]], return_index=True)
        left[np.flatnonzero(left == high[group])[first]] = -np.inf
    mean = total / np.maximum(count, 1)
    known = np.zeros(len(scores), dtype=np.bool_)
    known[ordinals] = True
    spread = np.zeros(len(scores))
    spread[ordinals] = mean[group]
    out[ordinals] = minmax(spread, known)[ordinals]
    return out
