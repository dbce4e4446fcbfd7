"""Techniques side by side, each with a deadline, and how they fared."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import numpy as np

from agentmem.core.clock import Clock, Stopwatch
from agentmem.core.columns import Floats
from agentmem.core.ranking import ScoreList
from agentmem.core.redaction import failure_reason
from agentmem.errors import (
    AgentMemError,
    Closed,
    ConfigError,
    CorruptStore,
    ModelUnavailable,
    ScopeError,
    StoreUnavailable,
)
from agentmem.models.protocols import LLMRequest
from agentmem.recall.options import Technique
from agentmem.recall.receipt import TraceLine
from agentmem.recall.request import RecallQuery
from agentmem.recall.technique import EMBED_TIMEOUT_SECONDS, M, ScoreLists, SearchContext

MAX_SAMPLES = 1_000

# What no other technique can make up for.
FATAL_ERRORS = (Closed, CorruptStore, ScopeError)


@dataclass
class TechniqueMetrics:
    """One technique's. `timeouts` are among the `failures`; `results` counts records scored, over all lists.

    `contributions` counts delivered items that one of its lists would have delivered by itself, or lifted by a bonus.
    """

    calls: int = 0
    failures: int = 0
    timeouts: int = 0
    results: int = 0
    contributions: int = 0
    samples: deque[float] = field(default_factory=lambda: deque(maxlen=MAX_SAMPLES), repr=False)

    def percentile_ms(self, percent: float) -> float:
        """A percentile of the latest 1,000 times, as in `percentile_ms(95)`; 0 before the first."""
        return float(np.percentile(self.samples, percent)) if self.samples else 0.0

    def as_dict(self) -> dict[str, float]:
        """The figures as plain values, with the median and the 95th percentile of the time."""
        return {
            "calls": self.calls,
            "failures": self.failures,
            "timeouts": self.timeouts,
            "results": self.results,
            "contributions": self.contributions,
            "p50_ms": round(self.percentile_ms(50), 3),
            "p95_ms": round(self.percentile_ms(95), 3),
        }


@dataclass
class RecallMetrics:
    """All techniques' by name, and the reranker's; of all users together, without any text."""

    techniques: dict[str, TechniqueMetrics] = field(default_factory=dict)
    recalls: int = 0
    irrelevant: int = 0

    def add_recall(self, trace: Iterable[TraceLine], *, relevant: bool | None = None) -> None:
        """Add one recall; `relevant` tells whether anything was found that the question is about."""
        self.recalls += 1
        self.irrelevant += relevant is False
        for line in trace:
            if (one := self.techniques.get(line.technique)) is None:
                one = self.techniques[line.technique] = TechniqueMetrics()
            one.calls += 1
            one.failures += bool(line.error)
            one.timeouts += line.late
            one.results += sum(line.lists.values())
            one.contributions += line.contributed
            one.samples.append(line.milliseconds)

    def as_dict(self) -> dict[str, object]:
        """All of it as plain values, ready for JSON."""
        techniques = {name: self.techniques[name].as_dict() for name in sorted(self.techniques)}
        return {"recalls": self.recalls, "irrelevant": self.irrelevant, "techniques": techniques}


@dataclass(frozen=True, slots=True, eq=False)
class ExecutionResult:
    """What all techniques found together: lists by name, and a line for each technique."""

    lists: dict[str, ScoreList]
    trace: tuple[TraceLine, ...]


class Deadline:
    """Until when a recall as a whole may ask techniques and models. `cap(own)` is what of a deadline of its own is
    left.

    It begins when it is made, by the clock of the event loop.
    """

    def __init__(self, seconds: float) -> None:
        self._now = asyncio.get_running_loop().time
        self.seconds, self.end_time = seconds, self._now() + seconds

    @property
    def is_over(self) -> bool:
        """Whether the time is up."""
        return self._now() >= self.end_time

    def cap(self, seconds: float) -> float:
        """The shorter of a deadline and what is left of the whole, in seconds."""
        return max(0.0, min(seconds, self.end_time - self._now()))


async def run_techniques(
    techniques: Sequence[Technique],
    query: RecallQuery,
    context: SearchContext,
    clock: Clock,
    recall_deadline: Deadline | None = None,
) -> ExecutionResult:
    """Ask every technique. One that fails or is late costs its line; when all of them fail, the first is raised.

    Each has its own deadline and what is left of the `recall_deadline` one; None for neither. Those that may take
    longest, since they wait for a model, begin first.
    """
    longest_first = sorted(techniques, key=lambda technique: -technique.options.deadline)
    runs = [_run_one(technique, query, context, clock, recall_deadline) for technique in longest_first]
    names = [technique.name for technique in longest_first]
    done = dict(zip(names, await asyncio.gather(*runs), strict=True))
    lists: dict[str, ScoreList] = {}
    trace, failures = [], []
    for technique in techniques:
        hits, milliseconds, note = done[technique.name]
        if isinstance(hits, Exception):
            failures.append(reraise_fatal(hits))
            late = isinstance(hits, TimeoutError)
            said = describe_failure(hits, technique.options.deadline, recall_deadline)
            trace.append(TraceLine(technique.name, milliseconds, {}, said, late, note))
            continue
        scored = {}
        for given, ranked in hits.items():
            name = f"{technique.name}.{given}" if given in lists else given  # two may use the same name for a list
            scored[name] = int(np.count_nonzero(~np.isnan(ranked.values) & context.mask))
            lists[name] = ranked
        trace.append(TraceLine(technique.name, milliseconds, scored, note=note))
    if failures and len(failures) == len(techniques):
        if isinstance(failures[0], TimeoutError):
            raise StoreUnavailable(f"{techniques[0].name}: {trace[0].error}") from failures[0]
        raise failures[0]
    return ExecutionResult(lists, tuple(trace))


def build_notices(trace: Sequence[TraceLine]) -> tuple[str, ...]:
    """A notice for each thing that went wrong, naming all whom it befell."""
    befell: dict[str, list[str]] = {}
    for line in trace:
        if line.error:
            befell.setdefault(line.error, []).append(line.technique)
    return tuple(f"Recalled without {', '.join(names)}: {error}" for error, names in befell.items())


def describe_failure(error: BaseException, deadline: float, recall_deadline: Deadline | None = None) -> str:
    """What a line says of a failure: our own words, of another error the kind, for its text may quote the question."""
    if isinstance(error, TimeoutError):
        if recall_deadline is not None and recall_deadline.is_over:
            return f"no answer within the {recall_deadline.seconds:g} s of the recall"
        return f"no answer within {deadline:g} s"
    if isinstance(error, ConfigError):
        return str(error)
    return f"{type(error).__name__}: {error}" if isinstance(error, AgentMemError) else failure_reason(error)


def reraise_fatal(error: Exception) -> Exception:
    """The error, when recall may go on without the technique; else raises it."""
    if isinstance(error, FATAL_ERRORS):
        raise error
    return error


async def _run_one(
    technique: Technique, query: RecallQuery, context: SearchContext, clock: Clock, recall_deadline: Deadline | None
) -> tuple[ScoreLists | Exception, float, str]:
    watch, notes = Stopwatch(clock), list[str]()
    hits: ScoreLists | Exception
    own = technique.options.deadline if recall_deadline is not None else None
    try:
        async with (
            asyncio.timeout_at(None if recall_deadline is None else recall_deadline.end_time),
            asyncio.timeout(own) as limit,
        ):
            bound = _DeadlineGuard(context, limit)
            seen = replace(context, embed=bound.embed, ask=bound.ask, add_trace_note=notes.append)
            hits = await technique.module.search(query, seen, technique.options)
    except Exception as error:  # noqa: BLE001  whoever put them side by side looks at it
        hits = error
    return hits, watch.milliseconds(), "; ".join(notes)


class _DeadlineGuard:
    """Models as one technique asks them. Meanwhile its deadline is not enforced, since they keep to a time themselves.

    What an embedder takes does not count; a language model has what is left, and is known as silent after that.
    """

    def __init__(self, context: SearchContext, timeout: asyncio.Timeout) -> None:
        self._context, self._timeout = context, timeout
        self._now = asyncio.get_running_loop().time
        self._end = timeout.when()
        self._active_calls, self._counted_until = 0, 0.0

    async def embed(self, text: str, timeout: float = EMBED_TIMEOUT_SECONDS) -> Floats:
        """See `technique.EmbedText`."""
        began = self._now()
        with self._suspend_timeout():
            try:
                return await self._context.embed(text, timeout)
            finally:
                if self._end is not None:  # side by side with others, the same time counts once
                    self._end += self._now() - max(began, self._counted_until)
                    self._counted_until = self._now()

    async def ask(self, request: LLMRequest, reply_type: type[M], timeout: float | None = None) -> M:
        """See `technique.AskLLM`. TimeoutError when the deadline is over."""
        if (end := self._end) is None:
            return await self._context.ask(request, reply_type, timeout)
        with self._suspend_timeout():
            try:
                return await self._context.ask(request, reply_type, max(0.0, end - self._now()))
            except ModelUnavailable:
                if self._now() >= end:
                    raise TimeoutError from None
                raise

    @contextmanager
    def _suspend_timeout(self) -> Iterator[None]:
        self._active_calls += 1
        self._timeout.reschedule(None)
        try:
            yield
        finally:
            self._active_calls -= 1
            if not self._active_calls:
                self._timeout.reschedule(self._end)
