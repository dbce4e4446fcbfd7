"""The word index: what was written is found, once, in order of slot, for its user alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from agentmem.core.scope import Scope
from agentmem.stores.postings import BULK_WRITE_ROWS, MAX_DELTA_ROWS_BULK
from agentmem.stores.protocols import LogStore
from agentmem.stores.values import Postings
from tests.conformance.stores import build_entity, build_turn, delete_records, write_records
from tests.conformance.word_indexes import TermIndexBackend
from tests.scale import scaled

ANN, BOB = Scope("ann"), Scope("bob")
NUMBERS = count()


@pytest.fixture
def words(log: LogStore) -> TermIndexBackend:
    """The words of the test's log."""
    return TermIndexBackend(log)


def plain(found: Mapping[str, Postings]) -> dict[str, dict[int, int]]:
    for postings in found.values():
        assert (postings.ordinals[1:] > postings.ordinals[:-1]).all()
    return {
        term: dict(zip(hit.ordinals.tolist(), map(int, hit.counts.tolist()), strict=True))
        for term, hit in found.items()
    }


async def matched(words: TermIndexBackend, *terms: str, scope: Scope = ANN) -> dict[str, dict[int, int]]:
    """What the log's own index answers, whose cache has grown with the test, and one that has just begun."""
    warm, cold = await words.log.match(terms, scope), await words.open_cold_index().match(terms, scope)
    assert plain(warm) == plain(cold)
    assert list(warm) == list(cold)
    return plain(warm)


async def test_terms_are_found_with_their_counts(words: TermIndexBackend) -> None:
    await write_records(
        words.log, ANN, build_turn("t0", 0, content="a red kite and a red fox"), build_turn("t1", 1, content="a fox")
    )
    assert await matched(words, "fox", "red", "owl", "fox") == {"fox": {0: 1, 1: 1}, "red": {0: 2}}
    assert await words.log.match([], ANN) == {}


async def test_other_users_are_not_there(words: TermIndexBackend) -> None:
    await write_records(words.log, BOB, build_turn("t0", 0, content="fox"), build_turn("t1", 1, content="fox"))
    await write_records(words.log, ANN, build_turn("t0", 0, content="fox"))
    assert await matched(words, "fox") == {"fox": {0: 1}}


@pytest.mark.parametrize("folded", [False, True])
async def test_a_rewritten_record_counts_once(words: TermIndexBackend, folded: bool) -> None:
    await write_records(words.log, ANN, build_entity("e", name="red fox"), build_entity("f", name="red owl"))
    if folded:
        await words.compact("ann")
    await write_records(words.log, ANN, build_entity("e", name="red kite"))
    assert await matched(words, "red", "fox", "kite") == {"red": {0: 1, 1: 1}, "kite": {0: 1}}
    await words.compact("ann")
    assert await matched(words, "red", "fox", "kite") == {"red": {0: 1, 1: 1}, "kite": {0: 1}}


async def test_retracted_records_keep_their_words(words: TermIndexBackend) -> None:
    await write_records(words.log, ANN, build_entity("e", name="fox"))
    await delete_records(words.log, ANN, ("Entity", "e"))
    assert await matched(words, "fox") == {"fox": {0: 1}}


@pytest.mark.parametrize("together", [True, False])
async def test_words_that_were_not_taken_out_first_count_once_too(words: TermIndexBackend, together: bool) -> None:
    await words.write("ann", [(3, {"red": 1, "fox": 2}), (5, {"red": 4})])
    await words.compact("ann")
    await words.write("ann", [(3, {"red": 7})])
    if together:
        await words.compact("ann")
    assert await matched(words, "red", "fox") == {"red": {3: 7, 5: 4}}


async def test_large_counts_stay_large(words: TermIndexBackend) -> None:
    await words.write("ann", [(0, {"ha": 70_000})])
    assert await matched(words, "ha") == {"ha": {0: 65_535}}
    await words.compact("ann")
    assert await matched(words, "ha") == {"ha": {0: 65_535}}


