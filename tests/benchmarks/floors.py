"""`python -m tests.benchmarks.floors --data PATH ...`: where `agentmem.recall.scoring` should draw its line.

Stores dialogues and asks what they answer, and what nothing in them speaks of. The first should pass, the second not.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from collections import defaultdict
from typing import Any

import numpy as np

from agentmem import AsyncAgentMemory
from tests.benchmarks.datasets import ADVERSARIAL_CATEGORY, BenchmarkDialogue, load_dialogues
from tests.benchmarks.recall import store_turns

UNRELATED = [
    "What is the boiling point of tungsten?",
    "How do I configure a reverse proxy in nginx?",
    "Who wrote the Communist Manifesto?",
    "What is the capital of Mongolia?",
    "How many moons does Saturn have?",
    "Which treaty ended the Thirty Years' War?",
    "What does the HTTP status code 502 mean?",
    "How is concrete cured in cold weather?",
    "What is the atomic number of ruthenium?",
    "Explain the difference between TCP and UDP.",
    "When was the Magna Carta sealed?",
    "What is the GDP of Botswana?",
    "How does a heat pump extract energy from the ground?",
    "Which enzymes digest lactose?",
    "What is the syntax of a window function in SQL?",
    "How do submarines control their depth?",
    "Who discovered penicillin?",
    "What is the half-life of caesium-137?",
    "How do you derive the quadratic formula?",
    "What are the symptoms of scurvy in sailors?",
    "Which countries border Kazakhstan?",
    "How is the consumer price index calculated?",
    "What is a monad in category theory?",
    "When did the Ottoman Empire collapse?",
    "How do I rotate TLS certificates on a Kubernetes cluster?",
    "What is the maximum payload of a Boeing 747 freighter?",
    "Which volcano destroyed Pompeii?",
    "How does garbage collection work in the JVM?",
    "What minerals make up granite?",
    "Who was the third emperor of the Ming dynasty?",
    "What is the statute of limitations for tax fraud?",
    "How deep is the Mariana Trench?",
    "What is the melting temperature of zirconium oxide?",
    "How are municipal bonds taxed in Illinois?",
    "What is the Reynolds number of laminar flow in a pipe?",
    "Which algorithm finds the shortest path in a weighted graph?",
    "How is insulin regulated by the pancreas?",
    "What is the legal drinking age in Iceland?",
    "How do tectonic plates cause earthquakes?",
    "What voltage does a Swiss power socket deliver?",
]
QUANTILES = (0.01, 0.05, 0.5, 0.95, 0.99)


def questions(dialogue: BenchmarkDialogue) -> list[tuple[str, str]]:
    """What is asked of a dialogue, each with the name of its group."""
    adversarial = [question for question in dialogue.questions if question.category == ADVERSARIAL_CATEGORY]
    return [
        *(("answered there", question.text) for question in dialogue.scored_questions),
        *(("adversarial", question.text) for question in adversarial),
        *(("of something else", text) for text in UNRELATED),
    ]


async def ask(dialogues: list[BenchmarkDialogue], embedder: str, home: str) -> dict[str, list[tuple[bool, float]]]:
    """By group, whether each question was held to be answered, and the best cosine of a whole turn."""
    found = defaultdict(list)
    for dialogue in dialogues:
        async with AsyncAgentMemory(dialogue.id, home=home, embedder=embedder) as memory:
            await store_turns(memory, dialogue.turns)
            for group, text in questions(dialogue):
                bundle = await memory.remember(text, reinforce=False)
                found[group].append((bundle.relevant, _nearest(bundle.receipt.pool)))
    return found


def _nearest(pool: Any) -> float:
    return float(np.nanmax(pool.values[:, pool.list_names.index("whole")]))


def main() -> None:
    """Print a line for each group."""
    given = argparse.ArgumentParser(prog="python -m tests.benchmarks.floors", description=__doc__)
    given.add_argument("--data", nargs="+", required=True, help="LoCoMo- or BEAM-shaped JSON files")
    given.add_argument("--embedder", default="local")
    args = given.parse_args()
    with tempfile.TemporaryDirectory() as home:
        for group, seen in asyncio.run(ask(load_dialogues(args.data), args.embedder, home)).items():
            cosines = np.quantile([cosine for _, cosine in seen], QUANTILES).round(3)
            missed = sum(not relevant for relevant, _ in seen) / len(seen)
            print(f"{group:18} {len(seen):5} questions, nothing relevant {missed:6.2%}, best cosine {cosines.tolist()}")


if __name__ == "__main__":
    main()
