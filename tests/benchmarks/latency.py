"""Time and size of a memory on made-up turns: writing, importing, recalling, resident memory, start-up.

Every size is filled in one child process and read in another, so that the resident memory is that of a reader alone.
"""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from importlib.metadata import entry_points
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from agentmem.core.input_fields import TurnInput
from agentmem.errors import ConfigError
from tests.benchmarks.metrics import percentiles
from tests.benchmarks.recall import BATCH_SIZE
from tests.benchmarks.synthetic import SyntheticConversations
from tests.benchmarks.target import BenchmarkMemory, MemoryFactory, Opener

Row = dict[str, Any]
T = TypeVar("T")
_TOP_K = 10
_MEGABYTE = 1024 * 1024
_STATM = Path("/proc/self/statm")


@dataclass(frozen=True)
class Workload:
    """How much is stored and asked: `users` with `turns` each, then single writes and questions on top.

    Questions are spread over at most 100 of the users.
    """

    users: int = 1
    turns: int = 1000
    writes: int = 100
    questions: int = 100
    seed: int = 0

    def to_columns(self) -> dict[str, int]:
        """The columns that name this load."""
        return {"users": self.users, "turns": self.turns}


def measure(
    factory: MemoryFactory, workloads: Sequence[Workload], *, progress: Callable[[str], None] | None = None
) -> list[Row]:
    """Rows for every load, each under a folder of its own below the target's home.

    A row has `scenario`, `embedder`, `users`, `turns` (of each user) and its figures: milliseconds, turns a second,
    or megabytes.
    """
    rows: list[Row] = []
    for load in workloads:
        if progress is not None:
            progress(f"{load.users:,} x {load.turns:,} turns, {factory.embedder}")
        home = str(Path(factory.home) / f"{load.users}x{load.turns}")
        own = replace(factory, home=home, user_suffix="")
        found = [
            *run_in_child(_fill, own, load),
            *run_in_child(_ask, own, load),
            {"scenario": "disk", "file_mb": _measure_disk_mb(home)},
        ]
        rows += [{"embedder": factory.embedder, **load.to_columns(), **row} for row in found]
    return rows


def run_in_child(function: Callable[..., T], *arguments: Any) -> T:
    """What a function returns that is run in a fresh process."""
    with ProcessPoolExecutor(max_workers=1, mp_context=get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def _fill(factory: MemoryFactory, load: Workload) -> list[Row]:
    return asyncio.run(fill(factory, load))


def _ask(factory: MemoryFactory, load: Workload) -> list[Row]:
    return asyncio.run(ask(factory, load))


async def fill(open_memory: Opener, load: Workload) -> list[Row]:
    """Store the turns of every user in batches, then single turns for the first one."""
    made = SyntheticConversations(load.seed)
    async with open_memory(_user_id(0), {}) as memory:
        await _warm_up(memory)
        wall, cpu = time.perf_counter(), time.process_time()
        for n in range(load.users):
            await _store_all(memory.scoped(user_id=_user_id(n)), made.generate_turns(load.turns))
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        singles = [await _time_call(memory.store_turn, turn) for turn in made.generate_turns(load.writes, "single")]
    stored = load.users * load.turns
    speed = {"seconds": wall, "turns_per_s": stored / wall, "turns_per_core_s": stored / max(cpu, 1e-9)}
    return [{"scenario": "store_turns", **speed}, {"scenario": "store_turn", **percentiles(singles)}]


async def ask(open_memory: Opener, load: Workload) -> list[Row]:
    """Ask questions of the users in turn; the first one of each user, which loads what is cached, is counted apart."""
    users = min(load.users, 100)
    questions = SyntheticConversations(load.seed + 1).generate_questions(max(load.questions, 2 * users))
    first: list[float] = []
    later: list[float] = []
    async with open_memory(_user_id(0), {}) as memory:
        await _warm_up(memory)
        views = [memory.scoped(user_id=_user_id(n * load.users // users)) for n in range(users)]
        for n, question in enumerate(questions):
            seconds = await _time_call(_remember, views[n % users], question)
            (first if n < users else later).append(seconds)
        gc.collect()
        resident = measure_resident_mb()
    return [
        {"scenario": "remember", **percentiles(later)},
        {"scenario": "remember, first of a user", **percentiles(first)},
        {"scenario": "resident memory", "rss_mb": resident},
    ]


async def _remember(memory: BenchmarkMemory, question: str) -> None:
    await memory.remember(question, top_k=_TOP_K, reinforce=False)


async def _warm_up(memory: BenchmarkMemory) -> None:
    """Load the embedder and open the files, by a user who is not measured."""
    aside = memory.scoped(user_id="warm-up")
    await aside.store_turn({"role": "user", "content": "Nothing of this counts."})
    await aside.remember("what counts?", top_k=_TOP_K, reinforce=False)


async def _store_all(memory: BenchmarkMemory, turns: Iterator[TurnInput]) -> None:
    while batch := list(islice(turns, BATCH_SIZE)):
        await memory.store_turns(batch)
    await memory.flush()


async def _time_call(verb: Callable[..., Any], *arguments: Any) -> float:
    begun = time.perf_counter()
    await verb(*arguments)
    return time.perf_counter() - begun


def _user_id(number: int) -> str:
    return f"user-{number}"


def measure_resident_mb() -> float:
    """The resident memory of this process in megabytes; where /proc is missing, its peak."""
    if _STATM.exists():
        return int(_STATM.read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE") / _MEGABYTE
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (_MEGABYTE if sys.platform == "darwin" else 1024)


def _measure_disk_mb(home: str) -> float:
    return sum(file.stat().st_size for file in Path(home).rglob("*") if file.is_file()) / _MEGABYTE


def measure_startup(rounds: int = 5) -> list[Row]:
    """Median milliseconds of the imports, without the interpreter's own start, and of the command `--help` with it.

    With compiled modules, as an installer leaves them, whatever the environment says of these.
    """
    with TemporaryDirectory(prefix="agentmem-compiled-") as compiled:
        imports = {
            statement: _measure_import_ms(statement, rounds, compiled)
            for statement in ("import agentmem", "from agentmem import AgentMemory")
        }
        rows = [{"scenario": statement, "p50_ms": ms, "n": rounds} for statement, ms in imports.items()]
        return [*rows, {"scenario": "agentmem --help", "p50_ms": _measure_help_ms(rounds, compiled), "n": rounds}]


def _measure_import_ms(statement: str, rounds: int, compiled: str) -> float:
    code = f"import time; a = time.perf_counter(); {statement}; print(time.perf_counter() - a)"
    _run_python(code, compiled)  # compiles
    return 1000 * median(float(_run_python(code, compiled)) for _ in range(rounds))


def _measure_help_ms(rounds: int, compiled: str) -> float:
    found = list(entry_points(group="console_scripts", name="agentmem"))
    module, _, function = (found[0].value if found else "agentmem.cli.main:main").partition(":")
    code = f"import sys; sys.argv = ['agentmem', '--help']; from {module} import {function}; {function}()"
    _run_python(code, compiled)
    seconds = []
    for _ in range(rounds):
        begun = time.perf_counter()
        _run_python(code, compiled)
        seconds.append(time.perf_counter() - begun)
    return 1000 * median(seconds)


def _run_python(code: str, compiled: str) -> str:
    command = [sys.executable, "-P", "-E", "-X", f"pycache_prefix={compiled}", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ConfigError(f"a measured process failed: {done.stderr.strip().splitlines()[-1:]}")
    return done.stdout.strip()
