"""A seeded simulation: several writers, stores that fail in every way, virtual time; then the promises are checked.

python -m tests.faults.simulate --seeds 2000      many seeds
python -m tests.faults.simulate --seed 17         one of them, with everything that happened
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from agentmem.core.clock import SeededIds
from agentmem.facade.async_memory import AsyncAgentMemory
from agentmem.models.retry import CIRCUIT_OPEN_SECONDS
from tests.faults import checks
from tests.faults.faulty import FaultInjector, inject_faults
from tests.faults.model import IntendedWrite, ReferenceModel, replay_journal, to_model_state
from tests.faults.virtual import VirtualClock, run
from tests.faults.writers import THINGS, KnownIds, Writer, user_word

USERS = ("ann", "bob", "cleo")
PROCESSES = 2
WRITERS = 3
WRITES = 9  # of each writer
MEMORY = Path("/dev/shm")


async def _open_memory(home: Path, clock: VirtualClock, seed: int, number: int) -> AsyncAgentMemory:
    memory = await AsyncAgentMemory(USERS[0], home=home, embedder="hash", dimensions=32, clock=clock).open()
    memory.engine.ids = SeededIds(clock, seed, number)  # a seed in the settings would switch off all deadlines
    return memory


async def _simulate(home: Path, clock: VirtualClock, seed: int, faults: FaultInjector) -> list[IntendedWrite]:
    notes = {user: KnownIds() for user in USERS[: 2 + seed % 2]}
    memories = [await _open_memory(home, clock, seed, number) for number in range(PROCESSES)]
    plain = [(memory.engine.log, memory.engine.session) for memory in memories]
    for memory in memories:
        inject_faults(memory.engine, faults)
    under_way: set[str] = set()
    writers = [
        Writer(f"w{n}", memories[n % PROCESSES], faults, clock, notes, random.Random(f"{n} of {seed}"), under_way)
        for n in range(WRITERS)
    ]
    await asyncio.gather(*(writer.run(WRITES) for writer in writers))
    faults.rate = 0.0
    writes = [write for writer in writers for write in writer.writes]
    for memory, (log, session) in zip(memories, plain, strict=True):
        memory.engine.log, memory.engine.session = log, session
        await check(memory, list(notes), writes, faults)
    fresh = await _open_memory(home, clock, seed, PROCESSES)
    for user, model in (await check(fresh, list(notes), writes, faults)).items():
        await check_found_by_terms(fresh.scoped(user_id=user), user, model)
    await asyncio.sleep(CIRCUIT_OPEN_SECONDS)  # so long do recalls leave a model alone that did not answer
    with clock.hold():  # scores fade with the time since a record was last delivered
        await _check_same_answers([*memories, fresh], list(notes))
    await checks.check_rebuild_equal(fresh.engine, [fresh.scoped(user_id=user).scope for user in notes])
    await checks.check_healthy(fresh.engine)
    for memory in (*memories, fresh):
        await memory.close()
    return writes


async def check(
    memory: AsyncAgentMemory, users: list[str], writes: list[IntendedWrite], faults: FaultInjector
) -> dict[str, ReferenceModel]:
    """Compare what a memory holds with the model of each user; the models."""
    models = {}
    for user in users:
        mine = memory.scoped(user_id=user)
        await checks.check_settled(mine)
        journal = await checks.check_journal(memory.engine, mine.scope)
        entries = [faults.committed_entries.get((user, entry.seq), entry) for entry in journal]
        models[user] = model = replay_journal(entries, [write for write in writes if write.user == user])
        found = to_model_state(await checks.read_current(memory.engine, mine.scope, "Turn", "Fact"))
        assert found == model.state, f"{user}: {set(found.items()) ^ set(model.state.items())}"
    return models


async def check_found_by_terms(mine: AsyncAgentMemory, user: str, model: ReferenceModel) -> None:
    """What is known now is found by its words; what is retired, erased or somebody else's is not."""
    facts, turns = model.facts(), model.turns()
    for thing in THINGS:
        claim = f"{user_word(user)} likes {thing}"
        bundle = await mine.remember(claim, top_k=100, reinforce=False)
        given = {fact.id for fact in bundle.facts}
        assert given <= {name for name, known in facts.items() if known.status == "active"}, "a retired fact came back"
        assert given >= set(model.current_facts(claim)), f"{claim} is known and was not found"
        said = {name for name, turn in turns.items() if turn.status == "active"}
        about = {name for name in said if f" {thing} " in turns[name].text}
        assert about <= {turn.id for turn in bundle.turns} <= said, f"turns about {thing}"


async def _check_same_answers(memories: list[AsyncAgentMemory], users: list[str]) -> None:
    """Caches that lived through it all answer like fresh ones at the same moment."""
    for user in users:
        answers = []
        for memory in memories:
            bundle = await memory.scoped(user_id=user).remember("who talks of figs?", top_k=100, reinforce=False)
            answers.append([(item.record.key, item.score) for item in bundle.items])
        assert all(answer == answers[-1] for answer in answers), f"{user}: {answers}"


@dataclass
class Report:
    """What happened, line by line; how many writes came out how; and how often each store failed in which way."""

    trace: list[str] = field(default_factory=list)
    writes: Counter[str] = field(default_factory=Counter)
    faults: Counter[tuple[str, str]] = field(default_factory=Counter)


def simulate(seed: int) -> Report:
    """One run. Raises, with what happened and how to see it again, where a promise is broken."""
    faults = FaultInjector(seed, rate=random.Random(f"rate {seed}").choice([0.0, 0.02, 0.05, 0.1]))
    folder = MEMORY if MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(dir=folder, prefix="agentmem-simulation-") as home:
        try:
            writes = run(lambda clock: _simulate(Path(home), clock, seed, faults), seed)
        except BaseException as error:
            error.add_note("\n".join(faults.trace))
            error.add_note(f"to see it again: python -m tests.faults.simulate --seed {seed}")
            raise
    return Report(faults.trace, Counter(write.outcome for write in writes), faults.counts)


def main(arguments: list[str] | None = None) -> int:
    """Run seeds; 1 when a promise was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.simulate", description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=200, help="how many seeds to run, from --first on (200)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (0)")
    parser.add_argument("--seed", type=int, help="run this one and print everything that happened")
    asked = parser.parse_args(arguments)
    if asked.seed is not None:
        report = simulate(asked.seed)
        print("\n".join(report.trace), dict(report.writes), sep="\n")
        return 0
    return 1 if _many(range(asked.first, asked.first + asked.seeds)) else 0


def _many(seeds: range) -> list[int]:
    """Run them all; those that failed."""
    started, failed, total = time.perf_counter(), list[int](), Report()
    for seed in seeds:
        try:
            report = simulate(seed)
            total.writes += report.writes
            total.faults += report.faults
        except Exception as error:  # noqa: BLE001  whatever it is, the other seeds are run too
            failed.append(seed)
            print(f"seed {seed}: {type(error).__name__}: {error}", file=sys.stderr)
            if len(failed) == 1:
                traceback.print_exc()
        if (seed + 1) % 500 == 0:
            print(f"{seed + 1 - seeds.start} seeds, {time.perf_counter() - started:.0f} s", flush=True)
    writes = ", ".join(f"{count:,} {outcome}" for outcome, count in sorted(total.writes.items()))
    print(f"{len(seeds):,} seeds in {time.perf_counter() - started:.0f} s; {total.faults.total():,} faults; {writes}")
    print(f"failed: {failed}" if failed else "every promise held")
    return failed


if __name__ == "__main__":
    sys.exit(main())
