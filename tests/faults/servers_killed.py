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

from agentmem.agent_memory import AsyncAgentMemory
from agentmem.consolidation.project import project
from agentmem.stores.postgres import append
from tests.faults import checks, servers_checks, victim

STEPS = (
    "append: before", *append.STEPS, "vectors: before", "vectors: after", "graph: before", "graph: after",
    "session: before", "session: after",
)  # fmt: skip
SPAWN = multiprocessing.get_context("forkserver")  # children begin with everything imported
SPAWN.set_forkserver_preload([__name__])
OFTEN = {
    "graph: before": 1,
    "graph: after": 1,
    "session: before": 4,
    "session: after": 4,
}  # occurrences to choose among
BY_ITSELF = ("records", "committed", "vectors: before", "graph: before")  # by a new client alone, without a projector


@dataclass(frozen=True, slots=True)
class Killed:
    """One client that was killed: its user, and the names of the writes that it said were acknowledged."""

    step: str
    user: str
    said: Sequence[str]


async def _live(user: str, urls: dict[str, Any], home: Path, at: tuple[str, int], told: Any) -> None:
    memory = await servers_checks.opened(user, urls, home).open()
    servers_checks.watch(memory, victim.Steps(*at), at_once=servers_checks.comes_at_once(at[0]))
    await victim.write_all(memory, told)
    await memory.close()


def live(user: str, urls: dict[str, Any], home: str, at: tuple[str, int], pipe: Connection) -> None:
    """What a child process runs."""
    asyncio.run(_live(user, urls, Path(home), at, pipe.send))


def kill(step: str, nth: int, urls: Mapping[str, str], home: Path) -> Killed:
    """Let a child write until it is killed at the n-th occurrence of a step."""
    user = f"{step} {os.urandom(4).hex()}"
    ours, theirs = SPAWN.Pipe(duplex=False)
    child = SPAWN.Process(target=live, args=(user, dict(urls), str(home), (step, nth), theirs))
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
    return Killed(step, user, said)


def occurrence(step: str, number: int) -> int:
    """At which occurrence of a step to kill in a round of this number."""
    return (3 * STEPS.index(step) + 5 * number) % OFTEN.get(step, 8) + 1


async def reference(urls: Mapping[str, str], home: Path) -> dict[str, Any]:
    """What is there after all writes when nobody is killed."""
    async with servers_checks.opened(f"undisturbed {os.urandom(4).hex()}", dict(urls), home) as memory:
        await victim.write_all(memory)
        await checks.settled(memory)
        await servers_checks.whole(memory.resources, memory.scope)
        return await servers_checks.portrait(memory)


async def check(memory: AsyncAgentMemory, killed: Killed, wanted: Mapping[str, Any]) -> None:
    """Raise AssertionError unless all that was acknowledged is there, and writing again gives each thing once."""
    assert set((await memory.lag()).values()) == {0}, f"lag {await memory.lag()}"
    before = (await memory.resources.log.head(memory.scope)).seq
    for name in killed.said:
        await victim.ACTS[name](memory, name)
    after = (await memory.resources.log.head(memory.scope)).seq
    assert before == after, f"acknowledged and lost: {after - before} of {killed.said}"
    await victim.write_all(memory)
    await checks.settled(memory)
    await servers_checks.whole(memory.resources, memory.scope)
    found = await servers_checks.portrait(memory)
    for name, rows in wanted.items():
        assert found[name] == rows, f"{name}: {found[name]}, and undisturbed {rows}"


async def _caught_up(memory: AsyncAgentMemory) -> None:
    """A new client asks; that is enough for what the killed one left undone."""
    async with asyncio.timeout(60):
        while set((await memory.lag()).values()) != {0}:
            await memory.remember("bees", reinforce=False)


async def verdicts(those: Sequence[Killed], urls: Mapping[str, str], home: Path) -> list[tuple[Killed, float, str]]:
    """For each: seconds until it had caught up, and what is wrong."""
    wanted, out = await reference(urls, home), []
    async with servers_checks.opened("another", dict(urls), home, recall_rate=0) as memory:
        for killed in sorted(those, key=lambda killed: killed.step not in BY_ITSELF):
            own, began = memory.scoped(user_id=killed.user, conversation_id="talk"), time.monotonic()
            try:
                if killed.step in BY_ITSELF:
                    await _caught_up(own)
                else:
                    await project(memory.resources)  # for all of them; the next ones find nothing to do
                seconds = time.monotonic() - began
                await check(own, killed, wanted)
            except (AssertionError, TimeoutError) as error:
                out.append((killed, time.monotonic() - began, f"{type(error).__name__}: {error}"))
            else:
                out.append((killed, seconds, ""))
    return out
