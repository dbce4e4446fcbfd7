"""Vectors in the file, searched in memory or in the file.

One table per number of dimensions; several embedders live in it side by side. Rows are never changed in place and their
ids never used twice, so a cache is topped up by id, and after a removal (`generation` grew) compared by id.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from agentmem.core.columns import Floats, Ints
from agentmem.core.plain_values import describe_value
from agentmem.core.scope import Scope
from agentmem.errors import ConfigError, StoreError
from agentmem.stores.sqlite.connection import SqliteConnection
from agentmem.stores.sqlite.database import SqliteDatabase
from agentmem.stores.values import ChunkScores, VectorBatch, VectorRow, Where
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
from agentmem.stores.vectors.quantization import (
    FixedPoint,
    Float16Rows,
    QuantizedRows,
    normalize_rows,
    quantize,
    score_approximate,
    score_exact,
)
from agentmem.stores.vectors.search import (
    CACHE_BUDGET_BYTES,
    FLOAT16,
    ROW_BATCH_SIZE,
    LoadedRows,
    TokenVectors,
    VectorSearch,
    build_loaded_rows,
    check_vectors,
    combine_by_row,
    pack_tokens,
    pair_cosines,
    projection_name,
    unpack_tokens,
)
from agentmem.text.templates import load_templates

_SQL = load_templates(__package__, "vectors.sql")

MAX_DIMENSIONS = 16_384

RemovedRows = tuple[str, list[int], IndexState, IndexState]


@dataclass(frozen=True)
class EmbedderReader:
    """What the file holds of one embedder: the statements to read it by, and how far it has come."""

    identity: str
    projection: str
    dimensions: int
    sql: Mapping[str, str]

    def registration(self, db: SqliteConnection) -> tuple[int, int]:
        """The embedder's number and when it was registered, because numbers return. StoreError when it is gone."""
        found: Any = db.execute(self.sql["embedder"], {"identity": self.identity}).fetchone()
        if found is None:
            raise StoreError(f"embedder {self.identity} was taken out of this store; open the memory again")
        return found[0], found[2]

    def state(self, db: SqliteConnection, user_id: str) -> IndexState:
        """The user's (generation, seq)."""
        found: Any = db.execute(self.sql["state"], {"projection": self.projection, "user_id": user_id}).fetchone()
        return (0, 0) if found is None else (found[0], found[1])


class SqliteVectorSearch:
    """One search, on a reader's thread, inside its transaction."""

    def __init__(self, embedder: EmbedderReader, cache: MatrixCache, search: VectorSearch) -> None:
        self.embedder, self.cache, self.search = embedder, cache, search
        self.user_id = search.user_id

    def run(self, db: SqliteConnection) -> list[ChunkScores]:
        """Scores for each grain; see the protocol."""
        self.registration = self.embedder.registration(db)
        self.keys: dict[str, Any] = {"user_id": self.user_id, "embedder": self.registration[0]}
        return self._search_matrix(db) or self._search_file(db)

    def _search_matrix(self, db: SqliteConnection) -> list[ChunkScores]:
        """From the matrix in memory; [] when the user is too large for one."""
        while (matrix := self.cache.get_or_create(self.user_id, lambda: self._build_matrix(db))) is not None:
            if (fresh := self._refresh_matrix(db, matrix)) is not None:
                return self.search.search_matrix(self.cache.scoring_thread, matrix, fresh)
        return []

    def _build_matrix(self, db: SqliteConnection) -> UserMatrix | None:
        count = sum(rows for _, rows in db.execute(self.embedder.sql["counts"], self.keys))
        fits = estimate_bytes(count, self.embedder.dimensions) <= self.cache.budget_bytes
        return UserMatrix(self.embedder.dimensions) if fits else None

    def _refresh_matrix(self, db: SqliteConnection, matrix: UserMatrix) -> tuple[RowOrders, RowsView, RowsView] | None:
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

    def _search_file(self, db: SqliteConnection) -> list[ChunkScores]:
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

    def _read_batches(self, db: SqliteConnection, matrix: UserMatrix) -> Iterator[LoadedRows]:
        """The passages behind the last one of the matrix."""
        cursor = db.execute(self.embedder.sql["passages_after"], {**self.keys, "after": matrix.last_id})
        while rows := list(islice(cursor, ROW_BATCH_SIZE)):
            yield build_loaded_rows(rows, _decode_vectors([row[-1] for row in rows]), matrix)

    def _read_rows(self, db: SqliteConnection, ids: Ints) -> QuantizedRows:
        """The planes of these passages from the file; the ids are ascending."""
        held: list[Any] = db.execute(self.embedder.sql["by_id"], {**self.keys, "ids": render_ids(ids)}).fetchall()
        return quantize(normalize_rows(_decode_vectors([blob for _, blob in held])))


