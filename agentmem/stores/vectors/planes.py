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

from agentmem.model.outline import Floats

Units = NDArray[np.int32]  # cosines in multiples of 1e-4
Halves = NDArray[np.float16]
Bytes = NDArray[np.int8]
UNITS = 10_000
LEVELS = 127  # int8 without -128, so that rows are symmetric
BASE = 128  # one step of a query's high half in steps of its low half
WEIGHTS = np.array([BASE, 1.0])  # of a query's halves
FINE = 2 * LEVELS  # one step of a row's high plane in steps of its low plane, which is at most half a step away


class Planes(NamedTuple):
    """Rows of unit length: `high` and `low` of shape (rows, dimensions), `scales` of shape (rows,)."""

    high: Bytes
    low: Bytes
    scales: Floats


class Probe:
    """A query vector, brought to unit length: its high and its low half in int8, and the size of a step."""

    def __init__(self, vector: Floats) -> None:
        wide = np.asarray(vector, dtype=np.float64)
        largest = float(np.abs(wide).max(initial=0.0)) or 1.0
        wide = wide / largest  # first, so that no square overflows
        length = float(np.sqrt(np.add.reduce(wide * wide))) or 1.0
        numbers = np.rint(wide * (LEVELS * BASE)).astype(np.int64)
        high = np.rint(numbers / BASE).astype(np.int64)
        self.halves: Bytes = np.stack([high, numbers - BASE * high]).astype(np.int8)
        self.step = 1 / (length * LEVELS * BASE)


def unit_rows(halves: Halves) -> Floats:
    """Rows of unit length in float32; rows of zeros stay zero."""
    rows = halves.astype(np.float32)
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    lengths[lengths == 0] = 1
    rows /= lengths[:, None]
    return rows


def split(rows: Floats) -> Planes:
    """Rows as planes; the largest value of each becomes 127 in its high plane."""
    scales = np.maximum(rows.max(axis=1, initial=0), -rows.min(axis=1, initial=0)) / np.float32(LEVELS)
    levels = rows / np.where(scales == 0, np.float32(1), scales)[:, None]
    high = np.rint(levels)
    low = np.rint((levels - high) * np.float32(FINE))
    return Planes(high.astype(np.int8), low.astype(np.int8), scales)


def joined(rows: Planes) -> Floats:
    """The rows in float32 again, right to about 1e-5."""
    whole = rows.low.astype(np.float32)
    whole /= FINE
    whole += rows.high
    whole *= rows.scales[:, None]
    return whole


def coarse(high: Bytes, scales: Floats, probe: Probe) -> Units:
    """Approximate cosines from high planes alone, in units."""
    return _units(_sums(high, probe), scales, probe)


def exact(rows: Planes, probe: Probe) -> Units:
    """Cosines in units, right to about a tenth of one before they are rounded."""
    sums, low = _sums(rows.high, probe), _sums(rows.low, probe)
    low /= FINE
    sums += low
    return _units(sums, rows.scales, probe)


def _sums(plane: Bytes, probe: Probe) -> NDArray[np.float64]:
    """Of both halves together; whole numbers far below 2^53, so that float64 adds them up exactly in any order."""
    if not len(plane):
        return np.zeros(0)
    return np.asarray(np.asarray(simsimd.cdist(plane, probe.halves, metric="dot")) @ WEIGHTS)


def _units(sums: NDArray[np.float64], scales: Floats, probe: Probe) -> Units:
    """In place, since there are many."""
    sums *= scales
    sums *= probe.step * UNITS
    np.rint(sums, out=sums)
    np.clip(sums, -UNITS, UNITS, out=sums)
    return sums.astype(np.int32)
