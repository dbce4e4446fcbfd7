"""What a reranker adds that is a real model behind a program: `reranker="llm:"` with `recall_llm="command:…"`.

    python -m tests.benchmarks.rerank DATA.json [--questions 200]

The program is this file. It hands each request to a server in the measuring process, which scores the texts by late
interaction (ColBERT's MaxSim; Khattab and Zaharia 2020) of the word piece vectors of all-MiniLM-L6-v2: how near each
word piece of the question comes to its nearest in the text, on average, times ten.
"""

from __future__ import annotations

import argparse
import json
import shlex
import socket
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Sequence

    from agentmem.models.protocols import TokenEmbedder
    from tests.benchmarks.datasets import BenchmarkDialogue

ALL = 1_000_000
PATIENT = 60.0  # seconds; this measures what is found, not how soon


def answer(place: str) -> None:
    """Read one request from standard input and print the reply that the server at this socket gives."""
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(place)
        line.sendall(sys.stdin.buffer.read())
        line.shutdown(socket.SHUT_WR)
        reply = b"".join(iter(lambda: line.recv(65536), b""))
    sys.stdout.buffer.write(reply)


class Reader:
    """Word pieces of texts and their unit vectors, each text read once, and in how many turns a piece occurs."""

    def __init__(self, embedder: TokenEmbedder) -> None:
        self._embedder = embedder
        self.pieces: dict[str, tuple[Any, Any]] = {}
        self.held: Counter[int] = Counter()
        self.turns = 0

    async def know(self, turns: Sequence[str]) -> None:
        """Read the turns, which is too slow for a first question."""
        await self.read(turns)
        self.turns = len(turns)
        self.held.update(piece for text in turns for piece in set(self.pieces[text][0].tolist()))

    async def read(self, texts: Sequence[str]) -> None:
        """Read those texts that were not read before."""
        import numpy as np

        missing = list(dict.fromkeys(text for text in texts if text not in self.pieces))
        _, found = await self._embedder.embed_tokens(missing)
        for text, tokens in zip(missing, found, strict=True):
            wide = tokens.vectors.astype(np.float32)
            self.pieces[text] = tokens.ids, wide / np.maximum(np.linalg.norm(wide, axis=1, keepdims=True), 1e-6)


class MaxSim:
    """Scores texts for a question; `asked` counts the requests.

    With `rarity` a word piece of the question counts by its inverse document frequency among the turns, else all alike.
    """

    def __init__(self, reader: Reader, *, rarity: bool) -> None:
        self._reader = reader
        self._rarity = rarity
        self.asked = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request of the reranker `llm:`."""
        request = json.loads(json.loads(await reader.read())["content"])
        self.asked += 1
        texts = request["texts"]
        scores = await self.scores(request["question"], list(texts.values()))
        reply = [{"number": int(number), "score": score} for number, score in zip(texts, scores, strict=True)]
        writer.write(json.dumps({"scores": reply}).encode())
        await writer.drain()
        writer.close()

    async def scores(self, question: str, texts: Sequence[str]) -> list[float]:
        """0 to 10 for each text."""
        import numpy as np

        known = self._reader
        await known.read([question, *texts])
        ids, asked = known.pieces[question]
        held = np.array([known.held[piece] for piece in ids.tolist()])
        weights = np.log1p((known.turns - held + 0.5) / (held + 0.5)) if self._rarity else np.ones(len(ids))
        found = [(asked @ known.pieces[text][1].T).max(axis=1, initial=0.0) for text in texts]
        return [float(10 * (weights @ nearest) / max(weights.sum(), 1e-9)) for nearest in found]


async def measure(data: Path, questions: int, folder: Path) -> str:
    """A table of what was reached without and with the reranker, and of the differences, paired over questions."""
    import asyncio
    from contextlib import AsyncExitStack

    from agentmem.engine.opening import build_embedder_options
    from agentmem.models.protocols import TokenEmbedder
    from agentmem.models.registry import open_embedder
    from agentmem.settings.settings import load_settings
    from tests.benchmarks import recall, report
    from tests.benchmarks.datasets import load_dialogues
    from tests.benchmarks.target import MemoryFactory

    embedder = open_embedder("local", build_embedder_options(load_settings(home=folder)))
    assert isinstance(embedder, TokenEmbedder)
    asked = _spread(load_dialogues([data]), questions)
    reader = Reader(embedder)
    await reader.know([f"{turn['speaker']}: {turn['content']}" for one in asked for turn in one.turns])
    models = {"MaxSim": MaxSim(reader, rarity=False), "MaxSim by rarity": MaxSim(reader, rarity=True)}
    configurations = [recall.Configuration("none")]
    async with AsyncExitStack() as open_servers:
        for number, (name, model) in enumerate(models.items()):
            place = str(folder / f"socket{number}")
            await open_servers.enter_async_context(await asyncio.start_unix_server(model.serve, place))
            for bound, most in (("", 2), (", no bound", 100)):
                settings = {"reranker": "llm:", "recall_llm": f"command:{program(place)}"}
                options = {"recall": {"reranker": {"deadline": PATIENT}}}
                fall = {"agentmem.recall.reranking.MAX_FALL": most}
                configurations.append(recall.Configuration(name + bound, {**settings, **options}, fall))
        result = await recall.evaluate(MemoryFactory(str(folder), "local"), asked, configurations, context_tokens=0)
    total = sum(len(one.questions) for one in asked)
    reached = sum(model.asked for model in models.values())
    told = f"{total} questions; {reached} of {total * (len(configurations) - 1)} requests reached a model"
    scores = [reading.scores for reading in result.runs]
    rows = [{"reranker": one.name, **report.group_rows(one)[0]} for one in scores]
    return "\n\n".join([told, report.render_table(rows), report.render_table(report.difference_rows(scores))])


def program(place: str) -> str:
    """The command line of the program that asks the server at this socket."""
    return shlex.join([sys.executable, "-S", str(Path(__file__).resolve()), "--answer", place])


def _spread(dialogues: list[BenchmarkDialogue], questions: int) -> list[BenchmarkDialogue]:
    """The dialogues with so many of their questions that count, spread over all of them; 0 for all."""
    each = -(-questions // len(dialogues)) or ALL
    found = []
    for one in dialogues:
        step = max(1, len(one.scored_questions) // each)
        found.append(replace(one, questions=one.scored_questions[::step][:each]))
    return found


def main() -> None:
    """Measure, or answer one request."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--answer", metavar="SOCKET", help="answer one request of the reranker")
    parser.add_argument("--questions", type=int, default=0, help="ask about so many, spread over the dialogues")
    parser.add_argument("data", type=Path, nargs="?")
    given = parser.parse_args()
    if given.answer:
        answer(given.answer)
        return
    if given.data is None:
        parser.error("name a LoCoMo-shaped file")
    import asyncio
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        print(asyncio.run(measure(given.data, given.questions, Path(folder))))


if __name__ == "__main__":
    main()
