"""The demo: `python -m docs.examples.demo` tells a short story.

With `--long` it stores a conversation, asks questions whose answers are known, and lets a night pass.
"""

from __future__ import annotations

import json
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agentmem.cli.context import CliContext, UserPath, memory_options, print_notices
from agentmem.cli.main import ExitingCommand
from agentmem.cli.render import Progress, bold, colorize, dim, pluralize, render_record, to_one_line
from agentmem.core.clock import FrozenClock, SystemClock
from agentmem.errors import ConfigError
from agentmem.importers.importer import BATCH_SIZE
from agentmem.text.terminal_text import neutralize
from docs.examples.story import OTHER_USER, StoryClock, ask_as_other_user, render_story, tell_story

if TYPE_CHECKING:
    from agentmem.core.clock import Clock
    from agentmem.core.input_fields import TurnInput
    from agentmem.core.record import Record
    from agentmem.facade.async_memory import AsyncAgentMemory
    from agentmem.recall.context import Context
    from tests.benchmarks.datasets import Question


DAYS_LATER = 14
MAX_SHOWN_RECORDS = 3  # records of each job
MAX_RUNS = 10  # of a job that has more to do than one run takes on
MAX_CLAIM_CHARS = 70
EVENING_TURNS = (
    "I live in Lisbon now, and I work at the aquarium.",
    "From now on, always give me distances in kilometres.",
)
DUPLICATE_CLAIMS = ("Jonas plays the cello in the city orchestra.", "Jonas plays a cello in the city orchestra.")
FADING_CLAIM = "Mira's car is parked on level 3 of the garage."
USED_CLAIM = "Mira is packing for the ferry to the Azores."
USE_COUNT = 5
EXTRACTION_JOB = "consolidate"  # the job whose new facts are shown
NO_WORK_TEXT = "nothing to do"

NEXT_STEPS = (
    "See more:       make demo ARGS=--long",
    "Write your own: docs/quickstart.md",
)

TOP_K = 10
MAX_SHOWN_RESULTS = 3  # results shown of each question; evidence further down is shown too
SAMPLE_SIZE = 8
MAX_CONTEXT_TOKENS = 600  # enough to be read on one screen


class OffsetClock:
    """A clock that can be moved on: it shows what another one shows, by so much more."""

    def __init__(self, clock: Clock, offset: timedelta = timedelta()) -> None:
        self.clock, self.offset = clock, offset

    def now(self) -> datetime:
        """The other clock's time, moved."""
        return self.clock.now() + self.offset

    def advance(self, delta: timedelta) -> None:
        """Go on by so much."""
        self.offset += delta


@dataclass(frozen=True)
class JobOutcome:
    """What one job did: its counts, and the records that tell most of it, each with the reason."""

    name: str
    counts: Mapping[str, int]
    highlights: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True)
class ConsolidationDemo:
    """How the memory stood before and after, and what each job did."""

    days: int
    before: Mapping[str, int]
    after: Mapping[str, int]
    jobs: Sequence[JobOutcome] = field(default=())


async def run_consolidation_demo(memory: AsyncAgentMemory, clock: OffsetClock, progress: Progress) -> ConsolidationDemo:
    """Tell the memory a few things more, let days pass, and run every job for this user once."""
    from agentmem.jobs.job import list_jobs, list_scheduled_jobs

    await _store_examples(memory)
    clock.advance(timedelta(days=DAYS_LATER))
    before, jobs = await _count_records(memory), [name for name in list_scheduled_jobs() if name in list_jobs()]
    done = []
    for number, name in enumerate(jobs):
        progress("jobs", number, len(jobs))
        done.append(await _run_job(memory, name))
    return ConsolidationDemo(DAYS_LATER, before, await _count_records(memory), done)


