"""Vectors that no model makes, on Postgres: committed with the log in its transaction, or following like a model's."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import psycopg
import pytest

from agentmem.core.changes import Change, JournalEntry
from agentmem.core.scope import Operator, Scope
from agentmem.engine.vector_projection import MAX_INLINE_TEXTS, VectorProjection
from agentmem.errors import Conflict, StoreUnavailable
from agentmem.models.protocols import Vectors
from agentmem.models.providers.hash import HashEmbedder
from agentmem.stores.postgres import PostgresLog, open_log, open_vectors
from agentmem.stores.postgres.database import fetch_rows
from agentmem.stores.postgres.vectors import PostgresVectors, drop
from agentmem.stores.values import WHOLE, Where
from tests.conformance.writing import (
    START,
    SettableClock,
    build_change,
    build_entity,
    build_turn,
    build_turn_changes,
    delete_records,
    entry_seqs,
    record_ids,
)
from tests.fakes.as_a_model import AsyncOnlyEmbedder

if TYPE_CHECKING:
    from agentmem.stores.postgres.connection import PostgresConnection

SIZE = 64
ALICE, BOB = Scope("alice"), Scope("bob")
PASSAGES = f'SELECT slot, part, start, "end", asks, kind, channel, grain, vector::text FROM passages_{SIZE} ORDER BY id'
WRITTEN_BY = f"""
SELECT (SELECT xmin::text FROM memory_changes ORDER BY seq DESC LIMIT 1),
       (SELECT xmin::text FROM passages_{SIZE} ORDER BY id DESC LIMIT 1), (SELECT xmin::text FROM projection_watermarks)
"""
HELD = "SELECT 1 FROM projection_watermarks WHERE user_id = %(user_id)s FOR UPDATE"


class Store:
    """A log, and vectors of `hash:` that it is told of, as one process has them."""

    def __init__(self, log: PostgresLog, index: PostgresVectors) -> None:
        self.log, self.index = log, index
        self.vectors = VectorProjection(HashEmbedder(SIZE), index, log, SettableClock())

    async def append(self, changes: Sequence[Change]) -> list[JournalEntry]:
        """Write, with the vectors that need no model."""
        return await self.log.append(changes, vectors=self.vectors if self.vectors.is_synchronous else None)

    async def begin(self, *scopes: Scope) -> None:
        """Write a first turn of these users, whose vectors follow."""
        for scope in scopes:
            await self.vectors.sync(scope, await self.append(build_turn_changes(scope, "first")))
            assert self.vectors.local_watermark(scope) == 1

    async def lacks(self, scope: Scope = ALICE) -> int:
        """How many changes the vectors in the store are behind."""
        return (await self.log.head(scope)).seq - await self.index.watermark(scope.user_id)

    async def rows(self, scope: Scope = ALICE, statement: str = PASSAGES) -> list[Any]:
        return await self.log.database.query(scope, lambda db: fetch_rows(db, statement))

    async def found(self, scope: Scope = ALICE) -> list[int]:
        """The slots of all that a search finds."""
        query = np.ones(SIZE, dtype=np.float32)
        return (await self.index.search(query, scope, Where(), WHOLE)).ordinals.tolist()  # type: ignore[no-any-return]


async def opened(url: str, **more: Any) -> Store:
    log = await open_log(url, SettableClock(), **more)
    return Store(log, await open_vectors(log.database, HashEmbedder(SIZE).identity, SIZE))


@pytest.fixture
async def store(postgres_log: str) -> AsyncIterator[Store]:
    made = await opened(postgres_log)
    yield made
    await made.log.close()


def follow_no_more(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Vectors that follow have no store to go to."""

    async def refused(batches: object) -> dict[str, int]:
        raise StoreUnavailable("no second transaction")

    monkeypatch.setattr(store.index, "apply", refused)


