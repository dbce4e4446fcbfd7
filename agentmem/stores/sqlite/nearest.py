"""One search among a user's passages: in the cached matrix, or from the file where the user is too large for it."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentmem.errors import StoreError
from agentmem.model.outline import Bools, Ints, Names
from agentmem.model.scope import Scope
from agentmem.stores import SENTENCE, WHOLE, Scores, Where
from agentmem.stores.sqlite.connection import Connection
from agentmem.stores.sqlite.matrix import (
    Allowed,
    Found,
    MatrixCache,
    Part,
    Probe,
    UserMatrix,
    View,
    as_sentences,
    estimated_bytes,
    exact_units,
    having,
    in_order,
    joined,
    scored,
    to_rescore,
    unit_rows,
)

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


class Search:
    """One search, on a reader's thread, inside its transaction."""

    def __init__(
        self, held: Holding, cache: MatrixCache, probe: Probe, scope: Scope, where: Where, grain: str
    ) -> None:  # fmt: skip
        self.held, self.cache, self.probe = held, cache, probe
        self.user_id, self.grain = scope.user_id, grain
        self.kinds = where.kinds
        readable = scope.readable()
        self.channels = readable if where.channels is None else tuple(set(readable) & set(where.channels))

    def run(self, db: Connection, k: int | None) -> Scores:
        """Scores in the order asked for; see the protocol."""
        self.registration = self.held.registration(db)
        keys: dict[str, Any] = {"user_id": self.user_id, "embedder": self.registration[0]}
        whole, sentences = self._cached(db, keys) or self._streamed(db, keys)
        if self.grain == WHOLE:
            return in_order(whole, k)
        found = as_sentences(sentences, whole)
        self._rescore(db, keys, found)
        return in_order(found, k)

    def _cached(self, db: Connection, keys: dict[str, Any]) -> tuple[Found, Found] | None:
        """Scores of whole passages and of sentences (where asked for); None when the user is too large to cache."""
        while (matrix := self.cache.find(self.user_id, lambda: self._room(db, keys))) is not None:
            views = self._fresh(db, keys, matrix)
            if views is not None:
                allowed = self._allowed(matrix)
                sentences = scored(views[1], self.probe, allowed)
                if self.grain == SENTENCE:
                    allowed = allowed._replace(without=having(sentences))
                return scored(views[0], self.probe, allowed), sentences
        return None

    def _room(self, db: Connection, keys: dict[str, Any]) -> UserMatrix | None:
        rows: list[Any] = db.execute(self.held.sql["counts"], keys).fetchall()
        counts = dict(rows)
        size = estimated_bytes(counts.get(WHOLE, 0), counts.get(SENTENCE, 0), self.held.dimensions)
        return UserMatrix(self.held.dimensions) if size <= self.cache.budget else None

    def _fresh(self, db: Connection, keys: dict[str, Any], matrix: UserMatrix) -> tuple[View, View] | None:
        """The matrix brought up to this transaction's state, or None when it is better loaded again."""
        with matrix.lock:
            if matrix.registration not in (None, self.registration):  # taken out and built again meanwhile
                self.cache.drop(self.user_id)
                return None
            matrix.registration = self.registration
            state = self.held.state(db, self.user_id)
            if matrix.state < state:
                if 0 <= matrix.state[0] < state[0]:
                    ids = np.fromiter((row[0] for row in db.execute(self.held.sql["ids"], keys)), dtype=np.int64)
                    for table in matrix.tables:
                        table.keep(ids)
                for part, whole in self._parts(db, keys, matrix):
                    matrix.append(part, whole)
                matrix.state = state
                self.cache.settle(self.user_id)
            if matrix.worn:
                self.cache.drop(self.user_id)
                return None
            return matrix.whole.view(), matrix.sentences.view() if self.grain == SENTENCE else []

    def _streamed(self, db: Connection, keys: dict[str, Any]) -> tuple[Found, Found]:
        """The same from the file, a part at a time."""
        names = UserMatrix(self.held.dimensions)
        found: tuple[list[Found], list[Found]] = ([], [])
        for part, whole in self._parts(db, keys, names):
            passing = UserMatrix(self.held.dimensions)
            passing.append(part, whole)
            for into, table in zip(found, passing.tables, strict=True):
                if into is found[0] or self.grain == SENTENCE:
                    into.append(scored(table.view(), self.probe, self._allowed(names)))
            names.last_id = passing.last_id
        return joined(found[0]), joined(found[1])

    def _parts(self, db: Connection, keys: dict[str, Any], matrix: UserMatrix) -> Iterator[tuple[Part, Bools]]:
        """The passages behind the last one of the matrix, and which of them are whole."""
        cursor = db.execute(self.held.sql["passages_after"], {**keys, "after": matrix.last_id})
        while rows := list(islice(cursor, ROWS_AT_ONCE)):
            ids, slots, parts, asks, whole, kinds, channels, blobs = zip(*rows, strict=True)
            part = Part(
                ids=np.array(ids, dtype=np.int64),
                slots=np.array(slots, dtype=np.int64),
                parts=np.array(parts, dtype=np.int32),
                kinds=_coded(matrix.kinds, kinds),
                channels=_coded(matrix.channels, channels),
                asks=np.array(asks, dtype=np.bool_),
                halves=np.frombuffer(b"".join(blobs), dtype=HALF).reshape(len(rows), -1),
            )
            yield part, np.array(whole, dtype=np.bool_)

    def _allowed(self, names: UserMatrix) -> Allowed:
        kinds = None if self.kinds is None else names.kinds.among(self.kinds)
        return Allowed(kinds, names.channels.among(self.channels))

    def _rescore(self, db: Connection, keys: dict[str, Any], found: Found) -> None:
        rows = to_rescore(found, RESCORED)
        asked = {**keys, "ids": listed(found.ids[rows])}
        held: list[Any] = db.execute(self.held.sql["by_id"], asked).fetchall()
        if held:
            rows = rows[np.argsort(found.ids[rows])]
            at = np.searchsorted(found.ids[rows], np.array([row_id for row_id, _ in held], dtype=np.int64))
            halves = np.frombuffer(b"".join(blob for _, blob in held), dtype=HALF)
            found.units[rows[at]] = exact_units(unit_rows(halves.reshape(len(held), -1)), self.probe)


def _coded(names: Names, values: Sequence[str]) -> NDArray[np.int32]:
    codes = {value: names.code(value) for value in dict.fromkeys(values)}
    return np.fromiter(map(codes.__getitem__, values), dtype=np.int32, count=len(values))


def listed(slots: Collection[int] | Ints) -> str:
    """Slots or ids as a JSON list, to be bound to one parameter."""
    return json.dumps([int(slot) for slot in slots])
