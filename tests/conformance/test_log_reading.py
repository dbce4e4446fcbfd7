"""What a log promises of reads: the state now, the state then, in a stable order, of one user alone."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import timedelta

import pytest

from agentmem.core.clock import to_micros
from agentmem.core.columns import (
    CONTAINS_QUESTION,
    ENDS_WITH_QUESTION,
    MENTIONS_TIME,
    RecordColumnBatch,
    RecordColumns,
    RecordRow,
)
from agentmem.core.record import Record, Status
from agentmem.core.records import SLOT_KEY_PREFIX, Conversation, Fact, slot_prefix
from agentmem.core.scope import Scope
from agentmem.errors import InvalidRecord
from agentmem.stores.protocols import LogStore
from agentmem.stores.values import Where
from agentmem.text.tokenizer import tokenize
from tests.conformance.writing import (
    START,
    SettableClock,
    build_change,
    build_entity,
    build_fact,
    build_turn,
    build_turn_changes,
    claims_by_id,
    delete_records,
    entry_seqs,
    query_view,
    record_ids,
    write_records,
)


async def test_get_answers_in_the_order_asked(log: LogStore, scope: Scope) -> None:
    await write_records(
        log, scope, build_fact("a"), build_fact("b"), build_fact("c", channel="work"), build_entity("d")
    )
    assert record_ids(await log.read_records("Fact", ["c", "missing", "a", "d"], scope)) == ["c", "a"]
    assert await log.read_records("Fact", [], scope) == []


async def test_by_slot_answers_in_the_order_asked_and_as_of_a_position(log: LogStore, scope: Scope) -> None:
    await write_records(log, scope, build_fact("a", "First"), build_fact("b"))
    await write_records(log, scope, build_fact("a", "Second"))
    await delete_records(log, scope, ("Fact", "b"))
    assert record_ids(await log.read_by_ordinal([1, 0, 9], scope)) == ["a"]
    then = await log.read_by_ordinal([1, 0, 9], scope, through_seq=1)
    assert [(record.id, record.seq) for record in then] == [("b", 1), ("a", 1)]
    assert await log.read_by_ordinal([0, 1], scope, through_seq=0) == []


@pytest.mark.parametrize(
    "where, found",
    [
        (Where(), ["a", "b", "c", "t", "u"]),
        (Where(kinds=("Fact",)), ["a", "b", "c"]),
        (Where(kinds=("Fact", "Turn"), channels=("work",)), ["c", "u"]),
        (Where(kinds=()), []),
        (Where(status=("promoted", "archived")), ["b"]),
        (Where(ids=("a", "t", "'; DROP TABLE memory_records")), ["a", "t"]),
        (Where(dedup_keys=(build_fact("a").dedup_key(),)), ["a"]),
        (Where(dedup_keys=("",)), []),
        (Where(kinds=("Fact", "Turn"), after_id="b"), ["c", "t", "u"]),
        (Where(ids=("a", "t"), after_id="a"), ["t"]),
        (Where(conversation_id="talk"), ["t"]),
        (Where(since=START), ["b", "t", "u"]),
        (Where(until=START), ["a", "c"]),
        (Where(since=START, until=START + timedelta(microseconds=1), kinds=("Fact",)), ["b"]),
    ],
)
async def test_find_joins_its_conditions_by_and(log: LogStore, scope: Scope, where: Where, found: list[str]) -> None:
    await write_records(
        log,
        scope,
        build_fact("a"),
        build_fact("b", valid_from=START, status=Status.PROMOTED),
        build_fact("c", channel="work"),
    )
    await write_records(log, scope, build_turn("t"), build_turn("u", conversation="other", channel="work"))
    assert record_ids(await log.find(scope, where)) == found
    assert await log.count(scope, where) == len(found)


async def test_find_orders_stably_and_pages(log: LogStore, scope: Scope) -> None:
    names = [f"f{n}" for n in range(9)]
    random.Random(7).shuffle(names)
    await log.append(
        [build_change(scope, *(build_fact(name, valid_from=START) for name in names[n : n + 3])) for n in (0, 3, 6)]
    )
    by_seq = sorted(names[:3]) + sorted(names[3:6]) + sorted(names[6:])
    everything = Where()
    assert record_ids(await log.find(scope, everything)) == by_seq
    assert record_ids(await log.find(scope, everything, order="time")) == sorted(names)
    assert record_ids(await log.find(scope, everything, order="time", descending=True)) == sorted(names)
    latest = by_seq[6:] + by_seq[3:6] + by_seq[:3]
    assert record_ids(await log.find(scope, everything, descending=True)) == latest
    pages = [await log.find(scope, everything, limit=4, offset=offset) for offset in (0, 4, 8)]
    assert [record.id for page in pages for record in page] == by_seq
    keyed, after = list[str](), None
    while page := await log.find(scope, Where(after=after), limit=2):
        keyed += [record.id for record in page]
        after = (page[-1].seq, *page[-1].key)
    assert keyed == by_seq
    assert await log.find(scope, everything, limit=0) == []
    assert record_ids(await log.find(scope, everything, order="id")) == sorted(names)
    assert record_ids(await log.find(scope, everything, order="id", descending=True)) == sorted(names, reverse=True)
    assert record_ids(await log.find(scope, Where(after_id="f4"), order="id", limit=3)) == ["f5", "f6", "f7"]


@pytest.mark.parametrize(
    "field, options", [("order", {"order": "name"}), ("limit", {"limit": -1}), ("offset", {"offset": -1})]
)
async def test_find_refuses_what_it_does_not_know(
    log: LogStore, scope: Scope, field: str, options: dict[str, int]
) -> None:
    with pytest.raises(InvalidRecord) as refused:
        await log.find(scope, Where(), **options)  # type: ignore[arg-type]
    assert refused.value.field == field


async def test_the_journal_is_read_in_order_and_in_pages(log: LogStore, scope: Scope) -> None:
    entries = await log.append(build_turn_changes(scope, "a", "b", "c"))
    assert await log.changes(scope, 0, 2) == entries[:2]
    assert await log.changes(scope, 2, 2) == entries[2:]
    assert await log.changes(scope, 3, 2) == []


async def test_seq_at_finds_the_last_position_of_a_moment(log: LogStore, scope: Scope, clock: SettableClock) -> None:
    await log.append(build_turn_changes(scope, "a", "b"))
    later = clock.advance(hours=1)
    await log.append(build_turn_changes(scope, "c"))
    moments = (START - timedelta(seconds=1), START, later - timedelta(microseconds=1), later, later + timedelta(days=1))
    assert [await log.seq_at_time(scope, moment) for moment in moments] == [0, 2, 2, 3, 3]


async def test_an_operations_changes_are_found_whether_or_not_one_has_its_id(log: LogStore, scope: Scope) -> None:
    one, two, three, four = build_turn_changes(scope, "a", "b", "c", "d")
    name, other = two.operation_id, four.operation_id
    await log.append([replace(one, operation_id=name), replace(two, change_id=name), three, four])
    await log.append([replace(build_change(scope, build_fact("f")), change_id=other, operation_id=other)])
    assert [entry.seq for entry in await log.operation(name, scope)] == [1, 2]
    assert [entry.seq for entry in await log.operation(other, scope)] == [4, 5]


async def test_versions_tell_a_records_history(log: LogStore, scope: Scope) -> None:
    for claim in ("A", "B"):
        await write_records(log, scope, build_fact("f", claim))
    await delete_records(log, scope, ("Fact", "f"))
    await write_records(log, scope, build_fact("f", "A"))
    history = await log.versions(("Fact", "f"), scope)
    assert [(record.claim, record.seq) for record in history if isinstance(record, Fact)] == [
        ("A", 1),
        ("B", 2),
        ("A", 4),
    ]
    assert await log.versions(("Fact", "missing"), scope) == []


async def test_states_are_what_stood_at_a_position(log: LogStore, scope: Scope) -> None:
    await write_records(log, scope, build_fact("a", "a1"), build_fact("b", "b1"))
    await write_records(log, scope, build_fact("a", "a2"), build_fact("c", "c2"))
    await delete_records(log, scope, ("Fact", "b"))
    keys = [("Fact", "a"), ("Fact", "b"), ("Fact", "c"), ("Fact", "missing")]
    assert claims_by_id(await log.snapshot_at(keys, scope, 1)) == {"a": "a1", "b": "b1"}
    assert claims_by_id(await log.snapshot_at(keys, scope, 2)) == {"a": "a2", "b": "b1", "c": "c2"}
    assert claims_by_id(await log.snapshot_at(keys, scope, 3)) == {"a": "a2", "c": "c2"}
    assert claims_by_id(await log.snapshot_at(None, scope, 1)) == {"a": "a1", "b": "b1"}
    assert claims_by_id(await log.snapshot_at(None, scope, 2)) == {"b": "b1"}


async def test_operations_and_later_touches_are_found(log: LogStore, scope: Scope) -> None:
    first = await log.append([build_change(scope, build_fact(n), operation_id="op 1") for n in ("a", "b")])
    await write_records(log, scope, build_fact("b", "Other"))
    assert await log.operation("op 1", scope) == first
    assert await log.operation("missing", scope) == []
    keys = [("Fact", "a"), ("Fact", "b"), ("Fact", "missing")]
    assert await log.changed_keys_since(keys, scope, 1) == {("Fact", "b"): 3}
    assert await log.changed_keys_since(keys, scope, 3) == {}


async def test_the_columns_say_what_ranking_must_know(log: LogStore, scope: Scope) -> None:
    asking = build_turn("a", "Did you see Tom yesterday? He called.", speaker="Ann", channel="work")
    known = build_fact(
        "f", valid_from=START, valid_to=START + timedelta(1), salience=0.9, confidence=0.4, status="archived"
    )
    await write_records(log, scope, asking, known, Conversation(id="talk"))
    rows, gone, head = await log.read_columns(scope, 0)
    assert (gone, head[:2]) == ([], (1, 0))
    row, claim, talk = sorted(rows)
    assert row[:9] == (0, 1, "Turn", "a", "work", "active", "talk", 0, "Ann")
    assert row[9:13] == (to_micros(START), None, to_micros(START), None)
    assert (row.words, row.length, row.asks) == (7, len(tokenize(asking.content)), CONTAINS_QUESTION | MENTIONS_TIME)
    assert (claim.status, claim.valid_to) == ("archived", to_micros(START + timedelta(1)))
    assert (claim.salience, claim.confidence) == (0.9, 0.4)
    assert (talk.words, talk.length, talk.asks, talk.position) == (0, 0, 0, -1)
    await write_records(log, scope, build_turn("q", "And you?"))
    assert [(row.id, row.asks) for row in (await log.read_columns(scope, 1))[0]] == [
        ("q", ENDS_WITH_QUESTION | CONTAINS_QUESTION)
    ]


async def test_the_columns_are_topped_up_by_what_changed(log: LogStore, scope: Scope) -> None:
    await write_records(log, scope, build_fact("a"), build_fact("b"), build_fact("c"))
    await write_records(log, scope, build_fact("a", "Other"))
    await delete_records(log, scope, ("Fact", "b"))
    rows, gone, head = await log.read_columns(scope, 1)
    assert ([(row.id, row.seq) for row in rows], gone, head.seq) == ([("a", 2)], [1], 3)
    assert await log.read_columns(scope, 3) == (
        RecordColumnBatch.from_rows([]),
        [],
        head._replace(operation_id_after=head.operation_id),
    )


async def test_columns_patched_to_a_position_are_those_of_then(
    log: LogStore, scope: Scope, clock: SettableClock
) -> None:
    """Random histories: current columns + patch = the columns that were read at that position."""
    chance = random.Random(3)
    then: list[list[RecordRow]] = []
    for _ in range(25):
        clock.advance(minutes=1)
        name = f"f{chance.randrange(6)}"
        if chance.random() < 0.3:
            await delete_records(log, scope, ("Fact", name))
        else:
            await write_records(log, scope, build_fact(name, f"{name} is {chance.random()}", salience=chance.random()))
        then.append(sorted((await log.read_columns(scope, 0))[0]))
    for position in (1, 7, 13, 24, 25):
        columns, (rows, _, head) = RecordColumns(), await log.read_columns(scope, 0)
        current = {row.slot: row for row in rows}
        earlier, absent = await log.read_columns_patch(scope, position)
        patched = {**current, **{row.slot: row for row in earlier}}
        assert sorted(row for ordinal, row in patched.items() if ordinal not in absent) == then[position - 1]
        columns.put(RecordColumnBatch.from_rows(patched.values()), head.seq)
        columns.drop(absent, head.seq)
        assert int((columns.kind >= 0).sum()) == len(then[position - 1])


async def test_words_follow_the_text_and_stay_with_what_was_retired(log: LogStore, scope: Scope) -> None:
    await write_records(
        log, scope, build_entity("kim", description="plays the cello"), build_fact("f", "The cello is old")
    )
    found = await log.match(["cello", "violin"], scope)
    assert (found["cello"].ordinals.tolist(), found["cello"].counts.tolist(), list(found)) == (
        [0, 1],
        [1.0, 1.0],
        ["cello"],
    )
    await write_records(log, scope, build_entity("kim", description="plays the violin"))
    await delete_records(log, scope, ("Fact", "f"))
    found = await log.match(["cello", "violin"], scope)
    assert {term: postings.ordinals.tolist() for term, postings in found.items()} == {"cello": [1], "violin": [0]}
    await write_records(
        log,
        scope,
        build_fact("f", "The cello is old"),
        build_entity("kim", description="plays the violin", salience=0.1),
    )
    again = await log.match(["cello", "violin"], scope)
    assert {term: postings.counts.tolist() for term, postings in again.items()} == {"cello": [1.0], "violin": [1.0]}


async def test_nothing_of_another_user_is_ever_read(log: LogStore, scope: Scope, stranger: Scope) -> None:
    theirs = await write_records(
        log, stranger, build_turn("t", "secret"), build_fact("f", "secret"), Conversation(id="talk")
    )
    await write_records(log, scope, build_fact("f", "mine"))
    await log.record_usage([("Fact", "f")], stranger, "r", used_at=START)

    async def read() -> list[object]:
        kinds: list[list[Record]] = [
            await log.read_records(kind, ["t", "f", "talk"], scope) for kind in ("Turn", "Fact")
        ]
        return [
            kinds,
            await log.read_by_ordinal([0, 1, 2], scope),
            await log.read_by_ordinal([0, 1, 2], scope, 9),
            await log.find(scope, Where()),
            await log.count(scope, Where()),
            await log.read_columns(scope, 0),
            await log.read_columns_patch(scope, 0),
            await log.match(["secret"], scope),
            await log.head(scope),
            await log.changes(scope, 0, 9),
            await log.versions(("Turn", "t"), scope),
            await log.snapshot_at(None, scope, 0),
            await log.seq_at_time(scope, START),
            await log.operation(theirs.operation_id, scope),
            await log.changed_keys_since([("Turn", "t")], scope, 0),
            await log.find_applied(theirs.change_id, "", scope),
            await log.usage([("Fact", "f")], scope),
            await log.dead_letters(scope),
        ]

    before = await read()
    assert entry_seqs(await log.changes(scope, 0, 9)) == [1]
    assert "secret" not in repr(before)
    assert "mallory" not in repr(before)
    await log.append(build_turn_changes(stranger, *(f"more {n}" for n in range(20))))
    await log.erase(stranger, None, operation_id="e", erased_at=START)
    assert await read() == before


async def test_beliefs_of_a_slot_are_found_with_those_that_ended(log: LogStore, scope: Scope) -> None:
    home = {"slot": "home", "subject": "user"}
    over = {**home, "value": "Oslo", "valid_to": START, "status": Status.SUPERSEDED}
    wrong = {**home, "value": "Bonn", "superseded_at": START, "status": Status.SUPERSEDED}
    await write_records(
        log,
        scope,
        *(
            build_fact(name, name).model_copy(update=fields)
            for name, fields in (
                ("a", over),
                ("b", {**home, "value": "Rome"}),
                ("c", {**home, "subject": "Ann", "value": "Rome"}),
                ("d", {**home, "slot": "address", "value": "Rome"}),
                ("e", wrong),
                ("f", {}),
            )
        ),
    )
    where = Where(kinds=("Fact",), dedup_prefix=slot_prefix("USER", "home"))
    assert record_ids(await log.find(scope, where)) == ["a", "b"]
    every = Where(kinds=("Fact",), dedup_prefix=SLOT_KEY_PREFIX)
    assert record_ids(await log.find(scope, every)) == ["a", "b", "c", "d"]


async def test_sql_shows_what_is_believed(log: LogStore, scope: Scope) -> None:
    home = {"subject": "user", "slot": "home", "said_at": START}
    years = timedelta(days=36_500)
    beliefs = {
        "a": {**home, "value": "Rome"},
        "b": {**home, "value": "Oslo", "valid_to": START, "status": Status.SUPERSEDED},
        "c": {**home, "value": "Bonn", "temporal_context": "future", "valid_from": START + years},
        "d": {**home, "value": "Kiel", "temporal_context": "future", "valid_from": START},
        "e": {**home, "value": "Lund", "is_denied": True},
        "f": {**home, "value": "Graz", "certainty": "inferred"},
        "g": {**home, "value": "Wrong", "superseded_at": START, "status": Status.SUPERSEDED},
        "h": {**home, "value": "Gone", "status": Status.ARCHIVED},
        "i": {},
    }
    records = [build_fact(name, name).model_copy(update=fields) for name, fields in beliefs.items()]
    await write_records(log, scope, *records)
    rows = await query_view(log, scope, "fact_id, subject, slot, value, standing", "current_beliefs")
    assert sorted(rows) == [
        ("a", "user", "home", "Rome", "current"),
        ("b", "user", "home", "Oslo", "former"),
        ("c", "user", "home", "Bonn", "planned"),
        ("d", "user", "home", "Kiel", "due"),
        ("e", "user", "home", "Lund", "denied"),
        ("f", "user", "home", "Graz", "guess"),
    ]
