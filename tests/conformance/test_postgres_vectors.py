"""Vectors on Postgres: by which indexes, behind which wall, with several writers at once, and at every size."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import numpy as np
import psycopg
import pytest

from agentmem.core.scope import Operator, Scope
from agentmem.errors import StoreUnavailable
from agentmem.stores.postgres import vectors
from agentmem.stores.postgres.database import fetch_rows as fetched
from agentmem.stores.postgres.vectors import PostgresVectors
from agentmem.stores.values import SENTENCE, WHOLE, VectorBatch, Where
from tests.conformance.indexes import (
    ANN,
    BOB,
    DIMENSIONS,
    IDENTITY,
    QUERY,
    TINY_BUDGET,
    PostgresVectorBackend,
    apply_batch,
    build_record_rows,
    build_vector_row,
    explain_query,
    open_postgres_backend,
    random_unit_vector,
    score_rows,
    search,
)

if TYPE_CHECKING:
    from agentmem.stores.postgres.connection import PostgresConnection

STRANGERS = 3000


@pytest.fixture
async def place(postgres_copy: str) -> AsyncIterator[PostgresVectorBackend]:
    async with open_postgres_backend(postgres_copy) as made:
        yield made


@pytest.fixture
async def index(place: PostgresVectorBackend) -> PostgresVectors:
    return await place.open()


@pytest.fixture
async def owner(postgres_copy: str, place: PostgresVectorBackend) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
    async with await psycopg.AsyncConnection.connect(postgres_copy, autocommit=True) as made:
        yield made


async def crowd(index: PostgresVectors, owner: psycopg.AsyncConnection[Any]) -> None:
    """Many strangers' passages that are nearer, and an index over all vectors, which a planner would like to use."""
    near = QUERY.astype(np.float16)
    for user in range(3):
        await apply_batch(
            index, Scope(f"user {user}"), [build_vector_row(ordinal, vector=near) for ordinal in range(STRANGERS // 3)]
        )
    await owner.execute("CREATE INDEX shared ON passages_24 USING hnsw (vector halfvec_cosine_ops)")
    await owner.execute("ANALYZE")


HOT = ("remove", "remove_tokens", "remove_user", "count", "passages_after", "ids", "cosines", "whole_of", "tokens")


@pytest.mark.parametrize("eager", [False, True])
async def test_statements_go_through_the_users_index(
    place: PostgresVectorBackend, index: PostgresVectors, owner: psycopg.AsyncConnection[Any], eager: bool
) -> None:
    tokens = (np.array([4], dtype=np.int32), np.ones((1, 3), dtype=np.int8))
    for scope in (ANN, BOB):
        await apply_batch(
            index, scope, [p for ordinal in range(200) for p in build_record_rows(ordinal, 2, tokens=tokens)]
        )
    await crowd(index, owner)
    values = {
        "user_id": "ann",
        "embedder": 1,
        "projection": index.projection,
        "slots": [1, 5],
        "after": 0,
        "most": 1000,
        "query": "[" + ",".join(["1"] * DIMENSIONS) + "]",
        "units": 10_000,
        "channels": ["_global"],
        "kinds": None,
    }

    async def read(db: PostgresConnection) -> dict[str, list[dict[str, Any]]]:
        if eager:  # whatever is there rather than what is cheapest
            for name in ("seqscan", "bitmapscan", "sort"):
                await db.execute(f"SET LOCAL enable_{name} = off")
        statements = {name: index._sql[name].partition("CURSOR FOR")[2] or index._sql[name] for name in HOT}
        return {name: await explain_query(db, text, values) for name, text in statements.items()}

    for name, nodes in (await place.database.commit("ann", read)).items():
        used = [node["Index Name"] for node in nodes if "Index Name" in node]
        assert used, name
        assert "shared" not in used, name
        read_whole = {node["Relation Name"] for node in nodes if node["Node Type"] == "Seq Scan"}
        assert read_whole <= {"projection_watermarks"}, name
        conditions = " ".join(node.get("Index Cond", "") for node in nodes)
        assert "user_id = " in conditions, name


@pytest.mark.parametrize("budget", [TINY_BUDGET, vectors.CACHE_BUDGET_BYTES])
async def test_a_shared_index_over_vectors_changes_nothing(
    place: PostgresVectorBackend, owner: psycopg.AsyncConnection[Any], budget: int
) -> None:
    index = await place.open(budget=budget)
    await apply_batch(index, ANN, [p for ordinal in range(150) for p in build_record_rows(ordinal, ordinal % 4)])
    before = [score_rows(await search(index, k, granularity)) for k in (None, 5) for granularity in (WHOLE, SENTENCE)]
    await crowd(index, owner)
    fresh = await place.open(budget=budget)
    assert [
        score_rows(await search(fresh, k, granularity)) for k in (None, 5) for granularity in (WHOLE, SENTENCE)
    ] == before
    assert len(before[2]) == len(before[3]) == 5


def parts_of(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """Writes and loads have many parts."""
    for module in (vectors, vectors):
        monkeypatch.setattr(module, "ROW_BATCH_SIZE", size)


async def test_the_server_computes_what_the_cache_does(
    place: PostgresVectorBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts_of(monkeypatch, 7)
    cached, computed = await place.open(), await place.open(budget=TINY_BUDGET)
    for start in range(0, 600, 150):
        made = [
            p
            for ordinal in range(start, start + 150)
            for p in build_record_rows(ordinal, ordinal % 4, is_question=ordinal % 3 == 0)
        ]
        await apply_batch(cached, ANN, made)
        await search(cached)
    for where in (Where(), Where(kinds=("Turn",)), Where(kinds=()), Where(channels=("work",))):
        for granularity, within in ((WHOLE, 1.5e-4), (SENTENCE, 6e-3)):
            left, right = (
                score_rows(await search(computed, None, granularity, where)),
                score_rows(await search(cached, None, granularity, where)),
            )
            assert [(ordinal, part, asks) for ordinal, part, _, asks in left] == [
                (ordinal, part, asks) for ordinal, part, _, asks in right
            ]
            assert [row[2] for row in left] == pytest.approx([row[2] for row in right], abs=within)
    best = [[row[2] for row in score_rows(await search(index, 7, SENTENCE))] for index in (computed, cached)]
    assert best[0] == pytest.approx(best[1], abs=1.5e-4)
    assert len(computed._cache) == 0
    assert len(cached._cache) == 1


@pytest.mark.parametrize("budget", [TINY_BUDGET, vectors.CACHE_BUDGET_BYTES])
async def test_zeros_and_queries_of_any_length(place: PostgresVectorBackend, budget: int) -> None:
    index = await place.open(budget=budget)
    await apply_batch(
        index, ANN, [build_vector_row(0, vector=np.zeros(DIMENSIONS, dtype=np.float16)), build_vector_row(1)]
    )
    wanted = score_rows(await search(index))
    assert wanted[0][2] == 0
    for length in (1e-30, 1e-3, 1e30):
        query = QUERY * np.float32(length)
        assert score_rows(await index.search(query, ANN, Where(), WHOLE)) == wanted
    nothing = np.zeros(DIMENSIONS, dtype=np.float32)
    assert [row[2] for row in score_rows(await index.search(nothing, ANN, Where(), WHOLE))] == [0, 0]


@pytest.mark.parametrize("dimensions", [384, 1536, 3072, 4000])
async def test_every_size_stays_in_its_row(
    place: PostgresVectorBackend, owner: psycopg.AsyncConnection[Any], dimensions: int
) -> None:
    index = await place.open(f"openai:x:{dimensions}", dimensions)
    made = np.random.default_rng(dimensions).standard_normal((3, dimensions)).astype(np.float16)
    long = Scope("a" * 200, channel="ß" * 200)
    some = [
        build_vector_row(ordinal, kind="ToolInvocation", channel=long.channel, vector=made[ordinal])
        for ordinal in range(3)
    ]
    await apply_batch(index, long, some)
    query = made[1].astype(np.float32)
    for each in (index, await place.open(f"openai:x:{dimensions}", dimensions, TINY_BUDGET)):
        found = await each.search(query, long, Where(), WHOLE, 1)
        assert (found.ordinals.tolist(), found.scores.tolist()) == ([1], [1.0])
    assert (await index.score_pairs(np.array([0]), np.array([0]), long)).tolist() == [1.0]
    size = await owner.execute(f"SELECT pg_column_size(vector) FROM passages_{dimensions}")
    assert await size.fetchone() == (8 + 2 * dimensions,)
    storage = (
        "SELECT attstorage::text FROM pg_attribute WHERE attname = 'vector' AND attrelid = 'passages_{}'::regclass"
    )
    assert await (await owner.execute(storage.format(dimensions))).fetchone() == ("p",)


async def test_what_was_erased_meanwhile_stays_out(
    place: PostgresVectorBackend, index: PostgresVectors, owner: psycopg.AsyncConnection[Any]
) -> None:
    await owner.execute(
        "INSERT INTO memory_versions (user_id, slot, seq, kind, id, erased) VALUES ('ann', 1, 1, 'Turn', 't', true), "
        "('bob', 0, 1, 'Turn', 't', true)"
    )
    tokens = (np.array([4], dtype=np.int32), np.ones((1, 3), dtype=np.int8))
    await apply_batch(index, ANN, [p for ordinal in range(3) for p in build_record_rows(ordinal, 2, tokens=tokens)])
    assert (await search(index)).ordinals.tolist() == [0, 2]
    assert sorted(await index.read_token_vectors([0, 1, 2], ANN)) == [0, 2]
    assert await place.count_rows("ann") == {"passages_24": 6, "passage_tokens": 2}


@pytest.mark.parametrize("known", [[], [2]])
async def test_an_erasure_waits_for_a_writer_and_a_writer_for_an_erasure(
    place: PostgresVectorBackend, index: PostgresVectors, known: list[int]
) -> None:
    """Whoever comes second sees what the first did, also a user's first vectors and those of a new embedder."""
    inside, go_on = asyncio.Event(), asyncio.Event()
    for ordinal in known:
        await apply_batch(index, ANN, build_record_rows(ordinal))

    async def erase_slowly(db: PostgresConnection) -> None:
        await vectors.erase(db, "ann", [0])
        await db.execute(
            "INSERT INTO memory_changes (user_id, seq, change_id, operation_id, operation, actor, at) "
            "VALUES ('ann', 1, 'c', 'o', 'erase', 'me', 0)"
        )
        await db.execute(
            "INSERT INTO memory_versions (user_id, slot, seq, kind, id, erased) VALUES ('ann', 0, 1, 'Turn', 't', true)"
        )
        await fetched(db, "SELECT 1")
        inside.set()
        await go_on.wait()

    erasing = asyncio.create_task(place.database.commit("ann", erase_slowly))
    await inside.wait()
    adding = asyncio.create_task(apply_batch(index, ANN, [*build_record_rows(0), *build_record_rows(1)]))
    opening = asyncio.create_task(place.open("hash:late:24"))
    done, _ = await asyncio.wait([adding, opening], timeout=0.2)
    assert not done
    go_on.set()
    _, _, late = await asyncio.gather(erasing, adding, opening)
    await apply_batch(late, ANN, [*build_record_rows(0), *build_record_rows(1)])
    assert (await search(index)).ordinals.tolist() == [1, *known]
    assert (await search(late)).ordinals.tolist() == [1]


async def test_a_writer_waits_for_the_one_before(place: PostgresVectorBackend, index: PostgresVectors) -> None:
    """So that ids grow in the order of commits, by which caches are topped up."""
    inside, go_on = asyncio.Event(), asyncio.Event()
    await apply_batch(index, ANN, build_record_rows(0))

    async def write_slowly(db: PostgresConnection) -> None:
        await index._lock_users(db, ["ann"])
        inside.set()
        await go_on.wait()

    writing = asyncio.create_task(place.database.commit("ann", write_slowly))
    await inside.wait()
    adding = asyncio.create_task(apply_batch(index, ANN, build_record_rows(1)))
    done, _ = await asyncio.wait([adding], timeout=0.2)
    assert not done
    go_on.set()
    await asyncio.gather(writing, adding)


async def test_of_writers_at_once_each_batch_has_one(place: PostgresVectorBackend) -> None:
    """They take turns, and whoever looks meanwhile, through a cache of its own, misses nothing later."""
    writers, reader = [await place.open() for _ in range(3)], await place.open()
    batches = [VectorBatch(after_seq=n, through_seq=n + 1, rows=build_record_rows(n, 2)) for n in range(25)]

    async def write(index: PostgresVectors, draw: random.Random) -> None:
        while (after := await index.watermark("ann")) < len(batches):
            other = VectorBatch(
                after_seq=await index.watermark("bob"), through_seq=after + 1, rows=build_record_rows(after)
            )
            await index.apply(dict(draw.sample([("ann", batches[after]), ("bob", other)], 2)))

    async def look() -> None:
        while await reader.watermark("ann") < len(batches):
            found = (await search(reader)).ordinals.tolist()
            assert found == list(range(len(found)))

    await asyncio.gather(*(write(index, random.Random(n)) for n, index in enumerate(writers)), look())
    for index in (*writers, reader):
        assert (await search(index)).ordinals.tolist() == list(range(25))
        assert len(score_rows(await search(index, None, SENTENCE))) == 50
    assert (await place.count_rows("ann"))["passages_24"] == 75


async def test_a_load_that_was_cut_short_goes_on_where_it_was(
    place: PostgresVectorBackend, index: PostgresVectors, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts_of(monkeypatch, 10)
    loading, append, parts = await place.open(), PostgresVectors._append, []

    def failing(self: PostgresVectors, matrix: Any, some: Any) -> None:
        append(self, matrix, some)
        parts.append(len(some))
        if len(parts) == 3:
            raise StoreUnavailable("cut short")

    monkeypatch.setattr(PostgresVectors, "_append", failing)
    await apply_batch(index, ANN, [p for ordinal in range(40) for p in build_record_rows(ordinal)])
    with pytest.raises(StoreUnavailable):
        await search(loading)
    await apply_batch(index, ANN, build_record_rows(40), replaced=[3, 39])
    wanted = [ordinal for ordinal in range(41) if ordinal not in (3, 39)]
    assert (await search(loading)).ordinals.tolist() == wanted
    assert parts == [10, 10, 10, 10]  # what was loaded is not loaded again


async def test_a_cancelled_search_leaves_the_cache_right(place: PostgresVectorBackend, index: PostgresVectors) -> None:
    await apply_batch(index, ANN, [p for ordinal in range(500) for p in build_record_rows(ordinal, 2)])
    wanted = score_rows(await search(index, None, SENTENCE))
    for steps in range(40):
        fresh = await place.open()
        searching = asyncio.create_task(search(fresh, None, SENTENCE))
        for _ in range(steps):
            await asyncio.sleep(0)
        searching.cancel()
        await asyncio.wait([searching])
        if steps % 8 == 7:
            assert score_rows(await search(fresh, None, SENTENCE)) == wanted


async def test_many_searches_at_once_load_once(
    place: PostgresVectorBackend, index: PostgresVectors, monkeypatch: pytest.MonkeyPatch
) -> None:
    await apply_batch(index, ANN, [p for ordinal in range(30) for p in build_record_rows(ordinal, 2)])
    fresh, append, parts = await place.open(), PostgresVectors._append, []

    def counted(self: PostgresVectors, matrix: Any, some: Any) -> None:
        parts.append(len(some))
        append(self, matrix, some)

    monkeypatch.setattr(PostgresVectors, "_append", counted)
    found = await asyncio.gather(*(search(fresh, None, SENTENCE) for _ in range(12)))
    assert [score_rows(each) for each in found] == [score_rows(found[0])] * 12
    assert parts == [90]


async def test_a_removal_of_our_own_is_carried_over_to_the_cache(
    index: PostgresVectors, monkeypatch: pytest.MonkeyPatch
) -> None:
    await apply_batch(index, ANN, [p for ordinal in range(30) for p in build_record_rows(ordinal)])
    await search(index)
    matrix = index._cache.find_cached("ann")
    assert matrix is not None
    await apply_batch(index, ANN, build_record_rows(30), replaced=[4])
    assert len(matrix.whole.deleted_rows) == 1
    monkeypatch.setitem(index._sql, "ids", "SELECT no_such_column")  # nothing is compared
    assert (await search(index)).ordinals.tolist() == [ordinal for ordinal in range(31) if ordinal != 4]


async def test_a_bare_session_sees_one_users_passages_or_none(
    place: PostgresVectorBackend, index: PostgresVectors
) -> None:
    await apply_batch(index, ANN, build_record_rows(0, 2))
    await apply_batch(index, BOB, build_record_rows(0))
    count = "SELECT count(*) FROM passages_24"
    async with await psycopg.AsyncConnection.connect(place.url, autocommit=True) as bare:

        async def seen(statement: str = count) -> Any:
            return await (await bare.execute(statement)).fetchone()

        assert await seen() == (0,)
        await bare.execute("SELECT set_config('agentmem.user_id', '', false)")
        assert await seen() == (0,)
        await bare.execute("SELECT set_config('agentmem.user_id', 'bob', false)")
        assert await seen() == (1,)
        assert (await bare.execute("DELETE FROM passages_24 WHERE user_id = 'ann'")).rowcount == 0
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            await bare.execute(
                'INSERT INTO passages_24 (user_id, embedder, slot, part, start, "end", kind, channel, grain, vector) '
                "SELECT 'ann', embedder, 9, part, start, \"end\", kind, channel, grain, vector FROM passages_24"
            )
    assert await place.database.query(Operator(), lambda db: fetched(db, count)) == [(4,)]
    assert (await search(index)).ordinals.tolist() == [0]


async def test_people_can_query_vectors_with_what_they_belong_to(
    place: PostgresVectorBackend, index: PostgresVectors, owner: psycopg.AsyncConnection[Any]
) -> None:
    await place.open("hash:small:8", 8)
    for user in ("ann", "bob"):
        await owner.execute(
            "INSERT INTO memory_changes (user_id, seq, change_id, operation_id, operation, actor, at) "
            f"VALUES ('{user}', 1, 'c', 'o', 'test', 'me', 0)"
        )
        payload = '{"content": "hello", "session_id": "s1"}'
        await owner.execute(
            "INSERT INTO memory_versions (user_id, slot, seq, kind, id, channel, payload) "
            f"VALUES ('{user}', 0, 1, 'Turn', 't0', '_global', '{payload}')"
        )
        await owner.execute(
            "INSERT INTO memory_records (user_id, slot, seq, kind, id, channel, status, conversation_id, position, "
            f"valid_from, recorded_at) VALUES ('{user}', 0, 1, 'Turn', 't0', '_global', 'active', 'c1', 0, 0, 0)"
        )
        await apply_batch(index, Scope(user), build_record_rows(0, 2))
    columns = "id, user_id, session_id, content, memory_type, importance, access_count, embedder, embedding::text"
    shown = "[" + ",".join(np.format_float_positional(x, trim="-") for x in random_unit_vector(0, 0, len(WHOLE))) + "]"

    async def read(db: PostgresConnection) -> list[Any]:
        (memory,) = await fetched(db, f"SELECT {columns} FROM memories_24")
        (turn,) = await fetched(db, "SELECT turn_id, content, embedding::text, embedder FROM conversation_log_vectors")
        (moment,) = await fetched(db, "SELECT summary, vector_dims(embedding), embedder FROM memory_timeline_vectors")
        return [memory[:-1], turn[:2], turn[3], moment, halves(memory[-1]), halves(turn[2])]

    def halves(text: str) -> list[float]:
        return np.array(text.strip("[]").split(","), dtype=np.float16).tolist()

    assert await place.database.query("ann", read) == [
        ("t0", "ann", "s1", "hello", "turn", 0.5, 0, IDENTITY),
        ("t0", "hello"),
        IDENTITY,
        ("hello", 24, IDENTITY),
        halves(shown),
        halves(shown),
    ]
