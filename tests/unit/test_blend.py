"""Facts that are about to be forgotten are raised among others, by the pattern of document 003."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentmem.core.ranking import ScoreList, interleave
from agentmem.recall.options import RankingOptions, parse_options
from agentmem.recall.scoring import interleave_due

PRIMARY, REVIEW = [1, 2, 3, 4, 5, 6, 7], [11, 12, 13]
OPTIONS = RankingOptions()


def test_the_flow_of_the_document() -> None:
    """Seven matches and three that are due and fit: two, then one for review, and so on; five are returned."""
    found = interleave([*PRIMARY, *REVIEW], REVIEW, OPTIONS.review)
    assert found == [1, 2, 11, 3, 4, 12, 5, 6, 13, 7]
    assert found[:5] == [1, 2, 11, 3, 4]


@pytest.mark.parametrize(
    "ratio, found",
    [(0.0, [1, 2, 3, 11, 12]), (0.3, [1, 2, 11, 3, 12]), (0.5, [1, 11, 2, 12, 3]), (1.0, [11, 12, 1, 2, 3])],
)
def test_the_ratio_says_how_many_places_go_to_reviews(ratio: float, found: list[int]) -> None:
    assert interleave([1, 2, 3, 11, 12], [11, 12], ratio) == found


def test_three_in_ten_places_are_the_ratio() -> None:
    found = interleave(list(range(30)), list(range(20, 30)), OPTIONS.review)
    assert sum(item >= 20 for item in found[:10]) == 3


@settings(derandomize=True, max_examples=25)
@given(st.permutations(range(12)), st.sets(st.integers(0, 11)), st.floats(0, 1))
def test_nothing_is_lost_and_the_rest_keeps_its_order(order: list[int], due: set[int], ratio: float) -> None:
    found = interleave(order, sorted(due), ratio)
    assert sorted(found) == sorted(order)
    assert [item for item in found if item not in due] == [item for item in order if item not in due]
    assert interleave(order, [], ratio) == order
    for item in due:
        assert interleave(order, [item], ratio).index(item) <= order.index(item), "to be due is no reason to fall"


def lists(**values: list[float]) -> dict[str, ScoreList]:
    return {name: ScoreList(np.array(each, dtype=np.float32)) for name, each in values.items()}


def test_only_what_fits_the_question_is_raised() -> None:
    order, nan = np.array([0, 1, 2, 3, 4]), float("nan")
    near = lists(whole=[0.8, 0.7, 0.6, 0.5, 0.3], words=[3.0, nan, nan, nan, nan])
    assert interleave_due(order, near, {3: 0.5, 4: 1.0}, OPTIONS).tolist() == [0, 1, 3, 2, 4]
    assert interleave_due(order, near, {4: 1.0}, OPTIONS).tolist() == [0, 1, 2, 3, 4]
    said = lists(whole=[0.8, 0.7, 0.6, 0.5, 0.3], words=[3.0, nan, nan, nan, 2.0])
    assert interleave_due(order, said, {4: 1.0}, OPTIONS).tolist() == [0, 1, 4, 2, 3]
    bonus = {"asks": ScoreList(np.ones(5, dtype=np.float32), "bonus")}
    for nothing in ({}, bonus, lists(whole=[nan] * 5), lists(whole=[0.0] * 5), lists(whole=[-0.2] * 5)):
        assert interleave_due(order, nothing, {4: 1.0}, OPTIONS).tolist() == order.tolist()
    assert interleave_due(order, near, {}, OPTIONS) is order


def test_the_more_urgent_comes_first() -> None:
    order, near = np.arange(7), lists(whole=[1.0] * 7)
    assert interleave_due(order, near, {5: 0.2, 6: 0.9}, OPTIONS).tolist() == [0, 1, 6, 2, 3, 5, 4]


def test_the_ratio_is_a_setting() -> None:
    assert parse_options({"ranking": {"review": 0.0}}).ranking.review == 0.0
    assert OPTIONS.review == 0.3
