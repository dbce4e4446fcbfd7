"""Evidence recall of a memory through its public verbs, under one or several configurations of the same turns."""

from __future__ import annotations

import math
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from unittest.mock import patch

from agentmem.errors import InvalidRecord
from tests.benchmarks.datasets import BenchmarkDialogue, Question
from tests.benchmarks.metrics import (
    MAX_CUTOFF,
    ConfigurationScores,
    QuestionScores,
    percentiles,
    score_context,
    score_ranking,
)
from tests.benchmarks.target import BenchmarkContext, BenchmarkMemory, Opener

DEFAULT_CONTEXT_TOKENS = 4000
BATCH_SIZE = 1000
ProgressCallback = Callable[[int, int], None]
OpenMemory = Callable[[Mapping[str, Any]], AbstractAsyncContextManager[BenchmarkMemory]]


@dataclass(frozen=True)
class Configuration:
    """A named set of settings for reading; what is stored must not depend on them. `constants` are numbers of modules
    that take another value meanwhile, by their full names.
    """

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    constants: Mapping[str, float] = field(default_factory=dict)

    @asynccontextmanager
    async def open(self, open_memory: OpenMemory) -> AsyncIterator[BenchmarkMemory]:
        """A memory with these settings and constants, to be used with `async with`."""
        with ExitStack() as patched:
            for name, value in self.constants.items():
                patched.enter_context(patch(name, value))
            async with open_memory(self.settings) as memory:
                yield memory


@dataclass
class ConfigurationRun:
    """What one configuration reached, and what it took."""

    scores: ConfigurationScores
    remember_seconds: list[float] = field(default_factory=list)
    context_seconds: list[float] = field(default_factory=list)
    context_tokens: list[int] = field(default_factory=list)

    def cost(self) -> dict[str, Any]:
        """Latencies of both verbs, and the mean and largest size of the contexts in tokens."""
        sizes = self.context_tokens
        return {
            "remember": percentiles(self.remember_seconds),
            "context": percentiles(self.context_seconds),
            "context_tokens": {"mean": sum(sizes) / len(sizes), "max": max(sizes)} if sizes else {},
        }


@dataclass
class RecallEvaluation:
    """The readings of all configurations, over the same questions in the same order."""

    runs: list[ConfigurationRun]
    turns: int = 0
    store_seconds: float = 0.0


async def evaluate(
    open_memory: Opener,
    dialogues: Sequence[BenchmarkDialogue],
    configurations: Sequence[Configuration] = (Configuration("default"),),
    *,
    context_tokens: int = DEFAULT_CONTEXT_TOKENS,
    progress: ProgressCallback | None = None,
    erase: bool = False,
) -> RecallEvaluation:
    """Store every dialogue under a user of its own, then ask its scored questions under every configuration.

    `context_tokens` is the budget of `context()`, at 4 characters a token; a larger context scores 0, and a budget of 0
    leaves contexts out. `progress` is called with questions asked and questions in all. All rankings of a dialogue
    come before its first context, so that no context can change one. `erase` leaves nothing of these users behind.
    Raises InvalidRecord when two configurations share a name.
    """
    names = [configuration.name for configuration in configurations]
    if not names or len(set(names)) != len(names):
        raise InvalidRecord(f"configurations need different names, got {names}", field="configurations")
    result = RecallEvaluation([ConfigurationRun(ConfigurationScores(name)) for name in names])
    total = sum(len(dialogue.scored_questions) for dialogue in dialogues) * len(names)

    def told() -> None:
        if progress is not None:
            progress(sum(len(r.scores.questions) for r in result.runs), total)

    for dialogue in dialogues:
        user_id = f"{dialogue.dataset}/{dialogue.id}"
        try:
            await _ask_all(partial(open_memory, user_id), dialogue, configurations, result, context_tokens, told)
        finally:
            if erase:
                async with open_memory(user_id, configurations[0].settings) as memory:
                    await memory.erase()
    return result


async def _ask_all(
    open_memory: OpenMemory,
    dialogue: BenchmarkDialogue,
    configurations: Sequence[Configuration],
    result: RecallEvaluation,
    budget: int,
    on_progress: Callable[[], None],
) -> None:
    """Store one dialogue and ask its questions; `on_progress` is called when one configuration has answered them."""
    async with open_memory(configurations[0].settings) as memory:
        result.store_seconds += await store_turns(memory, dialogue.turns)
    result.turns += len(dialogue.turns)
    ranked = []
    for configuration, reading in zip(configurations, result.runs, strict=True):
        async with configuration.open(open_memory) as memory:
            ranked.append([await _score_question(memory, question, reading) for question in dialogue.scored_questions])
    for configuration, reading, values in zip(configurations, result.runs, ranked, strict=True):
        async with configuration.open(open_memory) as memory:
            await _score_contexts(memory, dialogue, reading, values, budget)
        on_progress()


async def store_turns(memory: BenchmarkMemory, turns: Sequence[Mapping[str, Any]]) -> float:
    """Store turns in batches of 1,000 and wait until all of them can be found; the seconds it took."""
    begun = time.perf_counter()
    for i in range(0, len(turns), BATCH_SIZE):
        await memory.store_turns(turns[i : i + BATCH_SIZE])
    await memory.flush()
    return time.perf_counter() - begun


async def _score_question(memory: BenchmarkMemory, question: Question, run: ConfigurationRun) -> tuple[float, ...]:
    begun = time.perf_counter()
    bundle = await memory.remember(question.text, top_k=MAX_CUTOFF, reinforce=False)
    run.remember_seconds.append(time.perf_counter() - begun)
    return score_ranking([turn.id for turn in bundle.turns][:MAX_CUTOFF], question.evidence)


async def _score_contexts(
    memory: BenchmarkMemory,
    dialogue: BenchmarkDialogue,
    run: ConfigurationRun,
    values_by_question: Sequence[tuple[float, ...]],
    budget: int,
) -> None:
    contents = {turn["turn_id"]: _normalize_whitespace(turn["content"]) for turn in dialogue.turns}
    for question, values in zip(dialogue.scored_questions, values_by_question, strict=True):
        share = math.nan
        if budget:
            begun = time.perf_counter()
            context = await memory.context(question.text, max_tokens=budget)
            run.context_seconds.append(time.perf_counter() - begun)
            run.context_tokens.append(math.ceil(len(context.text) / 4))
            fits = run.context_tokens[-1] <= budget
            share = score_context(find_rendered_turns(context, contents), question.evidence) if fits else 0.0
        category = question.category_name
        run.scores.questions.append(
            QuestionScores(
                question.id, dialogue.dataset, dialogue.id, category, len(question.evidence), (*values, share)
            )
        )


def find_rendered_turns(context: BenchmarkContext, contents: Mapping[str, str]) -> set[str]:
    """The turns that the context names as rendered whole and whose text it does hold; white space may differ."""
    text = _normalize_whitespace(context.text)
    named = {record_id for kind, record_id in context.records if kind.lower() == "turn"}
    return {record_id for record_id in named if contents.get(record_id, "\0") in text}


def _normalize_whitespace(text: str) -> str:
    return " ".join(text.split())
