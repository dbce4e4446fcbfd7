"""`agentmem procedures` and `agentmem tools`: thin over the verbs."""

from __future__ import annotations

from typing import Any

import pytest

from agentmem import AgentMemory


@pytest.fixture
def home_with_calls(cli: Any) -> None:
    with AgentMemory("default", home=cli.home, embedder="hash") as memory:
        for number in range(4):
            memory.procedural.record_invocation(
                "search",
                {"n": number},
                success=number > 0,
                latency_ms=100 * number,
                task_type="find",
                error_message="" if number else "timed\x1b[31m out",
            )
        memory.scoped(channel="roof").procedural.record_invocation("ladder")


def test_procedures_are_staged_listed_accepted_and_retired(cli: Any) -> None:
    assert cli("procedures") == "no procedures\n"
    staged = cli.json("procedures", "stage", "Always answer in French", "--trigger", "when I write in French")
    assert (staged["procedure_status"], staged["trigger"]) == ("candidate", "when I write in French")
    shown = cli("procedures")
    assert shown.startswith("candidate: Always answer in French (when I write in French)\n    ")
    assert f"{staged['id']}  asked for 1 time, last " in shown
    assert cli("procedures", "accept", staged["id"]).startswith("active: Always answer in French")
    assert cli("procedures", "--status", "candidate") == "no procedures\n"
    assert [row["procedure_status"] for row in cli.lines("procedures")] == ["active"]
    assert "operation " in cli("procedures", "retire", staged["id"])
    assert cli.lines("procedures") == []
    assert [row["id"] for row in cli.lines("procedures", "--status", "retired")] == [staged["id"]]


def test_tools_are_shown_with_rate_bounds_and_times(cli: Any, home_with_calls: None) -> None:
    shown = cli("tools")
    assert "search: 4 calls, 75% succeeded (30% to 95%), last " in shown
    assert "    150 ms on average, 150 ms at p50, 285 ms at p95\n" in shown
    assert "timed\ufffd[31m out" in shown
    assert "\x1b" not in shown
    assert cli("tools", "--task-type", "dance") == "no calls\n"
    assert [row["tool_name"] for row in cli.lines("tools", "--only-channel", "roof")] == ["ladder"]
    assert cli("tools", "--only-channel", "roof").startswith("ladder: 1 call, success not known, last ")
    assert cli.lines("tools", "--user", "bob") == []


@pytest.mark.parametrize(
    "typed, why",
    [
        (["procedures", "accept", "nothing"], "nothing"),
        (["procedures", "accept", "a", "retire", "b"], "unexpected extra arguments"),
        (["procedures", "--trigger", "a"], "--trigger"),
        (["procedures", "stage", " "], "instruction"),
        (["procedures", "--status", "new"], "new"),
        (["tools", "--only-channel", "_self_bot"], "private"),
    ],
)
def test_what_cannot_be_is_refused(cli: Any, typed: list[str], why: str) -> None:
    result = cli.run(*typed)
    assert (result.exit_code, result.stdout) == (2, "")
    assert why in result.stderr
