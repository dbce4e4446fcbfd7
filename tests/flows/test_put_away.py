"""What jobs put away can be restored, and a dry run says beforehand what they do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agentmem import AgentMemory, Status
from agentmem.settings.sections import RetentionOptions
from tests.flows.given import FILE_FIRST, STACKS, ManualClock, open_memory, stack_options

LIFECYCLE = ("decay", "gc", "promote", "cleanup")


@pytest.fixture(params=FILE_FIRST)
def keeper(request: pytest.FixtureRequest, home: Path, clock: ManualClock) -> Iterator[AgentMemory]:
    """A memory that keeps unused long-lived facts for fifty days."""
    options = stack_options(request)
    with open_memory(home, clock=clock, seed=7, retention=RetentionOptions(ltm_retention_days=50), **options) as memory:
        yield memory


@pytest.mark.parametrize("tier, job", [("short", "gc"), ("long", "cleanup")])
def test_an_archived_fact_is_restored_and_stays(keeper: AgentMemory, clock: ManualClock, tier: str, job: str) -> None:
    fact = keeper.learn_fact("The build is red", tier=tier)
    clock.advance(days=60)
    assert keeper.consolidate(job)[0].counts == {"archived": 1}
    assert [(each.id, each.status, each.reason) for each in keeper.restore(fact.id)] == [(fact.id, Status.ACTIVE, "")]
    keeper.consolidate()
    assert [each.id for each in keeper.semantic.facts()] == [fact.id]


@pytest.mark.parametrize("keeper", STACKS, indirect=True)
def test_an_archived_conversation_is_restored_and_stays(keeper: AgentMemory, clock: ManualClock) -> None:
    turn = keeper.store_turn("The harbor is quiet.")
    clock.advance(days=91)
    assert keeper.consolidate("cleanup")[0].counts == {"archived": 1}
    assert [each.id for each in keeper.restore(turn.conversation_id)] == [turn.conversation_id]
    assert keeper.consolidate("cleanup")[0].counts == {}
    assert [each.archived for each in keeper.episodic.conversations()] == [False]


@pytest.mark.parametrize("job", [*LIFECYCLE, None])
def test_a_dry_run_counts_what_the_run_then_does(keeper: AgentMemory, clock: ManualClock, job: str | None) -> None:
    for number in range(24):
        fact = keeper.learn_fact(f"Claim number {number}", tier="short" if number % 3 else "long")
        if number % 5 == 0:
            keeper.curation.touch(fact.id)
        clock.advance(days=3)
    tried = {report.job: report.counts for report in keeper.consolidate(job, dry_run=True)}
    assert any(tried.values())
    assert tried == {report.job: report.counts for report in keeper.consolidate(job)}
