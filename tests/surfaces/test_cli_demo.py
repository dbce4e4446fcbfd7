"""The demo: finds what it stored, shows why, repeats itself byte for byte, and leaves nothing behind."""

from __future__ import annotations

import json
import re
import tempfile
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from agentmem.core.clock import SystemClock
from agentmem.errors import InvalidRecord
from docs.examples.demo import command, load_built_in, load_script, sample_questions
from tests.benchmarks.datasets import Question
from tests.surfaces.conftest import Cli

SPOKEN = ["I adopted a parrot called Figaro.", "The parrot eats figs.", "I play chess on Fridays.", "Hello there."]


def dialogue_file(path: Path, qa: list[dict[str, Any]]) -> Path:
    turns = [
        {"dia_id": f"D1:{n}", "session": 1, "speaker": "Ada", "timestamp": f"2024-01-02T10:0{n}:00", "text": text}
        for n, text in enumerate(SPOKEN, start=1)
    ]
    path.write_text(json.dumps({"conversations": [{"id": "d1", "turns": turns, "qa": qa}]}), encoding="utf-8")
    return path


QA = [
    {"question": "What does the parrot eat?", "answer": "figs", "category": 4, "evidence": ["D1:2"]},
    {"question": "Which parrot?", "answer": "Figaro", "category": 1, "evidence": ["D1:1", "D1:2"]},
    {"question": "What does the dog eat?", "category": 5, "evidence": ["D1:2"]},
]


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What a run of the demo prints."""
    return Cli(tmp_path_factory.mktemp("demo") / "home", program=command)("--long")


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What a run of the demo tells as data."""
    return Cli(tmp_path_factory.mktemp("demo") / "home", program=command).json("--long")


def test_the_demo_tells_a_story_whose_sums_meet(demo: Any) -> None:
    told = re.sub(r" {2,}", " ", demo())
    lines = told.splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 100
    for line in (
        "What must the chef avoid?",
        "I live in Bergen. [outdated since 10 Jun 2026]",
        "What was true in March?\n answers allergies: walnuts; home: Bergen; siblings: Anna",
        "What did you believe in March?\n answers allergies: peanuts; home: Bergen; siblings: Anna",
        'home: Oslo, because Alice said "I live in Oslo now." on 10 June 2026',
        "places searched, 0 leftovers]",
        "Where does Alice live?\n finds nothing",
        "5 turns stored - 1 forgotten = 4 left",
        "Keep it: make demo",
    ):
        assert line in told


def test_the_memory_of_a_story_that_is_kept_can_be_asked(cli: Any, demo: Any, tmp_path: Path) -> None:
    kept = str(tmp_path / "kept")
    told = demo("--home", kept, "--user", "alice")
    assert f'agentmem remember "where do I live?" --home {kept} --user alice' in told
    assert "I live in Oslo now." in cli("remember", "where do I live?", "--home", kept, "--user", "alice")
    again = demo.run("--home", kept, "--user", "alice")
    assert (again.exit_code, "name another --home" in again.stderr) == (2, True)


def test_the_demo_answers_and_says_why(shown: str) -> None:
    for question in load_built_in().shown_questions:
        assert question.text in shown
        assert f"expected: {question.answer}" in shown
    assert "Stored 60 turns of 3 conversations" in shown
    assert " *  1. " in shown
    assert "words #1" in shown
    assert "What an agent gets for 'Which books did Aiko read for the book club?'" in shown
    assert "Evidence recall@10: " in shown
    assert "60 turns stored" in shown


def test_the_demo_finds_its_evidence_even_by_words_alone(told: Any) -> None:
    assert told["evidence_recall_at_10"] >= 0.9
    assert len(told["answers"]) == told["questions"] == 8
    best = told["answers"][0]["found"][0]
    assert (best["evidence"], best["rank"], best["record"]["id"]) == (True, 1, "s1-10")
    assert told["context"]["tokens"] <= 600


