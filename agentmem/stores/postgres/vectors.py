"""Vectors in tables of pgvector, searched exactly and by user, and the embedders that they are of.

One table per number of dimensions; several embedders live in it side by side. A search is made in this process, in the
user's matrix, which is topped up by what is new; the server itself computes only for a user too large for the cache.
Rows are never changed in place; their ids are never used twice and grow within a user in the order of commits.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar
from weakref import WeakValueDictionary

import numpy as np

from agentmem.core.columns import Floats, Ints
from agentmem.core.plain_values import describe_value
from agentmem.core.scope import SYSTEM_USER, Operator, Scope
from agentmem.errors import ConfigError, StoreError
from agentmem.stores.postgres.columns import (
    MAX_ON_LOOP_VALUES,
    decode_halfvecs,
    encode_columns,
    encode_query_vector,
    offload_if_large,
    rank_server_scores,
    register_binary,
    run_in_thread,
)
from agentmem.stores.postgres.database import PostgresDatabase, fetch_rows, set_user
from agentmem.stores.values import ChunkScores, VectorBatch, Where
from agentmem.stores.vectors.matrix import IndexState, MatrixCache, RowOrders, RowsView, UserMatrix, estimate_bytes
from agentmem.stores.vectors.quantization import FIXED_POINT_SCALE, Float16Rows, normalize_rows
from agentmem.stores.vectors.search import (
    CACHE_BUDGET_BYTES,
    ROW_BATCH_SIZE,
    TokenVectors,
    VectorSearch,
    build_loaded_rows,
    check_vectors,
    matrix_pair_cosines,
    pack_tokens,
    pair_cosines,
    projection_name,
    unpack_tokens,
)
from agentmem.text.templates import load_templates

if TYPE_CHECKING:
    from psycopg import AsyncCursor

    from agentmem.stores.postgres.connection import PostgresConnection

_SQL = load_templates(__package__, "vectors.sql")


MAX_DIMENSIONS = 4_000  # of a halfvec, and a row must fit into a page
BULK_TRANSACTION_SECONDS = 60.0  # for a transaction that moves many vectors

MAX_SMALL_BATCH_ROWS = 64  # passages that are sent in one go
OFF_LOOP_VALUES = MAX_ON_LOOP_VALUES + 1  # numbers
FLOAT32_COST_FACTOR = 8  # a number in float32 takes as long as so many in int8

T = TypeVar("T")
MatrixSnapshot: TypeAlias = tuple[RowOrders, RowsView, RowsView]  # of a matrix at one moment
PendingCompute: TypeAlias = tuple[int, Callable[[], T]]  # over how many numbers
ServerQuery: TypeAlias = "Callable[[PostgresConnection, Mapping[str, Any]], Awaitable[PendingCompute[T]]]"
LockedIndexState = tuple[IndexState, int]  # the user's state, the embedder's number
RemovedRows = tuple[str, list[int], IndexState, IndexState]


def statements(dimensions: int) -> dict[str, str]:
    """The SQL for one number of dimensions. Raises ConfigError when it is none that this store can keep."""
    if type(dimensions) is not int or not 1 <= dimensions <= MAX_DIMENSIONS:
        message = (
            f"an embedder has between 1 and {MAX_DIMENSIONS:,} dimensions on Postgres, got {describe_value(dimensions)}"
        )
        raise ConfigError(message)
    texts = dict(_SQL)
    places = {"{passages}": texts["passages"], "{dimensions}": str(dimensions), "{rows}": str(ROW_BATCH_SIZE)}
    for place, value in places.items():
        texts = {name: text.replace(place, value) for name, text in texts.items()}
    return texts


async def list_embedders(db: PostgresConnection) -> list[str]:
    """The identities of all embedders of this store, oldest first."""
    return [identity for identity, _, _ in await fetch_rows(db, _SQL["embedders"])]


async def vector_tables(db: PostgresConnection) -> list[str]:
    """The tables that hold a user's vectors, for scans."""
    sizes = sorted({dimensions for _, _, dimensions in await fetch_rows(db, _SQL["embedders"])})
    return [*(f"passages_{size}" for size in sizes), "passage_tokens"]


