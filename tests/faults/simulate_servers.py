"""The simulation of `simulate.py` over real servers: same writers, faults and promises, in time thirty times faster.

python -m tests.faults.simulate_servers --seeds 50      starts its own servers, unless AGENTMEM_TEST_*_URL name some

A seed gives the same writes and faults, but servers answer when they do: runs are alike, not equal.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import selectors
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from agentmem.core.clock import SeededIds
from agentmem.facade.async_memory import AsyncAgentMemory
from tests.faults import servers_checks
from tests.faults.faulty import FaultInjector, inject_faults
from tests.faults.simulate import USERS, WRITERS, WRITES, check, check_found_by_terms
from tests.faults.virtual import VirtualClock
from tests.faults.writers import KnownIds, Writer
from tests.servers.host import KINDS, url_variable
from tests.servers.stack import prepare

SCALE = 30.0
NEVER = 90.0  # seconds of the loop after which what hangs gives up
PROCESSES = 2


class _Scaled(selectors.DefaultSelector):
    """Waits for as long as the loop's time takes."""

    scale = 1.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        return super().select(timeout if timeout is None else timeout / self.scale)


class FastLoop(asyncio.SelectorEventLoop):
    """An event loop whose time passes as many times faster than the world's as it is told."""

    def __init__(self) -> None:
        self._scaled = _Scaled()
        self._began, self._before = time.monotonic(), 0.0
        super().__init__(self._scaled)

    def time(self) -> float:
        return self._before + (time.monotonic() - self._began) * self._scaled.scale

    def go(self, scale: float) -> None:
        """From now on time passes so much faster."""
        self._before, self._began = self.time(), time.monotonic()
        self._scaled.scale = scale


async def _opened(home: Path, clock: Any, seed: int, number: int, urls: dict[str, Any]) -> AsyncAgentMemory:
    memory = servers_checks.build_memory(USERS[0], urls, home, clock=clock, recall_rate=0)
    await memory.open()
    memory.engine.ids = SeededIds(clock, seed, number)
    return memory


async def _simulate(loop: FastLoop, home: Path, seed: int, faults: FaultInjector, urls: dict[str, Any]) -> int:
    clock: Any = VirtualClock(loop)  # type: ignore[arg-type]
    tag = os.urandom(4).hex()  # the graph is everybody's
    notes = {f"{user}{tag}": KnownIds() for user in USERS[: 2 + seed % 2]}
    memories = [await _opened(home, clock, seed, number, urls) for number in range(PROCESSES)]
    plain = [(memory.engine.log, memory.engine.session) for memory in memories]
    loop.go(SCALE)  # not before: connecting has seconds of the loop, and takes those of the world
    for memory in memories:
        inject_faults(memory.engine, faults)
    under_way: set[str] = set()
    writers = [
        Writer(f"w{n}", memories[n % PROCESSES], faults, clock, notes, random.Random(f"{n} of {seed}"), under_way)
        for n in range(WRITERS)
    ]
    await asyncio.gather(*(writer.run(WRITES) for writer in writers))
    faults.rate = 0.0
    while faults.hanging:  # else a hang begun in fast time would take its seconds of the world
        await asyncio.sleep(1)
    loop.go(1.0)
    writes = [write for writer in writers for write in writer.writes]
    for memory, (log, session) in zip(memories, plain, strict=True):
        memory.engine.log, memory.engine.session = log, session
        await check(memory, list(notes), writes, faults)
    fresh = await _opened(home, clock, seed, PROCESSES, urls)
    for user, model in (await check(fresh, list(notes), writes, faults)).items():
        mine = fresh.scoped(user_id=user)
        await check_found_by_terms(mine, user, model)
        await servers_checks.check_complete(fresh.engine, mine.scope)
    for memory in (*memories, fresh):
        await memory.close()
    return sum(write.outcome == "acknowledged" for write in writes)


def simulate(seed: int, urls: dict[str, Any]) -> tuple[int, int]:
    """One run: writes acknowledged, faults. Raises, with what happened, where a promise is broken."""
    faults = FaultInjector(seed, random.Random(f"rate {seed}").choice([0.05, 0.1]), NEVER)
    with tempfile.TemporaryDirectory(prefix="agentmem-simulation-") as home:
        loop = FastLoop()
        try:
            with asyncio.Runner(loop_factory=lambda: loop) as runner:
                done = runner.run(_simulate(loop, Path(home), seed, faults, urls))
        except BaseException as error:
            error.add_note("\n".join(faults.trace))
            error.add_note(f"to see one like it: python -m tests.faults.simulate_servers --first {seed} --seeds 1")
            raise
    return done, faults.counts.total()


def main(arguments: list[str] | None = None) -> int:
    """Run seeds; 1 when a promise was broken."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.faults.simulate_servers", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--seeds", type=int, default=50, help="how many seeds to run, from --first on (50)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (0)")
    asked = parser.parse_args(arguments)
    with ExitStack() as servers:
        found = {
            kind: os.environ.get(url_variable(kind)) or servers.enter_context(make()).url
            for kind, make in KINDS.items()
        }
        urls = {"log_url": found["postgres"], "graph_url": found["neo4j"], "session_url": found["redis"]}
        asyncio.run(prepare(urls["log_url"], urls["graph_url"]))
        failed, writes, faults, started = [], 0, 0, time.monotonic()
        for seed in range(asked.first, asked.first + asked.seeds):
            try:
                done, met = simulate(seed, urls)
            except Exception as error:  # noqa: BLE001  whatever it is, the other seeds are run too
                failed.append(seed)
                print(f"seed {seed}: {type(error).__name__}: {error}", *error.__notes__, sep="\n", file=sys.stderr)
                continue
            writes, faults = writes + done, faults + met
    print(
        f"{asked.seeds} seeds in {time.monotonic() - started:.0f} s; {faults:,} faults; {writes:,} writes acknowledged"
    )
    print(f"failed: {failed}" if failed else "every promise held")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
