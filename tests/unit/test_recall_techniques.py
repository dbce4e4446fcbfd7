"""The arithmetic of the techniques, each against a direct computation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from agentmem.core.columns import CONTAINS_QUESTION, ENDS_WITH_QUESTION, RecordColumnBatch, RecordColumns, RecordRow
from agentmem.core.ranking import Fusion
from agentmem.core.scope import Scope
from agentmem.models.protocols import TokenVectors
from agentmem.recall.cache import UserCache, adjacent_turns, context_window
from agentmem.recall.late_interaction import rerank_late_interaction
from agentmem.recall.technique import SearchContext
from agentmem.recall.techniques import keyword, vector
from agentmem.stores.values import ChunkScores, Postings

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def turns(*asks: int, words: Sequence[int] = (), lengths: Sequence[int] = ()) -> RecordColumns:
    """One conversation of turns with these flags."""
    made = RecordColumns()
    made.put(
        RecordColumnBatch.from_rows(
            RecordRow(
                slot=ordinal,
                seq=ordinal + 1,
                kind="Turn",
                id=f"t{ordinal}",
                channel="_global",
                status="active",
                conversation_id="c",
                position=ordinal,
                speaker="",
                valid_from=ordinal,
                valid_to=None,
                recorded_at=0,
                superseded_at=None,
                words=words[ordinal] if words else 10,
                length=lengths[ordinal] if lengths else 4,
                asks=flag,
                salience=0.5,
                confidence=1.0,
            )
            for ordinal, flag in enumerate(asks)
        ),
        len(asks),
    )
    return made


def seen(columns: RecordColumns, *, mask: Sequence[bool] = (), calm: float = 0.5, **fields: Any) -> SearchContext:
    """A memory over columns."""
    visible = np.array(mask or [True] * columns.size)
    visible.setflags(write=False)  # recalls share it
    links = adjacent_turns(columns)
    stores: dict[str, Any] = {
        "clock": None,
        "graph": None,
        "log": None,
        "vectors": None,
        "embedder_id": "m",
        "granularities": (),
        "embed": None,
        "ask": None,
        "add_trace_note": None,
        **fields,
    }
    return SearchContext(
        scope=Scope("alice"),
        columns=columns,
        mask=visible,
        turn_mask=visible,
        current_mask=visible,
        normalization_mask=visible,
        all_neighbors=links,
        context_neighbors=context_window(links, visible, columns.words),
        statement_ratio=calm,
        now=NOW,
        cache=UserCache(),
        **stores,
    )


def scores(values: Sequence[float], slots: Sequence[int] = (), asks: Sequence[bool] = ()) -> ChunkScores:
    return ChunkScores(
        np.array(slots or range(len(values))),
        np.zeros(len(values), dtype=np.int32),
        np.array(values, dtype=np.float32),
        np.array(asks or [False] * len(values)),
    )


# -- words


async def test_a_recall_looks_up_each_term_once() -> None:
    asked: list[str] = []

    class Log:
        async def match(self, terms: Sequence[str], scope: Scope) -> dict[str, Postings]:
            asked.extend(terms)
            return {"cello": Postings(np.array([0, 5]), np.ones(2, dtype=np.float32))}

    memory = seen(turns(0, 0, 0), log=Log())
    for _ in range(2):
        assert {term: each.ordinals.tolist() for term, each in (await memory.match(["cello", "oboe"])).items()} == {
            "cello": [0]
        }
    assert asked == ["cello", "oboe"]


def test_bm25_smooths_over_neighbours() -> None:
    memory = seen(turns(CONTAINS_QUESTION, 0, 0, lengths=(4, 3, 5)))
    matches = {"cello": Postings(np.array([0]), np.array([2.0], dtype=np.float32))}
    found = keyword.score_bm25(["cello"], matches, memory)
    lengths = np.array([4 + 0.2 * 3, 3 + 0.8 * 4 + 0.2 * 5, 5 + 0.3 * 3])
    frequency = np.array([2.0, 0.8 * 2.0, 0.0])
    norm = 0.9 * (0.7 + 0.3 * lengths / lengths.mean())
    rarity = math.log1p((3 - 1 + 0.5) / (1 + 0.5))
    assert found == pytest.approx(rarity * frequency / (frequency + norm), rel=1e-5)


def test_bm25_passes_words_back_and_counts_repeated_terms() -> None:
    memory = seen(turns(0, 0))
    matches = {"cello": Postings(np.array([1]), np.array([1.0], dtype=np.float32))}
    once = keyword.score_bm25(["cello"], matches, memory)
    assert 0 < once[0] < once[1]
    assert keyword.score_bm25(["cello", "cello", "absent"], matches, memory) == pytest.approx(2 * once)


def test_bm25_of_hidden_turns_reaches_nobody() -> None:
    memory = seen(turns(0, 0, 0), mask=(False, True, True))
    matches = {"cello": Postings(np.array([0]), np.array([1.0], dtype=np.float32))}
    assert keyword.score_bm25(["cello"], matches, memory).tolist() == [0, 0, 0]


# -- vectors


def test_whole_is_the_cosine_with_the_averaged_neighbourhood() -> None:
    rng = np.random.default_rng(3)
    rows = rng.standard_normal((3, 8))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    query = rng.standard_normal(8)
    query /= np.linalg.norm(query)
    memory = seen(turns(0, 0, 0))
    between = np.array([[np.nan, rows[0] @ rows[1], rows[1] @ rows[2]], [np.nan, rows[0] @ rows[2], np.nan]])
    found = vector._score_whole(scores(list(rows @ query)), between.astype(np.float32), memory)
    leaning_rows = rows + 0.3 * np.array([rows[1], rows[0] + rows[2], rows[1]])
    leaning_rows /= np.linalg.norm(leaning_rows, axis=1, keepdims=True)
    assert found == pytest.approx(leaning_rows @ query, abs=1e-5)


def test_whole_leaves_out_neighbours_without_a_vector_and_ordinals_beyond_the_columns() -> None:
    memory = seen(turns(0, 0))
    between = np.full((2, 2), np.nan, dtype=np.float32)
    found = vector._score_whole(scores([0.5, 0.9], slots=[1, 2]), between, memory)
    assert found == pytest.approx([np.nan, 0.5], nan_ok=True)


def test_sentence_takes_the_best_and_credits_the_answer() -> None:
    memory = seen(turns(CONTAINS_QUESTION | ENDS_WITH_QUESTION, 0, 0), calm=1.0)
    asks = [True, False, False, False]
    found = vector._score_sentences(scores([0.9, 0.2, 0.4, 0.1], [0, 0, 1, 2], asks), memory)
    best = np.array([0.8, 0.4, 0.1])
    standing = (best - best.mean()) / best.std()
    good = np.maximum(standing, 0)
    expected = standing + np.array([0.1 * good[1], 0.45 * good[0] + 0.1 * good[2], 0.15 * good[1]])
    assert found == pytest.approx(expected, abs=1e-4)


def test_without_sentences_there_is_no_list() -> None:
    empty = vector._score_sentences(scores([], [], []), seen(turns(0, 0)))
    assert np.isnan(empty).all()


# -- late interaction


class Tokens:
    """Word pieces by slot."""

    def __init__(self, rows: dict[int, list[list[int]]]) -> None:
        self.rows = rows

    async def read_token_vectors(self, slots: Sequence[int], scope: Scope) -> dict[int, tuple[Any, Any]]:
        return {
            ordinal: (np.arange(len(self.rows[ordinal]), dtype=np.int32), np.array(self.rows[ordinal], dtype=np.int8))
            for ordinal in slots
            if ordinal in self.rows
        }


def fusion(values: Sequence[float]) -> Fusion:
    each = np.array(values)
    return Fusion(each, 3 * each, np.zeros(len(each)), 3, {})


QUERY = TokenVectors(np.array([0], dtype=np.int32), np.array([[100, 0]], dtype=np.int8))


async def test_late_interaction_lifts_what_matches_piece_by_piece() -> None:
    memory = seen(
        turns(0, 0, 0, words=(80, 80, 80)), vectors=Tokens({0: [[0, 90]], 1: [[0, 90], [120, 0]], 2: [[0, 90]]})
    )
    order = np.array([0, 1])
    again = await rerank_late_interaction(order, fusion([0.5, 0.4, 0.45]), QUERY, memory)
    assert again is not None
    assert again.scores[1] == pytest.approx((1.2 + 0.8) / 3.8)
    assert again.scores[0] == pytest.approx(1.5 / 3.8)
    assert again.scores[2] < again.scores[0]  # the others stay behind those looked at


async def test_late_interaction_leans_on_the_question_before() -> None:
    pieces = {0: [[120, 0]], 1: [[0, 90]], 2: [[0, 90]]}
    memory = seen(turns(CONTAINS_QUESTION, 0, 0), vectors=Tokens(pieces))
    again = await rerank_late_interaction(np.array([1, 2]), fusion([0, 0.5, 0.5]), QUERY, memory)
    assert again is not None
    assert again.scores[1] > again.scores[2]


async def test_late_interaction_needs_all_word_pieces() -> None:
    order, nothing = np.array([0, 1]), TokenVectors(np.zeros(0, dtype=np.int32), np.zeros((0, 2), dtype=np.int8))
    memory = seen(turns(0, 0), vectors=Tokens({0: [[1, 0]]}))
    assert await rerank_late_interaction(order, fusion([1, 0]), QUERY, memory) is None
    assert await rerank_late_interaction(order, fusion([1, 0]), nothing, memory) is None
    assert await rerank_late_interaction(order, fusion([1, 0]), QUERY, seen(turns(0, 0))) is None


async def test_techniques_without_anything_to_go_by_are_silent() -> None:
    memory = seen(turns(0))
    query: Any = SimpleNamespace(parsed=SimpleNamespace(terms=[], bare="x"), request=SimpleNamespace(kinds=("Turn",)))
    assert await keyword.search(query, memory, keyword.Options()) == {}
    assert await vector.search(query, memory, vector.Options()) == {}
