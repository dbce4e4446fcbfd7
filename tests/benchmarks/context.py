"""`python -m tests.benchmarks.context DATA`: what a context saves, and what of the evidence it holds.

Stores each dialogue of LoCoMo-shaped files under a user of its own, runs all background jobs (unless `--no-jobs`), and
asks its scored questions. Reported by dialogue: tokens of the full history and the share saved by the largest context,
the share of questions whose evidence turns all stand whole in the context, and how long a context took with the
synopsis cached. `--tokens` is the budget (4,000). Fails below the targets.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentmem import AsyncAgentMemory
from tests.benchmarks.datasets import BenchmarkDialogue, load_dialogues
from tests.benchmarks.metrics import percentiles
from tests.benchmarks.recall import find_rendered_turns, store_turns
from tests.benchmarks.report import render_table

TOKENS = 4_000
SAVED, KEPT = 0.70, 0.85
ROUNDS = 200  # of all jobs


@dataclass
class Found:
    """What the contexts of one dialogue came to."""

    dialogue: BenchmarkDialogue
    full: int = 0
    largest: int = 0
    told: list[float] = field(default_factory=list)  # what the contexts themselves say they save
    kept: int = 0
    shares: float = 0.0
    seconds: list[float] = field(default_factory=list)
    synopsis: int = 0  # tokens

    @property
    def asked(self) -> int:
        return len(self.dialogue.scored_questions)

    @property
    def saved(self) -> float:
        return 1 - self.largest / self.full


async def measure(
    dialogue: BenchmarkDialogue, home: Path, jobs: bool, settings: dict[str, Any], tokens: int = TOKENS
) -> Found:
    """Store one dialogue, let it be worked on, and ask its questions."""
    found = Found(dialogue, full=sum(math.ceil(len(turn["content"]) / 4) for turn in dialogue.turns))
    contents = {turn["turn_id"]: " ".join(turn["content"].split()) for turn in dialogue.turns}
    async with AsyncAgentMemory(dialogue.id, home=home / dialogue.id, **settings) as memory:
        await store_turns(memory, dialogue.turns)
        for _ in range(ROUNDS if jobs else 0):
            if not any(report.pending for report in await memory.consolidate()):
                break
        await memory.flush()
        found.synopsis = math.ceil(len(str(await memory.synopsis())) / 4)
        for question in dialogue.scored_questions:
            begun = time.perf_counter()
            context = await memory.context(question.text, max_tokens=tokens)
            found.seconds.append(time.perf_counter() - begun)
            found.largest = max(found.largest, context.tokens)
            found.told.append(context.savings)
            whole = find_rendered_turns(context, contents)
            found.kept += question.evidence <= whole
            found.shares += len(question.evidence & whole) / len(question.evidence)
    return found


def shown(results: Sequence[Found]) -> str:
    """The figures as a table, all dialogues together in the last line."""
    rows: list[dict[str, object]] = [
        {
            "dialogue": each.dialogue.id,
            "turns": len(each.dialogue.turns),
            "full": each.full,
            "largest": each.largest,
            "saved": each.saved,
            "as told": sum(each.told) / len(each.told),
            "all evidence": each.kept / each.asked,
            "evidence": each.shares / each.asked,
            "synopsis": each.synopsis,
        }
        for each in results
    ]
    asked = sum(each.asked for each in results)
    kept, shares = sum(each.kept for each in results) / asked, sum(each.shares for each in results) / asked
    least = min(each.saved for each in results)
    rows.append({"dialogue": "all", "saved": least, "all evidence": kept, "evidence": shares})
    return render_table(rows)


def parser() -> argparse.ArgumentParser:
    """The arguments."""
    found = argparse.ArgumentParser(prog="python -m tests.benchmarks.context", description=__doc__)
    found.add_argument("data", nargs="+", help="LoCoMo-shaped JSON files")
    found.add_argument("--embedder", default="auto")
    found.add_argument("--models", type=Path, help="where local weights lie")
    found.add_argument("--no-jobs", action="store_true", help="leave the background jobs out")
    found.add_argument("--tokens", type=int, default=TOKENS, help="the budget")
    return found


def main() -> int:
    """Measure, print, and return 1 below the targets."""
    given = parser().parse_args()
    settings = {"embedder": given.embedder, "models": given.models}
    results = []
    with tempfile.TemporaryDirectory() as home:
        for dialogue in load_dialogues(given.data):
            results.append(asyncio.run(measure(dialogue, Path(home), not given.no_jobs, settings, given.tokens)))
    print(shown(results))
    took = percentiles([second for each in results for second in each.seconds])
    print("\ncontext(), seconds:", json.dumps(took))
    kept = sum(each.kept for each in results) / sum(each.asked for each in results)
    return int(min(each.saved for each in results) < SAVED or kept < KEPT)


if __name__ == "__main__":
    sys.exit(main())
