"""What a log promises of erasure: nothing of the text is left, the journal stays whole, nobody else is touched."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from agentmem.model.changes import Audit, Gone
from agentmem.model.clock import micros
from agentmem.model.outline import OutlineRows
from agentmem.model.records import Turn
from agentmem.model.scope import Scope
from agentmem.stores import Head, LogStore, Parked, Where
from tests.conformance.stores import pending_of
from tests.conformance.writing import START, SetClock, change, edge, entity, fact, ids, put, retract, said, turn

MARKER = "Zanzibar"


def audited(scope: Scope, operation: str = "recall", **fields: Any) -> Audit:
    return Audit(operation=operation, memory_type="episodic", scope=scope, **fields)


async def test_erased_records_leave_tombstones_and_nothing_else(log: LogStore, scope: Scope, clock: SetClock) -> None:
    first = await put(log, scope, turn("a", f"Meet me in {MARKER}."), fact("kept"), cause=f"said {MARKER}")
    await put(log, scope, turn("a", f"Meet me in {MARKER} at noon."))
    await log.touch([("Turn", "a")], scope, "r1", at=START)
    at = clock.advance(hours=1)
    scan = await log.erase(scope, [("Turn", "a"), ("Turn", "never there")], operation_id="erasure", at=at)
    assert (scan.remnants, scan.pending) == ({}, pending_of(log))
    assert {"memory_versions", "word_tail", "memory_audit_log.query_text"} <= set(scan.places)
    assert await log.get("Turn", ["a"], scope) == []
    assert await log.versions(("Turn", "a"), scope) == []
    assert await log.states([("Turn", "a")], scope, 2) == {}
    assert await log.by_slot([0], scope, through=2) == []
    assert await log.match([MARKER.lower()], scope) == {}
    assert await log.usage([("Turn", "a")], scope) == {}
    assert (await log.head(scope))[:2] == (3, 1)
    entries = await log.changes(scope, 0, 10)
    assert [(entry.seq, entry.operation, ids([s.record for s in entry.puts])) for entry in entries] == [
        (1, "store", ["kept"]), (2, "store", []), (3, "erase", []),
    ]  # fmt: skip
    assert (entries[2].gone, entries[2].at) == ((Gone(0, "Turn", "a", erased=True),), at)
    assert MARKER not in repr(entries)
    assert await log.outline(scope, first.seq) == (OutlineRows.of([]), [0], Head(3, 1, micros(at)))


async def test_erasing_what_is_not_there_changes_nothing(log: LogStore, scope: Scope) -> None:
    await log.append(said(scope, "a"))
    for keys in ([("Turn", "b")], []):
        scan = await log.erase(scope, keys, operation_id="e", at=START)
        assert (scan.remnants, scan.pending) == ({}, ())
    assert (await log.head(scope))[:2] == (1, 0)
    nobody = Scope("nobody")
    assert (await log.erase(nobody, None, operation_id="e", at=START)).remnants == {}
    assert (await log.head(nobody))[:2] == (0, 0)


async def test_retracted_records_are_erased_too(log: LogStore, scope: Scope) -> None:
    await put(log, scope, fact("f", f"{MARKER} is an island"))
    await retract(log, scope, ("Fact", "f"))
    scan = await log.erase(scope, [("Fact", "f")], operation_id="e", at=START)
    assert scan.remnants == {}
    assert await log.versions(("Fact", "f"), scope) == []
    assert await log.match([MARKER.lower()], scope) == {}


async def test_a_change_whose_record_was_erased_is_not_done_again(log: LogStore, scope: Scope) -> None:
    (one,) = said(scope, "a")
    await log.append([one])
    await log.erase(scope, [("Turn", "a")], operation_id="e", at=START)
    (again,) = await log.append([one])
    assert again.repeated
    assert ids([stored.record for stored in again.puts]) == ["talk"]
    assert await log.get("Turn", ["a"], scope) == []


async def test_an_erased_id_can_be_used_again_and_gets_a_new_slot(log: LogStore, scope: Scope, clock: SetClock) -> None:
    await put(log, scope, fact("f", "Before"))
    await log.erase(scope, [("Fact", "f")], operation_id="e", at=START)
    clock.advance(days=1)
    entry = await put(log, scope, fact("f", "After"))
    assert entry.puts[0].slot == 1
    assert entry.puts[0].record.recorded_at == START + timedelta(days=1)
    assert ids(await log.versions(("Fact", "f"), scope)) == ["f"]


async def test_words_of_others_records_stay(log: LogStore, scope: Scope) -> None:
    await put(log, scope, turn("a", "The boat to Zanzibar"), turn("b", "The boat to Malta"))
    await log.maintain(START, 365)
    await put(log, scope, turn("c", "A boat again"))
    await log.erase(scope, [("Turn", "a")], operation_id="e", at=START)
    found = await log.match(["boat", "zanzibar", "malta"], scope)
    assert {term: postings.slots.tolist() for term, postings in found.items()} == {"boat": [1, 2], "malta": [1]}


@pytest.mark.parametrize(
    "fields",
    [
        {"query_text": f"When do we go to {MARKER.lower()}?"},
        {"error_message": f"cannot parse '{MARKER}'"},
        {"metadata": {"payload": [{"content": f"We go to {MARKER} soon."}]}},
        {
            "metadata": {"cut": "We go to Zanz"},
            "query_text": "We go to Zanzib…",
            "error_message": "We go to Zanzibar soon",
        },
    ],
)
async def test_audit_text_of_what_was_erased_is_blanked(log: LogStore, scope: Scope, fields: dict[str, Any]) -> None:
    await put(log, scope, turn("a", f"We go to {MARKER} soon."), turn("b", "We go to the market soon."))
    await log.audit(
        [audited(scope, result_count=3, latency_ms=1.5, **fields), audited(scope, query_text="the market?")]
    )
    scan = await log.erase(scope, [("Turn", "a")], operation_id="e", at=START)
    assert scan.remnants == {}
    kept, blanked = await log.audit_rows(scope)
    assert kept["query_text"] == "the market?"
    assert (blanked["query_text"], blanked["error_message"], blanked["metadata"]) == (None, None, {})
    assert (blanked["operation"], blanked["result_count"], blanked["latency_ms"]) == ("recall", 3, 1.5)


@pytest.mark.parametrize("everything", [False, True])
async def test_what_was_read_before_an_erasure_is_told_without_text_after_it(
    log: LogStore, scope: Scope, stranger: Scope, everything: bool
) -> None:
    """A recall may be under way meanwhile. What others erase does not count."""
    await put(log, scope, turn("a", f"Meet me in {MARKER}."), turn("b", "At noon."))
    seen = (await log.head(scope)).seq
    await put(log, stranger, turn("c", "Never."))
    await log.erase(stranger, None, operation_id="theirs", at=START)
    query = {"query_text": f"Where is {MARKER}?", "metadata": {"delivered": ["a"]}}
    await log.audit([audited(scope, seen=seen, **query)])
    await log.keep_receipt(scope, "before", "{}", START, seen)
    (row,) = await log.audit_rows(scope, operation="recall")
    assert (row["query_text"], row["metadata"]) == (query["query_text"], query["metadata"])
    assert await log.receipt("before", scope) == "{}"

    await log.erase(scope, None if everything else [("Turn", "a")], operation_id="erasure", at=START)
    await log.audit([audited(scope, "late", seen=seen, error_message=MARKER, **query)])
    await log.keep_receipt(scope, "late", "{}", START, seen)
    (row,) = await log.audit_rows(scope, operation="late")
    assert (row["query_text"], row["error_message"], row["metadata"]) == (None, None, {})
    assert await log.receipt("late", scope) is None

    seen = (await log.head(scope)).seq
    await log.audit([audited(scope, "after", seen=seen, query_text="What now?")])
    await log.keep_receipt(scope, "after", "{}", START, seen)
    assert (await log.audit_rows(scope, operation="after"))[0]["query_text"] == "What now?"
    assert await log.receipt("after", scope) == "{}"


async def test_short_common_text_is_blanked_in_the_rows_of_its_own_operation(log: LogStore, scope: Scope) -> None:
    row = audited(scope, "store", operation_id="op", metadata={"payload": ["yes"]})
    await log.append([change(scope, turn("a", "yes"), operation_id="op")], row)
    await log.append(
        [change(scope, turn("b", "yes"), operation_id="other")], audited(scope, "store", operation_id="other")
    )
    await log.audit([audited(scope, query_text="yes")])
    await log.erase(scope, [("Turn", "a")], operation_id="e", at=START)
    query, _, store = await log.audit_rows(scope)
    assert (store["metadata"], query["query_text"]) == ({}, "yes")


async def test_the_scan_finds_what_erasure_could_not_reach(log: LogStore, scope: Scope) -> None:
    """Text that came back after the transaction, as from a process that was still reading, is reported."""
    await put(log, scope, turn("a", f"The plan for {MARKER} is ready."))
    await log.set_meta({"note": f"The plan for {MARKER} is ready."})
    scan = await log.erase(scope, [("Turn", "a")], operation_id="e", at=START)
    assert scan.remnants == {"store_meta": 1}


async def test_a_whole_user_is_erased(log: LogStore, scope: Scope, stranger: Scope, clock: SetClock) -> None:
    named = Scope("alice", channel=MARKER, agent_id=MARKER, session_id=MARKER, conversation_id=MARKER)
    row = audited(named, query_text=MARKER, metadata={MARKER: 1}, config_snapshot={"x": MARKER}, result_count=2)
    await put(log, named, turn("a", f"{MARKER}!", channel=MARKER), cause=MARKER)
    await put(log, scope, entity("x"), entity("y"), edge("e", "x", "y"))
    await retract(log, scope, ("Entity", "y"))
    await log.touch([("Turn", "a")], named, "r", at=START)
    await log.park(Parked("vectors/x", "alice", 1, MARKER, 3, START))
    await log.maintain(START, 365)
    await put(log, scope, fact("f", MARKER))
    await log.audit([row])
    theirs = await log.append(said(stranger, "a"), audited(stranger, query_text=MARKER))
    scan = await log.erase(scope, None, operation_id="erasure", at=clock.advance(hours=1))
    assert (scan.remnants, scan.pending) == ({}, pending_of(log))
    assert (await log.head(scope))[:2] == (5, 1)
    entries = await log.changes(scope, 0, 10)
    assert [entry.seq for entry in entries] == [1, 2, 3, 4, 5]
    assert {(gone.id, gone.erased) for gone in entries[4].gone} == {(n, True) for n in ("a", "x", "y", "e", "f")}
    (left,) = await log.audit_rows(scope)
    assert (left["operation"], left["result_count"]) == ("recall", 2)
    everything = [
        entries, left, await log.find(scope, Where()), await log.outline(scope, 0), await log.parked(scope),
        await log.match([MARKER.lower(), "x"], scope), await log.versions(("Turn", "a"), scope),
        await log.usage([("Turn", "a")], scope),
    ]  # fmt: skip
    assert MARKER not in repr(everything)
    assert await log.changes(stranger, 0, 9) == theirs
    assert (await log.audit_rows(stranger))[0]["query_text"] == MARKER
    assert list(await log.match(["a"], stranger)) == []
    assert [record.content for record in await log.get("Turn", ["a"], stranger) if isinstance(record, Turn)] == [
        "This is a."
    ]


async def test_an_erased_user_can_begin_again(log: LogStore, scope: Scope) -> None:
    await log.append(said(scope, "a", "b"))
    await log.erase(scope, None, operation_id="e", at=START)
    again = await log.append(said(scope, "a"))
    assert [(entry.seq, entry.repeated) for entry in again] == [(4, False)]
    assert [(stored.slot, stored.record.place()) for stored in again[0].puts] == [(3, ("", -1)), (4, ("talk", 0))]
    await log.erase(scope, None, operation_id="e2", at=START)
    assert (await log.head(scope))[:2] == (5, 2)
    assert await log.find(scope, Where()) == []
