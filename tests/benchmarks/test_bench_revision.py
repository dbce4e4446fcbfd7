"""The cases of belief revision: all are answered rightly on both stacks, and each of them can fail."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from tests.benchmarks import revision, suite
from tests.benchmarks.target import MemoryFactory
from tests.servers.stack import Stack

CASES = revision.load_cases()


def test_there_are_enough_cases_of_every_rule() -> None:
    rules = Counter(case.rule for case in CASES)
    assert set(rules) == {"cascade", "absence", "deletion", "correction", "return", "decoy", "number"}
    assert len(CASES) >= 40
    assert min(rules.values()) >= 4
    assert len({case.name for case in CASES}) == len(CASES)


def test_every_case_is_answered_rightly(tmp_path: Path) -> None:
    written = suite.run(suite.BenchmarkPlan(out=tmp_path / "out", embedders=("hash",), cases="revision"))
    assert [path.name for path in written] == ["revision-hash.md", "revision-hash.json"]
    figures = json.loads(written[1].read_text(encoding="utf-8"))
    assert figures["wrong"] == {}
    assert figures["rows"][-1] == {"rule": "all", "cases": len(CASES), "right": len(CASES), "share": 1.0}


@pytest.mark.nightly
async def test_every_case_is_answered_rightly_on_servers(tmp_path: Path, stack: Stack) -> None:
    patient = {"catch_up_ms": 60_000, "recall": {"entity": {"deadline": 60}}}
    target = MemoryFactory(str(tmp_path), "hash", {**stack.urls, **patient}, user_suffix=stack.user_suffix)
    assert [verdict.failures for verdict in await revision.run(target, CASES)] == [()] * len(CASES)


async def test_what_is_wrong_is_said_of_each_kind_of_expectation(tmp_path: Path) -> None:
    """Each expectation of a case, turned into its opposite, is found to be wrong."""
    case = next(case for case in CASES if case.name == "something current about the same person is")
    turned = [
        replace(case, current=["b"]),
        replace(case, current=["a"]),
        replace(case, stale={"c": "a"}),
        replace(case, stale={"b": "c"}),
        replace(case, doubtful=["b"]),
        replace(case, absent=["c"]),
        replace(case, unknown=["b"]),
        replace(case, unknown=["c"]),
    ]
    verdicts = await revision.run(MemoryFactory(str(tmp_path), "hash"), [case, *turned])
    assert [len(verdict.failures) for verdict in verdicts] == [0] + [1] * len(turned)
    assert revision.build_table(verdicts)[-1] == {"rule": "all", "cases": 9, "right": 1, "share": 1 / 9}
