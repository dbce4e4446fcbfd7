"""Fusion and factors: pure arithmetic over columns."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentmem.core.columns import RecordColumnBatch, RecordColumns, RecordRow
from agentmem.core.ranking import (
    ScoreList,
    add_bonus,
    apply_factors,
    diversify,
    fuse,
    minmax,
    recency_factor,
    reciprocal_ranks,
    salience_factor,
    temporal_factor,
    top_k,
    trust_factor,
    zscore,
)

NOW = datetime(2025, 6, 1, tzinfo=UTC)


def column(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float32)


def every(size: int) -> np.ndarray:
    return np.ones(size, dtype=np.bool_)


def build_columns(times: list[int], ids: list[str]) -> RecordColumns:
    made = RecordColumns()
    made.put(
        RecordColumnBatch.from_rows(
            RecordRow(
                slot=ordinal,
                seq=ordinal + 1,
                kind="Turn",
                id=name,
                channel="_global",
                status="active",
                conversation_id="c",
                position=0,
                speaker="",
                valid_from=time,
                valid_to=None,
                recorded_at=0,
                superseded_at=None,
                words=1,
                length=1,
                asks=0,
                salience=0.5,
                confidence=1.0,
            )
            for ordinal, (time, name) in enumerate(zip(times, ids, strict=True))
        ),
        len(ids),
    )
    return made


def test_minmax_scales_the_basis_as_if_it_were_alone() -> None:
    basis = np.array([True, True, True, False, False])
    assert minmax(column(1, 2, 3, 5, 3), basis, every(5)).tolist() == [0.0, 0.5, 1.0, 1.0, 0.5]
    assert minmax(column(1, 2, 5, 3, 2), basis, every(5)).tolist() == [0.0, 0.25, 1.0, 0.5, 0.25]


def test_minmax_credits_the_rest_where_the_basis_is_all_equal() -> None:
    assert minmax(column(0, 0, 4), np.array([True, True, False]), every(3)).tolist() == [0.0, 0.0, 1.0]


def test_minmax_of_the_unknown_and_of_what_is_all_equal() -> None:
    assert minmax(column(1, np.nan, 3), every(3)).tolist() == [0.0, 0.0, 1.0]
    assert minmax(column(2, 2, np.nan), every(3)).tolist() == [1.0, 1.0, 0.0]
    assert minmax(column(0, 0), every(2)).tolist() == [0.0, 0.0]
    assert minmax(column(1, 2), ~every(2)).tolist() == [0.0, 0.0]


def test_zscore_keeps_the_unknown_unknown() -> None:
    scores = zscore(column(1, np.nan, 3), every(3))
    assert scores[[0, 2]] == pytest.approx([-1, 1])
    assert np.isnan(scores[1])


def test_reciprocal_ranks_share_the_better_rank() -> None:
    assert reciprocal_ranks(column(5, 7, 5, np.nan), every(4), k=1) == pytest.approx([2 / 3, 1, 2 / 3, 0])


def test_fuse_takes_the_mean_of_scaled_lists_and_adds_the_others() -> None:
    lists = {
        "words": ScoreList(column(0, 5, 10)),
        "whole": ScoreList(column(1, 0, 0)),
        "speaker": ScoreList(column(0, 0.25, np.nan), "bonus"),
    }
    fused = fuse(lists, np.array([True, True, True]), every(3))
    assert fused.scores == pytest.approx([0.5, 0.5, 0.5])
    assert fused.weight_sum == 2


def test_fuse_leaves_out_what_is_not_eligible_and_scores_zero_without_lists() -> None:
    fused = fuse({}, np.array([True, False]), every(2))
    assert fused.scores.tolist() == [0.0, -np.inf]


def test_plus_adds_a_list_later() -> None:
    eligible = np.array([True, True, False])
    fused = add_bonus(fuse({"words": ScoreList(column(0, 1, 1))}, eligible, eligible), "bonus", column(0.5, 0, 9))
    assert fused.scores.tolist() == [0.5, 1.0, -np.inf]
    assert set(fused.lists) == {"words", "bonus"}


def test_reciprocal_fusion_ignores_how_far_apart_values_are() -> None:
    far = {"words": ScoreList(column(0, 1, 1000))}
    near = {"words": ScoreList(column(0, 1, 2))}
    scores = [fuse(lists, every(3), every(3), method="rrf").scores.tolist() for lists in (far, near)]
    assert scores[0] == scores[1]


def test_best_breaks_ties_by_time_then_id() -> None:
    made = build_columns([3, 1, 1, 2], ["a", "c", "b", "d"])
    order = top_k(np.array([1.0, 1.0, 1.0, 2.0]), np.arange(4), 10, made)
    assert [made.ids[ordinal] for ordinal in order] == ["d", "b", "c", "a"]


def test_best_keeps_ties_at_the_cut_in_order_and_drops_the_ineligible() -> None:
    made = build_columns([2, 1, 0], ["a", "b", "c"])
    assert top_k(np.array([1.0, 1.0, -np.inf]), np.arange(3), 1, made).tolist() == [1]
    assert top_k(np.array([1.0, 1.0, 1.0]), np.arange(3), 0, made).tolist() == []


@given(st.lists(st.integers(0, 5), min_size=1, max_size=40), st.integers(1, 40))
def test_best_is_the_head_of_the_whole_ranking(values: list[int], limit: int) -> None:
    made = build_columns([7] * len(values), [f"id{n:03}" for n in range(len(values))])
    scores = np.array(values, dtype=np.float64)
    expected = sorted(range(len(values)), key=lambda slot: (-scores[slot], slot))[:limit]
    assert top_k(scores, np.arange(len(values)), limit, made).tolist() == expected


def test_spread_out_moves_repeats_behind_and_leaves_the_ungrouped() -> None:
    group = np.array([0, 0, 0, 1, -1, -1])
    order = np.array([0, 1, 2, 3, 4, 5])
    assert diversify(order, group, 1).tolist() == [0, 3, 4, 5, 1, 2]
    assert diversify(order, group, 2).tolist() == [0, 1, 3, 4, 5, 2]
    assert diversify(order, group, 0).tolist() == order.tolist()


@given(st.floats(-5, 5), st.floats(0.1, 3))
def test_factors_point_the_same_way_on_both_sides_of_zero(score: float, factor: float) -> None:
    (changed,) = apply_factors(np.array([score]), np.array([factor]))
    assert (changed - score) * (factor - 1) >= 0


def test_factors_have_their_stated_values() -> None:
    assert [salience_factor(value) for value in (0, 0.5, 1)] == [0.75, 1.0, 1.25]
    assert [trust_factor(value) for value in (0, 1)] == [0.5, 1.0]
    assert [temporal_factor(label) for label in ("current", "past", "future", "")] == [1.2, 0.7, 1.0, 1.0]


def test_recency_fades_with_days_more_slowly_for_what_is_used_often() -> None:
    week = NOW - timedelta(days=7)
    assert recency_factor(None, 9, NOW) == 1.0
    assert recency_factor(NOW, 0, NOW) == pytest.approx(1.1)
    assert recency_factor(NOW + timedelta(days=1), 0, NOW) == pytest.approx(1.1)
    assert 1.0 < recency_factor(week, 1, NOW) < recency_factor(week, 100, NOW) < 1.1
    assert recency_factor(week, 1, NOW, weight=0) == 1.0
