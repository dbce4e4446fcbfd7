"""Factors on fused scores, each a pure function of a record's state and the elapsed time."""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

S = TypeVar("S", float, NDArray[np.float64])


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
    """The factor of facts labelled `current` or `past`; 1 for any other label."""
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
