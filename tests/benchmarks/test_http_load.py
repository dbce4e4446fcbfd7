"""The load of the HTTP server: what it calls a violation, what it finds in the log, and a short run on one file."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from agentmem import AsyncAgentMemory
from tests.benchmarks.servers.http_load import (
    HttpLoadPlan,
    compare_with_log,
    find_violations,
    render_document,
    run_http_load,
    summarize_memory,
)
from tests.benchmarks.servers.http_load_clients import MIX

# one process starts in a second or two on a shared machine, so the ratio and the growth say nothing in so short a run
SHORT = HttpLoadPlan(
    clients=4,
    users=6,
    seconds=4,
    rounds=2,
    warming=1,
    rate=20,
    writers=4,
    writing=1,
    ratio=1000,
    alone_ms=1000,
    growth_mb=10_000,
)
GOOD: dict[str, Any] = {
    "latency": [{"operation": "recall", "sdk errors": 0, "http errors": 0, "p95 ratio": 2.0}],
    "alone": [{"operation": "recall", "sdk errors": 0, "http errors": 0, "sdk p50_ms": 5.0, "http p50_ms": 20.0}],
    "memory": [{"growth_mb_per_1000": 10.0}],
    "restarts": [
        {
            "signal": "SIGKILL",
            "exit_code": -9,
            "acknowledged": 5,
            "failures": {"ConnectError": 3},
            "failures_outside_gap": 0,
            "lost": 0,
            "doubled": 0,
            "never_acknowledged": 0,
        }
    ],
}


def test_a_run_that_keeps_all_bounds_has_no_violation() -> None:
    assert find_violations(GOOD, HttpLoadPlan()) == []


@pytest.mark.parametrize(
    "part, field, value, told",
    [
        ("latency", "http errors", 1, "recall: 1 errors by HTTP"),
        ("latency", "sdk errors", 1, "1 by the SDK"),
        ("latency", "p95 ratio", 2.01, "recall: p95 by HTTP is 2.01 times"),
        ("latency", "p95 ratio", float("nan"), "recall: p95"),
        ("alone", "http p50_ms", 20.1, "one client, recall: HTTP adds 15.1 ms"),
        ("alone", "http errors", 1, "one client, recall"),
        ("memory", "growth_mb_per_1000", 10.1, "grew by 10.1 MB"),
        ("restarts", "exit_code", 0, "SIGKILL: exit code 0, not -9"),
        ("restarts", "failures", {"unexpected status 500": 1}, "SIGKILL: {'unexpected status 500': 1}"),
        ("restarts", "failures", {}, "met no write"),
        ("restarts", "lost", 1, "SIGKILL: 1 lost"),
        ("restarts", "doubled", 2, "SIGKILL: 2 doubled"),
        ("restarts", "failures_outside_gap", 1, "SIGKILL: 1 failures outside gap"),
    ],
)
def test_what_breaks_a_bound_is_the_one_violation(part: str, field: str, value: Any, told: str) -> None:
    document = copy.deepcopy(GOOD)
    document[part][0][field] = value
    (line,) = find_violations(document, HttpLoadPlan())
    assert told in line


def test_growth_counts_from_one_look_at_the_server_to_the_next() -> None:
    rows = [{"seconds": float(s), "requests": 100 * s, "rss_mb": 200.0 + max(0, s - 20)} for s in range(41)]
    early, half, end = summarize_memory(rows, 40.0)
    assert [early["seconds"], half["seconds"], end["seconds"]] == [10.0, 20.0, 40.0]
    assert [half["growth_mb_per_1000"], end["growth_mb_per_1000"]] == [0.0, 10.0]


async def test_writes_that_the_log_lacks_or_has_twice_are_counted(home: Path) -> None:
    settings = {"home": home, "embedder": "hash"}
    acknowledged: dict[str, dict[str, str]] = {"ann": {}, "bob": {}}
    async with AsyncAgentMemory("ann", **settings) as memory:
        for user, contents in {"ann": ["one", "two", "two", "three"], "bob": ["one"]}.items():
            view = memory.scoped(user_id=user, conversation_id="restart")
            for content in contents:
                acknowledged[user][content] = (await view.store_turn(content)).id
    assert await compare_with_log(settings, acknowledged) == {"lost": 0, "doubled": 1, "never_acknowledged": 0}
    acknowledged["ann"]["four"] = "an id that was never stored"
    del acknowledged["ann"]["three"]
    assert await compare_with_log(settings, acknowledged) == {"lost": 1, "doubled": 1, "never_acknowledged": 1}


@pytest.mark.nightly
@pytest.mark.timeout(180)
def test_a_short_run_on_one_file_loses_nothing(home: Path) -> None:
    home.mkdir()
    said: list[str] = []
    document = run_http_load(SHORT, {"home": home, "embedder": "hash"}, said.append)
    assert document["violations"] == []
    assert [row["signal"] for row in document["restarts"]] == ["SIGTERM", "SIGKILL"]
    counts = {row["operation"]: (row["sdk n"], row["http n"]) for row in document["latency"]}
    assert counts["all"] == (80, 80)
    assert set(counts) == {*MIX, "all"}
    assert "Restarts while clients write" in render_document(json.loads(json.dumps(document)))
    assert said
