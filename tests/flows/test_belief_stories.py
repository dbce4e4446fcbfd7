"""What is believed after changes, ends, corrections, erasures and returns, read by rules; on servers in the nightly."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from agentmem import AgentMemory
from tests.flows.belief_stories import BeliefStory, list_stories
from tests.flows.given import FILE_FIRST, START, ManualClock, context_of, open_memory, stack_options
from tests.scale import scaled

MAX_RUNS = 3  # a turn whose write failed is tried again in the next run, and parked after the third


@pytest.fixture(params=FILE_FIRST)
def memory(request: pytest.FixtureRequest, home: Path, clock: ManualClock) -> Iterator[AgentMemory]:
    with open_memory(home, clock=clock, **stack_options(request)) as made:
        yield made


def play(memory: AgentMemory, clock: ManualClock, story: BeliefStory) -> None:
    """Do what a story says; each turn is read by itself."""
    turns: list[str] = []
    operation = ""
    for step, text in story.steps:
        if step.isdecimal():
            clock.time = START + timedelta(days=int(step), minutes=len(turns))
            turns.append(memory.store_turn({"content": text, "timestamp": clock.time}).id)
            operation = read_turns(memory)
        elif step == "undo":
            memory.undo(operation)
        elif step == "erase":
            memory.forget(turns[int(text) - 1], hard=True)
        else:
            source = turns[int(text) - 1]
            for fact in memory.semantic.facts({"source_turn_ids": source}):
                memory.forget(fact.id)


def read_turns(memory: AgentMemory) -> str:
    """Consolidate as the worker does, again while the report says that turns wait; the last operation."""
    reports = memory.consolidate("consolidate")
    while reports[-1].pending and len(reports) < MAX_RUNS:
        reports += memory.consolidate("consolidate")
    operations = [name for report in reports for name in report.operation_ids]
    assert operations, reports
    return operations[-1]


def find_wrong(memory: AgentMemory, story: BeliefStory) -> list[str]:
    """The expectations that do not hold."""
    states = {(each.subject, each.slot): each for each in memory.beliefs()}
    wrong = []
    for (subject, slot, standing), wanted in story.wanted.items():
        state = states.get((subject, slot))
        found = sorted(fact.value for fact in getattr(state, standing)) if state else []
        if found != wanted:
            wrong.append(f"{story.name}: {subject}.{slot} {standing} should be {wanted}, is {found}")
    return wrong


@pytest.mark.long
def test_every_story_ends_with_what_is_so(
    memory: AgentMemory, clock: ManualClock, request: pytest.FixtureRequest
) -> None:
    stories, wrong = list(list_stories()), []
    step = len(stories) // scaled(len(stories), least=8) if "servers" in request.node.name else 1
    for number, story in enumerate(stories[::step]):
        own = memory.scoped(user_id=f"{context_of(memory).scope.user_id}-{number}")
        play(own, clock, story)
        wrong += find_wrong(own, story)
    assert wrong == []
