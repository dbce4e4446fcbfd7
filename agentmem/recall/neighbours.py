"""What a turn leans on: the turns just before and after it, while all of them together stay short.

A chat turn means little without the one it answers; a long message stands alone. One rule covers both: a neighbour
counts only while turn and neighbours together have at most 90 words, the one before being tried first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentmem.model.outline import ASKS_ANY, Bools, Ints, Outline

NEAR_WORDS = 90
NONE = -1


@dataclass(frozen=True, slots=True, eq=False)
class Neighbours:
    """The slot of the turn before and after, by slot; -1 where there is none."""

    before: Ints
    after: Ints


def adjacent(outline: Outline) -> Neighbours:
    """Who stands next to whom in a conversation: the same channel, and positions without a gap between them."""
    before, after = np.full((2, outline.size), NONE, dtype=np.int64)
    order = outline.in_order()
    order = order[outline.kind[order] == outline.kinds.find("Turn")]
    left, right = order[:-1], order[1:]
    same = outline.conversation[left] == outline.conversation[right]
    same &= outline.channel[left] == outline.channel[right]
    same &= outline.position[left] + 1 == outline.position[right]
    before[right[same]], after[left[same]] = left[same], right[same]
    return Neighbours(before, after)


def leaning(links: Neighbours, mask: Bools, words: NDArray[Any]) -> Neighbours:
    """The neighbours that count for a query: both visible in `mask`, and at most 90 words together.

    `words` is the number of words by slot. The relation is not symmetric: a short turn may lean on one that does not
    lean back.
    """
    before, after = links.before.copy(), links.after.copy()
    before[~(mask & mask[before])] = NONE
    total = words + np.where(before >= 0, words[before], 0)
    before[total > NEAR_WORDS] = NONE
    total = words + np.where(before >= 0, words[before], 0)
    after[~(mask & mask[after])] = NONE
    after[total + np.where(after >= 0, words[after], 0) > NEAR_WORDS] = NONE
    return Neighbours(before, after)


def taken(values: NDArray[Any], neighbour: Ints, missing: float = 0.0) -> NDArray[Any]:
    """Each slot's neighbour's value; `missing` where there is no neighbour."""
    return np.where(neighbour >= 0, values[neighbour], missing).astype(values.dtype, copy=False)


def answers(near: Neighbours, asks: NDArray[Any]) -> Bools:
    """Where the turn before contains a question; `asks` are the outline's flags."""
    return np.asarray((near.before >= 0) & ((asks[near.before] & ASKS_ANY) != 0))


def inverse(neighbour: Ints) -> Ints:
    """Who leans on each slot: the other direction of one side of `Neighbours`; -1 where nobody does."""
    leaned = np.full(len(neighbour), NONE, dtype=np.int64)
    leaning_slots = np.flatnonzero(neighbour >= 0)
    leaned[neighbour[leaning_slots]] = leaning_slots
    return leaned
