"""Import of a made-up ChatGPT export: its rate beside that of `store_turns` with the same turns, and peak memory.

    python -m tests.benchmarks.imports [TURNS]

Each is measured in a process of its own, with hashed vectors; the ratio of the rates is what counts.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from agentmem import AgentMemory
from agentmem.importers.importer import BATCH_SIZE, load_turns

TURNS_PER_CONVERSATION = 40
_TEXT = "harbor lamp walk bread river train letter garden stone violin market cloud window tea north paper"
_WORDS = _TEXT.split()


def write_export(path: Path, turns: int) -> None:
    """Write conversations of 40 turns, every tenth turn with a second branch that nobody sees."""
    with path.open("w", encoding="utf-8") as file:
        file.write("[\n")
        for number in range(0, turns, TURNS_PER_CONVERSATION):
            size = min(TURNS_PER_CONVERSATION, turns - number)
            file.write((",\n" if number else "") + json.dumps(_build_conversation(number, size)))
        file.write("\n]")


def _build_conversation(number: int, size: int) -> dict[str, Any]:
    nodes: dict[str, Any] = {"root": {"id": "root", "message": None, "parent": None, "children": ["n0"]}}
    for turn in range(size):
        text = " ".join(_WORDS[(number + turn * 7 + word * word) % len(_WORDS)] for word in range(30))
        parent = f"n{turn - 1}" if turn else "root"
        nodes[f"n{turn}"] = _build_node(f"n{turn}", parent, f"Turn {number + turn}: {text}.", number * 60 + turn)
        if turn % 10 == 5:
            nodes[f"x{turn}"] = _build_node(f"x{turn}", parent, f"Not seen: {text}.", number * 60 + turn)
    return {"conversation_id": f"c{number}", "title": text[:20], "mapping": nodes, "current_node": f"n{size - 1}"}


def _build_node(name: str, parent: str, text: str, seconds: int) -> dict[str, Any]:
    role = "assistant" if int(name[1:]) % 2 else "user"
    content = {"content_type": "text", "parts": [text]}
    message = {"author": {"role": role}, "create_time": 1_700_000_000.5 + seconds, "content": content, "metadata": {}}
    return {"id": name, "message": message, "parent": parent, "children": []}


def measure(path: Path, turns: int) -> dict[str, Any]:
    """The seconds and rates of both ways, their ratio, and the peak memory of the import in MiB."""
    rows = {}
    for name, run in (("store", _store), ("import", _import)):
        with (
            TemporaryDirectory() as home,
            ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process,
        ):
            seconds, stored, peak = process.submit(run, path, home).result()
        assert stored == turns, (name, stored)
        rows[name] = {"seconds": round(seconds, 1), "turns_per_second": round(turns / seconds), "peak_mib": peak}
    ratio = rows["import"]["turns_per_second"] / rows["store"]["turns_per_second"]
    size = round(path.stat().st_size / (1 << 20), 1)
    return {"turns": turns, "file_mib": size, **rows, "ratio": round(ratio, 2)}


def _store(path: Path, home: str) -> tuple[float, int, int]:
    turns = list(load_turns(path))
    with AgentMemory("alice", home=home, embedder="hash") as memory:
        start = time.perf_counter()
        for batch in _split(turns):
            memory.store_turns(batch)
        memory.flush()
        return time.perf_counter() - start, len(turns), _get_peak()


def _import(path: Path, home: str) -> tuple[float, int, int]:
    with AgentMemory("alice", home=home, embedder="hash") as memory:
        start = time.perf_counter()
        report = memory.import_file(path)
        return time.perf_counter() - start, report.new_turns, _get_peak()


def _split(turns: list[Any]) -> Iterator[list[Any]]:
    return (turns[start : start + BATCH_SIZE] for start in range(0, len(turns), BATCH_SIZE))


def _get_peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def main() -> None:
    """Measure with as many turns as the first argument says, and print the figures as JSON."""
    turns = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    with TemporaryDirectory() as folder:
        path = Path(folder) / "conversations.json"
        write_export(path, turns)
        print(json.dumps(measure(path, turns), indent=2))


if __name__ == "__main__":
    main()
