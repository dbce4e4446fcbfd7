"""What a buffer's search finds, by the formula of its score.

    python -m tests.benchmarks.buffer DATA.json [--embedder local]

Each question is asked after every 25th turn whose last 100 turns hold all of its evidence; the figure is the share of
the evidence among the ten best.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from agentmem.core.event_loop import BACKGROUND_LOOP
from agentmem.memory.working.buffer_search import Scores, blend_scores, recency
from agentmem.models.protocols import Embedder, EmbedderOptions
from agentmem.models.registry import open_embedder
from tests.benchmarks.datasets import BenchmarkDialogue, load_dialogues

KEPT, EVERY, BEST = 100, 25, 10
BIASES = (0.0, 0.1, 0.3, 0.6)


def asked(dialogue: BenchmarkDialogue, embedder: Embedder) -> Iterator[tuple[Scores, list[int]]]:
    """The cosines of what the buffer holds with a question, and the places of its evidence."""
    place = {turn["turn_id"]: at for at, turn in enumerate(dialogue.turns)}
    turns = BACKGROUND_LOOP.run(embedder.embed([turn["content"] for turn in dialogue.turns]))
    queries = BACKGROUND_LOOP.run(embedder.embed([question.text for question in dialogue.scored_questions]))
    for question, query in zip(dialogue.scored_questions, queries, strict=True):
        evidence = sorted(place[name] for name in question.evidence)
        for end in range(EVERY, len(turns) + 1, EVERY):
            start = max(0, end - KEPT)
            if all(start <= at < end for at in evidence):
                yield np.asarray(turns[start:end] @ query, np.float64), [at - start for at in evidence]


def share(scores: Scores, evidence: Sequence[int]) -> float:
    """How much of the evidence is among the best."""
    best = set(np.argsort(-scores, kind="stable")[:BEST].tolist())
    return sum(at in best for at in evidence) / len(evidence)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--embedder", default="local")
    options = parser.parse_args()
    embedder = open_embedder(options.embedder, EmbedderOptions(models_dir=Path("~/.agentmem/models").expanduser()))
    found: dict[tuple[str, float], list[float]] = defaultdict(list)
    for dialogue in load_dialogues([options.data]):
        for near, evidence in asked(dialogue, embedder):
            newness = recency(len(near))
            for bias in BIASES:
                found["cosine and newness, ours", bias].append(share(blend_scores(near, newness, bias), evidence))
                document = blend_scores(1 / (1 + np.maximum(0.0, 2 - 2 * near)), newness[::-1], bias)
                found["1 / (1 + distance) and age, the document's", bias].append(share(document, evidence))
    for (formula, bias), shares in sorted(found.items()):
        print(f"{formula:45} bias {bias:.1f}  {np.mean(shares):.3f}  ({len(shares)} searches)")


if __name__ == "__main__":
    main()
