"""The measurement from the empty stores to the document: load them, look at one user, let all ask."""

from __future__ import annotations

import asyncio
import gc
import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from agentmem import AsyncAgentMemory
from tests.benchmarks.latency import measure_resident_mb
from tests.benchmarks.servers.checks import exactness, first_recalls, graph_speed, growth
from tests.benchmarks.servers.load import OnStep, UserLoader
from tests.benchmarks.servers.shares import ALIKE, FOLLOWING, ZIPF, MixResult, Rates, ask
from tests.benchmarks.servers.town import UserPopulation, plan_population
from tests.benchmarks.servers.traffic import RECALL, STORE, Sample, Traffic

Row = dict[str, Any]
TARGETS = (
    ("remember, users up to 5k passages, p95 ms", 60.0),
    ("remember, the large user, p95 ms", 120.0),
    ("store_turn, p95 ms", 20.0),
    ("store_turn, vectors that follow, p95 ms", 20.0),
    ("vector recall", 0.99),
    ("p95 from a tenth to all users, ratio", 1.3),
    ("projector, changes/s", 200.0),
    ("graph rebuild, records/s", 400.0),
)


@dataclass(frozen=True)
class ServerBenchmarkPlan:
    """How much is loaded, and how it is asked: `seconds` of each mix at these rates, and of each number of clients.

    `processes` share the users of the mixes.
    """

    users: int = 1000
    passages: int = 1_000_000
    large: int = 100_000
    seconds: float = 60
    warming: float = 20  # seconds of the same before that, because a server that has just started is slow
    recalls: float = 20
    writes: float = 5
    processes: int = 4
    embedder: str = "hash"
    clients: tuple[int, ...] = (1, 8, 32)
    queries: int = 50
    rounds: int = 7
    questions: int = 100  # to one user, in each round
    projected: int = 5000
    cache_mb: int = 1024  # of each process; the vectors of all users take as much
    seed: int = 0
    mark: str = ""


SMALL = ServerBenchmarkPlan(
    users=20, passages=5000, large=1000, seconds=3, warming=1, queries=20, rounds=2, questions=30, projected=300
)


@dataclass(frozen=True)
class BenchmarkStores:
    """Stores by their URLs, for a client, and the log's as its owner, who may write all users' rows."""

    urls: Mapping[str, Any]
    owner_url: str


async def measure(
    plan_: ServerBenchmarkPlan, few: BenchmarkStores, many: BenchmarkStores, home: Path, say: OnStep
) -> dict[str, Any]:
    """Load a tenth of the users into one place and all into the other, and measure."""
    town = plan_population(plan_.users, plan_.passages, plan_.large, plan_.mark)
    small = plan_population(plan_.users, plan_.passages, plan_.large, f"{plan_.mark} few")
    settings, settings_of_few = (
        {"home": home, "embedder": plan_.embedder, "recall_rate": 0.0, "vector_cache_mb": plan_.cache_mb, **place.urls}
        for place in (many, few)
    )
    document: dict[str, Any] = {"plan": asdict(plan_), "machine": machine()}
    async with AsyncAgentMemory(small.somebody, **settings_of_few) as memory:
        say("loading a tenth of the users")
        await load_first(UserLoader(memory, few.owner_url, say), small)
    async with AsyncAgentMemory(town.somebody, **settings) as memory:
        say("loading all users")
        loader = UserLoader(memory, many.owner_url, say)
        document["load"] = await load_first(loader, town) | await load_rest(loader, town)
    async with AsyncAgentMemory(town.somebody, **settings) as memory:  # a process that knows nobody yet
        loader, traffic = UserLoader(memory, many.owner_url, say), Traffic(memory, town, plan_.seed)
        async with AsyncAgentMemory(small.somebody, **settings_of_few) as among_few:
            gc.collect()
            gc.freeze()  # as docs/operations.md tells programs that answer many users
            say("asking")
            alone = Traffic(among_few, small, plan_.seed)
            document["growth"] = await growth(alone, traffic, plan_.rounds, plan_.questions)
        say(f"one user: {document['growth']}")
        document["first"] = await first_recalls(traffic)
        document["clients"] = await waiting_clients(traffic, plan_)
        document["resident_mb"] = measure_resident_mb()
        document["vector_recall"] = await exactness(loader, town, plan_.queries)
        document["graph"] = await graph_speed(loader, f"projected{plan_.mark}", plan_.projected)
    rates = Rates(plan_.warming, plan_.seconds, plan_.recalls, plan_.writes, plan_.seed, plan_.processes)
    say(f"asking at random times, from {plan_.processes} processes")
    heard, document["open_resident_mb"] = await asyncio.to_thread(ask, rates, town, settings)
    document |= open_rows(heard, plan_, say)
    document["asked"] = compare_with_targets(document)
    return document


async def load_first(loader: UserLoader, town: UserPopulation) -> Row:
    """One user of each size, and some of the others."""
    begun = time.perf_counter()
    turns = sum(town.sizes)
    stored = sum([await loader.store(names[0], size, seed=size) for size, names in town.sizes.items()])
    loader.copy(town.first())
    await loader.mark_graph_current([name for pair in town.first() for name in (pair[0], *pair[1])])
    return {"first_s": time.perf_counter() - begun, "stored_turns_per_s": turns / stored}


