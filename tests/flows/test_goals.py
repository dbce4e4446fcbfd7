"""Goals: from the first word to the result, with parts, with what they wait for, and the one at hand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from agentmem import AgentMemory, AsyncAgentMemory, Conflict, EdgeKind, Goal, InvalidRecord, NotFound
from agentmem.core.procedural_records import Outcome
from agentmem.memory.goals import Goals, check_cycles
from agentmem.stores.values import Where
from tests.flows.given import START, ManualClock, context_of, engine_of, last_operation_id, open_memory, read_head, run
from tests.flows.meanwhile import Action, run_once_before, run_once_before_append


def statuses(memory: AgentMemory, *goals: Goal) -> list[str]:
    return [memory.get_goal(goal.id).goal_status for goal in goals]


def test_a_goal_is_changed_until_it_ends(memory: AgentMemory, clock: ManualClock) -> None:
    goal = memory.scoped(agent_id="bot", conversation_id="c").add_goal("Book a flight")
    assert (goal.agent_id, goal.conversation_id, goal.created_at, goal.priority) == ("bot", "c", START, 3)
    new = memory.goals.update(goal.id, description="Book a train", priority=5, deadline=START + timedelta(days=1))
    assert (new.description, new.priority, new.progress) == ("Book a train", 5, 0.0)
    assert memory.goals.update(goal.id, deadline=None).deadline is None
    half = memory.goals.record_progress(goal.id, 0.5, "seats chosen")
    assert (half.progress, half.note, half.description) == (0.5, "seats chosen", "Book a train")
    clock.advance(hours=1)
    done = memory.complete_goal(goal.id, result="booked")
    assert (done.goal_status, done.result, done.progress, done.completed_at) == ("completed", "booked", 1.0, clock.time)
    for late in (
        lambda: memory.goals.update(goal.id, priority=1),
        lambda: memory.goals.record_progress(goal.id, 0.1),
        lambda: memory.goals.block(goal.id, goal.id),
        lambda: memory.working.set_active_goal(goal.id),
    ):
        with pytest.raises(InvalidRecord, match="has ended before"):
            late()


def test_what_cannot_be_is_refused_by_the_name_of_its_field(memory: AgentMemory) -> None:
    goal, at = memory.add_goal("sing"), read_head(memory)
    for field, wrong in {
        "priority": lambda: memory.goals.update(goal.id, priority=9),
        "progress": lambda: memory.goals.record_progress(goal.id, 1.5),
        "parent_id": lambda: memory.goals.update(goal.id, parent_id="nothing"),
        "blocked_by": lambda: memory.goals.block(goal.id, "nothing"),
        "by": lambda: memory.goals.block(goal.id, []),
        "depth": lambda: memory.goals.sub_goals(goal.id, depth=11),
        "status": lambda: memory.goals.all("lost"),
        "goal_id": lambda: memory.goals.unblock(goal.id),
        "colour": lambda: memory.goals.update(goal.id, colour="red"),
    }.items():
        with pytest.raises(InvalidRecord) as refused:
            wrong()
        assert refused.value.field == field
    with pytest.raises(NotFound):
        memory.goals.update("nothing", priority=1)
    assert read_head(memory) == at


def test_a_goal_waits_until_its_last_blocker_completes(memory: AgentMemory) -> None:
    visa, ticket, hotel = (memory.add_goal(name) for name in ("visa", "ticket", "hotel"))
    trip = memory.add_goal({"description": "trip", "blocked_by": [visa.id]})
    assert trip.goal_status == "blocked"
    assert memory.goals.block(trip.id, [ticket.id, hotel.id]).blocked_by == (visa.id, ticket.id, hotel.id)
    edges = run(engine_of(memory).graph.edges([trip.key], context_of(memory).scope, [EdgeKind.BLOCKED_BY]))
    assert {edge.target for edge in edges} == {visa.id, ticket.id, hotel.id}
    memory.complete_goal(visa.id)
    memory.complete_goal(hotel.id, "abandoned")
    assert memory.get_goal(trip.id).blocked_by == (ticket.id, hotel.id)  # what was abandoned was not reached
    memory.goals.unblock(trip.id, hotel.id)
    assert statuses(memory, trip) == ["blocked"]
    memory.complete_goal(ticket.id)
    done = last_operation_id(memory)
    free = memory.get_goal(trip.id)
    assert (free.goal_status, free.blocked_by, free.operation_id) == ("active", (), done)
    memory.undo(done)
    assert statuses(memory, trip, ticket) == ["blocked", "active"]
    assert memory.goals.unblock(trip.id).goal_status == "active"
    with pytest.raises(InvalidRecord, match="has ended"):
        memory.goals.block(trip.id, visa.id)


def test_what_an_agent_waits_for_in_private_is_freed_by_whoever_completes_it(memory: AgentMemory) -> None:
    bot = memory.scoped(agent_id="bot", channel="_self_bot")
    shared = memory.add_goal("deploy")
    waiting = bot.add_goal({"description": "check the logs", "blocked_by": [shared.id]})
    memory.complete_goal(shared.id)
    assert bot.get_goal(waiting.id).goal_status == "active"
    with pytest.raises(NotFound):
        memory.get_goal(waiting.id)


def test_circles_are_refused_and_named(memory: AgentMemory) -> None:
    a, b, c = (memory.add_goal({"description": name, "id": name}) for name in "abc")
    memory.goals.block(a.id, b.id)
    memory.goals.block(b.id, c.id)
    for goal, by, way in ((c, a, "'c' -> 'a' -> 'b' -> 'c'"), (b, a, "'b' -> 'a' -> 'b'"), (a, a, "'a' -> 'a'")):
        with pytest.raises(InvalidRecord, match=f"blocked_by: a circle: {way}"):
            memory.goals.block(goal.id, by.id)
    memory.goals.update(a.id, parent_id="b")
    with pytest.raises(InvalidRecord, match="parent_id: a circle: 'b' -> 'a' -> 'b'"):
        memory.goals.update(b.id, parent_id="a")


def test_an_undone_step_that_would_close_a_circle_stays_undone(memory: AgentMemory) -> None:
    a, b = (memory.add_goal(name) for name in "ab")
    memory.goals.block(a.id, b.id)
    memory.goals.unblock(a.id)
    unblocked = last_operation_id(memory)
    memory.goals.block(b.id, a.id)
    with pytest.raises(Conflict, match="circle"):
        memory.undo(unblocked)


async def test_two_who_block_at_once_close_no_circle(home: Path) -> None:
    async with AsyncAgentMemory("alice", home=home, embedder="hash") as memory:
        a, b = [await memory.add_goal(name) for name in "ab"]
        said = await asyncio.gather(
            memory.goals.block(a.id, b.id), memory.goals.block(b.id, a.id), return_exceptions=True
        )
        assert sorted(isinstance(each, InvalidRecord) for each in said) == [False, True]


async def test_what_is_blocked_while_its_blocker_completes_is_not_left_waiting(home: Path) -> None:
    async with AsyncAgentMemory("alice", home=home, embedder="hash") as memory:
        for _ in range(5):
            a, b = [await memory.add_goal(name) for name in "ab"]
            await asyncio.gather(memory.complete_goal(b.id), memory.goals.block(a.id, b.id), return_exceptions=True)
            assert (await memory.get_goal(a.id)).goal_status == "active"


async def test_a_goal_that_ends_while_it_is_looked_at_blocks_nobody(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with AsyncAgentMemory("alice", home=home, embedder="hash") as memory:
        a, b = [await memory.add_goal(name) for name in "ab"]
        looked: list[str] = []

        async def ended_meanwhile(*given: Any) -> Any:
            if not looked:
                looked.append(b.id)
                await memory.complete_goal(b.id)
            return await check_cycles(*given)

        monkeypatch.setattr("agentmem.memory.goals.check_cycles", ended_meanwhile)
        with pytest.raises(InvalidRecord, match="has ended"):
            await memory.goals.block(a.id, b.id)
        assert (looked, (await memory.get_goal(a.id)).goal_status) == ([b.id], "active")


async def test_a_goal_that_is_erased_while_it_is_looked_at_blocks_nobody(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with AsyncAgentMemory("alice", home=home, embedder="hash") as memory:
        a, b = [await memory.add_goal(name) for name in "ab"]
        done = run_once_before(monkeypatch, Goals, "_read_goals", lambda: memory.forget(b.id, hard=True))
        with pytest.raises(InvalidRecord, match="no Goal"):
            await memory.goals.block(a.id, b.id)
        assert (done, (await memory.get_goal(a.id)).goal_status) == (["_read_goals"], "active")


@pytest.mark.parametrize("cascade", [False, True])
async def test_a_part_added_while_its_goal_completes_is_seen(
    home: Path, monkeypatch: pytest.MonkeyPatch, cascade: bool
) -> None:
    async with AsyncAgentMemory("alice", home=home, embedder="hash") as memory:
        trip = await memory.add_goal("trip")
        part = {"description": "flight", "parent_id": trip.id, "id": "flight"}
        done = run_once_before_append(monkeypatch, memory.engine, "complete_goal", lambda: memory.add_goal(part))
        if cascade:
            await memory.complete_goal(trip.id, cascade=True)
        else:
            with pytest.raises(InvalidRecord, match="open sub-goals: 'flight'"):
                await memory.complete_goal(trip.id)
        stand = [(await memory.get_goal(name)).goal_status for name in (trip.id, "flight")]
        assert (done, stand) == (["append"], ["completed", "abandoned"] if cascade else ["active", "active"])


async def test_a_goal_ends_though_others_never_cease_to_write(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And what is made to wait for it at the last moment is freed."""
    async with AsyncAgentMemory("alice", home=home, embedder="hash") as memory:
        a, b = [await memory.add_goal(name) for name in "ab"]
        acts: list[Action] = [lambda: memory.goals.block(a.id, b.id)]
        append, tries = memory.engine.log.append, []

        async def after_another(changes: Any, *more: Any) -> Any:
            if changes[0].operation == "complete_goal":
                tries.append("complete_goal")
                await memory.store_turn("More!")
                if acts:
                    await acts.pop()()
            return await append(changes, *more)

        monkeypatch.setattr(memory.engine.log, "append", after_another)
        await memory.complete_goal(b.id)
        stand = [(await memory.get_goal(goal.id)).goal_status for goal in (a, b)]
        assert (len(tries), stand) == (2, ["active", "completed"])