async def _store_examples(memory: AsyncAgentMemory) -> None:
    """What a night shows best: an order, something that fades, something in use, and one thing said twice."""
    evening = memory.scoped(conversation_id="demo-evening")
    turns = [{"content": text, "turn_id": f"evening-{n}"} for n, text in enumerate(EVENING_TURNS, start=1)]
    await evening.store_turns(turns)
    for claim in DUPLICATE_CLAIMS:
        await evening.learn_fact(claim)
    await evening.learn_fact(FADING_CLAIM, tier="short", memory_type="context")
    used = await evening.learn_fact(USED_CLAIM, tier="short", memory_type="context")
    for number in range(USE_COUNT):
        await evening.observe_usage([used.id], idempotency_key=f"demo use {number}")


async def _count_records(memory: AsyncAgentMemory) -> dict[str, int]:
    facts = await memory.semantic.facts()
    return {
        "facts": len(facts),
        "of them short-lived": sum(fact.tier == "short" for fact in facts),
        "entities": len(await memory.semantic.entities()),
        "procedures": len(await memory.procedural.procedures()),
    }


async def _run_job(memory: AsyncAgentMemory, name: str) -> JobOutcome:
    counts: dict[str, int] = {}
    records: list[Record] = []
    for _ in range(MAX_RUNS):
        (report,) = await memory.consolidate(name)
        for what, count in report.counts.items():
            counts[what] = counts.get(what, 0) + count
        for operation_id in report.operation_ids:
            for entry in await memory.engine.log.operation(operation_id, memory.scope):
                records += [stored.record for stored in entry.upserts]
        if not report.pending:
            break
    told = [line for record in records if (line := _describe_change(name, record, records)) is not None]
    return JobOutcome(name, {what: count for what, count in counts.items() if count}, told[:MAX_SHOWN_RECORDS])


def _describe_change(job: str, record: Record, records: Sequence[Record]) -> tuple[str, str] | None:
    """What a job made of a record and why; None for what need not be shown."""
    from agentmem.core.procedural_records import Procedure
    from agentmem.core.record import Status
    from agentmem.core.records import Fact

    if isinstance(record, Procedure):
        return record.instruction, f"asked for in {', '.join(record.source_turn_ids)}"
    if not isinstance(record, Fact):
        return None
    if record.status is Status.ACTIVE:
        return (record.claim, f"said in {record.source_turn_ids[0]}") if job == EXTRACTION_JOB else None
    if record.status is Status.SUPERSEDED:
        heirs = [each.claim for each in records if isinstance(each, Fact) and each.id == record.superseded_by]
        return record.claim, f"merged into: {to_one_line(heirs[0], MAX_CLAIM_CHARS)}" if heirs else "superseded"
    what = "kept for long" if record.status is Status.PROMOTED else record.status.value
    return record.claim, f"{what}: {record.reason}"


def to_document(demo: ConsolidationDemo) -> dict[str, Any]:
    """The night as data."""
    return {
        "days": demo.days,
        "before": demo.before,
        "after": demo.after,
        "jobs": [
            {
                "job": job.name,
                "counts": job.counts,
                "shown": [{"text": text, "why": why} for text, why in job.highlights],
            }
            for job in demo.jobs
        ],
    }


def render_lines(demo: ConsolidationDemo) -> Iterator[str]:
    """The night as lines of text: before, job by job, after."""
    yield bold(f"A night {demo.days} days later: what the background jobs make of it")
    yield f"  before: {_render_counts(demo.before)}"
    idle = [job.name for job in demo.jobs if not job.counts]
    for job in demo.jobs:
        if job.counts:
            yield f"  {colorize(job.name, 'green')}: {_render_counts(job.counts)}"
        for text, why in job.highlights:
            yield f"     {to_one_line(text, MAX_CLAIM_CHARS)}" + dim(f"  ({why})")
    if idle:
        yield dim(f"  {NO_WORK_TEXT}: {', '.join(idle)}")
    yield f"  after:  {_render_counts(demo.after)}"


