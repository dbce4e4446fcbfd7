"""Scores are the same bit by bit, however the rows came to lie in chunks, and as near to the truth as they claim."""

from __future__ import annotations

import multiprocessing
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from agentmem.stores.vectors import matrix, quantization, search

RNG = np.random.default_rng(7)


def vectors(rows: int, dimensions: int = 96) -> NDArray[np.float16]:
    drawn = np.random.default_rng(rows * 1000 + dimensions).standard_normal((rows, dimensions))
    return np.asarray(drawn / np.linalg.norm(drawn, axis=1)[:, None], dtype=np.float16)


def columns(rows: int, first: int = 0) -> matrix.VectorColumns:
    every = np.arange(first, first + rows)
    return matrix.VectorColumns(
        ids=every + 1,
        ordinals=every,
        parts=np.zeros(rows, dtype=np.int32),
        kinds=(every % 2).astype(np.int32),
        channels=(every % 3).astype(np.int32),
        is_question=np.zeros(rows, dtype=np.bool_),
    )


def filled(halves: NDArray[np.float16], cuts: list[int]) -> matrix.VectorTable:
    table = matrix.VectorTable(halves.shape[1])
    edges = [0, *sorted({min(cut, len(halves)) for cut in cuts} - {0}), len(halves)]
    for start, end in pairwise(edges):
        table.append(columns(end - start, start), halves[start:end])
    return table


def scored(
    view: matrix.RowsView, probe: quantization.QuantizedQuery, wanted: NDArray[np.int64] | None, fine: bool
) -> quantization.FixedPoint:
    return search.concat_scores(matrix.ScoringThread().run_all(view.build_scoring_tasks(probe, wanted, is_exact=fine)))


def cosines(halves: NDArray[np.float16], query: NDArray[np.float32]) -> NDArray[np.float64]:
    rows, q = halves.astype(np.float64), query.astype(np.float64)
    return np.asarray(rows @ q / np.linalg.norm(rows, axis=1) / np.linalg.norm(q))


@given(
    cuts=st.lists(st.integers(1, 1400), max_size=6),
    wanted=st.none() | st.lists(st.integers(0, 1399), max_size=1400, unique=True),
    fine=st.booleans(),
)
def test_scores_do_not_depend_on_how_rows_came_in(cuts: list[int], wanted: list[int] | None, fine: bool) -> None:
    halves = vectors(1400)
    probe = quantization.QuantizedQuery(np.sin(np.arange(96, dtype=np.float32)))
    rows = None if wanted is None else np.array(wanted, dtype=np.int64)
    at_once = scored(filled(halves, []).view(), probe, None, fine)
    in_pieces = scored(filled(halves, cuts).view(), probe, rows, fine)
    chosen = slice(None) if rows is None else rows
    np.testing.assert_array_equal(at_once[chosen], in_pieces[chosen])
    alone = [scored(filled(halves[i : i + 1], []).view(), probe, None, fine) for i in range(40)]
    np.testing.assert_array_equal(at_once[:40], np.concatenate(alone))


def test_two_threads_give_what_one_gives() -> None:
    """Also two searches at once, of which one finds the other thread busy, and in a process forked afterwards."""
    halves, beside = vectors(9000, 16), matrix.ScoringThread()
    probe, view = (
        quantization.QuantizedQuery(np.sin(np.arange(16, dtype=np.float32))),
        filled(halves, [700, 5000]).view(),
    )
    names = set[str]()

    def units() -> quantization.FixedPoint:
        return search.concat_scores(beside.run_all(view.build_scoring_tasks(probe, None, is_exact=True)))

    def named(sums: matrix.ScoringTask) -> matrix.ScoringTask:
        def reckon() -> quantization.FixedPoint:
            names.add(threading.current_thread().name)
            return sums.run()

        return matrix.ScoringTask(sums.cost, reckon)

    at_once = np.concatenate(
        beside.run_all([named(each) for each in view.build_scoring_tasks(probe, None, is_exact=True)])
    )
    assert len(names) == 2
    np.testing.assert_array_equal(
        quantization.score_exact(quantization.quantize(quantization.normalize_rows(halves)), probe), at_once
    )
    with ThreadPoolExecutor(2) as both:
        for found in both.map(lambda _: units(), range(20)):
            np.testing.assert_array_equal(found, at_once)
    child = multiprocessing.get_context("fork").Process(target=lambda: os._exit(int(units().sum() != at_once.sum())))
    child.start()
    child.join(30)
    assert child.exitcode == 0


