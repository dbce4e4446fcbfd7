"""Vectors of one user as matrices in memory, scored exactly and the same however the rows came to lie in blocks.

A float sum depends in its last bit on the order of its terms, and the order in BLAS depends on the shape of the block.
So scores are whole multiples of 1e-4, and none is rounded from a sum whose last bits could decide: a sentence is an
int8 row times an integer query, whose sum is exact in float32; a whole passage is multiplied in float32, and where the
result lies too near to a rounding edge, again in float64, row by row.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from agentmem.model.outline import Bools, Floats, Ints, Names
from agentmem.stores import Scores

Units = NDArray[np.int32]  # cosines in multiples of 1e-4
Halves = NDArray[np.float16]
UNITS = 10_000
LEVELS = 127  # int8 without -128, so that rows are symmetric
STACK = 16  # rows multiplied at once
BLOCK = 512  # rows converted to float at once; the buffer stays in the processor's cache
FIRST_CHUNK, LARGEST_CHUNK = 256, 8192
EDGE = 0.01  # of a unit: ten times the error of a float32 sum of 3,072 products
SPARSE = 0.4  # below this share of eligible rows, they are gathered before they are multiplied
EXACT = 2.0**24  # integers up to here are exact in float32


class Part(NamedTuple):
    """Some passages as columns: `halves` holds their vectors, `kinds` and `channels` are codes."""

    ids: Ints
    slots: Ints
    parts: NDArray[np.int32]
    kinds: NDArray[np.int32]
    channels: NDArray[np.int32]
    asks: Bools
    halves: Halves

    def only(self, rows: Bools) -> Part:
        """The rows of a mask."""
        return Part._make(column[rows] for column in self)


class Probe:
    """A query vector, of unit length in float32 and float64, and in integers for int8 rows.

    The integers are so small that no partial sum of products with an int8 row leaves the exact range of float32
    (Cauchy-Schwarz); at 384 dimensions this costs 4e-5 of a cosine, a tenth of what the int8 row costs.
    """

    def __init__(self, vector: Floats) -> None:
        wide = np.asarray(vector, dtype=np.float64)
        length = float(np.sqrt(np.add.reduce(wide * wide)))
        self.wide: NDArray[np.float64] = wide / length if length else wide
        self.single: Floats = self.wide.astype(np.float32)
        root = float(np.sqrt(len(wide)))
        radius = EXACT / (LEVELS * root) - root / 2
        self.whole_numbers: Floats = np.rint(self.wide * radius).astype(np.float32)
        self.step = np.float32(1 / radius)


def unit_rows(halves: Halves) -> Floats:
    """Rows of unit length in float32; rows of zeros stay zero."""
    rows = halves.astype(np.float32)
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    lengths[lengths == 0] = 1
    rows /= lengths[:, None]
    return rows


def quantised(rows: Floats) -> tuple[NDArray[np.int8], Floats]:
    """Rows as int8 and the factor of each: its largest value becomes 127."""
    scales = np.maximum(rows.max(axis=1, initial=0), -rows.min(axis=1, initial=0)) / np.float32(LEVELS)
    levels = rows / np.where(scales == 0, np.float32(1), scales)[:, None]
    return np.rint(levels, out=levels).astype(np.int8), scales


def exact_units(rows: Floats, probe: Probe) -> Units:
    """Cosines of unit rows, in units."""
    # Not by BLAS: its threads wait for each other on a busy machine, 70 ms (up to 260) for 100,000 x 384, this 12 (17).
    raw = np.einsum("ij,j->i", rows, probe.single) * np.float32(UNITS)
    near = np.flatnonzero(np.abs(raw - np.floor(raw) - np.float32(0.5)) < EDGE)
    units = np.rint(raw)
    if len(near):
        products = rows[near].astype(np.float64) * probe.wide
        units[near] = np.rint(np.add.reduce(products, axis=1) * UNITS)
    return _clipped(units)


def near_units(rows: NDArray[np.int8], scales: Floats, probe: Probe) -> Units:
    """Approximate cosines of int8 rows, in units: within about 1e-3 of the exact ones."""
    sums = np.empty(len(rows), dtype=np.float32)
    buffer = np.zeros((min(BLOCK, -(-len(rows) // STACK) * STACK), rows.shape[1]), dtype=np.float32)
    for start in range(0, len(rows), BLOCK):
        block = rows[start : start + BLOCK]
        buffer[: len(block)] = block
        # Stacks so small that BLAS starts no threads; the sums are exact whatever their order.
        stacks = np.matmul(buffer.reshape(-1, STACK, rows.shape[1]), probe.whole_numbers)
        sums[start : start + len(block)] = stacks.reshape(-1)[: len(block)]
    return _clipped(np.rint(sums * scales * probe.step * np.float32(UNITS)))


def _clipped(units: Floats) -> Units:
    return np.clip(units, -UNITS, UNITS).astype(np.int32)


class Chunk:
    """Room for some rows; filled from the front and never moved, so that readers need no lock."""

    def __init__(self, room: int, dimensions: int, *, small: bool) -> None:
        self.room, self.count = room, 0
        self.columns: dict[str, NDArray[Any]] = {
            "ids": np.empty(room, dtype=np.int64),
            "slots": np.empty(room, dtype=np.int64),
            "parts": np.empty(room, dtype=np.int32),
            "kinds": np.empty(room, dtype=np.int32),
            "channels": np.empty(room, dtype=np.int32),
            "asks": np.empty(room, dtype=np.bool_),
        }
        self.vectors: NDArray[Any] = np.empty((room, dimensions), dtype=np.int8 if small else np.float32)
        self.scales: Floats = np.zeros(room if small else 0, dtype=np.float32)
        self.alive: Bools = np.ones(room, dtype=np.bool_)

    def put(self, part: Part, rows: Floats) -> None:
        """Append rows; there must be room."""
        span = slice(self.count, self.count + len(rows))
        for name, column in self.columns.items():
            column[span] = getattr(part, name)
        if self.scales.size:
            self.vectors[span], self.scales[span] = quantised(rows)
        else:
            self.vectors[span] = rows
        self.count += len(rows)

    def units(self, rows: Ints, count: int, probe: Probe) -> Units:
        """Cosines of some of the first `count` rows."""
        if len(rows) < SPARSE * count:
            return self._multiplied(self.vectors[rows], self.scales[rows] if self.scales.size else self.scales, probe)
        scores = self._multiplied(self.vectors[:count], self.scales[:count], probe)
        return scores if len(rows) == count else scores[rows]

    def _multiplied(self, vectors: NDArray[Any], scales: Floats, probe: Probe) -> Units:
        return near_units(vectors, scales, probe) if self.scales.size else exact_units(vectors, probe)

    @property
    def size(self) -> int:
        """Bytes."""
        arrays = (*self.columns.values(), self.vectors, self.scales, self.alive)
        return sum(array.nbytes for array in arrays)


class Found(NamedTuple):
    """Scored passages; `ids` is -1 where the score is exact already."""

    ids: Ints
    slots: Ints
    parts: NDArray[np.int32]
    asks: Bools
    units: Units

    def only(self, rows: Bools) -> Found:
        """The rows of a mask."""
        return Found._make(column[rows] for column in self)


def joined(found: list[Found]) -> Found:
    """Several results as one."""
    if not found:
        return Found._make(np.empty(0, dtype=dtype) for dtype in (np.int64, np.int64, np.int32, np.bool_, np.int32))
    return found[0] if len(found) == 1 else Found._make(map(np.concatenate, zip(*found, strict=True)))


View = list[tuple[Chunk, int]]


class Table:
    """Passages of one grain: chunks that are filled one after the other."""

    def __init__(self, dimensions: int, *, small: bool) -> None:
        self.dimensions, self.small = dimensions, small
        self.chunks: list[Chunk] = []
        self.count = self.dead = 0

    def append(self, part: Part) -> None:
        """Add rows behind those that are there."""
        rows = unit_rows(part.halves)
        start = 0
        while start < len(rows):
            if not self.chunks or self.chunks[-1].count == self.chunks[-1].room:
                room = min(max(self.count, FIRST_CHUNK, len(rows) - start), LARGEST_CHUNK)
                self.chunks.append(Chunk(room, self.dimensions, small=self.small))
            chunk = self.chunks[-1]
            span = slice(start, start + chunk.room - chunk.count)
            chunk.put(Part._make(column[span] for column in part), rows[span])
            start = span.stop
        self.count += len(rows)

    def keep(self, ids: Ints) -> None:
        """Blank every row whose id is not among these, which are ascending."""
        for chunk in self.chunks:
            self._blank(chunk, np.flatnonzero(~_among(chunk.columns["ids"][: chunk.count], ids)))

    def hide(self, ids: Ints) -> None:
        """Blank the rows of these ids."""
        for chunk in self.chunks:
            held = chunk.columns["ids"][: chunk.count]  # ascending, as they were given out
            self._blank(chunk, np.searchsorted(held, ids[_among(ids, held)]))

    def _blank(self, chunk: Chunk, rows: Ints) -> None:
        rows = rows[chunk.alive[rows]]
        chunk.alive[rows] = False
        chunk.vectors[rows] = 0  # what was erased does not stay in memory either
        self.dead += len(rows)

    def view(self) -> View:
        """The rows that are there now; rows added later are not in it."""
        return [(chunk, chunk.count) for chunk in self.chunks]


def _among(values: Ints, ascending: Ints) -> Bools:
    if not len(ascending):
        return np.zeros(len(values), dtype=np.bool_)
    at = np.minimum(np.searchsorted(ascending, values), len(ascending) - 1)
    found: Bools = ascending[at] == values
    return found


class Allowed(NamedTuple):
    """Which rows are eligible: look-up tables of kinds (None: all) and channels by code, and of slots to leave out."""

    kinds: Bools | None
    channels: Bools
    without: Bools | None = None


def scored(view: View, probe: Probe, allowed: Allowed) -> Found:
    """Scores of the eligible rows."""
    found = []
    for chunk, count in view:
        seen = chunk.alive[:count] & allowed.channels[chunk.columns["channels"][:count]]
        if allowed.kinds is not None:
            seen &= allowed.kinds[chunk.columns["kinds"][:count]]
        if allowed.without is not None:
            slots = chunk.columns["slots"][:count]
            seen &= ~allowed.without[np.minimum(slots, len(allowed.without) - 1)]
        rows = np.flatnonzero(seen)
        if not len(rows):
            continue
        chosen = slice(count) if len(rows) == count else rows  # where all are eligible, nothing is copied
        columns = {name: chunk.columns[name][chosen] for name in ("ids", "slots", "parts", "asks")}
        ids = columns["ids"] if chunk.scales.size else np.full(len(rows), -1, dtype=np.int64)
        units = chunk.units(rows, count, probe)
        found.append(Found(ids, columns["slots"], columns["parts"], columns["asks"], units))
    return joined(found)


def having(found: Found) -> Bools:
    """A look-up table: True at the slots of these passages; the last entry stands for all slots beyond."""
    table = np.zeros(int(found.slots.max(initial=-1)) + 2, dtype=np.bool_)
    table[found.slots] = True
    return table


def as_sentences(sentences: Found, whole: Found) -> Found:
    """The sentences of every record; a record without any is one sentence itself."""
    split = having(sentences)
    return joined([sentences, whole.only(~split[np.minimum(whole.slots, len(split) - 1)])])


def to_rescore(found: Found, best: int) -> Ints:
    """Rows among the best that only have an approximate score.

    Ties at the cut are taken in together, and left out together where there are very many: so the choice does not
    depend on the order of rows.
    """
    if len(found.units) > best:
        edge = np.partition(found.units, -best)[-best]
        chosen = found.units >= edge
        if int(chosen.sum()) > 4 * best:
            chosen = found.units > edge
    else:
        chosen = np.ones(len(found.units), dtype=np.bool_)
    return np.flatnonzero(chosen & (found.ids >= 0))


def in_order(found: Found, k: int | None) -> Scores:
    """All in order of slot and part, or the best `k`, ties in that order."""
    places = found.slots << 20 | found.parts
    if k is None:
        rows = np.argsort(places, kind="stable")
    else:
        rows = np.arange(len(places))
        if 0 < k < len(rows):
            rows = np.flatnonzero(found.units >= np.partition(found.units, -k)[-k])
        rows = rows[np.lexsort((places[rows], -found.units[rows]))][:k]
    scores = found.units[rows].astype(np.float32) / np.float32(UNITS)
    return Scores(slots=found.slots[rows], parts=found.parts[rows], scores=scores, asks=found.asks[rows])


class UserMatrix:
    """What is cached of a user: whole passages in float32, sentences in int8, as of `state` (generation, seq)."""

    def __init__(self, dimensions: int) -> None:
        self.lock = threading.Lock()
        self.state = (-1, -1)
        self.registration: tuple[int, int] | None = None  # of the embedder: its number and when it was registered
        self.last_id = 0
        self.kinds, self.channels = Names(), Names()
        self.whole = Table(dimensions, small=False)
        self.sentences = Table(dimensions, small=True)

    def append(self, part: Part, whole: Bools) -> None:
        """Add passages; the mask says which are whole."""
        self.last_id = max(self.last_id, int(part.ids[-1]))
        self.whole.append(part.only(whole))
        self.sentences.append(part.only(~whole))

    @property
    def tables(self) -> tuple[Table, Table]:
        """Both grains."""
        return self.whole, self.sentences

    @property
    def worn(self) -> bool:
        """Whether so many rows are hidden that loading again is better."""
        hidden, rows = (sum(table.dead for table in self.tables), sum(table.count for table in self.tables))
        return hidden > max(1024, rows // 4)

    @property
    def size(self) -> int:
        """Bytes."""
        return sum(chunk.size for table in self.tables for chunk in table.chunks)

    @property
    def needed(self) -> int:
        """Bytes of the rows, without room to grow."""
        return estimated_bytes(self.whole.count, self.sentences.count, self.whole.dimensions)


def estimated_bytes(whole: int, sentences: int, dimensions: int) -> int:
    """What a user's matrices will take."""
    columns = 8 + 8 + 4 + 4 + 4 + 1 + 1
    return whole * (dimensions * 4 + columns) + sentences * (dimensions + 4 + columns)


