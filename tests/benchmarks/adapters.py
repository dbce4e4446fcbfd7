"""`python -m tests.benchmarks.adapters`: adapters beside the stores on SQLite that their frameworks bring.

Both sides keep the same values in files, use the same embedder, and take turns in one run. The peers are in the extra
`dev`; where Python's own sqlite3 loads no extensions, install `pysqlite3-binary`, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import click

from agentmem import AgentMemory
from agentmem.core.event_loop import BACKGROUND_LOOP
from agentmem.engine.opening import build_embedder_options
from agentmem.models.registry import open_embedder
from agentmem.settings.settings import load_settings
from tests.benchmarks.langgraph_store import NAMESPACE, PUTS_AT_ONCE, compare, measure_ms, open_peer
from tests.benchmarks.synthetic import SyntheticConversations

ITEMS = 1_000  # of a session


def compare_stores(folder: Path, documents: int, rounds: int, embedder: str) -> Iterator[str]:
    """Puts and searches of LangGraph's store, with so many documents in it."""
    from agentmem.adapters.langgraph import AgentMemStore

    settings = load_settings(home=folder / "home", embedder=embedder)
    model = open_embedder(embedder, build_embedder_options(settings))
    said = [turn["content"] for turn in SyntheticConversations().generate_turns(documents + rounds)]
    questions = SyntheticConversations(1).generate_questions(rounds)

    def embed(texts: Sequence[str]) -> list[list[float]]:
        return [vector.tolist() for vector in BACKGROUND_LOOP.run(model.embed(list(texts)))]

    with (
        AgentMemory("user", settings=settings) as memory,
        open_peer(folder / "peer.db", embed, model.dimensions) as peer,
    ):
        stores = (AgentMemStore(memory, fields=["text"]), peer)
        yield compare(f"put {PUTS_AT_ONCE}, until they are found", *fill(memory, stores, said[:documents]))
        asks: dict[str, Callable[[Any, int], object]] = {
            "search by a query": lambda store, n: store.search(NAMESPACE, query=questions[n]),
            "search by a query and a filter": lambda store, n: store.search(
                NAMESPACE, query=questions[n], filter={"n": {"$gt": documents // 2}}
            ),
            "search by a filter": lambda store, n: store.search(NAMESPACE, filter={"n": {"$gt": documents // 2}}),
            "the last written": lambda store, n: store.search(NAMESPACE),
            "get": lambda store, n: store.get(NAMESPACE, f"d{n}"),
            "put": lambda store, n: store.put(NAMESPACE, f"w{n}", {"text": said[documents + n], "n": n}),
            "put again": lambda store, n: store.put(NAMESPACE, f"d{n}", {"text": said[documents + n], "n": n}),
        }
        for name, ask in asks.items():
            took: tuple[list[float], list[float]] = [], []
            for n in range(rounds):
                for store, times in zip(stores, took, strict=True):
                    times.append(measure_ms(lambda a=ask, s=store, n=n: a(s, n)))
            yield compare(f"{name}, {documents:,} documents, p50", *took)


def fill(memory: AgentMemory, stores: tuple[Any, Any], texts: Sequence[str]) -> tuple[list[float], list[float]]:
    """Put the texts into both; milliseconds of each batch."""
    from langgraph.store.base import PutOp

    took: tuple[list[float], list[float]] = [], []
    for start in range(0, len(texts), PUTS_AT_ONCE):
        some = texts[start : start + PUTS_AT_ONCE]
        ops = [PutOp(NAMESPACE, f"d{start + n}", {"text": text, "n": start + n}) for n, text in enumerate(some)]
        took[0].append(measure_ms(lambda o=ops: (stores[0].batch(o), memory.flush())))
        took[1].append(measure_ms(lambda o=ops: stores[1].batch(o)))
    return took


async def compare_sessions(folder: Path, rounds: int) -> list[str]:
    """Reads of a session of the OpenAI Agents SDK."""
    from agents import SQLiteSession

    from agentmem.adapters.openai_agents import AgentMemSession

    said = [turn["content"] for turn in SyntheticConversations().generate_turns(ITEMS + rounds)]
    items: list[Any] = [{"role": ("user", "assistant")[n % 2], "content": text} for n, text in enumerate(said)]
    with AgentMemory("user", home=folder / "home", embedder="hash") as memory:
        sessions = (AgentMemSession("s", memory), SQLiteSession("s", folder / "peer.db"))
        for session in sessions:
            for start in range(0, ITEMS, 2):
                await session.add_items(items[start : start + 2])
        again = await _time(sessions, rounds, lambda session, n: session.get_items())
        grown: tuple[list[float], list[float]] = [], []
        for n in range(rounds):
            for session, times in zip(sessions, grown, strict=True):
                await session.add_items([items[ITEMS + n]])
                times += (await _time([session], 1, lambda one, _: one.get_items()))[0]
        last = await _time(sessions, rounds, lambda session, n: session.get_items(20))
    return [
        compare(f"all of {ITEMS:,} items, p50", *again),
        compare(f"all of {ITEMS:,} items after one was added, p50", *grown),
        compare("the last 20 items, p50", *last),
    ]


async def _time(
    sessions: Sequence[Any], rounds: int, call: Callable[[Any, int], Awaitable[object]]
) -> list[list[float]]:
    """Milliseconds of a call on each session, in turn."""
    took: list[list[float]] = [[] for _ in sessions]
    for n in range(rounds):
        for session, times in zip(sessions, took, strict=True):
            begun = perf_counter()
            await call(session, n)
            times.append(1000 * (perf_counter() - begun))
    return took


@click.command()
@click.option("--documents", default=10_000, show_default=True, help="Documents that both stores hold.")
@click.option("--rounds", default=100, show_default=True, help="Calls of each kind.")
@click.option("--embedder", default="local", show_default=True, help="The embedder of both stores.")
def main(documents: int, rounds: int, embedder: str) -> None:
    """Measure LangGraph's store and the session of the OpenAI Agents SDK, each beside its peer."""
    with TemporaryDirectory() as folder:
        for line in compare_stores(Path(folder), documents, rounds, embedder):
            click.echo(line)
    with TemporaryDirectory() as folder:
        for line in asyncio.run(compare_sessions(Path(folder), rounds)):
            click.echo(line)


if __name__ == "__main__":
    main()
