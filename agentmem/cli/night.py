"""The end of the demo: some days later the jobs of the worker run once, and each says what it made of the memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from agentmem.cli.render import bold, colorize, dim, to_one_line

if TYPE_CHECKING:
    from agentmem.agent_memory import AsyncAgentMemory
    from agentmem.cli.progress import Progress
    from agentmem.model.clock import Clock
    from agentmem.model.records import Record

DAYS_LATER = 14
MAX_SHOWN_RECORDS = 3  # records of each job
MAX_RUNS = 10  # of a job that has more to do than one run takes on
MAX_CLAIM_CHARS = 70
EVENING_TURNS = (
    "I live in Lisbon now, and I work at the aquarium.",
    "From now on, always give me distances in kilometres.",
)
DUPLICATE_CLAIMS = ("Jonas plays the cello in the city orchestra.", "Jonas plays cello in the city orchestra.")
FADING_CLAIM = "Mira's car is parked on level 3 of the garage."
USED_CLAIM = "Mira is packing for the ferry to the Azores."
USE_COUNT = 5
EXTRACTION_JOB = "consolidate"  # the job whose new facts are shown
NO_WORK_TEXT = "nothing to do"


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
    from agentmem.consolidation import list_jobs, list_scheduled_jobs

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
    turns = [
        {"content": text, "speaker": "Mira", "turn_id": f"evening-{n}"} for n, text in enumerate(EVENING_TURNS, start=1)
    ]
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
        "facts": len(facts), "of them short-lived": sum(fact.tier == "short" for fact in facts),
        "entities": len(await memory.semantic.entities()), "procedures": len(await memory.procedural.procedures()),
    }  # fmt: skip


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
    from agentmem.model.records import Fact, Procedure, Status

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
        "days": demo.days, "before": demo.before, "after": demo.after,
        "jobs": [
            {
                "job": job.name, "counts": job.counts,
                "shown": [{"text": text, "why": why} for text, why in job.highlights]
            }
            for job in demo.jobs
        ],
    }  # fmt: skip


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