async def test_one_transaction_holds_log_and_vectors(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    await store.begin(ALICE)
    follow_no_more(store, monkeypatch)
    for names in ("a", "bc"):
        entries = await store.append(build_turn_changes(ALICE, *names))
        assert await store.lacks() == 0
        ((log, vectors, watermark),) = await store.rows(statement=WRITTEN_BY)
        assert log == vectors == watermark
        assert store.vectors.local_watermark(ALICE) == entries[-1].seq
        assert await store.vectors.sync(ALICE, entries)  # and finds nothing to do
    assert len(await store.rows()) == 4
    assert len(await store.found()) == 4


async def test_their_answer_is_read_when_all_is_committed(postgres_log: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """So they cost no round trip of their own."""
    told: list[str] = []
    store = await opened(postgres_log, hook=told.append)
    put = store.index.write_small_batch

    class Noted:
        def __init__(self, cursor: Any) -> None:
            self._cursor = cursor

        async def fetchall(self) -> Any:
            told.append(f"read, {await store.lacks()} behind")
            return await self._cursor.fetchall()

    async def noted(db: PostgresConnection, values: Any) -> Any:
        return Noted(await put(db, values))

    await store.begin(ALICE)
    monkeypatch.setattr(store.index, "write_small_batch", noted)
    await store.append(build_turn_changes(ALICE, "a"))
    assert told[-4:] == ["audit", "vectors", "read, 0 behind", "committed"]
    await store.log.close()


async def test_they_are_the_ones_that_would_have_followed(store: Store) -> None:
    texts = ("Where is the heron?", "The heron sleeps.", "Ann said so. Did she?", "Ünïcode, and a \x00 in it")
    behind = []
    for scope, embedder in ((ALICE, HashEmbedder(SIZE)), (BOB, AsyncOnlyEmbedder(HashEmbedder(SIZE)))):
        await store.begin(scope)
        store.vectors.embedder = embedder
        for number, text in enumerate(texts):
            await store.append([build_change(scope, build_turn(f"t{number}", text))])
        behind.append(await store.lacks(scope))
        await store.vectors.sync(scope)
    assert behind == [0, len(texts)]
    assert await store.rows(BOB) == await store.rows(ALICE)


async def test_vectors_that_are_behind_are_not_passed_over(store: Store) -> None:
    first = await store.append(build_turn_changes(ALICE, "first"))
    assert await store.lacks() == 1  # the first ones follow, and register the user
    await store.vectors.sync(ALICE, first)
    embedder = store.vectors.embedder
    store.vectors.embedder = AsyncOnlyEmbedder(embedder)
    await store.append(build_turn_changes(ALICE, "left out"))
    store.vectors.embedder = embedder
    entries = await store.append(build_turn_changes(ALICE, "next"))
    assert await store.lacks() == 2
    assert store.vectors.local_watermark(ALICE) == 1
    assert await store.vectors.sync(ALICE, entries)
    assert await store.lacks() == 0
    assert len(await store.found()) == 3


@pytest.mark.parametrize("how", ["raises", "of a wrong shape", "not a number"])
async def test_an_embedder_that_fails_costs_no_write(store: Store, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(embedder: HashEmbedder, texts: Sequence[str]) -> Vectors:
        if how == "raises":
            raise RuntimeError("out of order")
        return np.full((len(texts), SIZE + (how == "of a wrong shape")), np.nan, dtype=np.float32)

    await store.begin(ALICE)
    with monkeypatch.context() as patch:
        patch.setattr(HashEmbedder, "embed_sync", broken)
        assert entry_seqs(await store.append(build_turn_changes(ALICE, "a"))) == [2]
        assert await store.lacks() == 1
    assert await store.vectors.sync(ALICE)
    assert (await store.lacks(), len(await store.rows())) == (0, 2)


async def test_a_given_vector_that_the_store_refuses_costs_no_write(store: Store) -> None:
    await store.begin(ALICE)
    store.vectors.precomputed["alice", "a"] = np.full(SIZE, np.inf, dtype=np.float32)
    assert entry_seqs(await store.append(build_turn_changes(ALICE, "a"))) == [2]
    assert await store.lacks() == 1
    del store.vectors.precomputed["alice", "a"]
    assert await store.vectors.sync(ALICE)
    assert await store.lacks() == 0


REFUSED = {
    "an error of its own": "SELECT 1 / 0",
    "a table that is gone": "INSERT INTO nowhere VALUES (1)",
    "a rule that it breaks": f"INSERT INTO passages_{SIZE} SELECT",
    "a doubled key": "INSERT INTO memory_users (user_id) VALUES (%(user_id)s)",
}


@pytest.mark.parametrize("why", REFUSED)
async def test_what_the_server_refuses_of_them_costs_no_write(
    store: Store, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.begin(ALICE)
    put = store.index._sql["put"]
    monkeypatch.setitem(store.index._sql, "put", REFUSED[why])
    entries = await store.append(build_turn_changes(ALICE, "first", "a"))
    assert [(entry.seq, entry.already_applied) for entry in entries] == [(1, True), (2, False)]
    assert entry_seqs(await store.log.changes(ALICE, 0, 9)) == [1, 2]
    assert (await store.lacks(), store.vectors.local_watermark(ALICE), len(await store.rows())) == (1, 1, 1)
    monkeypatch.setitem(store.index._sql, "put", put)
    assert await store.vectors.sync(ALICE, entries)
    assert (await store.lacks(), len(await store.rows())) == (0, 2)


async def test_a_write_that_is_refused_itself_is_not_tried_again(
    postgres_log: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    store = await opened(postgres_log, hook=told.append)
    await store.begin(ALICE)
    told.clear()
    with pytest.raises(Conflict):
        await store.append([build_change(ALICE, build_turn("a"), expected_versions={("Turn", "a"): 7})])
    assert told == []
    assert await store.lacks() == 0
    await store.log.close()


@pytest.mark.parametrize("step", ["audit", "vectors"])
async def test_a_write_that_is_rolled_back_leaves_none(postgres_log: str, step: str) -> None:
    broken: list[str] = []

    def breaks(taken: str) -> None:
        if taken in broken:
            raise StoreUnavailable("broken off")

    store = await opened(postgres_log, hook=breaks)
    await store.begin(ALICE)
    broken.append(step)
    with pytest.raises(StoreUnavailable, match="broken off"):
        await store.append(build_turn_changes(ALICE, "a"))
    assert (await store.lacks(), store.vectors.local_watermark(ALICE), len(await store.rows())) == (0, 1, 1)
    broken.clear()
    await store.append(build_turn_changes(ALICE, "a"))
    assert (await store.lacks(), store.vectors.local_watermark(ALICE), len(await store.rows())) == (0, 2, 2)
    await store.log.close()


async def test_a_transaction_that_runs_again_has_them_once(postgres_log: str) -> None:
    told: list[str] = []

    def once(step: str) -> None:
        told.append(step)
        if told == ["again", *told[1:-1], "vectors"]:
            told.clear()
            raise psycopg.errors.SerializationFailure("once more")

    store = await opened(postgres_log, hook=once)
    await store.begin(ALICE)
    told[:] = ["again"]
    await store.append(build_turn_changes(ALICE, "a"))
    assert told == list(dict.fromkeys(told))
    assert told[-1] == "committed"
    assert (await store.lacks(), store.vectors.local_watermark(ALICE), len(await store.rows())) == (0, 2, 2)
    await store.log.close()


async def test_an_append_does_not_wait_for_who_writes_vectors(store: Store) -> None:
    """A rebuild may hold a user's watermark for a while, and taking an embedder out those of all users."""
    await store.begin(ALICE)
    inside, go_on = asyncio.Event(), asyncio.Event()

    async def hold(db: PostgresConnection) -> None:
        await fetch_rows(db, HELD, {"user_id": "alice"})
        inside.set()
        await go_on.wait()

    holding = asyncio.create_task(store.log.database.commit("alice", hold, durable=False))
    await inside.wait()
    entries = await asyncio.wait_for(store.append(build_turn_changes(ALICE, "a")), 60)
    assert await store.lacks() == 1
    go_on.set()
    await holding
    assert await store.vectors.sync(ALICE, entries)
    assert await store.lacks() == 0


async def test_vectors_elsewhere_and_many_texts_and_replaced_ones_follow(
    store: Store, postgres_log: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.begin(ALICE)
    other = await opened(postgres_log)  # the same place, by connections of its own
    await store.log.append(build_turn_changes(ALICE, "a"), vectors=other.vectors)
    assert await store.lacks() == 1
    await store.vectors.sync(ALICE)
    for some in (
        build_turn_changes(ALICE, *map(str, range(MAX_INLINE_TEXTS + 1))),
        [build_change(ALICE, build_entity("e"))],
        [build_change(ALICE, build_entity("e"))],
    ):
        await store.append(some)
        assert await store.lacks() == len(some)
        await store.vectors.sync(ALICE)
    await delete_records(store.log, ALICE, ("Turn", "a"))
    assert await store.lacks() == 1  # nothing to embed
    await other.log.close()


async def test_an_embedder_that_was_taken_out_gets_none(store: Store) -> None:
    await store.begin(ALICE)
    await drop(store.log.database, store.index.identity, Operator())
    assert entry_seqs(await store.append(build_turn_changes(ALICE, "a"))) == [2]
    assert (await store.rows(), store.vectors.local_watermark(ALICE)) == ([], 1)


async def append_some(store: Store, scopes: Sequence[Scope], number: int) -> None:
    draw = random.Random(number)
    for turn_number in range(30):
        scope = draw.choice(scopes)
        assert await store.vectors.sync(scope, await store.append(build_turn_changes(scope, f"{number} {turn_number}")))


async def erase_some(store: Store, scopes: Sequence[Scope]) -> None:
    for number in range(12):
        scope = scopes[number % len(scopes)]
        keys = [("Turn", name) for name in record_ids(await store.log.find(scope, Where(kinds=("Turn",)), limit=2))]
        await store.log.erase(scope, keys, operation_id=f"e{number}", erased_at=START)


async def clear_all(store: Store, scopes: Sequence[Scope]) -> None:
    for scope in scopes:
        await asyncio.sleep(0.05)
        await store.index.clear(scope.user_id)


async def bring_along(store: Store, scopes: Sequence[Scope], done: asyncio.Event) -> None:
    """Apply batches of several users in one transaction, and search."""
    while not done.is_set():
        todo = {}
        for scope in scopes:
            mark = await store.index.watermark(scope.user_id)
            if some := await store.log.changes(scope, mark, 3):
                todo[scope.user_id] = await store.vectors._embed_batch(mark, some)
        await store.index.apply(todo)
        await store.found(scopes[-1])


async def test_writers_of_all_kinds_at_once_lose_nothing_and_hold_nobody_up(postgres_log: str) -> None:
    scopes, done = [Scope(name) for name in ("ann", "bob", "cleo")], asyncio.Event()
    *writers, other = stores = [await opened(postgres_log) for _ in range(4)]
    await other.begin(*scopes)
    following = asyncio.create_task(bring_along(other, scopes, done))
    async with asyncio.timeout(60):
        writing = (append_some(store, scopes, number) for number, store in enumerate(writers))
        await asyncio.gather(*writing, erase_some(other, scopes), clear_all(other, scopes))
        done.set()
        await following
    for scope in scopes:
        assert await other.vectors.sync(scope)
        assert await other.lacks(scope) == 0
        ordinals = (await other.log.read_columns(scope, 0))[0].ordinals_by_key()
        wanted = sorted(ordinal for (kind, _), ordinal in ordinals.items() if kind == "Turn")
        assert [sorted(await store.found(scope)) for store in stores] == [wanted] * len(stores)
    for store in stores:
        await store.log.close()


async def test_who_looks_meanwhile_misses_nothing_later(postgres_log: str) -> None:
    """Ids of passages grow in the order of commits, by which a cache is topped up."""
    writers, reader = [await opened(postgres_log) for _ in range(3)], await opened(postgres_log)
    await writers[0].begin(ALICE)

    async def write(number: int, store: Store) -> None:
        for turn_number in range(25):
            await store.vectors.sync(ALICE, await store.append(build_turn_changes(ALICE, f"{number} {turn_number}")))

    async def look() -> None:
        while not writing.done():
            found = sorted(await reader.found())
            assert found == list(range(1, 1 + len(found)))

    writing = asyncio.gather(*(write(n, store) for n, store in enumerate(writers)))
    await asyncio.gather(writing, look())
    assert len(await reader.found()) == 76
    for store in (*writers, reader):
        await store.log.close()
