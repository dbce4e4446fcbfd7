"""Tools, strategies and outcomes: what is stored, what is counted, and what is found for a task."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from agentmem import AgentMemory, Conflict, InvalidRecord, NotFound, Outcome, ScopeError, Strategy
from agentmem.admin.export_import import export_user, import_user
from agentmem.memory.procedural.tools import tool_id, wilson_interval
from tests.flows.given import (
    START,
    ManualClock,
    context_of,
    engine_of,
    last_operation_id,
    open_memory,
    read_head,
    read_state,
    run,
)

MARK = "zanzibar"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentMemory]:
    with open_memory(tmp_path_factory.mktemp("procedural"), clock=ManualClock(), seed=3) as memory:
        yield memory


@pytest.fixture
def memory(shared: AgentMemory, request: pytest.FixtureRequest) -> AgentMemory:
    """A user of its own in the shared store."""
    return shared.scoped(user_id=request.node.name[:100])


def rows(memory: AgentMemory, sql: str) -> list[tuple[Any, ...]]:
    user = context_of(memory).scope.user_id
    return run(engine_of(memory).log.database.read(lambda db: list(db.execute(sql, (user,)))))


def edges(memory: AgentMemory, kind: str, record_id: str) -> set[tuple[str, str, str]]:
    found = run(engine_of(memory).graph.edges([(kind, record_id)], context_of(memory).scope))
    return {(str(edge.edge_kind), edge.source, edge.target) for edge in found}


# -- tools


def test_a_call_stands_in_the_table_and_in_the_graph(memory: AgentMemory) -> None:
    turn = memory.scoped(conversation_id="c").store_turn("Look it up.")
    call = memory.procedural.record_invocation(
        "search", {"query": "Oslo"}, ["a", 1, None], success=True, latency_ms=12.5, turn_id=turn.id, task_type="find"
    )
    assert (call.conversation_id, call.turn_index, call.timestamp) == ("c", 0, START)
    sql = "SELECT tool_name, tool_input, tool_output, success, latency_ms, turn_index, conversation_id, error_message"
    (row,) = rows(memory, f"{sql} FROM tool_invocations WHERE user_id = ?")
    assert (row[0], json.loads(row[1]), json.loads(row[2])) == ("search", {"query": "Oslo"}, ["a", 1, None])
    assert row[3:] == (1, 12.5, 0, "c", None)
    tool = tool_id("search", "_global")
    assert edges(memory, "ToolInvocation", call.id) == {("USED_TOOL", "c", call.id), ("INVOKED", call.id, tool)}


def test_without_a_turn_it_belongs_to_the_conversation_that_goes_on(memory: AgentMemory) -> None:
    first = memory.procedural.record_invocation("search")
    assert first.conversation_id
    assert first.turn_index == -1
    assert memory.store_turn("And then?").conversation_id == first.conversation_id
    assert memory.procedural.record_invocation("search", conversation_id="other").conversation_id == "other"


def test_the_tool_is_written_once_however_often_it_is_called(memory: AgentMemory) -> None:
    with ThreadPoolExecutor(12) as pool:
        calls = list(pool.map(lambda n: memory.procedural.record_invocation("search", {"n": n}), range(36)))
    assert len({call.id for call in calls}) == 36
    assert rows(memory, "SELECT count(*) FROM memory_versions WHERE user_id = ? AND kind = 'Tool'") == [(1,)]
    assert [stats.calls for stats in memory.procedural.tool_stats()] == [36]


def test_a_key_stands_for_one_call(memory: AgentMemory) -> None:
    first = memory.procedural.record_invocation("search", {"q": 1}, idempotency_key="k")
    assert memory.procedural.record_invocation("search", {"q": 1}, idempotency_key="k") == first
    with pytest.raises(Conflict):
        memory.procedural.record_invocation("search", {"q": 2}, idempotency_key="k")


@pytest.mark.parametrize(
    "given, field",
    [
        ({"tool_name": " "}, "tool_name"),
        ({"tool_name": "x" * 201}, "tool_name"),
        ({"tool_input": {1, 2}}, "tool_input"),
        ({"tool_input": float("nan")}, "tool_input"),
        ({"tool_output": "\ud800"}, "tool_output"),
        ({"latency_ms": -1}, "latency_ms"),
        ({"latency_ms": float("inf")}, "latency_ms"),
        ({"turn_id": "nowhere"}, "turn_id"),
        ({"task_type": "x" * 201}, "task_type"),
        ({"timestamp": "today"}, "timestamp"),
    ],
)
def test_a_wrong_call_is_refused_before_anything_is_written(
    memory: AgentMemory, given: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidRecord, match=field) as refused:
        memory.procedural.record_invocation(**{"tool_name": "search", **given})
    assert (refused.value.field, read_head(memory)) == (field, 0)


def test_a_turn_of_another_conversation_is_refused(memory: AgentMemory) -> None:
    turn = memory.store_turn("Look it up.")
    with pytest.raises(InvalidRecord) as refused:
        memory.procedural.record_invocation("search", turn_id=turn.id, conversation_id="other")
    assert refused.value.field == "conversation_id"


def test_what_is_long_or_deep_is_cut_with_a_mark(memory: AgentMemory) -> None:
    deep: Any = []
    for _ in range(300):
        deep = [deep]
    call = memory.procedural.record_invocation("fetch", deep, "x" * 30_000, error_message="e" * 30_000)
    assert call.tool_output == {"cut": True, "characters": 30_002, "beginning": '"' + "x" * 19_999}
    assert call.tool_input == {"cut": True, "characters": 602, "beginning": "[" * 301 + "]" * 301}
    assert len(call.error_message) == 20_000
    assert memory.procedural.record_invocation("fetch", "x" * 19_998).tool_input == "x" * 19_998


def test_stats_are_reckoned_from_the_calls(memory: AgentMemory) -> None:
    record = memory.procedural.record_invocation
    for number in range(10):
        record(
            "search",
            success=number != 4,
            latency_ms=10.0 * (number + 1),
            task_type="find",
            error_message="timed out" * (number == 4),
            timestamp=START + timedelta(minutes=number),
        )
    record("search", task_type="guess")
    record("mail", success=False, error_message="no network")
    search, mail = memory.procedural.tool_stats()
    assert (search.tool_name, search.calls, search.successes, search.failures) == ("search", 11, 9, 1)
    assert (search.success_rate, (search.success_low, search.success_high)) == (0.9, wilson_interval(9, 10))
    assert (search.mean_ms, search.p50_ms, search.p95_ms) == (55.0, 55.0, pytest.approx(95.5))
    assert (search.last_error, search.last_error_at) == ("timed out", START + timedelta(minutes=4))
    assert (mail.success_rate, mail.mean_ms, mail.last_error) == (0.0, None, "no network")
    assert [stats.calls for stats in memory.procedural.tool_stats("find")] == [10]
    assert memory.procedural.tool_stats("dance") == []


def test_a_private_channel_keeps_its_calls_and_its_tools_to_itself(memory: AgentMemory) -> None:
    bot = memory.scoped(agent_id="bot", channel="_self_bot")
    bot.procedural.record_invocation("diary", success=True)
    memory.scoped(channel="roof").procedural.record_invocation("ladder")
    assert memory.procedural.tool_stats() == []
    assert [stats.tool_name for stats in bot.procedural.tool_stats()] == ["diary"]
    assert [stats.tool_name for stats in memory.procedural.tool_stats(channel="roof")] == ["ladder"]
    user = context_of(memory).scope.user_id
    assert memory.scoped(user_id=f"{user} too").procedural.tool_stats() == []
    with pytest.raises(ScopeError):
        memory.procedural.tool_stats(channel="_self_bot")
    own = tool_id("diary", "_self_bot")
    assert own != tool_id("diary", "_global")
    assert run(context_of(memory).find_by_id(own)) == []


def test_no_call_tool_or_outcome_is_ever_found_by_a_recall(memory: AgentMemory) -> None:
    turn = memory.store_turn("Where is the file?")
    memory.procedural.record_invocation(MARK, {MARK: MARK}, MARK, error_message=MARK, turn_id=turn.id, task_type=MARK)
    memory.reflect(f"success: {MARK}")
    found = memory.remember(MARK)
    assert {item.record.kind for item in found.items} == {"Turn"}
    assert MARK not in str(found)
    assert rows(memory, "SELECT count(*) FROM memory_records WHERE user_id = ? AND words > 0") == [(1,)]


def test_calls_between_turns_change_no_ranking(shared: AgentMemory) -> None:
    told = []
    for name in ("talks", "talks and calls"):
        memory = shared.scoped(user_id=name, conversation_id="c")
        for text in ("Shall we go to Oslo?", "Yes, by train.", "When?", "On Friday."):
            turn = memory.store_turn(text)
            if name != "talks":
                memory.procedural.record_invocation("search", turn_id=turn.id)
                memory.procedural.record_invocation("search", turn_id=turn.id)
        found = memory.remember("When do we take the train?", reinforce=False)
        told.append([(item.record.content, item.score, item.why) for item in found.items])
    assert told[0] == told[1]


def test_undo_gives_back_what_was_before_a_call(memory: AgentMemory) -> None:
    memory.store_turn("Look it up.")
    before = read_state(memory)
    memory.procedural.record_invocation("search")
    first = last_operation_id(memory)
    memory.undo(first)
    assert read_state(memory) == before
    memory.procedural.record_invocation("search")
    operation = last_operation_id(memory)
    memory.consolidate("patterns")  # counts it
    memory.undo(operation)
    assert memory.procedural.tool_stats() == []


# -- strategies


def learn(memory: AgentMemory, description: str, good: int, bad: int = 0, **more: Any) -> Strategy:
    learned = memory.procedural.learn_strategy(description, success=good > 0, **more)
    for success in [True] * (good - 1) + [False] * (bad if good else bad - 1):
        learned = memory.procedural.reinforce_strategy(learned.id, success)
    return learned


def test_the_same_strategy_again_is_strengthened(memory: AgentMemory) -> None:
    talk = memory.scoped(conversation_id="c")
    talk.store_turn("Deploy it.")
    first = talk.procedural.learn_strategy("Deploy the server", tool_sequence=["build", "push"], task_type="deploy")
    again = talk.procedural.learn_strategy("deploy the  server.", tool_sequence=["build", "push"], success=False)
    other = talk.procedural.learn_strategy("Deploy the server", tool_sequence=["push", "build"])
    assert again.id == first.id != other.id
    assert (again.success_count, again.failure_count, again.task_type) == (1, 1, "deploy")
    assert (again.created_at, again.last_used, again.conversation_ids) == (START, START, ("c",))
    tools = {tool_id(name, "_global") for name in ("build", "push")}
    stated = {(kind, target) for kind, _, target in edges(memory, "Strategy", first.id)}
    assert stated == {("SUCCEEDED_IN", "c"), *(("USES_TOOL", tool) for tool in tools)}


@pytest.mark.parametrize(
    "given, field",
    [
        ({"description": " "}, "description"),
        ({"tool_sequence": "build"}, "tool_sequence"),
        ({"tool_sequence": [""]}, "tool_sequence"),
        ({"tool_sequence": ["x"] * 65}, "tool_sequence"),
        ({"conversation_id": "nowhere"}, "conversation_id"),
        ({"source_turn_ids": ["nowhere"]}, "source_turn_ids"),
        ({"success": "perhaps"}, "success"),
    ],
)
def test_a_wrong_strategy_is_refused(memory: AgentMemory, given: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidRecord) as refused:
        memory.procedural.learn_strategy(**{"description": "Deploy the server", **given})
    assert (refused.value.field, read_head(memory)) == (field, 0)


def test_strategies_are_ranked_by_relevance_and_the_lower_bound_of_success(memory: AgentMemory) -> None:
    lucky = learn(memory, "Deploy the staging server with rsync", 1)
    proven = learn(memory, "Deploy the staging server with docker", 8, 1)
    proven = memory.procedural.reinforce_strategy(proven.id, True)
    failing = learn(memory, "Deploy the staging server by hand", 0, 3)
    learn(memory, "Bake a chocolate cake", 20)
    broken = learn(memory, "Deploy the staging server with docker swarm", 9, 1)  # failed the last time
    found = memory.procedural.find_strategies("deploy the staging server")
    assert [item.strategy.id for item in found] == [proven.id, lucky.id, broken.id, failing.id]
    assert found[0].success_low == pytest.approx(wilson_interval(9, 10).low)
    assert found[0].score == pytest.approx(found[0].relevance * found[0].success_low, abs=1e-5)
    assert found[3].score == 0.0
    assert "worked 9 of 10 times (at least 0.60)" in found[0].why
    assert "words 1.00" in found[0].why
    assert memory.procedural.find_strategies("deploy the staging server", top_k=1) == found[:1]
    assert memory.procedural.find_strategies("the") == []


def test_strategies_are_seen_from_where_they_were_learned(memory: AgentMemory) -> None:
    roof, bot = memory.scoped(channel="roof"), memory.scoped(agent_id="bot", channel="_self_bot")
    for face in (roof, bot, memory.scoped(user_id="somebody else")):
        learn(face, f"Mend the roof of {context_of(face).scope.channel}", 1)
    assert memory.procedural.find_strategies("mend the roof") == []
    assert memory.remember("mend the roof").strategies == ()
    assert [item.strategy.channel for item in roof.procedural.find_strategies("mend the roof")] == ["roof"]
    assert [found.channel for found in bot.remember("mend the roof").strategies] == ["_self_bot"]
    (other,) = roof.remember("mend the roof").strategies
    with pytest.raises(NotFound):
        memory.procedural.reinforce_strategy(other.id, True)


@pytest.mark.parametrize("task, top_k, field", [(" ", 5, "task"), ("x", 0, "top_k"), ("x", 101, "top_k")])
def test_a_wrong_question_for_strategies_is_refused(memory: AgentMemory, task: str, top_k: int, field: str) -> None:
    with pytest.raises(InvalidRecord) as refused:
        memory.procedural.find_strategies(task, top_k)
    assert refused.value.field == field


def test_strategies_are_in_bundles_and_contexts_unless_left_out(memory: AgentMemory) -> None:
    learned = learn(memory, "Deploy the server", 3, 1, tool_sequence=["build", "push"], context_pattern="on Fridays")
    learned = memory.procedural.reinforce_strategy(learned.id, True)
    found = memory.remember("how do I deploy the server?")
    assert found.strategies == (learned,)
    assert found.items[0].record == learned
    line = "- Deploy the server: build, then push (on Fridays; worked in 4 of 5)"
    assert f"## What has worked\n{line}" in str(found)
    assert line in memory.context("how do I deploy the server?").text
    memory.procedural.reinforce_strategy(learned.id, False)
    assert "## What failed before\n- Deploy the server" in memory.context("how do I deploy the server?").text
    assert memory.remember("how do I deploy the server?", include=("episodic", "semantic")).strategies == ()


def test_what_failed_is_listed_after_what_worked(memory: AgentMemory) -> None:
    failing = learn(memory, "Deploy the staging server by hand", 0, 3)
    working = learn(memory, "Deploy a server", 1)
    found = memory.remember("deploy the staging server by hand")
    wanted = [working.id, failing.id]
    assert [each.id for each in found.strategies] == wanted
    assert [item.record.id for item in found] == wanted
    assert [each["id"] for each in found.to_dict()["strategies"]] == wanted


# -- outcomes


def test_an_outcome_counts_for_the_strategies_it_names(memory: AgentMemory) -> None:
    one, two = learn(memory, "Deploy the server", 1), learn(memory, "Restart the server", 1)
    before = read_state(memory)
    said = memory.reflect({"success": False, "score": 0.1, "feedback": "it broke", "strategy_ids": [one.id]})
    assert (said.strategy_ids, said.learned, said.feedback) == ((one.id,), False, "it broke")
    counts = {item.strategy.id: item.strategy.failure_count for item in memory.procedural.find_strategies("server")}
    assert counts == {one.id: 1, two.id: 0}
    memory.undo(said.operation_id)
    assert read_state(memory) == before


def call(memory: AgentMemory, *names: str, success: bool = True) -> None:
    for name in names:
        memory.procedural.record_invocation(name, {}, "x", success=success)


FOLLOWED = [
    ("in its order", ["build", "push"], True, True),
    ("one tool twice in a row", ["build", "build", "push"], True, True),
    ("in another order", ["push", "build"], True, False),
    ("with another tool between", ["build", "test", "push"], True, False),
    ("in part", ["build"], True, False),
    ("not at all", ["bake"], True, False),
    ("without a call", [], True, False),
    ("tried in part and failed", ["build"], False, True),
    ("not tried and failed", ["bake"], False, False),
]


@pytest.mark.parametrize("tools, success, counts", [row[1:] for row in FOLLOWED], ids=[row[0] for row in FOLLOWED])
def test_what_was_found_counts_only_if_it_was_followed_or_tried(
    memory: AgentMemory, tools: list[str], success: bool, counts: bool
) -> None:
    talk = memory.scoped(conversation_id="c")
    deploy = learn(talk, "Deploy the server", 1, tool_sequence=["build", "push"])
    assert talk.remember("how do I deploy the server?").strategies[0] == deploy
    call(talk, *tools)
    call(talk, "push", success=False) if success else None  # a failed try in between changes nothing
    assert talk.reflect(success, idempotency_key="k").strategy_ids == ((deploy.id,) if counts else ())
    assert talk.reflect(success, idempotency_key="k").strategy_ids == ((deploy.id,) if counts else ())
    (found,) = memory.procedural.find_strategies("deploy server")
    wanted = (1 + (success and counts), int(not success and counts))
    assert (found.strategy.success_count, found.strategy.failure_count) == wanted


def test_a_context_counts_like_a_recall(memory: AgentMemory) -> None:
    talk = memory.scoped(conversation_id="c")
    deploy = learn(talk, "Deploy the server", 1, tool_sequence=["build", "push"])
    samples = engine_of(memory).latency_stats.samples
    before = len(samples.get("recall", ()))
    talk.context("how do I deploy the server?")
    call(talk, "build", "push")
    assert talk.reflect(True).strategy_ids == (deploy.id,)
    assert len(samples["recall"]) == before + 1


def test_each_outcome_looks_at_the_calls_since_the_one_before(memory: AgentMemory) -> None:
    talk = memory.scoped(conversation_id="c")
    deploy = learn(talk, "Deploy the server", 1, tool_sequence=["build", "push"])
    talk.procedural.find_strategies("deploy the server")
    call(talk, "build", "push")
    assert talk.reflect(True).strategy_ids == (deploy.id,)
    assert talk.reflect(True).strategy_ids == ()
    call(talk, "push")
    assert talk.reflect(False).strategy_ids == (deploy.id,)


def test_a_strategy_without_tools_counts_only_where_it_is_named(memory: AgentMemory) -> None:
    talk = memory.scoped(conversation_id="c")
    bake = learn(talk, "Bake a chocolate cake", 1)
    talk.procedural.find_strategies("a chocolate cake")
    assert talk.reflect(False).strategy_ids == ()
    assert talk.reflect({"success": False, "strategy_ids": [bake.id]}).strategy_ids == (bake.id,)


def test_the_type_of_task_reaches_the_calls_of_the_attempt(memory: AgentMemory) -> None:
    talk = memory.scoped(conversation_id="c")
    call(talk, "build")
    talk.reflect({"success": True, "task_type": "compile"})
    talk.procedural.record_invocation("push", {}, "x", success=True, task_type="upload")
    call(talk, "check")
    memory.consolidate("patterns")
    said = talk.reflect({"success": True, "task_type": "deploy"})
    memory.scoped(conversation_id="d").procedural.record_invocation("other", {}, "x", success=True)

    def tools(task_type: str | None) -> list[str]:
        return [stats.tool_name for stats in memory.procedural.tool_stats(task_type)]

    assert (tools("compile"), tools("upload"), tools("deploy")) == (["build"], ["push"], ["check"])
    memory.undo(said.operation_id)
    assert tools("deploy") == []
    talk.reflect({"success": True, "task_type": "deploy"})
    memory.consolidate("patterns")
    assert {record.name: record.usage_count for record in memory.list_records(("Tool",))} == dict.fromkeys(  # type: ignore[attr-defined]
        ("build", "push", "check", "other"), 1
    )


@pytest.mark.parametrize(
    "said, success, feedback",
    [
        (True, True, ""),
        ("success", True, ""),
        ("Failed: no network", False, "no network"),
        ("abandoned", False, ""),
        ({"success": True, "task_type": "deploy"}, True, ""),
        ({"score": 0.2}, False, ""),
        (Outcome(success=True, feedback="well done"), True, "well done"),
    ],
)
def test_an_outcome_can_be_said_in_many_ways(memory: AgentMemory, said: Any, success: bool, feedback: str) -> None:
    stored = memory.reflect(said)
    assert (stored.success, stored.feedback, stored.timestamp) == (success, feedback, START)


@pytest.mark.parametrize(
    "said, field",
    [
        ("hm", "outcome"),
        ("", "outcome"),
        ({}, "success"),
        (7, "outcome"),
        ({"success": True, "score": 2}, "score"),
        ({"success": True, "joy": 1}, "joy"),
        ({"success": True, "goal_id": "nowhere"}, "goal_id"),
        ({"success": True, "strategy_ids": ["nowhere"]}, "strategy_ids"),
        ({"success": True, "conversation_id": "nowhere"}, "conversation_id"),
    ],
)
def test_a_wrong_outcome_is_refused(memory: AgentMemory, said: Any, field: str) -> None:
    with pytest.raises(InvalidRecord) as refused:
        memory.reflect(said)
    assert (refused.value.field, read_head(memory)) == (field, 0)


def test_calls_of_one_turn_are_exported_and_read_again(memory: AgentMemory, tmp_path: Path) -> None:
    turn = memory.store_turn("Look it up.")
    for _ in range(2):
        memory.procedural.record_invocation("search", turn_id=turn.id)
    lines: list[str] = []
    run(export_user(engine_of(memory), context_of(memory).scope, lines.append))
    with open_memory(tmp_path / "other", "somebody else", clock=ManualClock()) as other:
        run(import_user(engine_of(other), context_of(other).scope, iter(lines)))
        other.procedural.record_invocation("search", turn_id=turn.id)
        assert [stats.calls for stats in other.procedural.tool_stats()] == [3]


@pytest.mark.parametrize("verb", ["learn_strategy", "reinforce_strategy", "reflect"])
def test_a_key_stands_for_one_write(memory: AgentMemory, verb: str) -> None:
    strategy = learn(memory, "Deploy the server", 1)
    calls = {
        "learn_strategy": (memory.procedural.learn_strategy, ("Bake a cake",), ("Bake two cakes",)),
        "reinforce_strategy": (memory.procedural.reinforce_strategy, (strategy.id, True), (strategy.id, False)),
        "reflect": (memory.reflect, (True,), (False,)),
    }
    call, given, other = calls[verb]
    done = call(*given, idempotency_key="k")
    last = read_head(memory)
    assert call(*given, idempotency_key="k") == done
    assert read_head(memory) == last
    with pytest.raises(Conflict):
        call(*other, idempotency_key="k")
