"""Runs techniques side by side, each under its deadline, and keeps what each did."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np

from agentmem.errors import (
    AgentMemError,
    Closed,
    ConfigError,
    CorruptStore,
    ModelUnavailable,
    ScopeError,
    StoreUnavailable,
)
from agentmem.model.clock import Clock, Stopwatch
from agentmem.model.outline import Floats
from agentmem.model.ranking import Ranked
from agentmem.providers import LLMRequest
from agentmem.recall.options import Technique
from agentmem.recall.query import Query
from agentmem.recall.receipt import Line
from agentmem.recall.technique import PATIENCE, Hits, M, Memory
from agentmem.redaction import failure_reason

# What no other technique can make up for.
FATAL = (Closed, CorruptStore, ScopeError)


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """What all techniques found together: lists by name, and a line for each technique."""

    lists: dict[str, Ranked]
    trace: tuple[Line, ...]


class Deadline:
    """Until when a recall as a whole may ask techniques and models. `of(own)` is what of a deadline of its own is left.

    It begins when it is made, by the clock of the event loop.
    """

    def __init__(self, seconds: float) -> None:
        self._now = asyncio.get_running_loop().time
        self.seconds, self.end = seconds, self._now() + seconds

    @property
    def over(self) -> bool:
        """Whether the time is up."""
        return self._now() >= self.end

    def of(self, own: float) -> float:
        """The shorter of a deadline and what is left of the whole, in seconds."""
        return max(0.0, min(own, self.end - self._now()))


async def run(
    techniques: Sequence[Technique], query: Query, memory: Memory, clock: Clock, whole: Deadline | None = None
) -> Found:
    """Ask every technique. One that fails or is late costs its line; when all of them fail, the first is raised.

    Each has its own deadline and what is left of the `whole` one; None for neither. Those that may take longest, since
    they wait for a model, begin first.
    """
    longest_first = sorted(techniques, key=lambda technique: -technique.options.deadline)
    runs = await asyncio.gather(*(_one(technique, query, memory, clock, whole) for technique in longest_first))
    done = {technique.name: run for technique, run in zip(longest_first, runs, strict=True)}
    lists: dict[str, Ranked] = {}
    trace, failures = [], []
    for technique in techniques:
        hits, milliseconds, note = done[technique.name]
        if isinstance(hits, Exception):
            failures.append(passable(hits))
            late = isinstance(hits, TimeoutError)
            said = failed(hits, technique.options.deadline, whole)
            trace.append(Line(technique.name, milliseconds, {}, said, late, note))
            continue
        own = {_free(name, technique.name, lists): ranked for name, ranked in hits.items()}
        scored = {name: int(np.count_nonzero(~np.isnan(ranked.values) & memory.mask)) for name, ranked in own.items()}
        trace.append(Line(technique.name, milliseconds, scored, note=note))
        lists |= own
    if failures and len(failures) == len(techniques):
        if isinstance(failures[0], TimeoutError):
            raise StoreUnavailable(f"{techniques[0].name}: {trace[0].error}") from failures[0]
        raise failures[0]
    return Found(lists, tuple(trace))


def notices_of(trace: Sequence[Line]) -> tuple[str, ...]:
    """A notice for each thing that went wrong, naming all whom it befell."""
    befell: dict[str, list[str]] = {}
    for line in trace:
        if line.error:
            befell.setdefault(line.error, []).append(line.technique)
    return tuple(f"Recalled without {', '.join(names)}: {error}" for error, names in befell.items())


def failed(error: BaseException, deadline: float, whole: Deadline | None = None) -> str:
    """What a line says of a failure: our own words, of another error the kind, for its text may quote the question."""
    if isinstance(error, TimeoutError):
        if whole is not None and whole.over:
            return f"no answer within the {whole.seconds:g} s of the recall"
        return f"no answer within {deadline:g} s"
    if isinstance(error, ConfigError):
        return str(error)
    return f"{type(error).__name__}: {error}" if isinstance(error, AgentMemError) else failure_reason(error)


def passable(error: Exception) -> Exception:
    """The error, when recall may go on without the technique; else raises it."""
    if isinstance(error, FATAL):
        raise error
    return error


async def _one(
    technique: Technique, query: Query, memory: Memory, clock: Clock, whole: Deadline | None
) -> tuple[Hits | Exception, float, str]:
    watch, notes = Stopwatch(clock), list[str]()
    hits: Hits | Exception
    try:
        hits = await _search(technique, query, memory, whole, notes.append)
    except Exception as error:  # noqa: BLE001  whoever put them side by side looks at it
        hits = error
    return hits, watch.milliseconds(), "; ".join(notes)


async def _search(
    technique: Technique, query: Query, memory: Memory, whole: Deadline | None, note: Callable[[str], None]
) -> Hits:
    own = technique.options.deadline if whole is not None else None
    async with asyncio.timeout_at(None if whole is None else whole.end), asyncio.timeout(own) as limit:
        bound = _Bound(memory, limit)
        seen = replace(memory, embed=bound.embed, ask=bound.ask, note=note)
        hits: Hits = await technique.module.search(query, seen, technique.options)
        return hits


class _Bound:
    """Models as one technique asks them. Meanwhile its deadline is not enforced, since they keep to a time themselves.

    What an embedder takes does not count; a language model has what is left, and is known as silent after that.
    """

    def __init__(self, memory: Memory, limit: asyncio.Timeout) -> None:
        self._memory, self._limit = memory, limit
        self._now = asyncio.get_running_loop().time
        self._end = limit.when()
        self._under_way, self._counted = 0, 0.0

    async def embed(self, text: str, patience: float = PATIENCE) -> Floats:
        """See `technique.Embed`."""
        began = self._now()
        with self._lifted():
            try:
                return await self._memory.embed(text, patience)
            finally:
                if self._end is not None:  # side by side with others, the same time counts once
                    self._end += self._now() - max(began, self._counted)
                    self._counted = self._now()

    async def ask(self, request: LLMRequest, model: type[M], patience: float | None = None) -> M:
        """See `technique.Ask`. TimeoutError when the deadline is over."""
        if (end := self._end) is None:
            return await self._memory.ask(request, model, patience)
        with self._lifted():
            try:
                return await self._memory.ask(request, model, max(0.0, end - self._now()))
            except ModelUnavailable:
                if self._now() >= end:
                    raise TimeoutError from None
                raise

    @contextmanager
    def _lifted(self) -> Iterator[None]:
        self._under_way += 1
        self._limit.reschedule(None)
        try:
            yield
        finally:
            self._under_way -= 1
            if not self._under_way:
                self._limit.reschedule(self._end)


def _free(name: str, technique: str, taken: dict[str, Ranked]) -> str:
    """Two techniques may use the same name for a list."""
    return f"{technique}.{name}" if name in taken else name