def test_parts_keep_a_goal_open_unless_they_are_given_up_with_it(memory: AgentMemory) -> None:
    trip = memory.add_goal("trip")
    flight = memory.add_goal({"description": "flight", "parent_id": trip.id})
    seats = memory.add_goal({"description": "seats", "parent_id": flight.id})
    (tree,) = memory.goals.sub_goals(trip.id)
    assert (tree.goal, [part.goal for part in tree.sub_goals]) == (flight, [seats])
    assert memory.goals.sub_goals(trip.id, depth=1)[0].sub_goals == ()
    assert memory.goals.sub_goals(seats.id) == []
    for status in ("completed", "abandoned"):
        with pytest.raises(InvalidRecord, match=f"open sub-goals: '{flight.id}', '{seats.id}'"):
            memory.complete_goal(trip.id, status)
    memory.complete_goal(seats.id)
    memory.complete_goal(trip.id, cascade=True)
    assert statuses(memory, trip, flight, seats) == ["completed", "abandoned", "completed"]
    assert memory.get_goal(flight.id).result == f"with goal {trip.id}"
    with pytest.raises(InvalidRecord, match=r"parent_id: goal .* has ended"):
        memory.add_goal({"description": "hotel", "parent_id": trip.id})


def test_deadlines_pass_by_the_clock_alone(memory: AgentMemory, clock: ManualClock) -> None:
    goal = memory.add_goal({"description": "taxes", "deadline": START + timedelta(days=2)})
    memory.add_goal("someday")
    assert memory.goals.overdue() == []
    clock.advance(days=2)
    assert memory.goals.overdue() == [goal]
    memory.complete_goal(goal.id)
    assert memory.goals.overdue() == []


