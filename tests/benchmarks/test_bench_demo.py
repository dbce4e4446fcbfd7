"""The demo's conversation and questions: readable as turns, and every question answered by turns that are there."""

from __future__ import annotations

import json
from importlib.resources import as_file, files

from agentmem.importers.importer import load_turns


def test_the_demo_is_three_dated_sessions_and_its_questions_name_its_turns() -> None:
    folder = files("docs.examples")
    with as_file(folder / "demo_conversation.jsonl") as path:
        turns = list(load_turns(path))
    questions = json.loads((folder / "demo_questions.json").read_text(encoding="utf-8"))
    ids = {turn["turn_id"] for turn in turns}
    assert len(ids) == len(turns) == 60
    assert len({turn["timestamp"].date() for turn in turns}) == len({turn["conversation_id"] for turn in turns}) == 3
    assert {turn["speaker"] for turn in turns} == {"Mira", "Jonas", "Aiko"}
    assert len(questions) == 8
    assert {question["about"] for question in questions} == {"single", "list", "date", "change of mind"}
    for question in questions:
        assert question["question"].endswith("?")
        assert question["answer"]
        assert question["turns"]
        assert set(question["turns"]) <= ids
