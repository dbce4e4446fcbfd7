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

from agentmem.model.outline import Bools, Ints, Names
from agentmem.stores.vectors.planes import Bytes, Halves, Planes, Probe, Units, coarse, exact, split, unit_rows

FIRST_CHUNK, LARGEST_CHUNK = 256, 8192
PART = 4096  # rows multiplied at a time
WORTH_TWO = 16_384  # rows of planes; half a millisecond for each of two threads
SPARSE = 0.4  # below this share of wanted rows, they are gathered before they are multiplied
PART_BITS = 20  # of a place, for the part of a record
Codes = NDArray[np.int32]
State = tuple[int, int]  # (generation, seq): grows with every write


class Columns(NamedTuple):
    """Passages, a row each. `kinds` and `channels` are codes."""

    ids: Ints
    slots: Ints
    parts: Codes
    kinds: Codes
    channels: Codes
    asks: Bools

    def only(self, rows: Bools | Ints) -> Columns:
        """Some of the rows."""
        return Columns._make(column[rows] for column in self)

    @property
    def places(self) -> Ints:
        """Slot and part as one number."""
        return self.slots << PART_BITS | self.parts


NO_PASSAGES = Columns._make(np.empty(0, dtype=dtype) for dtype in (np.int64, np.int64, *[np.int32] * 3, np.bool_))


def joined(columns: list[Columns]) -> Columns:
    """Several, one below the other."""
    if len(columns) == 1:
        return columns[0]
    return Columns._make(map(np.concatenate, zip(*columns, strict=True))) if columns else NO_PASSAGES


class Layout(NamedTuple):
    """Passages in order of slot and part. `rows` are rows of sentences, or, as ~row, of whole passages.

    `open_to` are the tables of channels and kinds (see `Names.among`) of which is known that they leave nothing out.
    """

    rows: Ints
    passages: Columns
    open_to: set[tuple[bytes, bytes]]

    @classmethod
    def of(cls, rows: Ints, passages: Columns) -> Layout:
        """Brought into order."""
        places = passages.places
        if (places[1:] > places[:-1]).all():
            return cls(rows, passages, set())
        order = np.argsort(places, kind="stable")
        return cls(rows[order], passages.only(order), set())

    def seen(self, channels: Bools, kinds: Bools) -> Layout:
        """What of it lies in these channels and is of these kinds; itself when that is all of it."""
        key = channels.tobytes(), kinds.tobytes()
        if key in self.open_to:
            return self
        seen = channels[self.passages.channels] & kinds[self.passages.kinds]
        if seen.all():
            self.open_to.add(key)
            return self
        return Layout(self.rows[seen], self.passages.only(seen), set())


Layouts = tuple[Layout, Layout]  # of whole passages, and of sentences


def laid_out(whole: tuple[Ints, Columns], sentences: tuple[Ints, Columns], before: Layouts | None = None) -> Layouts:
    """Layouts of rows with their passages, added to those before.

    A record without sentences is one sentence itself; so all the passages of a record must be given together.
    """
    alone = ~np.isin(whole[1].slots, sentences[1].slots)
    first, second = (NO_LAYOUT, NO_LAYOUT) if before is None else before
    return (
        Layout.of(np.concatenate([first.rows, ~whole[0]]), joined([first.passages, whole[1]])),
        Layout.of(
            np.concatenate([second.rows, sentences[0], ~whole[0][alone]]),
            joined([second.passages, sentences[1], whole[1].only(alone)]),
        ),
    )


NO_LAYOUT = Layout.of(np.empty(0, dtype=np.int64), NO_PASSAGES)


class Chunk:
    """Room for the planes of some rows; filled from the front and never moved."""

    def __init__(self, room: int, dimensions: int) -> None:
        self.room, self.count = room, 0
        self.high: Bytes = np.empty((room, dimensions), dtype=np.int8)
        self.low: Bytes = np.empty((room, dimensions), dtype=np.int8)
        self.scales: NDArray[np.float32] = np.empty(room, dtype=np.float32)

    def put(self, rows: Planes) -> None:
        """Append rows; there must be room."""
        span = slice(self.count, self.count + len(rows.scales))
        self.high[span], self.low[span], self.scales[span] = rows
        self.count = span.stop

    def take(self, rows: Ints | slice) -> Planes:
        """Some of the rows."""
        return Planes(self.high[rows], self.low[rows], self.scales[rows])


