"""A worker beside two agents: killed five times, restarted, twice with a second one alive.

Every job runs each second. In the end nothing said is lost or read twice, and no lease is held. `make soak` takes ten
minutes.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import apsw

from agentmem import AsyncAgentMemory
from agentmem.jobs.job import list_scheduled_jobs
from agentmem.jobs.runner import LEASE_SECONDS, OPERATOR
from agentmem.jobs.worker import ConsolidationWorker

KILLS = 5
SECOND_WORKER_AT = (1, 3)  # before these kills another worker is started, which lives on
NAMES = ("Anna", "Tom", "Clara", "Igor", "Maria", "Paul")
PLACES = ("Porto", "Rome", "Oslo", "Kyoto", "Lima", "Accra")


@dataclass
class Seen:
    """What came of it."""

    turns: int = 0
    recalls: int = 0
    kills: int = 0
    problems: list[str] = field(default_factory=list)
    facts: int = 0
    glosses: int = 0
    seconds: float = 0.0


def soak(home: Path, seconds: float) -> Seen:
    """Run it for so long, then look."""
    started, seen = time.monotonic(), Seen()
    workers = [_worker(home)]
    with _agents(home, seconds) as said:
        for number in range(KILLS):
            if number in SECOND_WORKER_AT:
                workers.append(_worker(home))
            time.sleep(seconds / (KILLS + 1))
            victim = workers.pop(0)
            if victim.poll() is not None:
                seen.problems.append(f"a worker ended by itself: {_told(victim)}")
            victim.kill()
            victim.wait()
            seen.kills += 1
            if not workers:
                workers.append(_worker(home))
        acknowledged = [
            json.loads(line) for agent in said for line in agent.communicate(timeout=seconds + 60)[0].splitlines()
        ]
    seen.turns = sum(len(each["turns"]) for each in acknowledged)
    seen.recalls = sum(each["recalls"] for each in acknowledged)
    asyncio.run(_wait_for_rest(home, seen))
    for worker in workers:
        stopping = time.monotonic()
        worker.send_signal(signal.SIGTERM)
        worker.wait(timeout=30)
        if time.monotonic() - stopping > 12:
            seen.problems.append("a worker took more than ten seconds to stop")
        if worker.returncode:
            seen.problems.append(f"a worker ended with {worker.returncode}: {_told(worker)}")
    _look(home, {turn: each["user"] for each in acknowledged for turn in each["turns"]}, seen)
    seen.seconds = time.monotonic() - started
    return seen


def _worker(home: Path) -> subprocess.Popen[str]:
    every = dict.fromkeys(list_scheduled_jobs(), 1 / 60)
    environment = {**os.environ, "AGENTMEM_WORKER__MINUTES": json.dumps(every), "AGENTMEM_HOME": str(home)}
    command = [sys.executable, "-m", "workers", "--user", "nobody"]
    with (home / "worker.log").open("a") as log:
        return subprocess.Popen(command, env=environment, stdout=log, stderr=log, text=True)


def _told(process: subprocess.Popen[str]) -> str:
    return process.stdout.read() if process.stdout is not None else "see worker.log"


@contextmanager
def _agents(home: Path, seconds: float) -> Iterator[list[subprocess.Popen[str]]]:
    command = [sys.executable, "-m", "tests.faults.soak", "--agent", "--home", str(home), "--seconds", str(seconds)]
    agents = [subprocess.Popen([*command, "--seed", str(seed)], stdout=subprocess.PIPE, text=True) for seed in (1, 2)]
    try:
        yield agents
    finally:
        for agent in agents:
            agent.kill()
            agent.communicate()


async def _agent(home: Path, seconds: float, seed: int) -> None:
    """Talk for so long as three users, ask now and then, and print what was acknowledged."""
    dice, until = random.Random(seed), time.monotonic() + seconds
    turns: dict[str, list[str]] = {}
    recalls = 0
    async with AsyncAgentMemory("nobody", home=home, embedder="hash") as memory:
        while time.monotonic() < until:
            user = f"user {seed}.{dice.randrange(3)}"
            view = memory.scoped(user_id=user, conversation_id=f"{seed} {len(turns.get(user, ())) // 8}")
            text = f"My friend {dice.choice(NAMES)} lives in {dice.choice(PLACES)}. I got {dice.randrange(9999)} nails."
            turns.setdefault(user, []).append((await view.store_turn(text)).id)
            if dice.random() < 0.3:
                await view.remember("who lives in Rome?")
                recalls += 1
            await asyncio.sleep(dice.random() * 0.4)
    for user, said in turns.items():
        print(json.dumps({"user": user, "turns": said, "recalls": recalls if user.endswith("0") else 0}), flush=True)


async def _wait_for_rest(home: Path, seen: Seen) -> None:
    """The workers that are left have to get there by themselves: leases of the killed run out."""
    until = time.monotonic() + 2 * LEASE_SECONDS + 30
    async with AsyncAgentMemory("nobody", home=home, embedder="hash") as memory:
        while time.monotonic() < until:
            if not await memory.engine.job_queue.queue("consolidate", OPERATOR) and not await _unread(memory):
                return
            await asyncio.sleep(0.5)
    seen.problems.append("the workers did not come to the end of what was said")


async def _unread(memory: AsyncAgentMemory) -> int:
    users = [user for user in await memory.engine.log.users(OPERATOR) if user != "nobody"]
    left = 0
    for user in users:
        (report,) = await memory.scoped(user_id=user).consolidate("consolidate", dry_run=True)
        left += report.pending
    return left


def _look(home: Path, said: dict[str, str], seen: Seen) -> None:
    """Everything said is there, and was read exactly once; nobody holds a lease."""
    db: Any = apsw.Connection(str(home / "memory.db"), flags=apsw.SQLITE_OPEN_READONLY)
    stored = dict(db.execute("SELECT id, user_id FROM memory_records WHERE kind = 'Turn'"))
    seen.problems += [f"lost: turn {turn} of {user}" for turn, user in said.items() if stored.get(turn) != user]
    times = dict(db.execute("SELECT id, count(*) FROM memory_versions WHERE kind = 'Gloss' GROUP BY user_id, id"))
    seen.problems += [f"read {times.get(turn, 0)} times: {turn}" for turn in said if times.get(turn, 0) != 1]
    twice = list(
        db.execute(
            "SELECT user_id, payload ->> 'claim', count(*) AS many FROM current_records "
            "WHERE kind = 'Fact' AND status = 'active' AND superseded_at IS NULL GROUP BY 1, 2, channel HAVING many > 1"
        )
    )
    seen.problems += [f"{many} times the same current fact: {user} {claim}" for user, claim, many in twice]
    until = time.monotonic() + LEASE_SECONDS  # those of killed workers run out; nobody is there to prolong them
    while held := [name for (name,) in db.execute("SELECT name FROM leases WHERE until > unixepoch('subsec')")]:
        if time.monotonic() > until:
            seen.problems += [f"still leased: {name}" for name in held]
            break
        time.sleep(0.5)
    seen.glosses = len(times)
    (seen.facts,) = next(db.execute("SELECT count(*) FROM memory_records WHERE kind = 'Fact'"))
    db.close()


async def _check(home: Path, seen: Seen) -> None:
    async with AsyncAgentMemory("nobody", home=home, embedder="hash") as memory:
        reports = await ConsolidationWorker(memory.engine).run_once()
        seen.problems += [f"{report.job} failed for {report.failed}" for report in reports if report.failed]


def main() -> None:
    """Run it and say what came of it; exit code 1 when something was lost, read twice or left."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--home", type=Path)
    parser.add_argument("--agent", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, default=0, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.agent:
        asyncio.run(_agent(given.home, given.seconds, given.seed))
        return
    home = given.home or Path(tempfile.mkdtemp(prefix="agentmem-soak-"))
    home.mkdir(exist_ok=True)
    seen = soak(home, given.seconds)
    asyncio.run(_check(home, seen))
    print(
        f"{seen.turns:,} turns and {seen.recalls:,} recalls beside {seen.kills} kills in {seen.seconds:.0f} s; "
        f"{seen.glosses:,} turns read, {seen.facts:,} facts; {len(seen.problems)} problems"
    )
    print("\n".join(seen.problems))
    sys.exit(bool(seen.problems))


if __name__ == "__main__":
    main()
