"""Two writing processes and a reading one on one file, at full speed; afterwards everything is counted.

python -m tests.faults.crowd --seconds 60
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import sys
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path

from agentmem.admin.doctor import diagnose
from agentmem.facade.async_memory import AsyncAgentMemory
from agentmem.settings.settings import Settings
from tests.fakes.as_a_model import AsyncOnlyEmbedder
from tests.faults import checks

SPAWN = multiprocessing.get_context("forkserver")
SPAWN.set_forkserver_preload(["agentmem.facade.async_memory", "agentmem.stores.sqlite"])
SHARED_CONVERSATION = "lobby"
USER = "ann"


async def _open_memory(home: str) -> AsyncAgentMemory:
    return await AsyncAgentMemory(USER, home=home, embedder="hash", dimensions=64).open()


async def _write(home: str, name: str, seconds: float, pipe: Connection) -> None:
    """Turns into a conversation of its own and a shared one, facts that both learn, a change of mind now and then.

    Only the first writer's vectors come with the log; those of the others follow.
    """
    memory, number, until = await _open_memory(home), 0, time.monotonic() + seconds
    if name != "writer0":
        served = memory.engine.vector_projections[0]
        served.embedder = AsyncOnlyEmbedder(served.embedder)
    own = memory.scoped(conversation_id=name)
    while time.monotonic() < until:
        number += 1
        await own.store_turn(f"{name} says {number}", turn_id=f"{name}-{number}")
        await own.store_turns(
            [
                {
                    "turn_id": f"{name}-{number}-{part}",
                    "content": f"{name} tells all {number}",
                    "conversation_id": SHARED_CONVERSATION,
                }
                for part in "ab"
            ]
        )
        fact = await memory.learn_fact(f"The counter stands at {number}")
        if number % 5 == 0:
            await memory.semantic.supersede_fact(fact.id, f"The counter passed {number}")
    await memory.close()
    pipe.send(number)


async def _read(home: str, seconds: float, pipe: Connection) -> None:
    """Ask all the time; what was seen once is not lost later."""
    memory, until, asked, seen = await _open_memory(home), time.monotonic() + seconds, 0, 0
    while time.monotonic() < until:
        bundle = await memory.remember("what do they tell all?", reinforce=asked % 2 == 0)
        assert not seen or bundle.turns, "turns were found before, and now none"
        head = (await memory.engine.log.head(memory.scope)).seq
        assert head >= seen, "the journal became shorter"
        asked, seen = asked + 1, head
    await memory.close()
    pipe.send(asked)


def _run_child(kind: str, home: str, seconds: float, pipe: Connection) -> None:
    asyncio.run(_read(home, seconds, pipe) if kind == "reader" else _write(home, kind, seconds, pipe))


async def _check(home: str, written: dict[str, int]) -> None:
    memory = await _open_memory(home)
    engine, scope = memory.engine, memory.scope
    await checks.check_settled(memory)
    await checks.check_journal(engine, scope)
    for name, count in written.items():
        turns = await memory.episodic.get_conversation(name, limit=10**6)
        assert [turn.content for turn in turns] == [f"{name} says {n}" for n in range(1, count + 1)]
        assert [turn.index for turn in turns] == list(range(count))
    turns = await memory.episodic.get_conversation(SHARED_CONVERSATION, limit=10**6)
    assert [turn.index for turn in turns] == list(range(2 * sum(written.values())))
    assert len({turn.id for turn in turns}) == len(turns)
    facts = await memory.semantic.facts(limit=10**6)
    assert len({fact.claim for fact in facts}) == len(facts), "two facts say the same"
    most = max(written.values())
    steps = {n for n in range(1, most + 1) if n % 5}
    assert {f"The counter stands at {n}" for n in steps} <= {fact.claim for fact in facts}
    found = await checks.read_projections(engine, scope)
    searchable = len(await checks.read_current(engine, scope, "Turn", "Fact"))
    assert len({row[0] for row in found["passages"]}) == searchable, "some records have no vector"
    await checks.check_rebuild_equal(engine, [scope])
    await checks.check_healthy(engine)
    await memory.close()


def run_processes(seconds: float, writers: int = 2) -> dict[str, int]:
    """Run it; how often each process did its round. Raises AssertionError where something is wrong."""
    with tempfile.TemporaryDirectory(prefix="agentmem-crowd-") as folder:
        home = str(Path(folder) / "home")
        children = {}
        for kind in [*(f"writer{n}" for n in range(writers)), "reader"]:
            ours, theirs = SPAWN.Pipe(duplex=False)
            children[kind] = SPAWN.Process(target=_run_child, args=(kind, home, seconds, theirs)), ours
            children[kind][0].start()
            theirs.close()
        done = {kind: pipe.recv() for kind, (_, pipe) in children.items()}
        for kind, (child, _) in children.items():
            child.join()
            assert child.exitcode == 0, f"{kind} ended with {child.exitcode}"
        asyncio.run(_check(home, {kind: count for kind, count in done.items() if kind != "reader"}))
        bad = [each for each in asyncio.run(diagnose(Settings(home=home, embedder="hash"))) if each.level != "ok"]
        assert not bad, f"doctor: {bad}"
    return done


def main(arguments: list[str] | None = None) -> int:
    """Run it and print what was done."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.crowd", description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60, help="how long they write and read (60)")
    seconds = parser.parse_args(arguments).seconds
    print(f"{seconds:g} s, rounds: {run_processes(seconds)}; no error, nothing lost")
    return 0


if __name__ == "__main__":
    sys.exit(main())
