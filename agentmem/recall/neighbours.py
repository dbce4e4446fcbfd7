"""What a turn leans on: the turns just before and after it, while all of them together stay short.

A chat turn means little without the one it answers; a long message stands alone. One rule covers both: a neighbour
counts only while turn and neighbours together have at most 90 words, the one before being tried first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentmem.model.outline import CONTAINS_QUESTION, Bools, Ints, RecordColumns

MAX_WINDOW_WORDS = 90
NO_NEIGHBOR = -1


@dataclass(frozen=True, slots=True, eq=False)
class TurnNeighbors:
    """The slot of the turn before and after, by slot; -1 where there is none."""

    previous: Ints
    next: Ints


def adjacent_turns(columns: RecordColumns) -> TurnNeighbors:
    """Who stands next to whom in a conversation: the same channel, and positions without a gap between them."""
    before, after = np.full((2, columns.size), NO_NEIGHBOR, dtype=np.int64)
    order = columns.conversation_order()
    order = order[columns.kind[order] == columns.kinds.find_code("Turn")]
    left, right = order[:-1], order[1:]
    same = columns.conversation[left] == columns.conversation[right]
    same &= columns.channel[left] == columns.channel[right]
    same &= columns.position[left] + 1 == columns.position[right]
    before[right[same]], after[left[same]] = left[same], right[same]
    return TurnNeighbors(before, after)


def context_window(neighbors: TurnNeighbors, mask: Bools, word_counts: NDArray[Any]) -> TurnNeighbors:
    """The neighbours that count for a query: both visible in `mask`, and at most 90 words together.

    `word_counts` is the number of words by slot. The relation is not symmetric: a short turn may lean on one that does
    not lean back.
    """
    before, after = neighbors.previous.copy(), neighbors.next.copy()
    before[~(mask & mask[before])] = NO_NEIGHBOR
    total = word_counts + np.where(before >= 0, word_counts[before], 0)
    before[total > MAX_WINDOW_WORDS] = NO_NEIGHBOR
    total = word_counts + np.where(before >= 0, word_counts[before], 0)
    after[~(mask & mask[after])] = NO_NEIGHBOR
    after[total + np.where(after >= 0, word_counts[after], 0) > MAX_WINDOW_WORDS] = NO_NEIGHBOR
    return TurnNeighbors(before, after)


def neighbor_values(values: NDArray[Any], neighbor: Ints, missing: float = 0.0) -> NDArray[Any]:
    """Each slot's neighbour's value; `missing` where there is no neighbour."""
    return np.where(neighbor >= 0, values[neighbor], missing).astype(values.dtype, copy=False)


def answers_question(neighbors: TurnNeighbors, text_flags: NDArray[Any]) -> Bools:
    """Where the turn before contains a question; `text_flags` are the outline's flags."""
    return np.asarray((neighbors.previous >= 0) & ((text_flags[neighbors.previous] & CONTAINS_QUESTION) != 0))


def invert(neighbor: Ints) -> Ints:
    """Who leans on each slot: the other direction of one side of `TurnNeighbors`; -1 where nobody does."""
    leaned = np.full(len(neighbor), NO_NEIGHBOR, dtype=np.int64)
    leaning_slots = np.flatnonzero(neighbor >= 0)
    leaned[neighbor[leaning_slots]] = leaning_slots
    return leaned
