"""Belief revision, measured on cases: what recall says of facts whose premises were superseded, forgotten or ended.

A case is one line of `cases/revision.jsonl`: `steps` make a memory, `ask` is the question, and the other fields name,
by the labels of the steps, what the answer must hold. No model is asked.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from importlib import resources
from typing import Any, cast

from agentmem.core.records import Fact
from agentmem.facade.async_memory import AsyncAgentMemory
from agentmem.recall.bundle import MemoryBundle
from tests.benchmarks.report import count_by_rule
from tests.benchmarks.target import MemoryFactory

START = datetime(2026, 1, 1, 12, tzinfo=UTC)
UNKNOWN_NOTICE_PREFIX = "unknown since"


class RevisionCaseClock:
    """Stands still until a case lets days pass."""

    def __init__(self) -> None:
        self.time = START

    def now(self) -> datetime:
        """The moment of the case."""
        return self.time


@dataclass(frozen=True, slots=True)
class RevisionCase:
    """One line of the file."""

    name: str
    rule: str
    steps: Sequence[Mapping[str, Any]]
    ask: str
    as_of: int | None = None
    current: Sequence[str] = ()
    stale: Mapping[str, str] = field(default_factory=dict)  # label of a fact: label of the premise that is named
    doubtful: Sequence[str] = ()  # what it rested on was erased: marked, and nothing is named
    absent: Sequence[str] = ()
    unknown: Sequence[str] = ()  # of the stale ones: nothing else is known in their place
    known: Sequence[str] = ()  # of the stale ones: something is


@dataclass(frozen=True, slots=True)
class RevisionCaseResult:
    """What came of a case; `wrong` is empty when all of it was right."""

    case: RevisionCase
    failures: tuple[str, ...]


def load_cases() -> list[RevisionCase]:
    """The cases that ship with the package."""
    text = resources.files(__package__).joinpath("cases", "revision.jsonl").read_text(encoding="utf-8")
    return [RevisionCase(**json.loads(line)) for line in text.splitlines()]


async def run(
    factory: MemoryFactory, cases: Sequence[RevisionCase], *, progress: Callable[[int, int], None] | None = None
) -> list[RevisionCaseResult]:
    """Play each case for a user of its own, erased afterwards."""
    clock, verdicts = RevisionCaseClock(), []
    async with factory("cases", {"clock": clock}) as opened:
        memory = cast(AsyncAgentMemory, opened)
        for number, case in enumerate(cases):
            clock.time = START
            own = memory.scoped(user_id=f"case {number} {factory.user_suffix}".strip())
            player = RevisionCaseRunner(own, clock)
            for step in case.steps:
                await player.run_step(step)
            as_of = None if case.as_of is None else START + timedelta(days=case.as_of)
            bundle = await own.remember(case.ask, as_of=as_of)
            verdicts.append(RevisionCaseResult(case, tuple(_find_failures(case, bundle, player.facts))))
            await own.erase()
            if progress is not None:
                progress(number + 1, len(cases))
    return verdicts


@dataclass
class RevisionCaseRunner:
    """Does what the steps of a case say."""

    memory: AsyncAgentMemory
    clock: RevisionCaseClock
    facts: dict[str, Fact] = field(default_factory=dict)  # by label
    last_operation_id: str = ""  # the operation to undo

    async def run_step(self, step: Mapping[str, Any]) -> None:
        """One step, named by its first key."""
        acts = {
            "wait": self._wait,
            "learn": self._learn,
            "supersede": self._supersede,
            "correct": self._correct,
            "forget": self._forget,
            "erase": self._erase,
            "restore": self._restore,
            "undo": self._undo,
        }
        await acts[next(iter(step))](step)

    async def _wait(self, step: Mapping[str, Any]) -> None:
        self.clock.time += timedelta(days=step["wait"])

    async def _learn(self, step: Mapping[str, Any]) -> None:
        names = [await self.memory.upsert_entity({"name": name, "type": "person"}) for name in step.get("about", ())]
        premises = [self.facts[label].id for label in step.get("on", ())]
        self._remember_fact(
            step,
            await self.memory.learn_fact(
                step["learn"],
                depends_on=premises,
                entity_ids=[entity.id for entity in names],
                valid_from=_day_to_time(step.get("from")),
                valid_to=_day_to_time(step.get("until")),
            ),
        )

    async def _supersede(self, step: Mapping[str, Any]) -> None:
        old, wrong = self.facts[step["supersede"]], step.get("wrong", False)
        self._remember_fact(step, await self.memory.semantic.supersede_fact(old.id, step["claim"], is_correction=wrong))

    async def _correct(self, step: Mapping[str, Any]) -> None:
        self._remember_fact(
            step, await self.memory.semantic.update_fact(self.facts[step["correct"]].id, claim=step["claim"])
        )

    async def _forget(self, step: Mapping[str, Any]) -> None:
        self.last_operation_id = (await self.memory.forget(self.facts[step["forget"]].id)).operation_id

    async def _erase(self, step: Mapping[str, Any]) -> None:
        await self.memory.forget(self.facts[step["erase"]].id, hard=True)

    async def _restore(self, step: Mapping[str, Any]) -> None:
        await self.memory.restore(self.facts[step["restore"]].id)

    async def _undo(self, _: Mapping[str, Any]) -> None:
        await self.memory.undo(self.last_operation_id)

    def _remember_fact(self, step: Mapping[str, Any], fact: Fact) -> None:
        self.facts[step["as"]], self.last_operation_id = fact, fact.operation_id


def _day_to_time(number: int | None) -> datetime | None:
    return None if number is None else START + timedelta(days=number)


def _find_failures(case: RevisionCase, bundle: MemoryBundle, facts: Mapping[str, Fact]) -> Iterator[str]:
    given = {fact.id: fact for fact in bundle.facts}
    said = [notice for notice in bundle.notices if notice.startswith(UNKNOWN_NOTICE_PREFIX)]
    for label in case.current:
        found = given.get(facts[label].id)
        if found is None or found.stale_since is not None:
            yield f"{facts[label].claim!r} should be current, is {'absent' if found is None else 'stale'}"
    for label, premise in case.stale.items():
        found = given.get(facts[label].id)
        if found is None or found.fallen_premise != facts[premise].claim:
            because = "absent" if found is None else f"{'stale' if found.fallen_premise else 'current'}"
            yield f"{facts[label].claim!r} should be stale because of {facts[premise].claim!r}, is {because}"
    for label in case.doubtful:
        found = given.get(facts[label].id)
        if found is None or found.stale_since is None or found.fallen_premise:
            yield f"{facts[label].claim!r} should be marked as doubtful"
    for label in case.absent:
        if facts[label].id in given:
            yield f"{facts[label].claim!r} should be absent"
    for labels, wanted in ((case.unknown, True), (case.known, False)):
        for label in labels:
            if any(facts[label].claim in notice for notice in said) is not wanted:
                yield f"{facts[label].claim!r} should {'' if wanted else 'not '}be told as {UNKNOWN_NOTICE_PREFIX}"


def build_table(results: Sequence[RevisionCaseResult]) -> list[dict[str, object]]:
    """A row for each rule, and one for all: cases and how many were right."""
    return count_by_rule([(verdict.case.rule, not verdict.failures) for verdict in results])
