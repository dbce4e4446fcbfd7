"""What a store keeps for jobs: when records are due, who has something to do, and where each job stands."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from agentmem.core.lifecycle import confidence_now, decay_score_now, importance, salience_now
from agentmem.core.record import Key, Status
from agentmem.core.records import Conversation, Fact
from agentmem.core.scope import Operator, Scope
from agentmem.settings.sections import DecayOptions
from agentmem.stores.admin import RawUsage, StoreAdmin
from agentmem.stores.job_queue import DueDate, JobQueue, JobState
from agentmem.stores.protocols import LogStore
from agentmem.stores.sql.jobs import SqlJobQueue
from agentmem.stores.sql.log import SqlLog
from agentmem.stores.values import RecordUsage
from tests.conformance.stores import admin_of
from tests.conformance.writing import (
    START,
    SettableClock,
    build_change,
    build_entity,
    build_fact,
    build_turn,
    build_turn_changes,
    delete_records,
    query_view,
    write_records,
)

OPERATOR = Operator("test")
ZONE = timedelta(days=4.5437)  # after which a new short-lived fact is in the danger zone
SLACK = timedelta(microseconds=1)


def jobs_of(log: LogStore) -> JobQueue:
    """The face for jobs of an opened log."""
    assert isinstance(log, SqlLog)
    return SqlJobQueue(log.database)


async def due_by(log: LogStore, scope: Scope, days: float) -> dict[str, list[Key]]:
    """What is due by then, by job."""
    now = START + timedelta(days=days)
    found = {job: await jobs_of(log).due_records(job, now, scope) for job in ("cleanup", "decay", "gc", "promote")}
    return {job: keys for job, keys in found.items() if keys}


async def test_what_fades_is_due_from_its_creation_on(log: LogStore, scope: Scope, stranger: Scope) -> None:
    await write_records(
        log, scope, build_fact("s", tier="short"), build_fact("l"), build_entity("ada"), Conversation(id="talk")
    )
    await write_records(log, stranger, build_fact("s", tier="short"))
    await log.append(build_turn_changes(scope, "t"))
    assert await due_by(log, scope, 4.5) == {}
    assert await due_by(log, scope, 5) == {"decay": [("Fact", "s")]}
    both = {"cleanup": [("Entity", "ada"), ("Conversation", "talk")], "decay": [("Fact", "s")]}
    assert await due_by(log, scope, 91) == both
    assert await log.usage([("Fact", "l"), ("Turn", "t")], scope) == {}


async def test_a_delivery_and_a_use_put_off_what_is_due(log: LogStore, scope: Scope) -> None:
    await write_records(log, scope, build_fact("s", tier="short"), build_entity("ada"))
    await log.record_usage([("Fact", "s"), ("Entity", "ada")], scope, "r1", used_at=START + timedelta(days=2))
    assert await due_by(log, scope, 6.5) == {}
    assert await due_by(log, scope, 6.6) == {"decay": [("Fact", "s")]}
    assert await due_by(log, scope, 33) == {"decay": [("Fact", "s")]}
    await log.record_usage([("Fact", "s")], scope, "r2", used=True, used_at=START + timedelta(days=2))
    assert await due_by(log, scope, 3) == {}, "one use proves nothing"
    await log.record_usage([("Fact", "s")], scope, "r3", used=True, used_at=START + timedelta(days=2))
    assert await due_by(log, scope, 2.9) == {}
    assert await due_by(log, scope, 3) == {"promote": [("Fact", "s")]}


async def test_a_use_in_another_field_strengthens_once_per_receipt(log: LogStore, scope: Scope) -> None:
    jwt = build_fact("s", tier="short", tags=("security", "jwt", "preferences"))
    await write_records(log, scope, jwt, build_turn("t"))
    keys, other = [("Fact", "s"), ("Turn", "t")], ("api", "auth", "backend")
    for _ in range(2):
        await log.record_usage(keys, scope, "r1", used=True, used_at=START, context_tags=other)
    await log.record_usage(keys, scope, "r2", used=True, used_at=START, context_tags=("jwt", "security"))
    await log.record_usage(keys, scope, "r3", used_at=START, context_tags=other)  # a delivery is no use
    found = await log.usage(keys, scope)
    assert found["Fact", "s"] == RecordUsage("Fact", "s", 1, 2, START, pytest.approx(1.1), 0, 0.0, START, 2, 1)  # type: ignore[arg-type]
    assert (found["Turn", "t"].strength, found["Turn", "t"].cross_domain_count) == (1.0, 0)
    for number in range(12):
        await log.record_usage(keys, scope, f"more {number}", used=True, used_at=START, context_tags=other, boost=0.05)
    found = await log.usage(keys, scope)
    assert found["Fact", "s"].strength == 2.0
    assert found["Turn", "t"].strength == pytest.approx(1.6)


async def test_a_version_moves_what_is_due_and_a_departure_ends_it(log: LogStore, scope: Scope) -> None:
    short = build_fact("s", tier="short")
    await write_records(log, scope, short, build_fact("l"))
    await write_records(log, scope, short.model_copy(update={"tier": "long"}))
    assert await due_by(log, scope, 400) == {}
    await write_records(log, scope, short)
    assert await due_by(log, scope, 5) == {"decay": [("Fact", "s")]}
    await write_records(log, scope, short.model_copy(update={"status": Status.ARCHIVED}))
    assert await due_by(log, scope, 400) == {}
    await write_records(log, scope, short)
    await delete_records(log, scope, ("Fact", "s"))
    assert await due_by(log, scope, 400) == {}


async def test_what_was_brought_back_is_not_due_at_once(log: LogStore, scope: Scope, clock: SettableClock) -> None:
    short = build_fact("s", tier="short")
    await write_records(log, scope, short)
    clock.advance(days=30)
    await write_records(log, scope, short.model_copy(update={"status": Status.ARCHIVED}))
    await write_records(log, scope, short, operation="undo")
    assert await due_by(log, scope, 400) == {}
    await log.record_usage([("Fact", "s")], scope, "r1", used_at=clock.now())
    assert await due_by(log, scope, 35) == {"decay": [("Fact", "s")]}


async def test_a_conversation_that_goes_on_is_looked_at_again(log: LogStore, scope: Scope) -> None:
    talk = Conversation(id="talk")
    await log.append(build_turn_changes(scope, "a"))
    await log.append(build_turn_changes(scope, "b"))
    assert await due_by(log, scope, 89) == {}
    await write_records(log, scope, talk.model_copy(update={"archived": True}))
    assert await due_by(log, scope, 400) == {}
    await log.append(build_turn_changes(scope, "c", conversation="other"))
    assert await due_by(log, scope, 0) == {}
    await log.append(build_turn_changes(scope, "d"))
    assert await due_by(log, scope, 0) == {"cleanup": [("Conversation", "talk")]}


async def test_a_conversation_that_is_put_away_and_goes_on_in_one_write_is_looked_at_again(
    log: LogStore, scope: Scope
) -> None:
    await log.append(build_turn_changes(scope, "a"))
    await write_records(log, scope, Conversation(id="talk", archived=True), build_turn("b"))
    assert await due_by(log, scope, 0) == {"cleanup": [("Conversation", "talk")]}
    await log.append([build_change(scope, Conversation(id="talk", archived=True)), *build_turn_changes(scope, "c")])
    assert await due_by(log, scope, 0) == {"cleanup": [("Conversation", "talk")]}


async def test_records_due_come_by_their_moment_and_are_settled(log: LogStore, scope: Scope, stranger: Scope) -> None:
    jobs = jobs_of(log)
    await write_records(log, scope, *(build_fact(name) for name in "abcd"))
    await write_records(log, stranger, build_fact("a"))
    moment = START + timedelta(days=1)
    dues = [
        DueDate("Fact", "a", moment, "gc", 0.5),
        DueDate("Fact", "b", START, "gc"),
        DueDate("Fact", "c", moment, "decay"),
    ]
    await jobs.set_due_dates(scope, [*dues, DueDate("Fact", "missing", START, "gc")])
    await jobs.set_due_dates(stranger, [DueDate("Fact", "a", START + SLACK, "gc")])
    assert await jobs.due_records("gc", moment, scope) == [("Fact", "b"), ("Fact", "a")]
    assert await jobs.due_records("gc", moment, scope, limit=1) == [("Fact", "b")]
    assert await jobs.due_records("gc", moment - SLACK, scope) == [("Fact", "b")]
    assert await jobs.due_users("gc", moment, OPERATOR) == ["alice", "mallory"]
    assert await jobs.due_users("gc", moment, OPERATOR, limit=1) == ["alice"]
    assert await jobs.due_users("gc", START - SLACK, OPERATOR) == []
    assert (await log.usage([("Fact", "a")], scope))["Fact", "a"].review_priority == 0.5
    await jobs.set_due_dates(scope, [DueDate("Fact", "b", None), DueDate("Fact", "a", None)])
    assert await jobs.due_users("gc", moment, OPERATOR) == ["mallory"]
    await jobs.set_due_dates(scope, [])


async def test_where_a_job_stands_is_noted_by_user(log: LogStore, scope: Scope, stranger: Scope) -> None:
    jobs = jobs_of(log)
    assert await jobs.state("gc", scope) == JobState("gc", "alice")
    first = JobState("gc", "alice", 7, START, 2, START, {"counts": {"archived": 3}})
    await jobs.write_state(first)
    await jobs.write_state(JobState("decay", "alice", 1))
    assert await jobs.state("gc", scope) == first
    assert [state.job for state in await jobs.states(scope)] == ["decay", "gc"]
    assert await jobs.states(stranger) == []
    await jobs.write_state(JobState("gc", "alice", 3, None, 0, START))
    assert await jobs.state("gc", scope) == JobState("gc", "alice", 7, None, 0, START)  # the way looked at is kept


async def test_nobody_waits_for_a_job_that_watches_other_kinds(log: LogStore, scope: Scope, stranger: Scope) -> None:
    jobs = jobs_of(log)

    async def waiting(who: str, kinds: tuple[str, ...]) -> tuple[int, bool]:
        await jobs.enqueue("gc", {who: START}, kinds)
        state = await jobs.state("gc", Scope(who))
        return state.seq, state.due_at is not None

    await write_records(log, stranger, build_entity("a"))
    await write_records(log, scope, build_fact("a"))
    assert await waiting("alice", ("Entity", "Goal")) == (1, False)  # looked at, as far as alice wrote
    await write_records(log, scope, build_entity("e"))
    assert await waiting("alice", ("Goal",)) == (2, False)
    await write_records(log, scope, build_entity("f"))
    await write_records(log, scope, build_fact("b"))
    assert await waiting("alice", ("Entity",)) == (2, True)
    assert await waiting("alice", ("Goal",)) == (2, True)  # who waits already goes on waiting
    await jobs.write_state(JobState("gc", "alice", 4))
    assert await waiting("alice", ()) == (4, False)
    await write_records(log, scope, build_fact("c"))
    assert await waiting("alice", ()) == (4, True)
    assert await waiting("mallory", ("Fact",)) == (1, False)
    assert await waiting("nobody", ("Fact",)) == (0, False)


async def test_users_wait_in_the_order_in_which_they_came(log: LogStore, scope: Scope, stranger: Scope) -> None:
    jobs = jobs_of(log)
    for who in (scope, stranger):
        await write_records(log, who, build_fact("a"))
    await jobs.enqueue("gc", {"alice": START + SLACK, "mallory": START})
    await jobs.enqueue("gc", {"alice": START - SLACK, "mallory": START + SLACK})
    assert await jobs.pending_users("gc", START + SLACK, OPERATOR) == ["mallory", "alice"]
    assert await jobs.pending_users("gc", START, OPERATOR) == ["mallory"]
    assert [state.user_id for state in await jobs.queue("gc", OPERATOR)] == ["mallory", "alice"]
    found = await jobs.users_changed_since(START - SLACK, OPERATOR)
    assert found == [("alice", START), ("mallory", START)]
    assert await jobs.users_changed_since(START, OPERATOR, after="alice") == [("mallory", START)]
    assert await jobs.users_changed_since(START + SLACK, OPERATOR) == []


async def test_an_import_brings_back_when_records_are_due(
    log: LogStore, scope: Scope, stranger: Scope, clock: SettableClock
) -> None:
    """Files that say nothing of it make the records that fade due at once, for a look."""
    await write_records(log, scope, build_fact("s", tier="short"), build_fact("l"), build_entity("ada"))
    await log.append(build_turn_changes(scope, "t"))
    face = admin_of(log)
    usage = await face.raw_usage(scope, ("", ""), 10)
    assert [row.due_for for row in usage] == ["cleanup", "cleanup", "decay"]
    await _imported(face, scope, stranger, usage)
    assert await face.raw_usage(stranger, ("", ""), 10) == usage
    await log.erase(stranger, None, operation_id="o", erased_at=START)
    old = Scope("bob")
    await _imported(face, scope, old, [row._replace(due_at=None, due_for="") for row in usage[:1]])
    due = await jobs_of(log).due_records("decay", clock.now(), old)
    assert due == [("Conversation", "talk"), ("Entity", "ada"), ("Fact", "s")]


async def _imported(face: StoreAdmin, source: Scope, target: Scope, usage: Sequence[RawUsage]) -> None:
    await face.import_changes(target, await face.raw_changes(source, 0, 100))
    await face.import_usage(target, usage)
    await face.set_counters(target, await face.journal_counters(source))


async def test_the_view_shows_what_the_laws_say(log: LogStore, scope: Scope, clock: SettableClock) -> None:
    """In SQL as in Python: as of the database's own clock, whatever ours says."""
    clock.time = datetime.now(UTC) - timedelta(days=40)
    gone = build_fact("x", status=Status.FORGOTTEN, superseded_at=clock.now())
    inferred = build_fact("i", certainty="inferred", confidence=0.7)
    await write_records(
        log, scope, build_entity("ada", salience=0.9), inferred, build_fact("s", tier="short", importance=0.7), gone
    )
    clock.advance(days=31)
    await log.record_usage([("Fact", "s")], scope, "r", used=True, used_at=clock.now(), boost=0.25)
    stored = {kind: await log.read_records(kind, ["ada", "i", "s"], scope) for kind in ("Entity", "Fact")}
    (ada,), (guess, short) = stored["Entity"], stored["Fact"]
    used = await log.usage([short.key], scope)
    rows = {
        str(row[0]): row[1:]
        for row in await query_view(
            log, scope, "id, salience_now, confidence_now, score_now, importance_now", "current_memory"
        )
    }
    now, options = datetime.now(UTC), DecayOptions()
    assert isinstance(short, Fact)
    assert isinstance(guess, Fact)
    assert ada.recorded_at is not None
    assert guess.recorded_at is not None
    assert short.recorded_at is not None
    assert sorted(rows) == ["ada", "i", "s"]
    seen = {(name, at): rows[name][at] for name in rows for at in range(4)}
    close = pytest.approx
    assert seen == {
        ("ada", 0): close(salience_now(0.9, ada.recorded_at, now, options), rel=1e-6),
        ("ada", 1): None,
        ("ada", 2): None,
        ("ada", 3): close(importance(ada.recorded_at, 0, None, now, options), rel=1e-6),
        ("i", 0): 0.5,
        ("i", 1): close(confidence_now(0.7, True, guess.recorded_at, now, options), rel=1e-6),
        ("i", 2): None,
        ("i", 3): close(importance(guess.recorded_at, 0, None, now, options), rel=1e-6),
        ("s", 0): 0.5,
        ("s", 1): 0.8,
        ("s", 2): close(decay_score_now(short, used[short.key], now, options), rel=1e-6),
        ("s", 3): close(importance(short.recorded_at, 0, 0.7, now, options), rel=1e-6),
    }
