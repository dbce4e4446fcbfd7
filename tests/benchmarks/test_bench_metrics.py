"""The metrics, on rankings small enough to check by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from agentmem.errors import InvalidRecord
from tests.benchmarks.metrics import (
    MAX_CUTOFF,
    METRICS,
    RANKING_METRICS,
    ConfigurationScores,
    QuestionScores,
    bootstrap_interval,
    paired_difference,
    percentiles,
    score_context,
    score_ranking,
)


def values(ranking: list[str], evidence: str) -> dict[str, float]:
    """By name."""
    return dict(zip(RANKING_METRICS, score_ranking(ranking, evidence), strict=True))


def asked(name: str, category: str, evidence: int, value: float, dataset: str = "d") -> QuestionScores:
    """A question with the same value everywhere."""
    return QuestionScores(name, dataset, "dialogue", category, evidence, (value,) * len(METRICS))


def test_a_ranking_by_hand() -> None:
    row = values(["a", "x", "b", "y"], "abc")
    assert row["R@1"] == pytest.approx(1 / 3)
    assert row["R@3"] == row["R@50"] == pytest.approx(2 / 3)
    assert row["MRR"] == row["any@1"] == 1
    assert row["all@50"] == 0
    assert row["nDCG@10"] == pytest.approx((1 + 1 / 2) / (1 + 1 / math.log2(3) + 1 / 2))


def test_all_needs_every_piece_of_evidence() -> None:
    row = values(["x", "a", "b"], "ab")
    assert (row["all@1"], row["all@3"], row["any@1"], row["any@3"]) == (0, 1, 0, 1)


def test_the_reciprocal_rank_is_cut_at_20_and_the_gain_at_10() -> None:
    fillers = [f"x{n}" for n in range(MAX_CUTOFF)]
    assert values([*fillers[:19], "a"], "a")["MRR"] == 1 / 20
    late = values([*fillers[:20], "a"], "a")
    assert late["MRR"] == late["nDCG@10"] == late["R@20"] == 0
    assert late["R@50"] == 1
    assert values([*fillers[:50], "a"], "a")["R@50"] == 0


def test_more_evidence_than_places_has_an_ideal_of_ten() -> None:
    many = [chr(97 + n) for n in range(12)]
    assert values(many, "".join(many))["nDCG@10"] == pytest.approx(1)


def test_an_empty_ranking_scores_nothing() -> None:
    assert score_ranking([], "a") == (0.0,) * len(RANKING_METRICS)


def test_repeats_and_missing_evidence_are_refused() -> None:
    with pytest.raises(InvalidRecord, match="must not repeat"):
        score_ranking(["a", "a"], "a")
    with pytest.raises(InvalidRecord, match="evidence must not be empty"):
        score_ranking(["a"], "")


def test_context_is_the_share_rendered_whole() -> None:
    assert score_context({"a", "x"}, "ab") == 0.5
    assert score_context(set(), "ab") == 0


def test_the_interval_holds_the_mean_and_repeats_itself() -> None:
    column = np.array([0.0, 1.0] * 50)
    found = bootstrap_interval(column)
    assert found == bootstrap_interval(column)
    assert found.mean == 0.5
    # the standard error of the mean is .05
    assert found.low == pytest.approx(0.5 - 1.96 * 0.05, abs=0.015)
    assert found.high == pytest.approx(0.5 + 1.96 * 0.05, abs=0.015)


def test_the_interval_does_not_depend_on_how_the_resampling_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    column = np.random.default_rng(3).random(37)
    whole = bootstrap_interval(column)
    monkeypatch.setattr("tests.benchmarks.metrics._MAX_RESAMPLED_CELLS", 37 * 60)
    assert bootstrap_interval(column) == whole


def test_what_was_not_measured_is_left_out_of_an_interval() -> None:
    assert bootstrap_interval(np.array([math.nan, 1.0])).mean == 1
    assert math.isnan(bootstrap_interval(np.array([math.nan])).mean)


def test_pairs_are_compared_question_by_question() -> None:
    first = ConfigurationScores("first", [asked(f"q{n}", "c", 1, n / 10 + 0.25) for n in range(10)])
    second = ConfigurationScores("second", [asked(f"q{n}", "c", 1, n / 10) for n in range(10)])
    found = paired_difference(first, second, "R@10")
    assert (found.mean, found.low, found.high) == pytest.approx((0.25, 0.25, 0.25))
    with pytest.raises(InvalidRecord, match="same questions"):
        paired_difference(first, ConfigurationScores("third", second.questions[1:]), "R@10")


def test_groups_are_all_then_categories_then_evidence() -> None:
    scores = ConfigurationScores("s", [asked("q1", "b", 1, 0), asked("q2", "a", 4, 0), asked("q3", "b", 9, 0, "other")])
    sizes = {label: int(mask.sum()) for label, mask in scores.groups().items()}
    assert list(sizes.items()) == [("all", 3), ("a", 1), ("b", 2), ("1 evidence turn", 1), ("4+ evidence turns", 2)]
    assert scores.datasets() == ["d", "other"]
    assert [question.id for question in scores.for_dataset("other").questions] == ["q3"]


def test_percentiles_are_in_milliseconds() -> None:
    assert percentiles([]) == {"n": 0}
    found = percentiles([n / 1000 for n in range(1, 102)])
    assert found == pytest.approx({"n": 101, "p50_ms": 51, "p95_ms": 96, "max_ms": 101})
