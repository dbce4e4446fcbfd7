"""What is cached of a user's vectors: planes in chunks, and the passages of each grain in order.

Rows are only ever added, or blanked when they are taken out; so a search may go on without the lock under which it
took its view.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from agentmem.core.columns import Bools, Ints, StringInterner
from agentmem.stores.vectors.quantization import (
    FixedPoint,
    Float16Rows,
    Int8Rows,
    QuantizedQuery,
    QuantizedRows,
    normalize_rows,
    quantize,
    score_approximate,
    score_exact,
)

MIN_BLOCK_ROWS, MAX_BLOCK_ROWS = 256, 8192
ROWS_PER_TASK = 4096  # rows multiplied at a time
MIN_PARALLEL_ROWS = 16_384  # rows of planes; half a millisecond for each of two threads
GATHER_BELOW_SHARE = 0.4  # below this share of wanted rows, they are gathered before they are multiplied
PART_BITS = 20  # of a place, for the part of a record
Codes = NDArray[np.int32]
IndexState = tuple[int, int]  # (generation, seq): grows with every write


class VectorColumns(NamedTuple):
    """Passages, a row each. `kinds` and `channels` are codes."""

    ids: Ints
    ordinals: Ints
    parts: Codes
    kinds: Codes
    channels: Codes
    is_question: Bools

    def select(self, rows: Bools | Ints) -> VectorColumns:
        """Some of the rows."""
        return VectorColumns._make(column[rows] for column in self)

    @property
    def sort_keys(self) -> Ints:
        """Ordinal and part as one number."""
        return self.ordinals << PART_BITS | self.parts


EMPTY_COLUMNS = VectorColumns._make(
    np.empty(0, dtype=dtype) for dtype in (np.int64, np.int64, *[np.int32] * 3, np.bool_)
)


def concat_columns(columns: list[VectorColumns]) -> VectorColumns:
    """Several, one below the other."""
    if len(columns) == 1:
        return columns[0]
    return VectorColumns._make(map(np.concatenate, zip(*columns, strict=True))) if columns else EMPTY_COLUMNS


class RowOrder(NamedTuple):
    """Passages in order of ordinal and part. `rows` are rows of sentences, or, as ~row, of whole passages.

    `covered_filters` are the tables of channels and kinds (see `StringInterner.mask_for`) of which is known that they
    leave nothing out.
    """

    rows: Ints
    columns: VectorColumns
    covered_filters: set[tuple[bytes, bytes]]

    @classmethod
    def build(cls, rows: Ints, columns: VectorColumns) -> RowOrder:
        """Brought into order."""
        places = columns.sort_keys
        if (places[1:] > places[:-1]).all():
            return cls(rows, columns, set())
        order = np.argsort(places, kind="stable")
        return cls(rows[order], columns.select(order), set())

    def select_visible(self, channels: Bools, kinds: Bools) -> RowOrder:
        """What of it lies in these channels and is of these kinds; itself when that is all of it."""
        key = channels.tobytes(), kinds.tobytes()
        if key in self.covered_filters:
            return self
        seen = channels[self.columns.channels] & kinds[self.columns.kinds]
        if seen.all():
            self.covered_filters.add(key)
            return self
        return RowOrder(self.rows[seen], self.columns.select(seen), set())


RowOrders = tuple[RowOrder, RowOrder]  # of whole passages, and of sentences


def build_orders(
    whole: tuple[Ints, VectorColumns], sentences: tuple[Ints, VectorColumns], existing: RowOrders | None = None
) -> RowOrders:
    """Layouts of rows with their passages, added to those before.

    A record without sentences is one sentence itself; so all the passages of a record must be given together.
    """
    alone = ~np.isin(whole[1].ordinals, sentences[1].ordinals)
    first, second = (EMPTY_ORDER, EMPTY_ORDER) if existing is None else existing
    return (
        RowOrder.build(np.concatenate([first.rows, ~whole[0]]), concat_columns([first.columns, whole[1]])),
        RowOrder.build(
            np.concatenate([second.rows, sentences[0], ~whole[0][alone]]),
            concat_columns([second.columns, sentences[1], whole[1].select(alone)]),
        ),
    )


EMPTY_ORDER = RowOrder.build(np.empty(0, dtype=np.int64), EMPTY_COLUMNS)


class RowBlock:
    """Room for the planes of some rows; filled from the front and never moved."""

    def __init__(self, capacity: int, dimensions: int) -> None:
        self.capacity, self.count = capacity, 0
        self.high: Int8Rows = np.empty((capacity, dimensions), dtype=np.int8)
        self.low: Int8Rows = np.empty((capacity, dimensions), dtype=np.int8)
        self.scales: NDArray[np.float32] = np.empty(capacity, dtype=np.float32)

    def append(self, rows: QuantizedRows) -> None:
        """Append rows; there must be room."""
        span = slice(self.count, self.count + len(rows.scales))
        self.high[span], self.low[span], self.scales[span] = rows
        self.count = span.stop

    def select(self, rows: Ints | slice) -> QuantizedRows:
        """Some of the rows."""
        return QuantizedRows(self.high[rows], self.low[rows], self.scales[rows])


class RowsView(NamedTuple):
    """The rows that were there at one moment: chunks, and how many rows begin before each of them and in the end."""

    blocks: list[RowBlock]
    starts: list[int]

    def select(self, rows: Ints) -> QuantizedRows:
        """Some of the rows, which are ascending."""
        cuts = np.searchsorted(rows, self.starts)
        parts = [
            chunk.select(rows[cuts[n] : cuts[n + 1]] - self.starts[n])
            for n, chunk in enumerate(self.blocks)
            if cuts[n] < cuts[n + 1]
        ] or [chunk.select(slice(0)) for chunk in self.blocks[:1]]
        return QuantizedRows._make(map(np.concatenate, zip(*parts, strict=True)))

    def build_scoring_tasks(self, query: QuantizedQuery, rows: Ints | None, *, is_exact: bool) -> list[ScoringTask]:
        """The sums whose results, one below the other, are the scores by row, of the wanted rows at least.

        None wants all. `is_exact` ones are exact, others approximate.
        """
        size, planes = self.starts[-1], 2 if is_exact else 1
        if rows is None or len(rows) >= GATHER_BELOW_SHARE * size:
            return [
                ScoringTask(
                    (last - first) * planes, partial(_score, chunk.select(slice(first, last)), query, is_exact=is_exact)
                )
                for chunk, start, end in zip(self.blocks, self.starts, self.starts[1:], strict=False)
                for first in range(0, end - start, ROWS_PER_TASK)
                for last in [min(first + ROWS_PER_TASK, end - start)]
            ]
        return [ScoringTask(len(rows) * planes, partial(self._score_some, query, np.sort(rows), is_exact=is_exact))]

    def _score_some(self, query: QuantizedQuery, rows: Ints, *, is_exact: bool) -> FixedPoint:
        out = np.zeros(self.starts[-1], dtype=np.int32)
        if len(rows):
            out[rows] = _score(self.select(rows), query, is_exact=is_exact)
        return out


class ScoringTask(NamedTuple):
    """Scores still to be reckoned, and over how many rows of planes."""

    cost: int
    run: Callable[[], FixedPoint]


def _score(rows: QuantizedRows, query: QuantizedQuery, *, is_exact: bool) -> FixedPoint:
    return score_exact(rows, query) if is_exact else score_approximate(rows.high, rows.scales, query)


class ScoringThread:
    """One more thread for sums over many rows. It serves the first caller that finds it idle; others sum alone.

    Not the threads that SimSIMD can use by itself: they are OpenMP's, which hangs in a process forked afterwards.
    """

    def __init__(self) -> None:
        self._idle_lock = threading.Lock()
        self._executor: tuple[int, ThreadPoolExecutor] | None = None  # in which process

    def run_all(self, tasks: Sequence[ScoringTask]) -> list[FixedPoint]:
        """The results; half of them from the other thread where that is worth a change of threads."""
        costs = np.cumsum([each.cost for each in tasks])
        if not len(costs) or costs[-1] < MIN_PARALLEL_ROWS or not self._idle_lock.acquire(blocking=False):
            return [each.run() for each in tasks]
        try:
            half = int(np.searchsorted(costs, costs[-1] / 2, side="right"))
            others = self._ensure_executor().submit(lambda: [each.run() for each in tasks[half:]])
            return [each.run() for each in tasks[:half]] + others.result()
        finally:
            self._idle_lock.release()

    def _ensure_executor(self) -> ThreadPoolExecutor:
        if self._executor is None or self._executor[0] != os.getpid():  # a fork takes no threads along
            self._executor = os.getpid(), ThreadPoolExecutor(1, thread_name_prefix="agentmem-sums")
        return self._executor[1]


class VectorTable:
    """Passages of one grain: their columns piece by piece, and their planes in chunks filled one after the other."""

    def __init__(self, dimensions: int) -> None:
        self.dimensions = dimensions
        self.column_parts: list[VectorColumns] = []
        self.blocks: list[RowBlock] = []
        self.count = 0
        self.deleted_rows: set[int] = set()

    def append(self, columns: VectorColumns, vectors: Float16Rows) -> None:
        """Add rows behind those that are there."""
        rows, start = quantize(normalize_rows(vectors)), 0
        while start < len(vectors):
            if not self.blocks or self.blocks[-1].count == self.blocks[-1].capacity:
                room = min(max(self.count, MIN_BLOCK_ROWS, len(vectors) - start), MAX_BLOCK_ROWS)
                self.blocks.append(RowBlock(room, self.dimensions))
            chunk = self.blocks[-1]
            end = start + chunk.capacity - chunk.count
            chunk.append(QuantizedRows._make(plane[start:end] for plane in rows))
            start = end
        self.column_parts.append(columns)
        self.count += len(vectors)

    def rows_since(self, part: int) -> tuple[Ints, VectorColumns]:
        """The rows that are not blanked, and their passages, from a piece on."""
        passages = concat_columns(self.column_parts[part:])
        rows = np.arange(self.count - len(passages.ids), self.count)
        if not self.deleted_rows:
            return rows, passages
        left = ~np.isin(rows, np.fromiter(self.deleted_rows, dtype=np.int64))
        return rows[left], passages.select(left)

    def mark_deleted(self, ids: Ints, *, invert: bool) -> None:
        """Take out the rows of these ascending ids, or all others."""
        held = concat_columns(self.column_parts).ids
        rows = np.flatnonzero(np.isin(held, ids, invert=invert))
        self.deleted_rows.update(rows.tolist())
        cuts = np.searchsorted(rows, self.view().starts)
        for n, chunk in enumerate(self.blocks):  # what was erased does not stay in memory either
            inside = rows[cuts[n] : cuts[n + 1]] - self.view().starts[n]
            chunk.high[inside] = chunk.low[inside] = 0

    def view(self) -> RowsView:
        """The rows that are there now; rows added later are not in it."""
        return RowsView(list(self.blocks), [0, *np.cumsum([chunk.count for chunk in self.blocks]).tolist()])

    @property
    def size_bytes(self) -> int:
        """Bytes."""
        planes = sum(chunk.capacity * (2 * self.dimensions + 4) for chunk in self.blocks)
        return planes + self.count * COLUMN_BYTES_PER_ROW


COLUMN_BYTES_PER_ROW = 2 * 29 + 8  # in the pieces and in a layout


class UserMatrix:
    """The cached vectors of a user, as of `state` (generation, seq)."""

    def __init__(self, dimensions: int) -> None:
        self.lock = threading.Lock()
        self.state: IndexState = (-1, -1)
        # Of the embedder: its number, which may return, and when it was registered; the store may add what else counts.
        self.registration: tuple[int, ...] | None = None
        self.last_id = 0
        self.kinds, self.channels = StringInterner(), StringInterner()
        self.whole, self.sentences = VectorTable(dimensions), VectorTable(dimensions)
        self._orders: RowOrders | None = None
        self._ordered_parts = (0, 0)  # pieces of each table

    def append(self, columns: VectorColumns, vectors: Float16Rows, is_whole: Bools) -> None:
        """Add passages; the mask says which are whole."""
        self.last_id = max(self.last_id, int(columns.ids[-1]))
        for table, rows in ((self.whole, is_whole), (self.sentences, ~is_whole)):
            if rows.any():
                table.append(columns.select(rows), vectors[rows])

    def mark_deleted(self, ids: Ints, *, invert: bool = False) -> None:
        """Take out the passages of these ascending ids, or all others."""
        for table in (self.whole, self.sentences):
            table.mark_deleted(ids, invert=invert)
        self._orders, self._ordered_parts = None, (0, 0)

    def orders(self) -> RowOrders:
        """The layouts of all that is there; all the passages of a record must have been added."""
        pieces = len(self.whole.column_parts), len(self.sentences.column_parts)
        if self._orders is None or self._ordered_parts != pieces:
            added = self.whole.rows_since(self._ordered_parts[0]), self.sentences.rows_since(self._ordered_parts[1])
            self._orders, self._ordered_parts = build_orders(*added, existing=self._orders), pieces
        return self._orders

    def snapshot(self) -> tuple[RowOrders, RowsView, RowsView]:
        """What is there now: the layouts, whole passages, sentences."""
        return self.orders(), self.whole.view(), self.sentences.view()

    @property
    def needs_compaction(self) -> bool:
        """Whether so many rows are blank that loading again is better."""
        blank = len(self.whole.deleted_rows) + len(self.sentences.deleted_rows)
        return blank > max(1024, (self.whole.count + self.sentences.count) // 4)

    @property
    def size_bytes(self) -> int:
        """Bytes."""
        return self.whole.size_bytes + self.sentences.size_bytes

    @property
    def value_count(self) -> int:
        """How many numbers its rows have together."""
        return (self.whole.count + self.sentences.count) * self.whole.dimensions

    @property
    def needed_bytes(self) -> int:
        """Bytes of the rows, without room to grow."""
        return estimate_bytes(self.whole.count + self.sentences.count, self.whole.dimensions)


def estimate_bytes(rows: int, dimensions: int) -> int:
    """What a user's matrix will take."""
    return rows * (2 * dimensions + 4 + COLUMN_BYTES_PER_ROW)


