"""Kill -9 at every step of the write path, reopen, write again: nothing acknowledged is lost, nothing is there twice.

python -m tests.faults.kill --rounds 20
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from agentmem.agent_memory import AsyncAgentMemory
from agentmem.settings import Settings
from agentmem.stores.sqlite import append, erase
from agentmem.upkeep.doctor import doctor
from tests.faults import checks, victim

STEPS = (
    *append.STEPS, "vectors: before", "vectors: not committed", "vectors: after", "session: before", "session: after",
    *erase.STEPS,
)  # fmt: skip
AT_ONCE = tuple(step for step in STEPS if not step.startswith("vectors: "))  # where vectors come with the log
ANY_MOMENT = "any moment"  # the parent kills the child after a while, wherever it is
SPAWN = multiprocessing.get_context("forkserver")  # children begin with everything imported
SPAWN.set_forkserver_preload(["tests.faults.victim"])


@cache
def reference(at_once: bool = False) -> tuple[dict[str, Any], dict[str, int]]:
    """What is there after all writes when nobody is killed, and how often each step is taken."""

    async def undisturbed(home: Path) -> tuple[dict[str, Any], dict[str, int]]:
        memory, steps = await victim.open_memory(home), victim.Steps()
        victim.watch(memory, steps, at_once=at_once)
        await victim.write_all(memory)
        found = await portrait(memory)
        await memory.close()
        return found, dict(steps.seen)

    with tempfile.TemporaryDirectory(prefix="agentmem-kill-") as home:
        return asyncio.run(undisturbed(Path(home) / "home"))


async def portrait(memory: AsyncAgentMemory) -> dict[str, Any]:
    """Everything that is stored, without ids and times."""
    await checks.settled(memory)
    resources, scope = memory.resources, memory.scope
    journal = await checks.journal(resources, scope)
    records = await checks.current(resources, scope, "Turn", "Conversation", "Gloss", "Fact", "Entity", "Edge", "User")
    left = {
        "id",
        "recorded_at",
        "operation_id",
        "superseded_at",
        "superseded_by",
        "supersedes",
        "timestamp",
        "created_at",
    }
    left |= {
        "updated_at",
        "valid_from",
        "valid_to",
        "started_at",
        "stale_since",
        "first_seen",
        "consolidated",
        "entity_ids",
    }
    left |= {"source", "target"}  # of relations: ids of entities
    return {
        "journal": [(entry.operation, len(entry.puts), [one.id for one in entry.gone]) for entry in journal],
        "records": sorted((record.kind, record.model_dump_json(exclude=left)) for record in records),
        **await checks.projections(resources, scope),
    }


def kill(home: Path, step: str, nth: int, at_once: bool) -> list[str]:
    """Let a child write until it is killed; the names of what it said was acknowledged."""
    ours, theirs = SPAWN.Pipe(duplex=False)
    child = SPAWN.Process(target=victim.live, args=(str(home), step, nth, theirs, at_once))
    child.start()
    theirs.close()
    said: list[str] = []
    if step == ANY_MOMENT:
        ours.poll(30)
        time.sleep(random.Random(nth).uniform(0, 0.06))
        child.kill()
    while True:
        try:
            said.append(ours.recv())
        except (EOFError, OSError):
            break
    child.join()
    assert child.exitcode == -9 or step == ANY_MOMENT, f"{step} {nth}: ended with {child.exitcode}, not killed"
    return said


async def check(home: Path, said: list[str]) -> None:
    """Raise AssertionError unless all that was acknowledged is there, and writing again gives each thing once."""
    memory = await victim.open_memory(home)
    before = (await memory.resources.log.head(memory.scope)).seq
    for name in said:
        await victim.ACTS[name](memory, name)
    after = (await memory.resources.log.head(memory.scope)).seq
    assert before == after, f"acknowledged and lost: {after - before} of {said}"
    await victim.write_all(memory)
    found, wanted = await portrait(memory), reference()[0]
    for name, rows in wanted.items():
        assert found[name] == rows, f"{name}: {found[name]}, and undisturbed {rows}"
    await checks.healthy(memory.resources)
    await checks.rebuilt_alike(memory.resources, [memory.scope])
    await memory.close()
    bad = [finding for finding in await doctor(Settings(home=home, embedder="hash")) if finding.level != "ok"]
    assert not bad, f"doctor: {bad}"


def rounds(step: str, count: int) -> Iterator[int]:
    """At which occurrence of a step to kill, in each round: all of them in turn."""
    times = reference()[1].get(step, 10**6)
    start = 0 if step not in STEPS else STEPS.index(step) * 3
    return ((start + 5 * number) % times + 1 for number in range(count))


def one(step: str, nth: int, *, at_once: bool = False) -> int:
    """One round; how many writes had been acknowledged. `at_once`: with vectors in the log's own transaction."""
    with tempfile.TemporaryDirectory(prefix="agentmem-kill-") as folder:
        home = Path(folder) / "home"
        said = kill(home, step, nth, at_once)
        asyncio.run(check(home, said))
    return len(said)


def main(arguments: list[str] | None = None) -> int:
    """Run the matrix and print it; 1 when a round failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.kill", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20, help="how often to kill at each step (20)")
    count = parser.parse_args(arguments).rounds
    print(f"{'step':32} rounds  acknowledged  failed  seconds")
    total = 0
    rows = [(step, False) for step in (*STEPS, ANY_MOMENT)] + [(step, True) for step in (*AT_ONCE, ANY_MOMENT)]
    for step, at_once in rows:
        began, acknowledged, failed = time.perf_counter(), 0, 0
        for nth in rounds(step, count):
            try:
                acknowledged += one(step, nth, at_once=at_once)
            except AssertionError as error:
                failed += 1
                print(f"{step}, occurrence {nth}: {error}", file=sys.stderr)
        name = f"{step} (at once)" if at_once else step
        print(f"{name:32} {count:6} {acknowledged:13} {failed:7} {time.perf_counter() - began:8.1f}")
        total += failed
    return 1 if total else 0


if __name__ == "__main__":
    sys.exit(main())
