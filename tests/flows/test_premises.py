"""Belief revision: what rests on a premise is stale once the premise falls, and says so; the same on both stacks."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from agentmem import AgentMemory, Fact, InvalidRecord
from agentmem.recall.scoring import HIDDEN_PREMISE_TEXT
from tests.flows.given import FILE_FIRST, STACKS, START, ManualClock, open_memory, stack_options

WORK, COMMUTE, TRAIN = "Ann works in Oslo", "Ann commutes to Oslo every day", "Ann needs a monthly train ticket"
ASKED = "How does Ann commute to Oslo, and does she need a train ticket?"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=FILE_FIRST)
def memory(request: pytest.FixtureRequest, home: Path, clock: ManualClock) -> Iterator[AgentMemory]:
    more = stack_options(request)
    if more:
        more |= {"catch_up_ms": 60_000, "recall": {"entity": {"deadline": 60}}}
    with open_memory(home, clock=clock, **more) as made:
        yield made


def chain(memory: AgentMemory) -> tuple[Fact, Fact, Fact]:
    """Three facts, each resting on the one before."""
    work = memory.learn_fact(WORK)
    commute = memory.learn_fact(COMMUTE, depends_on=[work.id])
    return work, commute, memory.learn_fact(TRAIN, depends_on=[commute.id])


def recalled(memory: AgentMemory, query: str = ASKED, **more: object) -> dict[str, Fact]:
    return {fact.claim: fact for fact in memory.remember(query, **more).facts}  # type: ignore[arg-type]


def test_what_rests_on_a_superseded_fact_is_stale_at_any_depth(memory: AgentMemory, clock: ManualClock) -> None:
    work, *_ = chain(memory)
    assert {fact.stale_since for fact in recalled(memory).values()} == {None}
    moved = clock.advance(days=10)
    memory.semantic.supersede_fact(work.id, "Ann works in Bergen")
    found = recalled(memory)
    assert {claim: (fact.stale_since, fact.fallen_premise) for claim, fact in found.items()} == {
        "Ann works in Bergen": (None, ""),
        COMMUTE: (moved, WORK),
        TRAIN: (moved, WORK),
    }


def test_a_stale_fact_ranks_below_and_is_marked_in_the_context(memory: AgentMemory) -> None:
    work = memory.learn_fact(WORK)
    train = memory.learn_fact("Ann commutes to Oslo by train", depends_on=[work.id])
    ferry = memory.learn_fact("Ann commutes to Oslo on the ferry")
    memory.learn_fact("The cat is asleep")  # what nobody asks for has the lowest score
    query = "Does Ann commute to Oslo by train?"
    assert [fact.id for fact in memory.remember(query).facts[:2]] == [train.id, ferry.id]
    memory.forget(work.id)
    after = memory.remember(query)
    assert [fact.id for fact in after.facts[:2]] == [ferry.id, train.id]
    assert "stale x0.50" in {item.record.id: item.why for item in after.items}[train.id]
    text = memory.context(query).text
    assert f'- Ann commutes to Oslo by train (stale since 1 Mar 2026: it rested on "{WORK}")' in text
    assert "unknown since" not in text


def test_where_nothing_current_is_left_the_answer_is_unknown_since(memory: AgentMemory, clock: ManualClock) -> None:
    work, *_ = chain(memory)
    clock.advance(days=1)
    memory.forget(work.id)
    bundle = memory.remember(ASKED)
    said = f'unknown since 2 Mar 2026: {COMMUTE} (stale since 2 Mar 2026: it rested on "{WORK}")'
    assert any(notice.startswith(said) for notice in bundle.notices)
    assert f"- {said}" in str(bundle)
    memory.learn_fact("Ann takes the ferry to Nesodden")
    assert not any("unknown since" in notice for notice in memory.remember(ASKED).notices)


def test_a_premise_that_ends_makes_stale_from_its_end_on_and_not_before(
    memory: AgentMemory, clock: ManualClock
) -> None:
    end = START + timedelta(days=30)
    work = memory.learn_fact(WORK, valid_to=end)
    memory.learn_fact(COMMUTE, depends_on=[work.id])
    assert recalled(memory)[COMMUTE].stale_since is None
    clock.advance(days=40)
    assert recalled(memory)[COMMUTE].stale_since == end
    assert recalled(memory, as_of=START + timedelta(days=1))[COMMUTE].stale_since is None


def test_what_was_known_before_the_premise_fell_was_not_stale(memory: AgentMemory, clock: ManualClock) -> None:
    work, *_ = chain(memory)
    known = clock.time
    clock.advance(days=1)
    memory.semantic.supersede_fact(work.id, "Ann works in Bergen", is_correction=True)
    assert recalled(memory)[COMMUTE].stale_since == clock.time
    assert recalled(memory, known_at=known)[COMMUTE].stale_since is None


@pytest.mark.parametrize("memory", STACKS, indirect=True)
def test_undo_and_restore_bring_the_ground_back(memory: AgentMemory) -> None:
    work, *_ = chain(memory)
    gone = memory.forget(work.id)
    assert recalled(memory)[TRAIN].stale_since is not None
    memory.restore(work.id)
    assert recalled(memory)[TRAIN].stale_since is None
    gone = memory.forget(work.id)
    memory.undo(gone.operation_id)
    assert recalled(memory)[TRAIN].stale_since is None


def test_a_claim_that_comes_back_gives_its_ground_back(memory: AgentMemory, clock: ManualClock) -> None:
    """A, then B, then A again: what rests on A stands."""
    work, *_ = chain(memory)
    clock.advance(days=1)
    bergen = memory.semantic.supersede_fact(work.id, "Ann works in Bergen")
    assert recalled(memory)[COMMUTE].stale_since is not None
    clock.advance(days=1)
    memory.semantic.supersede_fact(bergen.id, WORK)
    assert recalled(memory)[COMMUTE].stale_since is None
    assert recalled(memory)[TRAIN].stale_since is None


def test_a_claim_said_again_stands_on_its_newest_ground(memory: AgentMemory) -> None:
    work, commute, _ = chain(memory)
    memory.forget(work.id)
    assert recalled(memory)[COMMUTE].stale_since is not None
    again = memory.learn_fact(COMMUTE)
    assert (again.id, again.depends_on) == (commute.id, ())
    assert recalled(memory)[COMMUTE].stale_since is None
    assert recalled(memory)[TRAIN].stale_since is None


def test_all_premises_must_hold(memory: AgentMemory) -> None:
    first, second = memory.learn_fact("Ann has a car"), memory.learn_fact("Ann has a driving licence")
    memory.learn_fact("Ann drives to work", depends_on=[first.id, second.id])
    memory.forget(second.id)
    assert recalled(memory, "Does Ann drive to work?")["Ann drives to work"].fallen_premise == second.claim


def test_nothing_rests_on_itself(memory: AgentMemory) -> None:
    work, commute, train = chain(memory)
    for wrong in (work, commute, train):
        with pytest.raises(InvalidRecord, match="itself rests on") as refused:
            memory.semantic.update_fact(work.id, depends_on=[wrong.id])
        assert refused.value.field == "depends_on"
    assert memory.semantic.get_fact(work.id).depends_on == ()


def test_what_is_learned_or_superseded_again_closes_no_circle(memory: AgentMemory) -> None:
    work, commute, train = chain(memory)
    with pytest.raises(InvalidRecord, match="itself rests on") as refused:
        memory.learn_fact(work.claim, depends_on=[train.id])
    assert refused.value.field == "depends_on"
    other = memory.learn_fact("Ann works from home")
    with pytest.raises(InvalidRecord, match="itself rests on"):
        memory.semantic.supersede_fact(other.id, work.claim, depends_on=[commute.id])
    assert memory.semantic.get_fact(work.id).depends_on == ()
    assert memory.semantic.get_fact(other.id).superseded_by is None


def test_a_premise_out_of_sight_is_not_told(memory: AgentMemory) -> None:
    bot = memory.scoped(agent_id="bot", channel="_self_bot")
    secret = bot.learn_fact("The bot guesses that Ann is bored")
    shared = memory.scoped(agent_id="bot").learn_fact("Ann wants to hear jokes", depends_on=[secret.id])
    bot.forget(secret.id)
    assert recalled(memory, "Does Ann want jokes?")[shared.claim].fallen_premise == HIDDEN_PREMISE_TEXT
    assert recalled(bot, "Does Ann want jokes?")[shared.claim].fallen_premise == secret.claim


@pytest.mark.parametrize("memory", STACKS, indirect=True)
def test_replay_gives_the_marks_of_then(memory: AgentMemory) -> None:
    work, *_ = chain(memory)
    before = memory.remember(ASKED)
    memory.forget(work.id)
    after = memory.remember(ASKED)
    assert [fact.stale_since for fact in memory.audit.replay(before.receipt.id).facts] == [None] * len(before.facts)
    assert memory.audit.replay(after.receipt.id).facts == after.facts
    assert memory.audit.replay(after.receipt.id).notices == after.notices


@pytest.mark.parametrize("memory", STACKS, indirect=True)
def test_marks_are_never_stored(memory: AgentMemory) -> None:
    work, commute, _ = chain(memory)
    memory.forget(work.id)
    assert recalled(memory)[COMMUTE].fallen_premise == WORK
    kept = memory.semantic.get_fact(commute.id)
    assert (kept.stale_since, kept.fallen_premise, kept.seq) == (None, "", commute.seq)


def stale(memory: AgentMemory, fact: Fact, **more: object) -> object:
    """Since when a fact is stale; it has to be found."""
    return recalled(memory, **more)[fact.claim].stale_since


def test_an_end_that_is_put_off_carries_what_rests_on_it(memory: AgentMemory, clock: ManualClock) -> None:
    work = memory.learn_fact(WORK, valid_to=START + timedelta(days=10))
    commute = memory.learn_fact(COMMUTE, depends_on=[work.id])
    clock.advance(days=5)
    memory.semantic.update_fact(work.id, valid_to=START + timedelta(days=40))
    assert stale(memory, commute) is None
    assert stale(memory, commute, as_of=START + timedelta(days=20)) is None
    assert stale(memory, commute, as_of=START + timedelta(days=50)) == START + timedelta(days=40)


def test_a_value_that_comes_back_and_goes_again_carries_by_its_intervals(
    memory: AgentMemory, clock: ManualClock
) -> None:
    work = memory.learn_fact(WORK)
    commute = memory.learn_fact(COMMUTE, depends_on=[work.id])
    first = clock.advance(days=10)
    bergen = memory.semantic.supersede_fact(work.id, "Ann works in Bergen")
    back = clock.advance(days=10)
    again = memory.semantic.supersede_fact(bergen.id, WORK)
    assert stale(memory, commute) is None
    assert stale(memory, commute, as_of=back - timedelta(days=1)) == first
    last = clock.advance(days=10)
    memory.semantic.supersede_fact(again.id, "Ann works in Bodo")
    assert stale(memory, commute) == last
    assert stale(memory, commute, as_of=last - timedelta(days=1)) is None


def test_a_value_of_a_slot_carries_what_rests_on_it(memory: AgentMemory, clock: ManualClock) -> None:
    work = memory.learn_fact(WORK, slot="employer", value="Oslo Port")
    commute = memory.learn_fact(COMMUTE, depends_on=[work.id])
    moved = clock.advance(days=3)
    memory.learn_fact("Ann works in Bergen", slot="employer", value="Bergen Port")
    assert stale(memory, commute) == moved
    clock.advance(days=3)
    memory.learn_fact("Ann is back at the port", slot="employer", value="oslo port")
    assert stale(memory, commute) is None


def test_a_lost_ground_is_lost_at_any_depth(memory: AgentMemory, clock: ManualClock) -> None:
    work, commute, train = chain(memory)
    erased = clock.advance(days=2)
    memory.forget(work.id, hard=True)
    assert (stale(memory, commute), stale(memory, train)) == (erased, erased)
    undone = memory.learn_fact("Ann lives by the station")
    walk = memory.learn_fact("Ann commutes to the train on foot", depends_on=[undone.id])
    memory.undo(undone.operation_id)
    assert stale(memory, walk) is not None
