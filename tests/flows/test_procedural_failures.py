"""What a job of procedural memory cannot do is tried three times, then parked, and holds up nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentmem import AgentMemory, InvalidRecord, JobReport
from agentmem.memory.procedural.procedures import Procedures
from agentmem.memory.procedural.strategies import Strategies
from tests.flows.given import ManualClock, open_memory


@pytest.fixture
def memory(home: Path) -> Iterator[AgentMemory]:
    with open_memory(home, clock=ManualClock(), seed=3, conversation_id="c") as opened_memory:
        yield opened_memory


def job(memory: AgentMemory, name: str, **options: bool) -> JobReport:
    (report,) = memory.consolidate(name, **options)
    return report


def refuse(patch: pytest.MonkeyPatch, cls: type, verb: str, word: str) -> None:
    """Let a step fail whenever its arguments hold a word."""
    real = getattr(cls, verb)

    async def step(self: Any, *args: Any, **more: Any) -> Any:
        if word in repr(args):
            raise InvalidRecord("it cannot be", field="it")
        return await real(self, *args, **more)

    patch.setattr(cls, verb, step)


def test_a_turn_that_fails_is_parked_and_the_others_go_on(memory: AgentMemory, monkeypatch: pytest.MonkeyPatch) -> None:
    poison = memory.store_turn("Always answer in French.")
    memory.store_turn("Never use emojis.")
    with monkeypatch.context() as patch:
        refuse(patch, Procedures, "build_request_change", "French")
        reports = [job(memory, "distill_procedures") for _ in range(3)]
        assert [(set(report.failed), report.pending) for report in reports] == [({poison.id}, n) for n in (1, 1, 0)]
        assert reports[2].parked == {poison.id: "it cannot be"}
        assert {record.instruction: record.strength for record in memory.procedural.procedures()} == {
            "Never use emojis": 1
        }
        assert job(memory, "distill_procedures").failed == {}
    assert len(memory.procedural.procedures()) == 1


def test_an_outcome_that_fails_is_parked_and_the_others_go_on(
    memory: AgentMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    poisons = []
    for number, task in enumerate(("Bake a cake.", "Deploy the server.")):
        talk = memory.scoped(conversation_id=f"c{number}")
        talk.store_turn(task)
        talk.procedural.record_invocation("build")
        poisons.append(talk.reflect(True))
    with monkeypatch.context() as patch:
        refuse(patch, Strategies, "build_learn_change", "cake")
        reports = [job(memory, "patterns") for _ in range(3)]
        assert [(set(report.failed), report.pending) for report in reports] == [({poisons[0].id}, n) for n in (1, 1, 0)]
        assert reports[0].counts["strategies_learned"] == 1
        assert reports[2].parked == {poisons[0].id: "it cannot be"}
        assert job(memory, "patterns").conversations == 0
    assert [found.strategy.description for found in memory.procedural.find_strategies("server")] == [
        "Deploy the server."
    ]
