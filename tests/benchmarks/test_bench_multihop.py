"""Questions over several links: the graph finds what words and meaning cannot, and the same on both stacks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks import multihop
from tests.benchmarks.target import BenchmarkMemory, MemoryFactory
from tests.servers.stack import Stack

CASES = multihop.load_cases()
FEW = 260  # turns beside the cases', for a quick test


def test_there_are_enough_questions_and_none_names_its_answer() -> None:
    distances = Counter(multihop.count_hops(case, CASES) for case in CASES)
    assert len(CASES) >= 40
    assert set(distances) == {2, 3}
    assert min(distances.values()) >= 15
    assert not [case.name for case in CASES if set(case.names.split()) & set(case.question.split())]


def test_every_answer_has_doubles_about_somebody_else() -> None:
    turns = multihop.build_distractors(CASES, multihop.DISTRACTOR_COUNT)
    assert len(turns) == multihop.DISTRACTOR_COUNT
    texts = [text for text, _ in turns]
    for case in CASES:
        rest = case.text.replace(case.names, "")
        assert sum(text.replace(names[0], "") == rest for text, names in turns) >= 30
        assert case.text not in texts


@pytest.mark.nightly
async def test_the_graph_leads_to_the_answers(tmp_path: Path) -> None:
    found = await multihop.run(MemoryFactory(str(tmp_path), "local"), CASES, distractors=FEW)
    *_, total = multihop.build_table(found)
    assert total["links"] == "all"
    reached = sum(one.rank is not None for one in found) / len(found)
    by_words_alone = sum(one.rank_without_graph is not None for one in found) / len(found)
    assert (total["R@10"], total["R@10 without the graph"]) == (round(reached, 4), round(by_words_alone, 4))
    assert reached >= 0.9
    assert by_words_alone <= reached - 0.2
    assert set(multihop.failures_by_case(found)) == {one.case.name for one in found if one.rank is None}


async def test_links_are_waited_for(tmp_path: Path) -> None:
    given: list[Mapping[str, Any]] = []

    class Told(MemoryFactory):
        def __call__(self, user_id: str, settings: Mapping[str, Any]) -> AbstractAsyncContextManager[BenchmarkMemory]:
            given.append(settings)
            return super().__call__(user_id, settings)

    target = Told(str(tmp_path), "hash")
    assert len(await multihop.run(target, CASES[:1], distractors=1)) == 1
    assert [settings["recall"]["entity"]["deadline"] for settings in given] == [60.0]


@pytest.mark.nightly
async def test_both_stacks_find_the_same(tmp_path: Path, stack: Stack) -> None:
    cases = CASES[::2]
    embedded = await multihop.run(MemoryFactory(str(tmp_path / "file"), "hash"), cases, distractors=60)
    target = MemoryFactory(
        str(tmp_path / "servers"), "hash", {**stack.urls, "catch_up_ms": 60_000}, user_suffix=stack.user_suffix
    )
    servers = await multihop.run(target, cases, distractors=60)
    assert [(one.case.name, one.rank, one.rank_without_graph) for one in servers] == [
        (one.case.name, one.rank, one.rank_without_graph) for one in embedded
    ]
