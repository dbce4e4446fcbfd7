"""A simulated year: people talk, fall silent, change their minds and repeat themselves; at night the real jobs run.

The clock is virtual: a day is a step. Once a day, after the last talk, each job runs through `run_job`, as a worker
would run it: one that is due more often than daily runs so often again as users wait for it, but no more often than its
interval would let it. `check`, which reads the whole store, runs every 28 days. No language model is asked.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import cast

from agentmem.core.records import Fact
from agentmem.core.scope import Scope
from agentmem.engine.engine import Engine
from agentmem.errors import ConfigError
from agentmem.facade.async_memory import AsyncAgentMemory
from agentmem.jobs.job import Job, JobOptions, JobReport, list_scheduled_jobs
from agentmem.jobs.runner import run_job
from tests.benchmarks.lifecycle_look import ExpectedOutcomes, FinalState, LifecycleObserver, LifecycleSnapshot
from tests.benchmarks.lifecycle_people import GroundTruth, Person, Visit, build_people, distribute
from tests.benchmarks.target import MemoryFactory

START = datetime(2026, 1, 1, tzinfo=UTC)
NIGHT_OFFSET = timedelta(hours=23)
MINUTES_PER_DAY = 1440
IDLE_AFTER_DAYS = 14  # days without a word after which somebody counts as idle
IMPORTANCE = 0.9
TOP_K = 5
USEFUL_DAYS = 13
SNAPSHOT_EVERY_DAYS = 14  # days from one look to the next
RUN_EVERY_DAYS = {"check": 28}  # days from one run to the next, of a job that takes long
HOUSE_VISITS = 6

ProgressCallback = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class SimulationPlan:
    """How many people, for how many days, and the seed of all that they do."""

    users: int = 200
    days: int = 365
    seed: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.users <= 20_000 or not 1 <= self.days <= 3650:
            raise ConfigError("a simulation needs 1 to 20,000 users and 1 to 3,650 days")


class SimulationClock:
    """Stands still until the simulation lets time pass."""

    def __init__(self) -> None:
        self.time = START

    def now(self) -> datetime:
        """The moment of the simulation."""
        return self.time


@dataclass(slots=True)
class JobCost:
    """What a job cost on one day: runs, users served, those of them who were idle, and seconds of CPU."""

    runs: int = 0
    served: int = 0
    idle: int = 0
    seconds: float = 0.0
    idle_seconds: float = 0.0


@dataclass(slots=True)
class SimulatedDay:
    """One simulated day: who talked, how many were idle, what each job cost and did, and what failed."""

    day: int
    talked: int
    idle: int
    jobs: dict[str, JobCost] = field(default_factory=dict)
    job_counts: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    waiting: int = 0  # jobs for which users still waited when the day was over


@dataclass(slots=True)
class SimulationResult:
    """All that was seen: day by day, look by look, and how it stands in the end; by people of one process or more."""

    plan: SimulationPlan
    embedder: str
    days: list[SimulatedDay]
    snapshots: list[LifecycleSnapshot]
    final_state: FinalState
    seconds: float  # CPU, all in all
    talk_seconds: float
    job_seconds: float
    processes: int = 1


@dataclass(slots=True)
class _PersonState:
    """What the simulation must know of somebody to go on: ids of facts by topic, what is in use, and the project."""

    facts: dict[str, Fact] = field(default_factory=dict)
    noise: list[str] = field(default_factory=list)
    used_once: list[str] = field(default_factory=list)  # noise that served as an answer, once
    useful: dict[str, tuple[int, GroundTruth]] = field(default_factory=dict)  # id of the fact: day and question
    uses: Counter[str] = field(default_factory=Counter)
    house: str = ""
    house_visits_left: int = 0
    last_day: int = -IDLE_AFTER_DAYS


async def run_simulation(
    factory: MemoryFactory,
    plan: SimulationPlan,
    progress: ProgressCallback | None = None,
    *,
    process: int = 0,
    processes: int = 1,
) -> SimulationResult:
    """Let the time pass in a new memory below the target's home, and look at it every two weeks and in the end.

    With several processes, only those people live here who are dealt to this one; what happens to them is the same.
    """
    clock = SimulationClock()
    async with factory("nobody", {"clock": clock, "seed": plan.seed, "recall_rate": 0}) as opened:
        memory = cast(AsyncAgentMemory, opened)
        everybody = build_people(plan.users, plan.days, plan.seed)
        year = _Simulation(memory, clock, plan, distribute(everybody, processes)[process])
        await year.run(progress)
        end = await year.observer.assess_final_state(year.expected_outcomes())
        identity = memory.engine.vector_projections[0].embedder.identity
        return SimulationResult(
            plan,
            identity,
            year.days,
            year.observer.snapshots,
            end,
            time.process_time() - year.started,
            year.talk_seconds,
            year.job_seconds,
        )


class _Simulation:
    """The run itself."""

    def __init__(
        self, memory: AsyncAgentMemory, clock: SimulationClock, plan: SimulationPlan, persons: Sequence[Person]
    ) -> None:
        self.memory, self.clock, self.plan, self.persons = memory, clock, plan, persons
        self.states = {person.name: _PersonState() for person in persons}
        self.days: list[SimulatedDay] = []
        self.observer = LifecycleObserver(memory, persons)
        self.started = time.process_time()
        self.talk_seconds = self.job_seconds = 0.0

    async def run(self, progress: ProgressCallback | None) -> None:
        """Day by day: talk, then the night, and every two weeks a look."""
        for number in range(self.plan.days):
            if progress is not None:
                progress(number, self.plan.days)
            begun = time.process_time()
            talked = await self._play_day(number)
            slept = time.process_time()
            self.days.append(await self._run_night(number, talked))
            self.talk_seconds += slept - begun
            self.job_seconds += time.process_time() - slept
            if number % SNAPSHOT_EVERY_DAYS == SNAPSHOT_EVERY_DAYS - 1 or number == self.plan.days - 1:
                await self.observer.take_snapshot(number, self._count_since_snapshot(number))
        if progress is not None:
            progress(self.plan.days, self.plan.days)

    def _count_since_snapshot(self, number: int) -> Counter[str]:
        """What the jobs did since the last look."""
        since = self.observer.snapshots[-1].day if self.observer.snapshots else -1
        done: Counter[str] = Counter()
        for day in self.days[since + 1 : number + 1]:
            done.update(day.job_counts)
        return done

    def expected_outcomes(self) -> dict[str, ExpectedOutcomes]:
        """The short-lived facts of everybody, by what should become of them."""
        wanted = self.memory.engine.settings.promotion.use_count
        return {
            name: ExpectedOutcomes(
                noise=[fact for fact in kept.noise if fact not in kept.used_once],
                used_once=kept.used_once,
                useful=[fact for fact in kept.useful if kept.uses[fact] >= wanted],
            )
            for name, kept in self.states.items()
        }

    # -- by day

    async def _play_day(self, number: int) -> int:
        """Everybody who talks on this day does so at an hour of their own."""
        today = [(person.plan_visit(number), person) for person in self.persons if number in person.visit_days]
        for visit, person in sorted(today, key=lambda pair: (pair[0].hour, pair[1].number)):
            self.clock.time = max(self.clock.time, START + timedelta(days=number, hours=visit.hour))
            await self._play_visit(number, person, visit)
            self.clock.time += timedelta(seconds=1)
        return len(today)

    async def _play_visit(self, number: int, person: Person, visit: Visit) -> None:
        kept = self.states[person.name]
        kept.last_day = number
        view = self.memory.scoped(user_id=person.name, conversation_id=f"day {number}")
        turns = [{"content": text, "speaker": person.name} for text in visit.utterances]
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
        await self._work_on_house(view, kept, visit)
        if visit.tool:
            await view.procedural.record_invocation(visit.tool, {"for": person.name}, success=True, task_type="errand")
            await view.reflect(True)

    async def _learn(self, view: AsyncAgentMemory, state: _PersonState, visit: Visit) -> None:
        """What matters for good, or its change."""
        for truth in visit.important:
            known = state.facts.get(truth.topic)
            if known is None or known.claim == truth.claim:
                fact = await view.semantic.learn_fact(truth.claim, importance=IMPORTANCE, confidence=0.95)
            else:
                fact = await view.semantic.supersede_fact(known.id, truth.claim, importance=IMPORTANCE, confidence=0.95)
            state.facts[truth.topic] = fact

    async def _use(self, number: int, view: AsyncAgentMemory, state: _PersonState, visit: Visit) -> None:
        """Ask, and say which fact answered; what is useful at the moment is so twice a visit."""
        for truth in visit.questions:
            bundle = await view.remember(truth.question, top_k=TOP_K)
            served = [fact.id for fact in bundle.facts if truth.answer in fact.claim][:1]
            await view.observe_usage(served)
            state.used_once += [fact_id for fact_id in served if fact_id in state.noise]
        for fact_id, (since, truth) in state.useful.items():
            if number - since <= USEFUL_DAYS:
                await view.remember(truth.question, top_k=TOP_K)
                for _ in range(2):
                    state.uses[fact_id] += await view.observe_usage([fact_id], ("errands",))

    async def _work_on_house(self, view: AsyncAgentMemory, state: _PersonState, visit: Visit) -> None:
        """A project in a channel of its own: what is recalled often enough there gets known everywhere."""
        house = view.scoped(channel="house")
        if visit.project:
            state.house, state.house_visits_left = visit.project, HOUSE_VISITS
            await house.learn_fact(visit.project, confidence=0.9)
        if state.house_visits_left:
            state.house_visits_left -= 1
            await house.remember(f"What about this: {state.house}", top_k=TOP_K)

    # -- by night

    async def _run_night(self, number: int, talked: int) -> SimulatedDay:
        """Each job, as often as users wait for it and its interval allows."""
        quiet = {name for name, kept in self.states.items() if number - kept.last_day >= IDLE_AFTER_DAYS}
        day = SimulatedDay(number, talked, len(quiet))
        self.clock.time = max(self.clock.time, START + timedelta(days=number) + NIGHT_OFFSET)
        for name, job in list_scheduled_jobs().items():
            if number % RUN_EVERY_DAYS.get(name, 1):
                continue
            cost = day.jobs[name] = JobCost()
            watched = _measure_job(job, cost, quiet)
            begun = time.process_time()
            for _ in range(max(1, int(MINUTES_PER_DAY / job.minutes))):
                self.clock.time += timedelta(seconds=10)
                report = await run_job(self.memory.engine, watched, JobOptions())
                cost.runs += 1
                day.job_counts.update({f"{name}: {what}": count for what, count in report.counts.items() if count})
                day.failed.update({f"{name}: {why}": 1 for why in report.failed.values()})
                if not report.has_more:
                    break
            else:
                day.waiting += 1
            cost.seconds = time.process_time() - begun
        return day


def _measure_job(job: Job, cost: JobCost, idle_users: set[str]) -> Job:
    """The job, with an eye on whom it serves."""
    measured = job.run
    if measured is None:
        return job

    async def run(engine: Engine, scope: Scope, options: JobOptions) -> JobReport:
        begun = time.process_time()
        try:
            return await measured(engine, scope, options)
        finally:
            cost.served += 1
            if scope.user_id in idle_users:
                cost.idle += 1
                cost.idle_seconds += time.process_time() - begun

    return replace(job, run=run)
