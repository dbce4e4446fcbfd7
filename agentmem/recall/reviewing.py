"""Facts that are about to be forgotten come up among the answers to what they are about, so that use can keep them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import numpy as np

from agentmem.model.decay import Fading, review_priority
from agentmem.model.dues import score_now
from agentmem.model.outline import Ints
from agentmem.model.ranking import Doubles, Ranked, blended, filled
from agentmem.model.records import Fact, Record
from agentmem.recall.options import RankingOptions
from agentmem.stores import Usage

REVIEW = "review"


def urgent(
    records: Mapping[int, Record], used: Mapping[int, Usage], now: datetime, decay: Fading
) -> dict[int, float]:  # fmt: skip
    """The short-lived facts among these that are in the danger zone now, with their review priority, by slot."""
    found = {}
    for slot, fact in records.items():
        if isinstance(fact, Fact) and fact.tier == "short":
            score = score_now(fact, used.get(slot), now, decay)
            found[slot] = review_priority(score, decay.danger_low, decay.danger_high)
    return {slot: priority for slot, priority in found.items() if priority > 0}


def with_reviews(
    order: Ints, lists: Mapping[str, Ranked], due: Mapping[int, float], options: RankingOptions
) -> Ints:  # fmt: skip
    """The facts of a ranking with those that are `due` for review raised among them, the most urgent first.

    Only those are raised that fit the question: one of the lists that were fused gives them at least `review_fit` of
    what it gives the best fact.
    """
    if not due or not len(order) or not options.review:
        return order
    fit = np.zeros(len(order), dtype=np.bool_)
    for ranked in lists.values():
        if ranked.enters == "scaled":
            values = filled(ranked.values[order])
            fit |= (values > 0) & (values >= options.review_fit * values.max())
    places = {int(slot): place for place, slot in enumerate(order)}
    fitting = [slot for slot in due if slot in places and fit[places[slot]]]
    fitting.sort(key=lambda slot: (-due[slot], places[slot]))
    return np.array(blended([int(slot) for slot in order], fitting, options.review), dtype=np.int64)


def raised(before: Ints, after: Ints, due: Mapping[int, float], size: int) -> dict[str, Doubles]:
    """Who came to a better place for being due, as a column for the receipt: 1 and the priority, 1 for all others."""
    places = {int(slot): place for place, slot in enumerate(before)}
    column = np.ones(size)
    for place, slot in enumerate(int(slot) for slot in after):
        if slot in due and place < places[slot]:
            column[slot] += due[slot]
    return {REVIEW: column} if (column > 1).any() else {}
