"""The same random history done to two memories, step by step, and then the same questions asked of both.

Both have one clock and make the same ids, so that whatever they say can be compared as it is. A history is a function
of its number alone: what a run found is found again under that number.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import datetime
from itertools import zip_longest
from typing import Any

from pydantic import BaseModel

from agentmem import Conflict, InvalidRecord, NotFound
from agentmem.agent_memory import AsyncAgentMemory
from agentmem.model.clock import SeededIds
from agentmem.recall.bundle import MemoryBundle
from agentmem.stores import Scan
from agentmem.upkeep.portable import export_user
from tests.conformance.history_steps import AGENT, PLACES, Notes, Step, draw, questions
from tests.flows.given import START, StoppedClock

NEAR = 1e-3  # by so much may scores differ, because nearest sentences of the embedded stack are approximate
REFUSED = (Conflict, InvalidRecord, NotFound)
ELSEWHERE = frozenset({"places", "pending", "milliseconds"})  # what a store says of itself


@dataclass
class Both:
    """The two memories of a user, the steps done to them, and what is known of what they hold."""

    memories: Mapping[str, AsyncAgentMemory]
    clock: StoppedClock
    user: str
    number: int
    notes: Notes = field(default_factory=Notes)
    done: list[str] = field(default_factory=list)
    views: dict[tuple[str, str], AsyncAgentMemory] = field(default_factory=dict)

    async def run(self, count: int) -> None:
        """Do a history, then ask. AssertionError with all of its steps at the first difference."""
        pick = random.Random(self.number)
        for _ in range(count):
            self.clock.ahead(seconds=pick.choice([0, 0.25, 60, 3600, 86_400]))
            self.notes.moments.append(self.clock.at)
            step = draw(pick, self.notes)
            self.notes.learn(step, await self.same(step))
        for name, memory in self.memories.items():
            mine = self._view(name, "_global")
            await mine.flush()
            assert set((await mine.lag()).values()) == {0}, f"{name}: {await mine.lag()}, {memory}"
        for step in questions(pick, self.notes):
            await self.same(step)
        await self._exports()

    async def same(self, step: Step) -> Any:
        """Do one step on both; what it gave, when it gave the same."""
        self.done.append(f"{len(self.done)} at {self.clock.at - START}: {step}")
        first, second = await asyncio.gather(*(self._answer(name, step) for name in self.memories))
        found = list(difference(first[0], second[0]))
        assert not found, self.told(found)
        return first[1]

    async def _answer(self, name: str, step: Step) -> tuple[Any, Any]:
        """What one memory says, in a form that can be compared and as it is; None for what it refuses."""
        self.memories[name].resources.ids = SeededIds(self.clock, f"{self.user} {self.number}", len(self.done))
        try:
            given = await step.call(self._view(name, step.place))
        except REFUSED as error:
            return [type(error).__name__, str(error)], None
        return plain(unnumbered(given) if step.verb == "audit.query" else given), given

    def _view(self, name: str, place: str) -> AsyncAgentMemory:
        """A face that keeps its conversation from one step to the next."""
        if (name, place) not in self.views:
            agent = AGENT if place == f"_self_{AGENT}" else None
            self.views[name, place] = self.memories[name].scoped(user_id=self.user, channel=place, agent_id=agent)
        return self.views[name, place]

    async def _exports(self) -> None:
        files = []
        for name, memory in self.memories.items():
            lines: list[str] = []
            await export_user(memory.resources, self._view(name, PLACES[0]).scope, lines.append)
            files.append(lines)
        found = [f"line {n}: {a!r} and {b!r}" for n, (a, b) in enumerate(zip_longest(*files)) if a != b]
        assert not found, self.told(found)

    def told(self, found: list[str]) -> str:
        """What differs, after which steps."""
        return "\n".join([f"history {self.number}, {' and '.join(self.memories)} differ:", *found[:20], *self.done])


def plain(value: Any) -> Any:
    """A value in a form that can be compared, without what tells of times and places of the store itself."""
    if isinstance(value, MemoryBundle):
        return _bundle(value)
    if isinstance(value, BaseModel):
        return {"kind": type(value).__name__, **plain(value.model_dump())}
    if isinstance(value, Scan):
        return plain(dict(value.remnants))
    if is_dataclass(value) and not isinstance(value, type):
        return {part.name: plain(getattr(value, part.name)) for part in fields(value)}
    if isinstance(value, Mapping):
        return {str(name): plain(each) for name, each in value.items() if name not in ELSEWHERE}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return value.isoformat() if isinstance(value, datetime) else value


def unnumbered(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Audit rows without their ids, which each store counts in its own way: no two are the same."""
    assert len({row["id"] for row in rows}) == len(rows)
    return [{name: value for name, value in row.items() if name != "id"} for row in rows]


def _bundle(bundle: MemoryBundle) -> Any:
    receipt = bundle.receipt.as_dict()
    trace = [(line["technique"], line["lists"], line["error"]) for line in receipt.pop("trace")]
    assert not any(error for _, _, error in trace), trace
    receipt["candidates"].sort(key=lambda candidate: candidate["kind"])  # told kind by kind, in whatever order of kinds
    kinds = (bundle.turns, bundle.facts, bundle.entities, bundle.strategies, bundle.procedures, bundle.goals)
    return {
        "items": [[item.record.id, item.score] for item in bundle.items], "kinds": plain(kinds),
        "leads": plain(bundle.thread_leads), "notices": list(bundle.notices), "profile": plain(bundle.user_context),
        "text": str(bundle), "trace": plain(trace), "receipt": plain(receipt),
    }  # fmt: skip


def difference(left: Any, right: Any, path: str = "") -> Any:
    """Every place where two plain values differ by more than they may."""
    if isinstance(left, float | int) and isinstance(right, float | int):
        if abs(left - right) > NEAR:
            yield f"{path}: {left} and {right}"
    elif isinstance(left, dict) and isinstance(right, dict):
        for name in [*left, *(name for name in right if name not in left)]:
            yield from difference(left.get(name, "nothing"), right.get(name, "nothing"), f"{path}.{name}")
    elif isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        for n, (one, other) in enumerate(zip(left, right, strict=True)):
            yield from difference(one, other, f"{path}[{n}]")
    elif left != right:
        yield f"{path}: {left!r} and {right!r}"
