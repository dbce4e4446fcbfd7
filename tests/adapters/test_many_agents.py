"""Twenty agents of five users in two processes: nothing is lost, mixed, doubled or half done."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agentmem import AgentMemory
from tests.adapters.busy_agents import KINDS, USERS, read_names, user_name
from tests.flows.given import FILE_FIRST, stack_options
from tests.scale import NIGHTLY

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 60 if NIGHTLY else 3


@pytest.fixture(params=FILE_FIRST)
def place(request: pytest.FixtureRequest, home: Path) -> dict[str, Any]:
    """What opens a memory, and the beginning of the users' names."""
    made = {"user": "agents", "home": str(home), "embedder": "hash", **stack_options(request)}
    return {**made, "user": made["user"].replace(" ", "-")}  # mem0's users have no spaces


def run_processes(place: dict[str, Any]) -> list[Any]:
    """The batches of two processes: namespace, user, names, and whether the call was cancelled."""
    command = [sys.executable, "-m", "tests.adapters.busy_agents", json.dumps(place), str(SECONDS)]
    running = [
        subprocess.Popen([*command, str(number)], cwd=ROOT, stdout=subprocess.PIPE, text=True) for number in range(2)
    ]
    return [batch for each in running for batch in json.loads(each.communicate(timeout=SECONDS + 90)[0])]


def test_agents_in_two_processes_keep_every_batch_whole(place: dict[str, Any]) -> None:
    batches, base = run_processes(place), place.pop("user")
    users = [user_name(base, number) for number in range(USERS)]
    assert {batch[0] for batch in batches} == set(KINDS)
    assert (len(batches) > 40, any(cancelled for *_, cancelled in batches)) == (True, True)
    with AgentMemory(users[0], **place) as memory:
        for kind in KINDS:
            for user in users:
                names = read_names(memory.scoped(user_id=user), kind)
                mine = [
                    (batch, cancelled) for sort, owner, batch, cancelled in batches if (sort, owner) == (kind, user)
                ]
                assert len(names) == len(set(names))
                assert set(names) <= {name for batch, _ in mine for name in batch}
                for batch, cancelled in mine:
                    there = [name for name in names if name in batch]
                    assert there == batch or (cancelled and not there), (kind, user, batch)
