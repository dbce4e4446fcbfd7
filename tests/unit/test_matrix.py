"""Scores are the same bit by bit, however the rows came to lie in blocks, and as near to the truth as they claim."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from agentmem.stores.sqlite import matrix as m

RNG = np.random.default_rng(7)


def vectors(rows: int, dimensions: int = 96) -> NDArray[np.float16]:
    drawn = np.random.default_rng(rows * 1000 + dimensions).standard_normal((rows, dimensions))
    return np.asarray(drawn / np.linalg.norm(drawn, axis=1)[:, None], dtype=np.float16)


def part(halves: NDArray[np.float16], first: int = 0) -> m.Part:
    rows = len(halves)
    return m.Part(
        ids=np.arange(first + 1, first + rows + 1),
        slots=np.arange(first, first + rows),
        parts=np.zeros(rows, dtype=np.int32),
        kinds=(np.arange(first, first + rows) % 2).astype(np.int32),
        channels=(np.arange(first, first + rows) % 3).astype(np.int32),
        asks=np.zeros(rows, dtype=np.bool_),
        halves=halves,
    )


def filled(halves: NDArray[np.float16], cuts: list[int], *, small: bool) -> m.Table:
    table = m.Table(halves.shape[1], small=small)
    edges = [0, *sorted({min(cut, len(halves)) for cut in cuts} - {0}), len(halves)]
    for start, end in pairwise(edges):
        table.append(part(halves[start:end], start))
    return table


def everything(kinds: list[bool] | None = None, channels: list[bool] | None = None) -> m.Allowed:
    return m.Allowed(None if kinds is None else np.array(kinds), np.array(channels or [True] * 3))


def cosines(halves: NDArray[np.float16], query: NDArray[np.float32]) -> NDArray[np.float64]:
    rows, q = halves.astype(np.float64), query.astype(np.float64)
    return np.asarray(rows @ q / np.linalg.norm(rows, axis=1) / np.linalg.norm(q))


@given(
    cuts=st.lists(st.integers(1, 1400), max_size=6),
    kinds=st.none() | st.lists(st.booleans(), min_size=2, max_size=2),
    small=st.booleans(),
)
def test_scores_do_not_depend_on_how_rows_came_in(cuts: list[int], kinds: list[bool] | None, small: bool) -> None:
    halves = vectors(1400)
    probe = m.Probe(np.sin(np.arange(96, dtype=np.float32)))
    allowed = everything(kinds, [True, False, True])
    at_once = m.scored(filled(halves, [], small=small).view(), probe, allowed)
    in_pieces = m.scored(filled(halves, cuts, small=small).view(), probe, allowed)
    one_by_one = [
        m.scored(filled(halves[i : i + 1], [], small=small).view(), probe, everything()).units for i in range(40)
    ]
    for first, second in zip(at_once, in_pieces, strict=True):
        np.testing.assert_array_equal(first, second)
    alone = np.concatenate(one_by_one)
    near = at_once.slots < 40
    np.testing.assert_array_equal(at_once.units[near], alone[at_once.slots[near]])


@pytest.mark.parametrize("dimensions", [1, 3, 64, 384, 1536])
def test_whole_passages_are_exact_to_a_unit(dimensions: int) -> None:
    halves, query = vectors(700, dimensions), RNG.standard_normal(dimensions).astype(np.float32)
    units = m.exact_units(m.unit_rows(halves), m.Probe(query))
    assert np.abs(units - cosines(halves, query) * m.UNITS).max() < 0.51


def test_no_rounding_hangs_on_the_last_bit() -> None:
    """Of so many sums near 1, some lie within a float32's error of a rounding edge."""
    towards = vectors(1)[0].astype(np.float32)
    rows, probe = m.unit_rows((vectors(60_000) * 0.3 + towards).astype(np.float16)), m.Probe(towards)
    true = np.rint(np.add.reduce(rows.astype(np.float64) * probe.wide, axis=1) * m.UNITS)
    assert (np.rint(rows @ probe.single * np.float32(m.UNITS)) != true).sum() > 10
    np.testing.assert_array_equal(m.exact_units(rows, probe), true)


@pytest.mark.parametrize("dimensions", [3, 64, 384, 1536])
def test_sentences_are_near(dimensions: int) -> None:
    halves, query = vectors(700, dimensions), RNG.standard_normal(dimensions).astype(np.float32)
    units = m.near_units(*m.quantised(m.unit_rows(halves)), m.Probe(query))
    assert np.abs(units - cosines(halves, query) * m.UNITS).max() < 60


