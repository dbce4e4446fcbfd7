"""The word index: what was written is found, once, in order of slot, for its user alone."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentmem.model.scope import Scope
from agentmem.stores import Postings
from agentmem.stores.sqlite import SqliteLog, words
from agentmem.stores.sqlite.connection import Connection
from agentmem.text.blocks import load_blocks
from tests.conformance.stores import entity, opened, plan, put, retract, scans, turn

ANN, BOB = Scope("ann"), Scope("bob")
SQL = load_blocks("agentmem.stores.sqlite", "words.sql")


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[SqliteLog]:
    async with opened(tmp_path / "memory.db") as made:
        yield made


def plain(found: Mapping[str, Postings]) -> dict[str, dict[int, int]]:
    for postings in found.values():
        assert (postings.slots[1:] > postings.slots[:-1]).all()
    return {
        term: dict(zip(hit.slots.tolist(), map(int, hit.counts.tolist()), strict=True)) for term, hit in found.items()
    }


async def matched(log: SqliteLog, *terms: str, scope: Scope = ANN) -> dict[str, dict[int, int]]:
    """What the log's own index answers, whose cache has grown with the test, and one that has just begun."""
    warm, cold = await log.match(terms, scope), await words.SqliteWords(log.database).match(terms, scope)
    assert plain(warm) == plain(cold)
    assert list(warm) == list(cold)
    return plain(warm)


async def test_terms_are_found_with_their_counts(log: SqliteLog) -> None:
    await put(log, ANN, turn("t0", 0, content="a red kite and a red fox"), turn("t1", 1, content="a fox"))
    assert await matched(log, "fox", "red", "owl", "fox") == {"fox": {0: 1, 1: 1}, "red": {0: 2}}
    assert await log.match([], ANN) == {}


async def test_other_users_are_not_there(log: SqliteLog) -> None:
    await put(log, BOB, turn("t0", 0, content="fox"), turn("t1", 1, content="fox"))
    await put(log, ANN, turn("t0", 0, content="fox"))
    assert await matched(log, "fox") == {"fox": {0: 1}}


@pytest.mark.parametrize("folded", [False, True])
async def test_a_rewritten_record_counts_once(log: SqliteLog, folded: bool) -> None:
    await put(log, ANN, entity("e", name="red fox"), entity("f", name="red owl"))
    if folded:
        await log.database.write(lambda db: words.compact(db, "ann"))
    await put(log, ANN, entity("e", name="red kite"))
    assert await matched(log, "red", "fox", "kite") == {"red": {0: 1, 1: 1}, "kite": {0: 1}}
    await log.database.write(lambda db: words.compact(db, "ann"))
    assert await matched(log, "red", "fox", "kite") == {"red": {0: 1, 1: 1}, "kite": {0: 1}}


async def test_retracted_records_keep_their_words(log: SqliteLog) -> None:
    await put(log, ANN, entity("e", name="fox"))
    await retract(log, ANN, ("Entity", "e"))
    assert await matched(log, "fox") == {"fox": {0: 1}}


@pytest.mark.parametrize("together", [True, False])
async def test_words_that_were_not_taken_out_first_count_once_too(log: SqliteLog, together: bool) -> None:
    def rewrite(db: Connection) -> None:
        words.write(db, "ann", [(3, {"red": 1, "fox": 2}), (5, {"red": 4})])
        words.compact(db, "ann")
        words.write(db, "ann", [(3, {"red": 7})])
        if together:
            words.compact(db, "ann")

    await log.database.write(rewrite)
    assert await matched(log, "red", "fox") == {"red": {3: 7, 5: 4}}


async def test_large_counts_stay_large(log: SqliteLog) -> None:
    await log.database.write(lambda db: words.write(db, "ann", [(0, {"ha": 70_000})]))
    assert await matched(log, "ha") == {"ha": {0: 65_535}}
    await log.database.write(lambda db: words.compact(db, "ann"))
    assert await matched(log, "ha") == {"ha": {0: 65_535}}


