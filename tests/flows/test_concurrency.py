"""Many at once: threads, processes, running loops and forks."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from agentmem import AgentMemory, AsyncAgentMemory, Closed
from tests.flows.given import open_memory, read_head

ROOT = Path(__file__).parents[2]
AT_ONCE = 8

SUPERSEDING = """
import sys
from agentmem import AgentMemory
home, fact_id, name = sys.argv[1:]
with AgentMemory("alice", home=home, embedder="hash") as memory:
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(12):
        memory.semantic.supersede_fact(fact_id, f"The door code is {name}{number}")
        memory.learn_fact(f"Shared claim {number}")
        memory.store_turn(f"{name} {number}", turn_id=f"{name}{number}")
"""

FORKING = """
import os, sys, warnings
warnings.simplefilter("ignore")
from agentmem import AgentMemory
with AgentMemory("alice", home=sys.argv[1], embedder="hash", conversation_id="c") as memory:
    memory.store_turn("before the fork")
    child = os.fork()
    if child == 0:
        memory.store_turn("from the child")
        found = [turn.content for turn in memory.remember("child").turns]
        memory.close()
        os._exit(0 if "from the child" in found else 1)
    _, status = os.waitpid(child, 0)
    memory.store_turn("from the parent")
    assert os.waitstatus_to_exitcode(status) == 0, status
    print([turn.content for turn in memory.episodic.get_conversation("c")])
