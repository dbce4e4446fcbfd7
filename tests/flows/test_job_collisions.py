"""What a job or a verb has looked at is changed by somebody else before it writes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from agentmem import AsyncAgentMemory, JobReport
from agentmem.jobs.builtin import fire_schedules
from agentmem.jobs.due_records import DueRecordsRun
from tests.flows.given import ManualClock
from tests.flows.meanwhile import Action, run_once_before, run_once_before_append


@pytest.fixture
async def memory(home: Path, clock: ManualClock) -> AsyncIterator[AsyncAgentMemory]:
    async with AsyncAgentMemory("alice", home=home, embedder="hash", clock=clock, seed=7) as opened:
        yield opened


async def job(memory: AsyncAgentMemory, name: str) -> JobReport:
    return (await memory.consolidate(name))[0]


# -- patterns


@pytest.mark.parametrize("hard", [False, True])
async def test_words_forgotten_while_patterns_are_learned_become_no_strategy(
    memory: AsyncAgentMemory, monkeypatch: pytest.MonkeyPatch, hard: bool
) -> None:
    talk = memory.scoped(conversation_id="c")
    task = await talk.store_turn("Please deploy the staging server to Oslo.")
    await talk.procedural.record_invocation("build", success=True)
    await talk.reflect(True)
    done = run_once_before(
        monkeypatch,
        memory.engine,
        "write",
        lambda: memory.forget(task.id, hard=hard),
        lambda scope, operation, *_, **more: operation == "patterns",
    )
    report = await job(memory, "patterns")
    assert (done, "strategies_learned" in report.counts) == (["write"], False)
    assert await memory.procedural.find_strategies("deploy the server") == []


# -- cleanup


def hooked(patch: pytest.MonkeyPatch, memory: AsyncAgentMemory, when: str, act: Action) -> list[str]:
    """Act before the job's write, or after it and before the job notes what is due next."""
    if when == "before the write":
        return run_once_before_append(patch, memory.engine, "cleanup", act)
    return run_once_before(
        patch, DueRecordsRun, "set_due_dates", act, lambda work, dues: bool(work.report.operation_ids)
    )


@pytest.mark.parametrize("when", ["before the write", "after the write"])
async def test_a_conversation_that_goes_on_while_it_is_archived_is_opened_again(
    memory: AsyncAgentMemory, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    talk = memory.scoped(conversation_id="c")
    await talk.store_turn("The harbour is quiet.")
    clock.advance(days=91)
    done = hooked(monkeypatch, memory, when, lambda: talk.store_turn("Now it is loud."))
    assert (await job(memory, "cleanup")).counts == {"archived": 1}
    assert len(done) == 1
    assert (await job(memory, "cleanup")).counts == {"reopened": 1}
    assert [each.archived for each in await memory.episodic.conversations()] == [False]
    clock.advance(days=91)
    assert (await job(memory, "cleanup")).counts == {"archived": 1}
    assert (await job(memory, "cleanup")).counts == {}


async def test_a_conversation_archived_before_that_goes_on_while_it_is_looked_at_is_opened_again(
    memory: AsyncAgentMemory, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk = memory.scoped(conversation_id="c")
    await talk.store_turn("The harbour is quiet.")
    clock.advance(days=91)
    assert (await job(memory, "cleanup")).counts == {"archived": 1}
    await talk.store_turn("Now it is loud.")
    clock.advance(days=91)  # on which no job ran
    done = run_once_before(
        monkeypatch,
        DueRecordsRun,
        "set_due_dates",
        lambda: talk.store_turn("Quiet again."),
        lambda work, dues: bool(dues),
    )
    assert (await job(memory, "cleanup")).counts == {}
    assert done == ["set_due_dates"]
    assert (await job(memory, "cleanup")).counts == {"reopened": 1}


async def test_a_conversation_changed_while_it_is_archived_is_archived_the_next_time(
    memory: AsyncAgentMemory, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk = memory.scoped(conversation_id="c")
    await talk.store_turn("The harbour is quiet.")
    await talk.reflect(True)
    clock.advance(days=91)
    done = run_once_before_append(monkeypatch, memory.engine, "cleanup", lambda: memory.consolidate("patterns"))
    assert (await job(memory, "cleanup")).counts == {}
    assert done == ["append"]
    assert (await job(memory, "cleanup")).counts == {"archived": 1}


# -- promotion


async def test_a_fact_doubted_while_facts_are_promoted_is_not_spread(
    memory: AsyncAgentMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    roof = memory.scoped(channel="roof")
    await memory.scoped(channel="shed").learn_fact("The roof is blue", confidence=0.1)  # so that it may flow
    fact = await roof.learn_fact("The roof is blue", confidence=0.9)
    for conversation in "abcde":
        await roof.scoped(conversation_id=conversation).remember("The roof is blue")
    done = run_once_before_append(
        monkeypatch, memory.engine, "promote", lambda: roof.semantic.update_fact(fact.id, confidence=0.1)
    )
    report = await job(memory, "promote")
    assert (done, report.counts) == (["append"], {})
    assert await memory.semantic.facts({"channel": "_global"}) == []
    assert (await job(memory, "promote")).counts == {}
    await roof.semantic.update_fact(fact.id, confidence=0.9)
    assert (await job(memory, "promote")).counts == {"spread": 1}


# -- schedules


async def test_a_run_reported_while_it_is_looked_at_is_not_called_lost(
    memory: AsyncAgentMemory, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    await memory.schedules.add_heartbeat("pulse", 600)
    clock.advance(seconds=600)
    (due,) = await memory.schedules.due()
    claimed = await memory.schedules.claim(due)
    assert claimed is not None
    clock.advance(seconds=60)
    done = run_once_before(
        monkeypatch, fire_schedules._ScheduleDelivery, "deliver_one", lambda: memory.schedules.mark_done(claimed)
    )
    report = await job(memory, "schedules")
    assert (done, report.counts, report.failed) == (["deliver_one"], {"skipped": 1}, {})
    assert await memory.audit.query(operation="deliver_schedule") == []
    assert (await memory.schedules.get("pulse")).next_at == clock.time + timedelta(seconds=540)


# -- undo


async def test_a_turn_stored_while_its_conversation_s_beginning_is_undone_keeps_the_conversation(
    memory: AsyncAgentMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk = memory.scoped(conversation_id="c")
    first = await talk.store_turn("The harbour is quiet.")
    done = run_once_before_append(monkeypatch, memory.engine, "undo", lambda: talk.store_turn("Now it is loud."))
    await memory.undo(first.operation_id)
    assert done == ["append"]
    assert [turn.content for turn in await memory.episodic.get_conversation("c")] == ["Now it is loud."]
    assert [each.id for each in await memory.episodic.conversations()] == ["c"]
