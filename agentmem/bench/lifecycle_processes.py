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

from agentmem.bench.lifecycle import Cost, Day, Lived, Plan, Progress, live
from agentmem.bench.lifecycle_look import Asked, End, Look
from agentmem.bench.target import Target
from agentmem.errors import ConfigError

FEW = 20  # users who are done so soon that a second process does not pay
MOST = 60  # Windows cannot wait for more at once
SECONDS = 0.2  # between two looks at how far they are

Amounts = TypeVar("Amounts", Cost, Asked, End)

_days: Any = None  # in a process of its own: on which day each one is


def number_of(users: int, asked: int | None = None, *, servers: bool = False) -> int:
    """How many processes: as asked, or one for each core, but one for few users and on servers; no more than users.

    Raises ConfigError when several are asked for on servers, or a number that cannot be.
    """
    if servers and (asked or 1) > 1:
        raise ConfigError("with --servers all people live in one process: leave --processes out, or give 1")
    if asked is not None and not 1 <= asked <= MOST:
        raise ConfigError(f"--processes takes a number from 1 to {MOST}, got {asked}")
    if asked is None:
        asked = 1 if servers or users <= FEW else min(MOST, os.cpu_count() or 1)
    return min(asked, users)


def live_all(target: Target, plan: Plan, processes: int = 1, progress: Progress | None = None) -> Lived:
    """Let everybody live, in so many processes, each with a new memory of its own below the target's home.

    `progress` is told the day of the slowest. An error in one process, or an interruption, ends all of them.
    """
    if processes == 1:
        return asyncio.run(live(target, plan, progress))
    context = get_context("spawn")
    days = context.Array("i", processes, lock=False)
    others = {child.pid for child in active_children()}
    with ProcessPoolExecutor(processes, context, _begin, (days,)) as pool:
        try:
            parts = [pool.submit(_share, target, plan, process, processes) for process in range(processes)]
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
    return joined([part.result() for part in parts])


def _all_done(parts: Sequence[Future[Lived]]) -> bool:
    """Whether all are done, after a short wait. Raises what one of them raised."""
    done, left = wait(parts, SECONDS, FIRST_EXCEPTION)
    for part in done:
        part.result()
    return not left


def _begin(days: Any) -> None:
    """What a process does first; an interruption is for the one that started it, which ends all."""
    global _days  # noqa: PLW0603 - shared memory reaches a process only at its start
    _days = days
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _share(target: Target, plan: Plan, process: int, processes: int) -> Lived:
    """The life of those who are dealt to one process."""

    def progress(day: int, _: int) -> None:
        _days[process] = day

    own = replace(target, home=str(Path(target.home) / str(process)))
    return asyncio.run(live(own, plan, progress, process=process, processes=processes))


def joined(parts: Sequence[Lived]) -> Lived:
    """What all the people of a plan lived, from the lives of its shares; at least one.

    Runs of jobs add up, too: each process has its own. Seconds are those of all processes together.
    """
    return replace(
        parts[0],
        days=[_day(same) for same in zip(*(part.days for part in parts), strict=True)],
        looks=[_look(same) for same in zip(*(part.looks for part in parts), strict=True)],
        end=_added([part.end for part in parts]),
        seconds=sum(part.seconds for part in parts),
        talk_seconds=sum(part.talk_seconds for part in parts),
        job_seconds=sum(part.job_seconds for part in parts),
        processes=sum(part.processes for part in parts),
    )


def _day(same: Sequence[Day]) -> Day:
    return Day(
        same[0].day,
        talked=sum(day.talked for day in same),
        idle=sum(day.idle for day in same),
        jobs={name: _added([day.jobs[name] for day in same]) for name in same[0].jobs},
        did=_counted([day.did for day in same]),
        failed=_counted([day.failed for day in same]),
        waiting=sum(day.waiting for day in same),
    )


def _look(same: Sequence[Look]) -> Look:
    return Look(
        same[0].day,
        records=_counted([look.records for look in same]),
        facts=_counted([look.facts for look in same]),
        asked=_added([look.asked for look in same]),
        did=_counted([look.did for look in same]),
    )


def _counted(counts: Sequence[Counter[str]]) -> Counter[str]:
    return sum(counts, Counter[str]())


def _added(amounts: Sequence[Amounts]) -> Amounts:
    """Field by field; questions within the end are amounts themselves, lists come one after the other."""

    def both(first: Any, second: Any) -> Any:
        if not isinstance(first, Asked | Cost | End):
            return first + second
        return type(first)(*(both(getattr(first, each.name), getattr(second, each.name)) for each in fields(first)))

    return reduce(both, amounts)
