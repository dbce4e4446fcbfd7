"""The benchmark from end to end on the embedded memory: recall of a small file, sizes in child processes, start-up."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib.resources import as_file, files
from pathlib import Path

import psycopg
import pytest

from agentmem.errors import ConfigError
from agentmem.importers.importer import load_turns
from tests.benchmarks import latency, suite
from tests.benchmarks.latency import Workload
from tests.servers.stack import Stack


def demo_as_data_set(path: Path) -> Path:
    """The demo's conversation as a flat LoCoMo-shaped file."""
    folder = files("docs.examples")
    with as_file(folder / "demo_conversation.jsonl") as lines:
        turns = [
            {
                "dia_id": turn["turn_id"],
                "session": turn["conversation_id"],
                "speaker": turn["speaker"],
                "timestamp": turn["timestamp"].isoformat(),
                "text": turn["content"],
            }
            for turn in load_turns(lines)
        ]
    asked = json.loads((folder / "demo_questions.json").read_text(encoding="utf-8"))
    questions = [
        {"question": one["question"], "category": 1, "category_name": one["about"], "evidence": one["turns"]}
        for one in asked
    ]
    path.write_text(json.dumps({"conversations": [{"id": "demo", "turns": turns, "qa": questions}]}), encoding="utf-8")
    return path


@pytest.mark.nightly
def test_recall_and_sizes_are_measured_and_written(tmp_path: Path) -> None:
    said: list[str] = []
    plan = suite.BenchmarkPlan(
        out=tmp_path / "out",
        data=(str(demo_as_data_set(tmp_path / "demo.json")),),
        embedders=("hash:",),
        workloads=(Workload(turns=20, writes=2, questions=4),),
    )
    written = suite.run(plan, on_step=said.append)
    assert [path.name for path in written] == ["recall-hash.md", "recall-hash.json", "latency.md", "latency.json"]
    assert said == ["recall with hash:: 1 dialogues", "1 x 20 turns, hash:"]
    data = json.loads((tmp_path / "out" / "recall-hash.json").read_text(encoding="utf-8"))
    (dataset,) = data["datasets"].values()
    assert list(dataset["groups"]) == ["default", "best"]
    whole = dataset["groups"]["default"]["all"]
    assert whole["n"] == 8
    assert whole["R@10"][0] >= 0.8
    assert whole["context"][0] == 1.0  # the whole demo fits into 4,000 tokens
    rows = json.loads((tmp_path / "out" / "latency.json").read_text(encoding="utf-8"))
    assert {row["scenario"] for row in rows} >= {"store_turns", "store_turn", "remember", "resident memory", "disk"}
    assert {(row["embedder"], row["users"], row["turns"]) for row in rows} == {("hash:", 1, 20)}


@pytest.mark.nightly
def test_start_up_is_measured_in_processes_of_its_own() -> None:
    rows = latency.measure_startup(rounds=1)
    assert [row["scenario"] for row in rows] == [
        "import agentmem",
        "from agentmem import AgentMemory",
        "agentmem --help",
    ]
    assert all(0 < row["p50_ms"] < 60_000 for row in rows)


def test_recall_is_measured_on_servers_and_nothing_is_left_there(
    tmp_path: Path, stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = (str(demo_as_data_set(tmp_path / "demo.json")),)
    plan = suite.BenchmarkPlan(
        out=tmp_path / "servers",
        data=data,
        embedders=("hash",),
        configurations=(suite.DEFAULT_CONFIGURATION,),
        servers=True,
    )
    with pytest.raises(ConfigError, match="AGENTMEM_LOG_URL"):
        suite.run(plan)
    with pytest.raises(ConfigError, match="only recall"):
        suite.run(replace(plan, startup=True))
    for name, url in stack.urls.items():
        monkeypatch.setenv(f"AGENTMEM_{name.upper()}", url)
    suite.run(plan)
    with pytest.raises(ConfigError, match="is built with hash:v1"):
        suite.run(replace(plan, embedders=("local",)))
    stored = "SELECT count(*), count(payload) FROM memory_versions"
    with psycopg.connect(stack.log_url, autocommit=True) as connection:
        before = connection.execute(stored).fetchone()
        assert before is not None
        assert before[0] > before[1] == 0, "what was stored is erased"
        suite.run(replace(plan, out=tmp_path / "embedded", servers=False))
        assert connection.execute(stored).fetchone() == before, "no server is used unasked"
    found = [json.loads((tmp_path / where / "recall-hash.json").read_text()) for where in ("servers", "embedded")]
    (one,), (other,) = (measured["datasets"].values() for measured in found)
    assert one["groups"] == other["groups"]