async def erase(db: PostgresConnection, user_id: str, ordinals: Collection[int] | None) -> None:
    """Take out these records' vectors (None: all of the user), of every embedder, in the caller's transaction.

    The transaction must be the user's; it must have marked the records as erased before.
    """
    await db.execute(_SQL["no_new"])
    for identity, number, dimensions in await fetch_rows(db, _SQL["embedders"]):
        sql, keys = statements(dimensions), build_keys(identity, user_id, number)
        await db.execute(sql["removed"], keys)  # first: it keeps writers out
        if ordinals is None:
            await db.execute(sql["remove_user"], keys)
            await db.execute(sql["remove_user_tokens"], keys)
        else:
            keys["slots"] = [int(ordinal) for ordinal in ordinals]
            await db.execute(sql["remove"], keys)
            await db.execute(sql["remove_tokens"], keys)


async def drop(database: PostgresDatabase, identity: str, operator: Operator) -> int:
    """Take out an embedder with all its vectors and token vectors; returns how many passages those were.

    The table stays, so that the ids of its rows are never used again.
    """

    async def write(db: PostgresConnection) -> int:
        await db.execute(_SQL["alone"])
        await db.execute(_SQL["unused"], {"projection": projection_name(identity)})
        known = {name: (number, size) for name, number, size in await fetch_rows(db, _SQL["embedders"])}
        if identity not in known:
            return 0
        (number, dimensions), removed = known[identity], 0
        sql = statements(dimensions)
        for (user_id,) in await fetch_rows(db, sql["holders"], {"projection": projection_name(identity)}):
            keys = build_keys(identity, user_id, number)
            await set_user(db, user_id)
            await db.execute(sql["reset"], keys)
            await db.execute(sql["remove_user_tokens"], keys)
            ((count,),) = await fetch_rows(db, sql["remove_user"], keys)
            removed += count
        await db.execute(sql["drop_embedder"], {"identity": identity})
        return removed

    return await database.commit(operator, write, timeout_seconds=BULK_TRANSACTION_SECONDS)


def build_keys(identity: str, user_id: str, number: int = 0) -> dict[str, Any]:
    """What names a user's vectors of one embedder in the statements."""
    names = {"identity": identity, "projection": projection_name(identity)}
    return {**names, "user_id": user_id, "embedder": number}


async def open_vectors(
    database: PostgresDatabase, identity: str, dimensions: int, budget: int = CACHE_BUDGET_BYTES
) -> PostgresVectors:
    """The vectors of one embedder, registered if it is new. `budget` bounds the cache, in bytes.

    Raises ConfigError when the identity is known with other dimensions, or a vector of so many does not fit.
    """
    sql, keys = statements(dimensions), {"identity": identity, "dimensions": dimensions}

    async def is_registered(db: PostgresConnection) -> bool:
        ((number, size, has_table),) = await fetch_rows(db, sql["known"], keys)
        if number is not None and size != dimensions:
            raise ConfigError(f"embedder {identity} has {size} dimensions in this store, got {dimensions}")
        return number is not None and has_table

    async def register(db: PostgresConnection) -> None:
        await db.execute(sql["alone"])
        await db.execute(sql["register"], keys)

    if not await database.query(SYSTEM_USER, is_registered):
        await database.commit(SYSTEM_USER, register)
        await database.query(SYSTEM_USER, is_registered)  # somebody else may have been first, with other dimensions
    return PostgresVectors(database, identity, dimensions, budget)


