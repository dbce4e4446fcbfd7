"""The demo: stores a conversation, asks what is known to be answered in it, and shows what came back and why."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentmem.cli.intake import Importer
from agentmem.cli.night import DAYS_LATER, ConsolidationDemo, OffsetClock, run_consolidation_demo, to_document
from agentmem.cli.night import render_lines as night_lines
from agentmem.cli.progress import Progress
from agentmem.cli.render import bold, colorize, dim, pluralize, render_record, sanitize
from agentmem.model.clock import SystemClock

if TYPE_CHECKING:
    from agentmem.agent_memory import AsyncAgentMemory
    from agentmem.bench.datasets import Question
    from agentmem.interchange.fields import TurnInput
    from agentmem.model.clock import Clock
    from agentmem.recall.context import Context

TOP_K = 10
MAX_SHOWN_RESULTS = 3  # results shown of each question; evidence further down is shown too
SAMPLE_SIZE = 8
MAX_CONTEXT_TOKENS = 600  # enough to be read on one screen


@dataclass(frozen=True)
class DemoScript:
    """What is stored and asked. `shown_questions` are the questions to print, `scored_questions` all that count;
    `context_question` gets a context.
    """

    name: str
    turns: tuple[TurnInput, ...]
    scored_questions: tuple[Question, ...]
    shown_questions: tuple[Question, ...]
    context_question: Question

    def end_time(self) -> datetime:
        """A day after the last turn: the moment at which a frozen demo stands."""
        return max(turn["timestamp"] for turn in self.turns if "timestamp" in turn) + timedelta(days=1)

    def build_clock(self, frozen: Clock | None) -> OffsetClock:
        """The clock of a demo: where none stands still, so many days back that its night comes now, and not later."""
        return OffsetClock(SystemClock(), timedelta(days=-DAYS_LATER)) if frozen is None else OffsetClock(frozen)


def load_built_in() -> DemoScript:
    """The conversation and the questions that come with the package."""
    from agentmem.bench.datasets import Question
    from agentmem.interchange.turns import load_turns

    folder = files("agentmem.cli")
    with as_file(folder / "demo_conversation.jsonl") as path:
        turns = tuple(load_turns(path, format="jsonl"))
    asked = json.loads((folder / "demo_questions.json").read_text(encoding="utf-8"))
    questions = tuple(
        Question(f"q{n}", entry["question"], entry["answer"], 0, entry["about"], frozenset(entry["turns"]))
        for n, entry in enumerate(asked, start=1)
    )
    wide = next(question for question in questions if question.category_name == "list")
    return DemoScript("the built-in conversation", turns, questions, questions, wide)


def load_script(path: Path) -> DemoScript:
    """The first dialogue of a LoCoMo-shaped file, and a sample of its questions.

    Raises ConfigError or InvalidRecord when it is no such file, InvalidRecord when nothing in it can be scored.
    """
    from agentmem.bench.datasets import load_dialogues
    from agentmem.errors import InvalidRecord

    found = load_dialogues([path])
    if not found or not found[0].scored_questions:
        raise InvalidRecord(f"{path.name}: its first dialogue has no question with evidence", field="qa")
    dialogue = found[0]
    scored = dialogue.scored_questions
    wide = max(scored, key=lambda question: len(question.evidence))
    return DemoScript(
        f"{dialogue.id} of {path.name}", dialogue.turns, scored, tuple(sample_questions(scored, SAMPLE_SIZE)), wide
    )


def sample_questions(questions: Sequence[Question], count: int) -> Iterator[Question]:
    """Up to `count` questions, as evenly as can be over the categories and within each, in the order of the file."""
    groups: dict[str, list[Question]] = defaultdict(list)
    for question in questions:
        groups[question.category_name].append(question)
    shares = dict.fromkeys(sorted(groups), 0)
    for _ in range(min(count, len(questions))):
        open_ones = [name for name in shares if shares[name] < len(groups[name])]
        shares[min(open_ones, key=lambda name: (shares[name], name))] += 1
    picked = {groups[name][at * len(groups[name]) // share].id for name, share in shares.items() for at in range(share)}
    return (question for question in questions if question.id in picked)


@dataclass(frozen=True)
class DemoHit:
    """One result: its rank, whether it is evidence, and what spoke for it."""

    rank: int
    evidence: bool
    score: float
    why: str
    record: Any


@dataclass(frozen=True)
class DemoAnswer:
    """A question with its results, best first, and the share of its evidence among them."""

    question: Question
    hits: tuple[DemoHit, ...]

    @property
    def recall(self) -> float:
        """Evidence found, as a share of all evidence of the question."""
        return sum(item.evidence for item in self.hits) / len(self.question.evidence)


@dataclass(frozen=True)
class DemoResult:
    """What the demo saw."""

    script: DemoScript
    embedder: str
    store_seconds: float
    seconds: float
    answers: Mapping[str, DemoAnswer]
    context: Context
    consolidation: ConsolidationDemo
    notices: tuple[str, ...] = field(default=())

    @property
    def recall(self) -> float:
        """Evidence recall@10: the mean over all scored questions."""
        return sum(answer.recall for answer in self.answers.values()) / len(self.answers)

    def to_document(self) -> dict[str, Any]:
        """All of it as data; of questions that are not shown, only how much was found."""
        return {
            "data": self.script.name, "embedder": self.embedder, "turns": len(self.script.turns),
            "conversations": len({turn.get("conversation_id") for turn in self.script.turns}),
            "questions": len(self.answers), "evidence_recall_at_10": round(self.recall, 4),
            "store_seconds": self.store_seconds, "seconds": self.seconds, "notices": self.notices,
            "answers": [_answer_to_document(self.answers[question.id]) for question in self.script.shown_questions],
            "recall_by_question": {name: round(answer.recall, 4) for name, answer in self.answers.items()},
            "context": {
                "query": self.script.context_question.text, "text": self.context.text, "tokens": self.context.tokens
            },
            "night": to_document(self.consolidation),
        }  # fmt: skip


async def run_demo(memory: AsyncAgentMemory, script: DemoScript, clock: OffsetClock, progress: Progress) -> DemoResult:
    """Store the conversation, ask every question, pack one context, and let a night pass some days later.

    Nothing asked changes what is asked next. `clock` is the memory's own, and is moved on for the night.
    Raises Conflict for a user who has a memory already.
    """
    from agentmem.errors import Conflict
    from agentmem.model.clock import Stopwatch

    if (await memory.engine.log.head(memory.scope)).seq and memory.engine.graph_projection is not None:
        raise Conflict(f"{memory.scope.user_id} has a memory there already; choose another --user for the demo")
    watch = Stopwatch(memory.engine.clock)
    await Importer().import_turns(memory, script.turns, len(script.turns), progress)
    await memory.flush()
    stored = watch.milliseconds() / 1000
    answers: dict[str, DemoAnswer] = {}
    notices: dict[str, None] = {}
    for question in script.scored_questions:
        progress("asking", len(answers), len(script.scored_questions))
        bundle = await memory.remember(question.text, top_k=TOP_K, reinforce=False)
        notices |= dict.fromkeys(bundle.notices)
        found = tuple(
            DemoHit(rank, item.record.id in question.evidence, item.score, item.why, item.record)
            for rank, item in enumerate(bundle.items, start=1)
        )
        answers[question.id] = DemoAnswer(question, found)
    context = await memory.context(script.context_question.text, max_tokens=MAX_CONTEXT_TOKENS)
    embedder = memory.engine.vector_projections[0].embedder.identity
    seconds = watch.milliseconds() / 1000
    night = await run_consolidation_demo(memory, clock, progress)
    return DemoResult(script, embedder, stored, seconds, answers, context, night, tuple(notices))


def _answer_to_document(answer: DemoAnswer) -> dict[str, Any]:
    question = answer.question
    return {
        "question": question.text, "expected": question.answer, "category": question.category_name,
        "evidence": sorted(question.evidence), "recall": round(answer.recall, 4), "found": answer.hits,
    }  # fmt: skip


def render(result: DemoResult) -> str:
    """The walk as text: what was stored, every shown question with its best results, one context, and a summary."""
    script = result.script
    conversations = len({turn.get("conversation_id") for turn in script.turns})
    stored = (
        f"Stored {pluralize(len(script.turns), 'turn')} of {pluralize(conversations, 'conversation')} "
        f"({sanitize(script.name)})"
    )
    lines = [
        f"{stored} with {result.embedder} in {result.store_seconds:.1f} s.",
        f"Below, {_render_mark(True)} marks the turns that are known to answer the question.",
    ]
    for number, question in enumerate(script.shown_questions, start=1):
        lines += ["", *_render_answer(number, result.answers[question.id])]
    lines += [
        "",
        bold(f"What an agent gets for {sanitize(script.context_question.text)!r} within {MAX_CONTEXT_TOKENS} tokens:"),
        "",
    ]
    lines += ["  " + line for line in sanitize(result.context.text).splitlines()]
    lines += ["", *night_lines(result.consolidation)]
    complete = sum(answer.recall == 1 for answer in result.answers.values())
    asked = pluralize(len(result.answers), "question")
    of_them = f"over {asked}, {complete:,} of them with all their evidence among the first {TOP_K}"
    summary = f"{pluralize(len(script.turns), 'turn')} stored, {result.seconds:.1f} s in all."
    return "\n".join([*lines, "", bold(f"Evidence recall@{TOP_K}: {result.recall:.3f}") + f" {of_them}; {summary}"])


def _render_mark(evidence: bool) -> str:
    return colorize("*", "green") if evidence else " "


def _render_answer(number: int, answer: DemoAnswer) -> Iterator[str]:
    question = answer.question
    yield bold(f"{number}. {sanitize(question.text)}") + dim(f"  [{sanitize(question.category_name)}]")
    if question.answer is not None:
        yield f"   expected: {sanitize(question.answer)}"
    for item in answer.hits:
        if item.rank <= MAX_SHOWN_RESULTS or item.evidence:
            yield f" {_render_mark(item.evidence)} {item.rank:>2}. {render_record(item.record, 160)}"
            yield dim(f"       {item.score:.3f}  {sanitize(item.record.id)}  {item.why}")
    found, total = sum(item.evidence for item in answer.hits), len(question.evidence)
    verdict = f"{found} of {pluralize(total, 'evidence turn')} among the first {TOP_K}"
    yield "   " + colorize(verdict, "green" if found == total else "yellow")
