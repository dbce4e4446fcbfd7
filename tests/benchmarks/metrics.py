"""Retrieval metrics over evidence turns, with bootstrap intervals (Efron & Tibshirani 1993, percentile method).

A question is answered by its evidence: the ids of the turns that hold the answer. Recall@k is the share of them among
the first k of the ranking; all@k and any@k say whether all or any of them are there; the reciprocal rank of the first
one counts to rank 20; nDCG@10 has gain 1 and discount log2(rank + 1) (Järvelin & Kekäläinen 2002). `context` is the
share of the evidence that is rendered whole in a context. Every figure of a group is the mean over its questions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from agentmem.errors import InvalidRecord

CUTOFFS = (1, 3, 5, 10, 20, 50)
MAX_CUTOFF = max(CUTOFFS)
MRR_CUTOFF = 20
NDCG_CUTOFF = 10
RANKING_METRICS = (
    *(f"R@{k}" for k in CUTOFFS),
    "MRR",
    f"nDCG@{NDCG_CUTOFF}",
    *(f"all@{k}" for k in CUTOFFS),
    *(f"any@{k}" for k in CUTOFFS),
)
CONTEXT_METRIC = "context"
METRICS = (*RANKING_METRICS, CONTEXT_METRIC)
RESAMPLES = 2000
# Resampled cells held in memory at once (int64: 32 MB).
_MAX_RESAMPLED_CELLS = 4_000_000

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean with its 95 % interval; all three are NaN for a group without values."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class QuestionScores:
    """One scored question and its values, in the order of METRICS; NaN where something was not measured."""

    id: str
    dataset: str
    dialogue: str
    category: str
    evidence: int
    values: tuple[float, ...]


@dataclass
class ConfigurationScores:
    """What one configuration reached, question by question."""

    name: str
    questions: list[QuestionScores] = field(default_factory=list)

    def column(self, metric: str) -> Floats:
        """One metric of every question, in the order asked."""
        place = METRICS.index(metric)
        return np.array([question.values[place] for question in self.questions], dtype=np.float64)

    def groups(self) -> dict[str, NDArray[np.bool_]]:
        """Masks by name: `all`, each category, then by evidence turns (1, 2, 3, 4+); empty groups are left out."""
        found = {"all": np.ones(len(self.questions), dtype=bool)}
        categories = np.array([question.category for question in self.questions])
        for category in sorted(set(categories.tolist())):
            found[category] = categories == category
        counts = np.array([min(4, question.evidence) for question in self.questions])
        for count, label in (
            (1, "1 evidence turn"),
            (2, "2 evidence turns"),
            (3, "3 evidence turns"),
            (4, "4+ evidence turns"),
        ):
            found[label] = counts == count
        return {label: mask for label, mask in found.items() if mask.any()}

    def for_dataset(self, dataset: str) -> ConfigurationScores:
        """The questions of one data set alone."""
        return ConfigurationScores(self.name, [question for question in self.questions if question.dataset == dataset])

    def datasets(self) -> list[str]:
        """The data sets asked about, in the order they came."""
        return list(dict.fromkeys(question.dataset for question in self.questions))


def score_ranking(ranking: Sequence[str], evidence: Iterable[str]) -> tuple[float, ...]:
    """The values of RANKED for one ranking, best first; an empty ranking scores 0.

    Raises InvalidRecord when the ranking repeats an id or there is no evidence.
    """
    wanted = frozenset(evidence)
    if not wanted:
        raise InvalidRecord("evidence must not be empty", field="evidence")
    if len(set(ranking)) != len(ranking):
        raise InvalidRecord("a ranking must not repeat an id", field="ranking")
    hits = np.zeros(MAX_CUTOFF)
    hits[: len(ranking)] = [item in wanted for item in ranking[:MAX_CUTOFF]]
    recall = [float(hits[:k].sum()) / len(wanted) for k in CUTOFFS]
    first = np.flatnonzero(hits[:MRR_CUTOFF])
    reciprocal = 1 / (int(first[0]) + 1) if len(first) else 0.0
    discount = 1 / np.log2(np.arange(NDCG_CUTOFF) + 2)
    ideal = float(discount[: len(wanted)].sum())
    gain = float(hits[:NDCG_CUTOFF] @ discount) / ideal
    complete = [float(share == 1.0) for share in recall]
    some = [float(share > 0.0) for share in recall]
    return (*recall, reciprocal, gain, *complete, *some)


def score_context(rendered: Iterable[str], evidence: Iterable[str]) -> float:
    """The share of the evidence among the ids rendered whole."""
    wanted = frozenset(evidence)
    return len(wanted.intersection(rendered)) / len(wanted)


def bootstrap_interval(values: Floats, *, resamples: int = RESAMPLES, seed: int = 0) -> Interval:
    """The mean of the values and its 95 % percentile interval from resampling them; NaNs are left out."""
    known = values[~np.isnan(values)]
    if not len(known):
        return Interval(float("nan"), float("nan"), float("nan"))
    random = np.random.default_rng(seed)
    step = max(1, _MAX_RESAMPLED_CELLS // len(known))
    means = [
        known[random.integers(0, len(known), (min(step, resamples - done), len(known)))].mean(axis=1)
        for done in range(0, resamples, step)
    ]
    low, high = np.percentile(np.concatenate(means), (2.5, 97.5))
    return Interval(float(known.mean()), float(low), float(high))


def paired_difference(first: ConfigurationScores, second: ConfigurationScores, metric: str) -> Interval:
    """The mean of first minus second over the same questions, with its interval.

    Raises InvalidRecord when the two were not asked the same questions in the same order.
    """
    if [q.id for q in first.questions] != [q.id for q in second.questions]:
        raise InvalidRecord(f"{first.name} and {second.name} must be asked the same questions", field="asked")
    return bootstrap_interval(first.column(metric) - second.column(metric))


def percentiles(seconds: Sequence[float]) -> dict[str, float]:
    """`n`, `p50_ms`, `p95_ms` and `max_ms` of durations in seconds; without any, only `n`."""
    if not len(seconds):
        return {"n": 0}
    p50, p95 = np.percentile(np.asarray(seconds, dtype=np.float64) * 1000, (50, 95))
    return {"n": len(seconds), "p50_ms": float(p50), "p95_ms": float(p95), "max_ms": 1000 * float(max(seconds))}
