"""What serves an active goal ranks a little higher: what was said where it came up, and what is about the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from agentmem.model.outline import Bools, Ints
from agentmem.model.ranking import Doubles, filled
from agentmem.model.records import Goal, Record
from agentmem.recall.technique import Memory

MOST = 3  # goals that count: what serves every one of many serves none
SAME_PLACE = 0.5  # how far a record of a goal's conversation serves it, whatever it says; a cosine says the rest


async def purpose(
    lists: Mapping[str, Ints], memory: Memory, records: Mapping[int, Record], weight: float
) -> dict[str, Doubles]:
    """The factor of the shortlisted records, from 1 to 1 + `weight`; nothing where there is no active goal."""
    goals = _counting(memory, records)
    slots = np.concatenate([*(each for kind, each in lists.items() if kind != "Goal"), np.zeros(0, dtype=np.int64)])
    if not goals or not weight or not len(slots):
        return {}
    serves = np.where(_in_their_conversations(memory, slots, [records[slot] for slot in goals]), SAME_PLACE, 0.0)
    if memory.vectors is not None:
        left, right = np.repeat(np.array(goals, dtype=np.int64), len(slots)), np.tile(slots, len(goals))
        cosines = filled(await memory.vectors.between(left, right, memory.scope)).reshape(len(goals), len(slots))
        serves = np.maximum(serves, cosines.max(axis=0))
    factor = np.ones(memory.outline.size)
    factor[slots] = 1.0 + weight * np.clip(serves, 0.0, 1.0)
    return {"goal": factor}


def open_first(slots: Ints, memory: Memory, records: Mapping[int, Record]) -> Ints:
    """Goals with those still to be reached first, of these the one that the conversation pursues, else as they were."""
    here = memory.scope.conversation_id

    def place(slot: int) -> int:
        goal = records.get(slot)
        if not isinstance(goal, Goal) or not goal.open:
            return 2
        return 0 if here and goal.pursued_in == here else 1

    return np.array(sorted((int(slot) for slot in slots), key=place), dtype=np.int64)


def _counting(memory: Memory, records: Mapping[int, Record]) -> list[int]:
    """The slots of the active goals that count: the one pursued here first, then the most urgent."""
    here = memory.scope.conversation_id
    found = [(slot, goal) for slot, goal in records.items() if isinstance(goal, Goal) and goal.open]
    active = [(slot, goal) for slot, goal in found if goal.goal_status == "active"]
    active.sort(key=lambda each: (not here or each[1].pursued_in != here, -each[1].priority, each[1].seq))
    return [slot for slot, _ in active[:MOST]]


def _in_their_conversations(memory: Memory, slots: Ints, goals: Sequence[Record]) -> Bools:
    """Whether a record was said, or learned from what was said, where one of these goals came up or is pursued."""
    outline = memory.outline
    named = [name for goal in goals if isinstance(goal, Goal) for name in (goal.conversation_id, goal.pursued_in)]
    codes = [code for name in named if name and (code := outline.conversations.find(name)) >= 0]
    source = outline.turn[slots]
    place = np.where(source >= 0, outline.conversation[np.maximum(source, 0)], outline.conversation[slots])
    return np.isin(place, codes)