def test_goals_are_listed_by_status_conversation_and_channel(memory: AgentMemory) -> None:
    here = memory.scoped(conversation_id="c")
    first, second = here.add_goal("one"), here.add_goal({"description": "two", "priority": 5})
    hidden = memory.scoped(channel="roof").add_goal("three")
    memory.complete_goal(first.id)
    assert [goal.id for goal in memory.goals.all()] == [second.id, first.id]
    assert [goal.id for goal in memory.goals.all("completed")] == [first.id]
    assert [goal.id for goal in here.goals.for_conversation()] == [second.id, first.id]
    assert memory.goals.for_conversation("other") == memory.goals.for_conversation() == []
    with pytest.raises(NotFound):
        memory.goals.block(hidden.id, second.id)
    memory.forget(second.id)
    assert memory.goals.active() == []


REACHES: dict[str, Callable[[AgentMemory, Goal, Goal], object]] = {
    "update": lambda m, hidden, own: m.goals.update(hidden.id, priority=1),
    "progress": lambda m, hidden, own: m.goals.record_progress(hidden.id, 1),
    "block": lambda m, hidden, own: m.goals.block(hidden.id, own.id),
    "unblock": lambda m, hidden, own: m.goals.unblock(hidden.id),
    "sub_goals": lambda m, hidden, own: m.goals.sub_goals(hidden.id),
    "complete": lambda m, hidden, own: m.complete_goal(hidden.id),
    "set_active_goal": lambda m, hidden, own: m.working.set_active_goal(hidden.id),
    "block by": lambda m, hidden, own: m.goals.block(own.id, hidden.id),
    "parent": lambda m, hidden, own: m.goals.update(own.id, parent_id=hidden.id),
}


