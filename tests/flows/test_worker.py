"""The worker: who is served, in which order, what is noted, and how it ends."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from agentmem import AsyncAgentMemory
from agentmem.core.records import KINDS
from agentmem.core.scope import Scope
from agentmem.errors import ConfigError, InvalidRecord, ModelUnavailable
from agentmem.jobs import builtin, runner
from agentmem.jobs.job import list_scheduled_jobs
from agentmem.jobs.runner import OPERATOR, RunReport
from agentmem.jobs.worker import ConsolidationWorker
from tests.fakes.scribe import FakeExtractionLLM
from tests.flows.given import ManualClock
from tests.flows.read_turns import LIVES, REPLIES, open_memory_with_llm

OFTEN = dict.fromkeys(list_scheduled_jobs(), 0.2 / 60)
DROPPED = '''
"""A job that was dropped in."""
import asyncio
from agentmem.jobs.job import Job, JobReport
from agentmem.errors import InvalidModelOutput
NAME = "dropped_in"
served, slow, bad = [], [], []
async def run(resources, scope, options):
    if scope.user_id in bad:
        raise InvalidModelOutput("nonsense")
    if scope.user_id in slow:
        await asyncio.Event().wait()
    served.append(scope.user_id)
    return JobReport(job=NAME, user_id=scope.user_id, counts={"turns": 1})

JOB = Job(NAME, 0.001, "changes", run)
'''


@asynccontextmanager
async def crowd(home: Path, users: int, clock: Any = None) -> AsyncIterator[AsyncAgentMemory]:
    """A memory in which so many users said one thing each, one minute apart."""
    clock = clock or ManualClock()
    async with AsyncAgentMemory("operator", home=home, embedder="hash", clock=clock) as memory:
        for number in range(users):
            await memory.scoped(user_id=f"user {number}").store_turn(f"My friend Tom got {number} nails.")
            clock.advance(minutes=1)
        yield memory


@pytest.fixture
def dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A job in a file of its own, found beside the others."""
    folder = tmp_path / "jobs"
    folder.mkdir()
    (folder / "dropped_in.py").write_text(DROPPED)
    monkeypatch.setattr(builtin, "__path__", [*builtin.__path__, str(folder)])
    list_scheduled_jobs()
    yield sys.modules["agentmem.jobs.builtin.dropped_in"]
    del sys.modules["agentmem.jobs.builtin.dropped_in"]


async def only(memory: AsyncAgentMemory, job: str, **more: Any) -> RunReport:
    (report,) = await ConsolidationWorker(memory.engine, jobs=[job], **more).run_once()
    return report


async def test_everybody_is_read_once_and_the_idle_cost_nothing(tmp_path: Path) -> None:
    async with crowd(tmp_path, 12) as memory:
        first = await only(memory, "consolidate")
        assert (first.users, first.counts["turns"], first.has_more) == (10, 10, True)  # ten conversations in a run
        second = await only(memory, "consolidate")
        assert second.counts["turns"] == 2
        while (await only(memory, "consolidate")).users:  # what the reading itself wrote is looked at once
            pass
        await memory.scoped(user_id="user 3").store_turn("My brother Igor lives in Oslo.")
        last = await only(memory, "consolidate")
        assert (last.users, last.counts["turns"]) == (1, 1)


async def test_a_run_goes_on_until_nobody_waits(tmp_path: Path, dropped: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "USER_BATCH_SIZE", 3)
    async with crowd(tmp_path, 8) as memory:
        report = await only(memory, "dropped_in")
        assert (report.users, report.has_more) == (8, False)
        assert dropped.served == [f"user {number}" for number in range(8)]


async def test_a_job_is_not_woken_by_what_it_wrote_itself(tmp_path: Path) -> None:
    async with crowd(tmp_path, 1) as memory:
        assert (await only(memory, "consolidate")).counts["turns"] == 1
        assert (await only(memory, "consolidate")).users == 0


