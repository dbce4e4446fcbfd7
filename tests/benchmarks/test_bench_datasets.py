"""LoCoMo-shaped files as questions with evidence, both shapes, and errors with their place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agentmem.errors import ConfigError, InvalidRecord
from tests.benchmarks.datasets import load_dialogues

TURN = {"session": 1, "speaker": "Ana", "timestamp": "2024-05-01T10:00:00", "text": "Hello."}


def flat(**question: Any) -> dict[str, Any]:
    """A file with two turns and one question."""
    asked = {
        "qid": "q",
        "question": "Who?",
        "answer": "Ana",
        "category": 4,
        "category_name": "single",
        "evidence": ["1"],
    }
    turns = [{**TURN, "dia_id": "1"}, {**TURN, "dia_id": "2"}]
    return {"dataset": "made up", "conversations": [{"id": "d", "turns": turns, "qa": [{**asked, **question}]}]}


def put(folder: Path, content: object, name: str = "dev.json") -> Path:
    """Written as JSON."""
    path = folder / name
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def test_a_flat_file(tmp_path: Path) -> None:
    (dialogue,) = load_dialogues([put(tmp_path, flat())])
    assert (dialogue.dataset, dialogue.id) == ("made up", "d")
    assert [turn["turn_id"] for turn in dialogue.turns] == ["1", "2"]
    (question,) = dialogue.scored_questions
    assert (question.id, question.text, question.answer, question.category_name) == ("q", "Who?", "Ana", "single")
    assert question.evidence == {"1"}


@pytest.mark.parametrize("left_out", [{"category": 5}, {"evidence": []}])
def test_adversarial_questions_and_those_without_evidence_do_not_count(
    tmp_path: Path, left_out: dict[str, Any]
) -> None:
    (dialogue,) = load_dialogues([put(tmp_path, flat(**left_out))])
    assert len(dialogue.questions) == 1
    assert dialogue.scored_questions == ()


@pytest.mark.parametrize(
    "change, field, message",
    [
        ({"category": "4"}, "category", "dev.json: conversations[0].qa[0]: category must be a whole number, got '4'"),
        ({"question": None}, "question", "qa[0]: question must be text, got nothing"),
        ({"evidence": "1"}, "evidence", "qa[0]: evidence must be a list, got '1'"),
        ({"evidence": ["1", "9"]}, "evidence[1]", "evidence[1] must be the dia_id of a turn of this dialogue, got '9'"),
        ({"qid": None}, "qid", "qa[0]: qid must be a non-empty string"),
    ],
)
def test_a_bad_question_is_named(tmp_path: Path, change: dict[str, Any], field: str, message: str) -> None:
    with pytest.raises(InvalidRecord) as caught:
        load_dialogues([put(tmp_path, flat(**change))])
    assert message in str(caught.value)
    assert caught.value.field == field


def test_the_published_shape_with_its_typing_errors(tmp_path: Path) -> None:
    turns = [{"speaker": "Ana", "dia_id": f"D8:{n}", "text": "Hello."} for n in range(1, 8)]
    sample = {
        "sample_id": "conv-1",
        "conversation": {"session_8": turns, "session_8_date_time": "1:56 pm on 8 May, 2023"},
        "qa": [
            {"question": "A?", "answer": 2022, "evidence": ["D8:6; D8:7", "D:8:1", "D08:02", "D"], "category": 1},
            {"question": "B?", "adversarial_answer": "no", "evidence": ["D8:1"], "category": 5},
            {"question": "C?", "answer": "c", "evidence": ["D9:1"], "category": 2},
        ],
    }
    (dialogue,) = load_dialogues([put(tmp_path, [sample], "locomo10.json")])
    assert dialogue.dataset == f"{tmp_path.name}/locomo10"
    assert dialogue.turns[0]["conversation_id"] == "conv-1/session-8"
    (question,) = dialogue.scored_questions
    assert question.evidence == {"D8:6", "D8:7", "D8:1", "D8:2"}
    assert (question.id, question.answer, question.category_name) == ("conv-1/q0", "2022", "multi-hop")


def test_a_file_without_questions_has_none(tmp_path: Path) -> None:
    content = flat()
    del content["conversations"][0]["qa"]
    assert load_dialogues([put(tmp_path, content)])[0].questions == ()


def test_files_that_are_no_data_set_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read"):
        load_dialogues([tmp_path / "missing.json"])
    (tmp_path / "broken.json").write_text("{", encoding="utf-8")
    with pytest.raises(InvalidRecord, match=r"broken.json: document is not valid JSON"):
        load_dialogues([tmp_path / "broken.json"])
    with pytest.raises(InvalidRecord, match=r"dev.json: conversations is missing"):
        load_dialogues([put(tmp_path, {"turns": []})])
    with pytest.raises(InvalidRecord, match="made up: id 'd' comes twice"):
        load_dialogues([put(tmp_path, flat()), put(tmp_path, flat(), "again.json")])
