"""What the stores' calls take, by thin wrappers around them; and what the embedder takes within each operation."""

from __future__ import annotations

import functools
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from agentmem import AsyncAgentMemory

EMBEDDING = "embedder.embed"
# What an operation calls: tasks that it starts are given the same dictionary.
_OWN: ContextVar[dict[str, float] | None] = ContextVar("own", default=None)


class Steps:
    """Seconds of every call since the last `clear`, by name."""

    def __init__(self, memory: AsyncAgentMemory) -> None:
        self.calls: dict[str, list[float]] = defaultdict(list)
        engine = memory.engine
        log, index, following = engine.log, engine.vector_projections[0].index, engine.graph_projection
        for name in ("append", "head", "read_columns", "match", "read_by_ordinal", "record_usage", "meta", "changes"):
            self._wrap("log", log, name)
        for name in ("apply", "score_all", "score_pairs", "watermark"):
            self._wrap("vectors", index, name)
        self._wrap("embedder", engine.vector_projections[0].embedder, "embed")
        self._wrap("session", engine.session, "push")
        self._wrap("", engine, "read_columns")
        self._wrap("", engine, "wait_for_own_writes")
        if following is not None:
            self._wrap("graph", following.graph, "apply")

    def clear(self) -> None:
        """Begin anew."""
        self.calls.clear()

    def _wrap(self, owner: str, thing: Any, name: str) -> None:
        called, label = getattr(thing, name), f"{owner}.{name}".lstrip(".")

        @functools.wraps(called)
        async def timed(*arguments: Any, **options: Any) -> Any:
            begun = time.perf_counter()
            try:
                return await called(*arguments, **options)
            finally:
                took = time.perf_counter() - begun
                self.calls[label].append(took)
                own = _OWN.get()
                if own is not None:
                    own[label] = own.get(label, 0.0) + took

        setattr(thing, name, timed)


@contextmanager
def own_steps() -> Iterator[dict[str, float]]:
    """Seconds of the calls that are made inside, by name."""
    found: dict[str, float] = {}
    token = _OWN.set(found)
    try:
        yield found
    finally:
        _OWN.reset(token)
