"""The operator's commands on a real store: what they report, what they change, and the code they end with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agentmem.cli.context import CliContext
from agentmem.errors import ConfigError
from tests.benchmarks import __main__ as measuring
from tests.benchmarks.latency import Workload

DEMO = str(Path(__file__).parents[2] / "docs" / "examples" / "demo_conversation.jsonl")


def test_stats_count_what_is_there(cli: Any) -> None:
    cli("import", DEMO)
    found = cli.json("stats")
    assert found["records"]["Turn"] == 60
    assert set(found["lag"].values()) == {0}
    shown = cli("stats", "--user", "nobody")
    assert "user_id" in shown
    assert "nobody" in shown


def test_the_doctor_finds_nothing_wrong_with_a_sound_store(cli: Any) -> None:
    cli("import", DEMO)
    findings = cli.json("admin", "doctor")
    assert findings
    assert {finding["level"] for finding in findings} <= {"ok", "warning"}
    assert "ok  " in cli("admin", "doctor")


def test_the_doctor_names_the_damage_and_ends_with_3(cli: Any) -> None:
    cli("add", "One.")
    (main,) = cli.home.glob("memory.db")
    main.write_bytes(b"not a database at all" * 1000)
    result = cli.run("admin", "doctor")
    assert result.exit_code == 3
    assert "error" in result.stdout
    assert "Traceback" not in result.output
    assert cli.run("remember", "One").exit_code == 1


def test_compact_tells_both_sizes_and_loses_nothing(cli: Any) -> None:
    cli("import", DEMO)
    report = cli.json("admin", "compact")
    assert min(report["bytes_before"], report["bytes_after"]) > 0
    assert " bytes before, " in cli("admin", "compact")
    assert "s1-10" in cli("remember", "peanuts")


def test_a_rebuild_changes_no_answer(cli: Any) -> None:
    cli("import", DEMO)
    ask = ("remember", "who is allergic to peanuts?", "--no-reinforce", "--why")
    before = cli(*ask)
    assert "1 user, " in cli("admin", "rebuild")
    assert "1 user, " in cli("admin", "rebuild", "--all-users", "--what", "words", "--what", "graph")
    assert cli(*ask) == before
    assert cli.run("admin", "rebuild", "--what", "dreams").exit_code == 2


def test_a_store_moves_to_another_embedder(cli: Any) -> None:
    cli("import", DEMO)
    cli("add", "I live in Ghent.", "--user", "bob")
    report = cli.json("admin", "rebuild", "--embedder", "hash:v1:64", "--prune")
    assert report["embedder"] == "hash:v1:64"
    assert report["users"] == 2
    assert cli.json("stats")["embedder"] == "hash:v1:64"
    assert "s1-10" in cli("remember", "who is allergic to peanuts?")


def test_isolation_is_proved_on_the_users_own_data(cli: Any) -> None:
    cli("import", DEMO)
    report = cli.json("admin", "verify", "isolation", "--strangers", "200")
    assert report["identical"] is True
    assert report["queries"] > 0
    assert report["differences"] == []
    assert "all answers are identical" in cli("admin", "verify", "isolation", "--strangers", "50")
    assert set(cli.json("stats")["records"]) >= {"Turn"}
    assert cli.run("admin", "verify", "everything").exit_code == 2


def test_a_difference_ends_with_3(cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from agentmem.facade import isolation

    honest = isolation.verify_isolation

    async def leaking(*args: Any, **options: Any) -> Any:
        report = await honest(*args, **options)
        return type(report)(report.queries, False, ("peanuts: s1-10 came third, was first",), report.seconds)

    monkeypatch.setattr(isolation, "verify_isolation", leaking)
    cli("add", "One.")
    told = cli("admin", "verify", "isolation", "--strangers", "5", code=3)
    assert "answers differ\npeanuts: s1-10 came third, was first" in told


def test_recall_is_measured_and_written(bench: Any, tmp_path: Path) -> None:
    turns = [
        {"dia_id": f"D1:{n}", "session": 1, "speaker": "Ada", "timestamp": f"2024-01-02T10:0{n}:00", "text": text}
        for n, text in enumerate(("The parrot eats figs.", "I play chess."), start=1)
    ]
    qa = [{"question": "What does the parrot eat?", "category": 4, "evidence": ["D1:1"]}]
    data = tmp_path / "talk.json"
    data.write_text(json.dumps({"conversations": [{"id": "d1", "turns": turns, "qa": qa}]}), encoding="utf-8")
    out = tmp_path / "out"
    args = ("recall", "--data", str(data), "--out", str(out), "--embedder", "hash", "--home", str(bench.home))
    assert "R@10" in bench(*args)
    written = bench.json(*args)["written"]
    assert sorted(Path(path).name for path in written) == ["recall-hash.json", "recall-hash.md"]
    assert list(bench.home.iterdir()) == []


def test_what_is_measured_follows_the_options(tmp_path: Path) -> None:
    def plan(what: str | None, data: tuple[Path, ...] = (), sizes: str | None = None) -> Any:
        given = {"embedders": ("hash",), "sizes": sizes, "configurations": None, "servers": False, "llm": ""}
        return measuring.build_plan(CliContext("u", "_global", json=False), what, data, tmp_path, **given)

    data = (tmp_path / "a.json",)
    assert plan("recall", data).workloads == ()
    assert plan("recall", data).data == (str(data[0]),)
    assert plan("latency", data).data == ()
    assert plan("latency", sizes="10,2x5").workloads == (Workload(turns=10), Workload(users=2, turns=5))
    assert len(plan(None, data).workloads) == 4
    assert plan(None, data).startup
    with pytest.raises(ConfigError, match="size"):
        plan("latency", sizes="many")


def test_nothing_to_measure_is_refused(bench: Any) -> None:
    result = bench.run("recall")
    assert result.exit_code == 2
    assert "nothing to measure" in result.stderr
