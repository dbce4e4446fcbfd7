"""What any process can tell of its own memory: times, caches, notices, records by kind, in Prometheus's text format.

Labels are names from the code. No user, id, text or question stands in them.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from agentmem.core.clock import Stopwatch
from agentmem.core.scope import Operator
from agentmem.engine.engine import NOTICE_VECTORS_PENDING, Engine
from agentmem.errors import AgentMemError
from agentmem.recall.pipeline import NOTICE_TOKENS_PENDING
from agentmem.recall.receipt import Receipt
from agentmem.recall.scoring import NOTICE_NOTHING_RELEVANT

ANSWER_SECONDS = 4.0  # the store is asked for so long
MIN_COUNT_SECONDS = 15.0  # a count of the store serves every scrape for so long
COUNT_SHARE = 0.02  # of the time at most may go into counting: a count that took 3 s serves for 150 s

NOTICE_PARTS = ("embedder", "other", "relevance", "techniques", "tokens", "vectors")
_PARTS_BY_NOTICE = {
    NOTICE_NOTHING_RELEVANT: "relevance",
    NOTICE_TOKENS_PENDING: "tokens",
    NOTICE_VECTORS_PENDING: "vectors",
}
_OPERATOR = Operator("metrics")


@dataclass(frozen=True, slots=True)
class GaugeFamily:
    """A metric with its help text, the name of its label ("" for none), and its value by label value."""

    name: str
    text: str
    label: str
    values: Mapping[str, float]


@dataclass
class _StoreState:
    """What the store last said: whether it answers, and what is in it over all users, which takes longer to find out.

    `sizes` is None where this process may not count over all users, or a count took too long.
    """

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    is_up: bool = False
    sizes: dict[str, Any] | None = None
    since_asked: Stopwatch | None = None
    since_counted: Stopwatch | None = None
    sizes_serve_seconds: float = 0.0


async def render_metrics(engine: Engine) -> str:
    """The metrics of this process about its own memory, as a Prometheus server reads them.

    For a program without HTTP: write the text where a scraper finds it. Pass `memory.engine` of an open memory, from
    the event loop that the memory runs in. It needs no extra package. The store is counted at most once in 15 seconds.
    A store that does not answer within 4 seconds gives `agentmem_up 0`; no error is raised for it.
    """
    return render_gauges(await read_process_metrics(engine))


def render_gauges(families: Iterable[GaugeFamily]) -> str:
    """These metrics in Prometheus's text format; "" for none."""
    lines: list[str] = []
    for family in families:
        lines += [f"# HELP {family.name} {family.text}", f"# TYPE {family.name} gauge"]
        for key, value in family.values.items():
            label = f'{{{family.label}="{_escape_label(key)}"}}' if family.label else ""
            lines.append(f"{family.name}{label} {float(value)}")
    return "".join(f"{line}\n" for line in lines)


async def read_process_metrics(engine: Engine) -> list[GaugeFamily]:
    """What `render_metrics` renders. `agentmem_up` comes first. Sizes are left out where the store gives none."""
    state = await _read_store_state(engine)
    families = [GaugeFamily("agentmem_up", "Whether the stores answered", "", {"": float(state.is_up)})]
    if state.is_up and state.sizes is not None:
        families += [
            GaugeFamily("agentmem_records", "Current records by kind", "kind", state.sizes["records"]),
            GaugeFamily("agentmem_store_bytes", "Size of the log's store", "store", {"log": state.sizes["bytes"]}),
        ]
    timings = {
        f"{name}_{part}": value
        for name, parts in engine.latency_stats.percentiles().items()
        for part, value in parts.items()
    }
    receipts = [receipt for receipt in engine.receipts.values() if isinstance(receipt, Receipt)]
    hits, misses = engine.cache_stats.hits, engine.cache_stats.misses
    return [
        *families,
        GaugeFamily("agentmem_milliseconds", "Latest times of this process", "what", timings),
        GaugeFamily("agentmem_cache_hits", "Looks into a cache of this process that found something", "cache", hits),
        GaugeFamily("agentmem_cache_misses", "Looks into a cache of this process that found nothing", "cache", misses),
        GaugeFamily("agentmem_recall_receipts", "Latest recalls whose receipts are kept", "", {"": len(receipts)}),
        GaugeFamily(
            "agentmem_recall_notices",
            "Those of them with a notice, by the part that it is about",
            "part",
            _count_notices(receipts, engine.notices),
        ),
    ]


async def _read_store_state(engine: Engine) -> _StoreState:
    """What the store said lately, or says now. Callers at the same moment share one question."""
    state = engine.get_shared(_StoreState)
    async with state.lock:
        if _is_over(state.since_asked, MIN_COUNT_SECONDS):
            await _ask_store(engine, state)
            state.since_asked = Stopwatch(engine.clock)
    return state


async def _ask_store(engine: Engine, state: _StoreState) -> None:
    state.is_up = False
    with suppress(AgentMemError, TimeoutError):
        async with asyncio.timeout(ANSWER_SECONDS):
            await engine.log.meta()
            state.is_up = True
            if _is_over(state.since_counted, state.sizes_serve_seconds):
                await _count_store(engine, state)


async def _count_store(engine: Engine, state: _StoreState) -> None:
    """Count what is in the store. However that ends, the next count waits in proportion to what it took."""
    watch = Stopwatch(engine.clock)
    state.sizes = None
    try:
        # ScopeError for an agent's login on Postgres, which reads no other users: the worker's shows all
        state.sizes = await engine.log.stats(_OPERATOR)
    finally:
        state.sizes_serve_seconds = max(MIN_COUNT_SECONDS, watch.milliseconds() / 1000 / COUNT_SHARE)
        state.since_counted = Stopwatch(engine.clock)


def _is_over(since: Stopwatch | None, seconds: float) -> bool:
    return since is None or since.milliseconds() / 1000 >= seconds


def _count_notices(receipts: Sequence[Receipt], store_notices: Sequence[str]) -> dict[str, float]:
    """In how many of the recalls each part gave a notice."""
    of_store = set(store_notices)
    found = Counter(part for receipt in receipts for part in {_name_part(text, of_store) for text in receipt.notices})
    return {part: float(found[part]) for part in NOTICE_PARTS}


def _name_part(notice: str, of_store: set[str]) -> str:
    if notice in of_store:
        return "embedder"
    return _PARTS_BY_NOTICE.get(notice) or ("techniques" if notice.startswith("Recalled without ") else "other")


def _escape_label(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
