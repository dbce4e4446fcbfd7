"""What a look at the simulated memory sees: how much there is, what is recalled, what was collected, whose it is."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from agentmem.admin.export_import import export_user
from agentmem.core.record import Status
from agentmem.core.records import Fact
from agentmem.core.scope import Scope
from agentmem.facade.async_memory import AsyncAgentMemory
from agentmem.memory.semantic.facts import is_current
from agentmem.recall.bundle import MemoryBundle
from agentmem.stores.values import Where
from tests.benchmarks.lifecycle_people import GroundTruth, Person

TOP_K = 5
SAMPLE_EVERY = 10  # people asked at a look; all of them in the end
MIN_IMPORTANCE = 0.8
FADE_AFTER = timedelta(days=14)  # a little more than a short-lived memory lasts without use
PAGE_SIZE = 1000


@dataclass(slots=True)
class QuestionTally:
    """Questions and what came of them."""

    important: int = 0
    important_found: int = 0  # as a fact among the first five of the bundle's items
    stated: int = 0
    stated_found: int = 0
    outdated: int = 0  # questions whose answers held a fact that is not so any more
    leaks: int = 0  # answers with another user's name in them
    missed: list[str] = field(default_factory=list)

    @property
    def important_share(self) -> float:
        """Important facts found, of those asked for."""
        return self.important_found / self.important if self.important else 1.0

    @property
    def stated_share(self) -> float:
        """The same for what the rules learned of what was said."""
        return self.stated_found / self.stated if self.stated else 1.0


@dataclass(slots=True)
class LifecycleSnapshot:
    """What a look on a day saw: records by kind, facts by tier and status, and answers to a sample of people."""

    day: int
    records: Counter[str]
    facts: Counter[str]
    answers: QuestionTally
    job_counts: Counter[str]


@dataclass(frozen=True, slots=True)
class ExpectedOutcomes:
    """Ids of one person's short-lived facts: never used, used once, and used so often that they should be kept."""

    noise: Sequence[str]
    used_once: Sequence[str]
    useful: Sequence[str]


@dataclass(slots=True)
class FinalState:
    """How it stands in the end, when everybody was asked."""

    answers: QuestionTally = field(default_factory=QuestionTally)
    important_stored: int = 0
    important_wanted: int = 0
    noise: int = 0  # short-lived and unused for long enough to be gone
    noise_collected: int = 0
    noise_kept: Counter[str] = field(default_factory=Counter)  # what became of the others
    used_once: int = 0
    used_once_kept: int = 0
    useful: int = 0
    useful_kept: int = 0
    leaks: list[str] = field(default_factory=list)  # whose memory holds whose name