def test_goals_of_another_user_and_of_an_agent_alone_are_not_there(memory: AgentMemory) -> None:
    private = memory.scoped(agent_id="bot", channel="_self_bot")
    for owner, stranger in ((memory, memory.scoped(user_id="bob")), (private, memory.scoped(agent_id="spy"))):
        hidden, own = owner.add_goal("hidden"), stranger.add_goal("own")
        for verb in REACHES.values():
            with pytest.raises((NotFound, InvalidRecord), match="no Goal"):
                verb(stranger, hidden, own)
        assert hidden.id not in {goal.id for goal in stranger.goals.all()}
        assert owner.get_goal(hidden.id) == hidden


# -- the goal at hand


def test_the_active_goal_of_a_conversation_outlives_the_process(home: Path) -> None:
    with open_memory(home, conversation_id="c") as memory:
        goal, other = memory.add_goal("plan"), memory.add_goal("rest")
        assert memory.working.active_goal() is None
        memory.working.set_active_goal(other.id)
        memory.working.set_active_goal(goal.id)
    with open_memory(home, conversation_id="c") as memory:
        found = memory.working.active_goal()
        assert (found.id, found.pursued_in) == (goal.id, "c")
        assert memory.scoped(conversation_id="d").working.active_goal() is None
        assert memory.get_goal(other.id).pursued_in == ""
        before = read_head(memory)
        assert memory.working.set_active_goal(goal.id).id == goal.id
        assert read_head(memory) == before
        memory.complete_goal(goal.id)
        assert memory.working.active_goal() is None
        memory.working.set_active_goal(other.id)
        memory.working.set_active_goal(None)
        assert memory.working.active_goal() is None


