"""`python -m tests.benchmarks.servers.graph_states --data locomo.json`: recalls with Neo4j up, paused and left out.

Starts Postgres, Redis and Neo4j, stores each dialogue as a user and consolidates it by rules. Each process then asks
every question of a stack with Neo4j and of one without, in turns, so that both meet the same machine. The exit code is
1 when an answer differs between the states.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agentmem import AsyncAgentMemory
from tests.benchmarks.datasets import BenchmarkDialogue, load_dialogues
from tests.benchmarks.report import render_table
from tests.benchmarks.servers.run import machine, percentiles
from tests.servers.neo4j import Neo4j
from tests.servers.postgres import Postgres
from tests.servers.redis import Redis
from tests.servers.stack import prepare

Urls = Mapping[str, str]
Answers = dict[str, list[str]]  # ids of the records that were found, by question
CONTEXT = multiprocessing.get_context("spawn")
UP, PAUSED, WITHOUT = "Neo4j up", "Neo4j paused", "without Neo4j"


async def load(dialogues: Sequence[BenchmarkDialogue], urls: Urls, embedder: str) -> None:
    """Store each dialogue and read it by rules; the graph follows."""
    for dialogue in dialogues:
        with tempfile.TemporaryDirectory() as home:
            async with AsyncAgentMemory(dialogue.id, home=home, embedder=embedder, **urls) as memory:
                await memory.store_turns(list(dialogue.turns))
                await memory.consolidate(read_all=True)
                await memory.flush()


async def ask(
    dialogues: Sequence[BenchmarkDialogue], stacks: Mapping[str, Urls], embedder: str, limit: int
) -> tuple[dict[str, list[float]], dict[str, Answers]]:
    """Seconds of each recall and what it found, by stack; the stacks take turns at being the first one."""
    seconds: dict[str, list[float]] = {name: [] for name in stacks}
    found: dict[str, Answers] = {name: {} for name in stacks}
    for dialogue in dialogues:
        questions = dialogue.questions[: limit // len(dialogues)]
        with tempfile.TemporaryDirectory() as home:
            opened = {
                name: AsyncAgentMemory(dialogue.id, home=Path(home) / str(place), embedder=embedder, **urls)
                for place, (name, urls) in enumerate(stacks.items())
            }
            for memory in opened.values():
                await memory.open()
                await memory.remember("what happened?", reinforce=False)  # the first recall loads the user
            for number, question in enumerate(questions):
                for name in sorted(opened, reverse=number % 2 == 1):
                    began = time.perf_counter()
                    bundle = await opened[name].remember(question.text, reinforce=False)
                    seconds[name].append(time.perf_counter() - began)
                    found[name][question.id] = [*(" ".join(item.record.key) for item in bundle), *bundle.notices]
            for memory in opened.values():
                await memory.close()
    return seconds, found


def _ask_in_process(arguments: tuple[Any, ...]) -> tuple[dict[str, list[float]], dict[str, Answers]]:
    return asyncio.run(ask(*arguments))


def measure(
    dialogues: Sequence[BenchmarkDialogue], processes: int, embedder: str, limit: int
) -> tuple[list[dict[str, Any]], int]:
    """A row for each number of processes and state, and how many answers differ."""
    rows, differing = list[dict[str, Any]](), 0
    with Postgres() as log, Redis() as session, Neo4j() as graph:
        asyncio.run(prepare(log.url, graph.url, None))
        without = {"log_url": log.url, "session_url": session.url}
        whole = {**without, "graph_url": graph.url}
        asyncio.run(load(dialogues, whole, embedder))
        for state, count in ((UP, 1), (UP, processes), (PAUSED, 1)):
            if state == PAUSED:
                graph.pause()
            asked = (dialogues, {state: whole, WITHOUT: without}, embedder, limit)
            with CONTEXT.Pool(count) as pool:
                answers = pool.map(_ask_in_process, [asked] * count)
            if state == PAUSED:
                graph.resume()
            for name in (WITHOUT, state):
                timed = percentiles([each for seconds, _ in answers for each in seconds[name]])
                ratio = timed["p50_ms"] / rows[-1]["p50_ms"] if name == state else ""
                rows.append({"processes": count, "state": name, **timed, "p50 to without": ratio})
            for _, found in answers:
                differing += sum(found[state][name] != found[WITHOUT][name] for name in found[state])
    return rows, differing


def main() -> None:
    """Measure, and print a table or JSON."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.servers.graph_states", description=__doc__)
    parser.add_argument("--data", action="append", required=True, help="LoCoMo-shaped files")
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--questions", type=int, default=250, help="of all dialogues together")
    parser.add_argument("--embedder", default="hash")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    rows, differing = measure(load_dialogues(given.data), given.processes, given.embedder, given.questions)
    if given.json:
        print(json.dumps({"machine": machine(), "rows": rows, "differing": differing}, indent=1))
    else:
        print(render_table(rows))
        print(f"{differing} answers differ between the states")
    sys.exit(1 if differing else 0)


if __name__ == "__main__":
    main()