class PostgresVectors:
    """A VectorIndex over `passages_<dimensions>`; see the protocol for its promises."""

    def __init__(
        self, database: PostgresDatabase, identity: str, dimensions: int, budget: int = CACHE_BUDGET_BYTES
    ) -> None:
        self.identity, self.dimensions = identity, dimensions
        self.projection = projection_name(identity)
        self._database = database
        self._sql = statements(dimensions)
        self._cache = MatrixCache(budget)
        self._locks: WeakValueDictionary[tuple[int, str], asyncio.Lock] = WeakValueDictionary()

    async def apply(self, batches: Mapping[str, VectorBatch]) -> dict[str, int]:
        """Write each user's batch whose `after` is the stored watermark; returns the present watermarks.

        Does not wait for the disk: what a failing server loses, watermarks too, is rebuilt from the journal.
        """
        if not batches:
            return {}
        if len(batches) == 1 and await self._try_small_batch(*next(iter(batches.items()))):
            return {user_id: batch.through_seq for user_id, batch in batches.items()}
        for batch in batches.values():
            check_vectors(batch.rows, self.identity, self.dimensions)
        todo = dict(sorted(batches.items()))  # in a fixed order, to avoid deadlocks
        marks, removed = await self._database.commit(
            next(iter(todo)),
            lambda db: self._apply_batches(db, todo),
            timeout_seconds=BULK_TRANSACTION_SECONDS,
            durable=False,
        )
        for entry in removed:
            self._cache.mark_deleted(*entry)
        return marks

    def shares_database(self, database: PostgresDatabase) -> bool:
        """Whether these vectors and what is written to that database can be committed together."""
        return self._database is database

    def build_small_batch(self, user_id: str, batch: VectorBatch) -> dict[str, Any] | None:
        """A batch as `write_small_batch` takes it; None for one that needs more than one statement. InvalidRecord:
        see `check_vectors`.
        """
        few = (
            0 < len(batch.rows) <= MAX_SMALL_BATCH_ROWS and not batch.replaced_ordinals and not pack_tokens(batch.rows)
        )
        if not batch.after_seq or not few:
            return None
        check_vectors(batch.rows, self.identity, self.dimensions)
        keys = {**build_keys(self.identity, user_id), "after": batch.after_seq, "through": batch.through_seq}
        return keys | encode_columns(batch.rows)

    async def write_small_batch(self, db: PostgresConnection, values: Mapping[str, Any]) -> AsyncCursor[Any]:
        """Send a small batch in the caller's transaction, which sees what erasures did; a row where it was written.

        None where the vectors are elsewhere, or another process writes them. It takes no lock against removing the
        embedder: that resets the watermark, and none is 0 here.
        """
        register_binary(db)
        return await db.execute(self._sql["put"], values)

    async def _try_small_batch(self, user_id: str, batch: VectorBatch) -> bool:
        """Write a small batch in one round trip; False when it is not one, or the user's vectors are elsewhere."""
        values = self.build_small_batch(user_id, batch)
        if values is None:
            return False

        async def write(db: PostgresConnection) -> AsyncCursor[Any]:
            await db.execute(self._sql["hold"], values)
            return await self.write_small_batch(db, values)

        return bool(await (await self._database.commit(user_id, write, durable=False)).fetchall())

    async def _apply_batches(
        self, db: PostgresConnection, batches: Mapping[str, VectorBatch]
    ) -> tuple[dict[str, int], list[RemovedRows]]:
        locked = await self._lock_users(db, batches)
        marks, removals = {}, {}
        for user_id, batch in batches.items():
            before, number = locked[user_id]
            marks[user_id] = before[1]
            if before[1] == batch.after_seq:
                if len(batches) > 1:
                    await set_user(db, user_id)
                removals[user_id] = await self._write_batch(db, build_keys(self.identity, user_id, number), batch)
                marks[user_id] = batch.through_seq
        removed: list[RemovedRows] = []
        for user_id, cursor in removals.items():
            before, gone = locked[user_id][0], [row[0] for row in await cursor.fetchall()] if cursor else []
            removed.append((user_id, gone, before, (before[0] + bool(gone), marks[user_id])))
        return marks, removed

    async def _lock_users(self, db: PostgresConnection, users: Iterable[str]) -> dict[str, LockedIndexState]:
        """The location of each user's vectors, locked until the end. The transaction starts as the first one does."""
        asked: dict[str, AsyncCursor[Any]] = {}
        for user_id in users:
            if asked:
                await set_user(db, user_id)
            keys = build_keys(self.identity, user_id)
            await db.execute(self._sql["kept"], keys)
            await db.execute(self._sql["begin"], keys)
            asked[user_id] = await db.execute(self._sql["locked"], keys)
        found = {user_id: (await cursor.fetchall())[0] for user_id, cursor in asked.items()}
        if any(number is None for _, _, number in found.values()):
            raise self._build_missing_error()
        return {user: ((generation, seq), number) for user, (generation, seq, number) in found.items()}

    async def _write_batch(
        self, db: PostgresConnection, keys: dict[str, Any], batch: VectorBatch
    ) -> AsyncCursor[Any] | None:
        """Send what a batch changes; the cursor has the ids of passages that were taken out."""
        register_binary(db)
        gone = None
        if batch.replaced_ordinals:
            replaced = {**keys, "slots": [int(ordinal) for ordinal in batch.replaced_ordinals]}
            gone = await db.execute(self._sql["remove"], replaced)
            await db.execute(self._sql["remove_tokens"], replaced)
        for start in range(0, len(batch.rows), ROW_BATCH_SIZE):
            some = batch.rows[start : start + ROW_BATCH_SIZE]
            await db.execute(self._sql["insert"], {**keys, **encode_columns(some)})
        if tokens := pack_tokens(batch.rows):
            ordinals, ids, vectors = map(list, zip(*tokens, strict=True))
            await db.execute(self._sql["insert_tokens"], {**keys, "slots": ordinals, "ids": ids, "vectors": vectors})
        await db.execute(self._sql["advance"], {**keys, "seq": batch.through_seq})
        return gone

    async def watermark(self, user_id: str) -> int:
        """The journal position up to which this user's vectors are made; 0 when none are."""
        keys = build_keys(self.identity, user_id)
        found = await self._database.query(user_id, lambda db: fetch_rows(db, self._sql["state"], keys))
        return int(found[0][3]) if found else 0

    async def search(
        self, vector: Floats, scope: Scope, where: Where, granularity: str, top_k: int | None = None
    ) -> ChunkScores:
        """Cosines of the user's passages. Of `where` it heeds kinds and channels. See the protocol."""
        return (await self._search(VectorSearch(vector, self.dimensions, scope, where, [granularity], top_k)))[0]

    async def score_all(
        self, vector: Floats, scope: Scope, where: Where, granularities: Sequence[str]
    ) -> list[ChunkScores]:
        """See the protocol."""
        return await self._search(VectorSearch(vector, self.dimensions, scope, where, granularities, None))

    async def _search(self, search: VectorSearch) -> list[ChunkScores]:
        in_matrix = partial(search.search_matrix, self._cache.scoring_thread)
        return await self._run_query(search.user_id, in_matrix, partial(self._search_on_server, search=search))

    async def _run_query(
        self, user_id: str, matrix_query: Callable[[UserMatrix, MatrixSnapshot], T], server_query: ServerQuery[T]
    ) -> T:
        """An answer from the user's matrix, brought up to date; by the server for a user too large for one."""
        while True:
            # One at a time looks for what is new of a user; what they then compute runs side by side.
            async with self._locks.setdefault((os.getpid(), user_id), asyncio.Lock()):
                todo = await self._database.query(
                    user_id,
                    lambda db: self._prepare_query(db, user_id, matrix_query, server_query),
                    timeout_seconds=BULK_TRANSACTION_SECONDS,
                )
            if todo is not None:
                return await offload_if_large(*todo)
            self._cache.drop(user_id)

    async def _prepare_query(
        self,
        db: PostgresConnection,
        user_id: str,
        matrix_query: Callable[[UserMatrix, MatrixSnapshot], T],
        server_query: ServerQuery[T],
    ) -> PendingCompute[T] | None:
        """What is left to compute; None when the user's matrix is better loaded again."""
        registration, state = await self._state(db, user_id)
        keys = build_keys(self.identity, user_id, registration[0])
        matrix = self._cache.get_or_create(user_id, lambda: None)
        if matrix is None:
            if not await self._fits(db, keys):
                return await server_query(db, keys)
            matrix = self._cache.get_or_create(user_id, lambda: UserMatrix(self.dimensions))
            assert matrix is not None
        if matrix.registration not in (None, registration):  # taken out and built again meanwhile, or lost
            return None
        matrix.registration = registration
        if matrix.state < state:
            await self._refresh_matrix(db, keys, matrix, state)
            self._cache.evict(user_id)
        if matrix.needs_compaction:
            return None
        held = await offload_if_large(matrix.value_count, partial(_snapshot_matrix, matrix))
        return matrix.value_count, partial(matrix_query, matrix, held)

    async def _state(self, db: PostgresConnection, user_id: str) -> tuple[tuple[int, int, int], IndexState]:
        """The embedder's number and when it was registered, because numbers return; the user's (generation, seq).

        Beside the number how often a connection broke: a server that failed may have lost the last rows and give their
        ids out again, to rows that no matrix of before would be topped up by.
        """
        found = await fetch_rows(db, self._sql["state"], build_keys(self.identity, user_id))
        if not found:
            raise self._build_missing_error()
        number, added_at, generation, seq = found[0]
        return (number, added_at, self._database.break_count), (generation, seq)

    def _build_missing_error(self) -> StoreError:
        return StoreError(f"embedder {self.identity} was taken out of this store; open the memory again")

    async def _fits(self, db: PostgresConnection, keys: Mapping[str, Any]) -> bool:
        most = self._cache.budget_bytes // estimate_bytes(1, self.dimensions) + 1
        ((count,),) = await fetch_rows(db, self._sql["count"], {**keys, "most": most})
        return int(count) < most

    async def _refresh_matrix(
        self, db: PostgresConnection, keys: Mapping[str, Any], matrix: UserMatrix, state: IndexState
    ) -> None:
        """Bring a matrix to this transaction's state; what is done of it counts when it is cut short."""
        if 0 <= matrix.state[0] < state[0]:
            ((ids,),) = await (await db.execute(self._sql["ids"], keys, binary=True)).fetchall()
            left = np.frombuffer(ids or b"", dtype=">i8").astype(np.int64)
            await run_in_thread(partial(_mark_deleted, matrix, left))
        matrix.state = (state[0], matrix.state[1])
        while True:
            cursor = await db.execute(self._sql["passages_after"], {**keys, "after": matrix.last_id}, binary=True)
            if some := await cursor.fetchall():
                await offload_if_large(
                    FLOAT32_COST_FACTOR * len(some) * self.dimensions, partial(self._append, matrix, some)
                )
            if len(some) < ROW_BATCH_SIZE:
                break
        matrix.state = state

    def _append(self, matrix: UserMatrix, rows: Sequence[tuple[Any, ...]]) -> None:
        halves = decode_halfvecs([row[-1] for row in rows], self.dimensions)
        with matrix.lock:
            matrix.append(*build_loaded_rows(rows, halves, matrix))

    async def _search_on_server(
        self, db: PostgresConnection, keys: Mapping[str, Any], search: VectorSearch
    ) -> PendingCompute[list[ChunkScores]]:
        """A search by the server."""
        register_binary(db)
        kinds = None if search.kinds is None else list(search.kinds)
        asked = {
            "query": encode_query_vector(search.vector),
            "units": FIXED_POINT_SCALE,
            "channels": list(search.channels),
            "kinds": kinds,
        }
        cursor = await db.execute(self._sql["cosines"], {**keys, **asked}, binary=True)
        return OFF_LOOP_VALUES, partial(rank_server_scores, search, (await cursor.fetchall())[0])

    async def score_pairs(self, left: Ints, right: Ints, scope: Scope) -> Floats:
        """Cosines of the whole vectors of two records each, rounded to 1e-4; NaN where one has none."""

        pairs = np.stack([left, right])
        by_server = partial(self._fetch_pair_cosines, pairs=pairs)
        return await self._run_query(scope.user_id, lambda _, held: matrix_pair_cosines(pairs, held), by_server)

    async def _fetch_pair_cosines(
        self, db: PostgresConnection, keys: Mapping[str, Any], pairs: Ints
    ) -> PendingCompute[Floats]:
        asked = {**keys, "slots": np.unique(pairs).tolist()}
        found = await (await db.execute(self._sql["whole_of"], asked, binary=True)).fetchall()
        known = np.array([ordinal for ordinal, _ in found], dtype=np.int64)
        halves = decode_halfvecs([blob for _, blob in found], self.dimensions)
        return FLOAT32_COST_FACTOR * halves.size, lambda: pair_cosines(pairs, known, normalize_rows(halves))

    async def read_vectors(self, ordinals: Sequence[int], scope: Scope) -> dict[int, Float16Rows]:
        """The whole vectors of these records, where they are kept."""
        found = await self._read_by_ordinal("whole_of", ordinals, scope)
        return dict(
            zip((ordinal for ordinal, _ in found), decode_halfvecs([v for _, v in found], self.dimensions), strict=True)
        )

    async def read_token_vectors(self, ordinals: Sequence[int], scope: Scope) -> dict[int, TokenVectors]:
        """Ids and vectors of the word pieces of these records, where they are kept."""
        found = await self._read_by_ordinal("tokens", ordinals, scope)
        return {ordinal: unpack_tokens(ids, vectors) for ordinal, ids, vectors in found}

    async def _read_by_ordinal(self, name: str, ordinals: Sequence[int], scope: Scope) -> list[Any]:
        async def read(db: PostgresConnection) -> list[Any]:
            (number, *_), _ = await self._state(db, scope.user_id)
            asked = {
                **build_keys(self.identity, scope.user_id, number),
                "slots": [int(ordinal) for ordinal in ordinals],
            }
            return await (await db.execute(self._sql[name], asked, binary=True)).fetchall()

        return await self._database.query(scope, read)

    async def clear(self, user_id: str) -> None:
        """Forget the user's vectors and watermark, so that they are built again."""

        async def write(db: PostgresConnection) -> None:
            _, number = (await self._lock_users(db, [user_id]))[user_id]
            keys = build_keys(self.identity, user_id, number)
            for name in ("reset", "remove_user", "remove_user_tokens"):
                await db.execute(self._sql[name], keys)

        await self._database.commit(user_id, write, timeout_seconds=BULK_TRANSACTION_SECONDS)
        self._cache.drop(user_id)

    def drop_cached(self, user_id: str) -> None:
        """Forget the user's matrix: the next search loads it again."""
        self._cache.drop(user_id)

    async def erase(self, scope: Scope, ordinals: Iterable[int] | None) -> None:
        """Take out these records' vectors (None: all of the user), of every embedder."""
        chosen = None if ordinals is None else list(ordinals)
        await self._database.commit(
            scope, lambda db: erase(db, scope.user_id, chosen), timeout_seconds=BULK_TRANSACTION_SECONDS
        )
        self._cache.drop(scope.user_id)


def _snapshot_matrix(matrix: UserMatrix) -> MatrixSnapshot:
    with matrix.lock:
        return matrix.snapshot()


def _mark_deleted(matrix: UserMatrix, remaining_ids: Ints) -> None:
    with matrix.lock:
        matrix.mark_deleted(remaining_ids, invert=True)
