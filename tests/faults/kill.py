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

from agentmem.admin.doctor import diagnose
from agentmem.facade.async_memory import AsyncAgentMemory
from agentmem.settings.settings import Settings
from agentmem.stores.sql import erase
from agentmem.stores.sqlite import write
from tests.faults import checks, victim

STEPS = (
    *write.STEPS,
    "vectors: before",
    "vectors: not committed",
    "vectors: after",
    "session: before",
    "session: after",
    *erase.STEPS,
)
# where vectors come with the log
INLINE_VECTOR_STEPS = tuple(step for step in STEPS if not step.startswith("vectors: "))
ANY_MOMENT = "any moment"  # the parent kills the child after a while, wherever it is
SPAWN = multiprocessing.get_context("forkserver")  # children begin with everything imported
SPAWN.set_forkserver_preload(["tests.faults.victim"])


@cache
def run_reference(inline_vectors: bool = False) -> tuple[dict[str, Any], dict[str, int]]:
    """What is there after all writes when nobody is killed, and how often each step is taken."""

    async def undisturbed(home: Path) -> tuple[dict[str, Any], dict[str, int]]:
        memory, steps = await victim.open_memory(home), victim.StepCounter()
        victim.instrument(memory, steps, inline_vectors=inline_vectors)
        await victim.write_all(memory)
        found = await read_snapshot(memory)
        await memory.close()
        return found, dict(steps.counts)

    with tempfile.TemporaryDirectory(prefix="agentmem-kill-") as home:
        return asyncio.run(undisturbed(Path(home) / "home"))


async def read_snapshot(memory: AsyncAgentMemory) -> dict[str, Any]:
    """Everything that is stored, without ids and times."""
    await checks.check_settled(memory)
    engine, scope = memory.engine, memory.scope
    journal = await checks.check_journal(engine, scope)
    records = await checks.read_current(
        engine, scope, "Turn", "Conversation", "Gloss", "Fact", "Entity", "Edge", "User"
    )
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
        "said_at",
        "first_said_at",
        "entity_ids",
        "subject_entity_id",
        "value_entity_id",
    }
    left |= {"source", "target"}  # of relations: ids of entities
    return {
        "journal": [(entry.operation, len(entry.upserts), [one.id for one in entry.removals]) for entry in journal],
        "records": sorted((record.kind, record.model_dump_json(exclude=left)) for record in records),
        **await checks.read_projections(engine, scope),
    }


def kill(home: Path, step: str, nth: int, inline_vectors: bool) -> list[str]:
    """Let a child write until it is killed; the names of what it said was acknowledged."""
    ours, theirs = SPAWN.Pipe(duplex=False)
    child = SPAWN.Process(target=victim.run_child, args=(str(home), step, nth, theirs, inline_vectors))
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


async def check(home: Path, acknowledged: list[str]) -> None:
    """Raise AssertionError unless all that was acknowledged is there, and writing again gives each thing once."""
    memory = await victim.open_memory(home)
    before = (await memory.engine.log.head(memory.scope)).seq
    for name in acknowledged:
        await victim.ACTIONS[name](memory, name)
    after = (await memory.engine.log.head(memory.scope)).seq
    assert before == after, f"acknowledged and lost: {after - before} of {acknowledged}"
    await victim.write_all(memory)
    found, wanted = await read_snapshot(memory), run_reference()[0]
    for name, rows in wanted.items():
        assert found[name] == rows, f"{name}: {found[name]}, and undisturbed {rows}"
    await checks.check_healthy(memory.engine)
    await checks.check_rebuild_equal(memory.engine, [memory.scope])
    await memory.close()
    bad = [finding for finding in await diagnose(Settings(home=home, embedder="hash")) if finding.level != "ok"]
    assert not bad, f"doctor: {bad}"


def occurrences(step: str, count: int) -> Iterator[int]:
    """At which occurrence of a step to kill, in each round: all of them in turn."""
    times = run_reference()[1].get(step, 10**6)
    start = 0 if step not in STEPS else STEPS.index(step) * 3
    return ((start + 5 * number) % times + 1 for number in range(count))


def run_round(step: str, nth: int, *, inline_vectors: bool = False) -> int:
    """One round; how many writes had been acknowledged. `inline_vectors`: with vectors in the log's own transaction."""
    with tempfile.TemporaryDirectory(prefix="agentmem-kill-") as folder:
        home = Path(folder) / "home"
        said = kill(home, step, nth, inline_vectors)
        asyncio.run(check(home, said))
    return len(said)


def main(arguments: list[str] | None = None) -> int:
    """Run the matrix and print it; 1 when a round failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.kill", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20, help="how often to kill at each step (20)")
    count = parser.parse_args(arguments).rounds
    print(f"{'step':32} rounds  acknowledged  failed  seconds")
    total = 0
    rows = [(step, False) for step in (*STEPS, ANY_MOMENT)] + [
        (step, True) for step in (*INLINE_VECTOR_STEPS, ANY_MOMENT)
    ]
    for step, at_once in rows:
        began, acknowledged, failed = time.perf_counter(), 0, 0
        for nth in occurrences(step, count):
            try:
                acknowledged += run_round(step, nth, inline_vectors=at_once)
            except AssertionError as error:
                failed += 1
                print(f"{step}, occurrence {nth}: {error}", file=sys.stderr)
        name = f"{step} (at once)" if at_once else step
        print(f"{name:32} {count:6} {acknowledged:13} {failed:7} {time.perf_counter() - began:8.1f}")
        total += failed
    return 1 if total else 0


if __name__ == "__main__":
    sys.exit(main())