def _render_counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {what.replace('_', ' ')}" for what, count in counts.items())


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
    from agentmem.importers.importer import load_turns
    from tests.benchmarks.datasets import Question

    folder = files("docs.examples")
    with as_file(folder / "demo_conversation.jsonl") as path:
        turns = tuple(load_turns(path))
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
    from agentmem.errors import InvalidRecord
    from tests.benchmarks.datasets import load_dialogues

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
            "data": self.script.name,
            "embedder": self.embedder,
            "turns": len(self.script.turns),
            "conversations": len({turn.get("conversation_id") for turn in self.script.turns}),
            "questions": len(self.answers),
            "evidence_recall_at_10": round(self.recall, 4),
            "store_seconds": self.store_seconds,
            "seconds": self.seconds,
            "notices": self.notices,
            "answers": [_answer_to_document(self.answers[question.id]) for question in self.script.shown_questions],
            "recall_by_question": {name: round(answer.recall, 4) for name, answer in self.answers.items()},
            "context": {
                "query": self.script.context_question.text,
                "text": self.context.text,
                "tokens": self.context.tokens,
            },
            "night": to_document(self.consolidation),
        }


async def run_demo(memory: AsyncAgentMemory, script: DemoScript, clock: OffsetClock, progress: Progress) -> DemoResult:
    """Store the conversation, ask every question, pack one context, and let a night pass some days later.

    Nothing asked changes what is asked next. `clock` is the memory's own, and is moved on for the night.
    Raises Conflict for a user who has a memory already.
    """
    from agentmem.core.clock import Stopwatch
    from agentmem.errors import Conflict

    if (await memory.engine.log.head(memory.scope)).seq and memory.engine.graph_projection is not None:
        raise Conflict(f"{memory.scope.user_id} has a memory there already; choose another --user for the demo")
    watch = Stopwatch(memory.engine.clock)
    for start in range(0, len(script.turns), BATCH_SIZE):
        progress("storing", start, len(script.turns))
        await memory.store_turns(script.turns[start : start + BATCH_SIZE])
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
        "question": question.text,
        "expected": question.answer,
        "category": question.category_name,
        "evidence": sorted(question.evidence),
        "recall": round(answer.recall, 4),
        "found": answer.hits,
    }


def render(result: DemoResult) -> str:
    """The walk as text: what was stored, every shown question with its best results, one context, and a summary."""
    script = result.script
    conversations = len({turn.get("conversation_id") for turn in script.turns})
    stored = (
        f"Stored {pluralize(len(script.turns), 'turn')} of {pluralize(conversations, 'conversation')} "
        f"({neutralize(script.name)})"
    )
    lines = [
        f"{stored} with {result.embedder} in {result.store_seconds:.1f} s.",
        f"Below, {_render_mark(True)} marks the turns that are known to answer the question.",
    ]
    for number, question in enumerate(script.shown_questions, start=1):
        lines += ["", *_render_answer(number, result.answers[question.id])]
    lines += [
        "",
        bold(
            f"What an agent gets for {neutralize(script.context_question.text)!r} within {MAX_CONTEXT_TOKENS} tokens:"
        ),
        "",
    ]
    lines += ["  " + line for line in neutralize(result.context.text).splitlines()]
    lines += ["", *render_lines(result.consolidation)]
    complete = sum(answer.recall == 1 for answer in result.answers.values())
    asked = pluralize(len(result.answers), "question")
    of_them = f"over {asked}, {complete:,} of them with all their evidence among the first {TOP_K}"
    summary = f"{pluralize(len(script.turns), 'turn')} stored, {result.seconds:.1f} s in all."
    return "\n".join([*lines, "", bold(f"Evidence recall@{TOP_K}: {result.recall:.3f}") + f" {of_them}; {summary}"])


def _render_mark(evidence: bool) -> str:
    return colorize("*", "green") if evidence else " "


def _render_answer(number: int, answer: DemoAnswer) -> Iterator[str]:
    question = answer.question
    yield bold(f"{number}. {neutralize(question.text)}") + dim(f"  [{neutralize(question.category_name)}]")
    if question.answer is not None:
        yield f"   expected: {neutralize(question.answer)}"
    for item in answer.hits:
        if item.rank <= MAX_SHOWN_RESULTS or item.evidence:
            yield f" {_render_mark(item.evidence)} {item.rank:>2}. {render_record(item.record, 160)}"
            yield dim(f"       {item.score:.3f}  {neutralize(item.record.id)}  {item.why}")
    found, total = sum(item.evidence for item in answer.hits), len(question.evidence)
    verdict = f"{found} of {pluralize(total, 'evidence turn')} among the first {TOP_K}"
    yield "   " + colorize(verdict, "green" if found == total else "yellow")


