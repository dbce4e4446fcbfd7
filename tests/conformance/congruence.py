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
from agentmem.admin.export_import import export_user
from agentmem.core.clock import SeededIds
from agentmem.facade.async_memory import AsyncAgentMemory
from agentmem.recall.bundle import MemoryBundle
from agentmem.stores.values import ErasureScan
from tests.conformance.history_steps import AGENT, CHANNELS, HistoryState, Step, draw_questions, draw_step
from tests.flows.given import START, ManualClock

SCORE_TOLERANCE = 1e-3  # by so much may scores differ, because nearest sentences of the embedded stack are approximate
REFUSAL_ERRORS = (Conflict, InvalidRecord, NotFound)
STORE_SPECIFIC_KEYS = frozenset({"places", "pending", "milliseconds"})  # what a store says of itself


@dataclass
class MemoryPair:
    """The two memories of a user, the steps done to them, and what is known of what they hold."""

    memories: Mapping[str, AsyncAgentMemory]
    clock: ManualClock
    user: str
    seed: int
    notes: HistoryState = field(default_factory=HistoryState)
    steps: list[str] = field(default_factory=list)
    views: dict[tuple[str, str], AsyncAgentMemory] = field(default_factory=dict)

    async def run(self, count: int) -> None:
        """Do a history, then ask. AssertionError with all of its steps at the first difference."""
        pick = random.Random(self.seed)
        for _ in range(count):
            self.clock.advance(seconds=pick.choice([0, 0.25, 60, 3600, 86_400]))
            self.notes.moments.append(self.clock.time)
            step = draw_step(pick, self.notes)
            self.notes.record(step, await self.compare_step(step))
        for name, memory in self.memories.items():
            mine = self._view(name, "_global")
            await mine.flush()
            assert set((await mine.lag()).values()) == {0}, f"{name}: {await mine.lag()}, {memory}"
        for step in draw_questions(pick, self.notes):
            await self.compare_step(step)
        await self._compare_exports()

    async def compare_step(self, step: Step) -> Any:
        """Do one step on both; what it gave, when it gave the same."""
        self.steps.append(f"{len(self.steps)} at {self.clock.time - START}: {step}")
        first, second = await asyncio.gather(*(self._answer(name, step) for name in self.memories))
        found = list(find_differences(first[0], second[0]))
        assert not found, self.render_differences(found)
        return first[1]

    async def _answer(self, name: str, step: Step) -> tuple[Any, Any]:
        """What one memory says, in a form that can be compared and as it is; None for what it refuses."""
        self.memories[name].engine.ids = SeededIds(self.clock, f"{self.user} {self.seed}", len(self.steps))
        try:
            given = await step.call(self._view(name, step.channel))
        except REFUSAL_ERRORS as error:
            return [type(error).__name__, str(error)], None
        return to_comparable(drop_row_ids(given) if step.verb == "audit.query" else given), given

    def _view(self, name: str, place: str) -> AsyncAgentMemory:
        """A face that keeps its conversation from one step to the next."""
        if (name, place) not in self.views:
            agent = AGENT if place == f"_self_{AGENT}" else None
            self.views[name, place] = self.memories[name].scoped(user_id=self.user, channel=place, agent_id=agent)
        return self.views[name, place]

    async def _compare_exports(self) -> None:
        files = []
        for name, memory in self.memories.items():
            lines: list[str] = []
            await export_user(memory.engine, self._view(name, CHANNELS[0]).scope, lines.append)
            files.append(lines)
        found = [f"line {n}: {a!r} and {b!r}" for n, (a, b) in enumerate(zip_longest(*files)) if a != b]
        assert not found, self.render_differences(found)

    def render_differences(self, found: list[str]) -> str:
        """What differs, after which steps."""
        return "\n".join([f"history {self.seed}, {' and '.join(self.memories)} differ:", *found[:20], *self.steps])


def to_comparable(value: Any) -> Any:
    """A value in a form that can be compared, without what tells of times and places of the store itself."""
    if isinstance(value, MemoryBundle):
        return _bundle_to_comparable(value)
    if isinstance(value, BaseModel):
        return {"kind": type(value).__name__, **to_comparable(value.model_dump())}
    if isinstance(value, ErasureScan):
        return to_comparable(dict(value.leftovers))
    if is_dataclass(value) and not isinstance(value, type):
        return {part.name: to_comparable(getattr(value, part.name)) for part in fields(value)}
    if isinstance(value, Mapping):
        return {str(name): to_comparable(each) for name, each in value.items() if name not in STORE_SPECIFIC_KEYS}
    if isinstance(value, list | tuple):
        return [to_comparable(each) for each in value]
    return value.isoformat() if isinstance(value, datetime) else value


def drop_row_ids(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Audit rows without their ids, which each store counts in its own way: no two are the same."""
    assert len({row["id"] for row in rows}) == len(rows)
    return [{name: value for name, value in row.items() if name != "id"} for row in rows]


def _bundle_to_comparable(bundle: MemoryBundle) -> Any:
    receipt = bundle.receipt.as_dict()
    trace = [(line["technique"], line["lists"], line["error"]) for line in receipt.pop("trace")]
    assert not any(error for _, _, error in trace), trace
    receipt["candidates"].sort(key=lambda candidate: candidate["kind"])  # told kind by kind, in whatever order of kinds
    kinds = (bundle.turns, bundle.facts, bundle.entities, bundle.strategies, bundle.procedures, bundle.goals)
    return {
        "items": [[item.record.id, item.score] for item in bundle.items],
        "kinds": to_comparable(kinds),
        "leads": to_comparable(bundle.thread_leads),
        "notices": list(bundle.notices),
        "profile": to_comparable(bundle.user_context),
        "text": str(bundle),
        "trace": to_comparable(trace),
        "receipt": to_comparable(receipt),
    }


def find_differences(left: Any, right: Any, path: str = "") -> Any:
    """Every place where two plain values differ by more than they may."""
    if isinstance(left, float | int) and isinstance(right, float | int):
        if abs(left - right) > SCORE_TOLERANCE:
            yield f"{path}: {left} and {right}"
    elif isinstance(left, dict) and isinstance(right, dict):
        for name in [*left, *(name for name in right if name not in left)]:
            yield from find_differences(left.get(name, "nothing"), right.get(name, "nothing"), f"{path}.{name}")
    elif isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        for n, (one, other) in enumerate(zip(left, right, strict=True)):
            yield from find_differences(one, other, f"{path}[{n}]")
    elif left != right:
        yield f"{path}: {left!r} and {right!r}"
