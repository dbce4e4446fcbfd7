"""`python -m tests.benchmarks --data PATH ... --out DIR`: all that `agentmem.bench` measures, as tables and JSON."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from agentmem.bench import suite
from agentmem.errors import AgentMemError


def parser() -> argparse.ArgumentParser:
    """The arguments."""
    found = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    found.add_argument("--data", nargs="*", default=[], help="LoCoMo- or BEAM-shaped JSON files")
    found.add_argument("--out", type=Path, default=Path("build/bench"), help="folder for the results")
    found.add_argument("--embedder", nargs="+", default=["auto", "hash:"], help="embedders to measure, each on its own")
    found.add_argument("--configurations", type=Path, help="JSON object {name: settings}; the first is the reference")
    found.add_argument(
        "--sizes", nargs="*", help="turns, or users x turns, such as 10000 1000x500; the default is the full set"
    )
    found.add_argument("--no-contexts", action="store_true", help="leave the 4,000-token contexts out")
    found.add_argument("--scratch", type=Path, help="where the databases go while they are measured")
    return found


def main() -> int:
    """Run, and print the tables; 2 for what the caller can mend."""
    given = parser().parse_args()
    try:
        plan = suite.BenchmarkPlan(
            out=given.out,
            data=tuple(given.data),
            embedders=tuple(given.embedder),
            configurations=suite.load_configurations(given.configurations)
            if given.configurations
            else (suite.DEFAULT_CONFIGURATION, suite.BEST_CONFIGURATION),
            context_tokens=0 if given.no_contexts else suite.BenchmarkPlan.context_tokens,
            workloads=suite.DEFAULT_WORKLOADS if given.sizes is None else tuple(map(suite.parse_workload, given.sizes)),
            startup=True,
            scratch=given.scratch,
        )
        written = suite.run(plan, on_step=lambda line: print(line, file=sys.stderr))
    except AgentMemError as error:
        print(f"bench: error: {error}", file=sys.stderr)
        return 2
    for path in written:
        print(path.read_text(encoding="utf-8") if path.suffix == ".md" else f"figures: {path}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
