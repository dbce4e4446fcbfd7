"""The rule extractor, measured on cases: which claims it makes of plain sentences, and that traps stay silent.

A case is one line of `cases/rules.jsonl`: `turns` are read as one window beside the `known` facts, and `facts` are all
the claims that are expected, none of them where `none` is set. `fields` says more of a claim, `entities` are all names.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from importlib import resources
from typing import Any

from agentmem.core.records import Fact, Turn
from agentmem.extraction.drafts import ExtractionDraft, Window
from agentmem.extraction.plain.extractor import extract
from tests.benchmarks.report import count_by_rule


@dataclass(frozen=True, slots=True)
class RulesCase:
    """One line of the file."""

    id: str
    rule: str
    turns: Sequence[Mapping[str, Any]]
    known: Sequence[Mapping[str, Any]] = ()
    facts: Sequence[str] = ()
    none: bool = False
    fields: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    entities: Sequence[str] | None = None
    relations: Sequence[Sequence[str]] = ()


@dataclass(frozen=True, slots=True)
class RulesCaseResult:
    """What came of a case: the claims made, how many of them were expected, and what was wrong, () for nothing."""

    case: RulesCase
    claim_count: int
    expected_count: int
    failures: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RulesReport:
    """All verdicts."""

    results: tuple[RulesCaseResult, ...]

    @property
    def precision(self) -> float:
        """The share of the claims that were expected."""
        made = sum(verdict.claim_count for verdict in self.results)
        return sum(verdict.expected_count for verdict in self.results) / made if made else 0.0

    @property
    def failures(self) -> dict[str, tuple[str, ...]]:
        """What was wrong, by the id of the case."""
        return {verdict.case.id: verdict.failures for verdict in self.results if verdict.failures}

    def rows(self) -> list[dict[str, object]]:
        """A row for each rule, and one for all: cases and how many were right."""
        return count_by_rule([(verdict.case.rule, not verdict.failures) for verdict in self.results])


def load_cases() -> list[RulesCase]:
    """The cases that ship with the package."""
    text = resources.files(__package__).joinpath("cases", "rules.jsonl").read_text(encoding="utf-8")
    return [RulesCase(**json.loads(line)) for line in text.splitlines()]


def run_rules_cases(cases: Sequence[RulesCase] | None = None) -> RulesReport:
    """Read each case with the rules; those that ship when none are given."""
    return RulesReport(tuple(_run_case(case) for case in (load_cases() if cases is None else cases)))


def _run_case(case: RulesCase) -> RulesCaseResult:
    draft = extract(_build_window(case))
    made = [fact.claim for fact in draft.facts]
    return RulesCaseResult(
        case, len(made), sum(claim in case.facts for claim in made), tuple(_find_failures(case, draft))
    )


def _build_window(case: RulesCase) -> Window:
    turns = tuple(_build_turn(number, given) for number, given in enumerate(case.turns))
    facts = tuple(
        Fact(id=given["id"], claim=given["claim"], tags=tuple(given["tags"]), temporal_context="current")
        for given in case.known
    )
    return Window(conversation_id="case", channel="_global", turns=turns, known_facts=facts)


def _build_turn(number: int, given: Mapping[str, Any]) -> Turn:
    moment = given.get("timestamp")
    return Turn(
        id=f"t{number}",
        conversation_id="case",
        index=number,
        content=given["text"],
        role=given.get("role", "user"),
        speaker=given.get("speaker"),
        timestamp=datetime.fromisoformat(moment) if moment else None,
    )


def _find_failures(case: RulesCase, draft: ExtractionDraft) -> Iterator[str]:
    made = {fact.claim: fact for fact in draft.facts}
    for claim in made:
        if claim not in case.facts:
            yield f"{claim!r} should not be claimed"
    for claim in case.facts:
        if claim not in made:
            yield f"{claim!r} should be claimed"
    for claim, wanted in case.fields.items():
        for name, value in wanted.items():
            have = getattr(made[claim], name) if claim in made else None
            have = list(have) if isinstance(have, tuple) else have
            have = have.date().isoformat() if isinstance(have, datetime) else have
            if claim in made and have != value:
                yield f"{name} of {claim!r} should be {value!r}, is {have!r}"
    names = sorted(entity.name for entity in draft.entities)
    if case.entities is not None and names != sorted(case.entities):
        yield f"entities should be {sorted(case.entities)}, are {names}"
    relations = [[relation.source, relation.kind, relation.target] for relation in draft.relations]
    for relation in case.relations:
        if list(relation) not in relations:
            yield f"{' '.join(relation)} should be stated, are {relations}"
