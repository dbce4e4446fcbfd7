"""The benchmarks and their reports, run on a memory small enough to know its answers: it ranks by shared words."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from agentmem.core.input_fields import TurnInput
from agentmem.errors import ConfigError, InvalidRecord
from tests.benchmarks import latency, report, suite
from tests.benchmarks.datasets import BenchmarkDialogue, Question
from tests.benchmarks.latency import Workload
from tests.benchmarks.metrics import METRICS
from tests.benchmarks.recall import Configuration, evaluate, find_rendered_turns, store_turns
from tests.benchmarks.synthetic import SyntheticConversations


@dataclass(frozen=True)
class Record:
    id: str


@dataclass(frozen=True)
class Found:
    turns: list[Record]


@dataclass(frozen=True)
class Text:
    text: str
    records: list[tuple[str, str]]


@dataclass
class SharedWords:
    """A memory of many users that ranks turns by the words they share with the question; `reverse` spoils it."""

    user_id: str
    stored: dict[str, dict[str, str]]
    reverse: bool = False
    log: list[str] = field(default_factory=list)

    async def store_turn(self, turn: Mapping[str, Any]) -> None:
        await self.store_turns([turn])

    async def store_turns(self, turns: Sequence[Mapping[str, Any]]) -> None:
        self.log.append(f"store {len(turns)}")
        own = self.stored.setdefault(self.user_id, {})
        own.update({turn.get("turn_id", f"own-{len(own)}"): turn["content"] for turn in turns})

    async def flush(self) -> None:
        self.log.append("flush")

    def ranked(self, query: str) -> list[str]:
        wanted = set(re.findall(r"\w+", query.lower()))
        own = self.stored.get(self.user_id, {})
        shared = {turn_id: len(wanted & set(re.findall(r"\w+", text.lower()))) for turn_id, text in own.items()}
        return sorted(shared, key=lambda turn_id: (-shared[turn_id], turn_id), reverse=self.reverse)

    async def remember(self, query: str, *, top_k: int, reinforce: bool) -> Found:
        assert not reinforce
        self.log.append("remember")
        return Found([Record(turn_id) for turn_id in self.ranked(query)[:top_k]])

    async def context(self, query: str, *, max_tokens: int) -> Text:
        self.log.append("context")
        own, room, held = self.stored[self.user_id], max_tokens * 4, list[str]()
        for turn_id in self.ranked(query):
            if sum(len(own[one]) + 1 for one in [*held, turn_id]) <= room:
                held.append(turn_id)
        return Text("\n".join(own[turn_id] for turn_id in held), [("Turn", turn_id) for turn_id in held])

    async def erase(self) -> None:
        self.log.append("erase")
        del self.stored[self.user_id]

    def scoped(self, *, user_id: str) -> SharedWords:
        return SharedWords(user_id, self.stored, self.reverse, self.log)


@dataclass
class Opener:
    """Opens memories over one shared store, and keeps who was opened with what."""

    stored: dict[str, dict[str, str]] = field(default_factory=dict)
    log: list[str] = field(default_factory=list)

    def __call__(self, user_id: str, settings: Mapping[str, Any]) -> AbstractAsyncContextManager[SharedWords]:
        return self._open(user_id, bool(settings["reverse"]) if settings else False)

    @asynccontextmanager
    async def _open(self, user_id: str, reverse: bool) -> AsyncIterator[SharedWords]:
        yield SharedWords(user_id, self.stored, reverse, self.log)


TEXTS = ("I live in Oslo.", "My cat is called Comma.", "I adopted the cat in May.", "The weather is grey.")
PLAIN, SPOILT = Configuration("plain"), Configuration("spoilt", {"reverse": True})


def dialogue(name: str = "d", dataset: str = "made up") -> BenchmarkDialogue:
    turns = tuple(
        TurnInput(role="user", content=text, turn_id=f"t{n}", timestamp=datetime(2024, 5, 1, tzinfo=UTC))
        for n, text in enumerate(TEXTS)
    )
    questions = (
        Question(
            "q1", "what is the cat called, and when was the cat adopted in?", "", 1, "multi", frozenset({"t1", "t2"})
        ),
        Question("q2", "do I live in Oslo", "", 4, "single", frozenset({"t0"})),
        Question("q3", "is this a trick", "", 5, "adversarial", frozenset({"t3"})),
    )
    return BenchmarkDialogue(name, dataset, turns, questions)


async def test_evaluate_scores_every_question_that_counts() -> None:
    opener, seen = Opener(), list[tuple[int, int]]()
    result = await evaluate(
        opener,
        [dialogue()],
        [PLAIN, SPOILT],
        context_tokens=11,
        progress=lambda done, total: seen.append((done, total)),
    )
    plain, spoilt = (reading.scores for reading in result.runs)
    assert [(q.id, q.category, q.evidence, q.dialogue) for q in plain.questions] == [
        ("q1", "multi", 2, "d"),
        ("q2", "single", 1, "d"),
    ]
    assert plain.column("R@1").tolist() == [0.5, 1.0]
    assert plain.column("all@3").tolist() == [1.0, 1.0]
    assert spoilt.column("R@1").tolist() == [0.0, 0.0]
    assert spoilt.column("R@50").tolist() == [1.0, 1.0]
    # 44 characters hold two of the turns
    assert plain.column("context").tolist() == [0.5, 1.0]
    assert result.turns == 4
    assert seen == [(2, 4), (4, 4)]
    assert list(opener.stored) == ["made up/d"]


async def test_users_are_erased_where_it_is_asked_even_after_a_failure() -> None:
    opener = Opener()
    await evaluate(opener, [dialogue()], [PLAIN, SPOILT], erase=True)
    assert opener.stored == {}
    with pytest.raises(KeyError):
        await evaluate(opener, [dialogue()], [PLAIN, Configuration("broken", {"no": 1})], erase=True)
    assert opener.stored == {}
    assert opener.log.count("erase") == 2


async def test_no_context_comes_before_a_ranking() -> None:
    opener = Opener()
    await evaluate(opener, [dialogue()], [PLAIN, SPOILT])
    assert opener.log == ["store 4", "flush", *["remember"] * 4, *["context"] * 4]


async def test_contexts_can_be_left_out() -> None:
    opener = Opener()
    result = await evaluate(opener, [dialogue()], [PLAIN], context_tokens=0)
    assert "context" not in opener.log
    assert all(math.isnan(value) for value in result.runs[0].scores.column("context"))
    assert result.runs[0].cost()["context_tokens"] == {}


async def test_a_context_over_its_budget_scores_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    generous = SharedWords.context
    monkeypatch.setattr(
        SharedWords, "context", lambda self, query, *, max_tokens: generous(self, query, max_tokens=400)
    )
    result = await evaluate(Opener(), [dialogue()], [PLAIN], context_tokens=10)
    assert result.runs[0].scores.column("context").tolist() == [0.0, 0.0]
    assert result.runs[0].context_tokens == [22, 22]


async def test_configurations_need_different_names() -> None:
    with pytest.raises(InvalidRecord, match="different names"):
        await evaluate(Opener(), [dialogue()], [PLAIN, PLAIN])


async def test_turns_are_stored_a_thousand_at_a_time() -> None:
    opener = Opener()
    async with opener("u", {}) as memory:
        await store_turns(memory, list(SyntheticConversations().generate_turns(2001)))
    assert opener.log == ["store 1000", "store 1000", "store 1", "flush"]


def test_a_turn_counts_only_when_its_text_is_there() -> None:
    contents = {"a": "one two", "b": "three", "c": "four"}
    context = Text(
        "2024-05-01 one\n  two, three and more", [("Turn", "a"), ("turn", "c"), ("Fact", "b"), ("Turn", "zz")]
    )
    assert find_rendered_turns(context, contents) == {"a"}


async def test_the_report_names_groups_differences_and_cost(tmp_path: Path) -> None:
    result = await evaluate(Opener(), [dialogue(), dialogue("e", "other")], [PLAIN, SPOILT])
    text = report.render_recall(result)
    assert [line for line in text.splitlines() if line.startswith("#")] == [
        "## made up",
        "### plain",
        "### spoilt",
        "## other",
        "### plain",
        "### spoilt",
        "## Cost",
    ]
    rows = report.group_rows(result.runs[0].scores.for_dataset("other"))
    assert [row["questions"] for row in rows] == ["all", "multi", "single", "1 evidence turn", "2 evidence turns"]
    assert rows[1]["R@1"] == "0.500"
    assert str(rows[0]["R@1"]).startswith("0.750 [0.")
    (difference,) = report.difference_rows([reading.scores for reading in result.runs])
    assert str(difference["R@1"]).startswith("-0.750 [-")
    markdown, figures = report.write_report(tmp_path / "new", "recall", text, report.recall_to_data(result))
    assert markdown.read_text(encoding="utf-8") == text
    data = json.loads(figures.read_text(encoding="utf-8"))
    assert data["datasets"]["other"]["groups"]["plain"]["single"]["R@1"] == [1.0, 1.0, 1.0]
    assert data["datasets"]["other"]["minus plain"]["spoilt"]["R@1"][0] == -0.75
    assert data["questions"]["plain"]["other/q2"][METRICS.index("R@1")] == 1.0


def test_a_table_aligns_its_columns_and_leaves_gaps_empty() -> None:
    assert report.render_table([]) == ""
    assert report.render_table(
        [{"a": 12_345, "b": 0.1234}, {"a": "x|y", "c": 12.34, "b": math.nan}, {"b": 4321.6}]
    ).splitlines() == [
        "| a      | b     | c    |",
        "| ------ | ----- | ---- |",
        "| 12,345 | 0.123 |      |",
        "| x\\|y   |       | 12.3 |",
        "|        | 4,322 |      |",
    ]


def test_what_is_no_number_becomes_null(tmp_path: Path) -> None:
    _, figures = report.write_report(tmp_path, "x", "", {"a": [math.nan, (1.0, math.inf)]})
    assert json.loads(figures.read_text(encoding="utf-8")) == {"a": [None, [1.0, None]]}


async def test_fill_and_ask_measure_every_scenario() -> None:
    opener, load = Opener(), Workload(users=3, turns=1200, writes=4, questions=10)
    rows = [*await latency.fill(opener, load), *await latency.ask(opener, load)]
    found = {row["scenario"]: row for row in rows}
    assert list(found) == ["store_turns", "store_turn", "remember", "remember, first of a user", "resident memory"]
    assert found["store_turns"]["turns_per_s"] > 0
    assert (found["store_turn"]["n"], found["remember"]["n"], found["remember, first of a user"]["n"]) == (4, 7, 3)
    assert found["resident memory"]["rss_mb"] > 10
    assert {user: len(turns) for user, turns in opener.stored.items()} == {
        "warm-up": 2,
        "user-0": 1204,
        "user-1": 1200,
        "user-2": 1200,
    }


def test_a_child_is_a_process_of_its_own() -> None:
    assert latency.run_in_child(os.getpid) != os.getpid()


def test_made_up_turns_repeat_with_their_seed_and_have_the_stated_size() -> None:
    turns = list(SyntheticConversations(7).generate_turns(200))
    assert turns == list(SyntheticConversations(7).generate_turns(200))
    assert turns != list(SyntheticConversations(8).generate_turns(200))
    assert {len(turn["content"].split()) for turn in turns} == {22, 23, 24, 25}
    assert {len(re.findall(r"[.?]", turn["content"])) for turn in turns} == {2, 3}
    assert len({turn["conversation_id"] for turn in turns}) == 10
    assert turns[19]["timestamp"] < turns[20]["timestamp"]
    words = [word for turn in turns for word in re.findall(r"[a-z]+", turn["content"].lower())]
    assert 0.04 < words.count("the") / len(words) < 0.12
    assert len(set(words)) > 800
    questions = SyntheticConversations(7).generate_questions(6)
    assert len(set(questions)) == 6
    assert all(question.endswith("?") for question in questions)


@pytest.mark.parametrize(
    "written, expected", [("10000", (1, 10_000)), ("1000x500", (1000, 500)), (" 100_000 ", (1, 100_000))]
)
def test_a_size_is_turns_or_users_by_turns(written: str, expected: tuple[int, int]) -> None:
    load = suite.parse_workload(written)
    assert (load.users, load.turns) == expected


@pytest.mark.parametrize("written", ["", "x5", "5x", "0", "3x0", "many"])
def test_another_size_is_refused(written: str) -> None:
    with pytest.raises(ConfigError, match="a size must be turns or users x turns"):
        suite.parse_workload(written)


def test_configurations_come_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "configurations.json"
    path.write_text('{"default": {}, "no words": {"recall": {"keyword": {"enabled": false}}}}', encoding="utf-8")
    first, second = suite.load_configurations(path)
    assert (first.name, first.settings) == ("default", {})
    assert second.settings == {"recall": {"keyword": {"enabled": False}}}


@pytest.mark.parametrize("written", ["", "[]", "{}", '{"a": 1}'])
def test_other_files_hold_no_configurations(tmp_path: Path, written: str) -> None:
    path = tmp_path / "configurations.json"
    path.write_text(written, encoding="utf-8")
    with pytest.raises(ConfigError, match="configurations"):
        suite.load_configurations(path)


def test_a_plan_without_anything_to_measure_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nothing to measure"):
        suite.run(suite.BenchmarkPlan(out=tmp_path))


@pytest.mark.parametrize("name, expected", [("hash:", "hash"), ("local:a/b-C", "local-a-b-c"), ("::", "embedder")])
def test_a_slug_is_a_part_of_a_file_name(name: str, expected: str) -> None:
    assert suite.slugify(name) == expected
