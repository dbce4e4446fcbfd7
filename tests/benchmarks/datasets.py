"""Questions with annotated evidence, from LoCoMo-shaped files given by path. No data comes with the package."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentmem.core.input_fields import (
    SourceLocation,
    TurnInput,
    describe_value,
    parse_identifier,
    parse_list_field,
    parse_nonempty_text,
)
from agentmem.errors import ConfigError, InvalidRecord
from agentmem.importers.formats import locomo

ADVERSARIAL_CATEGORY = 5
# Category numbers of the published release, which has no names in it.
_CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}
_DIA_ID = re.compile(r"D:?(\d+):(\d+)")


@dataclass(frozen=True)
class Question:
    """A question and the ids of the turns that answer it."""

    id: str
    text: str
    answer: str | None
    category: int
    category_name: str
    evidence: frozenset[str]

    @property
    def is_scored(self) -> bool:
        """False for adversarial questions and for those without evidence."""
        return self.category != ADVERSARIAL_CATEGORY and bool(self.evidence)


@dataclass(frozen=True)
class BenchmarkDialogue:
    """What one user remembers, and what is asked of it."""

    id: str
    dataset: str
    turns: tuple[TurnInput, ...]
    questions: tuple[Question, ...]

    @property
    def scored_questions(self) -> tuple[Question, ...]:
        """The questions that count."""
        return tuple(question for question in self.questions if question.is_scored)


def load_dialogues(paths: Iterable[str | os.PathLike[str]]) -> list[BenchmarkDialogue]:
    """All dialogues of the files, in order. The data set's name is the file's `dataset`, else folder and file name.

    Raises ConfigError when a file cannot be read and InvalidRecord naming file, position and field when it is no such
    file, or when two dialogues of one data set share an id.
    """
    found = [dialogue for path in paths for dialogue in _load_file(Path(path))]
    seen: set[tuple[str, str]] = set()
    for dialogue in found:
        if (dialogue.dataset, dialogue.id) in seen:
            raise InvalidRecord(f"{dialogue.dataset}: id {describe_value(dialogue.id)} comes twice", field="id")
        seen.add((dialogue.dataset, dialogue.id))
    return found


def _load_file(path: Path) -> list[BenchmarkDialogue]:
    place = SourceLocation(path.name)
    try:
        document = json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror or error}") from error
    except ValueError as error:
        raise place.build_error("document", f"is not valid JSON: {error}") from error
    if not locomo.is_locomo(document):
        raise place.build_error("conversations", "is missing; expected a LoCoMo-shaped file")
    named = document.get("dataset") if isinstance(document, Mapping) else None
    dataset = named if isinstance(named, str) else f"{path.resolve().parent.name}/{path.stem}"
    return [
        BenchmarkDialogue(found.id, dataset, found.turns, _parse_questions(found))
        for found in locomo.parse_dialogues(document, place)
    ]


def _parse_questions(dialogue: locomo.LocomoDialogue) -> tuple[Question, ...]:
    known = frozenset(turn["turn_id"] for turn in dialogue.turns)
    place = dialogue.location.child("qa")
    return tuple(
        _parse_question(entry, i, dialogue, known, place.child(i)) for i, entry in enumerate(dialogue.questions)
    )


def _parse_question(
    entry: Mapping[str, Any], number: int, dialogue: locomo.LocomoDialogue, known: frozenset[str], place: SourceLocation
) -> Question:
    category = entry.get("category")
    if not isinstance(category, int) or isinstance(category, bool):
        raise place.build_error("category", f"must be a whole number, got {describe_value(category)}")
    evidence = parse_list_field(entry, "evidence", place) if "evidence" in entry else []
    answer = entry.get("answer")
    return Question(
        id=parse_identifier(entry.get("qid", f"{dialogue.id}/q{number}"), "qid", place),
        text=parse_nonempty_text(entry.get("question"), "question", place),
        answer=None if answer is None else str(answer),
        category=category,
        category_name=str(entry.get("category_name", _CATEGORIES.get(category, category))),
        evidence=_parse_published_evidence(evidence, known)
        if dialogue.is_published_format
        else _check_evidence(evidence, known, place),
    )


def _check_evidence(evidence: list[Any], known: frozenset[str], place: SourceLocation) -> frozenset[str]:
    for i, value in enumerate(evidence):
        if not isinstance(value, str) or value not in known:
            raise place.build_error(
                f"evidence[{i}]", f"must be the dia_id of a turn of this dialogue, got {describe_value(value)}"
            )
    return frozenset(evidence)


def _parse_published_evidence(evidence: list[Any], known: frozenset[str]) -> frozenset[str]:
    """The release has lists in one string and ids such as `D:11:26` or `D30:05`; ids without a turn are dropped."""
    ids = (match for value in evidence for match in _DIA_ID.finditer(str(value)))
    return frozenset(f"D{int(m[1])}:{int(m[2])}" for m in ids) & known
