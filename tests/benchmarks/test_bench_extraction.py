"""The cases of extraction: all come out as they should on their recorded replies, and each of them can fail."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from agentmem.models.structured_llm import Budget
from tests.benchmarks import extraction
from tests.benchmarks.extraction import ExtractionCase, ExtractionCaseLLM, build_table, is_paraphrase, run_extraction
from tests.fakes.recorded_llm import RecordedLLM

CASES = extraction.load_cases()
RULES = {
    "grounded",
    "turn",
    "negation",
    "time label",
    "question",
    "assistant",
    "number",
    "name",
    "date",
    "hypothetical",
    "echo",
    "correction",
    "entity",
    "relation",
    "person",
    "alone",
    "gloss",
    "agent",
    "malformed",
    "pleasantry",
    "injection",
}


def test_there_are_enough_cases_of_every_rule() -> None:
    rules = Counter(case.rule for case in CASES)
    assert set(rules) == RULES
    assert rules["injection"] >= 20
    assert len(CASES) - rules["injection"] >= 60
    assert 3 * sum(bool(case.doubted or case.refused) for case in CASES) >= len(CASES)
    assert len({case.id for case in CASES}) == len(CASES)


async def test_every_case_comes_out_as_it_should() -> None:
    seen: list[tuple[int, int]] = []
    spending = Budget()
    verdicts = await run_extraction(budget=spending, progress=lambda done, total: seen.append((done, total)))
    assert {verdict.case.id: verdict.failures for verdict in verdicts if verdict.failures} == {}
    assert build_table(verdicts)[-1] == {"rule": "all", "cases": len(CASES), "right": len(CASES), "share": 1.0}
    assert {row["rule"] for row in build_table(verdicts)} == {*RULES, "all"}
    assert seen[-1] == (len(CASES), len(CASES))
    assert spending.total.calls > len(CASES)


def _file(folder: Path, *cases: ExtractionCase) -> Path:
    path = folder / "cases.jsonl"
    path.write_text("\n".join(json.dumps(asdict(case)) for case in cases), encoding="utf-8")
    return path


async def test_what_is_wrong_is_said_of_each_kind_of_expectation(tmp_path: Path) -> None:
    """Each expectation of a case, turned into its opposite, is found to be wrong."""
    case = next(case for case in CASES if case.id == "entities with aliases")
    claim = case.kept[0]
    turned = [
        replace(case, kept=["Somebody rows."]),
        replace(case, kept=[], doubted=case.kept),
        replace(case, refused=case.kept),
        replace(case, noted=["number"]),
        replace(case, expect={claim: {"doubt": "number"}}),
        replace(case, expect={claim: {"entities": ["Munich"]}}),
        replace(case, expect={"Somebody rows.": {"turn_id": "T1"}}),
        replace(case, named=[]),
        replace(case, related=[]),
        replace(case, sentences={"T1": "Somebody rows."}),
        replace(case, failed=1),
    ]
    verdicts = await run_extraction(_file(tmp_path, case, *turned))
    assert [bool(verdict.failures) for verdict in verdicts] == [False] + [True] * len(turned)


async def test_another_model_is_judged_in_other_words(tmp_path: Path) -> None:
    case = next(case for case in CASES if case.id == "the positive of a denial")
    wanted = replace(case, kept=["The user does not eat meat."])

    def answer(claim: str) -> RecordedLLM:
        return RecordedLLM({"turns": [], "facts": [{"turn": "T1", "claim": claim, "quote": "I don't eat meat"}]})

    for claim, right in (
        ("The user doesn't eat any meat", True),
        ("The user eats meat.", False),
        ("The user rows.", False),
    ):
        verdicts = await run_extraction(_file(tmp_path, wanted), answer(claim))
        assert [not verdict.failures for verdict in verdicts] == [right]
    kept = replace(case, doubted=["The user does not eat meat."])
    assert (await run_extraction(_file(tmp_path, kept), answer("The user doesn't eat meat")))[0].failures


@pytest.mark.parametrize(
    "wanted, found, same",
    [
        ("The user has 3 cats.", "The user has three cats", True),
        ("The user has 3 cats.", "The user has 4 cats.", False),
        ("The user eats meat.", "The user does not eat meat.", False),
        ("The user lives in Oslo.", "Since May the user has lived in Oslo, Norway.", True),
        ("The user lives in Oslo.", "The user rows.", False),
    ],
)
def test_claims_are_alike_in_words_numbers_and_polarity(wanted: str, found: str, same: bool) -> None:
    assert is_paraphrase(wanted, found) is same


async def test_the_recorded_model_answers_for_one_case(tmp_path: Path) -> None:
    case = CASES[0]
    llm = ExtractionCaseLLM(case)
    assert (await run_extraction(_file(tmp_path, case), llm))[0].failures == ()
    assert llm.calls == 1
    await llm.close()
