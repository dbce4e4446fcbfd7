"""Facts that are about to be forgotten come up among the answers to what they are about, so that use can keep them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import numpy as np

from agentmem.model.decay import DecayPolicy, review_priority
from agentmem.model.dues import decay_score_now
from agentmem.model.outline import Ints
from agentmem.model.ranking import Doubles, ScoreList, interleave, nan_to_zero
from agentmem.model.records import Fact, Record
from agentmem.recall.options import RankingOptions
from agentmem.stores import RecordUsage

REVIEW_FACTOR = "review"


def due_reviews(
    records: Mapping[int, Record], usage_by_ordinal: Mapping[int, RecordUsage], now: datetime, decay: DecayPolicy
) -> dict[int, float]:  # fmt: skip
    """The short-lived facts among these that are in the danger zone now, with their review priority, by slot."""
    found = {}
    for ordinal, fact in records.items():
        if isinstance(fact, Fact) and fact.tier == "short":
            score = decay_score_now(fact, usage_by_ordinal.get(ordinal), now, decay)
            found[ordinal] = review_priority(score, decay.danger_low, decay.danger_high)
    return {ordinal: priority for ordinal, priority in found.items() if priority > 0}


def interleave_due(
    order: Ints, lists: Mapping[str, ScoreList], due: Mapping[int, float], options: RankingOptions
) -> Ints:  # fmt: skip
    """The facts of a ranking with those that are `due` for review raised among them, the most urgent first.

    Only those are raised that fit the question: one of the lists that were fused gives them at least `review_fit` of
    what it gives the best fact.
    """
    if not due or not len(order) or not options.review:
        return order
    fit = np.zeros(len(order), dtype=np.bool_)
    for ranked in lists.values():
        if ranked.combine == "scaled":
            values = nan_to_zero(ranked.values[order])
            fit |= (values > 0) & (values >= options.review_fit * values.max())
    places = {int(ordinal): place for place, ordinal in enumerate(order)}
    fitting = [ordinal for ordinal in due if ordinal in places and fit[places[ordinal]]]
    fitting.sort(key=lambda ordinal: (-due[ordinal], places[ordinal]))
    return np.array(interleave([int(ordinal) for ordinal in order], fitting, options.review), dtype=np.int64)


def review_factor(old_order: Ints, new_order: Ints, due: Mapping[int, float], size: int) -> dict[str, Doubles]:
    """Who came to a better place for being due, as a column for the receipt: 1 and the priority, 1 for all others."""
    places = {int(ordinal): place for place, ordinal in enumerate(old_order)}
    column = np.ones(size)
    for place, ordinal in enumerate(int(ordinal) for ordinal in new_order):
        if ordinal in due and place < places[ordinal]:
            column[ordinal] += due[ordinal]
    return {REVIEW_FACTOR: column} if (column > 1).any() else {}
