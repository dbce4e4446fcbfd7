"""What a look at the simulated memory sees: how much there is, what is recalled, what was collected, whose it is."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from agentmem.agent_memory import AsyncAgentMemory
from agentmem.bench.lifecycle_people import Person, Truth
from agentmem.memory.facts import holds
from agentmem.model.records import Fact, Status
from agentmem.model.scope import Scope
from agentmem.recall.bundle import MemoryBundle
from agentmem.stores import Where
from agentmem.upkeep.portable import export_user

TOP_K = 5
ONE_IN = 10  # people asked at a look; all of them in the end
IMPORTANT = 0.8
FADES = timedelta(days=14)  # a little more than a short-lived memory lasts without use
PAGE = 1000


@dataclass(slots=True)
class Asked:
    """Questions and what came of them."""

    important: int = 0
    important_found: int = 0  # as a fact among the first five of the bundle's items
    told: int = 0
    told_found: int = 0
    outdated: int = 0  # questions whose answers held a fact that is not so any more
    strangers: int = 0  # answers with another user's name in them
    missed: list[str] = field(default_factory=list)

    @property
    def share(self) -> float:
        """Important facts found, of those asked for."""
        return self.important_found / self.important if self.important else 1.0

    @property
    def told_share(self) -> float:
        """The same for what the rules learned of what was said."""
        return self.told_found / self.told if self.told else 1.0


@dataclass(slots=True)
class Look:
    """What a look on a day saw: records by kind, facts by tier and status, and answers to a sample of people."""

    day: int
    records: Counter[str]
    facts: Counter[str]
    asked: Asked
    did: Counter[str]


@dataclass(frozen=True, slots=True)
class Fates:
    """Ids of one person's short-lived facts: never used, used once, and used so often that they should be kept."""

    noise: Sequence[str]
    once: Sequence[str]
    useful: Sequence[str]


@dataclass(slots=True)
class End:
    """How it stands in the end, when everybody was asked."""

    asked: Asked = field(default_factory=Asked)
    important_stored: int = 0
    important_wanted: int = 0
    noise: int = 0  # short-lived and unused for long enough to be gone
    noise_collected: int = 0
    noise_kept: Counter[str] = field(default_factory=Counter)  # what became of the others
    once: int = 0
    once_kept: int = 0
    useful: int = 0
    useful_kept: int = 0
    strangers: list[str] = field(default_factory=list)  # whose memory holds whose name