@pytest.mark.parametrize("dimensions", [1, 3, 64, 384, 1536, 3072])
def test_both_planes_are_exact_to_a_unit_and_one_is_near(dimensions: int) -> None:
    halves, query = vectors(700, dimensions), RNG.standard_normal(dimensions).astype(np.float32)
    planes, probe, true = (
        quantization.quantize(quantization.normalize_rows(halves)),
        quantization.QuantizedQuery(query),
        cosines(halves, query) * quantization.FIXED_POINT_SCALE,
    )
    assert np.abs(quantization.score_exact(planes, probe) - true).max() < 0.7
    assert np.abs(quantization.score_approximate(planes.high, planes.scales, probe) - true).max() < 60


@pytest.mark.parametrize("dimensions", [1, 5, 384, 16_384])
def test_sums_are_those_of_whole_numbers(dimensions: int) -> None:
    """The worst case among them: nothing but the largest values."""
    rows = RNG.integers(-127, 128, (9, dimensions)).astype(np.int8)
    rows[0] = 127
    for query in (np.ones(dimensions, dtype=np.float32), RNG.standard_normal(dimensions).astype(np.float32)):
        probe = quantization.QuantizedQuery(query)
        numbers = probe.planes.astype(np.int64)
        wanted = rows.astype(np.int64) @ (numbers[0] * quantization.QUERY_BASE + numbers[1])
        np.testing.assert_array_equal(quantization._dot_products(rows, probe), wanted)
    units = np.full((5, dimensions), 1 / np.sqrt(dimensions), dtype=np.float32)
    assert (
        quantization.score_exact(
            quantization.quantize(units), quantization.QuantizedQuery(np.ones(dimensions, dtype=np.float32))
        ).tolist()
        == [quantization.FIXED_POINT_SCALE] * 5
    )


def test_zero_vectors_score_zero() -> None:
    planes, probe = (
        quantization.quantize(quantization.normalize_rows(np.zeros((3, 8), dtype=np.float16))),
        quantization.QuantizedQuery(np.ones(8, dtype=np.float32)),
    )
    assert (
        quantization.score_exact(planes, probe).tolist()
        == quantization.score_approximate(planes.high, planes.scales, probe).tolist()
        == [0, 0, 0]
    )
    nothing = quantization.QuantizedQuery(np.zeros(8, dtype=np.float32))
    assert quantization.score_exact(
        quantization.quantize(quantization.normalize_rows(vectors(3, 8))), nothing
    ).tolist() == [0, 0, 0]


def test_a_probe_of_any_length_points_the_same_way() -> None:
    query = RNG.standard_normal(96).astype(np.float32)
    planes = quantization.quantize(quantization.normalize_rows(vectors(50)))
    wanted = quantization.score_exact(planes, quantization.QuantizedQuery(query))
    for length in (1e-30, 1e-3, 1e30):
        np.testing.assert_array_equal(
            quantization.score_exact(planes, quantization.QuantizedQuery(query * np.float32(length))), wanted
        )


def test_nothing_is_moved_when_a_table_grows() -> None:
    table = matrix.VectorTable(8)
    table.append(columns(300), vectors(300, 8))
    first, held = table.blocks[0].high, table.view()
    table.append(columns(20_000, 300), vectors(20_000, 8))
    assert table.blocks[0].high is first
    assert held.starts[-1] == 300
    assert table.view().starts[-1] == table.count == 20_300
    assert max(chunk.capacity for chunk in table.blocks) == matrix.MAX_BLOCK_ROWS


def test_rows_taken_out_are_left_out_and_overwritten() -> None:
    table = filled(vectors(10), [4])
    table.mark_deleted(np.array([2, 3]), invert=False)
    table.mark_deleted(np.array([1, 4, 5, 6, 7, 8, 9, 99]), invert=True)
    rows, passages = table.rows_since(0)
    assert (rows + 1).tolist() == passages.ids.tolist() == [1, 4, 5, 6, 7, 8, 9]
    assert table.deleted_rows == {1, 2, 9}
    held = table.view().select(np.arange(10))
    assert (held.high.any(axis=1) | held.low.any(axis=1)).tolist() == [i not in table.deleted_rows for i in range(10)]


