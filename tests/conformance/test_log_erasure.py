"""What a log promises of erasure: nothing of the text is left, the journal stays whole, nobody else is touched."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from agentmem.core.changes import AuditEntry, RemovedRecord
from agentmem.core.clock import to_micros
from agentmem.core.columns import RecordColumnBatch
from agentmem.core.records import Turn
from agentmem.core.scope import Scope
from agentmem.stores.codec import NO_FEATURES
from agentmem.stores.protocols import LogStore
from agentmem.stores.values import DeadLetter, Head, Where
from tests.conformance.stores import deferred_places
from tests.conformance.writing import (
    START,
    SettableClock,
    build_change,
    build_edge,
    build_entity,
    build_fact,
    build_turn,
    build_turn_changes,
    delete_records,
    record_ids,
    write_records,
)

MARKER = "Zanzibar"


def audited(scope: Scope, operation: str = "recall", **fields: Any) -> AuditEntry:
    return AuditEntry(operation=operation, memory_type="episodic", scope=scope, **fields)


async def test_erased_records_leave_tombstones_and_nothing_else(
    log: LogStore, scope: Scope, clock: SettableClock
) -> None:
    first = await write_records(
        log, scope, build_turn("a", f"Meet me in {MARKER}."), build_fact("kept"), cause=f"said {MARKER}"
    )
    await write_records(log, scope, build_turn("a", f"Meet me in {MARKER} at noon."))
    await log.record_usage([("Turn", "a")], scope, "r1", used_at=START)
    at = clock.advance(hours=1)
    scan = await log.erase(scope, [("Turn", "a"), ("Turn", "never there")], operation_id="erasure", erased_at=at)
    assert (scan.leftovers, scan.deferred) == ({}, deferred_places(log))
    assert {"memory_versions", "word_tail", "memory_audit_log.query_text"} <= set(scan.checked)
    assert await log.read_records("Turn", ["a"], scope) == []
    assert await log.versions(("Turn", "a"), scope) == []
    assert await log.snapshot_at([("Turn", "a")], scope, 2) == {}
    assert await log.read_by_ordinal([0], scope, through_seq=2) == []
    assert await log.match([MARKER.lower()], scope) == {}
    assert await log.usage([("Turn", "a")], scope) == {}
    assert (await log.head(scope))[:2] == (3, 1)
    entries = await log.changes(scope, 0, 10)
    assert [(entry.seq, entry.operation, record_ids([s.record for s in entry.upserts])) for entry in entries] == [
        (1, "store", ["kept"]),
        (2, "store", []),
        (3, "erase", []),
    ]
    assert (entries[2].removals, entries[2].recorded_at) == ((RemovedRecord(0, "Turn", "a", erased=True),), at)
    assert MARKER not in repr(entries)
    head = Head(3, 1, to_micros(at), operation_id="erasure", operation_id_after=first.operation_id)
    assert await log.read_columns(scope, first.seq) == (RecordColumnBatch.from_rows([]), [0], head)


async def test_erasing_what_is_not_there_changes_nothing(log: LogStore, scope: Scope) -> None:
    await log.append(build_turn_changes(scope, "a"))
    for keys in ([("Turn", "b")], []):
        scan = await log.erase(scope, keys, operation_id="e", erased_at=START)
        assert (scan.leftovers, scan.deferred) == ({}, ())
    assert (await log.head(scope))[:2] == (1, 0)
    nobody = Scope("nobody")
    assert (await log.erase(nobody, None, operation_id="e", erased_at=START)).leftovers == {}
    assert (await log.head(nobody))[:2] == (0, 0)


async def test_retracted_records_are_erased_too(log: LogStore, scope: Scope) -> None:
    await write_records(log, scope, build_fact("f", f"{MARKER} is an island"))
    await delete_records(log, scope, ("Fact", "f"))
    scan = await log.erase(scope, [("Fact", "f")], operation_id="e", erased_at=START)
    assert scan.leftovers == {}
    assert await log.versions(("Fact", "f"), scope) == []
    assert await log.match([MARKER.lower()], scope) == {}


async def test_a_change_whose_record_was_erased_is_not_done_again(log: LogStore, scope: Scope) -> None:
    (one,) = build_turn_changes(scope, "a")
    await log.append([one])
    await log.erase(scope, [("Turn", "a")], operation_id="e", erased_at=START)
    (again,) = await log.append([one])
    assert again.already_applied
    assert record_ids([stored.record for stored in again.upserts]) == ["talk"]
    assert await log.read_records("Turn", ["a"], scope) == []


async def test_an_erased_id_can_be_used_again_and_gets_a_new_slot(
    log: LogStore, scope: Scope, clock: SettableClock
) -> None:
    await write_records(log, scope, build_fact("f", "Before"))
    await log.erase(scope, [("Fact", "f")], operation_id="e", erased_at=START)
    clock.advance(days=1)
    entry = await write_records(log, scope, build_fact("f", "After"))
    assert entry.upserts[0].ordinal == 1
    assert entry.upserts[0].record.recorded_at == START + timedelta(days=1)
    assert record_ids(await log.versions(("Fact", "f"), scope)) == ["f"]


async def test_words_of_others_records_stay(log: LogStore, scope: Scope) -> None:
    await write_records(log, scope, build_turn("a", "The boat to Zanzibar"), build_turn("b", "The boat to Malta"))
    await log.maintain(START, 365)
    await write_records(log, scope, build_turn("c", "A boat again"))
    await log.erase(scope, [("Turn", "a")], operation_id="e", erased_at=START)
    found = await log.match(["boat", "zanzibar", "malta"], scope)
    assert {term: postings.ordinals.tolist() for term, postings in found.items()} == {"boat": [1, 2], "malta": [1]}


@pytest.mark.parametrize("is_folded", [False, True])
async def test_a_record_that_is_changed_after_an_upgrade_of_the_tokenizer_loses_its_old_words(
    log: LogStore, scope: Scope, monkeypatch: pytest.MonkeyPatch, is_folded: bool
) -> None:
    first, other = build_turn("a", f"The boat to {MARKER}"), build_turn("b", "The boat to Malta")
    await write_records(log, scope, first, other)
    if is_folded:
        await log.maintain(START, 365)
    with monkeypatch.context() as patch:
        upgrade_tokenizer(patch)
        await write_records(log, scope, first.model_copy(update={"content": "Said anew"}))
        await log.maintain(START, 365)
        found = await log.match([MARKER.lower(), "boat", "malta", "new"], scope)
        assert {term: postings.ordinals.tolist() for term, postings in found.items()} == {
            "boat": [1],
            "malta": [1],
            "new": [0],
        }
    # Back at the earlier version, whose terms the new words are not.
    await write_records(log, scope, first.model_copy(update={"content": "A heron"}))
    await log.maintain(START, 365)
    found = await log.match(["new", "heron"], scope)
    assert {term: postings.ordinals.tolist() for term, postings in found.items()} == {"heron": [0]}


def upgrade_tokenizer(patch: pytest.MonkeyPatch) -> None:
    """Let every text have the one term `new`, as if by another version."""
    for module in ("codec", "sql.write", "sql.terms", "raw_import"):
        patch.setattr(f"agentmem.stores.{module}.extract_features_and_terms", lambda text: (NO_FEATURES, {"new": 1}))
    patch.setattr("agentmem.stores.sql.terms.tokenizer_fingerprint", lambda: "0123456789ab")


@pytest.mark.parametrize("is_folded", [False, True])
async def test_words_that_another_tokenizer_read_are_erased_too(
    log: LogStore, scope: Scope, monkeypatch: pytest.MonkeyPatch, is_folded: bool
) -> None:
    await write_records(log, scope, build_turn("a", f"The boat to {MARKER}"), build_turn("b", "The boat to Malta"))
    if is_folded:
        await log.maintain(START, 365)
    old = sorted(await log.match([MARKER.lower(), "boat", "malta"], scope))
    assert old == ["boat", "malta", MARKER.lower()]
    upgrade_tokenizer(monkeypatch)
    scan = await log.erase(scope, [("Turn", "a")], operation_id="e", erased_at=START)
    assert scan.leftovers == {}
    found = await log.match([MARKER.lower(), "boat", "malta"], scope)
    assert {term: postings.ordinals.tolist() for term, postings in found.items()} == {"boat": [1], "malta": [1]}


@pytest.mark.parametrize(
    "fields",
    [
        {"query_text": "When do we leave?", "metadata": {"delivered": ["a"]}},
        {"error_message": "NotFound", "metadata": {"forgotten": "a"}},
        {"metadata": {"ids": ["a"], "payload": [{"content": f"{MARKER}!"}]}},
        {"query_text": f"He said: We go to {MARKER} soon. Is it so?"},
        {"metadata": {"reason": f"We go to {MARKER} soon."}},
    ],
)
async def test_rows_that_refer_to_what_was_erased_or_quote_it_are_blanked(
    log: LogStore, scope: Scope, fields: dict[str, Any]
) -> None:
    await write_records(log, scope, build_turn("a", f"We go to {MARKER} soon."), build_turn("b", "Then to the market."))
    await log.write_audit([audited(scope, result_count=3, latency_ms=1.5, **fields)])
    scan = await log.erase(scope, [("Turn", "a")], operation_id="e", erased_at=START)
    assert scan.leftovers == {}
    (blanked,) = await log.audit_rows(scope)
    assert (blanked["query_text"], blanked["error_message"], blanked["metadata"]) == (None, None, {})
    assert (blanked["operation"], blanked["result_count"], blanked["latency_ms"]) == ("recall", 3, 1.5)


async def test_every_other_row_stays_as_it_is(log: LogStore, scope: Scope) -> None:
    """Labels, ids of conversations, single words and short texts of an erased record are anybody's."""
    told = {"metadata": {"text": "november", "kind": "fact"}, "agent_id": "planner of trips", "speaker": "Ann"}
    await write_records(
        log, scope, build_turn("a", f"In November to {MARKER}.", conversation="our trip of 2026", **told)
    )
    await write_records(log, scope, build_turn("yes", "yes"))
    rows = [
        audited(scope, query_text=f"What about november, and {MARKER}?", metadata={"delivered": ["b"], "kind": "fact"}),
        audited(scope, metadata={"conversation": "our trip of 2026", "text": "fact", "by": "planner of trips"}),
        audited(scope, query_text="yes"),
        audited(scope, query_text="In November to", error_message="NotFound", metadata={"ids": ["b"]}),
        audited(scope, metadata={"ids": ["a", "b"]}),
    ]
    await log.write_audit(rows)
    await log.write_receipt(scope, "r", '{"query": "november", "delivered": [["Turn", "b"]]}', START, None)
    before = await log.audit_rows(scope)
    scan = await log.erase(scope, [("Turn", "a"), ("Turn", "yes")], operation_id="e", erased_at=START)
    assert scan.leftovers == {}
    assert await log.audit_rows(scope) == before
    assert await log.find_receipt("r", scope) is not None


