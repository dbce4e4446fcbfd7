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

from agentmem.cli.intake import Intake
from agentmem.cli.night import DAYS, Later, Night, document, sleep
from agentmem.cli.night import told as night_lines
from agentmem.cli.progress import Progress
from agentmem.cli.render import bold, coloured, counted, dim, record_text, safe
from agentmem.model.clock import SystemClock

if TYPE_CHECKING:
    from agentmem.agent_memory import AsyncAgentMemory
    from agentmem.bench.datasets import Question
    from agentmem.interchange.fields import TurnInput
    from agentmem.model.clock import Clock
    from agentmem.recall.context import Context

TOP_K = 10
SHOWN = 3  # results shown of each question; evidence further down is shown too
SAMPLE = 8
CONTEXT_TOKENS = 600  # enough to be read on one screen


@dataclass(frozen=True)
class Script:
    """What is stored and asked. `shown` are the questions to print, `scored` all that count; `wide` gets a context."""

    name: str
    turns: tuple[TurnInput, ...]
    scored: tuple[Question, ...]
    shown: tuple[Question, ...]
    wide: Question

    def ends(self) -> datetime:
        """A day after the last turn: the moment at which a frozen demo stands."""
        return max(turn["timestamp"] for turn in self.turns if "timestamp" in turn) + timedelta(days=1)

    def clock(self, frozen: Clock | None) -> Later:
        """The clock of a demo: where none stands still, so many days back that its night comes now, and not later."""
        return Later(SystemClock(), timedelta(days=-DAYS)) if frozen is None else Later(frozen)


def built_in() -> Script:
    """The conversation and the questions that come with the package."""
    from agentmem.bench.datasets import Question
    from agentmem.interchange.turns import read_turns

    folder = files("agentmem.cli")
    with as_file(folder / "demo_conversation.jsonl") as path:
        turns = tuple(read_turns(path, format="jsonl"))
    asked = json.loads((folder / "demo_questions.json").read_text(encoding="utf-8"))
    questions = tuple(
        Question(f"q{n}", entry["question"], entry["answer"], 0, entry["about"], frozenset(entry["turns"]))
        for n, entry in enumerate(asked, start=1)
    )
    wide = next(question for question in questions if question.category_name == "list")
    return Script("the built-in conversation", turns, questions, questions, wide)


def from_file(path: Path) -> Script:
    """The first dialogue of a LoCoMo-shaped file, and a sample of its questions.

    Raises ConfigError or InvalidRecord when it is no such file, InvalidRecord when nothing in it can be scored.
    """
    from agentmem.bench.datasets import load
    from agentmem.errors import InvalidRecord

    found = load([path])
    if not found or not found[0].scored:
        raise InvalidRecord(f"{path.name}: its first dialogue has no question with evidence", field="qa")
    dialogue = found[0]
    scored = dialogue.scored
    wide = max(scored, key=lambda question: len(question.evidence))
    return Script(f"{dialogue.id} of {path.name}", dialogue.turns, scored, tuple(sample(scored, SAMPLE)), wide)


def sample(questions: Sequence[Question], count: int) -> Iterator[Question]:
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
class Found:
    """One result: its rank, whether it is evidence, and what spoke for it."""

    rank: int
    evidence: bool
    score: float
    why: str
    record: Any


@dataclass(frozen=True)
class Answer:
    """A question with its results, best first, and the share of its evidence among them."""

    question: Question
    found: tuple[Found, ...]

    @property
    def recall(self) -> float:
        """Evidence found, as a share of all evidence of the question."""
        return sum(item.evidence for item in self.found) / len(self.question.evidence)


@dataclass(frozen=True)
class Walk:
    """What the demo saw."""

    script: Script
    embedder: str
    store_seconds: float
    seconds: float
    answers: Mapping[str, Answer]
    context: Context
    night: Night
    notices: tuple[str, ...] = field(default=())

    @property
    def recall(self) -> float:
        """Evidence recall@10: the mean over all scored questions."""
        return sum(answer.recall for answer in self.answers.values()) / len(self.answers)

    def document(self) -> dict[str, Any]:
        """All of it as data; of questions that are not shown, only how much was found."""
        return {
            "data": self.script.name, "embedder": self.embedder, "turns": len(self.script.turns),
            "conversations": len({turn.get("conversation_id") for turn in self.script.turns}),
            "questions": len(self.answers), "evidence_recall_at_10": round(self.recall, 4),
            "store_seconds": self.store_seconds, "seconds": self.seconds, "notices": self.notices,
            "answers": [_answer_data(self.answers[question.id]) for question in self.script.shown],
            "recall_by_question": {name: round(answer.recall, 4) for name, answer in self.answers.items()},
            "context": {"query": self.script.wide.text, "text": self.context.text, "tokens": self.context.tokens},
            "night": document(self.night),
        }  # fmt: skip


