"""Ranking as pure arithmetic: lists of scores by record, how they are fused, and the factors that count on top.

A list with `combine="normalize"` competes on equal terms with the others: each is brought to [0, 1] by its own minimum
and maximum, and their mean is taken (convex fusion; Bruch, Gai and Ingber 2023, found it ahead of reciprocal ranks). A
list with `combine="bonus"` adds or subtracts a stated amount on top of that mean.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from agentmem.core.columns import Bools, Floats, Ints, RecordColumns

F = TypeVar("F", bound=np.floating[Any])
Doubles = NDArray[np.float64]
CombineMode = Literal["normalize", "bonus"]
FusionMethod = Literal["minmax", "rrf"]
RRF_K = 60  # Cormack, Clarke and Buettcher 2009

S = TypeVar("S", float, NDArray[np.float64])


@dataclass(frozen=True, slots=True, eq=False)
class ScoreList:
    """What one list says: a score by ordinal, NaN where it says nothing, and how it enters the fusion.

    `weight` is that of a normalized list in the mean: below 1 for one less certain than the query's own words.
    """

    values: Floats
    combine: CombineMode = "normalize"
    weight: float = 1.0


@dataclass(frozen=True, slots=True, eq=False)
class Fusion:
    """The fused scores by ordinal, -inf for what is not eligible, and what they are made of.

    `normalized_sum` is the sum of the normalized lists by their weights, whose sum is `weight_sum`; `bonus_sum` is the
    sum of the bonus lists.
    """

    scores: Doubles
    normalized_sum: Doubles
    bonus_sum: Doubles
    weight_sum: float
    lists: Mapping[str, ScoreList] = field(default_factory=dict)


def nan_to_zero(values: NDArray[F]) -> NDArray[F]:
    """The values with 0 where they are NaN."""
    return np.where(np.isnan(values), values.dtype.type(0), values)


def minmax(values: NDArray[Any], normalization_mask: Bools, eligible: Bools | None = None) -> Doubles:
    """Scale to [0, 1]: what `normalization_mask` selects by its own minimum and maximum, the rest by those of all
    eligible.

    So the selected values are scaled as if they were alone, and the rest cannot rise above them. NaN becomes 0. Where
    all are equal, values above 0 become 1 and others 0.
    """
    eligible = normalization_mask if eligible is None else eligible
    everything = _minimum_and_range(values, eligible)
    if everything is None:
        return np.where(eligible & (values > 0), 1.0, 0.0)
    out = (values - everything[0]) / everything[1]
    if normalization_mask is not eligible and (own := _minimum_and_range(values, normalization_mask)) not in (
        None,
        everything,
    ):
        out[normalization_mask] = (values[normalization_mask] - own[0]) / own[1]
    return np.asarray(nan_to_zero(out), dtype=np.float64)


def _minimum_and_range(values: NDArray[Any], mask: Bools) -> tuple[float, float] | None:
    """Minimum and distance to the maximum; None when nothing is known or all are equal."""
    numbers = values[mask]
    low = float(np.fmin.reduce(numbers, initial=np.inf))
    high = float(np.fmax.reduce(numbers, initial=-np.inf))
    return (low, high - low) if high > low else None


def zscore(values: NDArray[Any], normalization_mask: Bools) -> Doubles:
    """Subtract the mean of the selected values and divide by their standard deviation; NaN stays NaN."""
    numbers = values[normalization_mask]
    numbers = numbers[~np.isnan(numbers)]
    if not len(numbers):
        return np.array(values, dtype=np.float64)
    return np.asarray((values - numbers.mean()) / (numbers.std() + 1e-9), dtype=np.float64)


def reciprocal_ranks(values: NDArray[Any], eligible: Bools, k: int = RRF_K) -> Doubles:
    """(k + 1) / (k + rank), equal values sharing the better rank; 0 where the list says nothing."""
    out = np.zeros(len(values))
    known = np.flatnonzero(eligible & ~np.isnan(values))
    if len(known):
        _, inverse, counts = np.unique(-values[known], return_inverse=True, return_counts=True)
        first = np.concatenate(([0], np.cumsum(counts)[:-1]))
        out[known] = (k + 1) / (k + 1 + first[inverse.reshape(-1)])
    return out


def fuse(
    lists: Mapping[str, ScoreList],
    eligible: Bools,
    normalization_mask: Bools,
    *,
    method: FusionMethod = "minmax",
    k: int = RRF_K,
) -> Fusion:
    """Mean of the normalized lists by their weights, plus the bonus lists, for the eligible ordinals.

    `normalization_mask` selects the records that give the scale (see `minmax`); with `rrf`, `reciprocal_ranks` replaces
    `minmax`. Without any list every eligible ordinal scores 0.
    """
    normalized_sum, bonus_sum, weight_sum = np.zeros(len(eligible)), np.zeros(len(eligible)), 0.0
    for name in sorted(lists):
        ranked = lists[name]
        if ranked.combine == "bonus":
            bonus_sum += nan_to_zero(ranked.values)
            continue
        weight_sum += ranked.weight
        normalized_sum += ranked.weight * (
            minmax(ranked.values, normalization_mask, eligible)
            if method == "minmax"
            else reciprocal_ranks(ranked.values, eligible, k)
        )
    scores = np.where(eligible, normalized_sum / (weight_sum or 1.0) + bonus_sum, -np.inf)
    return Fusion(scores, normalized_sum, bonus_sum, weight_sum, dict(lists))


def add_bonus(fusion: Fusion, name: str, bonus: Floats) -> Fusion:
    """The fusion with one more bonus list."""
    bonus = nan_to_zero(bonus)
    lists = {**fusion.lists, name: ScoreList(bonus, "bonus")}
    return Fusion(fusion.scores + bonus, fusion.normalized_sum, fusion.bonus_sum + bonus, fusion.weight_sum, lists)


def top_k(scores: NDArray[Any], ordinals: Ints, limit: int, columns: RecordColumns) -> Ints:
    """The `limit` of these ordinals with the highest scores, best first; what scores -inf is left out.

    `scores` are by ordinal and compared to six decimals; equal ones go by time, then place in the conversation, then
    id.
    """
    ordinals = ordinals[scores[ordinals] > -np.inf]
    if limit < 1 or not len(ordinals):
        return np.zeros(0, dtype=np.int64)
    rounded = np.round(scores[ordinals], 6)
    if len(ordinals) > limit:
        keep = rounded >= np.partition(rounded, len(ordinals) - limit)[len(ordinals) - limit]
        ordinals, rounded = ordinals[keep], rounded[keep]
    order = np.lexsort((columns.position[ordinals], columns.valid_from[ordinals], -rounded))
    return _break_ties_by_id(ordinals[order], rounded[order], columns)[:limit]


def _break_ties_by_id(ordinals: Ints, rounded: NDArray[Any], columns: RecordColumns) -> Ints:
    same = np.ones(len(ordinals), dtype=np.bool_)
    same[1:] = rounded[1:] != rounded[:-1]
    for column in (columns.valid_from, columns.position):
        same[1:] |= column[ordinals[1:]] != column[ordinals[:-1]]
    if same.all():
        return ordinals
    bounds = np.append(np.flatnonzero(same), len(ordinals))
    ids = columns.ids
    groups = (ordinals[a:b] for a, b in pairwise(bounds))
    return np.concatenate(
        [np.array(sorted(group, key=lambda ordinal: ids[ordinal]), dtype=np.int64) for group in groups]
    )


def diversify(order: Ints, groups: NDArray[Any], max_per_group: int) -> Ints:
    """Move what is beyond the `max_per_group` best of its group behind the rest, keeping the order otherwise; 0 changes
    nothing.

    `groups` holds a number by ordinal; ordinals of a negative one are never moved.
    """
    if max_per_group < 1 or not len(order):
        return order
    numbers = groups[order]
    sort = np.argsort(numbers, kind="stable")
    first = np.searchsorted(numbers[sort], numbers[sort], side="left")
    nth = np.empty(len(order), dtype=np.int64)
    nth[sort] = np.arange(len(order)) - first
    back = (numbers >= 0) & (nth >= max_per_group)
    return np.concatenate([order[~back], order[back]])


def bounded_rerank(items: Sequence[int], scores: Sequence[float], max_demotion: int = 2) -> list[int]:
    """The items of `items` by their new scores (in the same order), none more than `max_demotion` places below its old
    one.

    Within that bound the best go first; equal scores keep their order. `max_demotion` 0 changes nothing.
    """
    left = sorted(range(len(items)), key=lambda place: -scores[place])  # stable
    order: list[int] = []
    for here in range(len(items)):
        due = here - max_demotion  # at most one item can be due at a place, since no two had the same
        chosen = due if due in left else left[0]
        left.remove(chosen)
        order.append(items[chosen])
    return order


def interleave(order: Sequence[int], due: Sequence[int], ratio: float) -> list[int]:
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


def apply_factors(scores: NDArray[np.float64], factors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scores times factors, shape of both; below zero divided, so that more than 1 always raises."""
    return np.asarray(np.where(scores >= 0, scores * factors, scores / factors))


def salience_factor(salience: S) -> S:
    """.75 at salience 0, 1 at .5 (the default of facts), 1.25 at 1."""
    return 0.75 + 0.5 * salience


def trust_factor(trust: float) -> float:
    """Half for what is not trusted at all, 1 for full trust."""
    return 0.5 + 0.5 * trust


def temporal_factor(label: str, current: float = 1.2, past: float = 0.7) -> float:
    """The factor of facts labeled `current` or `past`; 1 for any other label."""
    return {"current": current, "past": past}.get(label, 1.0)


def recency_factor(last_accessed: datetime | None, access_count: int, now: datetime, weight: float = 0.1) -> float:
    """1 + weight · exp(-days since the last access); 1 for what was never accessed.

    Frequent access makes the days shorter: days / (1 + .1 · ln(1 + access_count)). A clock that went backwards counts
    as no time at all.
    """
    if last_accessed is None:
        return 1.0
    days = max(0.0, (now - last_accessed) / timedelta(days=1)) / (1.0 + 0.1 * math.log1p(access_count))
    return 1.0 + weight * math.exp(-days)