class MatrixCache:
    """The matrices of the users seen last, within a budget in bytes."""

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self._lock = threading.Lock()
        self._users: OrderedDict[str, UserMatrix] = OrderedDict()

    def find(self, user_id: str, make: Callable[[], UserMatrix | None]) -> UserMatrix | None:
        """The user's matrix, made when there is none; None when `make` declines."""
        with self._lock:
            found = self._users.get(user_id)
            if found is not None:
                self._users.move_to_end(user_id)
                return found
        made = make()
        if made is None:
            return None
        with self._lock:
            return self._users.setdefault(user_id, made)

    def peek(self, user_id: str) -> UserMatrix | None:
        """The user's matrix, if there is one."""
        with self._lock:
            return self._users.get(user_id)

    def drop(self, user_id: str) -> None:
        """Forget a user's matrix."""
        with self._lock:
            self._users.pop(user_id, None)

    def settle(self, user_id: str) -> None:
        """Keep within the budget: let go of a user too large for it, then of others, unused for longest first."""
        with self._lock:
            own = self._users.get(user_id)
            if own is not None and own.needed > self.budget:
                del self._users[user_id]
            total = sum(matrix.size for matrix in self._users.values())
            for name in [name for name in self._users if name != user_id]:
                if total <= self.budget:
                    return
                total -= self._users.pop(name).size

    def __len__(self) -> int:
        return len(self._users)