async def test_bulk_writes_fold_and_single_ones_do_not(log: SqliteLog) -> None:
    def tail(db: Connection) -> int:
        return int(db.execute(SQL["tail_size"], {"user_id": "ann"}).get)

    rows = [(slot, {"word": 1, f"w{slot % 50}": 1}) for slot in range(words.TAIL_OF_BULK)]
    await log.database.write(lambda db: words.write(db, "ann", rows))
    await log.database.write(lambda db: words.write(db, "ann", [(5000, {"word": 1})]))
    assert await log.database.read(tail) == words.TAIL_OF_BULK + 1
    more = [(slot, {"word": 1}) for slot in range(6000, 6000 + words.MANY)]
    await log.database.write(lambda db: words.write(db, "ann", more))
    assert await log.database.read(tail) == 0
    assert len((await matched(log, "word"))["word"]) == words.TAIL_OF_BULK + 1 + words.MANY


async def test_a_users_words_are_erased(log: SqliteLog) -> None:
    def erase(db: Connection) -> None:
        words.write(db, "ann", [(0, {"fox": 1}), (1, {"fox": 1})])
        words.compact(db, "ann")
        words.write(db, "ann", [(2, {"fox": 1})])

    await log.database.write(erase)
    await log.database.write(lambda db: words.write(db, "bob", [(0, {"fox": 1})]))
    assert await matched(log, "fox") == {"fox": {0: 1, 1: 1, 2: 1}}
    await log.database.write(lambda db: words.erase_user(db, "ann"))
    assert await matched(log, "fox") == {}
    await log.database.write(lambda db: words.write(db, "ann", [(0, {"fox": 3})]))
    assert await matched(log, "fox") == {"fox": {0: 3}}
    assert await matched(log, "fox", scope=BOB) == {"fox": {0: 1}}


COUNTS = st.dictionaries(st.sampled_from("abcdefg"), st.integers(1, 9), max_size=5)
STEP = st.one_of(
    st.tuples(st.just("write"), st.lists(st.tuples(st.integers(0, 30), COUNTS), min_size=1, max_size=9)),
    st.tuples(st.just("rewrite"), st.lists(st.tuples(st.integers(0, 30), COUNTS), min_size=1, max_size=3)),
    st.tuples(st.just("remove"), st.lists(st.integers(0, 30), min_size=1, max_size=4)),
    st.tuples(st.just("compact"), st.none()),
)


@given(history=st.lists(STEP, max_size=14))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_any_history_ends_in_what_was_written_last(
    history: list[tuple[str, list[Any]]], tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(words, "FULL", 4)  # many small blocks
    held: dict[int, dict[str, int]] = {}

    def step(db: Connection, name: str, what: list[Any]) -> None:
        if name == "compact":
            words.compact(db, "ann")
        elif name == "remove":
            words.remove(db, "ann", [(slot, held.get(slot, {})) for slot in what])
            for slot in what:
                held.pop(slot, None)
        else:
            rows = dict(what)
            if name == "rewrite":
                words.remove(db, "ann", [(slot, held.get(slot, {})) for slot in rows])
            words.write(db, "ann", list(rows.items()))
            held.update(rows)

    async with opened(tmp_path_factory.mktemp("words") / "memory.db") as log:
        for name, what in history:
            await log.database.write(partial(step, name=name, what=what))
            wanted = {
                term: {slot: held[slot][term] for slot in sorted(held) if term in held[slot]} for term in "abcdefg"
            }
            assert await matched(log, *"abcdefg") == {term: hits for term, hits in wanted.items() if hits}
        left = await log.database.read(
            lambda db: db.execute("SELECT count(*) FROM word_blocks WHERE length(postings) > 24 OR postings = ''").get
        )
        assert left == 0


@pytest.mark.parametrize("analysed", [False, True])
async def test_every_statement_goes_through_an_index(log: SqliteLog, analysed: bool) -> None:
    values = {"user_id": "ann", "terms": '["a", "b"]', "slots": "[1, 2]", "after": 3, "full": 9, "tail": 0, "moved": 0}

    def write(db: Connection) -> list[str]:
        for user_id in ("ann", "bob"):
            words.write(db, user_id, [(slot, {"a": 1, f"t{slot}": 1}) for slot in range(1500)])
        words.write(db, "ann", [(slot, {"a": 1}) for slot in range(2000, 2030)])
        if analysed:
            db.execute("ANALYZE")
        statements = {name: text for name, text in SQL.items() if "?" not in text}
        return [line for text in statements.values() for line in scans(plan(db, text, values))]

    assert await log.database.write(write) == []
