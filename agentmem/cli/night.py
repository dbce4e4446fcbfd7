"""The end of the demo: some days later the jobs of the worker run once, and each says what it made of the memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from agentmem.cli.render import bold, coloured, dim, one_line

if TYPE_CHECKING:
    from agentmem.agent_memory import AsyncAgentMemory
    from agentmem.cli.progress import Progress
    from agentmem.model.clock import Clock
    from agentmem.model.records import Record

DAYS = 14
SHOWN = 3  # records of each job
RUNS = 10  # of a job that has more to do than one run takes on
CLAIM = 70
SAID = (
    "I live in Lisbon now, and I work at the aquarium.",
    "From now on, always give me distances in kilometres.",
)
DOUBLED = ("Jonas plays the cello in the city orchestra.", "Jonas plays cello in the city orchestra.")
FADING = "Mira's car is parked on level 3 of the garage."
USED = "Mira is packing for the ferry to the Azores."
USES = 5
LEARNS = "consolidate"  # the job whose new facts are shown
NOTHING = "nothing to do"


class Later:
    """A clock that can be moved on: it shows what another one shows, by so much more."""

    def __init__(self, clock: Clock, by: timedelta = timedelta()) -> None:
        self.clock, self.by = clock, by

    def now(self) -> datetime:
        """The other clock's time, moved."""
        return self.clock.now() + self.by

    def move(self, by: timedelta) -> None:
        """Go on by so much."""
        self.by += by


@dataclass(frozen=True)
class Job:
    """What one job did: its counts, and the records that tell most of it, each with the reason."""

    name: str
    counts: Mapping[str, int]
    shown: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True)
class Night:
    """How the memory stood before and after, and what each job did."""

    days: int
    before: Mapping[str, int]
    after: Mapping[str, int]
    jobs: Sequence[Job] = field(default=())


async def sleep(memory: AsyncAgentMemory, clock: Later, progress: Progress) -> Night:
    """Tell the memory a few things more, let days pass, and run every job for this user once."""
    from agentmem.consolidation import find_jobs, scheduled_jobs

    await _tell(memory)
    clock.move(timedelta(days=DAYS))
    before, jobs = await _sizes(memory), [name for name in scheduled_jobs() if name in find_jobs()]
    done = []
    for number, name in enumerate(jobs):
        progress("jobs", number, len(jobs))
        done.append(await _run(memory, name))
    return Night(DAYS, before, await _sizes(memory), done)


async def _tell(memory: AsyncAgentMemory) -> None:
    """What a night shows best: an order, something that fades, something in use, and one thing said twice."""
    evening = memory.scoped(conversation_id="demo-evening")
    turns = [{"content": text, "speaker": "Mira", "turn_id": f"evening-{n}"} for n, text in enumerate(SAID, start=1)]
    await evening.store_turns(turns)
    for claim in DOUBLED:
        await evening.learn_fact(claim)
    await evening.learn_fact(FADING, tier="short", memory_type="context")
    used = await evening.learn_fact(USED, tier="short", memory_type="context")
    for number in range(USES):
        await evening.observe_usage([used.id], idempotency_key=f"demo use {number}")


async def _sizes(memory: AsyncAgentMemory) -> dict[str, int]:
    facts = await memory.semantic.facts()
    return {
        "facts": len(facts), "of them short-lived": sum(fact.tier == "short" for fact in facts),
        "entities": len(await memory.semantic.entities()), "procedures": len(await memory.procedural.procedures()),
    }  # fmt: skip


async def _run(memory: AsyncAgentMemory, name: str) -> Job:
    counts: dict[str, int] = {}
    records: list[Record] = []
    for _ in range(RUNS):
        (report,) = await memory.consolidate(name)
        for what, count in report.counts.items():
            counts[what] = counts.get(what, 0) + count
        for operation_id in report.operation_ids:
            for entry in await memory.resources.log.operation(operation_id, memory.scope):
                records += [stored.record for stored in entry.puts]
        if not report.pending:
            break
    told = [line for record in records if (line := _told(name, record, records)) is not None]
    return Job(name, {what: count for what, count in counts.items() if count}, told[:SHOWN])


def _told(job: str, record: Record, records: Sequence[Record]) -> tuple[str, str] | None:
    """What a job made of a record and why; None for what need not be shown."""
    from agentmem.model.records import Fact, Procedure, Status

    if isinstance(record, Procedure):
        return record.instruction, f"asked for in {', '.join(record.source_turn_ids)}"
    if not isinstance(record, Fact):
        return None
    if record.status is Status.ACTIVE:
        return (record.claim, f"said in {record.source_turn_ids[0]}") if job == LEARNS else None
    if record.status is Status.SUPERSEDED:
        heirs = [each.claim for each in records if isinstance(each, Fact) and each.id == record.superseded_by]
        return record.claim, f"merged into: {one_line(heirs[0], CLAIM)}" if heirs else "superseded"
    what = "kept for long" if record.status is Status.PROMOTED else record.status.value
    return record.claim, f"{what}: {record.reason}"


def document(night: Night) -> dict[str, Any]:
    """The night as data."""
    return {
        "days": night.days, "before": night.before, "after": night.after,
        "jobs": [
            {"job": job.name, "counts": job.counts, "shown": [{"text": text, "why": why} for text, why in job.shown]}
            for job in night.jobs
        ],
    }  # fmt: skip


def told(night: Night) -> Iterator[str]:
    """The night as lines of text: before, job by job, after."""
    yield bold(f"A night {night.days} days later: what the background jobs make of it")
    yield f"  before: {_counts(night.before)}"
    idle = [job.name for job in night.jobs if not job.counts]
    for job in night.jobs:
        if job.counts:
            yield f"  {coloured(job.name, 'green')}: {_counts(job.counts)}"
        for text, why in job.shown:
            yield f"     {one_line(text, CLAIM)}" + dim(f"  ({why})")
    if idle:
        yield dim(f"  {NOTHING}: {', '.join(idle)}")
    yield f"  after:  {_counts(night.after)}"


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {what.replace('_', ' ')}" for what, count in counts.items())
