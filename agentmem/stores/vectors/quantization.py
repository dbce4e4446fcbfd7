"""Vectors as two planes of int8, and cosines from sums of whole numbers: the same to the last bit in any arrangement.

A float sum depends in its last bit on the order of its terms, and that on the shape of the block that is multiplied.
So a row is kept as `(high + low / 254) * scale` with both planes in int8, a query likewise in two halves, and what is
summed are products of whole numbers, which SimSIMD adds up in int32. That is right to about a tenth of a unit; the
high plane alone is what is usually called int8, within about 1e-3 of the cosine in half the time.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import simsimd
from numpy.typing import NDArray

from agentmem.core.columns import Floats

FixedPoint = NDArray[np.int32]  # cosines in multiples of 1e-4
Float16Rows = NDArray[np.float16]
Int8Rows = NDArray[np.int8]
FIXED_POINT_SCALE = 10_000
INT8_LEVELS = 127  # int8 without -128, so that rows are symmetric
QUERY_BASE = 128  # one step of a query's high half in steps of its low half
QUERY_WEIGHTS = np.array([QUERY_BASE, 1.0])  # of a query's halves
# one step of a row's high plane in steps of its low plane, which is at most half a step away
LOW_PLANE_STEPS = 2 * INT8_LEVELS


class QuantizedRows(NamedTuple):
    """Rows of unit length: `high` and `low` of shape (rows, dimensions), `scales` of shape (rows,)."""

    high: Int8Rows
    low: Int8Rows
    scales: Floats


class QuantizedQuery:
    """A query vector, brought to unit length: its high and its low half in int8, and the size of a step."""

    def __init__(self, vector: Floats) -> None:
        wide = np.asarray(vector, dtype=np.float64)
        largest = float(np.abs(wide).max(initial=0.0)) or 1.0
        wide = wide / largest  # first, so that no square overflows
        length = float(np.sqrt(np.add.reduce(wide * wide))) or 1.0
        numbers = np.rint(wide * (INT8_LEVELS * QUERY_BASE)).astype(np.int64)
        high = np.rint(numbers / QUERY_BASE).astype(np.int64)
        self.planes: Int8Rows = np.stack([high, numbers - QUERY_BASE * high]).astype(np.int8)
        self.step = 1 / (length * INT8_LEVELS * QUERY_BASE)


def normalize_rows(vectors: Float16Rows) -> Floats:
    """Rows of unit length in float32; rows of zeros stay zero."""
    rows = vectors.astype(np.float32)
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    lengths[lengths == 0] = 1
    rows /= lengths[:, None]
    return rows


def quantize(rows: Floats) -> QuantizedRows:
    """Rows as planes; the largest value of each becomes 127 in its high plane."""
    scales = np.maximum(rows.max(axis=1, initial=0), -rows.min(axis=1, initial=0)) / np.float32(INT8_LEVELS)
    levels = rows / np.where(scales == 0, np.float32(1), scales)[:, None]
    high = np.rint(levels)
    low = np.rint((levels - high) * np.float32(LOW_PLANE_STEPS))
    return QuantizedRows(high.astype(np.int8), low.astype(np.int8), scales)


def dequantize(rows: QuantizedRows) -> Floats:
    """The rows in float32 again, right to about 1e-5."""
    whole = rows.low.astype(np.float32)
    whole /= LOW_PLANE_STEPS
    whole += rows.high
    whole *= rows.scales[:, None]
    return whole


def score_approximate(high: Int8Rows, scales: Floats, query: QuantizedQuery) -> FixedPoint:
    """Approximate cosines from high planes alone, in units."""
    return _to_fixed_point(_dot_products(high, query), scales, query)


def score_exact(rows: QuantizedRows, query: QuantizedQuery) -> FixedPoint:
    """Cosines in units, right to about a tenth of one before they are rounded."""
    sums, low = _dot_products(rows.high, query), _dot_products(rows.low, query)
    low /= LOW_PLANE_STEPS
    sums += low
    return _to_fixed_point(sums, rows.scales, query)


def _dot_products(plane: Int8Rows, query: QuantizedQuery) -> NDArray[np.float64]:
    """Of both halves together; whole numbers far below 2^53, so that float64 adds them up exactly in any order."""
    if not len(plane):
        return np.zeros(0)
    return np.asarray(np.asarray(simsimd.cdist(plane, query.planes, metric="dot")) @ QUERY_WEIGHTS)


def _to_fixed_point(sums: NDArray[np.float64], scales: Floats, query: QuantizedQuery) -> FixedPoint:
    """In place, since there are many."""
    sums *= scales
    sums *= query.step * FIXED_POINT_SCALE
    np.rint(sums, out=sums)
    np.clip(sums, -FIXED_POINT_SCALE, FIXED_POINT_SCALE, out=sums)
    return sums.astype(np.int32)
