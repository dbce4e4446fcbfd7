"""A nightly worker: a language model, named and capped, reads what users said by day and turns it into facts.

Install:  pip install "agentmem-graph[anthropic,local]"
Run:      ANTHROPIC_API_KEY=… python docs/examples/nightly_worker.py [MODEL]

MODEL is `vendor:model` (anthropic:claude-haiku-4-5). The text of the turns goes to that vendor; with `none`, rules read
the turns, and nothing leaves the machine. Each job runs once, for all users of the memory in the folder AGENTMEM_HOME
(~/.agentmem). Once a cap is reached, a job makes no further call, and what is left waits for the next night. The
program prints one line a job: users served, model calls, tokens, dollars, what was written, and why it stopped early,
if it did. Run chat.py before, so that there is something to read. For every night, use cron:

    0 3 * * * cd /path/to/project && python docs/examples/nightly_worker.py
"""

# ruff: noqa: T201

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence

from agentmem import AsyncAgentMemory, ConfigError
from agentmem.jobs.runner import RunReport
from agentmem.jobs.worker import ConsolidationWorker

MODEL = "anthropic:claude-haiku-4-5"
MAX_CALLS = 200  # of the model in one run of a job
MAX_DOLLARS = 0.50
JOBS = ("consolidate", "entity_linking", "promote", "synopsis", "decay", "gc")


def main(arguments: Sequence[str] = ()) -> None:
    """Run the night with the model named by the first argument; exit with a message when it cannot be used."""
    try:
        asyncio.run(run_night(arguments[0] if arguments else MODEL))
    except ConfigError as error:
        sys.exit(str(error))


async def run_night(model: str, *, max_calls: int = MAX_CALLS, max_dollars: float = MAX_DOLLARS) -> list[RunReport]:
    """Run each job once, print and return the reports. Raises ConfigError when a key or an SDK is missing."""
    async with AsyncAgentMemory("nightly", extraction_llm=model, max_calls=max_calls, max_cost=max_dollars) as memory:
        # Opened before any job runs: in a run, a missing key counts as a failure of each user, who is then put off.
        memory.engine.llms.for_purpose("extraction")
        print(f"{model}, at most {max_calls} calls and ${max_dollars:.2f} a job")
        worker = ConsolidationWorker(memory.engine, jobs=JOBS, on_report=print_report)
        return await worker.run_once()


def print_report(report: RunReport) -> None:
    """Print one line about one run of a job."""
    written = ", ".join(f"{what} {count}" for what, count in report.counts.items() if count)
    spent = f"users {report.users}, calls {report.calls}, tokens {report.tokens}, dollars {report.cost:.4f}"
    print(f"{report.job:15} {spent}; {written or 'nothing written'}")
    if report.stop_reason:
        print(f"{'':15} stopped early: {report.stop_reason}")
    for user_id, reason in report.failed.items():
        print(f"{'':15} failed for {user_id}: {reason}")


if __name__ == "__main__":
    main(sys.argv[1:])
