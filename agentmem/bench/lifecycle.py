"""A simulated year: people talk, fall silent, change their minds and repeat themselves; at night the real jobs run.

The clock is virtual: a day is a step. Once a day, after the last talk, each job runs through `serve`, as a worker would
run it: one that is due more often than daily runs so often again as users wait for it, but no more often than its
interval would let it. `check`, which reads the whole store, runs every 28 days. No language model is asked.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import ModuleType
from typing import cast

from agentmem.agent_memory import AsyncAgentMemory
from agentmem.bench.lifecycle_look import End, Fates, Look, Looker
from agentmem.bench.lifecycle_people import Person, Truth, Visit, dealt, people
from agentmem.bench.target import Target
from agentmem.consolidation import JobOptions, JobReport, scheduled_jobs
from agentmem.consolidation.serving import serve
from agentmem.errors import ConfigError
from agentmem.model.records import Fact
from agentmem.model.scope import Scope
from agentmem.resources import Resources

START = datetime(2026, 1, 1, tzinfo=UTC)
NIGHT = timedelta(hours=23)
MINUTES_A_DAY = 1440
QUIET = 14  # days without a word after which somebody counts as idle
IMPORTANCE = 0.9
TOP_K = 5
USEFUL_DAYS = 13
LOOKS = 14  # days from one look to the next
RARE = {"check": 28}  # days from one run to the next, of a job that takes long
HOUSE_VISITS = 6

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Plan:
    """How many people, for how many days, and the seed of all that they do."""

    users: int = 200
    days: int = 365
    seed: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.users <= 20_000 or not 1 <= self.days <= 3650:
            raise ConfigError("a simulation needs 1 to 20,000 users and 1 to 3,650 days")


class VirtualClock:
    """Stands still until the simulation lets time pass."""

    def __init__(self) -> None:
        self.at = START

    def now(self) -> datetime:
        """The moment of the simulation."""
        return self.at


@dataclass(slots=True)
class Cost:
    """What a job cost on one day: runs, users served, those of them who were idle, and seconds of CPU."""

    runs: int = 0
    served: int = 0
    idle: int = 0
    seconds: float = 0.0
    idle_seconds: float = 0.0


@dataclass(slots=True)
class Day:
    """One simulated day: who talked, how many were idle, what each job cost and did, and what failed."""

    day: int
    talked: int
    idle: int
    jobs: dict[str, Cost] = field(default_factory=dict)
    did: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    waiting: int = 0  # jobs for which users still waited when the day was over


@dataclass(slots=True)
class Lived:
    """All that was seen: day by day, look by look, and how it stands in the end; by people of one process or more."""

    plan: Plan
    embedder: str
    days: list[Day]
    looks: list[Look]
    end: End
    seconds: float  # CPU, all in all
    talk_seconds: float
    job_seconds: float
    processes: int = 1


@dataclass(slots=True)
class _Kept:
    """What the simulation must know of somebody to go on: ids of facts by topic, what is in use, and the project."""

    facts: dict[str, Fact] = field(default_factory=dict)
    noise: list[str] = field(default_factory=list)
    once: list[str] = field(default_factory=list)  # noise that served as an answer, once
    useful: dict[str, tuple[int, Truth]] = field(default_factory=dict)  # id of the fact: day and question
    uses: Counter[str] = field(default_factory=Counter)
    house: str = ""
    house_left: int = 0
    last: int = -QUIET


async def live(
    target: Target, plan: Plan, progress: Progress | None = None, *, process: int = 0, processes: int = 1
) -> Lived:
    """Let the time pass in a new memory below the target's home, and look at it every two weeks and in the end.

    With several processes, only those people live here who are dealt to this one; what happens to them is the same.
    """
    clock = VirtualClock()
    async with target("nobody", {"clock": clock, "seed": plan.seed, "recall_rate": 0}) as opened:
        memory = cast(AsyncAgentMemory, opened)
        everybody = people(plan.users, plan.days, plan.seed)
        year = _Year(memory, clock, plan, dealt(everybody, processes)[process])
        await year.all(progress)
        end = await year.looker.end(year.fates())
        identity = memory.resources.vectors[0].embedder.identity
        return Lived(plan, identity, year.days, year.looker.looks, end, time.process_time() - year.started,
                     year.talk_seconds, year.job_seconds)  # fmt: skip


class _Year:
    """The run itself."""

    def __init__(self, memory: AsyncAgentMemory, clock: VirtualClock, plan: Plan, persons: Sequence[Person]) -> None:
        self.memory, self.clock, self.plan, self.persons = memory, clock, plan, persons
        self.kept = {person.name: _Kept() for person in persons}
        self.days: list[Day] = []
        self.looker = Looker(memory, persons)
        self.started = time.process_time()
        self.talk_seconds = self.job_seconds = 0.0

    async def all(self, progress: Progress | None) -> None:
        """Day by day: talk, then the night, and every two weeks a look."""
        for number in range(self.plan.days):
            if progress is not None:
                progress(number, self.plan.days)
            begun = time.process_time()
            talked = await self._talk(number)
            slept = time.process_time()
            self.days.append(await self._night(number, talked))
            self.talk_seconds += slept - begun
            self.job_seconds += time.process_time() - slept
            if number % LOOKS == LOOKS - 1 or number == self.plan.days - 1:
                await self.looker.look(number, self._did(number))
        if progress is not None:
            progress(self.plan.days, self.plan.days)

    def _did(self, number: int) -> Counter[str]:
        """What the jobs did since the last look."""
        since = self.looker.looks[-1].day if self.looker.looks else -1
        done: Counter[str] = Counter()
        for day in self.days[since + 1 : number + 1]:
            done.update(day.did)
        return done

    def fates(self) -> dict[str, Fates]:
        """The short-lived facts of everybody, by what should become of them."""
        wanted = self.memory.resources.settings.promotion.use_count
        return {
            name: Fates(
                noise=[fact for fact in kept.noise if fact not in kept.once], once=kept.once,
                useful=[fact for fact in kept.useful if kept.uses[fact] >= wanted],
            )
            for name, kept in self.kept.items()
        }  # fmt: skip

    # -- by day

    async def _talk(self, number: int) -> int:
        """Everybody who talks on this day does so at an hour of their own."""
        today = [(person.visit(number), person) for person in self.persons if number in person.talks]
        for visit, person in sorted(today, key=lambda pair: (pair[0].hour, pair[1].number)):
            self.clock.at = max(self.clock.at, START + timedelta(days=number, hours=visit.hour))
            await self._visit(number, person, visit)
            self.clock.at += timedelta(seconds=1)
        return len(today)

    async def _visit(self, number: int, person: Person, visit: Visit) -> None:
        kept = self.kept[person.name]
        kept.last = number
        view = self.memory.scoped(user_id=person.name, conversation_id=f"day {number}")
        turns = [{"content": text, "speaker": person.name} for text in visit.said]
        answer = {"content": f"Thank you, {person.name}.", "role": "assistant", "speaker": "Aide"}
        await view.store_turns([*turns, answer])
        await self._learn(view, kept, visit)
        for claim in visit.noise:
            fact = await view.learn_fact(claim, tier="short", memory_type="context", confidence=0.9)
            kept.noise.append(fact.id)
        for truth in visit.useful:
            fact = await view.learn_fact(truth.claim, tier="short", memory_type="context", confidence=0.9)
            kept.useful[fact.id] = (number, truth)
        await self._use(number, view, kept, visit)
        await self._house(view, kept, visit)
        if visit.tool:
            await view.procedural.record_invocation(visit.tool, {"for": person.name}, success=True, task_type="errand")
            await view.reflect(True)

    async def _learn(self, view: AsyncAgentMemory, kept: _Kept, visit: Visit) -> None:
        """What matters for good, or its change."""
        for truth in visit.important:
            known = kept.facts.get(truth.topic)
            if known is None or known.claim == truth.claim:
                fact = await view.semantic.learn_fact(truth.claim, importance=IMPORTANCE, confidence=0.95)
            else:
                fact = await view.semantic.supersede_fact(
                    known.id, truth.claim, importance=IMPORTANCE, confidence=0.95
                )  # fmt: skip
            kept.facts[truth.topic] = fact

    async def _use(self, number: int, view: AsyncAgentMemory, kept: _Kept, visit: Visit) -> None:
        """Ask, and say which fact answered; what is useful at the moment is so twice a visit."""
        for truth in visit.asked:
            bundle = await view.remember(truth.question, top_k=TOP_K)
            served = [fact.id for fact in bundle.facts if truth.answer in fact.claim][:1]
            await view.observe_usage(served)
            kept.once += [fact_id for fact_id in served if fact_id in kept.noise]
        for fact_id, (since, truth) in kept.useful.items():
            if number - since <= USEFUL_DAYS:
                await view.remember(truth.question, top_k=TOP_K)
                for _ in range(2):
                    kept.uses[fact_id] += await view.observe_usage([fact_id], ("errands",))

    async def _house(self, view: AsyncAgentMemory, kept: _Kept, visit: Visit) -> None:
        """A project in a channel of its own: what is recalled often enough there gets known everywhere."""
        house = view.scoped(channel="house")
        if visit.project:
            kept.house, kept.house_left = visit.project, HOUSE_VISITS
            await house.learn_fact(visit.project, confidence=0.9)
        if kept.house_left:
            kept.house_left -= 1
            await house.remember(f"What about this: {kept.house}", top_k=TOP_K)

    # -- by night

    async def _night(self, number: int, talked: int) -> Day:
        """Each job, as often as users wait for it and its interval allows."""
        quiet = {name for name, kept in self.kept.items() if number - kept.last >= QUIET}
        day = Day(number, talked, len(quiet))
        self.clock.at = max(self.clock.at, START + timedelta(days=number) + NIGHT)
        for name, module in scheduled_jobs().items():
            if number % RARE.get(name, 1):
                continue
            cost = day.jobs[name] = Cost()
            watched = _watched(module, cost, quiet)
            begun = time.process_time()
            for _ in range(max(1, int(MINUTES_A_DAY / module.MINUTES))):
                self.clock.at += timedelta(seconds=10)
                report = await serve(self.memory.resources, watched, JobOptions())
                cost.runs += 1
                day.did.update({f"{name}: {what}": count for what, count in report.counts.items() if count})
                day.failed.update({f"{name}: {why}": 1 for why in report.failed.values()})
                if not report.waiting:
                    break
            else:
                day.waiting += 1
            cost.seconds = time.process_time() - begun
        return day


def _watched(module: ModuleType, cost: Cost, quiet: set[str]) -> ModuleType:
    """The job, with an eye on whom it serves."""
    watched = ModuleType(module.__name__)
    vars(watched).update(vars(module))

    async def run(resources: Resources, scope: Scope, options: JobOptions) -> JobReport:
        begun = time.process_time()
        try:
            return cast(JobReport, await module.run(resources, scope, options))
        finally:
            cost.served += 1
            if scope.user_id in quiet:
                cost.idle += 1
                cost.idle_seconds += time.process_time() - begun

    if hasattr(module, "run"):
        vars(watched)["run"] = run
    return watched
