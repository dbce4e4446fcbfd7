"""Runs techniques side by side, each under its deadline, and keeps what each did."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np

from agentmem.errors import Closed, CorruptStore, ScopeError
from agentmem.model.clock import Clock, Stopwatch
from agentmem.model.outline import Floats
from agentmem.model.ranking import Ranked
from agentmem.recall.options import Technique
from agentmem.recall.query import Query
from agentmem.recall.receipt import Line
from agentmem.recall.technique import PATIENCE, Hits, Memory

# What no other technique can make up for.
FATAL = (Closed, CorruptStore, ScopeError)


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """What all techniques found together: lists by name, a line for each technique, and a notice for each failure."""

    lists: dict[str, Ranked]
    trace: tuple[Line, ...]
    notices: tuple[str, ...]


async def run(
    techniques: Sequence[Technique], query: Query, memory: Memory, clock: Clock, *, deadlines: bool = True
) -> Found:
    """Ask every technique. One that fails or is late costs a line and a notice; when all fail, the first is raised."""
    runs = await asyncio.gather(*(_one(technique, query, memory, clock, deadlines) for technique in techniques))
    lists: dict[str, Ranked] = {}
    trace, failures = [], []
    for technique, (hits, milliseconds) in zip(techniques, runs, strict=True):
        if isinstance(hits, BaseException):
            if isinstance(hits, FATAL) or not isinstance(hits, Exception):
                raise hits
            failures.append((technique.name, hits))
            trace.append(Line(technique.name, milliseconds, {}, _said(hits, technique)))
            continue
        lists |= {_free(name, technique.name, lists): ranked for name, ranked in hits.items()}
        scored = {name: int(np.count_nonzero(~np.isnan(ranked.values) & memory.mask)) for name, ranked in hits.items()}
        trace.append(Line(technique.name, milliseconds, scored))
    if failures and len(failures) == len(techniques):
        raise failures[0][1]
    notices = tuple(f"Recalled without {line.technique}: {line.error}" for line in trace if line.error)
    return Found(lists, tuple(trace), notices)


async def _one(
    technique: Technique, query: Query, memory: Memory, clock: Clock, deadlines: bool
) -> tuple[Hits | BaseException, float]:
    watch = Stopwatch(clock)
    deadline = technique.options.deadline if deadlines else None
    search = _search(technique, query, memory, deadline)
    hits: Hits | BaseException = (await asyncio.gather(search, return_exceptions=True))[0]
    return hits, watch.milliseconds()


async def _search(technique: Technique, query: Query, memory: Memory, deadline: float | None) -> Hits:
    async with asyncio.timeout(deadline) as limit:

        async def embed(text: str, patience: float = PATIENCE) -> Floats:
            with _stopped(limit):
                return await memory.embed(text, patience)

        hits: Hits = await technique.module.search(query, replace(memory, embed=embed), technique.options)
        return hits


@contextmanager
def _stopped(limit: asyncio.Timeout) -> Iterator[None]:
    """The deadline stands still meanwhile."""
    now = asyncio.get_running_loop().time
    end, began = limit.when(), now()
    limit.reschedule(None)
    try:
        yield
    finally:
        limit.reschedule(None if end is None else end + now() - began)


def _said(error: Exception, technique: Technique) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer within {technique.options.deadline:g} s"
    return f"{type(error).__name__}: {error}"


def _free(name: str, technique: str, taken: dict[str, Ranked]) -> str:
    """Two techniques may use the same name for a list."""
    return f"{technique}.{name}" if name in taken else name
