"""`python -m tests.benchmarks.jobs DATA ...`: recall with all background jobs on, against recall without any.

Stores the dialogues twice. In one of the two all jobs run as a worker runs them, until nobody waits, then once more
after each of `--nights` nights. Both are asked all scored questions; the differences are paired, with 95 % intervals.
No language model is asked: the rules read.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import cast

from agentmem import AsyncAgentMemory
from agentmem.jobs.worker import ConsolidationWorker
from tests.benchmarks import recall, report
from tests.benchmarks.ablation import Row, rows
from tests.benchmarks.datasets import BenchmarkDialogue, load_dialogues
from tests.benchmarks.recall import Configuration
from tests.benchmarks.target import MemoryFactory

RUNS = 1000  # of all jobs, at most


class OffsetClock:
    """A clock that runs some time ahead."""

    def __init__(self) -> None:
        self.offset = timedelta()

    def now(self) -> datetime:
        """The time by this clock."""
        return datetime.now(UTC) + self.offset


async def work(target: MemoryFactory, clock: OffsetClock, nights: int) -> Counter[str]:
    """Let all jobs run; what they did, by job and count."""
    did: Counter[str] = Counter()
    async with target("nobody", {"llm": "none", "clock": clock}) as opened:
        worker = ConsolidationWorker(cast(AsyncAgentMemory, opened).engine)
        for _ in range(nights + 1):
            for _ in range(RUNS):
                reports = await worker.run_once()
                failed = [
                    (each.job, each.failed or each.stop_reason) for each in reports if each.failed or each.stop_reason
                ]
                assert not failed, failed
                did.update({f"{each.job}: {what}": n for each in reports for what, n in each.counts.items() if n})
                if not any(each.users or each.has_more for each in reports):
                    break
            clock.offset += timedelta(days=1)
    return did


async def measure(dialogues: Sequence[BenchmarkDialogue], folder: Path, embedder: str, nights: int) -> list[Row]:
    """The rows of one data set."""
    clock = OffsetClock()
    # no deadlines: a busy machine finds the same
    target = MemoryFactory(str(folder / "without"), embedder, {"seed": 1})
    without = await recall.evaluate(target, dialogues, [Configuration("without jobs")], context_tokens=0)
    shutil.copytree(folder / "without", folder / "with")
    worked = replace(target, home=str(folder / "with"))
    begun = time.perf_counter()
    did = await work(worked, clock, 0)
    seconds = time.perf_counter() - begun
    did += await work(worked, clock, nights)
    turns = sum(len(dialogue.turns) for dialogue in dialogues)
    size = sum(path.stat().st_size for path in (folder / "with").glob("memory.db*"))
    print(", ".join(f"{name} {count}" for name, count in sorted(did.items())))
    print(
        f"the first night: {turns / seconds:.0f} turns a second; the file: {size / turns:,.0f} bytes a turn", flush=True
    )
    worked = replace(worked, settings={"seed": 1, "clock": clock})
    after = await recall.evaluate(worked, dialogues, [Configuration("with all jobs")], context_tokens=0)
    return rows("jobs", [reading.scores for result in (without, after) for reading in result.runs])


def main() -> None:
    """Print a table for each file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, nargs="+", help="LoCoMo- or BEAM-shaped files")
    parser.add_argument("--nights", type=int, default=30)
    parser.add_argument("--embedder", default="local")
    given = parser.parse_args()
    for data in given.data:
        with tempfile.TemporaryDirectory() as folder:
            found = asyncio.run(measure(load_dialogues([data]), Path(folder), given.embedder, given.nights))
        print(f"## {data}, {given.nights} nights\n\n{report.render_table(found)}\n", flush=True)


if __name__ == "__main__":
    main()