async def test_bulk_writes_fold_and_single_ones_do_not(words: TermIndexBackend) -> None:
    rows = [(ordinal, {"word": 1, f"w{ordinal % 50}": 1}) for ordinal in range(MAX_DELTA_ROWS_BULK)]
    await words.write("ann", rows)
    await words.write("ann", [(5000, {"word": 1})])
    assert await words.count_delta_rows("ann") == MAX_DELTA_ROWS_BULK + 1
    more = [(ordinal, {"word": 1}) for ordinal in range(6000, 6000 + BULK_WRITE_ROWS)]
    await words.write("ann", more)
    assert await words.count_delta_rows("ann") == 0
    assert len((await matched(words, "word"))["word"]) == MAX_DELTA_ROWS_BULK + 1 + BULK_WRITE_ROWS


async def test_a_users_words_are_erased(words: TermIndexBackend) -> None:
    await words.write("ann", [(0, {"fox": 1}), (1, {"fox": 1})])
    await words.compact("ann")
    await words.write("ann", [(2, {"fox": 1})])
    await words.write("bob", [(0, {"fox": 1})])
    assert await matched(words, "fox") == {"fox": {0: 1, 1: 1, 2: 1}}
    await words.erase_user("ann")
    assert await matched(words, "fox") == {}
    await words.write("ann", [(0, {"fox": 3})])
    assert await matched(words, "fox") == {"fox": {0: 3}}
    assert await matched(words, "fox", scope=BOB) == {"fox": {0: 1}}


COUNTS = st.dictionaries(st.sampled_from("abcdefg"), st.integers(1, 9), max_size=5)
STEP = st.one_of(
    st.tuples(st.just("write"), st.lists(st.tuples(st.integers(0, 30), COUNTS), min_size=1, max_size=9)),
    st.tuples(st.just("rewrite"), st.lists(st.tuples(st.integers(0, 30), COUNTS), min_size=1, max_size=3)),
    st.tuples(st.just("remove"), st.lists(st.integers(0, 30), min_size=1, max_size=4)),
    st.tuples(st.just("compact"), st.none()),
)


@given(history=st.lists(STEP, max_size=14))
@example(history=[("write", [(0, {"a": 1})]), ("compact", None), ("write", [(0, {})]), ("remove", [0])])
@example(
    history=[
        ("write", [(0, {"a": 1})]),
        ("compact", None),
        ("write", [(0, {})]),
        ("rewrite", [(0, {"a": 1})]),
        ("compact", None),
    ]
)
@settings(max_examples=scaled(60, least=10), suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_any_history_ends_in_what_was_written_last(
    history: list[tuple[str, list[Any]]], words: TermIndexBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentmem.stores.postings.POSTINGS_PER_BLOCK", 4)  # many small blocks
    scope, held = Scope(f"ann {next(NUMBERS)}"), dict[int, dict[str, int]]()
    # `remove` takes all terms that a record may have had: those of every write since it was last removed.
    terms_since_removal: dict[int, dict[str, int]] = defaultdict(dict)

    async def remove(ordinals: Iterable[int]) -> None:
        await words.remove(scope.user_id, [(ordinal, terms_since_removal.pop(ordinal, {})) for ordinal in ordinals])

    async def step(name: str, what: list[Any]) -> None:
        if name == "compact":
            await words.compact(scope.user_id)
        elif name == "remove":
            await remove(dict.fromkeys(what))
            for ordinal in what:
                held.pop(ordinal, None)
        else:
            rows = dict(what)
            if name == "rewrite":
                await remove(rows)
            await words.write(scope.user_id, list(rows.items()))
            held.update(rows)
            for ordinal, terms in rows.items():
                terms_since_removal[ordinal].update(terms)

    for name, what in history:
        await step(name, what)
        wanted = {
            term: {ordinal: held[ordinal][term] for ordinal in sorted(held) if term in held[ordinal]}
            for term in "abcdefg"
        }
        assert await matched(words, *"abcdefg", scope=scope) == {term: hits for term, hits in wanted.items() if hits}
    assert await words.count_bad_segments(scope.user_id, 24) == 0
