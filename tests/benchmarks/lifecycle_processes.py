"""The simulated year on several cores: each process lives with its share of the people, and all of it is added up."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ProcessPoolExecutor, wait
from dataclasses import fields, replace
from functools import reduce
from multiprocessing import active_children, get_context
from pathlib import Path
from typing import Any, TypeVar

from agentmem.errors import ConfigError
from tests.benchmarks.lifecycle import (
    JobCost,
    ProgressCallback,
    SimulatedDay,
    SimulationPlan,
    SimulationResult,
    run_simulation,
)
from tests.benchmarks.lifecycle_look import FinalState, LifecycleSnapshot, QuestionTally
from tests.benchmarks.target import MemoryFactory

MAX_SINGLE_PROCESS_USERS = 20  # users who are done so soon that a second process does not pay
MAX_PROCESSES = 60  # Windows cannot wait for more at once
POLL_SECONDS = 0.2  # between two looks at how far they are

Amounts = TypeVar("Amounts", JobCost, QuestionTally, FinalState)

_day_by_process: Any = None  # in a process of its own: on which day each one is


def choose_processes(users: int, requested: int | None = None, *, servers: bool = False) -> int:
    """How many processes: as asked, or one for each core, but one for few users and on servers; no more than users.

    Raises ConfigError when several are asked for on servers, or a number that cannot be.
    """
    if servers and (requested or 1) > 1:
        raise ConfigError("with --servers all people live in one process: leave --processes out, or give 1")
    if requested is not None and not 1 <= requested <= MAX_PROCESSES:
        raise ConfigError(f"--processes takes a number from 1 to {MAX_PROCESSES}, got {requested}")
    if requested is None:
        requested = 1 if servers or users <= MAX_SINGLE_PROCESS_USERS else min(MAX_PROCESSES, os.cpu_count() or 1)
    return min(requested, users)


def run_simulation_in_processes(
    factory: MemoryFactory, plan: SimulationPlan, processes: int = 1, progress: ProgressCallback | None = None
) -> SimulationResult:
    """Let everybody live, in so many processes, each with a new memory of its own below the target's home.

    `progress` is told the day of the slowest. An error in one process, or an interruption, ends all of them.
    """
    if processes == 1:
        return asyncio.run(run_simulation(factory, plan, progress))
    context = get_context("spawn")
    days = context.Array("i", processes, lock=False)
    others = {child.pid for child in active_children()}
    with ProcessPoolExecutor(processes, context, _init_process, (days,)) as pool:
        try:
            parts = [pool.submit(_run_share, factory, plan, process, processes) for process in range(processes)]
            done = False
            while not done:
                done = _all_done(parts)
                if progress is not None:
                    progress(min(days), plan.days)
        except BaseException:
            for child in active_children():
                if child.pid not in others:
                    child.terminate()
            raise
    return merge_results([part.result() for part in parts])


def _all_done(parts: Sequence[Future[SimulationResult]]) -> bool:
    """Whether all are done, after a short wait. Raises what one of them raised."""
    done, left = wait(parts, POLL_SECONDS, FIRST_EXCEPTION)
    for part in done:
        part.result()
    return not left


def _init_process(days: Any) -> None:
    """What a process does first; an interruption is for the one that started it, which ends all."""
    global _day_by_process  # noqa: PLW0603 - shared memory reaches a process only at its start
    _day_by_process = days
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _run_share(factory: MemoryFactory, plan: SimulationPlan, process: int, processes: int) -> SimulationResult:
    """The life of those who are dealt to one process."""

    def progress(day: int, _: int) -> None:
        _day_by_process[process] = day

    own = replace(factory, home=str(Path(factory.home) / str(process)))
    return asyncio.run(run_simulation(own, plan, progress, process=process, processes=processes))


def merge_results(parts: Sequence[SimulationResult]) -> SimulationResult:
    """What all the people of a plan lived, from the lives of its shares; at least one.

    Runs of jobs add up, too: each process has its own. Seconds are those of all processes together.
    """
    return replace(
        parts[0],
        days=[_merge_days(same) for same in zip(*(part.days for part in parts), strict=True)],
        snapshots=[_merge_snapshots(same) for same in zip(*(part.snapshots for part in parts), strict=True)],
        final_state=_sum_fields([part.final_state for part in parts]),
        seconds=sum(part.seconds for part in parts),
        talk_seconds=sum(part.talk_seconds for part in parts),
        job_seconds=sum(part.job_seconds for part in parts),
        processes=sum(part.processes for part in parts),
    )


def _merge_days(days: Sequence[SimulatedDay]) -> SimulatedDay:
    return SimulatedDay(
        days[0].day,
        talked=sum(day.talked for day in days),
        idle=sum(day.idle for day in days),
        jobs={name: _sum_fields([day.jobs[name] for day in days]) for name in days[0].jobs},
        job_counts=_sum_counts([day.job_counts for day in days]),
        failed=_sum_counts([day.failed for day in days]),
        waiting=sum(day.waiting for day in days),
    )


def _merge_snapshots(snapshots: Sequence[LifecycleSnapshot]) -> LifecycleSnapshot:
    return LifecycleSnapshot(
        snapshots[0].day,
        records=_sum_counts([look.records for look in snapshots]),
        facts=_sum_counts([look.facts for look in snapshots]),
        answers=_sum_fields([look.answers for look in snapshots]),
        job_counts=_sum_counts([look.job_counts for look in snapshots]),
    )


def _sum_counts(counts: Sequence[Counter[str]]) -> Counter[str]:
    return sum(counts, Counter[str]())


def _sum_fields(amounts: Sequence[Amounts]) -> Amounts:
    """Field by field; questions within the end are amounts themselves, lists come one after the other."""

    def both(first: Any, second: Any) -> Any:
        if not isinstance(first, QuestionTally | JobCost | FinalState):
            return first + second
        return type(first)(*(both(getattr(first, each.name), getattr(second, each.name)) for each in fields(first)))

    return reduce(both, amounts)
