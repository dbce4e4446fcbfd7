"""The same script in an empty home, with a stopped clock, seeded ids and the lexical embedder, gives the same bytes."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

from agentmem import AgentMemory
from agentmem.core.clock import FrozenClock

ROOT = Path(__file__).parents[2]

SCRIPT = """
import asyncio, json, sys
from datetime import UTC, datetime, timedelta
from agentmem import AsyncAgentMemory
from agentmem.admin.export_import import export_user

class Clock:
    time = datetime(2026, 3, 1, 12, tzinfo=UTC)

    def now(self):
        return self.time

home, out = sys.argv[1:]
clock = Clock()

async def main():
    settings = {"home": home, "embedder": "hash", "clock": clock, "seed": "s", "audit_level": "verbose"}
    async with AsyncAgentMemory("alice", **settings) as memory:
        turns = await memory.store_turns([f"Day {n}: the garden, my dog Rex and Ann." for n in range(25)])
        ann = await memory.upsert_entity({"name": "Ann", "type": "person"})
        fact = await memory.learn_fact("Ann keeps the garden", entity_ids=[ann.id], source_turn_ids=[turns[0].id])
        clock.time += timedelta(days=1)
        await memory.semantic.supersede_fact(fact.id, "Ben keeps the garden")
        for n in range(5):
            await memory.learn_fact(f"Fact {n}")
        await memory.add_goal("weed")
        for query in ("Who keeps the garden?", "Rex", "what happened on day 7?"):
            bundle = await memory.remember(query)
            print(bundle, bundle.items, json.dumps(bundle.receipt.as_dict()), bundle.notices)
        print((await memory.context("garden")).text)
        receipt = await memory.forget(turns[3].id, hard=True)
        print(receipt, await memory.lag(), await memory.audit.query(limit=1000))
        lines = []
        await export_user(memory.engine, memory.scope, lines.append)
        with open(out, "w", encoding="utf-8") as file:
            file.writelines(lines)

asyncio.run(main())
"""


def ran(script: str, *arguments: Path, seed: str) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    done = subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)], cwd=ROOT, capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_same_script_twice_gives_the_same_output_and_export(tmp_path: Path) -> None:
    first, second = (ran(SCRIPT, tmp_path / n, tmp_path / f"{n}.jsonl", seed=n) for n in ("1", "2"))
    assert len(first) > 5000
    assert first == second
    one, two = ((tmp_path / f"{name}.jsonl").read_bytes() for name in ("1", "2"))
    assert one.count(b"\n") > 10
    assert one == two


def test_a_seed_used_twice_never_repeats_an_id(tmp_path: Path) -> None:
    def store(home: Path) -> list[str]:
        clock = FrozenClock(datetime(2026, 3, 1, 12, tzinfo=UTC))
        with AgentMemory("alice", home=home, embedder="hash", clock=clock, seed="s") as memory:
            return [memory.store_turn(text).id for text in ("one", "two")]

    runs = [store(tmp_path / "home") for _ in range(2)]
    assert len({name for names in runs for name in names}) == 4
    assert store(tmp_path / "elsewhere") == runs[0]