def test_a_pursued_goal_is_active_inside_and_ends_with_the_block(memory: AgentMemory) -> None:
    memory.store_turn("Let us begin.")
    with memory.goals.pursue("write the report", priority=4) as goal:
        assert memory.working.active_goal() == goal
        with memory.goals.pursue("find the figures", parent_id=goal.id) as part:
            assert memory.working.active_goal() == part
            left = memory.add_goal({"description": "check them", "parent_id": part.id})
        assert memory.working.active_goal().id == goal.id
    assert statuses(memory, goal, part, left) == ["completed", "completed", "abandoned"]
    assert memory.working.active_goal() is None
    assert goal.priority == 4


def test_an_error_abandons_the_goal_with_its_reason_and_goes_on(memory: AgentMemory) -> None:
    before = memory.working.set_active_goal(memory.add_goal("all of it").id)
    with pytest.raises(ZeroDivisionError), memory.goals.pursue("divide") as goal:
        _ = 1 / 0
    ended = memory.get_goal(goal.id)
    assert (ended.goal_status, ended.result) == ("abandoned", "ZeroDivisionError: division by zero")
    assert memory.working.active_goal().id == before.id


def test_a_goal_ended_inside_its_block_stays_as_it_was_ended(memory: AgentMemory) -> None:
    before = memory.working.set_active_goal(memory.add_goal("all of it").id)
    with memory.goals.pursue("try") as goal:
        memory.complete_goal(goal.id, "abandoned", "no use")
    assert (memory.get_goal(goal.id).goal_status, memory.get_goal(goal.id).result) == ("abandoned", "no use")
    assert memory.working.active_goal().id == before.id
    with memory.goals.pursue("try again"):
        memory.complete_goal(before.id)
    assert memory.working.active_goal() is None


async def test_goals_are_pursued_without_blocking_too(home: Path) -> None:
    async with AsyncAgentMemory("alice", home=home, embedder="hash") as memory:
        async with memory.goals.pursue("sing") as goal:
            assert await memory.working.active_goal() == goal
        assert (await memory.get_goal(goal.id)).goal_status == "completed"

        async def vanish() -> None:
            async with memory.goals.pursue("vanish"):
                await memory.close()
                raise RuntimeError("out")

        with pytest.raises(RuntimeError, match="out") as seen:
            await vanish()
        assert "could not be abandoned" in seen.value.__notes__[0]


# -- what the end of a goal leaves


def outcomes(memory: AgentMemory) -> list[Outcome]:
    found = run(engine_of(memory).log.find(context_of(memory).scope, Where(kinds=("Outcome",))))
    return [record for record in found if isinstance(record, Outcome)]


def test_the_end_of_a_goal_is_a_lesson_and_undone_with_it(memory: AgentMemory) -> None:
    turn = memory.store_turn("Let us bake.")
    goal, other = memory.add_goal("bake"), memory.add_goal("rest")
    memory.complete_goal(goal.id, result="a loaf")
    memory.complete_goal(other.id, "abandoned", "no time")
    first, second = outcomes(memory)
    assert (first.success, first.goal_id, first.feedback) == (True, goal.id, "a loaf")
    assert (first.conversation_id, first.operation_id) == (turn.conversation_id, memory.get_goal(goal.id).operation_id)
    assert (second.success, second.goal_id, second.feedback) == (False, other.id, "no time")
    memory.undo(first.operation_id)
    assert outcomes(memory) == [second]
    assert memory.get_goal(goal.id).is_open


def test_an_erased_goal_takes_its_lesson_along_and_leaves_nobody_waiting(memory: AgentMemory) -> None:
    goal = memory.add_goal("find the hidden treasure")
    part = memory.add_goal({"description": "dig", "parent_id": goal.id})
    waiting = memory.add_goal({"description": "spend it", "blocked_by": [goal.id]})
    memory.complete_goal(goal.id, "abandoned", "no treasure", cascade=True)
    receipt = memory.forget(goal.id, hard=True)
    assert receipt.scan.leftovers == {}
    assert outcomes(memory) == []
    assert (memory.get_goal(part.id).parent_id, statuses(memory, waiting)) == (None, ["active"])
