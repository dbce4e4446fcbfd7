"""The type of task that an outcome names reaches the calls that led to it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agentmem import AgentMemory
from tests.flows.given import STACKS, ManualClock, last_operation_id, open_memory, stack_options

DEPLOY = {"success": True, "task_type": "deploy"}


@pytest.fixture(params=STACKS)
def memory(request: pytest.FixtureRequest, home: Path, clock: ManualClock) -> Iterator[AgentMemory]:
    with open_memory(home, clock=clock, seed=7, conversation_id="c", **stack_options(request)) as memory:
        yield memory


def calls_by_tool(memory: AgentMemory, task_type: str | None = None) -> dict[str, int]:
    return {stats.tool_name: stats.calls for stats in memory.procedural.tool_stats(task_type)}


def test_calls_without_a_type_get_the_one_of_their_outcome(memory: AgentMemory) -> None:
    record = memory.procedural.record_invocation
    record("build", success=True)
    record("search", success=True, task_type="find")
    record("push", success=False)
    record("build", conversation_id="other")
    memory.reflect(DEPLOY)
    assert calls_by_tool(memory, "deploy") == {"build": 1, "push": 1}
    assert calls_by_tool(memory, "find") == {"search": 1}
    record("mail")
    memory.reflect({"success": True, "task_type": "write"})
    assert calls_by_tool(memory, "write") == {"mail": 1}
    assert calls_by_tool(memory, "deploy") == {"build": 1, "push": 1}
    assert calls_by_tool(memory) == {"build": 2, "push": 1, "search": 1, "mail": 1}
    memory.undo(last_operation_id(memory))
    assert calls_by_tool(memory, "write") == {}


def test_the_order_of_calls_and_the_counts_of_tools_stay(memory: AgentMemory, clock: ManualClock) -> None:
    memory.store_turn("Deploy the staging server to Oslo.")
    for tool, task_type in (("build", ""), ("push", "deploy"), ("check", "")):
        memory.procedural.record_invocation(tool, success=True, task_type=task_type)
    memory.consolidate("patterns")
    memory.reflect(DEPLOY)
    clock.advance(hours=2)
    (report,) = memory.consolidate("patterns")
    assert report.failed == {}
    (found,) = memory.procedural.find_strategies("deploy the server")
    assert found.strategy.tool_sequence == ("build", "push", "check")
    assert calls_by_tool(memory, "deploy") == {"build": 1, "push": 1, "check": 1}


def test_calls_in_other_channels_are_told_nothing(memory: AgentMemory) -> None:
    memory.procedural.record_invocation("build")
    bot = memory.scoped(agent_id="bot", channel="_self_bot", conversation_id="c")
    bot.procedural.record_invocation("diary")
    bot.reflect(DEPLOY)
    assert calls_by_tool(bot, "deploy") == {"diary": 1}
    assert calls_by_tool(memory, "deploy") == {}