def _decode_vectors(blobs: Sequence[bytes]) -> Float16Rows:
    return np.frombuffer(b"".join(blobs), dtype=FLOAT16).reshape(len(blobs), -1)


def render_ids(ids: Collection[int] | Ints) -> str:
    """Ordinals or ids as a JSON list, to be bound to one parameter."""
    return json.dumps(ids.tolist() if isinstance(ids, np.ndarray) else [int(ordinal) for ordinal in ids])


def statements(dimensions: int) -> dict[str, str]:
    """The SQL for one number of dimensions. Raises ConfigError when it is none."""
    if type(dimensions) is not int or not 1 <= dimensions <= MAX_DIMENSIONS:
        raise ConfigError(
            f"an embedder has between 1 and {MAX_DIMENSIONS:,} dimensions, got {describe_value(dimensions)}"
        )
    return {name: text.replace("{dimensions}", str(dimensions)) for name, text in _SQL.items()}


def register(db: SqliteConnection, identity: str, dimensions: int) -> int:
    """The embedder's number in this store, given at its first registration, together with its table.

    Raises ConfigError when the identity is known with other dimensions.
    """
    sql = statements(dimensions)
    found = db.execute(_SQL["embedder"], {"identity": identity}).fetchone()
    if found is not None and found[1] != dimensions:
        raise ConfigError(f"embedder {identity} has {found[1]} dimensions in this store, got {dimensions}")
    db.execute(sql["create"])
    if found is None:
        db.execute(sql["register"], {"identity": identity, "dimensions": dimensions})
        found = db.execute(_SQL["embedder"], {"identity": identity}).fetchone()
        assert found is not None
    return int(found[0])


def list_embedders(db: SqliteConnection) -> list[str]:
    """The identities of all embedders of this store, oldest first."""
    return [identity for identity, _, _ in _embedders(db)]


def drop(db: SqliteConnection, identity: str) -> int:
    """Take out an embedder with all its vectors and token vectors; returns how many passages those were.

    The table stays, so that the ids of its rows are never used again.
    """
    found = db.execute(_SQL["embedder"], {"identity": identity}).fetchone()
    if found is None:
        return 0
    number, dimensions, _ = found
    db.execute(statements(dimensions)["drop_passages"], {"embedder": number})
    passages = db.changes()
    db.execute(_SQL["drop_tokens"], {"embedder": number})
    db.execute(_SQL["drop_embedder"], {"identity": identity})
    db.execute(_SQL["reset_all"], {"projection": projection_name(identity)})
    return passages


def vector_tables(db: SqliteConnection) -> list[str]:
    """The tables that hold a user's vectors, for scans."""
    sizes = sorted({dimensions for _, _, dimensions in _embedders(db)})
    return [*(f"passages_{size}" for size in sizes), "passage_tokens"]


def erase(db: SqliteConnection, user_id: str, ordinals: Collection[int] | None) -> None:
    """Take out these records' vectors (None: all of the user), of every embedder, in the caller's transaction."""
    for identity, number, dimensions in _embedders(db):
        sql = statements(dimensions)
        keys: dict[str, str | int] = {"user_id": user_id, "embedder": number}
        if ordinals is None:
            db.execute(sql["remove_user"], keys)
            db.execute(sql["remove_user_tokens"], keys)
        else:
            keys["slots"] = render_ids(ordinals)
            db.execute(sql["remove"], keys).fetchall()
            db.execute(sql["remove_tokens"], keys)
        db.execute(_SQL["removed"], {"projection": projection_name(identity), "user_id": user_id})