class Looker:
    """Who looks: a memory, the people in it, and the looks so far."""

    def __init__(self, memory: AsyncAgentMemory, persons: Sequence[Person]) -> None:
        self.memory, self.persons = memory, persons
        self.looks: list[Look] = []
        self._seen: dict[str, tuple[int, Counter[str], Counter[str]]] = {}

    async def look(self, day: int, did: Counter[str]) -> None:
        """Count what there is, and ask a tenth of the people."""
        records: Counter[str] = Counter()
        facts: Counter[str] = Counter()
        for person in self.persons:
            kinds, tiers = await self._sizes(person)
            records.update(kinds)
            facts.update(tiers)
        asked = Asked()
        for person in self.persons:
            if person.number % ONE_IN == len(self.looks) % ONE_IN:
                await self._ask(person, asked)
        self.looks.append(Look(day, records, facts, asked, did))

    async def end(self, fates: Mapping[str, Fates]) -> End:
        """Ask everybody, and look at what should be gone, what should be there and whose it is."""
        names = re.compile("|".join(sorted((person.name for person in self.persons), key=len, reverse=True)))
        end = End()
        for person in self.persons:
            await self._ask(person, end.asked)
            facts = await self._facts(person)
            now = self.memory.resources.clock.now()
            end.important_wanted += len(person.truths)
            end.important_stored += sum((fact.importance or 0) >= IMPORTANT and holds(fact, now) for fact in facts)
            fate = fates[person.name]
            await self._collected(person, facts, fate.noise, end)
            kept = {fact.id for fact in facts if fact.tier == "long" and holds(fact, now)}
            end.once += len(fate.once)
            end.once_kept += len(kept.intersection(fate.once))
            end.useful += len(fate.useful)
            end.useful_kept += len(kept.intersection(fate.useful))
            end.strangers += await self._strangers(person, names)
        return end

    # -- sizes

    async def _sizes(self, person: Person) -> tuple[Counter[str], Counter[str]]:
        """Current records by kind, and facts by tier or by what became of them; counted anew when something changed."""
        scope = Scope(person.name)
        head = (await self.memory.resources.log.head(scope)).seq
        if (known := self._seen.get(person.name)) is not None and known[0] == head:
            return known[1:]
        outline = await self.memory.resources.outline(scope)
        counts = Counter(outline.kind.tolist())
        kinds = Counter({outline.kinds.values[code]: count for code, count in counts.items() if code >= 0})
        tiers: Counter[str] = Counter()
        now = self.memory.resources.clock.now()
        for fact in await self._facts(person):
            current = holds(fact, now) and fact.status in (Status.ACTIVE, Status.PROMOTED)
            tiers[fact.tier if current else "archived" if fact.status is Status.ARCHIVED else "superseded"] += 1
        self._seen[person.name] = (head, kinds, tiers)
        return kinds, tiers

    async def _facts(self, person: Person) -> list[Fact]:
        log, where = self.memory.resources.log, Where(kinds=("Fact",))
        found: list[Fact] = []
        while page := await log.find(Scope(person.name), where, limit=PAGE, offset=len(found)):
            found += [record for record in page if isinstance(record, Fact)]
            if len(page) < PAGE:
                break
        return found

    # -- answers

    async def _ask(self, person: Person, asked: Asked) -> None:
        view = self.memory.scoped(user_id=person.name)
        for truth in person.truths.values():
            bundle = await view.remember(truth.question, top_k=TOP_K, reinforce=False)
            asked.important += 1
            found = _among_first(bundle, truth)
            asked.important_found += found
            self._note(person, truth, bundle, asked, found=found)
        for truth in person.told.values():
            bundle = await view.remember(truth.question, top_k=TOP_K, reinforce=False)
            asked.told += 1
            found = any(truth.answer in fact.claim for fact in bundle.facts)
            asked.told_found += found
            self._note(person, truth, bundle, asked, found=found)

    def _note(self, person: Person, truth: Truth, bundle: MemoryBundle, asked: Asked, *, found: bool) -> None:
        if not found:
            said = "; ".join(fact.claim for fact in bundle.facts)
            asked.missed.append(f"{truth.question} {truth.answer}? facts: {said}")
        old = [f" {value}" for value in person.former.get(truth.topic, ())]
        asked.outdated += any(value in fact.claim for value in old for fact in bundle.facts)
        others = {other.name for other in self.persons} - {person.name}
        asked.strangers += any(word in others for word in re.findall(r"\w+", str(bundle)))

    # -- what should be gone, and whose it is

    async def _collected(self, person: Person, facts: Sequence[Fact], noise: Collection[str], end: End) -> None:
        """What was learned, and used for the last time, so long ago that it should be gone."""
        by_id = {fact.id: fact for fact in facts}
        resources = self.memory.resources
        used = await resources.log.usage([("Fact", name) for name in noise], Scope(person.name))
        before = resources.clock.now() - FADES
        for name in noise:
            fact, usage = by_id.get(name), used.get(("Fact", name))
            last = None if fact is None else (usage.last_accessed if usage else None) or fact.recorded_at
            if last is not None and last > before:
                continue
            end.noise += 1
            if fact is None or fact.status is Status.ARCHIVED:
                end.noise_collected += 1
            else:
                end.noise_kept[f"{fact.status}, {fact.tier}"] += 1

    async def _strangers(self, person: Person, names: re.Pattern[str]) -> list[str]:
        """Whom else the whole journal of somebody names, as it is exported."""
        found: set[str] = set()

        def read(line: str) -> None:
            found.update(names.findall(line))

        await export_user(self.memory.resources, Scope(person.name), read)
        return [f"{person.name}: {name}" for name in sorted(found - {person.name})]


def _among_first(bundle: MemoryBundle, truth: Truth) -> bool:
    """Whether a current fact with the answer is among the first five of all kinds."""
    return any(isinstance(item.record, Fact) and truth.answer in item.record.claim for item in bundle.items[:TOP_K])
