"""One search in the store's file: in the cached matrix, or from the file where the user is too large for it."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from agentmem.errors import StoreError
from agentmem.model.outline import Ints
from agentmem.stores import Scores
from agentmem.stores.sqlite.connection import Connection
from agentmem.stores.vectors.matrix import (
    Columns,
    Layouts,
    MatrixCache,
    State,
    UserMatrix,
    View,
    estimated_bytes,
    joined,
    laid_out,
)
from agentmem.stores.vectors.passages import HALF, ROWS_AT_ONCE, Part, part_of
from agentmem.stores.vectors.planes import Halves, Planes, Units, coarse, exact, split, unit_rows
from agentmem.stores.vectors.search import Search, by_row


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


class FileSearch:
    """One search, on a reader's thread, inside its transaction."""

    def __init__(self, held: Holding, cache: MatrixCache, search: Search) -> None:
        self.held, self.cache, self.search = held, cache, search
        self.user_id = search.user_id

    def run(self, db: Connection) -> list[Scores]:
        """Scores for each grain; see the protocol."""
        self.registration = self.held.registration(db)
        self.keys: dict[str, Any] = {"user_id": self.user_id, "embedder": self.registration[0]}
        return self._cached(db) or self._streamed(db)

    def _cached(self, db: Connection) -> list[Scores]:
        """From the matrix in memory; [] when the user is too large for one."""
        while (matrix := self.cache.find(self.user_id, lambda: self._room(db))) is not None:
            if (fresh := self._fresh(db, matrix)) is not None:
                return self.search.in_matrix(self.cache.beside, matrix, fresh)
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
            return matrix.held()

    def _streamed(self, db: Connection) -> list[Scores]:
        """The same from the file, a part at a time."""
        names, probe = UserMatrix(self.held.dimensions), self.search.probe
        passages: tuple[list[Columns], list[Columns]] = ([], [])
        units: tuple[list[Units], list[Units]] = ([], [])
        for columns, halves, whole in self._parts(db, names):
            for at, rows in enumerate((whole, ~whole)):
                planes = split(unit_rows(halves[rows]))
                passages[at].append(columns.only(rows))
                units[at].append(coarse(planes.high, planes.scales, probe) if at else exact(planes, probe))
        first, second = joined(passages[0]), joined(passages[1])
        layouts = laid_out((np.arange(len(first.ids)), first), (np.arange(len(second.ids)), second))
        scored = by_row(*(np.concatenate([*each, np.zeros(0, dtype=np.int32)]) for each in units))
        return self.search.among(layouts, names, scored, lambda rows: self._read(db, second.ids[rows]))

    def _parts(self, db: Connection, matrix: UserMatrix) -> Iterator[Part]:
        """The passages behind the last one of the matrix."""
        cursor = db.execute(self.held.sql["passages_after"], {**self.keys, "after": matrix.last_id})
        while rows := list(islice(cursor, ROWS_AT_ONCE)):
            yield part_of(rows, _halves([row[-1] for row in rows]), matrix)

    def _read(self, db: Connection, ids: Ints) -> Planes:
        """The planes of these passages from the file; the ids are ascending."""
        held: list[Any] = db.execute(self.held.sql["by_id"], {**self.keys, "ids": listed(ids)}).fetchall()
        return split(unit_rows(_halves([blob for _, blob in held])))


def _halves(blobs: Sequence[bytes]) -> Halves:
    return np.frombuffer(b"".join(blobs), dtype=HALF).reshape(len(blobs), -1)


def listed(slots: Collection[int] | Ints) -> str:
    """Slots or ids as a JSON list, to be bound to one parameter."""
    return json.dumps(slots.tolist() if isinstance(slots, np.ndarray) else [int(slot) for slot in slots])