async def open_vectors(
    database: SqliteDatabase, identity: str, dimensions: int, budget: int = CACHE_BUDGET_BYTES
) -> SqliteVectors:
    """The vectors of one embedder, registered if it is new and can be. `budget` bounds the cache, in bytes."""
    if not database.write_obstacle:
        await database.write(lambda db: register(db, identity, dimensions))
    return SqliteVectors(database, identity, dimensions, budget)


class SqliteVectors:
    """A VectorIndex over `passages_<dimensions>`; see the protocol for its promises."""

    def __init__(
        self, database: SqliteDatabase, identity: str, dimensions: int, budget: int = CACHE_BUDGET_BYTES
    ) -> None:
        self.identity, self.dimensions = identity, dimensions
        self.projection = projection_name(identity)
        self._database = database
        self._sql = statements(dimensions)
        self._embedder = EmbedderReader(identity, self.projection, dimensions, self._sql)
        self._cache = MatrixCache(budget)

    async def apply(self, batches: Mapping[str, VectorBatch]) -> dict[str, int]:
        """Write each user's batch whose `after` is the stored watermark; the watermarks as they are now."""

        def write(db: SqliteConnection) -> dict[str, tuple[int, RemovedRows | None]]:
            return {user_id: self.write_batch(db, user_id, batch) for user_id, batch in batches.items()}

        done = await self._database.write(write, durable=False)
        for _, removed in done.values():
            if removed is not None:
                self.evict_removed(removed)
        return {user_id: mark for user_id, (mark, _) in done.items()}

    def write_batch(self, db: SqliteConnection, user_id: str, batch: VectorBatch) -> tuple[int, RemovedRows | None]:
        """`apply` for one user inside the caller's transaction: the watermark, and what to `evict_removed` after its
        commit.

        That is None when nothing was written.
        """
        check_vectors(batch.rows, self.identity, self.dimensions)
        number = self._embedder.registration(db)[0]
        before = self._embedder.state(db, user_id)
        if before[1] != batch.after_seq:
            return before[1], None
        gone = self._write_rows(db, number, user_id, batch)
        return batch.through_seq, (user_id, gone, before, (before[0] + bool(gone), batch.through_seq))

    def evict_removed(self, removed: RemovedRows) -> None:
        """Take what a committed write replaced out of the cache."""
        self._cache.mark_deleted(*removed)

    def shares_database(self, database: SqliteDatabase) -> bool:
        """Whether these vectors and what is written to that database are committed together."""
        return self._database is database

    async def watermark(self, user_id: str) -> int:
        """The journal position up to which this user's vectors are made; 0 when none are."""
        return (await self._database.read(lambda db: self._embedder.state(db, user_id)))[1]

    async def search(
        self, vector: Floats, scope: Scope, where: Where, granularity: str, top_k: int | None = None
    ) -> ChunkScores:
        """Cosines of the user's passages. Of `where` it heeds kinds and channels. See the protocol."""
        return (await self._search(vector, scope, where, [granularity], top_k))[0]

    async def score_all(
        self, vector: Floats, scope: Scope, where: Where, granularities: Sequence[str]
    ) -> list[ChunkScores]:
        """See the protocol."""
        return await self._search(vector, scope, where, granularities, None)

    async def _search(
        self, vector: Floats, scope: Scope, where: Where, granularities: Sequence[str], top_k: int | None
    ) -> list[ChunkScores]:
        search = SqliteVectorSearch(
            self._embedder, self._cache, VectorSearch(vector, self.dimensions, scope, where, granularities, top_k)
        )
        return await self._database.read(search.run)

    async def score_pairs(self, left: Ints, right: Ints, scope: Scope) -> Floats:
        """Cosines of the whole vectors of two records each, rounded to 1e-4; NaN where one has none."""
        return await self._database.read(lambda db: self._score_pairs(db, left, right, scope.user_id))

    def _score_pairs(self, db: SqliteConnection, left: Ints, right: Ints, user_id: str) -> Floats:
        out = np.full(len(left), np.nan, dtype=np.float32)
        keys: dict[str, Any] = {"user_id": user_id, "embedder": self._embedder.registration(db)[0]}
        for start in range(0, len(left), ROW_BATCH_SIZE):
            pairs = np.stack([left[start : start + ROW_BATCH_SIZE], right[start : start + ROW_BATCH_SIZE]])
            known, halves = self._read_vectors(db, keys, np.unique(pairs))
            out[start : start + ROW_BATCH_SIZE] = pair_cosines(pairs, known, normalize_rows(halves))
        return out

    async def read_vectors(self, ordinals: Sequence[int], scope: Scope) -> dict[int, Float16Rows]:
        """The whole vectors of these records, where they are kept."""

        def read(db: SqliteConnection) -> tuple[Ints, Float16Rows]:
            keys = {"user_id": scope.user_id, "embedder": self._embedder.registration(db)[0]}
            return self._read_vectors(db, keys, ordinals)

        known, halves = await self._database.read(read)
        return dict(zip(known.tolist(), halves, strict=True))

    def _read_vectors(
        self, db: SqliteConnection, keys: Mapping[str, Any], ordinals: Sequence[int] | Ints
    ) -> tuple[Ints, Float16Rows]:
        held: list[Any] = db.execute(self._sql["whole_of"], {**keys, "slots": render_ids(ordinals)}).fetchall()
        known = np.array([ordinal for ordinal, _ in held], dtype=np.int64)
        return known, np.frombuffer(b"".join(blob for _, blob in held), dtype=FLOAT16).reshape(-1, self.dimensions)

    async def read_token_vectors(self, ordinals: Sequence[int], scope: Scope) -> dict[int, TokenVectors]:
        """Ids and vectors of the word pieces of these records, where they are kept."""

        def read(db: SqliteConnection) -> list[Any]:
            keys = {
                "user_id": scope.user_id,
                "embedder": self._embedder.registration(db)[0],
                "slots": render_ids(ordinals),
            }
            return db.execute(self._sql["tokens"], keys).fetchall()

        return {ordinal: unpack_tokens(ids, vectors) for ordinal, ids, vectors in await self._database.read(read)}

    async def clear(self, user_id: str) -> None:
        """Forget the user's vectors and watermark, so that they are built again."""

        def write(db: SqliteConnection) -> None:
            keys: dict[str, str | int] = {"user_id": user_id, "embedder": self._embedder.registration(db)[0]}
            db.execute(self._sql["remove_user"], keys)
            db.execute(self._sql["remove_user_tokens"], keys)
            db.execute(_SQL["reset"], {"projection": self.projection, "user_id": user_id})

        await self._database.write(write, durable=False)
        self._cache.drop(user_id)

    def drop_cached(self, user_id: str) -> None:
        """Forget the user's matrix: the next search loads it again."""
        self._cache.drop(user_id)

    async def erase(self, scope: Scope, ordinals: Iterable[int] | None) -> None:
        """Take out these records' vectors (None: all of the user), of every embedder, durably."""
        chosen = None if ordinals is None else list(ordinals)
        await self._database.write(lambda db: erase(db, scope.user_id, chosen))
        self._cache.drop(scope.user_id)

    def _write_rows(self, db: SqliteConnection, number: int, user_id: str, batch: VectorBatch) -> list[int]:
        gone: list[int] = []
        if batch.replaced_ordinals:
            keys = {"user_id": user_id, "embedder": number, "slots": render_ids(batch.replaced_ordinals)}
            gone = [row[0] for row in db.execute(self._sql["remove"], keys)]
            db.execute(self._sql["remove_tokens"], keys)
        db.executemany(self._sql["insert"], [(user_id, number, *_row(p)) for p in batch.rows])
        tokens = [(user_id, number, *kept) for kept in pack_tokens(batch.rows)]
        db.executemany(_SQL["insert_tokens"], tokens)
        mark = {"projection": self.projection, "user_id": user_id, "seq": batch.through_seq, "removed": int(bool(gone))}
        db.execute(_SQL["advance"], mark)
        return gone


def _embedders(db: SqliteConnection) -> list[Any]:
    return db.execute(_SQL["embedders"]).fetchall()


def _row(row: VectorRow) -> tuple[Any, ...]:
    vector = row.vector.astype(FLOAT16).tobytes()
    return row.ordinal, row.kind, row.channel, row.granularity, row.part, *row.span, int(row.is_question), vector
