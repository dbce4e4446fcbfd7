"""What is written, changed or used while something is being erased: none of it is lost, none outlives its grounds."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from agentmem import AsyncAgentMemory, Fact, NotFound
from agentmem.settings.sections import DecayOptions
from agentmem.stores.values import Where
from tests.flows.given import ManualClock
from tests.flows.meanwhile import Action, run_once_before, run_once_before_append

GONE = 13.0  # days after which a new short-lived fact that nobody used scores less than .05


@pytest.fixture
async def memory(home: Path, clock: ManualClock) -> AsyncIterator[AsyncAgentMemory]:
    decay = DecayOptions(forget="delete")
    async with AsyncAgentMemory("alice", home=home, embedder="hash", clock=clock, decay=decay) as opened:
        yield opened


Meanwhile = Callable[[AsyncAgentMemory, Action], list[str]]
Between = Callable[[Action], list[str]]


@pytest.fixture(params=["before it is noted", "before it is done"])
def meanwhile(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Meanwhile:
    """Do something once while a record is erased: before the journal notes that it will be, or after that."""

    def collide(memory: AsyncAgentMemory, act: Action) -> list[str]:
        if request.param == "before it is noted":
            return run_once_before_append(monkeypatch, memory.engine, "forget", act)
        return run_once_before(monkeypatch, memory.engine.log, "erase", act)

    return collide


async def standing(memory: AsyncAgentMemory) -> set[str]:
    return {fact.id for fact in await memory.semantic.facts({"retired": True})}


# -- what fades


async def faded(memory: AsyncAgentMemory, clock: ManualClock) -> tuple[Fact, Fact]:
    """Two faded facts, the one that is due first before the other, which comes from a turn."""
    turn = await memory.store_turn("The build is red since Monday.")
    first = await memory.learn_fact("The build is slow", tier="short")
    clock.advance(minutes=1)
    second = await memory.learn_fact("The build is red", tier="short", source_turn_ids=[turn.id])
    clock.advance(days=GONE)
    return first, second


@pytest.mark.parametrize("what", ["important", "long-lived", "used", "needed"])
async def test_what_is_wanted_while_others_are_erased_stays(
    memory: AsyncAgentMemory, clock: ManualClock, meanwhile: Meanwhile, what: str
) -> None:
    first, second = await faded(memory, clock)
    (turn,) = await memory.episodic.recent_turns()

    async def want() -> None:
        if what == "important":
            await memory.semantic.update_fact(second.id, importance=0.9)
        elif what == "long-lived":
            await memory.semantic.update_fact(second.id, tier="long")
        elif what == "used":
            await memory.observe_usage([second.id])
        else:
            await memory.add_goal({"description": "Mend it", "conversation_id": turn.conversation_id})

    done = meanwhile(memory, want)
    (report,) = await memory.consolidate("gc")
    assert done
    assert report.counts == {"deleted": 1}
    assert len(report.operation_ids) == 1
    assert await standing(memory) == {second.id}
    assert first.id != second.id


async def test_what_is_changed_while_it_is_erased_itself_stays(
    memory: AsyncAgentMemory, clock: ManualClock, meanwhile: Meanwhile
) -> None:
    fact = await memory.learn_fact("The build is red", tier="short")
    clock.advance(days=GONE)
    done = meanwhile(memory, lambda: memory.semantic.update_fact(fact.id, importance=0.9))
    (report,) = await memory.consolidate("gc")
    assert (bool(done), report.counts) == (True, {})
    assert (await memory.semantic.get_fact(fact.id)).importance == 0.9


async def test_what_another_erased_meanwhile_ends_no_run(
    memory: AsyncAgentMemory, clock: ManualClock, meanwhile: Meanwhile
) -> None:
    first, second = await faded(memory, clock)
    clock.advance(minutes=1)
    third = await memory.learn_fact("The build is old", tier="short")
    clock.advance(days=GONE)
    done = meanwhile(memory, lambda: memory.forget(second.id, hard=True))
    (report,) = await memory.consolidate("gc")
    assert (bool(done), report.counts) == (True, {"deleted": 2})
    assert {first.id, third.id} & await standing(memory) == set()


async def test_who_lost_the_lease_erases_nothing(
    memory: AsyncAgentMemory, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = await faded(memory, clock)
    log, name = memory.engine.log, "gc:alice"

    async def taken_over() -> None:
        done.append("erased by nobody")
        (owner,) = owners
        await log.release_lease(name, owner)
        assert await log.acquire_lease(name, 30.0, "another") is not None

    owners, done, lease = list[str](), list[str](), log.acquire_lease

    async def noted(lease_name: str, ttl: float, owner: str) -> Any:
        if lease_name == name and not owners:
            owners.append(owner)
        return await lease(lease_name, ttl, owner)

    monkeypatch.setattr(log, "acquire_lease", noted)
    run_once_before_append(monkeypatch, memory.engine, "forget", taken_over)
    (report,) = await memory.consolidate("gc")
    assert (bool(done), bool(report.stop_reason), report.counts) == (True, True, {})
    assert await standing(memory) == {fact.id for fact in facts}


# -- what is built on what goes


async def test_a_fact_learned_meanwhile_from_an_erased_turn_and_another_loses_that_one(
    memory: AsyncAgentMemory, meanwhile: Meanwhile
) -> None:
    first, second = await memory.store_turns(["one", "two"])
    done = meanwhile(memory, lambda: memory.learn_fact("From both", source_turn_ids=[first.id, second.id]))
    receipt = await memory.forget(first.id, hard=True)
    (fact,) = await memory.semantic.facts()
    assert (bool(done), fact.source_turn_ids, fact.stale_since) == (True, (second.id,), None)
    assert (receipt.ids, receipt.derived) == ((first.id,), ())
    assert fact.operation_id == receipt.operation_id
    assert (await memory.forget(second.id, hard=True)).derived == (fact.id,)


async def test_a_fact_learned_meanwhile_loses_its_erased_premise(
    memory: AsyncAgentMemory, meanwhile: Meanwhile
) -> None:
    premise = await memory.learn_fact("The office is in Oslo")
    done = meanwhile(memory, lambda: memory.learn_fact("It is cold there", depends_on=[premise.id]))
    await memory.forget(premise.id, hard=True)
    (fact,) = await memory.semantic.facts()
    assert (bool(done), fact.depends_on, fact.stale_since) == (True, (), memory.engine.clock.now())


async def test_a_goal_that_is_to_wait_meanwhile_for_an_erased_one_is_free(
    memory: AsyncAgentMemory, meanwhile: Meanwhile
) -> None:
    goal, blocker = [await memory.add_goal(name) for name in ("goal", "blocker")]
    done = meanwhile(memory, lambda: memory.goals.block(goal.id, blocker.id))
    await memory.forget(blocker.id, hard=True)
    left = await memory.get_goal(goal.id)
    assert (bool(done), left.goal_status, left.blocked_by) == (True, "active", ())


async def test_an_entity_merged_meanwhile_into_an_erased_one_goes_with_it(
    memory: AsyncAgentMemory, meanwhile: Meanwhile
) -> None:
    kept, other = [await memory.upsert_entity({"name": name, "type": "place"}) for name in ("New York", "Big Apple")]
    done = meanwhile(memory, lambda: memory.semantic.merge_entities(kept.id, other.id))
    receipt = await memory.forget(kept.id, hard=True)
    assert (bool(done), receipt.derived) == (True, (other.id,))
    assert await memory.semantic.entities() == []


# -- what is changed or erased while much is read, page by page


@pytest.fixture
def paged(memory: AsyncAgentMemory, monkeypatch: pytest.MonkeyPatch) -> Between:
    """Two records are read at a time; something is done once before the second page of the facts."""
    monkeypatch.setattr("agentmem.memory.context.RECORD_PAGE_SIZE", 2)

    def between(act: Action) -> list[str]:
        def second(_: Any, where: Where, **given: Any) -> bool:
            return where.kinds == ("Fact",) and where.after_id is not None

        return run_once_before(monkeypatch, memory.engine.log, "find", act, second)

    return between


async def facts_of(memory: AsyncAgentMemory) -> tuple[list[Fact], list[Fact]]:
    """Five facts, and those of them that come first by time and by id."""
    facts = [await memory.learn_fact(f"Claim number {n}") for n in range(5)]
    lowest = min(facts, key=lambda fact: fact.id)
    return facts, [facts[0]] if lowest is facts[0] else [facts[0], lowest]


@pytest.mark.parametrize("erased", [False, True])
async def test_no_record_is_missed_or_read_twice_because_others_are_written(
    memory: AsyncAgentMemory, paged: Between, erased: bool
) -> None:
    facts, first = await facts_of(memory)

    async def write() -> None:
        for fact in first:
            if erased:
                await memory.forget(fact.id, hard=True)
            else:
                await memory.semantic.update_fact(fact.id, importance=0.9)

    done = paged(write)
    found = [record.id for record in await memory._context.list_readable("Fact")]
    left = [fact.id for fact in facts if fact not in first]
    assert (done, [name for name in found if name in left], len(found)) == (["find"], left, len(set(found)))


@pytest.mark.parametrize("hard", [False, True])
async def test_a_channel_is_cleared_of_what_is_changed_meanwhile_too(
    memory: AsyncAgentMemory, paged: Between, hard: bool
) -> None:
    trip = memory.scoped(channel="trip")
    facts, first = await facts_of(trip)
    done = paged(lambda: trip.semantic.update_fact(first[0].id, importance=0.9))
    receipt = await trip.episodic.clear_channel(hard=hard)
    assert (done, set(receipt.ids)) == (["find"], {fact.id for fact in facts})
    assert await trip.semantic.facts() == []
    assert len(await standing(trip)) == (0 if hard else 5)


# -- what was asked


@pytest.mark.parametrize("verb", ["remember", "context"])
@pytest.mark.parametrize("everything", [False, True])
async def test_a_recall_under_way_tells_nothing_of_what_is_erased_meanwhile(
    home: Path, monkeypatch: pytest.MonkeyPatch, verb: str, everything: bool
) -> None:
    async with AsyncAgentMemory("alice", home=home, embedder="hash", audit_level="verbose") as memory:
        turn = await memory.store_turn("The safe in Zanzibar opens with 7391.")
        erase = memory.erase if everything else lambda: memory.forget(turn.id, hard=True)
        done = run_once_before(
            monkeypatch, memory.engine.log, "write_audit", erase, lambda rows: rows[0].memory_type == "recall"
        )
        found = await getattr(memory, verb)("Where is the safe in Zanzibar?")
        (row,) = [row for row in await memory.audit.query() if row["memory_type"] == "recall"]
        assert (done, row["query_text"], row["metadata"]) == (["write_audit"], None, {})
        if verb == "remember":
            assert turn.id in {each.id for each in found.turns}  # it was there when it was asked for
            assert await memory.engine.log.find_receipt(found.receipt.id, memory.scope) is None
            with pytest.raises(NotFound):
                await memory.audit.receipt(found.receipt.id)


async def test_a_recall_that_read_before_an_erasure_leaves_no_receipt_in_the_process(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with AsyncAgentMemory("alice", home=home, embedder="hash") as memory:
        turn = await memory.store_turn("The safe in Zanzibar opens with 7391.")
        layer = memory._opening.get()[1]
        done = run_once_before(monkeypatch, layer, "_build_receipt", lambda: memory.forget(turn.id, hard=True))
        found = await memory.remember("Where is the safe in Zanzibar?")
        assert (done, [each.id for each in found.turns]) == (["_build_receipt"], [turn.id])
        with pytest.raises(NotFound):
            await memory.audit.receipt(found.receipt.id)
        again = await memory.remember("Where is the safe in Zanzibar?")
        assert (await memory.audit.receipt(again.receipt.id)).id == again.receipt.id