@pytest.mark.parametrize("everything", [False, True])
async def test_what_was_read_before_an_erasure_is_told_without_text_after_it(
    log: LogStore, scope: Scope, stranger: Scope, everything: bool
) -> None:
    """A recall may be under way meanwhile. What others erase does not count."""
    await write_records(log, scope, build_turn("a", f"Meet me in {MARKER}."), build_turn("b", "At noon."))
    seen = (await log.head(scope)).seq
    await write_records(log, stranger, build_turn("c", "Never."))
    await log.erase(stranger, None, operation_id="theirs", erased_at=START)
    query = {"query_text": f"Where is {MARKER}?", "metadata": {"delivered": ["a"]}}
    await log.write_audit([audited(scope, seen_seq=seen, **query)])
    await log.write_receipt(scope, "before", "{}", START, seen)
    (row,) = await log.audit_rows(scope, operation="recall")
    assert (row["query_text"], row["metadata"]) == (query["query_text"], query["metadata"])
    assert await log.find_receipt("before", scope) == "{}"

    await log.erase(scope, None if everything else [("Turn", "a")], operation_id="erasure", erased_at=START)
    await log.write_audit([audited(scope, "late", seen_seq=seen, error_message=MARKER, **query)])
    await log.write_receipt(scope, "late", "{}", START, seen)
    (row,) = await log.audit_rows(scope, operation="late")
    assert (row["query_text"], row["error_message"], row["metadata"]) == (None, None, {})
    assert await log.find_receipt("late", scope) is None

    seen = (await log.head(scope)).seq
    await log.write_audit([audited(scope, "after", seen_seq=seen, query_text="What now?")])
    await log.write_receipt(scope, "after", "{}", START, seen)
    assert (await log.audit_rows(scope, operation="after"))[0]["query_text"] == "What now?"
    assert await log.find_receipt("after", scope) == "{}"