def test_ties_at_the_cut_are_rescored_together_or_not_at_all() -> None:
    def chosen(units: list[int], best: int, approximate: list[bool] | None = None) -> list[int]:
        return search.select_for_rescore(
            np.array(units, dtype=np.int32), np.array(approximate or [True] * len(units)), best
        ).tolist()

    assert chosen([5, 9, 5, 1], 2) == [0, 1, 2]
    assert chosen([9, *[5] * 20], 2) == [0]
    assert chosen([5, 9, 5, 1], 9, [True, False, True, False]) == [0, 2]
    assert chosen([], 2) == []


def test_best_come_first_and_equal_ones_in_order() -> None:
    assert search.top_k_rows(np.array([5, 9, 5, 9, 1], dtype=np.int32), 3).tolist() == [1, 3, 0]
    assert search.top_k_rows(np.array([1, 2], dtype=np.int32), 0).tolist() == []


def laid(
    whole: list[int], sentences: list[tuple[int, int]], before: matrix.RowOrders | None = None
) -> matrix.RowOrders:
    def table(places: list[tuple[int, int]], taken: int) -> tuple[NDArray[np.int64], matrix.VectorColumns]:
        ordinals, parts = [ordinal for ordinal, _ in places], [part for _, part in places]
        made = columns(len(places))._replace(
            ordinals=np.array(ordinals, dtype=np.int64), parts=np.array(parts, dtype=np.int32)
        )
        return taken + np.arange(len(places)), made

    taken = (0, 0) if before is None else (len(before[0].rows), int((before[1].rows >= 0).sum()))
    return matrix.build_orders(table([(ordinal, 0) for ordinal in whole], taken[0]), table(sentences, taken[1]), before)


def places(layout: matrix.RowOrder) -> list[tuple[int, int, int]]:
    return list(zip(layout.columns.ordinals.tolist(), layout.columns.parts.tolist(), layout.rows.tolist(), strict=True))


def test_a_record_without_sentences_is_one_itself() -> None:
    whole, sentences = laid([0, 7, 1], [(0, 0), (0, 1)])
    assert places(whole) == [(0, 0, ~0), (1, 0, ~2), (7, 0, ~1)]
    assert places(sentences) == [(0, 0, 0), (0, 1, 1), (1, 0, ~2), (7, 0, ~1)]
    assert [places(layout) for layout in laid([1], [])] == [[(1, 0, ~0)], [(1, 0, ~0)]]


@given(
    records=st.lists(st.tuples(st.integers(0, 40), st.integers(0, 3)), unique_by=lambda record: record[0], max_size=20),
    cut=st.integers(0, 20),
)
def test_a_layout_that_grew_is_as_one_made_at_once(records: list[tuple[int, int]], cut: int) -> None:
    def given_up_to(some: list[tuple[int, int]]) -> tuple[list[int], list[tuple[int, int]]]:
        return [ordinal for ordinal, _ in some], [(ordinal, part) for ordinal, parts in some for part in range(parts)]

    grown = laid(*given_up_to(records[cut:]), before=laid(*given_up_to(records[:cut])))
    assert [places(each) for each in grown] == [places(each) for each in laid(*given_up_to(records))]


def matrix_of(rows: int) -> matrix.UserMatrix:
    made = matrix.UserMatrix(96)
    made.append(columns(rows), vectors(rows), np.ones(rows, dtype=np.bool_))
    return made


def test_the_cache_keeps_to_its_budget() -> None:
    one = matrix_of(100).size_bytes
    cache = matrix.MatrixCache(one * 2)
    for user_id in ("a", "b", "a", "c"):
        cache.get_or_create(user_id, lambda: matrix_of(100))
        cache.evict(user_id)
    assert cache.find_cached("b") is None
    assert cache.find_cached("a") is not None
    cache.get_or_create("large", lambda: matrix_of(5000))
    cache.evict("large")
    assert cache.find_cached("large") is None
    assert len(cache) == 2