@pytest.mark.parametrize("dimensions", [2, 384, 3072])
def test_sums_of_sentences_stay_in_the_exact_range(dimensions: int) -> None:
    """The worst case: a row of nothing but the largest value, and a query that points the same way."""
    probe = m.Probe(np.ones(dimensions, dtype=np.float32))
    worst = np.full(dimensions, m.LEVELS, dtype=np.float64) @ np.abs(probe.whole_numbers.astype(np.float64))
    assert worst <= m.EXACT
    rows = np.full((5, dimensions), m.LEVELS, dtype=np.int8)
    scales = np.full(5, 1 / (m.LEVELS * np.sqrt(dimensions)), dtype=np.float32)
    assert m.near_units(rows, scales, probe).tolist() == [m.UNITS] * 5


def test_zero_vectors_score_zero() -> None:
    rows = m.unit_rows(np.zeros((3, 8), dtype=np.float16))
    probe = m.Probe(np.ones(8, dtype=np.float32))
    assert m.exact_units(rows, probe).tolist() == [0, 0, 0]
    assert m.near_units(*m.quantised(rows), probe).tolist() == [0, 0, 0]
    assert m.exact_units(m.unit_rows(vectors(3, 8)), m.Probe(np.zeros(8, dtype=np.float32))).tolist() == [0, 0, 0]


def test_nothing_is_moved_when_a_table_grows() -> None:
    table = m.Table(8, small=True)
    table.append(part(vectors(300, 8)))
    first = table.chunks[0].vectors
    held = table.view()
    table.append(part(vectors(20_000, 8), 300))
    assert table.chunks[0].vectors is first
    assert sum(count for _, count in held) == 300
    assert sum(count for _, count in table.view()) == table.count == 20_300
    assert max(chunk.room for chunk in table.chunks) == m.LARGEST_CHUNK


def test_rows_taken_out_are_hidden_and_overwritten() -> None:
    halves = vectors(10)
    table = filled(halves, [4], small=False)
    table.hide(np.array([2, 3]))
    table.keep(np.array([1, 4, 5, 6, 7, 8, 9, 99]))
    found = m.scored(table.view(), m.Probe(np.ones(96, dtype=np.float32)), everything())
    assert (found.slots + 1).tolist() == [1, 4, 5, 6, 7, 8, 9]
    assert table.dead == 3
    assert not table.chunks[0].vectors[1:3].any()


def found(units: list[int], ids: list[int] | None = None) -> m.Found:
    rows = len(units)
    return m.Found(
        ids=np.array(ids if ids is not None else range(1, rows + 1)),
        slots=np.arange(rows) // 2,
        parts=(np.arange(rows) % 2).astype(np.int32),
        asks=np.zeros(rows, dtype=np.bool_),
        units=np.array(units, dtype=np.int32),
    )


def test_ties_at_the_cut_are_rescored_together_or_not_at_all() -> None:
    assert m.to_rescore(found([5, 9, 5, 1]), 2).tolist() == [0, 1, 2]
    assert m.to_rescore(found([9, *[5] * 20]), 2).tolist() == [0]
    assert m.to_rescore(found([5, 9, 5, 1], ids=[1, -1, 3, -1]), 9).tolist() == [0, 2]
    assert m.to_rescore(found([]), 2).tolist() == []


def test_best_come_first_and_ties_by_place() -> None:
    scores = m.in_order(found([5, 9, 5, 9, 1]), 3)
    assert [(slot, part) for slot, part in zip(scores.slots, scores.parts, strict=True)] == [(0, 1), (1, 1), (0, 0)]
    assert scores.scores.tolist() == [np.float32(9) / np.float32(10_000)] * 2 + [np.float32(5) / np.float32(10_000)]
    assert m.in_order(found([1, 2]), 0).slots.tolist() == []
    assert m.in_order(found([3, 1, 2]), None).slots.tolist() == [0, 0, 1]


def test_a_record_without_sentences_is_one_itself() -> None:
    whole = m.Found(
        np.full(3, -1), np.array([0, 1, 7]), np.zeros(3, np.int32), np.zeros(3, np.bool_), np.array([1, 2, 3], np.int32)
    )
    both = m.as_sentences(found([5, 6]), whole)
    assert sorted(zip(both.slots.tolist(), both.units.tolist(), strict=True)) == [(0, 5), (0, 6), (1, 2), (7, 3)]
    assert m.as_sentences(m.joined([]), whole).slots.tolist() == [0, 1, 7]


def matrix_of(rows: int) -> m.UserMatrix:
    made = m.UserMatrix(96)
    made.append(part(vectors(rows)), np.ones(rows, dtype=np.bool_))
    return made


def test_the_cache_keeps_to_its_budget() -> None:
    one = matrix_of(100).size
    cache = m.MatrixCache(one * 2)
    for user_id in ("a", "b", "a", "c"):
        cache.find(user_id, lambda: matrix_of(100))
        cache.settle(user_id)
    assert cache.peek("b") is None
    assert cache.peek("a") is not None
    cache.find("large", lambda: matrix_of(5000))
    cache.settle("large")
    assert cache.peek("large") is None
    assert len(cache) == 2
