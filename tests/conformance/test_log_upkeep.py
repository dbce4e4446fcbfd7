"""What a log promises beside the journal: audit, usage, leases, meta data, lagging projections, maintenance, health."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from agentmem.errors import InvalidRecord
from agentmem.model.changes import Audit
from agentmem.model.scope import Operator, Scope
from agentmem.stores import LogStore, Parked, Usage, Where
from tests.conformance.conftest import OpenLog
from tests.conformance.writing import START, SetClock, fact, put, retract, said, turn

OPERATOR = Operator("test")


async def test_audit_rows_are_filtered_and_newest_first(log: LogStore, scope: Scope, clock: SetClock) -> None:
    named = Scope("alice", channel="work", agent_id="bot", session_id="s1", conversation_id="c1")
    await log.audit([
        Audit(operation="recall", memory_type="semantic", scope=named, target_channels=("work", "_global"),
              query_text="wo ist Köln? 🙂 \ud800", result_count=2, latency_ms=1.5, config_snapshot={"top_k": 10},
              metadata={"ids": ["a"]}, operation_id="op"),
        Audit(operation="store", memory_type="episodic", scope=scope, success=False, error_message="Conflict"),
    ])  # fmt: skip
    later = clock.advance(hours=1)
    await log.audit([Audit(operation="maintain", memory_type="working", scope=None)])
    await log.audit([Audit(operation="promote", memory_type="semantic", scope=scope, promotion_confidence=0.9)])
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
    filters = (
        {"operation": "recall"}, {"memory_type": "semantic"}, {"since": later}, {"until": later}, {"session_id": "s1"},
        {"success": False}, {"limit": 1}, {"operation": "erase"},
    )  # fmt: skip
    found = [[row["operation"] for row in await log.audit_rows(scope, **wanted)] for wanted in filters]
    both = ["store", "recall"]
    assert found == [["recall"], ["promote", "recall"], ["promote"], both, ["recall"], ["store"], ["promote"], []]
    with pytest.raises(InvalidRecord):
        await log.audit_rows(scope, colour="red")


async def test_audit_days_past_retention_go_whole(log: LogStore, scope: Scope, clock: SetClock) -> None:
    for hour in (-49, -36, -25, -13, -12, 0):
        clock.moment = START + timedelta(hours=hour)
        await log.audit([Audit(operation=f"at {hour}", memory_type="episodic", scope=scope)])
    done = await log.maintain(START, keep_audit_days=1)
    assert done["audit_rows_dropped"] == 1
    kept = [row["operation"] for row in await log.audit_rows(scope)]
    assert kept == [f"at {hour}" for hour in (0, -12, -13, -25, -36)]
    with pytest.raises(InvalidRecord, match="keep_audit_days"):
        await log.maintain(START, keep_audit_days=0)


async def test_a_receipt_counts_each_record_once(log: LogStore, scope: Scope) -> None:
    await put(log, scope, fact("a"), fact("b"), turn("t"))
    keys = [("Fact", "a"), ("Turn", "t"), ("Fact", "missing"), ("Fact", "a")]
    talk = Scope("alice", conversation_id="talk")
    await log.touch(keys, talk, "r1", at=START)
    await log.touch([("Fact", "b")], scope, "r2", at=START + timedelta(1))
    await log.touch([*keys, ("Fact", "b")], talk, "r1", at=START + timedelta(2))
    await log.touch([("Fact", "a")], scope, "r1", used=True, at=START - timedelta(1))
    asked = [("Fact", "a"), ("Fact", "b"), ("Turn", "t"), ("Fact", "missing")]
    assert await log.usage(asked, scope) == {
        ("Fact", "a"): Usage("Fact", "a", access_count=1, use_count=1, last_accessed=START, conversations=1),
        ("Fact", "b"): Usage("Fact", "b", access_count=2, last_accessed=START + timedelta(2), conversations=1),
        ("Turn", "t"): Usage("Turn", "t", access_count=1, last_accessed=START, conversations=1),
    }
    assert (await log.head(scope))[:2] == (1, 0)


async def test_distinct_conversations_are_counted(log: LogStore, scope: Scope) -> None:
    await put(log, scope, fact("a"))
    for number in range(40):
        await log.touch([("Fact", "a")], Scope("alice", conversation_id=f"c{number % 3}"), f"r{number}", at=START)
    usage = (await log.usage([("Fact", "a")], scope))["Fact", "a"]
    assert (usage.access_count, usage.conversations) == (40, 3)


async def test_a_lease_is_one_owners_until_it_ends(open_log: OpenLog) -> None:
    log, other = await open_log(), await open_log()
    first = await log.lease("job", 30.0, "one")
    assert first is not None
    assert await other.lease("job", 30.0, "two") is None
    assert await log.lease("job", 30.0, "one") == first
    free = await other.lease("another job", 30.0, "two")
    assert free is not None
    assert free > first
    await other.release("job", "two")
    assert await other.lease("job", 30.0, "two") is None
    await log.release("job", "one")
    second = await other.lease("job", 0.05, "two")
    assert second is not None
    assert second > free
    await asyncio.sleep(0.1)
    third = await log.lease("job", 30.0, "one")
    assert third is not None
    assert third > second


async def test_a_lease_follows_the_database_and_not_our_clock(log: LogStore, clock: SetClock) -> None:
    await log.lease("job", 30.0, "one")
    clock.advance(days=2)
    assert await log.lease("job", 30.0, "two") is None
    with pytest.raises(InvalidRecord, match="ttl"):
        await log.lease("job", 0.0, "two")


async def test_meta_data_outlives_the_process(open_log: OpenLog) -> None:
    log = await open_log()
    first = await log.meta()
    assert len(first["store_id"]) == 36
    assert first["schema_version"].isdigit()
    await log.set_meta({"embedder": "hash:64", "x": "1"})
    assert (await log.default_meta({"embedder": "other", "y": "2"}))["embedder"] == "hash:64"
    assert [await log.count_opening(), await log.count_opening()] == [1, 2]
    again = await (await open_log()).meta()
    assert (again["store_id"], again["embedder"], again["x"], again["y"]) == (first["store_id"], "hash:64", "1", "2")
    assert again["openings"] == "2"


async def test_users_and_lagging_projections_are_listed(log: LogStore, clock: SetClock) -> None:
    for number, name in enumerate(("carol", "alice", "bob", "gone")):
        clock.moment = START + timedelta(minutes=number)
        await put(log, Scope(name), fact("a"))
    await retract(log, Scope("gone"), ("Fact", "a"))
    assert await log.users(OPERATOR) == ["alice", "bob", "carol"]
    assert await log.users(OPERATOR, limit=1, after="alice") == ["bob"]
    assert await log.behind("vectors/x", OPERATOR) == ["carol", "alice", "bob", "gone"]
    assert await log.behind("vectors/x", OPERATOR, limit=2) == ["carol", "alice"]


async def test_parked_changes_are_kept_once_each(log: LogStore, scope: Scope, stranger: Scope) -> None:
    first = Parked("vectors/x", "alice", 1, "no model", 1, START)
    again = Parked("vectors/x", "alice", 1, "still no model", 2, START + timedelta(1))
    theirs = Parked("vectors/x", "mallory", 4, "no model", 1, START)
    for item in (first, again, theirs):
        await log.park(item)
    assert await log.parked(scope) == [again]
    assert await log.parked(stranger) == [theirs]
    assert await log.parked(OPERATOR) == [again, theirs]


async def test_maintenance_changes_no_answer(log: LogStore, scope: Scope, stranger: Scope) -> None:
    await log.append(said(scope, "a", "b"))
    await log.append(said(stranger, "c"))
    await log.touch([("Turn", "a")], scope, "old receipt", at=START)
    before = await log.match(["b"], scope)
    done = await log.maintain(START + timedelta(60), 365)
    assert done == {"words_folded": 3, "audit_rows_dropped": 0, "usage_receipts_dropped": 1}
    after = await log.match(["b"], scope)
    assert [postings.slots.tolist() for postings in after.values()] == [
        postings.slots.tolist() for postings in before.values()
    ]
    assert (await log.maintain(START + timedelta(60), 365))["words_folded"] == 0


async def test_a_store_in_use_is_healthy_and_says_how_large_it_is(log: LogStore, scope: Scope) -> None:
    await log.append(said(scope, "a", "b"))
    await retract(log, scope, ("Turn", "a"))
    await log.erase(scope, [("Turn", "b")], operation_id="e", at=START)
    assert await log.check(OPERATOR) == []
    stats = await log.stats(OPERATOR)
    assert (stats["users"], stats["changes"], stats["records"]) == (1, 4, {"Conversation": 1})
    assert stats["bytes"] > 0
    assert await log.count(scope, Where()) == 1
