"""The benchmark of idle clients: a short run, and what it calls a failure in a log."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.benchmarks.servers.idle_clients import IdlePlan, find_failures, run_idle_clients


@pytest.mark.nightly
def test_a_short_run_serves_those_who_work(tmp_path: Path) -> None:
    plan = IdlePlan(working=3, streams=2, uploads=4, silent=4, seconds=3.0, think=0.1)
    document = run_idle_clients(plan, tmp_path)
    assert [(row["errors"], row["n"] > 0) for row in document["working"]] == [(0, True)] * 3
    assert document["server"][-1]["client_connections"] == 0


def test_failures_of_a_log_are_errors_and_lines_that_are_no_json() -> None:
    good, warned = '{"event": "request", "status": 200, "level": "info"}', '{"event": "x", "level": "warning"}'
    failed = '{"event": "request", "status": 500, "level": "info"}'
    assert find_failures(f"{good}\n{warned}\n{failed}\nTraceback") == [warned, failed, "Traceback"]
