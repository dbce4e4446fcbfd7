"""`python -m tests.benchmarks.langgraph_store`: recalls and durable writes beside LangGraph's SQLite store.

Both keep the same turns in a file and use the same embedder, and take turns in one run, so that a busy machine slows
both. The peer is in the extra `dev`; where Python's own sqlite3 loads no extensions, install `pysqlite3-binary`, too.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import click

from agentmem import AgentMemory
from agentmem.core.event_loop import BACKGROUND_LOOP
from agentmem.core.input_fields import TurnInput
from agentmem.engine.opening import build_embedder_options
from agentmem.models.registry import open_embedder
from agentmem.settings.settings import load_settings
from tests.benchmarks.synthetic import SyntheticConversations

NAMESPACE = ("user", "turns")
SHOWN = 10  # results of a search
PUTS_AT_ONCE = 500


@contextmanager
def open_peer(path: Path, embed: Callable[[Sequence[str]], list[list[float]]], dimensions: int) -> Iterator[Any]:
    """LangGraph's store on a file, with an index over the text of each item."""
    with suppress(ImportError):
        import pysqlite3

        sys.modules["sqlite3"] = pysqlite3
    try:
        from langgraph.store.sqlite import SqliteStore
    except ImportError as error:
        raise click.ClickException("the peer is missing; run: pip install langgraph-checkpoint-sqlite") from error
    index = {"dims": dimensions, "embed": embed, "fields": ["text"]}
    with SqliteStore.from_conn_string(str(path), index=index) as store:
        store.setup()
        yield store


def measure_ms(call: Callable[[], object]) -> float:
    """How long a call takes, in milliseconds."""
    begun = time.perf_counter()
    call()
    return 1000 * (time.perf_counter() - begun)


def compare(name: str, ours: Sequence[float], theirs: Sequence[float]) -> str:
    """A line with both medians and their ratio."""
    own, other = median(ours), median(theirs)
    return f"{name}: agentmem {own:.2f} ms, LangGraph {other:.2f} ms, ratio {own / other:.2f}"


def fill(memory: AgentMemory, store: Any, turns: Sequence[TurnInput]) -> None:
    """Store the same turns in both."""
    from langgraph.store.base import PutOp

    for start in range(0, len(turns), PUTS_AT_ONCE):
        some = turns[start : start + PUTS_AT_ONCE]
        memory.store_turns(some)
        store.batch([PutOp(NAMESPACE, f"t{start + n}", {"text": turn["content"]}) for n, turn in enumerate(some)])
    memory.flush()


def run(folder: Path, turns: int, rounds: int, embedder: str) -> Iterator[str]:
    """Fill both with so many turns, then measure in turn."""
    settings = load_settings(home=folder / "home", embedder=embedder)
    model = open_embedder(embedder, build_embedder_options(settings))

    def embed(texts: Sequence[str]) -> list[list[float]]:
        return [vector.tolist() for vector in BACKGROUND_LOOP.run(model.embed(list(texts)))]

    said = list(SyntheticConversations().generate_turns(turns + rounds))
    questions = SyntheticConversations(1).generate_questions(rounds)
    with (
        AgentMemory("user", settings=settings) as memory,
        open_peer(folder / "peer.db", embed, model.dimensions) as store,
    ):
        fill(memory, store, said[:turns])
        for question in questions[:5]:
            memory.remember(question, top_k=SHOWN)
            store.search(NAMESPACE, query=question, limit=SHOWN)
        searches: tuple[list[float], list[float]] = [], []
        writes: tuple[list[float], list[float]] = [], []
        for question in questions:
            searches[0].append(measure_ms(lambda q=question: memory.remember(q, top_k=SHOWN)))
            searches[1].append(measure_ms(lambda q=question: store.search(NAMESPACE, query=q, limit=SHOWN)))
        for n, turn in enumerate(said[turns:]):
            writes[0].append(measure_ms(lambda t=turn: memory.store_turns([t])))
            item = {"text": turn["content"]}
            writes[1].append(measure_ms(lambda k=f"w{n}", v=item: store.put(NAMESPACE, k, v)))
    yield compare(f"recall of {turns:,} turns, p50", *searches)
    yield compare(f"durable write after {turns:,} turns, p50", *writes)


@click.command()
@click.option("--turns", multiple=True, default=(600, 10_000), show_default=True, help="Turns that both hold.")
@click.option("--rounds", default=200, show_default=True, help="Questions, and then writes.")
@click.option("--embedder", default="local", show_default=True, help="The embedder of both.")
def main(turns: Sequence[int], rounds: int, embedder: str) -> None:
    """Measure recalls and durable writes of both stores, in turn."""
    for count in turns:
        with TemporaryDirectory() as folder:
            for line in run(Path(folder), count, rounds, embedder):
                click.echo(line)


if __name__ == "__main__":
    main()
