"""One search among a user's passages: in the cached matrix, or from the file where the user is too large for it."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from agentmem.errors import StoreError
from agentmem.model.outline import Bools, Ints, Names
from agentmem.model.scope import Scope
from agentmem.stores import WHOLE, Scores, Where
from agentmem.stores.sqlite.connection import Connection
from agentmem.stores.sqlite.matrix import (
    Columns,
    Layout,
    Layouts,
    MatrixCache,
    UserMatrix,
    View,
    estimated_bytes,
    joined,
    laid_out,
)
from agentmem.stores.sqlite.planes import UNITS, Halves, Planes, Probe, Units, coarse, exact, split, unit_rows

RESCORED = 200
ROWS_AT_ONCE = 2048
HALF = np.dtype("<f2")

State = tuple[int, int]  # (generation, seq): grows with every write


@dataclass(frozen=True)
class Holding:
    """What the file holds of one embedder: the statements to read it by, and how far it has come."""

    identity: str
    projection: str
    dimensions: int
    sql: Mapping[str, str]

    def registration(self, db: Connection) -> tuple[int, int]:
        """The embedder's number and when it was registered, because numbers return. StoreError when it is gone."""
        found: Any = db.execute(self.sql["embedder"], {"identity": self.identity}).fetchone()
        if found is None:
            raise StoreError(f"embedder {self.identity} was taken out of this store; open the memory again")
        return found[0], found[2]

    def state(self, db: Connection, user_id: str) -> State:
        """The user's (generation, seq)."""
        found: Any = db.execute(self.sql["state"], {"projection": self.projection, "user_id": user_id}).fetchone()
        return (0, 0) if found is None else (found[0], found[1])


class Seen(NamedTuple):
    """A layout, cut to what a search may see; `all` when nothing was cut."""

    layout: Layout
    all: bool


class Search:
    """One search, on a reader's thread, inside its transaction."""

    def __init__(self, held: Holding, cache: MatrixCache, probe: Probe, scope: Scope, where: Where) -> None:
        self.held, self.cache, self.probe = held, cache, probe
        self.user_id, self.kinds = scope.user_id, where.kinds
        readable = scope.readable()
        self.channels = readable if where.channels is None else tuple(set(readable) & set(where.channels))

    def run(self, db: Connection, grains: Sequence[str], k: int | None) -> list[Scores]:
        """Scores for each grain; see the protocol."""
        self.registration = self.held.registration(db)
        self.keys: dict[str, Any] = {"user_id": self.user_id, "embedder": self.registration[0]}
        return self._cached(db, grains, k) or self._streamed(db, grains, k)

    def _cached(self, db: Connection, grains: Sequence[str], k: int | None) -> list[Scores]:
        """From the matrix in memory; [] when the user is too large for one."""
        while (matrix := self.cache.find(self.user_id, lambda: self._room(db))) is not None:
            fresh = self._fresh(db, matrix)
            if fresh is None:
                continue
            layouts, whole, sentences = fresh
            seen = [self._seen(layouts[grain != WHOLE], matrix) for grain in grains]
            units = _by_row(
                whole.units(self.probe, _wanted(seen, whole=True), fine=True),
                sentences.units(self.probe, _wanted(seen, whole=False), fine=False),
            )
            return [self._scores(each.layout, units, sentences.take, k) for each in seen]
        return []

    def _room(self, db: Connection) -> UserMatrix | None:
        count = sum(rows for _, rows in db.execute(self.held.sql["counts"], self.keys))
        fits = estimated_bytes(count, self.held.dimensions) <= self.cache.budget
        return UserMatrix(self.held.dimensions) if fits else None

    def _fresh(self, db: Connection, matrix: UserMatrix) -> tuple[Layouts, View, View] | None:
        """The matrix brought up to this transaction's state, or None when it is better loaded again."""
        with matrix.lock:
            if matrix.registration not in (None, self.registration):  # taken out and built again meanwhile
                self.cache.drop(self.user_id)
                return None
            matrix.registration = self.registration
            state = self.held.state(db, self.user_id)
            if matrix.state < state:
                if 0 <= matrix.state[0] < state[0]:
                    ids = db.execute(self.held.sql["ids"], self.keys)
                    matrix.blank(np.fromiter((row[0] for row in ids), dtype=np.int64), others=True)
                for part in self._parts(db, matrix):
                    matrix.append(*part)
                matrix.state = state
                self.cache.settle(self.user_id)
            if matrix.worn:
                self.cache.drop(self.user_id)
                return None
            return matrix.layouts(), matrix.whole.view(), matrix.sentences.view()

    def _streamed(self, db: Connection, grains: Sequence[str], k: int | None) -> list[Scores]:
        """The same from the file, a part at a time."""
        names = UserMatrix(self.held.dimensions)
        passages: tuple[list[Columns], list[Columns]] = ([], [])
        units: tuple[list[Units], list[Units]] = ([], [])
        for columns, halves, whole in self._parts(db, names):
            names.last_id = int(columns.ids[-1])
            for at, rows in enumerate((whole, ~whole)):
                planes = split(unit_rows(halves[rows]))
                passages[at].append(columns.only(rows))
                units[at].append(coarse(planes.high, planes.scales, self.probe) if at else exact(planes, self.probe))
        first, second = joined(passages[0]), joined(passages[1])
        layouts = laid_out((np.arange(len(first.ids)), first), (np.arange(len(second.ids)), second))
        by_row = _by_row(*(np.concatenate([*each, np.zeros(0, dtype=np.int32)]) for each in units))
        seen = [self._seen(layouts[grain != WHOLE], names) for grain in grains]
        return [self._scores(each.layout, by_row, lambda rows: self._read(db, second.ids[rows]), k) for each in seen]

    def _parts(self, db: Connection, matrix: UserMatrix) -> Iterator[tuple[Columns, Halves, Bools]]:
        """The passages behind the last one of the matrix, their vectors, and which of them are whole."""
        cursor = db.execute(self.held.sql["passages_after"], {**self.keys, "after": matrix.last_id})
        while rows := list(islice(cursor, ROWS_AT_ONCE)):
            ids, slots, parts, asks, whole, kinds, channels, blobs = zip(*rows, strict=True)
            columns = Columns(
                ids=np.array(ids, dtype=np.int64),
                slots=np.array(slots, dtype=np.int64),
                parts=np.array(parts, dtype=np.int32),
                kinds=_coded(matrix.kinds, kinds),
                channels=_coded(matrix.channels, channels),
                asks=np.array(asks, dtype=np.bool_),
            )
            yield columns, _halves(blobs), np.array(whole, dtype=np.bool_)

    def _seen(self, layout: Layout, names: UserMatrix) -> Seen:
        passages = layout.passages
        seen = names.channels.among(self.channels)[passages.channels]
        if self.kinds is not None:
            seen &= names.kinds.among(self.kinds)[passages.kinds]
        return Seen(layout, True) if seen.all() else Seen(Layout(layout.rows[seen], passages.only(seen)), False)

    def _scores(self, layout: Layout, by_row: Units, take: Callable[[Ints], Planes], k: int | None) -> Scores:
        """All in order, or the best `k`, ties in order. `take` gives the planes of sentences by ascending row."""
        units = by_row[layout.rows]
        again = to_rescore(units, layout.rows >= 0, RESCORED)
        if len(again):
            again = again[np.argsort(layout.rows[again])]
            units[again] = exact(take(layout.rows[again]), self.probe)
        passages = layout.passages
        if k is not None:
            best = best_of(units, k)
            units, passages = units[best], passages.only(best)
        scores = units.astype(np.float32) / np.float32(UNITS)
        return Scores(slots=passages.slots, parts=passages.parts, scores=scores, asks=passages.asks)

    def _read(self, db: Connection, ids: Ints) -> Planes:
        """The planes of these passages from the file; the ids are ascending."""
        held: list[Any] = db.execute(self.held.sql["by_id"], {**self.keys, "ids": listed(ids)}).fetchall()
        return split(unit_rows(_halves([blob for _, blob in held])))