async def load_rest(loader: UserLoader, town: UserPopulation) -> Row:
    """All others, and the large one."""
    begun = time.perf_counter()
    await loader.store(town.large, town.large_turns, seed=town.large_turns)
    loader.copy(town.later_users())
    await loader.mark_graph_current([town.large, *(name for pair in town.later_users() for name in pair[1])])
    return {
        "rest_s": time.perf_counter() - begun,
        "users": len(town.turns),
        "passages": loader.passages(),
        "sizes": {size: len(names) for size, names in town.sizes.items()},
        "database_mb": loader.megabytes(),
    }


def open_rows(heard: Mapping[str, MixResult], plan_: ServerBenchmarkPlan, say: OnStep) -> dict[str, list[Row]]:
    """Rows of the open loop: latency of operations, of techniques and of the stores' calls."""
    latency: list[Row] = []
    techniques: list[Row] = []
    steps: list[Row] = []
    for mix, one in heard.items():
        latency += [{"mix": mix, **row} for row in latency_rows(one.samples)]
        techniques += [{"mix": mix, **row} for row in technique_rows(one.samples)]
        steps += [{"mix": mix, "step": name, **percentiles(calls)} for name, calls in sorted(one.steps.items())]
        say(f"{mix}: {len(one.samples)} operations, {one.cpu / plan_.seconds:.0%} of a core in all clients")
    return {"latency": latency, "techniques": techniques, "steps": steps}


async def waiting_clients(traffic: Traffic, plan_: ServerBenchmarkPlan) -> list[Row]:
    """Rows of the closed loop, in this process."""
    pool = traffic.town.small_users[:: max(1, len(traffic.town.small_users) // 100)]
    return [await closed_row(traffic, clients, plan_.seconds / 4, pool) for clients in (0, *plan_.clients)][1:]


async def closed_row(traffic: Traffic, clients: int, seconds: float, pool: Sequence[str]) -> Row:
    """One number of clients; none asks each user once, so that all are warm."""
    if not clients:
        for user in pool:
            await traffic.recall(user, time.perf_counter())
        return {}
    cpu = time.process_time()
    samples, took = await traffic.closed_loop(clients, seconds, pool)
    cpu = time.process_time() - cpu
    times = percentiles([sample.seconds - sample.embedding for sample in samples])
    return {"clients": clients, "recalls_per_s": len(samples) / took, **times, "cpu_ms": 1000 * cpu / len(samples)}


def latency_rows(samples: Sequence[Sample]) -> list[Row]:
    """Recalls and writes by who was asked and whether this process knew the user."""
    groups: dict[str, Callable[[Sample], bool]] = {
        "remember, small, warm": lambda s: s.operation == RECALL and not s.large and s.warm,
        "remember, small, cold": lambda s: s.operation == RECALL and not s.large and not s.warm,
        "remember, small, all": lambda s: s.operation == RECALL and not s.large,
        "remember, large, warm": lambda s: s.operation == RECALL and s.large and s.warm,
        "remember, large, cold": lambda s: s.operation == RECALL and s.large and not s.warm,
        "store_turn": lambda s: s.operation == STORE,
    }
    rows = []
    for name, belongs in groups.items():
        chosen = [sample for sample in samples if belongs(sample)]
        with_it = percentiles([sample.seconds for sample in chosen])
        own = percentiles([sample.seconds - sample.embedding for sample in chosen])
        late = sum(bool(sample.notices) for sample in chosen)
        failed = sum(sample.failed for sample in chosen)
        more = {"with embedding p95": with_it.get("p95_ms"), "with notices": late, "failed": failed}
        rows.append({"operation": name, **own, **more})
    return rows


def technique_rows(samples: Sequence[Sample]) -> list[Row]:
    """Milliseconds of each technique in warm recalls, by the receipts."""
    rows = []
    for large in (False, True):
        chosen = [s for s in samples if s.operation == RECALL and s.warm and s.large == large]
        names = sorted({name for sample in chosen for name in sample.techniques})
        whose = "large" if large else "small"
        rows += [
            {
                "user": whose,
                "technique": name,
                **percentiles([s.techniques[name] / 1000 for s in chosen if name in s.techniques]),
            }
            for name in names
        ]
    return rows


def percentiles(seconds: Sequence[float]) -> Row:
    """`n`, `p50_ms`, `p95_ms`, `p99_ms`; without any, only `n`."""
    if not len(seconds):
        return {"n": 0}
    values = np.percentile(np.asarray(seconds) * 1000, (50, 95, 99))
    return {"n": len(seconds), **dict(zip(("p50_ms", "p95_ms", "p99_ms"), map(float, values), strict=True))}


def compare_with_targets(document: Mapping[str, Any]) -> list[Row]:
    """What was asked for, and what was measured: the worse of the mixes, but for that of the process's first minute."""

    def worst(name: str, mixes: Sequence[str] = (ZIPF, ALIKE)) -> float:
        rows = [row for row in document["latency"] if row["operation"] == name and row["mix"] in mixes]
        return max(row.get("p95_ms", float("nan")) for row in rows)

    measured = (
        worst("remember, small, warm"),
        worst("remember, large, warm"),
        worst("store_turn"),
        worst("store_turn", [FOLLOWING]),
        document["vector_recall"]["recall"],
        document["growth"]["ratio"],
        document["graph"]["changes_per_s"],
        document["graph"]["records_per_s"],
    )
    at_most = (True, True, True, True, False, True, False, False)
    return [
        {"asked": name, "bound": bound, "measured": value, "met": value <= bound if less else value >= bound}
        for (name, bound), value, less in zip(TARGETS, measured, at_most, strict=True)
    ]


def machine() -> Row:
    """What it ran on."""
    return {"cores": os.cpu_count(), "load": os.getloadavg()[0], "python": platform.python_version()}