async def walk(memory: AsyncAgentMemory, script: Script, clock: Later, progress: Progress) -> Walk:
    """Store the conversation, ask every question, pack one context, and let a night pass some days later.

    Nothing asked changes what is asked next. `clock` is the memory's own, and is moved on for the night.
    Raises Conflict for a user who has a memory already.
    """
    from agentmem.errors import Conflict
    from agentmem.model.clock import Stopwatch

    if (await memory.resources.log.head(memory.scope)).seq and memory.resources.following is not None:
        raise Conflict(f"{memory.scope.user_id} has a memory there already; choose another --user for the demo")
    watch = Stopwatch(memory.resources.clock)
    await Intake().turns(memory, script.turns, len(script.turns), progress)
    await memory.flush()
    stored = watch.milliseconds() / 1000
    answers: dict[str, Answer] = {}
    notices: dict[str, None] = {}
    for question in script.scored:
        progress("asking", len(answers), len(script.scored))
        bundle = await memory.remember(question.text, top_k=TOP_K, reinforce=False)
        notices |= dict.fromkeys(bundle.notices)
        found = tuple(
            Found(rank, item.record.id in question.evidence, item.score, item.why, item.record)
            for rank, item in enumerate(bundle.items, start=1)
        )
        answers[question.id] = Answer(question, found)
    context = await memory.context(script.wide.text, max_tokens=CONTEXT_TOKENS)
    embedder = memory.resources.vectors[0].embedder.identity
    seconds = watch.milliseconds() / 1000
    night = await sleep(memory, clock, progress)
    return Walk(script, embedder, stored, seconds, answers, context, night, tuple(notices))


def _answer_data(answer: Answer) -> dict[str, Any]:
    question = answer.question
    return {
        "question": question.text, "expected": question.answer, "category": question.category_name,
        "evidence": sorted(question.evidence), "recall": round(answer.recall, 4), "found": answer.found,
    }  # fmt: skip


def told(seen: Walk) -> str:
    """The walk as text: what was stored, every shown question with its best results, one context, and a summary."""
    script = seen.script
    conversations = len({turn.get("conversation_id") for turn in script.turns})
    stored = (
        f"Stored {counted(len(script.turns), 'turn')} of {counted(conversations, 'conversation')} ({safe(script.name)})"
    )
    lines = [
        f"{stored} with {seen.embedder} in {seen.store_seconds:.1f} s.",
        f"Below, {_mark(True)} marks the turns that are known to answer the question.",
    ]
    for number, question in enumerate(script.shown, start=1):
        lines += ["", *_answer_lines(number, seen.answers[question.id])]
    lines += ["", bold(f"What an agent gets for {safe(script.wide.text)!r} within {CONTEXT_TOKENS} tokens:"), ""]
    lines += ["  " + line for line in safe(seen.context.text).splitlines()]
    lines += ["", *night_lines(seen.night)]
    complete = sum(answer.recall == 1 for answer in seen.answers.values())
    asked = counted(len(seen.answers), "question")
    of_them = f"over {asked}, {complete:,} of them with all their evidence among the first {TOP_K}"
    summary = f"{counted(len(script.turns), 'turn')} stored, {seen.seconds:.1f} s in all."
    return "\n".join([*lines, "", bold(f"Evidence recall@{TOP_K}: {seen.recall:.3f}") + f" {of_them}; {summary}"])


def _mark(evidence: bool) -> str:
    return coloured("*", "green") if evidence else " "


def _answer_lines(number: int, answer: Answer) -> Iterator[str]:
    question = answer.question
    yield bold(f"{number}. {safe(question.text)}") + dim(f"  [{safe(question.category_name)}]")
    if question.answer is not None:
        yield f"   expected: {safe(question.answer)}"
    for item in answer.found:
        if item.rank <= SHOWN or item.evidence:
            yield f" {_mark(item.evidence)} {item.rank:>2}. {record_text(item.record, 160)}"
            yield dim(f"       {item.score:.3f}  {safe(item.record.id)}  {item.why}")
    found, total = sum(item.evidence for item in answer.found), len(question.evidence)
    verdict = f"{found} of {counted(total, 'evidence turn')} among the first {TOP_K}"
    yield "   " + coloured(verdict, "green" if found == total else "yellow")
