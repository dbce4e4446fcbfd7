"""The open loop from several processes, which deal the users between them: each one is always asked in the same."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Mapping
from concurrent.futures import FIRST_EXCEPTION, ProcessPoolExecutor, wait
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any

from agentmem import AsyncAgentMemory
from tests.benchmarks.latency import measure_resident_mb
from tests.benchmarks.servers.steps import Steps
from tests.benchmarks.servers.town import UserPopulation
from tests.benchmarks.servers.traffic import Sample, Traffic
from tests.fakes.as_a_model import AsyncOnlyEmbedder

WARMING, STARTED, ZIPF, ALIKE = "warming", "users alike, most of them new", "users by Zipf", "users alike"
FOLLOWING = "users alike, vectors follow"  # as those of a model do, which are not committed with the log
# Who comes: in a process that has just started; then some often; then all as often.
MIXES = (STARTED, ZIPF, ALIKE, FOLLOWING)
TIMEOUT_SECONDS = 300.0  # seconds that one process waits for the others before each part

_gate: Any = None  # where processes wait for each other


@dataclass(frozen=True)
class Rates:
    """How much is asked of all processes together: seconds before and of each mix, recalls and writes a second."""

    warming: float
    seconds: float
    recalls: float
    writes: float
    seed: int
    processes: int


@dataclass(frozen=True)
class MixResult:
    """What came of one mix: operations, seconds of the stores' calls by name, and seconds of CPU of the clients."""

    samples: list[Sample]
    steps: dict[str, list[float]]
    cpu: float


def ask(rates: Rates, town: UserPopulation, settings: Mapping[str, Any]) -> tuple[dict[str, MixResult], list[float]]:
    """What all processes heard, by mix, and how many MB each of them had in the end."""
    context = get_context("spawn")
    gate = context.Barrier(rates.processes)
    with ProcessPoolExecutor(rates.processes, context, _init_process, (gate,)) as pool:
        parts = [pool.submit(_run_share, rates, town, dict(settings), number) for number in range(rates.processes)]
        done, _ = wait(parts, return_when=FIRST_EXCEPTION)
        if any(part.exception() for part in done):
            gate.abort()
        found = [part.result() for part in parts]
    return {mix: _merge([heard[mix] for heard, _ in found]) for mix in MIXES}, [megabytes for _, megabytes in found]


def _merge(parts: list[MixResult]) -> MixResult:
    steps = {
        name: [took for part in parts for took in part.steps.get(name, ())] for part in parts for name in part.steps
    }
    return MixResult([sample for part in parts for sample in part.samples], steps, sum(part.cpu for part in parts))


def _init_process(gate: Any) -> None:
    global _gate  # noqa: PLW0603 - a barrier reaches a process only at its start
    _gate = gate


def _run_share(
    rates: Rates, town: UserPopulation, settings: dict[str, Any], number: int
) -> tuple[dict[str, MixResult], float]:
    return asyncio.run(_ask(rates, town, settings, number))


async def _ask(
    rates: Rates, town: UserPopulation, settings: dict[str, Any], number: int
) -> tuple[dict[str, MixResult], float]:
    """One process, which knows nobody yet. All make the same plan of what is due, and each does what is its own."""
    found = {}
    async with AsyncAgentMemory(town.somebody, **settings) as memory:
        traffic = Traffic(memory, town, rates.seed, users=frozenset(share_users(town, number, rates.processes)))
        steps = Steps(memory)
        await traffic.view(town.somebody).flush()
        gc.collect()
        gc.freeze()  # as docs/operations.md tells programs that answer many users
        for mix in (WARMING, *MIXES):
            if mix == ALIKE:
                await traffic.warm_up()
            if mix == FOLLOWING:
                served = memory.engine.vector_projections[0]
                served.embedder = AsyncOnlyEmbedder(served.embedder)
            await asyncio.to_thread(_gate.wait, TIMEOUT_SECONDS)
            steps.clear()
            cpu = time.process_time()
            seconds = rates.warming if mix == WARMING else rates.seconds
            samples = await traffic.open_loop(seconds, (rates.recalls, rates.writes), zipf=mix in (WARMING, ZIPF))
            found[mix] = MixResult(samples, dict(steps.calls), time.process_time() - cpu)
        return found, measure_resident_mb()


def share_users(town: UserPopulation, number: int, processes: int) -> list[str]:
    """The users of one process: of those who come often, each has its part; the large one is the last one's."""
    own = town.small_users[number::processes]
    return [*own, town.large] if number == processes - 1 else own