async def test_short_common_text_is_blanked_in_the_rows_of_its_own_operation(log: LogStore, scope: Scope) -> None:
    row = audited(scope, "store", operation_id="op", metadata={"payload": ["yes"]})
    await log.append([build_change(scope, build_turn("a", "yes"), operation_id="op")], row)
    await log.append(
        [build_change(scope, build_turn("b", "yes"), operation_id="other")],
        audited(scope, "store", operation_id="other"),
    )
    await log.write_audit([audited(scope, query_text="yes")])
    await log.erase(scope, [("Turn", "a")], operation_id="e", erased_at=START)
    query, _, store = await log.audit_rows(scope)
    assert (store["metadata"], query["query_text"]) == ({}, "yes")


async def test_the_scan_finds_what_erasure_could_not_reach(log: LogStore, scope: Scope) -> None:
    """Text that came back after the transaction, as from a process that was still reading, is reported."""
    await write_records(log, scope, build_turn("a", f"The plan for {MARKER} is ready."))
    await log.set_meta({"note": f"The plan for {MARKER} is ready."})
    scan = await log.erase(scope, [("Turn", "a")], operation_id="e", erased_at=START)
    assert scan.leftovers == {"store_meta": 1}


async def test_a_whole_user_is_erased(log: LogStore, scope: Scope, stranger: Scope, clock: SettableClock) -> None:
    named = Scope("alice", channel=MARKER, agent_id=MARKER, session_id=MARKER, conversation_id=MARKER)
    row = audited(named, query_text=MARKER, metadata={MARKER: 1}, config_snapshot={"x": MARKER}, result_count=2)
    await write_records(log, named, build_turn("a", f"{MARKER}!", channel=MARKER), cause=MARKER)
    await write_records(log, scope, build_entity("x"), build_entity("y"), build_edge("e", "x", "y"))
    await delete_records(log, scope, ("Entity", "y"))
    await log.record_usage([("Turn", "a")], named, "r", used_at=START)
    await log.write_dead_letter(DeadLetter("vectors/x", "alice", 1, MARKER, 3, START))
    await log.maintain(START, 365)
    await write_records(log, scope, build_fact("f", MARKER))
    await log.write_audit([row])
    theirs = await log.append(build_turn_changes(stranger, "a"), audited(stranger, query_text=MARKER))
    scan = await log.erase(scope, None, operation_id="erasure", erased_at=clock.advance(hours=1))
    assert (scan.leftovers, scan.deferred) == ({}, deferred_places(log))
    assert (await log.head(scope))[:2] == (5, 1)
    entries = await log.changes(scope, 0, 10)
    assert [entry.seq for entry in entries] == [1, 2, 3, 4, 5]
    assert {(gone.id, gone.erased) for gone in entries[4].removals} == {(n, True) for n in ("a", "x", "y", "e", "f")}
    (left,) = await log.audit_rows(scope)
    assert (left["operation"], left["result_count"]) == ("recall", 2)
    everything = [
        entries,
        left,
        await log.find(scope, Where()),
        await log.read_columns(scope, 0),
        await log.dead_letters(scope),
        await log.match([MARKER.lower(), "x"], scope),
        await log.versions(("Turn", "a"), scope),
        await log.usage([("Turn", "a")], scope),
    ]
    assert MARKER not in repr(everything)
    assert await log.changes(stranger, 0, 9) == theirs
    assert (await log.audit_rows(stranger))[0]["query_text"] == MARKER
    assert list(await log.match(["a"], stranger)) == []
    assert [
        record.content for record in await log.read_records("Turn", ["a"], stranger) if isinstance(record, Turn)
    ] == ["This is a."]


async def test_an_erased_user_can_begin_again(log: LogStore, scope: Scope) -> None:
    await log.append(build_turn_changes(scope, "a", "b"))
    await log.erase(scope, None, operation_id="e", erased_at=START)
    again = await log.append(build_turn_changes(scope, "a"))
    assert [(entry.seq, entry.already_applied) for entry in again] == [(4, False)]
    assert [(stored.ordinal, stored.record.position_key()) for stored in again[0].upserts] == [
        (3, ("", -1)),
        (4, ("talk", 0)),
    ]
    await log.erase(scope, None, operation_id="e2", erased_at=START)
    assert (await log.head(scope))[:2] == (5, 2)
    assert await log.find(scope, Where()) == []


async def test_an_erased_word_that_is_also_a_value_of_the_settings_is_no_leftover(log: LogStore, scope: Scope) -> None:
    await write_records(log, scope, build_turn("a", "She writes to Oslo."))
    await log.write_audit([audited(scope, config_snapshot={"audit_level": "writes"})])
    scan = await log.erase(scope, [("Turn", "a")], operation_id="e", erased_at=START + timedelta(hours=1))
    assert scan.leftovers == {}