def test_a_night_shows_what_the_jobs_did_and_why(shown: str) -> None:
    night = shown[shown.index("A night 14 days later") :].split("\n\n", maxsplit=1)[0].splitlines()
    assert len(night) <= 25
    for line in (
        "  before: 4 facts, 2 of them short-lived, 0 entities, 0 procedures",
        "     Always give me distances in kilometres  (asked for in evening-2)",
        "     Mira is packing for the ferry to the Azores.  (kept for long: used 5 times within 14 days)",
        "     Jonas plays a cello in the city orchestra.  (merged into: Jonas plays the cello in the city orchestra.)",
    ):
        assert line in night
    assert any("(said in s" in line for line in night)
    assert any("(archived: score 0.039 is below 0.05 after 14 days without use)" in line for line in night)


def test_a_night_is_told_as_data_too(told: Any) -> None:
    night = told["night"]
    jobs = {job["job"]: job for job in night["jobs"]}
    assert jobs["gc"]["counts"] == {"archived": 1}
    assert jobs["promote"]["counts"] == {"kept": 1}
    assert jobs["consolidate"]["counts"]["turns"] == 62
    assert night["after"]["of them short-lived"] == 0
    assert night["after"]["facts"] > night["before"]["facts"]


def test_the_night_of_a_demo_that_is_kept_comes_now_and_not_later(cli: Any, demo: Any, tmp_path: Path) -> None:
    demo("--long", "--home", str(tmp_path / "kept"), "--user", "alice")
    facts = cli.lines("facts", "--home", str(tmp_path / "kept"), "--user", "alice")
    now = SystemClock().now()
    ages = {now - datetime.fromisoformat(fact["recorded_at"]) for fact in facts}
    assert timedelta(days=13) < max(ages) < timedelta(days=15)
    assert min(ages) < timedelta(hours=1)


def test_with_a_seed_it_repeats_itself(demo: Any, other_home: Any) -> None:
    assert demo("--long", "--seed", "3", "--json") == other_home("other", program=demo.program)(
        "--long", "--seed", "3", "--json"
    )
    kept = ("--long", "--seed", "3", "--now", "2025-08-01")
    assert demo(*kept) == other_home("other", program=demo.program)(*kept)


def test_it_leaves_nothing_behind_and_touches_no_memory_in_use(
    demo: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_use, scratch = tmp_path / "in-use.db", tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    demo.env["AGENTMEM_LOG_URL"] = f"sqlite:///{in_use}"
    demo()
    assert not in_use.exists()
    assert not demo.home.exists()
    assert list(scratch.iterdir()) == []


def test_a_home_that_is_given_is_kept(cli: Any, demo: Any, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    demo("--long", "--home", str(kept), "--user", "alice")
    again = demo("--long", "--home", str(kept), "--user", "alice")
    assert "Stored 60 turns" in again
    assert "s1-10" in cli("remember", "peanuts", "--home", str(kept), "--user", "alice")


def test_a_dialogue_of_a_file_is_walked_through(demo: Any, tmp_path: Path) -> None:
    path = dialogue_file(tmp_path / "talk.json", QA)
    shown = demo("--data", str(path))
    assert "Stored 4 turns of 1 conversation (d1 of talk.json)" in shown
    assert "What does the parrot eat?  [single-hop]" in shown
    assert "2 of 2 evidence turns among the first 10" in shown
    assert "dog" not in shown
    assert "Evidence recall@10: 1.000 over 2 questions" in shown


def test_a_file_without_questions_is_refused(demo: Any, tmp_path: Path) -> None:
    path = dialogue_file(tmp_path / "talk.json", QA[2:])
    with pytest.raises(InvalidRecord, match="no question with evidence"):
        load_script(path)
    assert demo.run("--data", str(path)).exit_code == 2


def test_a_sample_is_spread_over_categories_and_keeps_their_order() -> None:
    questions = [
        Question(f"{name}{n}", "?", None, 1, name, frozenset("x"))
        for name, count in (("a", 30), ("b", 2), ("c", 10))
        for n in range(count)
    ]
    picked = [question.id for question in sample_questions(questions, 8)]
    assert picked == ["a0", "a10", "a20", "b0", "b1", "c0", "c3", "c6"]
    assert [question.id for question in sample_questions(questions[:3], 8)] == ["a0", "a1", "a2"]
