"""Vectors: exact within the user, filtered before the cut, and the same whatever a cache has been through."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from agentmem.core.scope import Scope
from agentmem.errors import ConfigError, InvalidRecord, StoreError
from agentmem.stores.protocols import VectorIndex
from agentmem.stores.values import SENTENCE, WHOLE, VectorBatch, VectorRow, Where
from agentmem.stores.vectors.search import CACHE_BUDGET_BYTES, RESCORE_LIMIT
from tests.conformance.indexes import (
    ANN,
    ANY_RECORD,
    BACKENDS,
    BOB,
    DIMENSIONS,
    IDENTITY,
    QUERY,
    TINY_BUDGET,
    PostgresVectorBackend,
    VectorBackend,
    apply_batch,
    build_record_rows,
    build_vector_row,
    open_backend,
    random_unit_vector,
    score_rows,
    search,
)
from tests.scale import scaled

Row = tuple[int, int, float, bool]


@pytest.fixture(params=BACKENDS)
async def place(request: pytest.FixtureRequest) -> AsyncIterator[VectorBackend]:
    async with open_backend(request, request.param) as made:
        yield made


@pytest.fixture
async def index(place: VectorBackend) -> VectorIndex:
    return await place.open()


def cosine(held: VectorRow) -> float:
    v, q = held.vector.astype(np.float64), QUERY.astype(np.float64)
    return float(v @ q / np.linalg.norm(v) / np.linalg.norm(q))


async def test_an_empty_memory_has_no_scores(index: VectorIndex) -> None:
    assert score_rows(await search(index)) == score_rows(await search(index, 5, SENTENCE)) == []
    assert await index.watermark("ann") == 0


@pytest.mark.parametrize("grain", [WHOLE, SENTENCE])
async def test_scores_are_cosines_rounded_to_four_places(index: VectorIndex, grain: str) -> None:
    held = [p for ordinal in range(120) for p in build_record_rows(ordinal, 2, is_question=ordinal % 5 == 0)]
    await apply_batch(index, ANN, held)
    wanted = [p for p in held if p.granularity == grain]
    scores = await search(index, None, grain)
    assert [(ordinal, part, asks) for ordinal, part, _, asks in score_rows(scores)] == [
        (p.ordinal, p.part, p.is_question) for p in wanted
    ]
    best = sorted(range(len(wanted)), key=lambda i: -scores.scores[i])[:RESCORE_LIMIT]
    assert [float(scores.scores[i]) for i in best] == pytest.approx([cosine(wanted[i]) for i in best], abs=6.5e-5)
    np.testing.assert_allclose(scores.scores, [cosine(p) for p in wanted], atol=5e-3)
    assert scores.scores.dtype == np.float32
    np.testing.assert_array_equal(scores.scores, np.round(scores.scores.astype(np.float64), 4).astype(np.float32))


@pytest.mark.parametrize("grain", [WHOLE, SENTENCE])
async def test_the_best_come_first(index: VectorIndex, grain: str) -> None:
    await apply_batch(index, ANN, [p for ordinal in range(300) for p in build_record_rows(ordinal, ordinal % 4)])
    everything = score_rows(await search(index, None, grain))
    best = sorted(everything, key=lambda row: (-row[2], row[0], row[1]))
    assert score_rows(await search(index, 20, grain)) == best[:20]
    assert score_rows(await search(index, 10_000, grain)) == best
    assert score_rows(await search(index, 0, grain)) == []


async def test_both_grains_come_from_one_look(index: VectorIndex) -> None:
    await apply_batch(
        index,
        ANN,
        [
            p
            for ordinal in range(300)
            for p in build_record_rows(ordinal, ordinal % 4, kind=("Turn", "Fact")[ordinal % 9 == 0])
        ],
    )
    for where in (ANY_RECORD, Where(kinds=("Turn",)), Where(kinds=("Fact",)), Where(kinds=())):
        whole, sentences = await index.score_all(QUERY, ANN, where, [WHOLE, SENTENCE])
        assert score_rows(whole) == score_rows(await search(index, None, WHOLE, where))
        assert score_rows(sentences) == score_rows(await search(index, None, SENTENCE, where))


async def test_a_record_of_one_sentence_has_a_sentence_score(index: VectorIndex) -> None:
    await apply_batch(index, ANN, [*build_record_rows(0), *build_record_rows(1, 2), *build_record_rows(2)])
    found = score_rows(await search(index, None, SENTENCE))
    assert [(ordinal, part) for ordinal, part, _, _ in found] == [(0, 0), (1, 0), (1, 1), (2, 0)]
    whole = score_rows(await search(index))
    assert [found[0], found[3]] == [whole[0], whole[2]]


async def test_strangers_change_nothing(index: VectorIndex, place: VectorBackend) -> None:
    await apply_batch(index, ANN, [p for ordinal in range(40) for p in build_record_rows(ordinal, 2)])
    before = [score_rows(await search(index, k, granularity)) for k in (None, 3) for granularity in (WHOLE, SENTENCE)]
    near = QUERY.astype(np.float16)
    await apply_batch(index, BOB, [p for ordinal in range(500) for p in build_record_rows(ordinal, 2, vector=near)])
    assert [
        score_rows(await search(index, k, granularity)) for k in (None, 3) for granularity in (WHOLE, SENTENCE)
    ] == before
    fresh = await place.open()
    assert [
        score_rows(await search(fresh, k, granularity)) for k in (None, 3) for granularity in (WHOLE, SENTENCE)
    ] == before


@pytest.mark.parametrize("budget", [CACHE_BUDGET_BYTES, TINY_BUDGET])
async def test_channels_and_kinds_are_filtered_before_the_cut(place: VectorBackend, budget: int) -> None:
    index = await place.open(budget=budget)
    near = QUERY.astype(np.float16)
    await apply_batch(
        index,
        ANN,
        [
            *(build_vector_row(ordinal, channel="secret", vector=near) for ordinal in range(300)),
            *(build_vector_row(ordinal, kind="Fact", vector=near) for ordinal in range(300, 500)),
            build_vector_row(500),
            build_vector_row(501, channel="work"),
        ],
    )
    turns = Where(kinds=("Turn",))
    assert (await search(index, 5, WHOLE, turns)).ordinals.tolist() == [500]
    assert (await search(index, 5, SENTENCE, turns)).ordinals.tolist() == [500]
    assert set((await search(index, 5)).ordinals.tolist()) <= set(range(300, 500))
    work = Scope("ann", channel="work")
    assert sorted((await index.search(QUERY, work, turns, WHOLE, 5)).ordinals.tolist()) == [500, 501]
    only = Where(kinds=("Turn",), channels=("work", "secret"))
    assert (await index.search(QUERY, work, only, WHOLE, 5)).ordinals.tolist() == [501]
    assert (await search(index, 5, WHOLE, Where(kinds=()))).ordinals.tolist() == []


async def test_a_batch_applies_only_where_it_was_made_for(index: VectorIndex) -> None:
    await apply_batch(index, ANN, build_record_rows(0))
    late = VectorBatch(after_seq=0, through_seq=9, rows=build_record_rows(1), replaced_ordinals=[0])
    early = VectorBatch(after_seq=7, through_seq=9, rows=build_record_rows(1))
    good = VectorBatch(after_seq=0, through_seq=4, rows=build_record_rows(5))
    assert await index.apply({"ann": late, "bob": good}) == {"ann": 1, "bob": 4}
    assert await index.apply({"ann": early}) == {"ann": 1}
    assert (await search(index)).ordinals.tolist() == [0]
    assert (await index.search(QUERY, BOB, Where(), WHOLE)).ordinals.tolist() == [5]


async def test_all_users_of_a_batch_are_written_or_none(index: VectorIndex) -> None:
    bad = VectorBatch(after_seq=0, through_seq=1, rows=[build_vector_row(0, vector=np.ones(7, dtype=np.float16))])
    with pytest.raises(InvalidRecord, match="24") as caught:
        await index.apply({"ann": VectorBatch(after_seq=0, through_seq=1, rows=build_record_rows(0)), "bob": bad})
    assert caught.value.field == "vector"
    assert await index.watermark("ann") == 0


STEP = st.tuples(
    st.sampled_from(["add", "add", "add", "replace", "erase", "clear", "search", "search elsewhere"]),
    st.lists(st.integers(0, 60), min_size=1, max_size=12, unique=True),
)


@given(history=st.lists(STEP, max_size=12))
@settings(max_examples=scaled(40, least=8), suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_no_history_of_a_cache_shows(history: list[tuple[str, list[int]]], place: VectorBackend) -> None:
    held: dict[int, list[VectorRow]] = {}
    user = Scope(f"ann {os.urandom(6).hex()}")
    mine, other = [await place.open() for _ in range(2)]
    for turn_of, (name, ordinals) in enumerate(history):
        if name.startswith("search"):
            await search(mine if name == "search" else other, 3, SENTENCE, scope=user)
        elif name == "clear":
            await mine.clear(user.user_id)
            held = {}
        elif name == "erase":
            await place.erase(user.user_id, ordinals)
            held = {ordinal: kept for ordinal, kept in held.items() if ordinal not in ordinals}
        else:
            chosen = [ordinal for ordinal in ordinals if name == "replace" or ordinal not in held]
            new = {
                ordinal: build_record_rows(ordinal, (ordinal + turn_of) % 4, is_question=turn_of % 2 == 0)
                for ordinal in chosen
            }
            await apply_batch(
                mine, user, [p for kept in new.values() for p in kept], chosen if name == "replace" else ()
            )
            held.update(new)
    rebuilt = await place.open("hash:again:24")
    await apply_batch(rebuilt, user, [p for ordinal in sorted(held, reverse=True) for p in held[ordinal]])
    streamed = await place.open(budget=TINY_BUDGET)
    for granularity, k in ((WHOLE, None), (SENTENCE, None), (SENTENCE, 5)):
        wanted = score_rows(await search(rebuilt, k, granularity, scope=user))
        for index in (mine, other):
            assert score_rows(await search(index, k, granularity, scope=user)) == wanted
        assert_alike(score_rows(await search(streamed, k, granularity, scope=user)), wanted, place)


def assert_alike(found: list[Row], wanted: list[Row], place: VectorBackend) -> None:
    """The same; or, where a server computes, the same places with scores a rounding apart."""
    if isinstance(place, PostgresVectorBackend):
        assert [row[2] for row in found] == pytest.approx([row[2] for row in wanted], abs=1.5e-4)
        found, wanted = [[(ordinal, part, asks) for ordinal, part, _, asks in each] for each in (found, wanted)]
        assert len(set(found) - set(wanted)) <= 1  # where two scores are next to each other at the cut
    else:
        assert found == wanted


async def test_erased_passages_leave_every_embedder_and_cache(index: VectorIndex, place: VectorBackend) -> None:
    second = await place.open("hash:other:24")
    third = await place.open("hash:small:8", 8)
    tokens = (np.array([4, 5], dtype=np.int32), np.ones((2, 3), dtype=np.int8))
    for made in (index, second):
        await apply_batch(
            made,
            ANN,
            [p for ordinal in range(5) for p in build_record_rows(ordinal, 2, tokens=tokens if ordinal else None)],
        )
        await search(made)
    await apply_batch(third, ANN, [build_vector_row(3, vector=np.ones(8, dtype=np.float16))])
    await place.erase("ann", [3])
    for made in (index, second):
        assert (await search(made)).ordinals.tolist() == [0, 1, 2, 4]
        assert sorted(await made.read_token_vectors([0, 1, 3, 4], ANN)) == [1, 4]
        matrix = made._cache.find_cached("ann")
        assert matrix is not None
        held = matrix.whole.view().select(np.arange(matrix.whole.count))
        assert (~(held.high.any(axis=1) | held.low.any(axis=1))).tolist() == [False, False, False, True, False]
    assert len((await third.search(np.ones(8, dtype=np.float32), ANN, Where(), WHOLE)).ordinals) == 0
    await index.erase(ANN, None)
    assert await place.count_rows("ann") == {"passages_8": 0, "passages_24": 0, "passage_tokens": 0}
    assert score_rows(await search(second)) == []
    assert await index.watermark("ann") == 1


async def test_replaced_passages_are_gone_at_once(index: VectorIndex) -> None:
    await apply_batch(index, ANN, build_record_rows(0, 3))
    await search(index)
    await apply_batch(index, ANN, build_record_rows(0, 1, channel="work"), replaced=[0])
    assert score_rows(await search(index, None, SENTENCE)) == []
    found = await index.search(QUERY, Scope("ann", channel="work"), Where(), SENTENCE)
    assert [(ordinal, part) for ordinal, part, _, _ in score_rows(found)] == [(0, 0)]


async def test_many_removals_make_the_cache_load_again(index: VectorIndex) -> None:
    await apply_batch(index, ANN, [build_vector_row(ordinal) for ordinal in range(3000)])
    await search(index)
    await apply_batch(index, ANN, [], replaced=range(10, 3000))
    assert (await search(index)).ordinals.tolist() == list(range(10))
    matrix = index._cache.find_cached("ann")
    assert matrix is not None
    assert matrix.whole.count == 10


async def test_a_cleared_user_is_built_again(index: VectorIndex) -> None:
    await apply_batch(index, ANN, build_record_rows(0, 2))
    await apply_batch(index, BOB, build_record_rows(0, 2))
    before = score_rows(await search(index))
    await index.clear("ann")
    assert await index.watermark("ann") == 0
    assert score_rows(await search(index)) == []
    await apply_batch(index, ANN, build_record_rows(0, 2))
    assert score_rows(await search(index)) == before
    assert await index.watermark("bob") == 1


async def test_token_vectors_come_back_as_they_were(index: VectorIndex) -> None:
    tokens = (np.array([4, 5, 6], dtype=np.int32), np.arange(12, dtype=np.int8).reshape(3, 4))
    nothing = (np.empty(0, dtype=np.int32), np.empty((0, 4), dtype=np.int8))
    await apply_batch(
        index, ANN, [build_vector_row(0, tokens=tokens), build_vector_row(1), build_vector_row(2, tokens=nothing)]
    )
    found = await index.read_token_vectors([2, 1, 0, 7], ANN)
    assert sorted(found) == [0, 2]
    np.testing.assert_array_equal(found[0][0], tokens[0])
    np.testing.assert_array_equal(found[0][1], tokens[1])
    assert found[2][1].shape == (0, 0)
    assert await index.read_token_vectors([0], BOB) == {}


async def test_pairs_of_records_have_a_cosine_or_none(index: VectorIndex) -> None:
    await apply_batch(index, ANN, [p for ordinal in range(6) for p in build_record_rows(ordinal, 2)])
    await apply_batch(index, BOB, build_record_rows(9))
    left, right = np.array([5, 0, 3, 9, 2]), np.array([1, 0, 4, 9, 77])
    found = await index.score_pairs(left, right, ANN)
    v = [random_unit_vector(ordinal, 0, len(WHOLE)).astype(np.float64) for ordinal in range(6)]
    assert found[:3].tolist() == pytest.approx([v[5] @ v[1], 1.0, v[3] @ v[4]], abs=2e-4)
    assert np.isnan(found[3:]).all()
    np.testing.assert_array_equal(await index.score_pairs(left[2:3], right[2:3], ANN), found[2:3])
    assert len(await index.score_pairs(left[:0], right[:0], ANN)) == 0


async def test_embedders_live_side_by_side(index: VectorIndex, place: VectorBackend) -> None:
    second = await place.open("hash:other:24")
    await apply_batch(index, ANN, build_record_rows(0))
    await apply_batch(second, ANN, build_record_rows(1))
    assert (await search(index)).ordinals.tolist() == [0]
    assert (await search(second)).ordinals.tolist() == [1]
    assert await place.list_embedders() == [IDENTITY, "hash:other:24"]
    assert await place.drop(IDENTITY) == 1
    assert await place.drop(IDENTITY) == 0
    assert await place.list_embedders() == ["hash:other:24"]
    with pytest.raises(StoreError, match="open the memory again"):
        await search(index)
    assert (await search(second)).ordinals.tolist() == [1]


async def test_a_dropped_embedder_begins_anew(index: VectorIndex, place: VectorBackend) -> None:
    await apply_batch(index, ANN, build_record_rows(0))
    await search(index)
    await place.drop(IDENTITY)
    await place.delete_watermarks("ann")
    await asyncio.sleep(0.002)  # registrations are told apart by the millisecond
    again = await place.open()
    await apply_batch(again, ANN, build_record_rows(7))
    assert (await search(index)).ordinals.tolist() == (await search(again)).ordinals.tolist() == [7]


@pytest.mark.parametrize("dimensions", [0, -1, 20_000, "24; DROP TABLE embedders", True, 2.0])
async def test_dimensions_are_numbers(place: VectorBackend, dimensions: int) -> None:
    with pytest.raises(ConfigError, match="dimensions"):
        await place.open("hash:x:1", dimensions)


async def test_an_identity_keeps_its_dimensions(index: VectorIndex, place: VectorBackend) -> None:
    with pytest.raises(ConfigError, match="24 dimensions"):
        await place.open(dimensions=25)


@pytest.mark.parametrize(
    "query, grain, k, field",
    [
        (np.ones(3, dtype=np.float32), WHOLE, None, "vector"),
        (np.full(DIMENSIONS, np.nan, dtype=np.float32), WHOLE, None, "vector"),
        (QUERY, "paragraph", None, "granularity"),
        (QUERY, WHOLE, -1, "top_k"),
    ],
)
async def test_bad_questions_are_refused(
    index: VectorIndex, query: NDArray[np.float32], grain: str, k: int | None, field: str
) -> None:
    with pytest.raises(InvalidRecord) as caught:
        await index.search(query, ANN, Where(), grain, k)
    assert caught.value.field == field
