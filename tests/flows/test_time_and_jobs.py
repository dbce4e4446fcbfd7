"""Time and all scheduled jobs: twice is once, missed days are not lost, and a clock set back harms nothing."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from agentmem import AgentMemory
from agentmem.jobs.job import JobOptions, list_jobs, list_scheduled_jobs
from agentmem.jobs.runner import OPERATOR, RunReport
from agentmem.jobs.worker import ConsolidationWorker
from agentmem.stores.admin import RawUsage
from tests.flows.given import ManualClock, context_of, engine_of, open_memory, read_state, run
from tests.scale import scaled

SAID = (
    "I live in Porto now.",
    "I live in Oslo now.",
    "My sister Anna lives in Graz.",
    "I love rock climbing.",
    "I adopted a parrot named Figaro.",
    "From now on, answer in French.",
    "Please never use emojis.",
    "Hello there!",
    "I work at Brightwell as a nurse.",
    "Always keep answers short.",
)
CLAIMS = (
    "Alice's car is on level 3.",
    "It rains in Porto.",
    "Alice is packing for the ferry.",
    "Alice has a cold.",
    "Jonas plays the cello in the orchestra.",
    "Jonas plays cello in the orchestra.",
    "Alice is allergic to peanuts.",
)
STEPS = st.one_of(
    st.tuples(st.just("say"), st.sampled_from(SAID)),
    st.tuples(st.just("fleeting"), st.sampled_from(CLAIMS)),
    st.tuples(st.just("lasting"), st.sampled_from(CLAIMS)),
    st.tuples(st.just("inferred"), st.sampled_from(CLAIMS)),
    st.tuples(st.just("project"), st.sampled_from(CLAIMS)),
    st.tuples(st.just("use"), st.sampled_from(CLAIMS)),
    st.tuples(st.just("ask"), st.sampled_from(CLAIMS)),
    st.tuples(st.just("aim"), st.sampled_from(CLAIMS)),
    st.tuples(st.just("work"), st.booleans()),
    st.tuples(st.just("schedule"), st.sampled_from(["0 9 * * *", "30 */5 * * *"])),
    st.tuples(st.just("wait"), st.integers(1, 100)),
)
HISTORIES = st.lists(STEPS, min_size=3, max_size=14)
EXAMPLES = settings(max_examples=scaled(12, least=2), phases=(Phase.generate,))


def play(memory: AgentMemory, clock: ManualClock, steps: Sequence[tuple[str, Any]]) -> None:
    """Do what the steps say, each a minute after the one before."""
    project = memory.scoped(channel="house")
    facts: dict[str, str] = {}
    for number, (step, what) in enumerate(steps):
        here = memory.scoped(conversation_id=f"talk {number // 3}")
        if step == "say":
            here.store_turn(what, speaker="Alice")
        elif step == "fleeting":
            facts[what] = here.learn_fact(what, tier="short", memory_type="context", tags=["errands"]).id
        elif step == "lasting":
            facts[what] = here.semantic.update_fact(here.learn_fact(what).id, importance=0.9).id
        elif step == "inferred":
            fact = here.learn_fact(what, tier="short")
            facts[what] = here.semantic.update_fact(fact.id, certainty="inferred").id
        elif step == "project":
            facts[what] = project.learn_fact(what, confidence=0.9).id
        elif step == "aim":  # what comes from a conversation with an open goal is spared
            turn = here.store_turn(what, speaker="Alice")
            memory.add_goal({"description": what, "conversation_id": turn.conversation_id})
            facts[what] = here.learn_fact(what, tier="short", source_turn_ids=[turn.id]).id
        elif step == "use" and what in facts:
            here.observe_usage([facts[what]], ("music",))
        elif step == "ask":
            for turn in range(3):
                project.scoped(conversation_id=f"asked {turn}").remember(what)
        elif step == "work":
            here.procedural.record_invocation("search_web", {"q": number}, success=what, task_type="errand")
            here.reflect(what)
        elif step == "schedule":
            memory.schedules.add(f"reminder {number}", what, "Say what is due.")
        elif step == "wait":
            clock.advance(hours=what)
        clock.advance(minutes=1)


def night(memory: AgentMemory) -> list[RunReport]:
    """Every job once, as a worker runs them."""
    reports = run(ConsolidationWorker(engine_of(memory)).run_once())
    assert not any(report.failed or report.stop_reason for report in reports), reports
    return reports


def rest(memory: AgentMemory) -> None:
    """Night after night at the same moment, until nothing changes any more."""
    before: Any = None
    for _ in range(6):
        night(memory)
        if (now := everything(memory)) == before:
            return
        before = now
    raise AssertionError("the jobs never come to rest")


def usage(memory: AgentMemory) -> list[RawUsage]:
    return run(engine_of(memory).admin.raw_usage(context_of(memory).scope, ("", ""), 10_000))


def everything(memory: AgentMemory) -> tuple[Any, Any]:
    """All records, edges and usage, but for what a write stamps anew."""
    return read_state(memory), usage(memory)


def outlook(memory: AgentMemory, made_by_jobs: frozenset[str] = frozenset()) -> tuple[Counter[Any], Counter[Any]]:
    """What stands, by content: kinds, statuses and tiers, and when each is due for whom, but for what jobs made."""
    found, names = Counter[Any](), dict[tuple[str, str], str]()
    for key, fields in read_state(memory).items():
        if key == "edges":
            continue
        text = fields.get("claim") or fields.get("name") or fields.get("instruction") or fields.get("content") or ""
        names[key] = text
        what = {name: fields.get(name) for name in ("channel", "status", "tier", "valid_to", "archived", "strength")}
        found[(key[0], text, *(str(value) for value in what.values()))] += 1
    dues = Counter(
        (row.kind, names.get((row.kind, row.id)), row.kind not in made_by_jobs and row.due_at, row.due_for)
        for row in usage(memory)
    )
    return found, dues


@contextmanager
def played(steps: Sequence[tuple[str, Any]]) -> Iterator[tuple[AgentMemory, ManualClock, Path]]:
    """A memory in which the steps were done."""
    clock = ManualClock()
    with tempfile.TemporaryDirectory() as folder, open_memory(Path(folder) / "home", clock=clock, seed=7) as memory:
        play(memory, clock, steps)
        yield memory, clock, Path(folder)


def jobs_by_hand(memory: AgentMemory, name: str) -> list[str]:
    """Run one job for this user whether or not anything waits; the operations that it did."""
    if name in list_jobs():
        return list(memory.consolidate(name)[0].operation_ids)
    job = list_scheduled_jobs()[name]
    assert job.run_for_all is not None
    return list(run(job.run_for_all(engine_of(memory), OPERATOR, JobOptions())).operation_ids)


@pytest.mark.long
@EXAMPLES
@given(steps=HISTORIES)
def test_every_job_run_twice_is_run_once(steps: Sequence[tuple[str, Any]]) -> None:
    with played(steps) as (memory, clock, _):
        for days in (0, 6, 30):
            clock.advance(days=days)
            for name in list_scheduled_jobs():
                jobs_by_hand(memory, name)
                once = everything(memory)
                again = jobs_by_hand(memory, name)
                assert (name, again) == (name, [])
                assert everything(memory) == once, name


@pytest.mark.long
@EXAMPLES
@given(steps=HISTORIES, days=st.sampled_from([3, 3, 9, 40]))
def test_missed_days_are_not_lost(steps: Sequence[tuple[str, Any]], days: int) -> None:
    """Jobs that run daily leave what jobs leave that run once after all these days."""
    with played(steps) as (memory, clock, folder):
        rest(memory)
        memory.close()
        shutil.copytree(folder / "home", folder / "copy")
        daily = _after(folder / "home", clock.time, [1] * days)
        at_once = _after(folder / "copy", clock.time, [days])
        for often, once in zip(daily, at_once, strict=True):
            assert (often - once, once - often) == (Counter(), Counter())


def _after(home: Path, begin: Any, waits: Sequence[int]) -> Any:
    clock = ManualClock(begin)
    with open_memory(home, clock=clock, seed=7) as memory:
        for days in waits:
            clock.advance(days=days)
            night(memory)
        return outlook(memory)


@pytest.mark.long
@EXAMPLES
@given(steps=HISTORIES)
def test_a_clock_set_back_by_an_hour_changes_nothing_that_was_settled(steps: Sequence[tuple[str, Any]]) -> None:
    with played(steps) as (memory, clock, _):
        clock.advance(days=5)
        rest(memory)
        settled = everything(memory)
        clock.time -= timedelta(hours=1)
        night(memory)
        assert everything(memory) == settled
        clock.time += timedelta(hours=1)
        night(memory)
        assert everything(memory) == settled


@pytest.mark.long
@EXAMPLES
@given(steps=HISTORIES)
def test_jobs_that_begin_under_a_clock_set_back_come_to_the_same(steps: Sequence[tuple[str, Any]]) -> None:
    with played(steps) as (memory, clock, folder):
        memory.close()
        shutil.copytree(folder / "home", folder / "copy")
        plain = _nights(folder / "home", [clock.time, clock.time + timedelta(days=20)])
        back = clock.time - timedelta(hours=1)
        assert _nights(folder / "copy", [back, clock.time, clock.time + timedelta(days=20)]) == plain


def _nights(home: Path, moments: Sequence[Any]) -> Any:
    clock = ManualClock()
    with open_memory(home, clock=clock, seed=7) as memory:
        for clock.time in moments:
            rest(memory)
        return outlook(memory, frozenset({"Entity"}))  # an entity fades since the job that found it ran
