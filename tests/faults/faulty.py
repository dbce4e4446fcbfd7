"""Stores and models that fail on purpose: before their effect, after it, by never answering, or by doing it twice."""

from __future__ import annotations

import asyncio
import inspect
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from agentmem.core.changes import JournalEntry
from agentmem.engine.engine import Engine
from agentmem.errors import AgentMemError, ModelUnavailable, StoreUnavailable

HANG_SECONDS = 600.0  # seconds after which what hangs gives up
FAULT_KINDS = ("before", "after", "hang before", "hang after", "repeat")
NON_IDEMPOTENT_CALLS = frozenset({"log.audit", "session.increment"})  # calls that are not idempotent by contract


class FaultInjector:
    """Decides, by its seed, which call fails and how.

    `hanging` calls wait for their time-out now. `trace` says what happened, in order; `committed_entries` keeps the
    journal as it was written, before any erasure.
    """

    def __init__(self, seed: int, rate: float, hang_seconds: float = HANG_SECONDS) -> None:
        self._random = random.Random(f"faults {seed}")
        self.rate = rate
        self._never = hang_seconds
        self.hanging = 0
        self.trace: list[str] = []
        self.counts: Counter[tuple[str, str]] = Counter()
        self.committed_entries: dict[tuple[str, int], JournalEntry] = {}

    def log(self, line: str) -> None:
        self.trace.append(f"{asyncio.get_running_loop().time():10.4f} {line}")

    async def call(
        self, name: str, error: type[AgentMemError], function: Callable[..., Awaitable[Any]], *args: Any, **kwargs: Any
    ) -> Any:
        await asyncio.sleep(self._random.uniform(0, 0.005))
        kind = self._random.choice(FAULT_KINDS) if self._random.random() < self.rate else ""
        if kind == "repeat" and name in NON_IDEMPOTENT_CALLS:
            kind = ""
        if kind:
            self.log(f"  {name}: {kind}")
            self.counts[name.partition(".")[0], kind] += 1
        if kind.endswith("before"):
            await self._fail(kind, error)
        result = await function(*args, **kwargs)
        if name == "log.append":
            self.committed_entries |= {
                (entry.user_id, entry.seq): entry for entry in result if not entry.already_applied
            }
        if kind.endswith("after"):
            await self._fail(kind, error)
        return await function(*args, **kwargs) if kind == "repeat" else result

    async def _fail(self, kind: str, error: type[AgentMemError]) -> None:
        if kind.startswith("hang"):
            self.hanging += 1
            try:
                await asyncio.sleep(self._never)
            finally:
                self.hanging -= 1
        raise error("a simulated failure")


class FaultProxy:
    """Stands before a store or a model; its coroutines go through `FaultInjector.call`."""

    def __init__(
        self, inner: Any, name: str, faults: FaultInjector, error: type[AgentMemError] = StoreUnavailable
    ) -> None:
        self._inner, self._name, self._faults, self._error = inner, name, faults, error

    def __getattr__(self, attribute: str) -> Any:
        value = getattr(self._inner, attribute)
        if attribute == "close" or not inspect.iscoroutinefunction(value):
            return value
        return partial(self._faults.call, f"{self._name}.{attribute}", self._error, value)


def inject_faults(resources: Engine, faults: FaultInjector) -> None:
    """Put faults before every store and model of what is open."""
    log: Any = FaultProxy(resources.log, "log", faults)
    session: Any = FaultProxy(resources.session, "session", faults)
    resources.log, resources.session = log, session
    if (following := resources.graph_projection) is not None:
        graph: Any = FaultProxy(following.graph, "graph", faults)
        following.graph, following.log = graph, log
    for projection in resources.vector_projections:
        index: Any = FaultProxy(projection.index, "vectors", faults)
        embedder: Any = FaultProxy(projection.embedder, "embedder", faults, ModelUnavailable)
        projection.log, projection.index, projection.embedder = log, index, embedder