"""


def together(*calls: Callable[[], Any]) -> list[Any]:
    with ThreadPoolExecutor(len(calls)) as pool:
        return [future.result() for future in [pool.submit(call) for call in calls]]


def test_threads_superseding_one_fact_leave_one_current_fact(memory: AgentMemory) -> None:
    fact = memory.learn_fact("The door code is 1")
    change = memory.semantic.supersede_fact
    made = together(*(lambda n=n: change(fact.id, f"The door code is {n}") for n in range(2, 2 + AT_ONCE)))
    (current,) = memory.semantic.facts()
    assert current.id in {each.id for each in made}
    assert len({each.id for each in made}) == AT_ONCE, "every change of mind is kept"
    assert [each.id for each in memory.remember("door code", top_k=100).facts] == [current.id]
    assert len({version.id for version in memory.semantic.history(fact.id)}) == AT_ONCE + 1


def test_threads_correcting_one_fact_leave_one_current_fact(memory: AgentMemory) -> None:
    fact = memory.learn_fact("The door code is 1")
    change = memory.semantic.update_fact
    together(*(lambda n=n: change(fact.id, claim=f"The door code is {n}") for n in range(2, 2 + AT_ONCE)))
    assert len(memory.semantic.facts()) == 1


def test_threads_learning_one_claim_leave_one_fact_with_all_sources(memory: AgentMemory) -> None:
    turns = memory.store_turns([f"turn {number}" for number in range(AT_ONCE)])
    learn = memory.learn_fact
    made = together(*(lambda t=turn: learn("The sky is blue", source_turn_ids=[t.id]) for turn in turns))
    (fact,) = memory.semantic.facts()
    assert {each.id for each in made} == {fact.id}
    assert set(fact.source_turn_ids) == {turn.id for turn in turns}


def test_threads_naming_one_entity_leave_one(memory: AgentMemory) -> None:
    upsert = memory.upsert_entity
    made = together(*(lambda n=n: upsert({"name": "Ann", "aliases": [f"Ann {n}"]}) for n in range(AT_ONCE)))
    (ann,) = memory.semantic.entities()
    assert {each.id for each in made} == {ann.id}
    assert set(ann.aliases) == {f"Ann {number}" for number in range(AT_ONCE)}


def test_threads_sending_one_turn_store_it_once(memory: AgentMemory) -> None:
    sent = together(*(lambda: memory.store_turn("hello", turn_id="once") for _ in range(AT_ONCE)))
    assert {turn.seq for turn in sent} == {1}
    assert read_head(memory) == 1


def test_many_threads_share_one_memory(home: Path) -> None:
    with open_memory(home, conversation_id="c") as memory:

        def work(name: int) -> None:
            for number in range(6):
                turn = memory.store_turn(f"thread {name} says {number}", turn_id=f"{name}.{number}")
                found = memory.remember(f"thread {name} says {number}", top_k=100, exclude=())
                assert turn.id in {each.id for each in found.turns}, "what a thread wrote, it finds"

        together(*(lambda n=n: work(n) for n in range(AT_ONCE)))
        turns = memory.episodic.get_conversation("c")
        assert [turn.index for turn in turns] == list(range(6 * AT_ONCE))
        assert {turn.id for turn in turns} == {f"{n}.{m}" for n in range(AT_ONCE) for m in range(6)}
        assert set(memory.lag().values()) == {0}


def test_two_processes_superseding_one_fact_leave_one_current_fact(home: Path) -> None:
    with open_memory(home) as memory:
        fact = memory.learn_fact("The door code is 1")
        script = [sys.executable, "-c", SUPERSEDING, str(home), fact.id]
        children = [
            subprocess.Popen([*script, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)
            for name in ("x", "y")
        ]
        for child in children:
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"
        for child in children:
            child.communicate("go\n", timeout=60)
            assert child.returncode == 0
        claims = [each.claim for each in memory.semantic.facts()]
        assert sum(claim.startswith("The door code") for claim in claims) == 1
        assert sorted(claim for claim in claims if claim.startswith("Shared")) == sorted(
            f"Shared claim {number}" for number in range(12)
        )
        found = memory.remember("x 3", top_k=100)
        assert {turn.id for turn in found.turns} == {f"{name}{number}" for name in "xy" for number in range(12)}
        assert set(memory.lag().values()) == {0}


def test_a_fork_goes_on_with_files_of_its_own(home: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORKING, str(home)], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "['before the fork', 'from the child', 'from the parent']\n"


def test_the_blocking_face_works_inside_a_running_loop(memory: AgentMemory) -> None:
    async def cell() -> list[str]:
        memory.store_turn("typed into a notebook")
        return [turn.content for turn in memory.remember("notebook").turns]

    assert asyncio.run(cell()) == ["typed into a notebook"]


async def test_coroutines_side_by_side_keep_their_order_gapless(home: Path) -> None:
    async with AsyncAgentMemory("alice", home=home, embedder="hash", conversation_id="c") as memory:
        stored = await asyncio.gather(*(memory.store_turn(f"turn {number}") for number in range(30)))
        assert sorted(turn.index for turn in stored) == list(range(30))
        assert sorted(turn.seq for turn in stored) == list(range(1, 31))
        bundles = await asyncio.gather(*(memory.remember(f"turn {number}") for number in range(10)))
        assert [bundle.turns[0].content for bundle in bundles] == [f"turn {number}" for number in range(10)]


def test_closing_while_others_work_loses_nothing_acknowledged(home: Path) -> None:
    memory = open_memory(home)
    kept: list[str] = []

    def work(name: int) -> None:
        def store_for_ever() -> None:
            while True:
                kept.append(memory.store_turn(f"turn of {name}").id)

        with pytest.raises(Closed):
            store_for_ever()

    with ThreadPoolExecutor(4) as pool:
        futures = [pool.submit(work, number) for number in range(4)]
        while len(kept) < 20:
            time.sleep(0.002)
        memory.close()
        for future in futures:
            future.result(timeout=30)
    with open_memory(home) as again:
        assert {turn.id for turn in again.episodic.recent_turns(10_000)} >= set(kept)


def test_an_import_leaves_no_thread_and_no_warning() -> None:
    code = "import threading, agentmem.facade; print(threading.active_count())"
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("1\n", "")


@pytest.mark.filterwarnings("error")
def test_an_open_and_a_close_warn_of_nothing(home: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with open_memory(home) as memory:
            memory.store_turn("x")