async def test_a_job_is_not_woken_by_kinds_that_are_none_of_its_business(tmp_path: Path) -> None:
    async with crowd(tmp_path, 1) as memory:
        user = memory.scoped(user_id="user 0")
        assert (await only(memory, "entity_linking")).users == 0  # a turn is none
        assert (await user.consolidate("entity_linking"))[0].counts == {}  # who asks himself is served
        await user.upsert_entity({"name": "Tom", "type": "person"})
        await user.learn_fact("Tom got nails")
        assert (await only(memory, "entity_linking")).users == 1
        await user.learn_fact("Tom got more nails")
        assert (await only(memory, "entity_linking")).users == 0
        assert await memory.engine.job_queue.queue("entity_linking", OPERATOR) == []


async def test_every_watched_kind_is_a_kind() -> None:
    for name, job in list_scheduled_jobs().items():
        assert set(job.watches) <= set(KINDS), name


async def test_who_waits_longest_comes_first_and_nobody_takes_it_all(tmp_path: Path) -> None:
    clock = ManualClock()
    async with AsyncAgentMemory("operator", home=tmp_path, embedder="hash", clock=clock) as memory:
        for number in range(9):
            await memory.scoped(user_id="first", conversation_id=f"c{number}").store_turn("My friend Tom got nails.")
        clock.advance(minutes=1)
        await memory.scoped(user_id="second").store_turn("My sister Anna lives in Porto.")
        await only(memory, "consolidate")
        states = {state.user_id: state for state in await memory.engine.job_queue.queue("consolidate", OPERATOR)}
        assert states["first"].report["pending"] == 6  # three of nine, because somebody else waited
        assert await memory.scoped(user_id="second").semantic.facts()


async def test_a_job_dropped_in_as_one_file_is_run(tmp_path: Path, dropped: Any) -> None:
    async with crowd(tmp_path, 3) as memory:
        report = await only(memory, "dropped_in")
        assert dropped.served == ["user 0", "user 1", "user 2"]
        assert report.counts == {"turns": 3}
        assert (await only(memory, "dropped_in")).users == 0


async def test_a_failing_user_stops_nobody_and_is_tried_later_and_later(tmp_path: Path, dropped: Any) -> None:
    clock = ManualClock()
    async with crowd(tmp_path, 3, clock) as memory:
        dropped.bad.append("user 1")
        report = await only(memory, "dropped_in")
        assert report.failed == {"user 1": "InvalidModelOutput"}
        assert dropped.served == ["user 0", "user 2"]
        waits = []
        for attempts in range(1, 4):
            state = await memory.engine.job_queue.state("dropped_in", Scope("user 1"))
            assert state.attempts == attempts
            assert state.due_at is not None
            waits.append(state.due_at - clock.now())
            assert not (await only(memory, "dropped_in")).failed  # not before its time
            clock.time = state.due_at
            if attempts < 3:
                assert (await only(memory, "dropped_in")).failed
        assert waits == [timedelta(minutes=1), timedelta(minutes=4), timedelta(minutes=16)]
        dropped.bad.clear()
        assert (await only(memory, "dropped_in")).users == 1
        assert (await memory.engine.job_queue.state("dropped_in", Scope("user 1"))).attempts == 0


async def test_a_model_that_is_away_is_not_asked_for_each_user(tmp_path: Path) -> None:
    def away(request: Any) -> str:
        raise ModelUnavailable("no answer")

    scribe = FakeExtractionLLM(REPLIES, intercept=away)
    clock = ManualClock()
    async with open_memory_with_llm(tmp_path, scribe, clock=clock) as memory:
        for name in ("ann", "bob", "cy"):
            await memory.scoped(user_id=name).store_turn(LIVES)
        report = await only(memory, "consolidate")
        assert (len(scribe.requests), report.abort_others, report.has_more) == (1, True, True)
        scribe.intercept = None
        clock.advance(hours=1)
        assert (await only(memory, "consolidate")).counts["turns"] == 3


async def test_the_caps_hold_for_the_run_and_not_for_each_user(tmp_path: Path) -> None:
    scribe = FakeExtractionLLM(REPLIES)
    async with open_memory_with_llm(tmp_path, scribe, max_calls=2) as memory:
        for name in ("ann", "bob", "cy", "dee"):
            await memory.scoped(user_id=name).store_turn(LIVES)
        report = await only(memory, "consolidate")
        assert (len(scribe.requests), report.calls, report.abort_others) == (2, 2, True)


