"""What a log promises of writes: durable, in order, once, and only on the state that they were built on."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from agentmem.core.changes import AuditEntry, RemovedRecord
from agentmem.core.clock import to_micros
from agentmem.core.record import Status
from agentmem.core.records import Conversation, Turn
from agentmem.core.scope import Scope
from agentmem.errors import Closed, Conflict, InvalidRecord, LeaseLost
from agentmem.stores.protocols import LogStore
from agentmem.stores.values import Where
from tests.conformance.conftest import OpenLog
from tests.conformance.writing import (
    START,
    SettableClock,
    build_change,
    build_entity,
    build_fact,
    build_turn,
    build_turn_changes,
    delete_records,
    entry_seqs,
    record_ids,
    write_records,
)


async def test_a_write_answers_with_what_the_journal_holds(log: LogStore, scope: Scope) -> None:
    first, second = await log.append(build_turn_changes(scope, "a", "b"))
    assert (first.seq, second.seq) == (1, 2)
    assert (first.recorded_at, first.operation, first.actor, first.already_applied) == (START, "store", "user", False)
    assert [stored.record.kind for stored in first.upserts] == ["Conversation", "Turn"]
    stored = second.upserts[0].record
    assert (stored.user_id, stored.seq, stored.recorded_at) == ("alice", 2, START)
    assert stored.operation_id == second.operation_id
    assert await log.changes(scope, 0, 10) == [first, second]
    assert (await log.head(scope))[:2] == (2, 0)


async def test_what_was_acknowledged_is_there_after_opening_again(open_log: OpenLog, scope: Scope) -> None:
    log = await open_log()
    rich = build_turn(
        "a", "Grüße, 世界 \u0000 and 'quotes'", speaker="Bob", metadata={"n": [1, {"x": None}], "when": "t"}
    )
    entry = await write_records(
        log, scope, rich, build_fact("f", source_spans=(("a", 0, 3),), tags=("x",), status=Status.PROMOTED)
    )
    await log.close()
    again = await open_log()
    assert await again.read_records("Turn", ["a"], scope) == [entry.upserts[0].record]
    assert await again.read_records("Fact", ["f"], scope) == [entry.upserts[1].record]


async def test_an_empty_write_does_nothing(log: LogStore, scope: Scope) -> None:
    assert await log.append([]) == []
    assert (await log.head(scope))[:2] == (0, 0)


async def test_slots_are_dense_and_kept_for_life(log: LogStore, scope: Scope) -> None:
    await write_records(log, scope, build_fact("a"), build_fact("b"))
    await delete_records(log, scope, ("Fact", "a"))
    again = await write_records(log, scope, build_fact("a", "The claim of a, again"), build_fact("c"))
    assert [stored.ordinal for stored in again.upserts] == [0, 2]


async def test_recorded_at_is_the_first_versions(log: LogStore, scope: Scope, clock: SettableClock) -> None:
    await write_records(log, scope, build_fact("a"))
    clock.advance(days=1)
    later = await write_records(log, scope, build_fact("a", confidence=0.3))
    assert (later.recorded_at, later.upserts[0].record.recorded_at) == (START + timedelta(days=1), START)


async def test_record_time_never_runs_backwards(log: LogStore, scope: Scope, clock: SettableClock) -> None:
    await write_records(log, scope, build_fact("a"))
    clock.advance(hours=-5)
    back = await write_records(log, scope, build_fact("b"))
    assert back.recorded_at == START
    assert await log.seq_at_time(scope, START) == 2
    assert await log.seq_at_time(scope, START - timedelta(microseconds=1)) == 0


async def test_record_time_goes_on_from_now_after_a_clock_that_was_a_century_ahead(
    log: LogStore, scope: Scope, clock: SettableClock
) -> None:
    await write_records(log, scope, build_fact("a"))
    clock.advance(days=365_000)
    await write_records(log, scope, build_fact("wrong"))
    clock.advance(days=1 - 365_000)
    back = await write_records(log, scope, build_fact("b"))
    assert back.recorded_at == back.upserts[0].record.recorded_at == START + timedelta(days=1)
    assert (await log.head(scope)).last_at == to_micros(START + timedelta(days=1))
    assert await log.seq_at_time(scope, START + timedelta(days=2)) == 3
    assert await log.seq_at_time(scope, START + timedelta(hours=1)) == 1
    clock.advance(days=-365 * 55)  # a battery that is empty: 1970
    early = await write_records(log, scope, build_fact("c"))
    assert early.recorded_at == START + timedelta(days=1)
    await log.erase(scope, [("Fact", "wrong")], operation_id="e", erased_at=clock.now())
    assert (await log.head(scope)).last_at == to_micros(START + timedelta(days=1))


async def test_the_same_change_is_applied_once(log: LogStore, scope: Scope) -> None:
    first = await log.append(build_turn_changes(scope, "a", "b"))
    again = await log.append(build_turn_changes(scope, "b", "c"))
    assert again[0] == replace(first[1], already_applied=True)
    assert (again[1].seq, again[1].already_applied) == (3, False)
    assert record_ids(await log.find(scope, Where(kinds=("Turn",)))) == ["a", "b", "c"]
    assert await log.find_applied(again[1].change_id, "what c says", scope) == replace(again[1], already_applied=True)
    assert await log.find_applied("never", "", scope) is None


async def test_a_change_given_twice_in_one_write_is_applied_once(log: LogStore, scope: Scope) -> None:
    (one,) = build_turn_changes(scope, "a")
    entries = await log.append([one, one])
    assert entries[0] == entries[1]
    assert (await log.head(scope))[:2] == (1, 0)


async def test_a_key_used_for_something_else_is_a_conflict(log: LogStore, scope: Scope) -> None:
    (one,) = await log.append(build_turn_changes(scope, "a"))
    with pytest.raises(Conflict) as refused:
        await log.append([build_change(scope, build_turn("z"), key="turn a", request_hash="something else")])
    assert not refused.value.stale
    with pytest.raises(Conflict):
        await log.find_applied(one.change_id, "something else", scope)
    with pytest.raises(Conflict):
        await log.append(
            [build_change(scope, key="k", request_hash="x"), build_change(scope, key="k", request_hash="y")]
        )
    assert (await log.head(scope))[:2] == (1, 0)


async def test_the_same_change_id_of_another_user_is_another_change(
    log: LogStore, scope: Scope, stranger: Scope
) -> None:
    mine = build_change(scope, build_fact("a"), request_hash="mine")
    await log.append([mine])
    (theirs,) = await log.append([replace(mine, scope=stranger, request_hash="theirs")])
    assert (theirs.seq, theirs.already_applied, theirs.user_id) == (1, False, "mallory")


async def test_an_expectation_that_does_not_hold_is_a_stale_conflict(log: LogStore, scope: Scope) -> None:
    entry = await write_records(log, scope, build_fact("a"))
    key = ("Fact", "a")
    for wrong in (None, entry.seq + 1):
        with pytest.raises(Conflict, match="expected") as refused:
            await log.append([build_change(scope, build_fact("b"), expected_versions={key: wrong})])
        assert refused.value.stale
    await write_records(log, scope, build_fact("a", confidence=0.1), expected_versions={key: entry.seq})
    await delete_records(log, scope, key)
    await write_records(log, scope, build_fact("b"), expected_versions={key: None})
    assert await log.read_records("Fact", ["a"], scope) == []


async def test_a_write_may_expect_that_there_is_no_more_of_a_kind(log: LogStore, scope: Scope, stranger: Scope) -> None:
    """What others write does not count, nor other kinds, nor what the same write puts."""
    await write_records(log, scope, build_fact("a"))
    seen = (await log.head(scope)).seq
    await write_records(log, stranger, build_fact("b"))
    await write_records(log, scope, build_entity("tea"))
    await log.append(
        [build_change(scope, build_fact(name), no_new_since={"Fact": seen, "Goal": 0}) for name in ("c", "d")]
    )
    for wrong in (0, seen):
        with pytest.raises(Conflict, match="expected none since") as refused:
            await log.append([build_change(scope, build_fact("e"), no_new_since={"Fact": wrong})])
        assert refused.value.stale
    assert await log.read_records("Fact", ["e"], scope) == []


async def test_one_refused_change_refuses_the_whole_write(log: LogStore, scope: Scope) -> None:
    good, bad = (
        build_change(scope, build_fact("a")),
        build_change(scope, build_fact("b"), expected_versions={("Fact", "a"): None}),
    )
    with pytest.raises(Conflict):
        await log.append([good, bad], AuditEntry(operation="store", memory_type="semantic", scope=scope))
    assert (await log.head(scope))[:2] == (0, 0)
    assert await log.find(scope, Where()) == []
    assert await log.audit_rows(scope) == []


async def test_a_unique_value_is_held_by_one_current_record(log: LogStore, scope: Scope) -> None:
    await write_records(log, scope, build_fact("a", "Alice likes tea"))
    with pytest.raises(Conflict) as refused:
        await write_records(log, scope, build_fact("b", "Alice likes tea"))
    assert refused.value.stale
    with pytest.raises(Conflict):
        await write_records(log, scope, build_fact("c", "New"), build_fact("d", "New"))
    elsewhere = await write_records(log, scope, build_fact("e", "Alice likes tea", channel="work"), build_entity("tea"))
    ended = await write_records(
        log, scope, build_fact("a", "Alice likes tea", valid_to=START), build_fact("b", "Alice likes tea")
    )
    assert (elsewhere.seq, ended.seq) == (2, 3)


async def test_of_two_writers_of_one_claim_one_wins(open_log: OpenLog, scope: Scope) -> None:
    logs = [await open_log(), await open_log()]
    writes = [
        log.append([build_change(scope, build_fact(f"f{n}", "The same claim"))]) for n, log in enumerate(logs * 4)
    ]
    done = await asyncio.gather(*writes, return_exceptions=True)
    assert sum(isinstance(result, Conflict) for result in done) == 7
    assert await logs[0].count(scope, Where(kinds=("Fact",))) == 1


async def test_ensures_write_only_what_is_absent(log: LogStore, scope: Scope) -> None:
    first = await write_records(log, scope, inserts_if_absent=(Conversation(id="talk", title="First"),))
    second = await write_records(log, scope, inserts_if_absent=(Conversation(id="talk", title="Second"),))
    assert (len(first.upserts), second.upserts, second.seq) == (1, (), 2)
    (kept,) = await log.read_records("Conversation", ["talk"], scope)
    assert isinstance(kept, Conversation)
    assert (kept.title, kept.seq) == ("First", 1)


async def test_retracted_records_leave_the_current_state_and_stay_in_history(log: LogStore, scope: Scope) -> None:
    await write_records(log, scope, build_fact("a"))
    entry = await delete_records(log, scope, ("Fact", "a"), ("Fact", "never there"))
    assert entry.removals == (RemovedRecord(0, "Fact", "a"),)
    assert await log.read_records("Fact", ["a"], scope) == []
    assert record_ids(await log.versions(("Fact", "a"), scope)) == ["a"]
    assert await log.changes(scope, 1, 10) == [entry]


async def test_turns_are_numbered_within_their_conversation(log: LogStore, scope: Scope) -> None:
    await log.append([*build_turn_changes(scope, "a", "b"), *build_turn_changes(scope, "c", conversation="other")])
    given = await write_records(log, scope, build_turn("late", index=7), build_turn("next"))
    assert [stored.record.position_key() for stored in given.upserts] == [("talk", 7), ("talk", 8)]
    turns = await log.find(scope, Where(conversation_id="talk"), order="position")
    assert [(record.id, record.position_key()[1]) for record in turns] == [("a", 0), ("b", 1), ("late", 7), ("next", 8)]


async def test_a_new_version_of_a_turn_keeps_its_index(log: LogStore, scope: Scope) -> None:
    await log.append(build_turn_changes(scope, "a", "b"))
    entry = await write_records(log, scope, build_turn("a", "Corrected."))
    assert entry.upserts[0].record.position_key() == ("talk", 0)
    moved = await write_records(log, scope, build_turn("a", conversation="other"))
    assert moved.upserts[0].record.position_key() == ("other", 0)
    freed = await write_records(log, scope, build_turn("c", index=0))
    assert freed.upserts[0].record.position_key() == ("talk", 0)


async def test_two_turns_may_change_places_in_one_change(log: LogStore, scope: Scope) -> None:
    await log.append(build_turn_changes(scope, "a", "b"))
    await delete_records(log, scope, ("Turn", "a"), ("Turn", "b"))
    await write_records(log, scope, build_turn("a", index=1), build_turn("b", index=0))
    assert record_ids(await log.find(scope, Where(conversation_id="talk"), order="position")) == ["b", "a"]


async def test_an_index_that_is_taken_is_refused_by_name(log: LogStore, scope: Scope) -> None:
    await log.append(build_turn_changes(scope, "a"))
    with pytest.raises(InvalidRecord) as refused:
        await write_records(log, scope, build_turn("b", index=0))
    assert refused.value.field == "index"
    assert (await log.head(scope))[:2] == (1, 0)


async def test_writers_at_once_leave_no_gap_and_no_doubled_index(open_log: OpenLog, scope: Scope) -> None:
    logs = [await open_log() for _ in range(3)]
    writes = [log.append(build_turn_changes(scope, f"t{n}-{i}")) for i in range(10) for n, log in enumerate(logs)]
    await asyncio.gather(*writes)
    entries = await logs[0].changes(scope, 0, 100)
    assert entry_seqs(entries) == list(range(1, 31))
    turns = await logs[1].find(scope, Where(conversation_id="talk"), order="position")
    assert [record.index for record in turns if isinstance(record, Turn)] == list(range(30))


@pytest.mark.parametrize(
    "field, puts",
    [
        ("id", (build_turn(""),)),
        ("index", (build_turn("a", index=10**30),)),
        ("conversation_id", (build_turn("a", conversation=""),)),
        ("user_id", (build_fact("a", user_id="mallory"),)),
        ("id", (build_fact("a"), build_fact("a"))),
        ("metadata", (build_turn("a").model_copy(update={"metadata": {"x": object()}}),)),
        ("metadata", (build_turn("a").model_copy(update={"metadata": {"x": "\ud800"}}),)),
    ],
)
async def test_bad_records_are_refused_by_field(
    log: LogStore, scope: Scope, field: str, puts: tuple[Turn, ...]
) -> None:
    with pytest.raises(InvalidRecord) as refused:
        await write_records(log, scope, *puts)
    assert refused.value.field == field
    assert (await log.head(scope))[:2] == (0, 0)


async def test_one_write_is_one_users(log: LogStore, scope: Scope, stranger: Scope) -> None:
    with pytest.raises(InvalidRecord, match="one user"):
        await log.append([build_change(scope, build_fact("a")), build_change(stranger, build_fact("b"))])
    assert (await log.head(stranger))[:2] == (0, 0)


async def test_a_writer_that_lost_its_lease_is_refused(log: LogStore, scope: Scope) -> None:
    token = await log.acquire_lease("job", 30.0, "worker 1")
    await log.append([build_change(scope, build_fact("a"))], fence=token)
    await log.release_lease("job", "worker 1")
    newer = await log.acquire_lease("job", 30.0, "worker 2")
    with pytest.raises(LeaseLost):
        await log.append([build_change(scope, build_fact("b"))], fence=token)
    await log.append([build_change(scope, build_fact("c"))], fence=newer)
    assert record_ids(await log.find(scope, Where())) == ["a", "c"]


async def test_a_write_leaves_its_audit_row_and_a_repeated_one_none(log: LogStore, scope: Scope) -> None:
    audit = AuditEntry(
        operation="store", memory_type="episodic", scope=scope, operation_id="op", metadata={"ids": ["a"]}
    )
    await log.append(build_turn_changes(scope, "a"), audit)
    await log.append(build_turn_changes(scope, "a"), audit)
    (row,) = await log.audit_rows(scope)
    assert (row["operation"], row["operation_id"], row["metadata"]) == ("store", "op", {"ids": ["a"]})


async def test_a_closed_log_says_so(log: LogStore, scope: Scope) -> None:
    await log.close()
    await log.close()
    with pytest.raises(Closed):
        await log.append(build_turn_changes(scope, "a"))
