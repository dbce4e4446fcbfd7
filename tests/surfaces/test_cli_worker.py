"""The worker and the jobs from the command line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest


def test_each_job_runs_once_and_says_what_it_did(cli: Any) -> None:
    cli("add", "My sister Anna lives in Porto.")
    foreseen = {report["job"]: report for report in cli.json("worker", "--once", "--dry-run")}
    assert foreseen["consolidate"]["counts"]["turns"] == 1
    assert "Anna" not in cli("facts")
    shown = cli("worker", "--once", "--jobs", "consolidate,check")
    assert "1 turns" in shown
    assert "check" in shown
    assert "Anna" in cli("facts")
    listed = cli("jobs")
    assert "consolidate  every 15 min, by changes" in listed
    assert "1 turns" in listed
    (consolidate,) = [job for job in cli.json("jobs", "--all-users") if job["job"] == "consolidate"]
    assert (consolidate["state"]["job"], consolidate["waiting"]) == ("consolidate", 0)


@pytest.mark.parametrize(
    "arguments, said",
    [(("--dry-run",), "--dry-run needs --once"), (("--once", "--jobs", "tidy"), "jobs must be among")],
)
def test_what_it_cannot_do_is_refused(cli: Any, arguments: tuple[str, ...], said: str) -> None:
    refused = cli.run("worker", *arguments)
    assert refused.exit_code == 2
    assert said in refused.stderr


@pytest.mark.parametrize(
    "command", [[sys.executable, "-m", "workers"], [str(Path(sys.executable).with_name("agentmem")), "worker"]]
)
def test_a_worker_ends_at_sigterm(home: Path, command: list[str]) -> None:
    environment = {**os.environ, "AGENTMEM_HOME": str(home), "AGENTMEM_EMBEDDER": "hash"}
    beat = home.parent / "beat"
    arguments = [*command, "--health-file", str(beat), "--port", "0"]
    worker = subprocess.Popen(arguments, env=environment, stderr=subprocess.PIPE, text=True)
    assert worker.stderr is not None
    try:
        said = [worker.stderr.readline() for _ in range(2)]
        assert any("/health and /metrics" in line for line in said), said
        while not beat.exists():
            assert worker.poll() is None
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(timeout=30) == 0
    finally:
        worker.kill()
        worker.stderr.close()
        worker.wait()