class MatrixCache:
    """The matrices of the users seen last, within a budget in bytes."""

    def __init__(self, budget_bytes: int) -> None:
        self.budget_bytes = budget_bytes
        self.scoring_thread = ScoringThread()
        self._lock = threading.Lock()
        self._users: OrderedDict[str, UserMatrix] = OrderedDict()

    def get_or_create(self, user_id: str, create: Callable[[], UserMatrix | None]) -> UserMatrix | None:
        """The user's matrix, made when there is none; None when `create` declines."""
        with self._lock:
            found = self._users.get(user_id)
            if found is not None:
                self._users.move_to_end(user_id)
                return found
        made = create()
        if made is None:
            return None
        with self._lock:
            return self._users.setdefault(user_id, made)

    def find_cached(self, user_id: str) -> UserMatrix | None:
        """The user's matrix, if there is one."""
        with self._lock:
            return self._users.get(user_id)

    def drop(self, user_id: str) -> None:
        """Forget a user's matrix."""
        with self._lock:
            self._users.pop(user_id, None)

    def mark_deleted(self, user_id: str, ids: list[int], old_state: IndexState, new_state: IndexState) -> None:
        """Blank what a write of ours took out; where that must wait, the next search compares all ids instead."""
        matrix = self.find_cached(user_id)
        if not ids or matrix is None or not matrix.lock.acquire(blocking=False):
            return
        try:
            if matrix.state == old_state:
                matrix.mark_deleted(np.array(sorted(ids), dtype=np.int64))
                matrix.state = (new_state[0], old_state[1])  # what was added is fetched by the next search
        finally:
            matrix.lock.release()

    def evict(self, user_id: str) -> None:
        """Keep within the budget: let go of a user too large for it, then of others, unused for longest first."""
        with self._lock:
            own = self._users.get(user_id)
            if own is not None and own.needed_bytes > self.budget_bytes:
                del self._users[user_id]
            total = sum(matrix.size_bytes for matrix in self._users.values())
            for name in [name for name in self._users if name != user_id]:
                if total <= self.budget_bytes:
                    return
                total -= self._users.pop(name).size_bytes

    def __len__(self) -> int:
        return len(self._users)
