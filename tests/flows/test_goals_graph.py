"""Whatever is done to goals, none is above itself, none waits for itself, and only what waits is blocked."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentmem import AgentMemError, AgentMemory, Goal
from agentmem.stores.values import Where
from tests.flows.given import ManualClock, context_of, engine_of, last_operation_id, open_memory, read_head, run
from tests.scale import scaled

IDS = [f"g{number}" for number in range(5)]
VERBS = (
    "parent",
    "block",
    "block",
    "block",
    "unblock",
    "complete",
    "abandon",
    "forget",
    "restore",
    "undo",
    "add",
    "erase",
)

STEP = st.tuples(st.sampled_from(VERBS), st.integers(0, 4), st.integers(0, 4))


def goals(memory: AgentMemory) -> dict[str, Goal]:
    found = run(engine_of(memory).log.find(context_of(memory).scope, Where(kinds=("Goal",)), limit=100))
    return {goal.id: goal for goal in found if isinstance(goal, Goal)}


def reaches_itself(start: str, links: Mapping[str, tuple[str, ...]]) -> bool:
    seen: set[str] = set()
    level = list(links.get(start, ()))
    while level:
        seen.update(level)
        level = [name for each in level for name in links.get(each, ()) if name not in seen]
    return start in seen


def step(memory: AgentMemory, verb: str, one: str, other: str, done: list[str]) -> None:
    if verb == "parent":
        memory.goals.update(one, parent_id=other)
    elif verb == "block":
        memory.goals.block(one, other)
    elif verb == "unblock":
        memory.goals.unblock(one)
    elif verb in ("complete", "abandon"):
        memory.complete_goal(one, "completed" if verb == "complete" else "abandoned", cascade=True)
    elif verb in ("forget", "erase"):
        memory.forget(one, hard=verb == "erase")
    elif verb == "restore":
        memory.restore(one)
    elif verb == "undo" and done:
        memory.undo(done[int(other[1:]) * len(done) // 5])
    elif verb == "add":
        memory.add_goal({"id": one, "description": one, "parent_id": other, "blocked_by": [other]})


@pytest.mark.long
def test_no_history_closes_a_circle(home: Path) -> None:
    refused: set[str] = set()
    with open_memory(home, clock=ManualClock(), audit_level="off", seed=3) as shared:
        users = iter(range(10_000))

        @settings(max_examples=scaled(25, least=8))
        @given(steps=st.lists(STEP, min_size=12, max_size=20))
        def play(steps: list[tuple[str, int, int]]) -> None:
            memory, done = shared.scoped(user_id=f"user {next(users)}"), list[str]()
            for name in IDS[:4]:
                memory.add_goal({"id": name, "description": name})
            for verb, one, other in steps:
                at = read_head(memory)
                try:
                    step(memory, verb, IDS[one], IDS[other], done)
                except AgentMemError as error:
                    assert read_head(memory) == at, verb
                    refused.update({"circle"} if "circle" in str(error) else ())
                if read_head(memory) > at and verb != "erase":
                    done.append(last_operation_id(memory))
                now = goals(memory)
                for links in (
                    {name: (goal.parent_id,) if goal.parent_id else () for name, goal in now.items()},
                    {name: goal.blocked_by for name, goal in now.items()},
                ):
                    assert not any(reaches_itself(name, links) for name in now)
                standing = [goal for goal in now.values() if goal.is_open]
                assert all((goal.goal_status == "blocked") == bool(goal.blocked_by) for goal in standing)

        play()
    assert refused == {"circle"}
