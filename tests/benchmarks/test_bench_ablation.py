"""The measuring of techniques and rerankers: the program behind the reranker, pairs of questions, recorded replies."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import numpy as np
import pytest

from agentmem.models.protocols import EmbedderOptions, LLMOptions, RerankerOptions, TokenEmbedder
from agentmem.models.registry import open_embedder, open_llm, open_reranker
from agentmem.models.structured_llm import Budget, StructuredLLM
from agentmem.recall.options import discover_techniques, parse_options
from tests.benchmarks import ablation
from tests.benchmarks.datasets import BenchmarkDialogue, load_dialogues
from tests.benchmarks.metrics import METRICS, ConfigurationScores, QuestionScores
from tests.benchmarks.recall import Configuration
from tests.benchmarks.rerank import MaxSim, Reader, program
from tests.benchmarks.suite import load_configurations
from tests.fakes.sentence_models import write_lookup, write_tokenizer

TEXTS = ["Ann: music friend", "Ann: train ticket", "Ann: rain"]


@pytest.fixture
def dialogue(tmp_path: Path) -> BenchmarkDialogue:
    said = ("My cello is old.", "We play chess on Sundays.", "The train was late.", "It rained in Oslo.")
    asked = ("Is the cello old?", "When do they play chess?", "What was late?", "Where did it rain?")
    turns = [
        {"dia_id": f"D1:{n}", "session": 1, "speaker": "Ann", "timestamp": f"2024-01-02T10:0{n}:00", "text": text}
        for n, text in enumerate(said)
    ]
    questions = [
        {"qid": f"q{n}", "question": text, "category": 4, "evidence": [f"D1:{n}"]} for n, text in enumerate(asked)
    ]
    path = tmp_path / "small.json"
    path.write_text(json.dumps({"conversations": [{"id": "d1", "turns": turns, "qa": questions}]}), encoding="utf-8")
    return load_dialogues([path])[0]


async def test_a_program_gives_the_reranker_the_scores_of_the_model(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    write_tokenizer(tmp_path / "model")
    write_lookup(tmp_path / "model")
    embedder = open_embedder(f"local:{tmp_path / 'model'}", EmbedderOptions(models_dir=tmp_path / "models"))
    assert isinstance(embedder, TokenEmbedder)
    reader = Reader(embedder)
    await reader.know(TEXTS)
    model, place = MaxSim(reader, rarity=True), str(tmp_path / "socket")
    llm = open_llm(f"command:{program(place)}", LLMOptions())
    assert llm is not None
    reranker = open_reranker(
        "llm:", RerankerOptions(models_dir=tmp_path, llm_factory=lambda: StructuredLLM(llm, Budget(), 1))
    )
    assert reranker is not None
    async with await asyncio.start_unix_server(model.serve, place):
        found = await reranker.score("train ticket", TEXTS)
    assert model.asked == 1
    assert found == pytest.approx(await model.scores("train ticket", TEXTS))
    assert np.argmax(found) == 1
    assert found[1] == pytest.approx(10, abs=0.1)
    assert await model.scores("", TEXTS) == [0, 0, 0]
    await embedder.close()


def test_every_technique_has_a_place_in_the_ablation() -> None:
    configurations = load_configurations(ablation.SETTINGS)
    assert configurations[0] == Configuration("as shipped", {})
    switched = {name for each in configurations for name in each.settings.get("recall", {})}
    assert set(discover_techniques()) - switched - {"entity"} == set(ablation.ASKING) - {"decompose"}
    for each in configurations:
        parse_options(each.settings.get("recall", {}))


def test_two_questions_are_put_into_one(dialogue: BenchmarkDialogue) -> None:
    asked = [each.text for each in dialogue.scored_questions]
    (pair,) = ablation.in_pairs(dialogue).questions
    assert pair.text == f"{asked[0].rstrip('?')}, and where did it rain?"
    assert pair.evidence == dialogue.scored_questions[0].evidence | dialogue.scored_questions[3].evidence


async def test_links_replies_and_settings_are_compared(
    tmp_path: Path, dialogue: BenchmarkDialogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = tmp_path / "settings.json"
    settings.write_text('{"as shipped": {}, "without words": {"recall": {"keyword": {"enabled": false}}}}')
    monkeypatch.setattr(ablation, "SETTINGS", settings)
    replies = tmp_path / "replies.jsonl"
    lines = [{"question": each.id, "hyde": {"sentence": "Rain."}} for each in dialogue.scored_questions[:2]]
    replies.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    found = await ablation.measure(tmp_path / "small.json", replies, tmp_path / "home", "hash")
    groups = {(row["group"], row["configuration"]): row["n"] for row in found}
    assert groups["settings", "without words"] == 4
    assert groups["two questions in one", "decompose by its rule"] == 1
    assert groups["recorded replies", "hyde"] == 2
    assert groups["with the rules' graph", "without links"] == 4
    assert all(str(row["R@10"])[0] in "+-" for row in found if row["configuration"] == "without words")


def test_rows_tell_the_first_and_the_differences_to_it() -> None:
    place = METRICS.index("R@10")

    def scores(name: str, *values: float) -> ConfigurationScores:
        each = [tuple(value if at == place else 0.0 for at in range(len(METRICS))) for value in values]
        return ConfigurationScores(
            name, [QuestionScores(str(n), "d", "d", "c", 1, found) for n, found in enumerate(each)]
        )

    first, other = ablation.rows("some", [scores("a", 1, 0.5), scores("b", 0.5, 0.5)])
    assert (first["R@10"], first["n"]) == ("0.750", 2)
    assert str(other["R@10"]).startswith("-0.250 [-0.500, +0.000]")
