"""Recall with glosses: replies that a careful model once gave are fed through the real pipeline, by a program.

    python -m tests.benchmarks.enriched DATA.json LINES_FOLDER
    python -m tests.benchmarks.enriched DATA.json

Without a folder the rules read all conversations, no model does.

`DATA.json` is a LoCoMo-shaped file, `LINES_FOLDER/<conversation id>.jsonl` has a line for each turn: `id`,
`standalone`, `keys`, `facts` (`claim`, `subject`, `when`) and `entities`. Only conversations with such a file are
asked about. The program behind `command:` is this module itself.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shlex
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ALL = 1_000_000


def answer(data: Path, lines: Path) -> None:
    """Read one request from standard input and print the reply that the lines hold."""
    request = json.load(sys.stdin)
    content = json.loads(request["content"][request["content"].index("{") :])
    if request["purpose"] == "verdict":
        print(json.dumps({"verdicts": []}))
        return
    known = _lines(data, lines)
    reply: dict[str, Any] = {"turns": [], "facts": [], "entities": [], "relations": []}
    for turn in content["turns"]:
        said = known.get((turn["speaker"], turn["text"].partition(" [shares ")[0]), {})
        label = turn["label"]
        gloss = {"standalone": said.get("standalone", ""), "keys": said.get("keys", []), "leans_on": []}
        reply["turns"].append({"turn": label, **gloss})
        for fact in said.get("facts", ()):
            reply["facts"].append(
                {
                    "turn": label,
                    "claim": fact["claim"],
                    "quote": turn["text"],
                    "certainty": "explicit",
                    "since": fact["when"],
                }
            )
        people = set(content["participants"])
        reply["entities"] += [
            {"turn": label, "name": name, "type": "person" if name in people else "thing"}
            for name in said.get("entities", ())
        ]
    print(json.dumps(reply))


def _lines(data: Path, folder: Path) -> dict[tuple[str, str], Mapping[str, Any]]:
    """The lines by speaker and text of their turns."""
    found: dict[tuple[str, str], Mapping[str, Any]] = {}
    for conversation in json.loads(data.read_text())["conversations"]:
        file = folder / f"{conversation['id']}.jsonl"
        if file.exists():
            said = {line["id"]: line for line in map(json.loads, file.read_text().splitlines())}
            for turn in conversation["turns"]:
                if turn["dia_id"] in said:
                    found[turn["speaker"], turn["text"]] = said[turn["dia_id"]]
    return found


async def _ask(memory: Any, questions: Sequence[Any]) -> list[tuple[float, ...]]:
    from tests.benchmarks.metrics import MAX_CUTOFF, score_ranking

    values = []
    for question in questions:
        bundle = await memory.remember(question.text, top_k=MAX_CUTOFF, reinforce=False)
        values.append(score_ranking([turn.id for turn in bundle.turns][:MAX_CUTOFF], question.evidence))
    return values


async def _one(memory: Any, dialogue: Any, told: Counter[str]) -> tuple[list[tuple[float, ...]], ...]:
    """Values of one conversation's questions before and after consolidation; what that took is added to `told`."""
    from tests.benchmarks.recall import store_turns

    await store_turns(memory, dialogue.turns)
    before = await _ask(memory, dialogue.scored_questions)
    pending = 1
    while pending:
        (report,) = await memory.consolidate("consolidate")
        pending = report.pending
        for purpose, used in report.usage.items():
            told.update(
                {
                    f"{purpose}: calls": used.calls,
                    f"{purpose}: tokens in": used.input_tokens,
                    f"{purpose}: tokens out": used.output_tokens,
                }
            )
        told.update(calls=report.calls, tokens=report.tokens)
    await memory.flush()
    told.update(
        turns=len(dialogue.turns),
        reviews=len(await memory.semantic.reviews(limit=ALL)),
        facts=len(await memory.semantic.facts(limit=ALL)),
        entities=len(await memory.semantic.entities(limit=ALL)),
    )
    return before, await _ask(memory, dialogue.scored_questions)


async def measure(data: Path, lines: Path | None, home: str, embedder: str) -> dict[str, Any]:
    """R@5, R@10 and MRR before and after consolidation, and what it took."""
    import numpy as np

    from agentmem import AsyncAgentMemory
    from tests.benchmarks.datasets import load_dialogues
    from tests.benchmarks.metrics import CUTOFFS

    program = [sys.executable, str(Path(__file__).resolve()), "--answer", str(data), str(lines)]
    llm = "none" if lines is None else f"command:{shlex.join(program)}"
    counts: Counter[str] = Counter()
    values: tuple[list[tuple[float, ...]], ...] = ([], [])
    for dialogue in load_dialogues([data]):
        if lines is None or (lines / f"{dialogue.id}.jsonl").exists():
            settings = {"home": home, "embedder": embedder, "llm": llm}
            async with AsyncAgentMemory(dialogue.id, **settings) as memory:
                for all_of_them, found in zip(values, await _one(memory, dialogue, counts), strict=True):
                    all_of_them += found
    places = {f"R@{k}": CUTOFFS.index(k) for k in (5, 10)} | {"MRR": len(CUTOFFS)}
    means = [np.asarray(each, dtype=float).mean(axis=0) for each in values]
    return {
        **counts,
        "questions": len(values[1]),
        "before": {what: round(float(means[0][at]), 4) for what, at in places.items()},
        "after": {what: round(float(means[1][at]), 4) for what, at in places.items()},
        "calls per 100 turns": round(100 * counts["calls"] / counts["turns"], 1),
        "tokens per 100 turns": round(100 * counts["tokens"] / counts["turns"]),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, or answer one request."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--answer", action="store_true", help="answer one request of the pipeline")
    parser.add_argument("--embedder", default="local")
    parser.add_argument("data", type=Path)
    parser.add_argument("lines", type=Path, nargs="?")
    given = parser.parse_args(arguments)
    if given.answer:
        answer(given.data, given.lines)
        return
    with tempfile.TemporaryDirectory() as home:
        print(
            json.dumps(
                asyncio.run(measure(given.data.resolve(), given.lines and given.lines.resolve(), home, given.embedder)),
                indent=2,
            )
        )


if __name__ == "__main__":
    main()
