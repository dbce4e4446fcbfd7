"""The job `patterns`: outcomes become strategies, once each, and the tools' counts are brought up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from agentmem import AgentMemory, Conversation, JobReport, Outcome, Tool
from agentmem.memory.procedural.strategies import StrategyMatch
from agentmem.memory.procedural.tools import tool_id
from tests.flows.given import (
    ManualClock,
    context_of,
    engine_of,
    last_operation_id,
    open_memory,
    read_head,
    read_state,
    run,
)

TASK = "Please deploy the staging server to Oslo."


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentMemory]:
    with open_memory(tmp_path_factory.mktemp("patterns"), clock=ManualClock(), seed=3) as memory:
        yield memory


@pytest.fixture
def memory(shared: AgentMemory, request: pytest.FixtureRequest) -> AgentMemory:
    """A user of its own in the shared store."""
    return shared.scoped(user_id=request.node.name[:100])


def work(memory: AgentMemory, name: str, tools: Sequence[str], task: str = TASK) -> AgentMemory:
    """A conversation in which tools were called for a task."""
    talk = memory.scoped(conversation_id=name)
    talk.store_turn("Hi!")
    talk.store_turn(task)
    talk.store_turn("On it.", role="assistant")
    for tool in tools:
        talk.procedural.record_invocation(tool, success=True, latency_ms=10)
    return talk


def learn(memory: AgentMemory, **options: Any) -> JobReport:
    (report,) = memory.consolidate("patterns", **options)
    assert report.failed == {}
    return report


def found(memory: AgentMemory, task: str = "deploy the server") -> list[StrategyMatch]:
    return memory.procedural.find_strategies(task)


def test_a_success_becomes_a_strategy_once(memory: AgentMemory) -> None:
    talk = work(memory, "c", ["build", "push", "push", "check"])
    said = talk.reflect({"success": True, "task_type": "deploy"})
    report = learn(memory)
    assert report.counts == {"outcomes": 1, "strategies_learned": 1, "tools": 3}
    strategy = found(memory)[0].strategy
    assert (strategy.description, strategy.tool_sequence) == (TASK, ("build", "push", "check"))
    assert (strategy.task_type, strategy.success_count, strategy.conversation_ids) == ("deploy", 1, ("c",))
    log, scope = engine_of(memory).log, context_of(memory).scope
    (turn,) = run(log.read_records("Turn", strategy.source_turn_ids, scope))
    (conversation,) = run(log.read_records("Conversation", ["c"], scope))
    (outcome,) = run(log.read_records("Outcome", [said.id], scope))
    assert turn.search_text() == TASK
    assert isinstance(conversation, Conversation)
    assert conversation.patterns_extracted
    assert isinstance(outcome, Outcome)
    assert outcome.learned
    last = read_head(memory)
    assert learn(memory).counts == {}
    assert read_head(memory) == last


def test_a_dry_run_changes_nothing_and_an_undo_takes_it_back(memory: AgentMemory) -> None:
    work(memory, "c", ["build"]).reflect(True)
    before = read_state(memory)
    assert learn(memory, dry_run=True).pending == 1
    assert read_state(memory) == before
    learned = learn(memory)
    memory.undo(learned.operation_ids[0])
    assert found(memory) == []


def test_a_task_like_it_with_the_same_tools_strengthens_or_weakens(memory: AgentMemory) -> None:
    work(memory, "a", ["build", "push"]).reflect(True)
    work(memory, "b", ["build", "push"], "Deploy the staging server, please").reflect(True)
    work(memory, "c", ["build", "push"], "Now deploy the staging server to Oslo").reflect(False)
    work(memory, "d", ["build", "push"], "Bake a cake").reflect(False)
    work(memory, "e", ["push"]).reflect(False)
    report = learn(memory)
    assert (report.counts["outcomes"], report.counts["strategies_learned"]) == (5, 1)
    assert (report.counts["strategies_strengthened"], report.counts["strategies_weakened"]) == (1, 1)
    (strategy,) = [item.strategy for item in found(memory)]
    assert (strategy.success_count, strategy.failure_count, strategy.conversation_ids) == (2, 1, ("a", "b"))


def test_what_reflect_has_counted_is_not_counted_again(memory: AgentMemory) -> None:
    work(memory, "a", ["build"]).reflect(True)
    learn(memory)
    talk = work(memory, "b", ["build"])
    known = found(talk)[0].strategy
    assert talk.reflect(True).strategy_ids == (known.id,)
    learn(memory)
    assert found(memory)[0].strategy.success_count == 2


def test_each_outcome_looks_at_its_own_stretch_of_the_conversation(memory: AgentMemory) -> None:
    talk = work(memory, "c", ["build"])
    talk.reflect(True)
    talk.store_turn("Now write a letter to the mayor of Bergen.")
    talk.procedural.record_invocation("mail")
    talk.procedural.record_invocation("spell", success=False)
    talk.reflect(True)
    talk.reflect(True)  # of nothing
    assert learn(memory).counts["strategies_learned"] == 2
    (letter,) = [item.strategy for item in found(memory, "a letter to the mayor")]
    assert letter.tool_sequence == ("mail",)


def test_a_strategy_of_many_tools_is_credited_by_the_latest_of_them(memory: AgentMemory) -> None:
    tools = [f"tool{number}" for number in range(70)]
    work(memory, "a", tools).reflect(True)
    learn(memory)
    talk = memory.scoped(conversation_id="b")
    known = found(talk)[0].strategy
    assert known.tool_sequence == tuple(tools[-64:])
    work(memory, "b", tools)
    assert talk.reflect(True).strategy_ids == (known.id,)


def test_nothing_is_learned_where_no_tool_was_called_or_nothing_was_asked(memory: AgentMemory) -> None:
    work(memory, "c", []).reflect(True)
    silent = memory.scoped(conversation_id="d")
    silent.procedural.record_invocation("build")
    silent.reflect(True)
    memory.scoped(conversation_id="e").reflect("failure: nobody came")
    assert learn(memory).counts == {"outcomes": 3, "tools": 1}
    assert found(memory) == []


def test_a_run_takes_on_so_many_outcomes_oldest_first(memory: AgentMemory) -> None:
    for number in range(12):
        work(memory, f"c{number}", ["build", f"tool{number}"], f"Deploy server number {number}").reflect(True)
    first = learn(memory)
    assert (first.conversations, first.pending) == (10, 2)
    assert {item.strategy.conversation_ids for item in memory.procedural.find_strategies("deploy", 100)} == {
        (f"c{number}",) for number in range(10)
    }
    second = learn(memory)
    assert (second.conversations, second.pending, learn(memory).conversations) == (2, 0, 0)


def test_a_private_agents_work_stays_private(memory: AgentMemory) -> None:
    bot = memory.scoped(agent_id="bot", channel="_self_bot")
    work(bot, "c", ["build"]).reflect(True)
    learn(memory)
    assert found(memory) == []
    assert [item.strategy.channel for item in found(bot)] == ["_self_bot"]
    (own,) = run(context_of(bot).find_by_id(tool_id("build", "_self_bot")))
    assert isinstance(own, Tool)
    assert (own.usage_count, own.channel) == (1, "_self_bot")


def test_a_long_task_is_cut_at_a_sentence(memory: AgentMemory) -> None:
    work(memory, "c", ["build"], "Deploy the server. " + "It is urgent. " * 30).reflect(True)
    learn(memory)
    text = found(memory)[0].strategy.description
    assert text.startswith("Deploy the server. It is urgent.")
    assert text.endswith("urgent.")
    assert len(text) <= 200


def counts(memory: AgentMemory, name: str) -> tuple[int, int, float | None]:
    (tool,) = run(engine_of(memory).log.read_records("Tool", [tool_id(name, "_global")], context_of(memory).scope))
    assert isinstance(tool, Tool)
    return tool.usage_count, tool.success_count, tool.avg_latency_ms


def test_tools_are_counted_by_the_new_calls_and_anew_where_some_went(memory: AgentMemory) -> None:
    calls = [memory.procedural.record_invocation("build", success=n > 0, latency_ms=10 * n) for n in range(4)]
    memory.procedural.record_invocation("push")
    learn(memory)
    assert (counts(memory, "build"), counts(memory, "push")) == ((4, 3, 15.0), (1, 0, None))
    memory.procedural.record_invocation("build", success=True, latency_ms=65)
    learn(memory)
    assert counts(memory, "build") == (5, 4, 25.0)
    memory.forget(calls[3].id)
    learn(memory)
    assert counts(memory, "build") == (4, 3, 95 / 4)
    memory.restore(calls[3].id)
    memory.undo(calls[0].operation_id)
    learn(memory)
    assert (counts(memory, "build"), counts(memory, "push")) == ((4, 4, 31.25), (1, 0, None))
    last = last_operation_id(memory)
    learn(memory)
    assert last_operation_id(memory) == last


def test_while_another_is_at_it_nothing_is_done(memory: AgentMemory) -> None:
    work(memory, "c", ["build"]).reflect(True)
    log, user = engine_of(memory).log, context_of(memory).scope.user_id
    run(log.acquire_lease(f"patterns:{user}", 60, "another"))
    assert "another worker" in learn(memory).stop_reason
    assert found(memory) == []
    run(log.release_lease(f"patterns:{user}", "another"))
    assert learn(memory).counts["strategies_learned"] == 1
