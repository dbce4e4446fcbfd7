"""Questions with annotated evidence, from LoCoMo-shaped files given by path. No data comes with the package."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentmem.errors import ConfigError, InvalidRecord
from agentmem.interchange import locomo
from agentmem.interchange.fields import Place, TurnInput, filled, name, sequence, shown

ADVERSARIAL = 5
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
    def scored(self) -> bool:
        """False for adversarial questions and for those without evidence."""
        return self.category != ADVERSARIAL and bool(self.evidence)


@dataclass(frozen=True)
class Dialogue:
    """What one user remembers, and what is asked of it."""

    id: str
    dataset: str
    turns: tuple[TurnInput, ...]
    questions: tuple[Question, ...]

    @property
    def scored(self) -> tuple[Question, ...]:
        """The questions that count."""
        return tuple(question for question in self.questions if question.scored)


def load(paths: Iterable[str | os.PathLike[str]]) -> list[Dialogue]:
    """All dialogues of the files, in order. The data set's name is the file's `dataset`, else folder and file name.

    Raises ConfigError when a file cannot be read and InvalidRecord naming file, position and field when it is no such
    file, or when two dialogues of one data set share an id.
    """
    found = [dialogue for path in paths for dialogue in _load(Path(path))]
    seen: set[tuple[str, str]] = set()
    for dialogue in found:
        if (dialogue.dataset, dialogue.id) in seen:
            raise InvalidRecord(f"{dialogue.dataset}: id {shown(dialogue.id)} comes twice", field="id")
        seen.add((dialogue.dataset, dialogue.id))
    return found


def _load(path: Path) -> list[Dialogue]:
    place = Place(path.name)
    try:
        document = json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror or error}") from error
    except ValueError as error:
        raise place.error("document", f"is not valid JSON: {error}") from error
    if not locomo.is_locomo(document):
        raise place.error("conversations", "is missing; expected a LoCoMo-shaped file")
    named = document.get("dataset") if isinstance(document, Mapping) else None
    dataset = named if isinstance(named, str) else f"{path.resolve().parent.name}/{path.stem}"
    return [Dialogue(found.id, dataset, found.turns, _questions(found)) for found in locomo.dialogues(document, place)]


def _questions(dialogue: locomo.Dialogue) -> tuple[Question, ...]:
    known = frozenset(turn["turn_id"] for turn in dialogue.turns)
    place = dialogue.place.inside("qa")
    return tuple(_question(entry, i, dialogue, known, place.inside(i)) for i, entry in enumerate(dialogue.questions))


def _question(
    entry: Mapping[str, Any], number: int, dialogue: locomo.Dialogue, known: frozenset[str], place: Place
) -> Question:
    category = entry.get("category")
    if not isinstance(category, int) or isinstance(category, bool):
        raise place.error("category", f"must be a whole number, got {shown(category)}")
    evidence = sequence(entry, "evidence", place) if "evidence" in entry else []
    answer = entry.get("answer")
    return Question(
        id=name(entry.get("qid", f"{dialogue.id}/q{number}"), "qid", place),
        text=filled(entry.get("question"), "question", place),
        answer=None if answer is None else str(answer),
        category=category,
        category_name=str(entry.get("category_name", _CATEGORIES.get(category, category))),
        evidence=_published(evidence, known) if dialogue.published else _checked(evidence, known, place),
    )


def _checked(evidence: list[Any], known: frozenset[str], place: Place) -> frozenset[str]:
    for i, value in enumerate(evidence):
        if not isinstance(value, str) or value not in known:
            raise place.error(f"evidence[{i}]", f"must be the dia_id of a turn of this dialogue, got {shown(value)}")
    return frozenset(evidence)


def _published(evidence: list[Any], known: frozenset[str]) -> frozenset[str]:
    """The release has lists in one string and ids such as `D:11:26` or `D30:05`; ids without a turn are dropped."""
    ids = (match for value in evidence for match in _DIA_ID.finditer(str(value)))
    return frozenset(f"D{int(m[1])}:{int(m[2])}" for m in ids) & known
