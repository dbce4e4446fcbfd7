"""What a run of a job costs beside many users who have nothing to do: `python -m tests.benchmarks.idle_users`."""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from agentmem import AsyncAgentMemory
from agentmem.core.clock import to_micros
from agentmem.jobs.job import JobOptions, list_scheduled_jobs
from agentmem.jobs.runner import run_job

JOBS = ("consolidate", "promote", "gc", "clusters")
BUSY = 10
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


async def measure(home: Path, idle: int) -> dict[str, tuple[float, float]]:
    """Milliseconds of processor time of a run without work, and of one for ten users who wrote, by job."""
    async with AsyncAgentMemory("operator", home=home, embedder="hash") as memory:
        engine, jobs = memory.engine, list_scheduled_jobs()
        database: Any = engine.log
        rows = [(f"idle {number}", to_micros(LONG_AGO + timedelta(seconds=number))) for number in range(idle)]

        def fill(db: Any) -> None:
            db.executemany("INSERT INTO memory_users (user_id, head, last_at) VALUES (?, 1, ?)", rows)
            for job in JOBS:
                db.executemany(
                    "INSERT INTO job_states (user_id, job, seq) VALUES (?, ?, 1)", [(u, job) for u, _ in rows]
                )
            db.executemany(
                "INSERT INTO memory_usage (user_id, kind, id, due_at, due_for) VALUES (?, 'Fact', 'f', ?, 'gc')",
                [(user, to_micros(datetime(2099, 1, 1, tzinfo=UTC))) for user, _ in rows],
            )

        await database.database.write(fill)
        found = {}
        for job in JOBS:
            await run_job(engine, jobs[job], JobOptions())  # its cursor passes the idle ones once
            nothing = await _timed(engine, jobs[job])
            for number in range(BUSY):
                await memory.scoped(user_id=f"{job} {number}").store_turn("My friend Tom got nails.")
            found[job] = nothing, await _timed(engine, jobs[job])
        return found


async def _timed(resources: Any, module: Any) -> float:
    started = time.process_time()
    await run_job(resources, module, JobOptions())
    return (time.process_time() - started) * 1000


def main() -> None:
    """Print a table: one line for each number of idle users."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--idle", type=int, nargs="*", default=[1_000, 10_000, 100_000, 300_000])
    for idle in parser.parse_args().idle:
        with tempfile.TemporaryDirectory() as folder:
            found = asyncio.run(measure(Path(folder) / "home", idle))
        told = "  ".join(f"{job} {nothing:6.1f} / {some:6.1f} ms" for job, (nothing, some) in found.items())
        print(f"{idle:>9,} idle users:  {told}", flush=True)


if __name__ == "__main__":
    main()
