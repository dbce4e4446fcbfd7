"""Fusion of several lists of scores into one ranking: pure arithmetic over columns by slot.

A list that is *scaled* competes on equal terms with the other scaled ones: each is brought to [0, 1] by its own minimum
and maximum, and their mean is taken (convex fusion; Bruch, Gai and Ingber 2023, found it ahead of reciprocal ranks). A
list that is *added* is a bonus or a malus of stated size on top of that mean.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from agentmem.model.outline import Bools, Floats, Ints, Outline

F = TypeVar("F", bound=np.floating[Any])
Doubles = NDArray[np.float64]
Enters = Literal["scaled", "added"]
Method = Literal["minmax", "rrf"]
RRF_K = 60  # Cormack, Clarke and Buettcher 2009


@dataclass(frozen=True, slots=True, eq=False)
class Ranked:
    """What one list says: a score by slot, NaN where it says nothing, and how it enters the fusion.

    `weight` is that of a scaled list in the mean: below 1 for one that speaks less surely than the query's own words.
    """

    values: Floats
    enters: Enters = "scaled"
    weight: float = 1.0


@dataclass(frozen=True, slots=True, eq=False)
class Fusion:
    """The fused scores by slot, -inf for what is not eligible, and what they are made of.

    `scaled` is the sum of the scaled lists by their weights, which together are `weight`; `added` that of the bonuses.
    """

    scores: Doubles
    scaled: Doubles
    added: Doubles
    weight: float
    lists: Mapping[str, Ranked] = field(default_factory=dict)


def filled(values: NDArray[F]) -> NDArray[F]:
    """The values with 0 where they are NaN."""
    return np.where(np.isnan(values), values.dtype.type(0), values)


def minmax(values: NDArray[Any], basis: Bools, eligible: Bools | None = None) -> Doubles:
    """Scale to [0, 1]: the basis by its own minimum and maximum, what else is eligible by those of all eligible.

    So the basis is scaled as if it were alone, and the rest, on the same line while it lies within the range of the
    basis, can't rise above it. NaN becomes 0. Where all are equal it is 1 for values above 0, else 0.
    """
    eligible = basis if eligible is None else eligible
    everything = _line(values, eligible)
    if everything is None:
        return np.where(eligible & (values > 0), 1.0, 0.0)
    out = (values - everything[0]) / everything[1]
    if basis is not eligible and (own := _line(values, basis)) not in (None, everything):
        out[basis] = (values[basis] - own[0]) / own[1]
    return np.asarray(filled(out), dtype=np.float64)


def _line(values: NDArray[Any], among: Bools) -> tuple[float, float] | None:
    """Minimum and distance to the maximum; None when nothing is known or all are equal."""
    numbers = values[among]
    low = float(np.fmin.reduce(numbers, initial=np.inf))
    high = float(np.fmax.reduce(numbers, initial=-np.inf))
    return (low, high - low) if high > low else None


def zscore(values: NDArray[Any], basis: Bools) -> Doubles:
    """Subtract the mean and divide by the standard deviation of the basis; NaN stays NaN."""
    numbers = values[basis]
    numbers = numbers[~np.isnan(numbers)]
    if not len(numbers):
        return np.array(values, dtype=np.float64)
    return np.asarray((values - numbers.mean()) / (numbers.std() + 1e-9), dtype=np.float64)


def reciprocal(values: NDArray[Any], eligible: Bools, k: int = RRF_K) -> Doubles:
    """(k + 1) / (k + rank), equal values sharing the better rank; 0 where the list says nothing."""
    out = np.zeros(len(values))
    known = np.flatnonzero(eligible & ~np.isnan(values))
    if len(known):
        _, inverse, counts = np.unique(-values[known], return_inverse=True, return_counts=True)
        first = np.concatenate(([0], np.cumsum(counts)[:-1]))
        out[known] = (k + 1) / (k + 1 + first[inverse.reshape(-1)])
    return out


def fuse(
    lists: Mapping[str, Ranked], eligible: Bools, basis: Bools, *, method: Method = "minmax", k: int = RRF_K
) -> Fusion:
    """Mean of the scaled lists by their weights, plus the added ones, for the eligible slots.

    `basis` are those that scales are taken over (see `minmax`); `rrf` replaces the values of scaled lists by
    `reciprocal` ranks. Without any list every eligible slot scores 0.
    """
    scaled, added, weight = np.zeros(len(eligible)), np.zeros(len(eligible)), 0.0
    for name in sorted(lists):
        ranked = lists[name]
        if ranked.enters == "added":
            added += filled(ranked.values)
            continue
        weight += ranked.weight
        scaled += ranked.weight * (
            minmax(ranked.values, basis, eligible) if method == "minmax" else reciprocal(ranked.values, eligible, k)
        )
    scores = np.where(eligible, scaled / (weight or 1.0) + added, -np.inf)
    return Fusion(scores, scaled, added, weight, dict(lists))


def plus(fusion: Fusion, name: str, bonus: Floats) -> Fusion:
    """The fusion with one more added list."""
    bonus = filled(bonus)
    lists = {**fusion.lists, name: Ranked(bonus, "added")}
    return Fusion(fusion.scores + bonus, fusion.scaled, fusion.added + bonus, fusion.weight, lists)


def best(scores: NDArray[Any], slots: Ints, limit: int, outline: Outline) -> Ints:
    """The `limit` of these slots with the highest scores, best first; what scores -inf is left out.

    `scores` are by slot and compared to six decimals; equal ones go by time, then place in the conversation, then id.
    """
    slots = slots[scores[slots] > -np.inf]
    if limit < 1 or not len(slots):
        return np.zeros(0, dtype=np.int64)
    rounded = np.round(scores[slots], 6)
    if len(slots) > limit:
        keep = rounded >= np.partition(rounded, len(slots) - limit)[len(slots) - limit]
        slots, rounded = slots[keep], rounded[keep]
    order = np.lexsort((outline.position[slots], outline.valid_from[slots], -rounded))
    return _ties_by_id(slots[order], rounded[order], outline)[:limit]


def _ties_by_id(slots: Ints, rounded: NDArray[Any], outline: Outline) -> Ints:
    same = np.ones(len(slots), dtype=np.bool_)
    same[1:] = rounded[1:] != rounded[:-1]
    for column in (outline.valid_from, outline.position):
        same[1:] |= column[slots[1:]] != column[slots[:-1]]
    if same.all():
        return slots
    bounds = np.append(np.flatnonzero(same), len(slots))
    ids = outline.ids
    groups = (slots[a:b] for a, b in pairwise(bounds))
    return np.concatenate([np.array(sorted(group, key=lambda slot: ids[slot]), dtype=np.int64) for group in groups])


def spread_out(order: Ints, group: NDArray[Any], most: int) -> Ints:
    """Move what is beyond the `most` best of its group behind the rest, keeping the order otherwise; 0 changes nothing.

    `group` holds a number by slot; slots of a negative one are never moved.
    """
    if most < 1 or not len(order):
        return order
    numbers = group[order]
    sort = np.argsort(numbers, kind="stable")
    first = np.searchsorted(numbers[sort], numbers[sort], side="left")
    nth = np.empty(len(order), dtype=np.int64)
    nth[sort] = np.arange(len(order)) - first
    back = (numbers >= 0) & (nth >= most)
    return np.concatenate([order[~back], order[back]])


def bounded(before: Sequence[int], scores: Sequence[float], most: int = 2) -> list[int]:
    """The items of `before` by their new scores (in the same order), none more than `most` places below its old one.

    Within that bound the best go first; equal scores keep their order. `most` 0 changes nothing.
    """
    left = sorted(range(len(before)), key=lambda place: -scores[place])  # stable
    order: list[int] = []
    for here in range(len(before)):
        due = here - most  # at most one item can be due at a place, since no two had the same
        chosen = due if due in left else left[0]
        left.remove(chosen)
        order.append(before[chosen])
    return order


def blended(order: Sequence[int], due: Sequence[int], ratio: float) -> list[int]:
    """A ranking in which every so many-th place goes to the next of `due`: at a ratio of .3 to every third.

    Where the next in order is due itself, it takes its own place; what is not due keeps its order. 0 changes nothing.
    """
    if ratio <= 0 or not due:
        return list(order)
    step = max(1, round(1 / ratio))
    placed: dict[int, None] = {}
    for place in range(1, len(order) + 1):
        sources = (due, order) if place % step == 0 else (order,)
        placed[next(item for source in sources for item in source if item not in placed)] = None
    return list(placed)
