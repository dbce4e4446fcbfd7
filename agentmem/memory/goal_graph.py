"""How goals hang together: what is below a goal, what waits for it, and that nothing waits for itself."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from agentmem.errors import InvalidRecord
from agentmem.memory import MemoryContext
from agentmem.model.records import Goal, Key

MAX_GOALS_WALKED = 10_000  # goals looked at for one question
LINK_FIELDS = ("parent_id", "blocked_by")


@dataclass(frozen=True, slots=True)
class GoalNode:
    """A goal with what is below it."""

    goal: Goal
    sub_goals: tuple[GoalNode, ...] = ()


def build_trees(root: str, goals: Iterable[Goal], depth: int) -> list[GoalNode]:
    """The trees below a goal, `depth` levels of them, in the order of `goals`; each goal once."""
    return _build_subtrees(root, _group_by_parent(goals), depth, {root})


def _build_subtrees(root: str, parts: Mapping[str, Sequence[Goal]], depth: int, seen: set[str]) -> list[GoalNode]:
    found = [goal for goal in parts.get(root, ()) if depth and goal.id not in seen]
    seen.update(goal.id for goal in found)
    return [GoalNode(goal, tuple(_build_subtrees(goal.id, parts, depth - 1, seen))) for goal in found]


def descendants(root: str, goals: Iterable[Goal]) -> list[Goal]:
    """All goals below a goal, at any depth, nearest first."""
    parts, seen, found = _group_by_parent(goals), {root}, list[Goal]()
    level = [root]
    while level:
        more = [goal for name in level for goal in parts.get(name, ()) if goal.id not in seen]
        seen.update(goal.id for goal in more)
        found += more
        level = [goal.id for goal in more]
    return found


def _group_by_parent(goals: Iterable[Goal]) -> dict[str, list[Goal]]:
    parts: dict[str, list[Goal]] = {}
    for goal in goals:
        if goal.parent_id:
            parts.setdefault(goal.parent_id, []).append(goal)
    return parts


def unblock_dependents(blocker: str, goals: Iterable[Goal], exclude: Collection[Goal]) -> list[Goal]:
    """What waits for a goal, waiting no longer; but for those in `exclude`. With its last blocker gone it is active."""
    spared, out = {goal.id for goal in exclude}, []
    for goal in goals:
        if blocker in goal.blocked_by and goal.goal_status in ("active", "blocked") and goal.id not in spared:
            left = tuple(name for name in goal.blocked_by if name != blocker)
            out.append(goal.model_copy(update={"blocked_by": left, "goal_status": "blocked" if left else "active"}))
    return out


async def check_cycles(
    context: MemoryContext, goals: Iterable[Goal], fields: Sequence[str] = LINK_FIELDS
) -> dict[Key, int]:
    """Refuse goals that would be above themselves, or wait for themselves; where all that they lead to stands.

    A write expects these there, or two of them made at once could close a circle together.
    """
    new = {goal.id: goal for goal in goals}
    seqs: dict[Key, int] = {}
    for field in fields:
        for goal in new.values():
            seqs |= await _check_cycle_from(context, goal, field, new)
    return {key: seq for key, seq in seqs.items() if key[1] not in new}


async def _check_cycle_from(context: MemoryContext, start: Goal, field: str, new: Mapping[str, Goal]) -> dict[Key, int]:
    came: dict[str, str] = {}  # from which goal one was reached first
    stored: dict[str, Goal] = {}
    level = [start]
    while level and len(came) < MAX_GOALS_WALKED:
        for goal in level:
            for name in _linked_ids(goal, field):
                came.setdefault(name, goal.id)
        if start.id in came:
            raise InvalidRecord(f"{field}: a circle: {_describe_cycle(context, start, came, stored)}", field=field)
        fresh = [name for name in came if name not in stored]
        found = await context.engine.log.read_records("Goal", fresh, context.scope) if fresh else []
        level = [new.get(goal.id, goal) for goal in found if isinstance(goal, Goal)]
        stored |= {goal.id: goal for goal in found if isinstance(goal, Goal)}
        for name in fresh:
            if name not in stored:  # erased: it leads nowhere
                came.pop(name)
    return {goal.key: goal.seq for goal in stored.values()}


def _linked_ids(goal: Goal, field: str) -> list[str]:
    if field == "parent_id":
        return [goal.parent_id] if goal.parent_id else []
    return list(goal.blocked_by)


def _describe_cycle(
    context: MemoryContext, start: Goal, reached_from: Mapping[str, str], stored: Mapping[str, Goal]
) -> str:
    """The way round, from the goal to itself; goals that the scope may not read are not named."""
    way, at = [start.id], reached_from[start.id]
    while at != start.id:
        way.append(at)
        at = reached_from[at]
    readable = context.scope.readable_channels()
    hidden = {name for name, goal in stored.items() if goal.channel not in readable}
    return " -> ".join("(of another channel)" if name in hidden else repr(name) for name in (start.id, *reversed(way)))