async def test_a_dry_run_writes_nothing_of_anybody(tmp_path: Path) -> None:
    async with crowd(tmp_path, 2) as memory:
        heads = await memory.engine.admin.heads(OPERATOR)
        reports = await ConsolidationWorker(memory.engine, dry_run=True).run_once()
        assert {report.job for report in reports} == {*list_scheduled_jobs()}
        assert await memory.engine.admin.heads(OPERATOR) == heads
        assert (await only(memory, "consolidate")).counts["turns"] == 2


async def test_jobs_run_on_their_schedule_until_the_worker_stops(tmp_path: Path) -> None:
    told: list[RunReport] = []
    async with AsyncAgentMemory("ann", home=tmp_path, embedder="hash", worker={"minutes": OFTEN}) as memory:
        async with ConsolidationWorker(memory.engine, on_report=told.append) as worker:
            scheduler = worker._scheduler
            assert scheduler is not None
            await memory.store_turn("My sister Anna lives in Porto.")
            async with asyncio.timeout(60):
                while not (await memory.semantic.facts() and {report.job for report in told} == {*OFTEN}):
                    await asyncio.sleep(0.05)
        assert worker._running == {}
        async with asyncio.timeout(60):
            while scheduler.running:
                await asyncio.sleep(0)


async def test_stopping_lets_go_of_what_takes_too_long(tmp_path: Path, dropped: Any) -> None:
    async with crowd(tmp_path, 2) as memory:
        dropped.slow.append("user 0")
        worker = ConsolidationWorker(memory.engine, jobs=["dropped_in"])
        await worker.start()
        while not worker._running:
            await asyncio.sleep(0.01)
        await worker.stop(grace=0.1)
        assert dropped.served == []
        dropped.slow.clear()
        assert (await only(memory, "dropped_in")).users == 2  # nothing was lost


async def test_what_a_job_did_is_shown_where_operators_look(tmp_path: Path) -> None:
    async with crowd(tmp_path, 1) as memory:
        await only(memory, "consolidate")
        ann = memory.scoped(user_id="user 0")
        (state,) = await memory.engine.job_queue.states(ann.scope)
        assert (state.job, state.report["counts"]["turns"]) == ("consolidate", 1)
        shown = await memory.engine.session.get(ann.scope, "consolidation:job:consolidate")
        assert shown["counts"]["turns"] == 1
        await ann.erase()
        assert await memory.engine.job_queue.states(ann.scope) == []


async def test_a_user_who_asks_himself_is_not_read_again_by_the_worker(tmp_path: Path) -> None:
    async with crowd(tmp_path, 1) as memory:
        await memory.scoped(user_id="user 0").consolidate("consolidate")
        assert "turns" not in (await only(memory, "consolidate")).counts


async def test_wrong_names_and_intervals_are_refused(tmp_path: Path) -> None:
    async with crowd(tmp_path, 0) as memory:
        with pytest.raises(InvalidRecord, match=r"jobs must be among .*consolidate"):
            ConsolidationWorker(memory.engine, jobs=["consolidation"])
    with pytest.raises(ConfigError, match="minutes"):
        AsyncAgentMemory("ann", home=tmp_path, worker={"minutes": {"consolidate": 0}})


async def test_a_dry_run_of_gc_alone_finds_everybody_whom_decay_has_not_looked_at(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "USER_BATCH_SIZE", 2)
    clock = ManualClock()
    async with AsyncAgentMemory("operator", home=home, embedder="hash", clock=clock) as memory:
        for number in range(5):
            await memory.scoped(user_id=f"user {number}").learn_fact("The build is red", tier="short")
        clock.advance(days=13)
        tried = await ConsolidationWorker(memory.engine, jobs=("gc",), dry_run=True).run_once()
        done = await ConsolidationWorker(memory.engine, jobs=("gc",)).run_once()
        assert [report.counts for report in tried] == [report.counts for report in done] == [{"archived": 5}]