class LifecycleObserver:
    """Who looks: a memory, the people in it, and the looks so far."""

    def __init__(self, memory: AsyncAgentMemory, persons: Sequence[Person]) -> None:
        self.memory, self.persons = memory, persons
        self.snapshots: list[LifecycleSnapshot] = []
        self._size_cache: dict[str, tuple[int, Counter[str], Counter[str]]] = {}

    async def take_snapshot(self, day: int, job_counts: Counter[str]) -> None:
        """Count what there is, and ask a tenth of the people."""
        records: Counter[str] = Counter()
        facts: Counter[str] = Counter()
        for person in self.persons:
            kinds, tiers = await self._count_sizes(person)
            records.update(kinds)
            facts.update(tiers)
        asked = QuestionTally()
        for person in self.persons:
            if person.number % SAMPLE_EVERY == len(self.snapshots) % SAMPLE_EVERY:
                await self._ask(person, asked)
        self.snapshots.append(LifecycleSnapshot(day, records, facts, asked, job_counts))

    async def assess_final_state(self, outcomes: Mapping[str, ExpectedOutcomes]) -> FinalState:
        """Ask everybody, and look at what should be gone, what should be there and whose it is."""
        names = re.compile("|".join(sorted((person.name for person in self.persons), key=len, reverse=True)))
        end = FinalState()
        for person in self.persons:
            await self._ask(person, end.answers)
            facts = await self._read_facts(person)
            now = self.memory.engine.clock.now()
            end.important_wanted += len(person.truths)
            end.important_stored += sum(
                (fact.importance or 0) >= MIN_IMPORTANCE and is_current(fact, now) for fact in facts
            )
            fate = outcomes[person.name]
            await self._count_collected(person, facts, fate.noise, end)
            kept = {fact.id for fact in facts if fact.tier == "long" and is_current(fact, now)}
            end.used_once += len(fate.used_once)
            end.used_once_kept += len(kept.intersection(fate.used_once))
            end.useful += len(fate.useful)
            end.useful_kept += len(kept.intersection(fate.useful))
            end.leaks += await self._find_leaks(person, names)
        return end

    # -- sizes

    async def _count_sizes(self, person: Person) -> tuple[Counter[str], Counter[str]]:
        """Current records by kind, and facts by tier or by what became of them; counted anew when something changed."""
        scope = Scope(person.name)
        head = (await self.memory.engine.log.head(scope)).seq
        if (known := self._size_cache.get(person.name)) is not None and known[0] == head:
            return known[1:]
        columns = await self.memory.engine.read_columns(scope)
        counts = Counter(columns.kind.tolist())
        kinds = Counter({columns.kinds.values[code]: count for code, count in counts.items() if code >= 0})
        tiers: Counter[str] = Counter()
        now = self.memory.engine.clock.now()
        for fact in await self._read_facts(person):
            current = is_current(fact, now) and fact.status in (Status.ACTIVE, Status.PROMOTED)
            tiers[fact.tier if current else "archived" if fact.status is Status.ARCHIVED else "superseded"] += 1
        self._size_cache[person.name] = (head, kinds, tiers)
        return kinds, tiers

    async def _read_facts(self, person: Person) -> list[Fact]:
        log, where = self.memory.engine.log, Where(kinds=("Fact",))
        found: list[Fact] = []
        while page := await log.find(Scope(person.name), where, limit=PAGE_SIZE, offset=len(found)):
            found += [record for record in page if isinstance(record, Fact)]
            if len(page) < PAGE_SIZE:
                break
        return found

    # -- answers

    async def _ask(self, person: Person, tally: QuestionTally) -> None:
        view = self.memory.scoped(user_id=person.name)
        for truth in person.truths.values():
            bundle = await view.remember(truth.question, top_k=TOP_K, reinforce=False)
            tally.important += 1
            found = _is_in_top_k(bundle, truth)
            tally.important_found += found
            self._record_answer(person, truth, bundle, tally, found=found)
        for truth in person.stated.values():
            bundle = await view.remember(truth.question, top_k=TOP_K, reinforce=False)
            tally.stated += 1
            found = any(truth.answer in fact.claim for fact in bundle.facts)
            tally.stated_found += found
            self._record_answer(person, truth, bundle, tally, found=found)

    def _record_answer(
        self, person: Person, truth: GroundTruth, bundle: MemoryBundle, tally: QuestionTally, *, found: bool
    ) -> None:
        if not found:
            said = "; ".join(fact.claim for fact in bundle.facts)
            tally.missed.append(f"{truth.question} {truth.answer}? facts: {said}")
        old = [f" {value}" for value in person.former_answers.get(truth.topic, ())]
        tally.outdated += any(value in fact.claim for value in old for fact in bundle.facts)
        others = {other.name for other in self.persons} - {person.name}
        tally.leaks += any(word in others for word in re.findall(r"\w+", str(bundle)))

    # -- what should be gone, and whose it is

    async def _count_collected(
        self, person: Person, facts: Sequence[Fact], noise: Collection[str], state: FinalState
    ) -> None:
        """What was learned, and used for the last time, so long ago that it should be gone."""
        by_id = {fact.id: fact for fact in facts}
        engine = self.memory.engine
        used = await engine.log.usage([("Fact", name) for name in noise], Scope(person.name))
        before = engine.clock.now() - FADE_AFTER
        for name in noise:
            fact, usage = by_id.get(name), used.get(("Fact", name))
            last = None if fact is None else (usage.last_accessed if usage else None) or fact.recorded_at
            if last is not None and last > before:
                continue
            state.noise += 1
            if fact is None or fact.status is Status.ARCHIVED:
                state.noise_collected += 1
            else:
                state.noise_kept[f"{fact.status}, {fact.tier}"] += 1

    async def _find_leaks(self, person: Person, names: re.Pattern[str]) -> list[str]:
        """Whom else the whole journal of somebody names, as it is exported."""
        found: set[str] = set()

        def read(line: str) -> None:
            found.update(names.findall(line))

        await export_user(self.memory.engine, Scope(person.name), read)
        return [f"{person.name}: {name}" for name in sorted(found - {person.name})]


def _is_in_top_k(bundle: MemoryBundle, truth: GroundTruth) -> bool:
    """Whether a current fact with the answer is among the first five of all kinds."""
    return any(isinstance(item.record, Fact) and truth.answer in item.record.claim for item in bundle.items[:TOP_K])
