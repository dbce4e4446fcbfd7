"""Vectors: exact within the user, filtered before the cut, and the same whatever a cache has been through."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from agentmem.errors import ConfigError, InvalidRecord, StoreError
from agentmem.model.scope import Scope
from agentmem.stores import SENTENCE, WHOLE, Batch, Passage, Scores, Where
from agentmem.stores.sqlite import SqliteLog, nearest, vectors
from agentmem.stores.sqlite.vectors import SqliteVectors, open_vectors
from tests.conformance.stores import fact, opened, plan, put, scans, turn

ANN, BOB = Scope("ann"), Scope("bob")
IDENTITY, DIMENSIONS = "hash:test:24", 24
ANYTHING = Where()
TINY = 1  # a budget that no user fits in: everything is streamed from the file


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[SqliteLog]:
    async with opened(tmp_path / "memory.db") as made:
        yield made


@pytest.fixture
async def index(log: SqliteLog) -> SqliteVectors:
    return await open_vectors(log.database, IDENTITY, DIMENSIONS)


def vector(*seed: int) -> NDArray[np.float16]:
    drawn = np.random.default_rng(seed).standard_normal(DIMENSIONS)
    return (drawn / np.linalg.norm(drawn)).astype(np.float16)


QUERY = vector(99).astype(np.float32)


def passage(slot: int, grain: str = WHOLE, part: int = 0, **fields: Any) -> Passage:
    values: dict[str, Any] = {
        "slot": slot,
        "kind": "Turn",
        "channel": "_global",
        "grain": grain,
        "part": part,
        "span": (0, 9),
    }
    return Passage(**{**values, "vector": vector(slot, part, len(grain)), **fields})


def record(slot: int, sentences: int = 0, **fields: Any) -> list[Passage]:
    return [passage(slot, **fields), *(passage(slot, SENTENCE, part, **fields) for part in range(sentences))]


async def add(index: SqliteVectors, scope: Scope, passages: Iterable[Passage], replaced: Iterable[int] = ()) -> None:
    after = await index.watermark(scope.user_id)
    batch = Batch(after=after, through=after + 1, passages=list(passages), replaced=list(replaced))
    assert await index.apply({scope.user_id: batch}) == {scope.user_id: after + 1}


async def search(index: SqliteVectors, k: int | None = None, grain: str = WHOLE, where: Where = ANYTHING) -> Scores:
    return await index.nearest(QUERY, ANN, where, grain, k)


def rows(scores: Scores) -> list[tuple[int, int, float, bool]]:
    columns = (scores.slots.tolist(), scores.parts.tolist(), scores.scores.tolist(), scores.asks.tolist())
    return list(zip(*columns, strict=True))


def cosine(held: Passage) -> float:
    v, q = held.vector.astype(np.float64), QUERY.astype(np.float64)
    return float(v @ q / np.linalg.norm(v) / np.linalg.norm(q))


async def test_an_empty_memory_has_no_scores(index: SqliteVectors) -> None:
    assert rows(await search(index)) == rows(await search(index, 5, SENTENCE)) == []
    assert await index.watermark("ann") == 0


@pytest.mark.parametrize("grain", [WHOLE, SENTENCE])
async def test_scores_are_cosines_rounded_to_four_places(index: SqliteVectors, grain: str) -> None:
    held = [p for slot in range(120) for p in record(slot, 2, asks=slot % 5 == 0)]
    await add(index, ANN, held)
    wanted = [p for p in held if p.grain == grain]
    scores = await search(index, None, grain)
    assert [(slot, part, asks) for slot, part, _, asks in rows(scores)] == [(p.slot, p.part, p.asks) for p in wanted]
    best = sorted(range(len(wanted)), key=lambda i: -scores.scores[i])[: nearest.RESCORED]
    assert [float(scores.scores[i]) for i in best] == pytest.approx([cosine(wanted[i]) for i in best], abs=6.5e-5)
    np.testing.assert_allclose(scores.scores, [cosine(p) for p in wanted], atol=5e-3)
    assert scores.scores.dtype == np.float32
    np.testing.assert_array_equal(scores.scores, np.round(scores.scores.astype(np.float64), 4).astype(np.float32))


@pytest.mark.parametrize("grain", [WHOLE, SENTENCE])
async def test_the_best_come_first(index: SqliteVectors, grain: str) -> None:
    await add(index, ANN, [p for slot in range(300) for p in record(slot, slot % 4)])
    everything = rows(await search(index, None, grain))
    best = sorted(everything, key=lambda row: (-row[2], row[0], row[1]))
    assert rows(await search(index, 20, grain)) == best[:20]
    assert rows(await search(index, 10_000, grain)) == best
    assert rows(await search(index, 0, grain)) == []


async def test_both_grains_come_from_one_look(index: SqliteVectors) -> None:
    await add(
        index, ANN, [p for slot in range(300) for p in record(slot, slot % 4, kind=("Turn", "Fact")[slot % 9 == 0])]
    )
    for where in (ANYTHING, Where(kinds=("Turn",)), Where(kinds=("Fact",)), Where(kinds=())):
        whole, sentences = await index.scores(QUERY, ANN, where, [WHOLE, SENTENCE])
        assert rows(whole) == rows(await search(index, None, WHOLE, where))
        assert rows(sentences) == rows(await search(index, None, SENTENCE, where))


async def test_a_record_of_one_sentence_has_a_sentence_score(index: SqliteVectors) -> None:
    await add(index, ANN, [*record(0), *record(1, 2), *record(2)])
    found = rows(await search(index, None, SENTENCE))
    assert [(slot, part) for slot, part, _, _ in found] == [(0, 0), (1, 0), (1, 1), (2, 0)]
    whole = rows(await search(index))
    assert [found[0], found[3]] == [whole[0], whole[2]]


async def test_strangers_change_nothing(index: SqliteVectors) -> None:
    await add(index, ANN, [p for slot in range(40) for p in record(slot, 2)])
    before = [rows(await search(index, k, grain)) for k in (None, 3) for grain in (WHOLE, SENTENCE)]
    near = QUERY.astype(np.float16)
    await add(index, BOB, [p for slot in range(500) for p in record(slot, 2, vector=near)])
    assert [rows(await search(index, k, grain)) for k in (None, 3) for grain in (WHOLE, SENTENCE)] == before
    fresh = SqliteVectors(index._database, IDENTITY, DIMENSIONS)
    assert [rows(await search(fresh, k, grain)) for k in (None, 3) for grain in (WHOLE, SENTENCE)] == before


@pytest.mark.parametrize("budget", [vectors.BUDGET, TINY])
async def test_channels_and_kinds_are_filtered_before_the_cut(log: SqliteLog, budget: int) -> None:
    index = await open_vectors(log.database, IDENTITY, DIMENSIONS, budget)
    near = QUERY.astype(np.float16)
    await add(index, ANN, [
        *(passage(slot, channel="secret", vector=near) for slot in range(300)),
        *(passage(slot, kind="Fact", vector=near) for slot in range(300, 500)),
        passage(500), passage(501, channel="work"),
    ])  # fmt: skip
    turns = Where(kinds=("Turn",))
    assert (await search(index, 5, WHOLE, turns)).slots.tolist() == [500]
    assert (await search(index, 5, SENTENCE, turns)).slots.tolist() == [500]
    assert set((await search(index, 5)).slots.tolist()) <= set(range(300, 500))
    work = Scope("ann", channel="work")
    assert sorted((await index.nearest(QUERY, work, turns, WHOLE, 5)).slots.tolist()) == [500, 501]
    only = Where(kinds=("Turn",), channels=("work", "secret"))
    assert (await index.nearest(QUERY, work, only, WHOLE, 5)).slots.tolist() == [501]
    assert (await search(index, 5, WHOLE, Where(kinds=()))).slots.tolist() == []


async def test_a_batch_applies_only_where_it_was_made_for(index: SqliteVectors) -> None:
    await add(index, ANN, record(0))
    late = Batch(after=0, through=9, passages=record(1), replaced=[0])
    early = Batch(after=7, through=9, passages=record(1))
    good = Batch(after=0, through=4, passages=record(5))
    assert await index.apply({"ann": late, "bob": good}) == {"ann": 1, "bob": 4}
    assert await index.apply({"ann": early}) == {"ann": 1}
    assert (await search(index)).slots.tolist() == [0]
    assert (await index.nearest(QUERY, BOB, Where(), WHOLE)).slots.tolist() == [5]


async def test_all_users_of_a_batch_are_written_or_none(index: SqliteVectors) -> None:
    bad = Batch(after=0, through=1, passages=[passage(0, vector=np.ones(7, dtype=np.float16))])
    with pytest.raises(InvalidRecord, match="24") as caught:
        await index.apply({"ann": Batch(after=0, through=1, passages=record(0)), "bob": bad})
    assert caught.value.field == "vector"
    assert await index.watermark("ann") == 0


STEP = st.tuples(
    st.sampled_from(["add", "add", "add", "replace", "erase", "clear", "search", "search elsewhere"]),
    st.lists(st.integers(0, 60), min_size=1, max_size=12, unique=True),
)


@given(history=st.lists(STEP, max_size=12))
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_no_history_of_a_cache_shows(
    history: list[tuple[str, list[int]]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    held: dict[int, list[Passage]] = {}
    async with opened(tmp_path_factory.mktemp("vectors") / "memory.db") as log:
        mine, other = [await open_vectors(log.database, IDENTITY, DIMENSIONS) for _ in range(2)]
        for turn_of, (name, slots) in enumerate(history):
            if name.startswith("search"):
                await search(mine if name == "search" else other, 3, SENTENCE)
            elif name == "clear":
                await mine.clear("ann")
                held = {}
            elif name == "erase":
                await log.database.write(partial(vectors.erase, user_id="ann", slots=slots))
                held = {slot: kept for slot, kept in held.items() if slot not in slots}
            else:
                chosen = [slot for slot in slots if name == "replace" or slot not in held]
                new = {slot: record(slot, (slot + turn_of) % 4, asks=turn_of % 2 == 0) for slot in chosen}
                await add(mine, ANN, [p for kept in new.values() for p in kept], chosen if name == "replace" else ())
                held.update(new)
        rebuilt = await open_vectors(log.database, "hash:again:24", DIMENSIONS)
        await add(rebuilt, ANN, [p for slot in sorted(held, reverse=True) for p in held[slot]])
        streamed = await open_vectors(log.database, IDENTITY, DIMENSIONS, TINY)
        for grain, k in ((WHOLE, None), (SENTENCE, None), (SENTENCE, 5)):
            wanted = rows(await search(rebuilt, k, grain))
            for index in (mine, other, streamed):
                assert rows(await search(index, k, grain)) == wanted


@pytest.mark.parametrize("rows_at_once", [7, 2048])
async def test_streaming_gives_the_same_as_the_cache(
    log: SqliteLog, rows_at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nearest, "ROWS_AT_ONCE", rows_at_once)
    cached = await open_vectors(log.database, IDENTITY, DIMENSIONS)
    streamed = await open_vectors(log.database, IDENTITY, DIMENSIONS, TINY)
    for start in range(0, 600, 150):
        await add(cached, ANN, [p for slot in range(start, start + 150) for p in record(slot, slot % 4)])
        await search(cached)
    for grain in (WHOLE, SENTENCE):
        for k in (None, 7):
            assert rows(await search(streamed, k, grain)) == rows(await search(cached, k, grain))
    assert len(streamed._cache) == 0


async def test_erased_passages_leave_every_embedder_and_cache(index: SqliteVectors, log: SqliteLog) -> None:
    second = await open_vectors(log.database, "hash:other:24", DIMENSIONS)
    third = await open_vectors(log.database, "hash:small:8", 8)
    tokens = (np.array([4, 5], dtype=np.int32), np.ones((2, 3), dtype=np.int8))
    for made in (index, second):
        await add(made, ANN, [p for slot in range(5) for p in record(slot, 2, tokens=tokens if slot else None)])
        await search(made)
    await add(third, ANN, [passage(3, vector=np.ones(8, dtype=np.float16))])
    await log.database.write(lambda db: vectors.erase(db, "ann", [3]))
    for made in (index, second):
        assert (await search(made)).slots.tolist() == [0, 1, 2, 4]
        assert sorted(await made.tokens([0, 1, 3, 4], ANN)) == [1, 4]
        matrix = made._cache.peek("ann")
        assert matrix is not None
        held = matrix.whole.view().take(np.arange(matrix.whole.count))
        assert (~(held.high.any(axis=1) | held.low.any(axis=1))).tolist() == [False, False, False, True, False]
    assert len((await third.nearest(np.ones(8, dtype=np.float32), ANN, Where(), WHOLE)).slots) == 0
    await index.erase(ANN, None)
    names = await log.database.read(vectors.tables)
    assert names == ["passages_8", "passages_24", "passage_tokens"]
    left = await log.database.read(lambda db: [db.execute(f"SELECT count(*) FROM {name}").get for name in names])
    assert left == [0, 0, 0]
    assert rows(await search(second)) == []
    assert await index.watermark("ann") == 1


async def test_replaced_passages_are_gone_at_once(index: SqliteVectors) -> None:
    await add(index, ANN, record(0, 3))
    await search(index)
    await add(index, ANN, record(0, 1, channel="work"), replaced=[0])
    assert rows(await search(index, None, SENTENCE)) == []
    found = await index.nearest(QUERY, Scope("ann", channel="work"), Where(), SENTENCE)
    assert [(slot, part) for slot, part, _, _ in rows(found)] == [(0, 0)]


async def test_many_removals_make_the_cache_load_again(index: SqliteVectors) -> None:
    await add(index, ANN, [passage(slot) for slot in range(3000)])
    await search(index)
    await add(index, ANN, [], replaced=range(10, 3000))
    assert (await search(index)).slots.tolist() == list(range(10))
    matrix = index._cache.peek("ann")
    assert matrix is not None
    assert matrix.whole.count == 10


async def test_a_cleared_user_is_built_again(index: SqliteVectors) -> None:
    await add(index, ANN, record(0, 2))
    await add(index, BOB, record(0, 2))
    before = rows(await search(index))
    await index.clear("ann")
    assert await index.watermark("ann") == 0
    assert rows(await search(index)) == []
    await add(index, ANN, record(0, 2))
    assert rows(await search(index)) == before
    assert await index.watermark("bob") == 1


async def test_token_vectors_come_back_as_they_were(index: SqliteVectors) -> None:
    tokens = (np.array([4, 5, 6], dtype=np.int32), np.arange(12, dtype=np.int8).reshape(3, 4))
    nothing = (np.empty(0, dtype=np.int32), np.empty((0, 4), dtype=np.int8))
    await add(index, ANN, [passage(0, tokens=tokens), passage(1), passage(2, tokens=nothing)])
    found = await index.tokens([2, 1, 0, 7], ANN)
    assert sorted(found) == [0, 2]
    np.testing.assert_array_equal(found[0][0], tokens[0])
    np.testing.assert_array_equal(found[0][1], tokens[1])
    assert found[2][1].shape == (0, 0)
    assert await index.tokens([0], BOB) == {}


async def test_pairs_of_records_have_a_cosine_or_none(index: SqliteVectors) -> None:
    await add(index, ANN, [p for slot in range(6) for p in record(slot, 2)])
    await add(index, BOB, record(9))
    left, right = np.array([5, 0, 3, 9, 2]), np.array([1, 0, 4, 9, 77])
    found = await index.between(left, right, ANN)
    v = [vector(slot, 0, len(WHOLE)).astype(np.float64) for slot in range(6)]
    assert found[:3].tolist() == pytest.approx([v[5] @ v[1], 1.0, v[3] @ v[4]], abs=2e-4)
    assert np.isnan(found[3:]).all()
    np.testing.assert_array_equal(await index.between(left[2:3], right[2:3], ANN), found[2:3])
    assert len(await index.between(left[:0], right[:0], ANN)) == 0


async def test_embedders_live_side_by_side(index: SqliteVectors, log: SqliteLog) -> None:
    second = await open_vectors(log.database, "hash:other:24", DIMENSIONS)
    await add(index, ANN, record(0))
    await add(second, ANN, record(1))
    assert (await search(index)).slots.tolist() == [0]
    assert (await search(second)).slots.tolist() == [1]
    assert await log.database.read(vectors.registered) == [IDENTITY, "hash:other:24"]
    assert await log.database.write(lambda db: vectors.drop(db, IDENTITY)) == 1
    assert await log.database.write(lambda db: vectors.drop(db, IDENTITY)) == 0
    assert await log.database.read(vectors.registered) == ["hash:other:24"]
    with pytest.raises(StoreError, match="open the memory again"):
        await search(index)
    assert (await search(second)).slots.tolist() == [1]


async def test_a_dropped_embedder_begins_anew(index: SqliteVectors, log: SqliteLog) -> None:
    await add(index, ANN, record(0))
    await search(index)
    await log.database.write(lambda db: vectors.drop(db, IDENTITY))
    await log.database.write(lambda db: db.execute("DELETE FROM projection_watermarks").fetchall())
    await asyncio.sleep(0.002)  # registrations are told apart by the millisecond
    again = await open_vectors(log.database, IDENTITY, DIMENSIONS)
    await add(again, ANN, record(7))
    assert (await search(index)).slots.tolist() == (await search(again)).slots.tolist() == [7]


@pytest.mark.parametrize("dimensions", [0, -1, 20_000, "24; DROP TABLE embedders", True, 2.0])
async def test_dimensions_are_numbers(log: SqliteLog, dimensions: int) -> None:
    with pytest.raises(ConfigError, match="dimensions"):
        await open_vectors(log.database, "hash:x:1", dimensions)


async def test_an_identity_keeps_its_dimensions(index: SqliteVectors, log: SqliteLog) -> None:
    with pytest.raises(ConfigError, match="24 dimensions"):
        await open_vectors(log.database, IDENTITY, 25)


@pytest.mark.parametrize(
    "query, grain, k, field",
    [
        (np.ones(3, dtype=np.float32), WHOLE, None, "vector"),
        (np.full(DIMENSIONS, np.nan, dtype=np.float32), WHOLE, None, "vector"),
        (QUERY, "paragraph", None, "grain"),
        (QUERY, WHOLE, -1, "k"),
    ],
)
async def test_bad_questions_are_refused(
    index: SqliteVectors, query: NDArray[np.float32], grain: str, k: int | None, field: str
) -> None:
    with pytest.raises(InvalidRecord) as caught:
        await index.nearest(query, ANN, Where(), grain, k)
    assert caught.value.field == field


async def test_people_can_query_the_documents_view(index: SqliteVectors, log: SqliteLog) -> None:
    await put(log, ANN, turn("t0", 0, session_id="s1"), fact("f", memory_type="preference", importance=0.9))
    await add(index, ANN, [*record(0, 2), passage(1, kind="Fact")])
    columns = "id, user_id, session_id, content, memory_type, importance, access_count"
    sql = f"SELECT {columns} FROM memories_24 ORDER BY id"
    assert await log.database.read(lambda db: db.execute(sql).fetchall()) == [
        ("f", "ann", None, "claim f", "preference", 0.9, 0),
        ("t0", "ann", "s1", "text t0", "turn", 0.5, 0),
    ]
    sql = "SELECT embedding, created_at FROM memories_24 WHERE id = 't0'"
    ((embedding, created_at),) = await log.database.read(lambda db: db.execute(sql).fetchall())
    assert embedding == vector(0, 0, len(WHOLE)).tobytes()
    assert str(created_at).startswith("2026-03-01T12:00")


@pytest.mark.parametrize("analysed", [False, True])
async def test_every_statement_goes_through_an_index(index: SqliteVectors, log: SqliteLog, analysed: bool) -> None:
    for scope in (ANN, BOB):
        await add(index, scope, [p for slot in range(200) for p in record(slot, 2)])
    if analysed:
        await log.database.write(lambda db: db.execute("ANALYZE").fetchall())
    values = {"user_id": "ann", "embedder": 1, "slots": "[1]", "ids": "[1]", "after": 0, "projection": "p"}
    hot = ("state", "remove", "remove_tokens", "counts", "passages_after", "ids", "by_id", "tokens", "whole_of")
    statements = vectors.statements(DIMENSIONS)

    found = await log.database.read(lambda db: {name: scans(plan(db, statements[name], values)) for name in hot})
    assert found == {name: [] for name in hot}
