"""What a log promises beside the journal: audit, usage, leases, meta data, lagging projections, maintenance, health."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

import numpy as np
import pytest

from agentmem.core.changes import AuditEntry
from agentmem.core.scope import Operator, Scope
from agentmem.errors import Conflict, InvalidRecord
from agentmem.stores.admin import JournalCounters, ProjectionLag
from agentmem.stores.protocols import LogStore
from agentmem.stores.values import DeadLetter, RecordUsage, VectorBatch, VectorRow, Where
from tests.conformance.conftest import OpenLog
from tests.conformance.histories import read_snapshot, restore_snapshot, turn_contents, write_history
from tests.conformance.stores import admin_of, open_vector_index
from tests.conformance.writing import (
    START,
    SettableClock,
    build_fact,
    build_turn,
    build_turn_changes,
    delete_records,
    write_records,
)

OPERATOR = Operator("test")


async def test_receipts_are_kept_by_user_until_they_are_past_retention(log: LogStore, clock: SettableClock) -> None:
    alice, bob = Scope("alice"), Scope("bob", channel="work")
    await log.write_receipt(alice, "r", '{"first": "\\ud800"}', START)
    await log.write_receipt(alice, "r", '{"second": 1}', START)
    await log.write_receipt(bob, "r", "{}", clock.advance(days=2))
    assert await log.find_receipt("r", alice) == '{"second": 1}'
    assert await log.find_receipt("r", bob) == "{}"
    assert await log.find_receipt("other", alice) is None
    done = await log.maintain(START + timedelta(days=11), keep_audit_days=10)
    assert done["receipts_dropped"] == 1
    assert await log.find_receipt("r", alice) is None
    assert await log.find_receipt("r", bob) == "{}"


async def test_audit_rows_are_filtered_and_newest_first(log: LogStore, scope: Scope, clock: SettableClock) -> None:
    named = Scope("alice", channel="work", agent_id="bot", session_id="s1", conversation_id="c1")
    await log.write_audit(
        [
            AuditEntry(
                operation="recall",
                memory_type="semantic",
                scope=named,
                target_channels=("work", "_global"),
                query_text="wo ist Köln? 🙂 \ud800",
                result_count=2,
                latency_ms=1.5,
                config_snapshot={"top_k": 10},
                metadata={"ids": ["a"]},
                operation_id="op",
            ),
            AuditEntry(operation="store", memory_type="episodic", scope=scope, success=False, error_message="Conflict"),
        ]
    )
    later = clock.advance(hours=1)
    await log.write_audit([AuditEntry(operation="maintain", memory_type="working", scope=None)])
    await log.write_audit(
        [AuditEntry(operation="promote", memory_type="semantic", scope=scope, promotion_confidence=0.9)]
    )
    rows = await log.audit_rows(scope)
    assert [row["operation"] for row in rows] == ["promote", "store", "recall"]
    recall = rows[2]
    assert (recall["user_id"], recall["session_id"], recall["conversation_id"]) == ("alice", "s1", "c1")
    assert (recall["agent_id"], recall["source_channel"], recall["target_channels"]) == (
        "bot",
        "work",
        ["work", "_global"],
    )
    assert (recall["query_text"], recall["success"], recall["latency_ms"]) == ("wo ist Köln? 🙂 ?", True, 1.5)
    assert (recall["config_snapshot"], recall["metadata"]) == ({"top_k": 10}, {"ids": ["a"]})
    assert recall["timestamp"] == "2024-03-01T12:00:00.000000Z"
    await _check_audit_filters(log, scope, later)


async def _check_audit_filters(log: LogStore, scope: Scope, later: datetime) -> None:
    filters = (
        {"operation": "recall"},
        {"memory_type": "semantic"},
        {"since": later},
        {"until": later},
        {"session_id": "s1"},
        {"success": False},
        {"limit": 1},
        {"operation": "erase"},
    )
    found = [[row["operation"] for row in await log.audit_rows(scope, **wanted)] for wanted in filters]
    both = ["store", "recall"]
    assert found == [["recall"], ["promote", "recall"], ["promote"], both, ["recall"], ["store"], ["promote"], []]
    with pytest.raises(InvalidRecord):
        await log.audit_rows(scope, colour="red")


async def test_audit_days_past_retention_go_whole(log: LogStore, scope: Scope, clock: SettableClock) -> None:
    for hour in (-49, -36, -25, -13, -12, 0):
        clock.time = START + timedelta(hours=hour)
        await log.write_audit([AuditEntry(operation=f"at {hour}", memory_type="episodic", scope=scope)])
    done = await log.maintain(START, keep_audit_days=1)
    assert done["audit_rows_dropped"] == 1
    kept = [row["operation"] for row in await log.audit_rows(scope)]
    assert kept == [f"at {hour}" for hour in (0, -12, -13, -25, -36)]
    with pytest.raises(InvalidRecord, match="keep_audit_days"):
        await log.maintain(START, keep_audit_days=0)


async def test_a_receipt_counts_each_record_once(log: LogStore, scope: Scope) -> None:
    await write_records(log, scope, build_fact("a"), build_fact("b"), build_turn("t"))
    keys = [("Fact", "a"), ("Turn", "t"), ("Fact", "missing"), ("Fact", "a")]
    talk = Scope("alice", conversation_id="talk")
    await log.record_usage(keys, talk, "r1", used_at=START)
    await log.record_usage([("Fact", "b")], scope, "r2", used_at=START + timedelta(1))
    await log.record_usage([*keys, ("Fact", "b")], talk, "r1", used_at=START + timedelta(2))
    await log.record_usage([("Fact", "a")], scope, "r1", used=True, used_at=START - timedelta(1))
    asked = [("Fact", "a"), ("Fact", "b"), ("Turn", "t"), ("Fact", "missing")]
    assert await log.usage(asked, scope) == {
        ("Fact", "a"): RecordUsage(
            "Fact",
            "a",
            access_count=1,
            use_count=1,
            last_accessed=START,
            conversations=1,
            last_review_at=START - timedelta(1),
            review_count=1,
        ),
        ("Fact", "b"): RecordUsage("Fact", "b", access_count=2, last_accessed=START + timedelta(2), conversations=1),
        ("Turn", "t"): RecordUsage("Turn", "t", access_count=1, last_accessed=START, conversations=1),
    }
    assert (await log.head(scope))[:2] == (1, 0)


async def test_distinct_conversations_are_counted(log: LogStore, scope: Scope) -> None:
    await write_records(log, scope, build_fact("a"))
    for number in range(40):
        await log.record_usage(
            [("Fact", "a")], Scope("alice", conversation_id=f"c{number % 3}"), f"r{number}", used_at=START
        )
    usage = (await log.usage([("Fact", "a")], scope))["Fact", "a"]
    assert (usage.access_count, usage.conversations) == (40, 3)


async def test_a_lease_is_one_owners_until_it_ends(open_log: OpenLog) -> None:
    log, other = await open_log(), await open_log()
    first = await log.acquire_lease("job", 30.0, "one")
    assert first is not None
    assert await other.acquire_lease("job", 30.0, "two") is None
    assert await log.acquire_lease("job", 30.0, "one") == first
    free = await other.acquire_lease("another job", 30.0, "two")
    assert free is not None
    assert free > first
    await other.release_lease("job", "two")
    assert await other.acquire_lease("job", 30.0, "two") is None
    await log.release_lease("job", "one")
    second = await other.acquire_lease("job", 0.05, "two")
    assert second is not None
    assert second > free
    await asyncio.sleep(0.1)
    third = await log.acquire_lease("job", 30.0, "one")
    assert third is not None
    assert third > second


async def test_an_owner_whose_lease_ran_out_keeps_its_token_while_nobody_took_it(open_log: OpenLog) -> None:
    log, other = await open_log(), await open_log()
    first = await log.acquire_lease("job", 0.05, "one")
    await asyncio.sleep(0.1)  # as a machine that sleeps
    assert await log.acquire_lease("job", 0.05, "one") == first
    await asyncio.sleep(0.1)
    taken = await other.acquire_lease("job", 30.0, "two")
    assert taken is not None
    assert await log.acquire_lease("job", 30.0, "one") is None


async def test_a_lease_follows_the_database_and_not_our_clock(log: LogStore, clock: SettableClock) -> None:
    await log.acquire_lease("job", 30.0, "one")
    clock.advance(days=2)
    assert await log.acquire_lease("job", 30.0, "two") is None
    with pytest.raises(InvalidRecord, match="ttl"):
        await log.acquire_lease("job", 0.0, "two")


async def test_meta_data_outlives_the_process(open_log: OpenLog) -> None:
    log = await open_log()
    first = await log.meta()
    assert len(first["store_id"]) == 36
    assert first["schema_version"].isdigit()
    await log.set_meta({"embedder": "hash:64", "x": "1"})
    assert (await log.init_meta({"embedder": "other", "y": "2"}))["embedder"] == "hash:64"
    assert [await log.increment_openings(), await log.increment_openings()] == [1, 2]
    again = await (await open_log()).meta()
    assert (again["store_id"], again["embedder"], again["x"], again["y"]) == (first["store_id"], "hash:64", "1", "2")
    assert again["openings"] == "2"


async def test_users_and_lagging_projections_are_listed(log: LogStore, clock: SettableClock) -> None:
    for number, name in enumerate(("carol", "alice", "bob", "gone")):
        clock.time = START + timedelta(minutes=number)
        await write_records(log, Scope(name), build_fact("a"))
    await delete_records(log, Scope("gone"), ("Fact", "a"))
    assert await log.users(OPERATOR) == ["alice", "bob", "carol"]
    assert await log.users(OPERATOR, limit=1, after="alice") == ["bob"]
    assert await log.lagging_users("vectors/x", OPERATOR) == ["carol", "alice", "bob", "gone"]
    assert await log.lagging_users("vectors/x", OPERATOR, limit=2) == ["carol", "alice"]


async def test_parked_changes_are_kept_once_each(log: LogStore, scope: Scope, stranger: Scope) -> None:
    first = DeadLetter("vectors/x", "alice", 1, "no model", 1, START)
    again = DeadLetter("vectors/x", "alice", 1, "still no model", 2, START + timedelta(1))
    theirs = DeadLetter("vectors/x", "mallory", 4, "no model", 1, START)
    for item in (first, again, theirs):
        await log.write_dead_letter(item)
    assert await log.dead_letters(scope) == [again]
    assert await log.dead_letters(stranger) == [theirs]
    assert await log.dead_letters(OPERATOR) == [again, theirs]


async def test_maintenance_changes_no_answer(log: LogStore, scope: Scope, stranger: Scope) -> None:
    await log.append(build_turn_changes(scope, "a", "b"))
    await log.append(build_turn_changes(stranger, "c"))
    await log.record_usage([("Turn", "a")], scope, "old receipt", used_at=START)
    before = await log.match(["b"], scope)
    done = await log.maintain(START + timedelta(60), 365)
    assert done == {"words_folded": 3, "audit_rows_dropped": 0, "receipts_dropped": 0, "usage_receipts_dropped": 1}
    after = await log.match(["b"], scope)
    assert [postings.ordinals.tolist() for postings in after.values()] == [
        postings.ordinals.tolist() for postings in before.values()
    ]
    assert (await log.maintain(START + timedelta(60), 365))["words_folded"] == 0


async def test_a_store_in_use_is_healthy_and_says_how_large_it_is(log: LogStore, scope: Scope) -> None:
    await log.append(build_turn_changes(scope, "a", "b"))
    await delete_records(log, scope, ("Turn", "a"))
    await log.erase(scope, [("Turn", "b")], operation_id="e", erased_at=START)
    assert await log.check(OPERATOR) == []
    stats = await log.stats(OPERATOR)
    assert (stats["users"], stats["changes"], stats["records"]) == (1, 4, {"Conversation": 1})
    assert stats["bytes"] > 0
    assert await log.count(scope, Where()) == 1


# -- the face for upkeep


@pytest.mark.parametrize("at_once", [1, 2, 1000])
async def test_a_journal_is_put_back_as_it_was(
    log: LogStore, scope: Scope, stranger: Scope, clock: SettableClock, at_once: int
) -> None:
    face = admin_of(log)
    await write_history(log, scope, clock)
    await log.maintain(START, 365)
    saved = await read_snapshot(log, face, scope)
    assert [change.seq for change in saved[1]] == list(range(1, 11))
    assert (saved[0].head, saved[0].slots, saved[0].erasures) == (10, 11, 1)
    assert set(turn_contents(saved)) == {"c", "odd"}
    assert "zanzibar" not in saved[4]
    assert {"boat", "harbour", "köln"} < set(saved[4])
    assert await face.raw_changes(scope, 3, 2) == saved[1][3:5]
    assert await face.raw_usage(scope, saved[2][0][:2], 1) == saved[2][1:2]
    clock.advance(days=1)
    await restore_snapshot(face, stranger, saved, at_once)
    assert await read_snapshot(log, face, stranger) == saved
    assert await read_snapshot(log, face, scope) == saved
    assert (await log.changes(stranger, 0, 99))[-1].operation == "store"
    await log.append(build_turn_changes(stranger, "next"))
    assert [record.position_key() for record in await log.read_records("Turn", ["next"], stranger)] == [("talk", 4)]
    assert await log.check(OPERATOR) == []


async def test_what_does_not_fit_is_not_put_back(
    log: LogStore, scope: Scope, stranger: Scope, clock: SettableClock
) -> None:
    face = admin_of(log)
    await write_history(log, scope, clock)
    reach, changes, *_ = await read_snapshot(log, face, scope)
    await face.import_changes(stranger, [])
    for holed in ([changes[0], changes[2]], changes[1:]):
        with pytest.raises(Conflict):
            await face.import_changes(stranger, holed)
    odd, first = changes[4], changes[0].versions[0]
    for wrong in (
        first._replace(record='{"index": "no number"}', kind="Turn"),
        first._replace(kind="Dream"),
        first._replace(format=99),
    ):
        with pytest.raises(InvalidRecord):
            await face.import_changes(
                stranger, [odd._replace(seq=1, versions=()), odd._replace(seq=2, versions=(wrong,))]
            )
    assert await face.journal_counters(stranger) == JournalCounters(0, 0, 0, 0)
    assert (await log.stats(OPERATOR))["users"] == 1
    await face.import_changes(stranger, changes[:4])
    with pytest.raises(Conflict, match="ends at 4"):
        await face.set_counters(stranger, reach)
    with pytest.raises(Conflict, match="does not follow"):
        await face.import_changes(stranger, changes[3:])
    assert await face.raw_changes(stranger, 0, 99) == changes[:4]


async def test_words_are_made_again(log: LogStore, scope: Scope, stranger: Scope, clock: SettableClock) -> None:
    face = admin_of(log)
    await write_history(log, scope, clock)
    await write_history(log, stranger, clock)
    before, theirs = await read_snapshot(log, face, scope), await read_snapshot(log, face, stranger)
    assert await face.rebuild_terms(scope) == 7
    await log.maintain(START, 365)
    assert await face.rebuild_terms(scope) == 7
    assert await read_snapshot(log, face, scope) == before
    assert await read_snapshot(log, face, stranger) == theirs
    assert await face.rebuild_terms(Scope("nobody")) == 0
    assert (await log.stats(OPERATOR))["users"] == 2
    await asyncio.gather(
        face.rebuild_terms(scope), *(log.append(build_turn_changes(scope, f"new {n}")) for n in range(5))
    )
    assert len((await log.match(["new"], scope))["new"].ordinals) == 5


async def test_parked_changes_can_be_tried_again(log: LogStore, scope: Scope, stranger: Scope) -> None:
    items = [
        DeadLetter(name, user, 1, "no model", 1, START)
        for name in ("vectors/x", "graph")
        for user in ("alice", "mallory")
    ]
    for item in items:
        await log.write_dead_letter(item)
    face = admin_of(log)
    assert [
        await face.requeue_dead_letters("vectors/x", scope),
        await face.requeue_dead_letters("vectors/x", scope),
    ] == [1, 0]
    assert await log.dead_letters(scope) == [items[2]]
    assert len(await log.dead_letters(stranger)) == 2


async def test_how_far_projections_have_come_is_noted(log: LogStore, clock: SettableClock) -> None:
    face = admin_of(log)
    for number, name in enumerate(("carol", "alice", "bob")):
        clock.time = START + timedelta(minutes=number)
        await log.append(build_turn_changes(Scope(name), "a", "b"))
    assert await log.lagging_users("graph", OPERATOR) == ["carol", "alice", "bob"]
    await log.write_watermark_hints("graph", {})
    await log.write_watermark_hints("graph", {"carol": 2, "alice": 1})
    assert await log.lagging_users("graph", OPERATOR) == ["alice", "bob"]
    await log.write_watermark_hints("graph", {"carol": 1, "bob": 2, "alice": 1})
    assert await log.lagging_users("graph", OPERATOR) == ["alice"]
    assert await face.lagging_projections(["graph", "vectors/x"], OPERATOR) == [
        *(ProjectionLag(name, "vectors/x", 2) for name in ("alice", "bob", "carol")),
        ProjectionLag("alice", "graph", 1),
    ]
    await log.write_watermark_hints("graph", {"alice": 5})
    assert await face.lagging_projections(["graph"], OPERATOR) == [ProjectionLag("alice", "graph", -3)]
    assert [line for line in await log.check(OPERATOR) if "graph of alice" in line]


async def test_heads_are_listed_by_user(log: LogStore) -> None:
    face = admin_of(log)
    assert await face.heads(OPERATOR) == {}
    for name in ("carol", "alice", "bob", "Zoë"):
        await log.append(build_turn_changes(Scope(name), "a", "b"))
    await log.erase(Scope("bob"), None, operation_id="e", erased_at=START)
    assert list((await face.heads(OPERATOR)).items()) == [("Zoë", 2), ("alice", 2), ("bob", 3), ("carol", 2)]
    assert await face.heads(OPERATOR, after="alice", limit=1) == {"bob": 3}
    assert await face.heads(OPERATOR, ["carol", "nobody", "bob"]) == {"bob": 3, "carol": 2}
    assert await face.heads(OPERATOR, ["carol", "bob"], after="bob") == {"carol": 2}
    assert await face.heads(OPERATOR, []) == {}


async def test_an_embedder_serves_when_its_vectors_are_there(log: LogStore, scope: Scope, stranger: Scope) -> None:
    face = admin_of(log)
    await log.set_meta({"embedder": "hash:old:4"})
    old, new = await open_vector_index(log, "hash:old:4", 4), await open_vector_index(log, "hash:new:8", 8)
    await log.append(build_turn_changes(scope, "a"))
    await log.append(build_turn_changes(stranger, "a", "b"))
    with pytest.raises(Conflict, match="hash:old:4 was chosen"):
        await face.switch_embedder("hash:new:8")
    await face.start_embedder("hash:other:8")
    await face.start_embedder("hash:new:8")
    assert (await log.meta())["embedder_next"] == "hash:new:8"
    assert not await face.switch_embedder("hash:new:8", 2)
    assert await face.switch_embedder("hash:new:8", 3)
    meta = await log.meta()
    assert (meta["embedder"], "embedder_next" in meta) == ("hash:new:8", False)
    assert (await log.head(scope)).embedder == "hash:new:8"
    assert await face.switch_embedder("hash:new:8")
    await face.start_embedder("hash:old:4")
    vector = np.array([1, 0, 0, 0], dtype=np.float16)
    one = VectorRow(0, "Turn", "_global", "whole", 0, (0, 9), vector)
    marks = {"alice": VectorBatch(0, 1, [one]), "mallory": VectorBatch(0, 2, [one])}
    assert await old.apply(marks) == {"alice": 1, "mallory": 2}
    assert await face.switch_embedder("hash:old:4")
    assert await new.watermark("alice") == 0


async def test_embedders_are_taken_out_with_all_they_left(log: LogStore, scope: Scope, stranger: Scope) -> None:
    face = admin_of(log)
    old, new = await open_vector_index(log, "hash:old:4", 4), await open_vector_index(log, "hash:new:4", 4)
    vector = np.array([1, 0, 0, 0], dtype=np.float16)
    one = VectorRow(0, "Turn", "_global", "whole", 0, (0, 9), vector)
    for who in (scope, stranger):
        await log.append(build_turn_changes(who, "a"))
        await old.apply({who.user_id: VectorBatch(0, 1, [one])})
        await new.apply({who.user_id: VectorBatch(0, 1, [one])})
        await log.write_dead_letter(DeadLetter("vectors/hash:old:4", who.user_id, 1, "no", 1, START))
        await log.write_dead_letter(DeadLetter("vectors/hash:new:4", who.user_id, 1, "no", 1, START))
    assert (await face.counts(scope))["passages"] == {"hash:new:4": 1, "hash:old:4": 1}
    assert await face.drop_embedders(["hash:new:4", "unheard of"]) == ["hash:old:4"]
    assert await face.drop_embedders(["hash:new:4"]) == []
    for who in (scope, stranger):
        assert (await face.counts(who))["passages"] == {"hash:new:4": 1}
        assert [item.projection for item in await log.dead_letters(who)] == ["vectors/hash:new:4"]
    assert len(await face.lagging_projections(["vectors/hash:old:4"], OPERATOR)) == 2
    assert await face.lagging_projections(["vectors/hash:new:4"], OPERATOR) == []


async def test_what_a_user_has_is_counted(log: LogStore, scope: Scope, clock: SettableClock) -> None:
    face = admin_of(log)
    await write_history(log, scope, clock)
    counts = await face.counts(scope)
    assert counts["kind"] == {"Conversation": 1, "Edge": 1, "Entity": 2, "Fact": 2, "Turn": 2}
    assert counts["status"] == {"active": 8}
    assert counts["channel"] == {"_global": 7, "work": 1}
    assert {name: counts["journal"][name] for name in ("changes", "versions", "usage")} == {
        "changes": 10,
        "versions": 15,
        "usage": 4,
    }
    assert (counts["words"]["records"], counts["words"]["tail"], counts["words"]["blocks"]) == (5, 7, 0)
    nothing = await face.counts(Scope("nobody"))
    assert (nothing["kind"], nothing["words"]["terms"], nothing["journal"]["changes"]) == ({}, 0, 0)
    sizes = await face.sizes()
    assert sizes["store"] > 0
    assert sizes["write_ahead_log"] >= 0
    assert await face.compact()