@click.command(cls=ExitingCommand, short_help="Show in a short story what a memory does.")
@click.option("--long", "is_long", is_flag=True, help="Store a conversation of 60 turns, ask it, let two weeks pass.")
@click.option(
    "--data",
    type=UserPath(exists=True, dir_okay=False, path_type=Path),
    metavar="PATH",
    help="As --long, with the first dialogue of a LoCoMo-shaped file.",
)
@click.option(
    "--servers", is_flag=True, help="As --long, on the servers of log_url and graph_url; the data stays there."
)
@memory_options(with_embedder=True)
def command(cli: CliContext, *, is_long: bool, data: Path | None, servers: bool) -> None:
    """Show in a short story what a memory does: store, ask in other words, change, correct, explain, forget. With
    --long, store a conversation, ask questions whose answers are known, and show what came back and why; in the end
    two weeks pass, and the background jobs say what they learn, merge, keep and let go.

    Works in a temporary folder, which is removed afterwards; with --home in that folder, which is kept. What a local
    embedder builds of its weights is kept where other runs find it. With --servers, --user must be one who has no
    memory there yet.

    \b
    Examples:
      python -m docs.examples.demo
      python -m docs.examples.demo --home ./demo
      python -m docs.examples.demo --long --embedder hash --json
      python -m docs.examples.demo --data locomo.json --home ./locomo
      python -m docs.examples.demo --servers --user demo
    """
    usual = cli.load_settings()
    if servers and usual.log_server_url is None:
        raise ConfigError("--servers needs log_url and graph_url: set AGENTMEM_LOG_URL and AGENTMEM_GRAPH_URL")
    # Addresses from the environment must not lead the demo to a memory in use; weights that are there may serve.
    places: dict[str, Any] = {} if servers else dict.fromkeys(("log_url", "graph_url", "session_url"))
    places |= {"models": usual.model_folder, "recall_rate": 0, "config": usual.config}
    places |= dict.fromkeys(("extraction_llm", "verdict_llm", "synopsis_llm"), "none")  # the demo asks no model
    with tempfile.TemporaryDirectory(prefix="agentmem-demo-") as folder:
        own = cli.with_settings(**{"home": Path(folder), **places, **cli.overrides})
        if is_long or data is not None or servers:
            _show_walk(own, load_script(data) if data is not None else load_built_in())
        else:
            _show_story(own, is_kept="home" in cli.overrides)


def _show_story(cli: CliContext, *, is_kept: bool) -> None:
    clock = StoryClock()
    own = cli.with_settings(clock=clock)
    story = own.run(lambda memory: tell_story(memory, clock))
    other = replace(own, user=OTHER_USER).run(ask_as_other_user)
    story = replace(story, steps=(*story.steps, other))
    file = Path(cli.overrides["home"]) / "memory.db"
    place = str(file) if is_kept else "a temporary one, gone now"
    ask = f'agentmem remember "where do I live?" --home {file.parent} --user {cli.user}'
    keep = "Keep it:        make demo ARGS='--home ./demo'"
    own.show(
        story.to_document(), render_story(story, place, [f"Ask it:         {ask}" if is_kept else keep, *NEXT_STEPS])
    )


def _show_walk(cli: CliContext, script: DemoScript) -> None:
    usual = cli.load_settings()
    frozen = cli.overrides.get("clock") or (None if usual.seed is None else FrozenClock(script.end_time()))
    clock = script.build_clock(frozen)
    own = cli.with_settings(clock=clock)
    with Progress() as progress:
        seen = own.run(lambda memory: run_demo(memory, script, clock, progress))
    print_notices(seen.notices)
    cli.show(seen.to_document(), render(seen))


if __name__ == "__main__":
    command(prog_name="python -m docs.examples.demo")