def _wanted(seen: Sequence[Seen], *, whole: bool) -> Ints | None:
    """The rows of one table that some layout asks for; None for all of them."""
    if any(each.all for each in seen):
        return None
    rows = [each.layout.rows for each in seen]
    return np.unique(np.concatenate([~row[row < 0] if whole else row[row >= 0] for row in rows]))


def _by_row(whole: Units, sentences: Units) -> Units:
    """Both as one array that a layout's rows point into: ~row counts from the end."""
    return np.concatenate([sentences, whole[::-1]])


def to_rescore(units: Units, approximate: Bools, best: int) -> Ints:
    """Where among the best a score is approximate.

    Ties at the cut are taken in together, and left out together where there are very many: so the choice does not
    depend on the order of rows.
    """
    if not approximate.any():
        return np.zeros(0, dtype=np.int64)
    if len(units) > best:
        edge = np.partition(units, -best)[-best]
        chosen = units >= edge
        if int(chosen.sum()) > 4 * best:
            chosen = units > edge
        return np.flatnonzero(chosen & approximate)
    return np.flatnonzero(approximate)


def best_of(units: Units, k: int) -> Ints:
    """Where the best `k` are, best first, equal ones in order."""
    rows = np.arange(len(units))
    if 0 < k < len(rows):
        rows = np.flatnonzero(units >= np.partition(units, -k)[-k])
    return rows[np.argsort(-units[rows], kind="stable")][:k]


def _halves(blobs: Sequence[bytes]) -> Halves:
    return np.frombuffer(b"".join(blobs), dtype=HALF).reshape(len(blobs), -1)


def _coded(names: Names, values: Sequence[str]) -> NDArray[np.int32]:
    codes = {value: names.code(value) for value in dict.fromkeys(values)}
    return np.fromiter(map(codes.__getitem__, values), dtype=np.int32, count=len(values))


def listed(slots: Collection[int] | Ints) -> str:
    """Slots or ids as a JSON list, to be bound to one parameter."""
    return json.dumps(slots.tolist() if isinstance(slots, np.ndarray) else [int(slot) for slot in slots])