class View(NamedTuple):
    """The rows that were there at one moment: chunks, and how many rows begin before each of them and in the end."""

    chunks: list[Chunk]
    starts: list[int]

    def take(self, rows: Ints) -> Planes:
        """Some of the rows, which are ascending."""
        cuts = np.searchsorted(rows, self.starts)
        parts = [
            chunk.take(rows[cuts[n] : cuts[n + 1]] - self.starts[n])
            for n, chunk in enumerate(self.chunks)
            if cuts[n] < cuts[n + 1]
        ] or [chunk.take(slice(0)) for chunk in self.chunks[:1]]
        return Planes._make(map(np.concatenate, zip(*parts, strict=True)))

    def units(self, probe: Probe, wanted: Ints | None, *, fine: bool) -> list[Sums]:
        """The sums whose results, one below the other, are the scores by row, of the wanted rows at least.

        None wants all. `fine` ones are exact, others approximate.
        """
        size, planes = self.starts[-1], 2 if fine else 1
        if wanted is None or len(wanted) >= SPARSE * size:
            return [
                Sums((last - first) * planes, partial(_scored, chunk.take(slice(first, last)), probe, fine=fine))
                for chunk, start, end in zip(self.chunks, self.starts, self.starts[1:], strict=False)
                for first in range(0, end - start, PART)
                for last in [min(first + PART, end - start)]
            ]
        return [Sums(len(wanted) * planes, partial(self._some, probe, np.sort(wanted), fine=fine))]

    def _some(self, probe: Probe, wanted: Ints, *, fine: bool) -> Units:
        out = np.zeros(self.starts[-1], dtype=np.int32)
        if len(wanted):
            out[wanted] = _scored(self.take(wanted), probe, fine=fine)
        return out


class Sums(NamedTuple):
    """Scores still to be reckoned, and over how many rows of planes."""

    cost: int
    reckon: Callable[[], Units]


def _scored(rows: Planes, probe: Probe, *, fine: bool) -> Units:
    return exact(rows, probe) if fine else coarse(rows.high, rows.scales, probe)


class Beside:
    """One more thread for sums over many rows. It serves whoever finds it idle; others do all of their sums themselves.

    Not the threads that SimSIMD can use by itself: they are OpenMP's, which hangs in a process forked afterwards.
    """

    def __init__(self) -> None:
        self._idle = threading.Lock()
        self._made: tuple[int, ThreadPoolExecutor] | None = None  # in which process

    def each(self, sums: Sequence[Sums]) -> list[Units]:
        """The results; half of them from the other thread where that is worth a change of threads."""
        costs = np.cumsum([each.cost for each in sums])
        if not len(costs) or costs[-1] < WORTH_TWO or not self._idle.acquire(blocking=False):
            return [each.reckon() for each in sums]
        try:
            half = int(np.searchsorted(costs, costs[-1] / 2, side="right"))
            others = self._thread().submit(lambda: [each.reckon() for each in sums[half:]])
            return [each.reckon() for each in sums[:half]] + others.result()
        finally:
            self._idle.release()

    def _thread(self) -> ThreadPoolExecutor:
        if self._made is None or self._made[0] != os.getpid():  # a fork takes no threads along
            self._made = os.getpid(), ThreadPoolExecutor(1, thread_name_prefix="agentmem-sums")
        return self._made[1]


class Table:
    """Passages of one grain: their columns piece by piece, and their planes in chunks filled one after the other."""

    def __init__(self, dimensions: int) -> None:
        self.dimensions = dimensions
        self.pieces: list[Columns] = []
        self.chunks: list[Chunk] = []
        self.count = 0
        self.gone: set[int] = set()

    def append(self, passages: Columns, halves: Halves) -> None:
        """Add rows behind those that are there."""
        rows, start = split(unit_rows(halves)), 0
        while start < len(halves):
            if not self.chunks or self.chunks[-1].count == self.chunks[-1].room:
                room = min(max(self.count, FIRST_CHUNK, len(halves) - start), LARGEST_CHUNK)
                self.chunks.append(Chunk(room, self.dimensions))
            chunk = self.chunks[-1]
            end = start + chunk.room - chunk.count
            chunk.put(Planes._make(plane[start:end] for plane in rows))
            start = end
        self.pieces.append(passages)
        self.count += len(halves)

    def since(self, piece: int) -> tuple[Ints, Columns]:
        """The rows that are not blanked, and their passages, from a piece on."""
        passages = joined(self.pieces[piece:])
        rows = np.arange(self.count - len(passages.ids), self.count)
        if not self.gone:
            return rows, passages
        left = ~np.isin(rows, np.fromiter(self.gone, dtype=np.int64))
        return rows[left], passages.only(left)

    def blank(self, ids: Ints, *, others: bool) -> None:
        """Take out the rows of these ascending ids, or all others."""
        held = joined(self.pieces).ids
        rows = np.flatnonzero(np.isin(held, ids, invert=others))
        self.gone.update(rows.tolist())
        cuts = np.searchsorted(rows, self.view().starts)
        for n, chunk in enumerate(self.chunks):  # what was erased does not stay in memory either
            inside = rows[cuts[n] : cuts[n + 1]] - self.view().starts[n]
            chunk.high[inside] = chunk.low[inside] = 0

    def view(self) -> View:
        """The rows that are there now; rows added later are not in it."""
        return View(list(self.chunks), [0, *np.cumsum([chunk.count for chunk in self.chunks]).tolist()])

    @property
    def size(self) -> int:
        """Bytes."""
        planes = sum(chunk.room * (2 * self.dimensions + 4) for chunk in self.chunks)
        return planes + self.count * BYTES_OF_COLUMNS


