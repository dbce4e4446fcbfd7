"""Vectors of passages on a Postgres server with pgvector, and exact search among those of one user.

One table per number of dimensions; several embedders live in it side by side. A search is made in this process, in the
user's matrix, which is topped up by what is new; the server itself computes only for a user too large for the cache.
Rows are never changed in place; their ids are never used twice and grow within a user in the order of commits.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar
from weakref import WeakValueDictionary

import numpy as np

from agentmem.errors import ConfigError, StoreError
from agentmem.model.outline import Floats, Ints
from agentmem.model.scope import SYSTEM_USER, Scope
from agentmem.stores import Batch, Scores, Where
from agentmem.stores.postgres.connection import Database, become, rows
from agentmem.stores.postgres.embedders import LONG_SECONDS, erase, keys_of, statements
from agentmem.stores.postgres.vectors_sent import (
    FEW,
    accept_sent,
    columns,
    computed,
    halves_of,
    in_thread,
    ranked,
    sent_vector,
)
from agentmem.stores.vectors.matrix import Layouts, MatrixCache, State, UserMatrix, View, estimated_bytes
from agentmem.stores.vectors.passages import (
    BUDGET,
    ROWS_AT_ONCE,
    Tokens,
    check,
    held_cosines,
    packed_tokens,
    pair_cosines,
    part_of,
    projection_name,
    unpacked_tokens,
)
from agentmem.stores.vectors.planes import UNITS, Halves, unit_rows
from agentmem.stores.vectors.search import Search

if TYPE_CHECKING:
    from psycopg import AsyncCursor

    from agentmem.stores.postgres.connection import Connection

SMALL = 64  # passages that are sent in one go
MANY = FEW + 1  # numbers
WIDE = 8  # a number in float32 takes as long as so many in int8

T = TypeVar("T")
Held: TypeAlias = tuple[Layouts, View, View]  # of a matrix at one moment
Work: TypeAlias = tuple[int, Callable[[], T]]  # over how many numbers
ByServer: TypeAlias = "Callable[[Connection, Mapping[str, Any]], Awaitable[Work[T]]]"
Locked = tuple[State, int]  # the user's state, the embedder's number
Removed = tuple[str, list[int], State, State]


async def open_vectors(database: Database, identity: str, dimensions: int, budget: int = BUDGET) -> PostgresVectors:
    """The vectors of one embedder, registered if it is new. `budget` bounds the cache, in bytes.

    Raises ConfigError when the identity is known with other dimensions, or a vector of so many does not fit.
    """
    sql, keys = statements(dimensions), {"identity": identity, "dimensions": dimensions}

    async def known(db: Connection) -> bool:
        ((number, size, has_table),) = await rows(db, sql["known"], keys)
        if number is not None and size != dimensions:
            raise ConfigError(f"embedder {identity} has {size} dimensions in this store, got {dimensions}")
        return number is not None and has_table

    async def register(db: Connection) -> None:
        await db.execute(sql["alone"])
        await db.execute(sql["make"])
        await db.execute(sql["register"], keys)

    if not await database.read(SYSTEM_USER, known):
        await database.write(SYSTEM_USER, register)
        await database.read(SYSTEM_USER, known)  # somebody else may have been first, with other dimensions
    return PostgresVectors(database, identity, dimensions, budget)


class PostgresVectors:
    """A VectorIndex over `passages_<dimensions>`; see the protocol for its promises."""

    def __init__(self, database: Database, identity: str, dimensions: int, budget: int = BUDGET) -> None:
        self.identity, self.dimensions = identity, dimensions
        self.projection = projection_name(identity)
        self._database = database
        self._sql = statements(dimensions)
        self._cache = MatrixCache(budget)
        self._locks: WeakValueDictionary[tuple[int, str], asyncio.Lock] = WeakValueDictionary()

    async def apply(self, batches: Mapping[str, Batch]) -> dict[str, int]:
        """Write each user's batch whose `after` is the stored watermark; the watermarks as they are now.

        Nobody waits for the disk: what a failing server loses of it, watermarks too, is made again from the journal.
        """
        if not batches:
            return {}
        if len(batches) == 1 and await self._put(*next(iter(batches.items()))):
            return {user_id: batch.through for user_id, batch in batches.items()}
        for batch in batches.values():
            check(batch.passages, self.identity, self.dimensions)
        todo = dict(sorted(batches.items()))  # in one order, so that nobody waits for one who waits for him
        marks, removed = await self._database.note(
            next(iter(todo)), lambda db: self._apply(db, todo), seconds=LONG_SECONDS
        )
        for entry in removed:
            self._cache.hide(*entry)
        return marks

    def lies_in(self, database: Database) -> bool:
        """Whether these vectors and what is written to that database can be committed together."""
        return self._database is database

    def small(self, user_id: str, batch: Batch) -> dict[str, Any] | None:
        """A batch as `put` takes it; None for one that needs more than one statement. InvalidRecord: see `check`."""
        few = 0 < len(batch.passages) <= SMALL and not batch.replaced and not packed_tokens(batch.passages)
        if not batch.after or not few:
            return None
        check(batch.passages, self.identity, self.dimensions)
        keys = {**keys_of(self.identity, user_id), "after": batch.after, "through": batch.through}
        return keys | columns(batch.passages)

    async def put(self, db: Connection, values: Mapping[str, Any]) -> AsyncCursor[Any]:
        """Send a small batch in the caller's transaction, which sees what erasures did; a row where it was written.

        Nothing is where the vectors stand elsewhere, or somebody else is writing them. It takes no lock that keeps the
        embedder from being taken out: that resets the watermark, and none is 0 here.
        """
        accept_sent(db)
        return await db.execute(self._sql["put"], values)

    async def _put(self, user_id: str, batch: Batch) -> bool:
        """Write a small batch in one round trip; False when it is not one, or the user's vectors stand elsewhere."""
        values = self.small(user_id, batch)
        if values is None:
            return False

        async def write(db: Connection) -> AsyncCursor[Any]:
            await db.execute(self._sql["hold"], values)
            return await self.put(db, values)

        return bool(await (await self._database.note(user_id, write)).fetchall())

    async def _apply(self, db: Connection, todo: Mapping[str, Batch]) -> tuple[dict[str, int], list[Removed]]:
        locked = await self._lock_users(db, todo)
        marks, removals = {}, {}
        for user_id, batch in todo.items():
            before, number = locked[user_id]
            marks[user_id] = before[1]
            if before[1] == batch.after:
                if len(todo) > 1:
                    await become(db, user_id)
                removals[user_id] = await self._write(db, keys_of(self.identity, user_id, number), batch)
                marks[user_id] = batch.through
        removed: list[Removed] = []
        for user_id, cursor in removals.items():
            before, gone = locked[user_id][0], [row[0] for row in await cursor.fetchall()] if cursor else []
            removed.append((user_id, gone, before, (before[0] + bool(gone), marks[user_id])))
        return marks, removed

    async def _lock_users(self, db: Connection, users: Iterable[str]) -> dict[str, Locked]:
        """Where each user's vectors stand, held until the end. The transaction is the first one's as it begins."""
        asked: dict[str, AsyncCursor[Any]] = {}
        for user_id in users:
            if asked:
                await become(db, user_id)
            keys = keys_of(self.identity, user_id)
            await db.execute(self._sql["kept"], keys)
            await db.execute(self._sql["begin"], keys)
            asked[user_id] = await db.execute(self._sql["locked"], keys)
        found = {user_id: (await cursor.fetchall())[0] for user_id, cursor in asked.items()}
        if any(number is None for _, _, number in found.values()):
            raise self._gone()
        return {user: ((generation, seq), number) for user, (generation, seq, number) in found.items()}

    async def _write(self, db: Connection, keys: dict[str, Any], batch: Batch) -> AsyncCursor[Any] | None:
        """Send what a batch changes; the cursor has the ids of passages that were taken out."""
        accept_sent(db)
        gone = None
        if batch.replaced:
            replaced = {**keys, "slots": [int(slot) for slot in batch.replaced]}
            gone = await db.execute(self._sql["remove"], replaced)
            await db.execute(self._sql["remove_tokens"], replaced)
        for start in range(0, len(batch.passages), ROWS_AT_ONCE):
            some = batch.passages[start : start + ROWS_AT_ONCE]
            await db.execute(self._sql["insert"], {**keys, **columns(some)})
        if tokens := packed_tokens(batch.passages):
            slots, ids, vectors = map(list, zip(*tokens, strict=True))
            await db.execute(self._sql["insert_tokens"], {**keys, "slots": slots, "ids": ids, "vectors": vectors})
        await db.execute(self._sql["advance"], {**keys, "seq": batch.through})
        return gone

    async def watermark(self, user_id: str) -> int:
        """The journal position up to which this user's vectors are made; 0 when none are."""
        keys = keys_of(self.identity, user_id)
        found = await self._database.read(user_id, lambda db: rows(db, self._sql["state"], keys))
        return int(found[0][3]) if found else 0

    async def nearest(self, vector: Floats, scope: Scope, where: Where, grain: str, k: int | None = None) -> Scores:
        """Cosines of the user's passages. Of `where` it heeds kinds and channels. See the protocol."""
        return (await self._search(Search(vector, self.dimensions, scope, where, [grain], k)))[0]

    async def scores(self, vector: Floats, scope: Scope, where: Where, grains: Sequence[str]) -> list[Scores]:
        """See the protocol."""
        return await self._search(Search(vector, self.dimensions, scope, where, grains, None))

    async def _search(self, search: Search) -> list[Scores]:
        in_matrix = partial(search.in_matrix, self._cache.beside)
        return await self._ask(search.user_id, in_matrix, partial(self._computed, search=search))

    async def _ask(self, user_id: str, in_matrix: Callable[[UserMatrix, Held], T], by_server: ByServer[T]) -> T:
        """An answer from the user's matrix, brought up to date; by the server for a user too large for one."""
        while True:
            # One at a time looks for what is new of a user; what they then compute runs side by side.
            async with self._locks.setdefault((os.getpid(), user_id), asyncio.Lock()):
                todo = await self._database.read(
                    user_id, lambda db: self._find(db, user_id, in_matrix, by_server), seconds=LONG_SECONDS
                )
            if todo is not None:
                return await computed(*todo)
            self._cache.drop(user_id)

    async def _find(
        self, db: Connection, user_id: str, in_matrix: Callable[[UserMatrix, Held], T], by_server: ByServer[T]
    ) -> Work[T] | None:
        """What is left to compute; None when the user's matrix is better loaded again."""
        registration, state = await self._state(db, user_id)
        keys = keys_of(self.identity, user_id, registration[0])
        matrix = self._cache.find(user_id, lambda: None)
        if matrix is None:
            if not await self._fits(db, keys):
                return await by_server(db, keys)
            matrix = self._cache.find(user_id, lambda: UserMatrix(self.dimensions))
            assert matrix is not None
        if matrix.registration not in (None, registration):  # taken out and built again meanwhile, or lost
            return None
        matrix.registration = registration
        if matrix.state < state:
            await self._top_up(db, keys, matrix, state)
            self._cache.settle(user_id)
        if matrix.worn:
            return None
        held = await computed(matrix.numbers, partial(_held, matrix))
        return matrix.numbers, partial(in_matrix, matrix, held)

    async def _state(self, db: Connection, user_id: str) -> tuple[tuple[int, int, int], State]:
        """The embedder's number and when it was registered, because numbers return; the user's (generation, seq).

        Beside the number how often a connection broke: a server that failed may have lost the last rows and give their
        ids out again, to rows that no matrix of before would be topped up by.
        """
        found = await rows(db, self._sql["state"], keys_of(self.identity, user_id))
        if not found:
            raise self._gone()
        number, added_at, generation, seq = found[0]
        return (number, added_at, self._database.breaks), (generation, seq)

    def _gone(self) -> StoreError:
        return StoreError(f"embedder {self.identity} was taken out of this store; open the memory again")

    async def _fits(self, db: Connection, keys: Mapping[str, Any]) -> bool:
        most = self._cache.budget // estimated_bytes(1, self.dimensions) + 1
        ((count,),) = await rows(db, self._sql["count"], {**keys, "most": most})
        return int(count) < most

    async def _top_up(self, db: Connection, keys: Mapping[str, Any], matrix: UserMatrix, state: State) -> None:
        """Bring a matrix to this transaction's state; what is done of it counts when it is cut short."""
        if 0 <= matrix.state[0] < state[0]:
            ((ids,),) = await (await db.execute(self._sql["ids"], keys, binary=True)).fetchall()
            left = np.frombuffer(ids or b"", dtype=">i8").astype(np.int64)
            await in_thread(partial(_blank, matrix, left))
        matrix.state = (state[0], matrix.state[1])
        while True:
            cursor = await db.execute(self._sql["passages_after"], {**keys, "after": matrix.last_id}, binary=True)
            if some := await cursor.fetchall():
                await computed(WIDE * len(some) * self.dimensions, partial(self._append, matrix, some))
            if len(some) < ROWS_AT_ONCE:
                break
        matrix.state = state

    def _append(self, matrix: UserMatrix, some: Sequence[tuple[Any, ...]]) -> None:
        halves = halves_of([row[-1] for row in some], self.dimensions)
        with matrix.lock:
            matrix.append(*part_of(some, halves, matrix))

    async def _computed(self, db: Connection, keys: Mapping[str, Any], search: Search) -> Work[list[Scores]]:
        """A search by the server."""
        accept_sent(db)
        kinds = None if search.kinds is None else list(search.kinds)
        asked = {"query": sent_vector(search.vector), "units": UNITS, "channels": list(search.channels), "kinds": kinds}
        cursor = await db.execute(self._sql["cosines"], {**keys, **asked}, binary=True)
        return MANY, partial(ranked, search, (await cursor.fetchall())[0])

    async def between(self, left: Ints, right: Ints, scope: Scope) -> Floats:
        """Cosines of the whole vectors of two records each, rounded to 1e-4; NaN where one has none."""

        pairs = np.stack([left, right])
        by_server = partial(self._fetched_cosines, pairs=pairs)
        return await self._ask(scope.user_id, lambda _, held: held_cosines(pairs, held), by_server)

    async def _fetched_cosines(self, db: Connection, keys: Mapping[str, Any], pairs: Ints) -> Work[Floats]:
        asked = {**keys, "slots": np.unique(pairs).tolist()}
        found = await (await db.execute(self._sql["whole_of"], asked, binary=True)).fetchall()
        known = np.array([slot for slot, _ in found], dtype=np.int64)
        halves = halves_of([blob for _, blob in found], self.dimensions)
        return WIDE * halves.size, lambda: pair_cosines(pairs, known, unit_rows(halves))

    async def whole(self, slots: Sequence[int], scope: Scope) -> dict[int, Halves]:
        """The whole vectors of these records, where they are kept."""
        found = await self._of_slots("whole_of", slots, scope)
        return dict(zip((slot for slot, _ in found), halves_of([v for _, v in found], self.dimensions), strict=True))

    async def tokens(self, slots: Sequence[int], scope: Scope) -> dict[int, Tokens]:
        """Ids and vectors of the word pieces of these records, where they are kept."""
        found = await self._of_slots("tokens", slots, scope)
        return {slot: unpacked_tokens(ids, vectors) for slot, ids, vectors in found}

    async def _of_slots(self, name: str, slots: Sequence[int], scope: Scope) -> list[Any]:
        async def read(db: Connection) -> list[Any]:
            (number, *_), _ = await self._state(db, scope.user_id)
            asked = {**keys_of(self.identity, scope.user_id, number), "slots": [int(slot) for slot in slots]}
            return await (await db.execute(self._sql[name], asked, binary=True)).fetchall()

        return await self._database.read(scope, read)

    async def clear(self, user_id: str) -> None:
        """Forget the user's vectors and watermark, so that they are built again."""

        async def write(db: Connection) -> None:
            _, number = (await self._lock_users(db, [user_id]))[user_id]
            keys = keys_of(self.identity, user_id, number)
            for name in ("reset", "remove_user", "remove_user_tokens"):
                await db.execute(self._sql[name], keys)

        await self._database.write(user_id, write, seconds=LONG_SECONDS)
        self._cache.drop(user_id)

    async def erase(self, scope: Scope, slots: Iterable[int] | None) -> None:
        """Take out these records' vectors (None: all of the user), of every embedder."""
        chosen = None if slots is None else list(slots)
        await self._database.write(scope, lambda db: erase(db, scope.user_id, chosen), seconds=LONG_SECONDS)
        self._cache.drop(scope.user_id)


def _held(matrix: UserMatrix) -> Held:
    with matrix.lock:
        return matrix.held()


def _blank(matrix: UserMatrix, left: Ints) -> None:
    with matrix.lock:
        matrix.blank(left, others=True)
