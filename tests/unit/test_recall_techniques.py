"""The arithmetic of the techniques, each against a direct computation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from agentmem.model.outline import ASKS_ANY, ASKS_LAST, Outline, OutlineRow, OutlineRows
from agentmem.model.ranking import Fusion
from agentmem.model.scope import Scope
from agentmem.providers import TokenVectors
from agentmem.recall.kept import Kept
from agentmem.recall.neighbours import adjacent, leaning
from agentmem.recall.rerank import RerankOptions, late_interaction
from agentmem.recall.technique import Memory
from agentmem.recall.techniques import keyword, vector
from agentmem.stores import Postings, Scores

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def turns(*asks: int, words: Sequence[int] = (), lengths: Sequence[int] = ()) -> Outline:
    """One conversation of turns with these flags."""
    made = Outline()
    made.put(
        OutlineRows.of(
            OutlineRow(
                slot=slot, seq=slot + 1, kind="Turn", id=f"t{slot}", channel="_global", status="active",
                conversation_id="c", position=slot, speaker="", valid_from=slot, valid_to=None, recorded_at=0,
                superseded_at=None, words=words[slot] if words else 10, length=lengths[slot] if lengths else 4,
                asks=flag, salience=0.5, confidence=1.0,
            )
            for slot, flag in enumerate(asks)
        ),
        len(asks),
    )  # fmt: skip
    return made


def seen(outline: Outline, *, mask: Sequence[bool] = (), calm: float = 0.5, **fields: Any) -> Memory:
    """A memory over an outline."""
    visible = np.array(mask or [True] * outline.size)
    visible.setflags(write=False)  # recalls share it
    links = adjacent(outline)
    stores: dict[str, Any] = {
        "clock": None, "graph": None, "log": None, "vectors": None, "identity": "m", "grains": (), "embed": None,
        "ask": None, "note": None, **fields,
    }  # fmt: skip
    return Memory(
        scope=Scope("alice"), outline=outline, mask=visible, turns=visible, current=visible, basis=visible, links=links,
        near=leaning(links, visible, outline.words), calm=calm, moment=NOW, kept=Kept(), **stores,
    )  # fmt: skip


def scores(values: Sequence[float], slots: Sequence[int] = (), asks: Sequence[bool] = ()) -> Scores:
    return Scores(
        np.array(slots or range(len(values))), np.zeros(len(values), dtype=np.int32),
        np.array(values, dtype=np.float32), np.array(asks or [False] * len(values)),
    )  # fmt: skip


# -- words


def test_bm25_smooths_over_neighbours() -> None:
    memory = seen(turns(ASKS_ANY, 0, 0, lengths=(4, 3, 5)))
    matches = {"cello": Postings(np.array([0]), np.array([2.0], dtype=np.float32))}
    found = keyword.bm25(["cello"], matches, memory, keyword.Options())
    lengths = np.array([4 + 0.2 * 3, 3 + 0.8 * 4 + 0.2 * 5, 5 + 0.3 * 3])
    frequency = np.array([2.0, 0.8 * 2.0, 0.0])
    norm = 0.9 * (0.7 + 0.3 * lengths / lengths.mean())
    rarity = math.log1p((3 - 1 + 0.5) / (1 + 0.5))
    assert found == pytest.approx(rarity * frequency / (frequency + norm), rel=1e-5)


def test_bm25_passes_words_back_and_counts_repeated_terms() -> None:
    memory = seen(turns(0, 0))
    matches = {"cello": Postings(np.array([1]), np.array([1.0], dtype=np.float32))}
    once = keyword.bm25(["cello"], matches, memory, keyword.Options())
    assert 0 < once[0] < once[1]
    assert keyword.bm25(["cello", "cello", "absent"], matches, memory, keyword.Options()) == pytest.approx(2 * once)


def test_bm25_of_hidden_turns_reaches_nobody() -> None:
    memory = seen(turns(0, 0, 0), mask=(False, True, True))
    matches = {"cello": Postings(np.array([0]), np.array([1.0], dtype=np.float32))}
    assert keyword.bm25(["cello"], matches, memory, keyword.Options()).tolist() == [0, 0, 0]


# -- vectors


def test_whole_is_the_cosine_with_the_averaged_neighbourhood() -> None:
    rng = np.random.default_rng(3)
    rows = rng.standard_normal((3, 8))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    query = rng.standard_normal(8)
    query /= np.linalg.norm(query)
    memory = seen(turns(0, 0, 0))
    between = np.array([[np.nan, rows[0] @ rows[1], rows[1] @ rows[2]], [np.nan, rows[0] @ rows[2], np.nan]])
    found = vector._whole(scores(list(rows @ query)), between.astype(np.float32), memory, vector.Options())
    leaning_rows = rows + 0.3 * np.array([rows[1], rows[0] + rows[2], rows[1]])
    leaning_rows /= np.linalg.norm(leaning_rows, axis=1, keepdims=True)
    assert found == pytest.approx(leaning_rows @ query, abs=1e-5)


def test_whole_leaves_out_neighbours_without_a_vector_and_slots_beyond_the_outline() -> None:
    memory = seen(turns(0, 0))
    between = np.full((2, 2), np.nan, dtype=np.float32)
    found = vector._whole(scores([0.5, 0.9], slots=[1, 2]), between, memory, vector.Options())
    assert found == pytest.approx([np.nan, 0.5], nan_ok=True)


def test_sentence_takes_the_best_and_credits_the_answer() -> None:
    memory = seen(turns(ASKS_ANY | ASKS_LAST, 0, 0), calm=1.0)
    asks = [True, False, False, False]
    found = vector._sentence(scores([0.9, 0.2, 0.4, 0.1], [0, 0, 1, 2], asks), memory, vector.Options())
    best = np.array([0.8, 0.4, 0.1])
    standing = (best - best.mean()) / best.std()
    good = np.maximum(standing, 0)
    expected = standing + np.array([0.1 * good[1], 0.45 * good[0] + 0.1 * good[2], 0.15 * good[1]])
    assert found == pytest.approx(expected, abs=1e-4)


def test_without_sentences_there_is_no_list() -> None:
    empty = vector._sentence(scores([], [], []), seen(turns(0, 0)), vector.Options())
    assert np.isnan(empty).all()


# -- late interaction


class Tokens:
    """Word pieces by slot."""

    def __init__(self, rows: dict[int, list[list[int]]]) -> None:
        self.rows = rows

    async def tokens(self, slots: Sequence[int], scope: Scope) -> dict[int, tuple[Any, Any]]:
        return {
            slot: (np.arange(len(self.rows[slot]), dtype=np.int32), np.array(self.rows[slot], dtype=np.int8))
            for slot in slots
            if slot in self.rows
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
    again = await late_interaction(order, fusion([0.5, 0.4, 0.45]), QUERY, memory, RerankOptions())
    assert again is not None
    assert again.scores[1] == pytest.approx((1.2 + 0.8) / 3.8)
    assert again.scores[0] == pytest.approx(1.5 / 3.8)
    assert again.scores[2] < again.scores[0]  # the others stay behind those looked at


async def test_late_interaction_leans_on_the_question_before() -> None:
    pieces = {0: [[120, 0]], 1: [[0, 90]], 2: [[0, 90]]}
    memory = seen(turns(ASKS_ANY, 0, 0), vectors=Tokens(pieces))
    again = await late_interaction(np.array([1, 2]), fusion([0, 0.5, 0.5]), QUERY, memory, RerankOptions())
    assert again is not None
    assert again.scores[1] > again.scores[2]


async def test_late_interaction_needs_all_word_pieces() -> None:
    order, nothing = np.array([0, 1]), TokenVectors(np.zeros(0, dtype=np.int32), np.zeros((0, 2), dtype=np.int8))
    memory = seen(turns(0, 0), vectors=Tokens({0: [[1, 0]]}))
    assert await late_interaction(order, fusion([1, 0]), QUERY, memory, RerankOptions()) is None
    assert await late_interaction(order, fusion([1, 0]), nothing, memory, RerankOptions()) is None
    assert await late_interaction(order, fusion([1, 0]), QUERY, seen(turns(0, 0)), RerankOptions()) is None


async def test_techniques_without_anything_to_go_by_are_silent() -> None:
    memory = seen(turns(0))
    query: Any = SimpleNamespace(read=SimpleNamespace(terms=[], bare="x"), request=SimpleNamespace(kinds=("Turn",)))
    assert await keyword.search(query, memory, keyword.Options()) == {}
    assert await vector.search(query, memory, vector.Options()) == {}
