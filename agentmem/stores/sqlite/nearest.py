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
from agentmem.stores import ChunkScores
from agentmem.stores.sqlite.connection import Connection
from agentmem.stores.vectors.matrix import (
    IndexState,
    MatrixCache,
    RowOrders,
    RowsView,
    UserMatrix,
    VectorColumns,
    build_orders,
    concat_columns,
    estimate_bytes,
)
from agentmem.stores.vectors.passages import FLOAT16, ROW_BATCH_SIZE, LoadedRows, build_loaded_rows
from agentmem.stores.vectors.planes import (
    FixedPoint,
    Float16Rows,
    QuantizedRows,
    normalize_rows,
    quantize,
    score_approximate,
    score_exact,
)
from agentmem.stores.vectors.search import VectorSearch, combine_by_row


@dataclass(frozen=True)
class EmbedderReader:
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

    def state(self, db: Connection, user_id: str) -> IndexState:
        """The user's (generation, seq)."""
        found: Any = db.execute(self.sql["state"], {"projection": self.projection, "user_id": user_id}).fetchone()
        return (0, 0) if found is None else (found[0], found[1])


class SqliteVectorSearch:
    """One search, on a reader's thread, inside its transaction."""

    def __init__(self, embedder: EmbedderReader, cache: MatrixCache, search: VectorSearch) -> None:
        self.embedder, self.cache, self.search = embedder, cache, search
        self.user_id = search.user_id

    def run(self, db: Connection) -> list[ChunkScores]:
        """Scores for each grain; see the protocol."""
        self.registration = self.embedder.registration(db)
        self.keys: dict[str, Any] = {"user_id": self.user_id, "embedder": self.registration[0]}
        return self._search_matrix(db) or self._search_file(db)

    def _search_matrix(self, db: Connection) -> list[ChunkScores]:
        """From the matrix in memory; [] when the user is too large for one."""
        while (matrix := self.cache.get_or_create(self.user_id, lambda: self._build_matrix(db))) is not None:
            if (fresh := self._refresh_matrix(db, matrix)) is not None:
                return self.search.search_matrix(self.cache.scoring_thread, matrix, fresh)
        return []

    def _build_matrix(self, db: Connection) -> UserMatrix | None:
        count = sum(rows for _, rows in db.execute(self.embedder.sql["counts"], self.keys))
        fits = estimate_bytes(count, self.embedder.dimensions) <= self.cache.budget_bytes
        return UserMatrix(self.embedder.dimensions) if fits else None

    def _refresh_matrix(self, db: Connection, matrix: UserMatrix) -> tuple[RowOrders, RowsView, RowsView] | None:
        """The matrix brought up to this transaction's state, or None when it is better loaded again."""
        with matrix.lock:
            if matrix.registration not in (None, self.registration):  # taken out and built again meanwhile
                self.cache.drop(self.user_id)
                return None
            matrix.registration = self.registration
            state = self.embedder.state(db, self.user_id)
            if matrix.state < state:
                if 0 <= matrix.state[0] < state[0]:
                    ids = db.execute(self.embedder.sql["ids"], self.keys)
                    matrix.mark_deleted(np.fromiter((row[0] for row in ids), dtype=np.int64), invert=True)
                for part in self._read_batches(db, matrix):
                    matrix.append(*part)
                matrix.state = state
                self.cache.evict(self.user_id)
            if matrix.needs_compaction:
                self.cache.drop(self.user_id)
                return None
            return matrix.snapshot()

    def _search_file(self, db: Connection) -> list[ChunkScores]:
        """The same from the file, a part at a time."""
        names, probe = UserMatrix(self.embedder.dimensions), self.search.quantized_query
        passages: tuple[list[VectorColumns], list[VectorColumns]] = ([], [])
        units: tuple[list[FixedPoint], list[FixedPoint]] = ([], [])
        for columns, halves, whole in self._read_batches(db, names):
            for at, rows in enumerate((whole, ~whole)):
                planes = quantize(normalize_rows(halves[rows]))
                passages[at].append(columns.select(rows))
                units[at].append(
                    score_approximate(planes.high, planes.scales, probe) if at else score_exact(planes, probe)
                )
        first, second = concat_columns(passages[0]), concat_columns(passages[1])
        layouts = build_orders((np.arange(len(first.ids)), first), (np.arange(len(second.ids)), second))
        scored = combine_by_row(*(np.concatenate([*each, np.zeros(0, dtype=np.int32)]) for each in units))
        return self.search.rank_approximate(layouts, names, scored, lambda rows: self._read_rows(db, second.ids[rows]))

    def _read_batches(self, db: Connection, matrix: UserMatrix) -> Iterator[LoadedRows]:
        """The passages behind the last one of the matrix."""
        cursor = db.execute(self.embedder.sql["passages_after"], {**self.keys, "after": matrix.last_id})
        while rows := list(islice(cursor, ROW_BATCH_SIZE)):
            yield build_loaded_rows(rows, _decode_vectors([row[-1] for row in rows]), matrix)

    def _read_rows(self, db: Connection, ids: Ints) -> QuantizedRows:
        """The planes of these passages from the file; the ids are ascending."""
        held: list[Any] = db.execute(self.embedder.sql["by_id"], {**self.keys, "ids": render_ids(ids)}).fetchall()
        return quantize(normalize_rows(_decode_vectors([blob for _, blob in held])))


def _decode_vectors(blobs: Sequence[bytes]) -> Float16Rows:
    return np.frombuffer(b"".join(blobs), dtype=FLOAT16).reshape(len(blobs), -1)


def render_ids(ids: Collection[int] | Ints) -> str:
    """Slots or ids as a JSON list, to be bound to one parameter."""
    return json.dumps(ids.tolist() if isinstance(ids, np.ndarray) else [int(ordinal) for ordinal in ids])
