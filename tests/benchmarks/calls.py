"""`python -m tests.benchmarks.calls [TURNS] [-v]`: what a warm `remember` calls inside of agentmem, and its time.

Counts calls, functions and files by `sys.setprofile` in the thread that asks, on a file store with the embedder
`hash:`.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from types import CodeType, FrameType
from typing import Any

import agentmem
from agentmem import AsyncAgentMemory
from tests.benchmarks.synthetic import SyntheticConversations

_PACKAGE = str(Path(agentmem.__file__).parent)


async def count_calls(home: str, question: str) -> Counter[CodeType]:
    """How often each function of the package is entered or resumed by a question that was asked before."""
    counts: Counter[CodeType] = Counter()

    def count(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(_PACKAGE):
            counts[frame.f_code] += 1

    async with AsyncAgentMemory("user", home=home, embedder="hash:") as memory:
        for _ in range(3):
            await memory.remember(question)
            await memory.flush()
        sys.setprofile(count)
        await memory.remember(question)
        sys.setprofile(None)
    return counts


async def measure_ms(home: str, turns: int, questions: list[str]) -> list[float]:
    """Store the turns, then the milliseconds of each question."""
    times = []
    async with AsyncAgentMemory("user", home=home, embedder="hash:") as memory:
        await memory.store_turns(list(SyntheticConversations().generate_turns(turns)))
        await memory.flush()
        for question in questions:
            begun = time.perf_counter()
            await memory.remember(question)
            times.append(1000 * (time.perf_counter() - begun))
    return times


def main() -> None:
    """Measure, and print one line; with `-v` the functions that are called most too."""
    turns = next((int(each) for each in sys.argv[1:] if each.isdigit()), 600)
    questions = SyntheticConversations(1).generate_questions(200)
    with TemporaryDirectory() as home:
        times = asyncio.run(measure_ms(home, turns, questions))
        counts = asyncio.run(count_calls(home, questions[0]))
    files = {code.co_filename for code in counts}
    print(f"{counts.total()} calls, {len(counts)} functions, {len(files)} files, p50 {median(times):.2f} ms")
    for code, count in counts.most_common(400 if "-v" in sys.argv else 0):
        print(f"{count:5}  {Path(code.co_filename).relative_to(_PACKAGE)}:{code.co_firstlineno} {code.co_qualname}")


if __name__ == "__main__":
    main()
