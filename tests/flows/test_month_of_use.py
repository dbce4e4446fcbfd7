"""A month of an agent's days with the jobs of each night: what is used stays, noise goes, what is private stays put."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agentmem import AgentMemory, Fact, Status
from tests.flows.given import ManualClock

pytestmark = pytest.mark.nightly
DAYS = 30
PROJECT = "heron"
DEPLOY = "Deploy the staging server of heron."
KEY, KEY_ASKED = "The deploy key lies in the blue safe", "Where is the deploy key?"
NOISE = ("The kettle whistles", "A parcel waits at the gate", "The lift smells of paint")
ROTATION = "The token of heron rotates on Mondays"


@pytest.fixture(params=[0, 300], ids=["small memory", "large memory"])
def month(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[dict[str, object]]:
    """The memory after the month, and on which day each short-lived fact was archived."""
    clock = ManualClock()
    with AgentMemory("mia", home=tmp_path, embedder="hash", clock=clock, seed=1, agent_id="bot") as memory:
        for number in range(request.param):
            memory.learn_fact(f"Shelf {number} holds folder {number * 7} of the archive")
        known = _learn(memory)
        archived: dict[str, int] = {}
        for day in range(DAYS):
            _work_a_day(memory, day)
            clock.advance(hours=12)
            for _ in range(2):
                memory.consolidate()
            for name, fact in known.items():
                if memory.scoped(channel=fact.channel).semantic.get_fact(fact.id).status is Status.ARCHIVED:
                    archived.setdefault(name, day)
            clock.advance(hours=12)
        yield {"memory": memory, "archived": archived, "known": known}


def _learn(memory: AgentMemory) -> dict[str, Fact]:
    project = memory.scoped(channel=PROJECT)
    known = {claim: memory.learn_fact(claim, tier="short") for claim in NOISE}
    known["key"] = memory.learn_fact(KEY, tier="short")
    known["rotation"] = project.learn_fact(ROTATION, confidence=0.95)
    known["phone"] = project.learn_fact("phone of mia", slot="phone", value="0151 2345", confidence=0.95)
    known["units"] = project.learn_fact("mia measures in metric units", slot="units", value="metric", confidence=0.95)
    return known


def _work_a_day(memory: AgentMemory, day: int) -> None:
    """Questions, answers that use what they were shown, and two ways to deploy."""
    talk = memory.scoped(conversation_id=f"talk {day}")
    for asked, answer in (
        ("What is new?", "Nothing much."),
        (KEY_ASKED, "In the blue safe." if day % 2 == 0 else "I will look."),
    ):
        talk.context(asked, max_tokens=1000)
        talk.store_turns([asked, {"role": "assistant", "content": answer}])
    project = memory.scoped(channel=PROJECT, conversation_id=f"project {day}")
    for asked in ("When does the token of heron rotate?", "What is my phone number?", "Which units do I use?"):
        project.context(asked, max_tokens=1000)
        project.remember(asked)
    by_script = day % 3 > 0
    project.store_turn(DEPLOY)
    for tool in ("build", "push") if by_script else ("ssh", "copy"):
        project.procedural.record_invocation(tool, {}, "done", success=by_script or tool == "ssh")
    if day == 0:
        project.procedural.learn_strategy("Deploy heron by hand", tool_sequence=["ssh", "copy"])
    project.procedural.find_strategies("deploy heron")
    project.reflect({"success": by_script, "task_type": "deploy"})


def test_a_month_of_use(month: dict[str, object]) -> None:
    memory, archived, known = month["memory"], month["archived"], month["known"]
    assert isinstance(memory, AgentMemory)
    assert isinstance(archived, dict)
    assert isinstance(known, dict)
    # noise goes on its day, however small the memory: 12.97 days after it came, in the night after day 13
    assert {claim: archived.get(claim) for claim in NOISE} == dict.fromkeys(NOISE, 13)
    # what answers used is kept, though `context()` alone delivered it
    kept = memory.semantic.get_fact(known["key"].id)
    assert (kept.tier, kept.status) == ("long", Status.PROMOTED)
    # to every channel went what may flow, and nothing else of the project
    spread = {fact.slot for fact in memory.semantic.facts({"channel": "_global"}) if fact.promoted_from}
    assert spread == {"units"}
    elsewhere = memory.scoped(conversation_id="x").context("token of heron, phone, units", max_tokens=2000)
    assert "metric" in elsewhere
    assert "Mondays" not in elsewhere
    assert "0151" not in elsewhere
    # strategies are told and ranked by what worked
    project = memory.scoped(channel=PROJECT)
    best, *rest = project.procedural.find_strategies("deploy the staging server of heron")
    assert best.strategy.tool_sequence == ("build", "push")
    assert (best.strategy.success_count, best.strategy.failure_count) == (20, 0)
    assert [each.strategy.tool_sequence for each in rest] == [("ssh", "copy")]
    text = project.context("How do I deploy the staging server of heron?")
    worked, failed = text.index("## What has worked"), text.index("## What failed before")
    assert worked < text.index("build, then push") < failed < text.index("ssh, then copy")