BYTES_OF_COLUMNS = 2 * 29 + 8  # in the pieces and in a layout


class UserMatrix:
    """The cached vectors of a user, as of `state` (generation, seq)."""

    def __init__(self, dimensions: int) -> None:
        self.lock = threading.Lock()
        self.state: State = (-1, -1)
        # Of the embedder: its number, which may return, and when it was registered; the store may add what else counts.
        self.registration: tuple[int, ...] | None = None
        self.last_id = 0
        self.kinds, self.channels = Names(), Names()
        self.whole, self.sentences = Table(dimensions), Table(dimensions)
        self._layouts: Layouts | None = None
        self._laid = (0, 0)  # pieces of each table

    def append(self, passages: Columns, halves: Halves, whole: Bools) -> None:
        """Add passages; the mask says which are whole."""
        self.last_id = max(self.last_id, int(passages.ids[-1]))
        for table, rows in ((self.whole, whole), (self.sentences, ~whole)):
            if rows.any():
                table.append(passages.only(rows), halves[rows])

    def blank(self, ids: Ints, *, others: bool = False) -> None:
        """Take out the passages of these ascending ids, or all others."""
        for table in (self.whole, self.sentences):
            table.blank(ids, others=others)
        self._layouts, self._laid = None, (0, 0)

    def layouts(self) -> Layouts:
        """The layouts of all that is there; all the passages of a record must have been added."""
        pieces = len(self.whole.pieces), len(self.sentences.pieces)
        if self._layouts is None or self._laid != pieces:
            added = self.whole.since(self._laid[0]), self.sentences.since(self._laid[1])
            self._layouts, self._laid = laid_out(*added, before=self._layouts), pieces
        return self._layouts

    def held(self) -> tuple[Layouts, View, View]:
        """What is there now: the layouts, whole passages, sentences."""
        return self.layouts(), self.whole.view(), self.sentences.view()

    @property
    def worn(self) -> bool:
        """Whether so many rows are blank that loading again is better."""
        blank = len(self.whole.gone) + len(self.sentences.gone)
        return blank > max(1024, (self.whole.count + self.sentences.count) // 4)

    @property
    def size(self) -> int:
        """Bytes."""
        return self.whole.size + self.sentences.size

    @property
    def numbers(self) -> int:
        """How many numbers its rows have together."""
        return (self.whole.count + self.sentences.count) * self.whole.dimensions

    @property
    def needed(self) -> int:
        """Bytes of the rows, without room to grow."""
        return estimated_bytes(self.whole.count + self.sentences.count, self.whole.dimensions)


def estimated_bytes(passages: int, dimensions: int) -> int:
    """What a user's matrix will take."""
    return passages * (2 * dimensions + 4 + BYTES_OF_COLUMNS)


class MatrixCache:
    """The matrices of the users seen last, within a budget in bytes."""

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self.beside = Beside()
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

    def hide(self, user_id: str, gone: list[int], before: State, after: State) -> None:
        """Blank what a write of ours took out; where that must wait, the next search compares all ids instead."""
        matrix = self.peek(user_id)
        if not gone or matrix is None or not matrix.lock.acquire(blocking=False):
            return
        try:
            if matrix.state == before:
                matrix.blank(np.array(sorted(gone), dtype=np.int64))
                matrix.state = (after[0], before[1])  # what was added is fetched by the next search
        finally:
            matrix.lock.release()

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
