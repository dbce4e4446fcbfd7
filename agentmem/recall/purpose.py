"""What serves an active goal ranks a little higher: what was said where it came up, and what is about the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from agentmem.model.outline import Bools, Ints
from agentmem.model.ranking import Doubles, nan_to_zero
from agentmem.model.records import Goal, Record
from agentmem.recall.technique import SearchContext

MAX_GOALS = 3  # goals that count: what serves every one of many serves none
# how far a record of a goal's conversation serves it, whatever it says; a cosine says the rest
SAME_CONVERSATION_SCORE = 0.5


async def goal_boost(
    shortlists: Mapping[str, Ints], context: SearchContext, records: Mapping[int, Record], weight: float
) -> dict[str, Doubles]:
    """The factor of the shortlisted records, from 1 to 1 + `weight`; nothing where there is no active goal."""
    goals = _active_goals(context, records)
    ordinals = np.concatenate(
        [*(each for kind, each in shortlists.items() if kind != "Goal"), np.zeros(0, dtype=np.int64)]
    )
    if not goals or not weight or not len(ordinals):
        return {}
    serves = np.where(
        _goal_conversation_mask(context, ordinals, [records[ordinal] for ordinal in goals]),
        SAME_CONVERSATION_SCORE,
        0.0,
    )
    if context.vectors is not None:
        left, right = np.repeat(np.array(goals, dtype=np.int64), len(ordinals)), np.tile(ordinals, len(goals))
        cosines = nan_to_zero(await context.vectors.score_pairs(left, right, context.scope)).reshape(
            len(goals), len(ordinals)
        )
        serves = np.maximum(serves, cosines.max(axis=0))
    factor = np.ones(context.columns.size)
    factor[ordinals] = 1.0 + weight * np.clip(serves, 0.0, 1.0)
    return {"goal": factor}


def open_goals_first(ordinals: Ints, context: SearchContext, records: Mapping[int, Record]) -> Ints:
    """Goals with those still to be reached first, of these the one that the conversation pursues, else as they were."""
    here = context.scope.conversation_id

    def place(ordinal: int) -> int:
        goal = records.get(ordinal)
        if not isinstance(goal, Goal) or not goal.is_open:
            return 2
        return 0 if here and goal.pursued_in == here else 1

    return np.array(sorted((int(ordinal) for ordinal in ordinals), key=place), dtype=np.int64)


def _active_goals(context: SearchContext, records: Mapping[int, Record]) -> list[int]:
    """The slots of the active goals that count: the one pursued here first, then the most urgent."""
    here = context.scope.conversation_id
    found = [(ordinal, goal) for ordinal, goal in records.items() if isinstance(goal, Goal) and goal.is_open]
    active = [(ordinal, goal) for ordinal, goal in found if goal.goal_status == "active"]
    active.sort(key=lambda each: (not here or each[1].pursued_in != here, -each[1].priority, each[1].seq))
    return [ordinal for ordinal, _ in active[:MAX_GOALS]]


def _goal_conversation_mask(context: SearchContext, ordinals: Ints, goals: Sequence[Record]) -> Bools:
    """Whether a record was said, or learned from what was said, where one of these goals came up or is pursued."""
    columns = context.columns
    named = [name for goal in goals if isinstance(goal, Goal) for name in (goal.conversation_id, goal.pursued_in)]
    codes = [code for name in named if name and (code := columns.conversations.find_code(name)) >= 0]
    source = columns.turn[ordinals]
    place = np.where(source >= 0, columns.conversation[np.maximum(source, 0)], columns.conversation[ordinals])
    return np.isin(place, codes)
