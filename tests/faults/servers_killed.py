"""Clients of servers that are killed at every step of a write: what was acknowledged is there, once, and follows."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from agentmem.facade.async_memory import AsyncAgentMemory
from agentmem.jobs.builtin.sync_projections import sync_projections
from agentmem.stores.postgres import write
from tests.faults import checks, servers_checks, victim

STEPS = (
    "append: before",
    *write.STEPS,
    "vectors: before",
    "vectors: after",
    "graph: before",
    "graph: after",
    "session: before",
    "session: after",
)
SPAWN = multiprocessing.get_context("forkserver")  # children begin with everything imported
SPAWN.set_forkserver_preload([__name__])
MAX_OCCURRENCES = {
    "graph: before": 1,
    "graph: after": 1,
    "session: before": 4,
    "session: after": 4,
}  # occurrences to choose among
# by a new client alone, without a projector
SELF_HEALING_STEPS = ("records", "committed", "vectors: before", "graph: before")
# One of each kind: healed by a new client, and by the projector. `make nightly` takes all of them. The embedded file is
# killed at each of its steps in `make test`, too.
DAILY_STEPS = ("committed", "graph: after")


@dataclass(frozen=True, slots=True)
class KilledClient:
    """One client that was killed: its user, and the names of the writes that it said were acknowledged."""

    step: str
    user: str
    acknowledged: Sequence[str]


async def _run_child(user: str, urls: dict[str, Any], home: Path, at: tuple[str, int], on_acknowledged: Any) -> None:
    memory = await servers_checks.build_memory(user, urls, home).open()
    servers_checks.instrument(memory, victim.StepCounter(*at), inline_vectors=servers_checks.has_inline_vectors(at[0]))
    await victim.write_all(memory, on_acknowledged)
    await memory.close()


def run_child(user: str, urls: dict[str, Any], home: str, at: tuple[str, int], pipe: Connection) -> None:
    """What a child process runs."""
    asyncio.run(_run_child(user, urls, Path(home), at, pipe.send))


def kill(step: str, nth: int, urls: Mapping[str, str], home: Path) -> KilledClient:
    """Let a child write until it is killed at the n-th occurrence of a step."""
    user = f"{step} {os.urandom(4).hex()}"
    ours, theirs = SPAWN.Pipe(duplex=False)
    child = SPAWN.Process(target=run_child, args=(user, dict(urls), str(home), (step, nth), theirs))
    child.start()
    theirs.close()
    said: list[str] = []
    while True:
        try:
            said.append(ours.recv())
        except (EOFError, OSError):
            break
    child.join()
    ours.close()
    assert child.exitcode == -9, f"{step} {nth}: ended with {child.exitcode}, not killed"
    return KilledClient(step, user, said)


def occurrence(step: str, number: int) -> int:
    """At which occurrence of a step to kill in a round of this number."""
    return (3 * STEPS.index(step) + 5 * number) % MAX_OCCURRENCES.get(step, 8) + 1


async def run_reference(urls: Mapping[str, str], home: Path) -> dict[str, Any]:
    """What is there after all writes when nobody is killed."""
    async with servers_checks.build_memory(f"undisturbed {os.urandom(4).hex()}", dict(urls), home) as memory:
        await victim.write_all(memory)
        await checks.check_settled(memory)
        await servers_checks.check_complete(memory.engine, memory.scope)
        return await servers_checks.read_snapshot(memory)


async def check(memory: AsyncAgentMemory, killed: KilledClient, wanted: Mapping[str, Any]) -> None:
    """Raise AssertionError unless all that was acknowledged is there, and writing again gives each thing once."""
    assert set((await memory.lag()).values()) == {0}, f"lag {await memory.lag()}"
    before = (await memory.engine.log.head(memory.scope)).seq
    for name in killed.acknowledged:
        await victim.ACTIONS[name](memory, name)
    after = (await memory.engine.log.head(memory.scope)).seq
    assert before == after, f"acknowledged and lost: {after - before} of {killed.acknowledged}"
    await victim.write_all(memory)
    await checks.check_settled(memory)
    await servers_checks.check_complete(memory.engine, memory.scope)
    found = await servers_checks.read_snapshot(memory)
    for name, rows in wanted.items():
        assert found[name] == rows, f"{name}: {found[name]}, and undisturbed {rows}"


async def _wait_until_synced(memory: AsyncAgentMemory) -> None:
    """A new client asks; that is enough for what the killed one left undone."""
    async with asyncio.timeout(60):
        while set((await memory.lag()).values()) != {0}:
            await memory.remember("bees", reinforce=False)


async def check_all(
    clients: Sequence[KilledClient], urls: Mapping[str, str], home: Path
) -> list[tuple[KilledClient, float, str]]:
    """For each: seconds until it had caught up, and what is wrong."""
    wanted, out = await run_reference(urls, home), []
    async with servers_checks.build_memory("another", dict(urls), home, recall_rate=0) as memory:
        for killed in sorted(clients, key=lambda killed: killed.step not in SELF_HEALING_STEPS):
            own, began = memory.scoped(user_id=killed.user, conversation_id="talk"), time.monotonic()
            try:
                if killed.step in SELF_HEALING_STEPS:
                    await _wait_until_synced(own)
                else:
                    await sync_projections(memory.engine)  # for all of them; the next ones find nothing to do
                seconds = time.monotonic() - began
                await check(own, killed, wanted)
            except (AssertionError, TimeoutError) as error:
                out.append((killed, time.monotonic() - began, f"{type(error).__name__}: {error}"))
            else:
                out.append((killed, seconds, ""))
    return out
