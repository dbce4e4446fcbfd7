"""Neighbors, what is kept of them between recalls, and the prior of conversations."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

from agentmem.core.clock import to_micros
from agentmem.core.columns import CONTAINS_QUESTION, ENDS_WITH_QUESTION, RecordColumnBatch, RecordColumns, RecordRow
from agentmem.core.scope import Scope
from agentmem.core.telemetry import CacheStats
from agentmem.recall.cache import (
    NeighborCosines,
    RankingCache,
    TokenSample,
    UserCache,
    adjacent_turns,
    answers_question,
    context_window,
    invert,
    neighbor_values,
    split_days,
)
from agentmem.recall.scoring import conversation_prior

SCOPE = Scope("alice")


def row(slot: int, conversation: str, position: int, **fields: Any) -> RecordRow:
    made = {
        "slot": slot,
        "seq": slot + 1,
        "kind": "Turn",
        "id": f"t{slot}",
        "channel": "_global",
        "status": "active",
        "conversation_id": conversation,
        "position": position,
        "speaker": "",
        "valid_from": 0,
        "valid_to": None,
        "recorded_at": 0,
        "superseded_at": None,
        "words": 10,
        "length": 5,
        "asks": 0,
        "salience": 0.5,
        "confidence": 1.0,
    }
    return RecordRow(**{**made, **fields})


def build_columns(*rows: RecordRow) -> RecordColumns:
    made = RecordColumns()
    made.put(RecordColumnBatch.from_rows(rows), len(rows))
    return made


def every(made: RecordColumns) -> np.ndarray:
    return np.ones(made.size, dtype=np.bool_)


class Vectors:
    """Rows by slot; counts what is asked for."""

    def __init__(self, vectors: np.ndarray) -> None:
        self.vectors, self.asked = vectors, 0

    async def score_pairs(self, left: np.ndarray, right: np.ndarray, scope: Scope) -> np.ndarray:
        self.asked += len(left)
        return np.asarray((self.vectors[left] * self.vectors[right]).sum(axis=1), dtype=np.float32)

    async def read_token_vectors(self, slots: Sequence[int], scope: Scope) -> dict[int, tuple[np.ndarray, np.ndarray]]:
        self.asked += len(slots)
        return {ordinal: (np.array([ordinal % 2, 7, 7]), np.zeros((3, 64), dtype=np.int8)) for ordinal in slots}


def test_adjacent_turns_share_conversation_and_channel_and_leave_no_gap() -> None:
    made = build_columns(
        row(0, "a", 1),
        row(1, "a", 0),
        row(2, "b", 2),
        row(3, "a", 3),
        row(4, "b", 3, channel="other"),
        row(5, "b", 1),
        row(6, "a", 2, kind="Fact"),
    )
    links = adjacent_turns(made)
    assert links.previous.tolist() == [1, -1, 5, -1, -1, -1, -1]
    assert links.next.tolist() == [-1, 0, -1, -1, -1, 2, -1]


def test_neighbours_count_up_to_ninety_words_the_one_before_first() -> None:
    made = build_columns(
        row(0, "a", 0, words=40), row(1, "a", 1, words=30), row(2, "a", 2, words=30), row(3, "a", 3, words=90)
    )
    near = context_window(adjacent_turns(made), every(made), made.words)
    assert near.previous.tolist() == [-1, 0, 1, -1]
    assert near.next.tolist() == [1, -1, -1, -1]


def test_a_hidden_turn_is_nobodys_neighbour() -> None:
    made = build_columns(row(0, "a", 0), row(1, "a", 1), row(2, "a", 2))
    near = context_window(adjacent_turns(made), np.array([True, False, True]), made.words)
    assert near.previous.tolist() == [-1, -1, -1]
    assert near.next.tolist() == [-1, -1, -1]


def test_taken_answers_and_inverse_follow_the_links() -> None:
    made = build_columns(
        row(0, "a", 0, asks=CONTAINS_QUESTION), row(1, "a", 1, asks=ENDS_WITH_QUESTION), row(2, "a", 2)
    )
    near = context_window(adjacent_turns(made), every(made), made.words)
    assert neighbor_values(np.array([5.0, 6.0, 7.0]), near.previous, missing=-1).tolist() == [-1, 5, 6]
    assert answers_question(near, made.asks).tolist() == [False, True, False]
    assert invert(near.previous).tolist() == [1, 2, -1]


async def test_cosines_are_right_and_asked_for_once() -> None:
    made = build_columns(row(0, "a", 0), row(1, "a", 1), row(2, "a", 2))
    vectors = Vectors(np.array([[1, 0], [0.6, 0.8], [0, 1]], dtype=np.float32))
    kept = NeighborCosines()
    first = await kept.read(adjacent_turns(made), vectors, SCOPE)  # type: ignore[arg-type]
    assert first[0] == pytest.approx([np.nan, 0.6, 0.8], nan_ok=True)
    assert first[1] == pytest.approx([np.nan, 0.0, np.nan], nan_ok=True)
    assert vectors.asked == 3
    made.put(RecordColumnBatch.from_rows([row(3, "a", 3)]), 4)
    vectors.vectors = np.concatenate([vectors.vectors, [[0, 1]]])
    again = await kept.read(adjacent_turns(made), vectors, SCOPE)  # type: ignore[arg-type]
    assert again[0] == pytest.approx([np.nan, 0.6, 0.8, 1.0], nan_ok=True)
    assert again[1] == pytest.approx([np.nan, 0.0, 0.8, np.nan], nan_ok=True)
    assert vectors.asked == 5


async def test_a_missing_vector_is_asked_for_again() -> None:
    made = build_columns(row(0, "a", 0), row(1, "a", 1))
    vectors = Vectors(np.array([[1, 0], [np.nan, np.nan]], dtype=np.float32))
    kept, links = NeighborCosines(), adjacent_turns(made)
    assert np.isnan((await kept.read(links, vectors, SCOPE))[0, 1])  # type: ignore[arg-type]
    vectors.vectors[1] = [1, 0]
    assert (await kept.read(links, vectors, SCOPE))[0, 1] == 1.0  # type: ignore[arg-type]


async def test_an_earlier_state_does_not_spoil_what_is_kept() -> None:
    early, late = build_columns(row(0, "a", 0)), build_columns(row(0, "a", 0), row(1, "a", 1))
    vectors, kept = Vectors(np.eye(2, dtype=np.float32)), UserCache()
    await kept.cosines_for("m").read(kept.all_neighbors(late), vectors, SCOPE)  # type: ignore[arg-type]
    past = kept.for_past_state()
    await past.cosines_for("m").read(past.all_neighbors(early), vectors, SCOPE)  # type: ignore[arg-type]
    await kept.cosines_for("m").read(adjacent_turns(late), vectors, SCOPE)  # type: ignore[arg-type]
    assert vectors.asked == 1


async def test_rarity_is_estimated_from_a_sample() -> None:
    vectors, pieces = Vectors(np.zeros((0, 0), dtype=np.float32)), TokenSample()
    turns = np.ones(1000, dtype=np.bool_)
    rarity = await pieces.estimate_idf(np.array([0, 7, 99]), turns, vectors, SCOPE, sample_size=100)  # type: ignore[arg-type]
    assert 0 < vectors.asked <= 150
    assert rarity[1] < rarity[0] < rarity[2]
    asked = vectors.asked
    await pieces.estimate_idf(np.array([0]), turns, vectors, SCOPE, sample_size=100)  # type: ignore[arg-type]
    assert vectors.asked == asked


async def test_rarity_of_all_is_exact_and_without_pieces_even() -> None:
    vectors = Vectors(np.zeros((0, 0), dtype=np.float32))
    rarity = await TokenSample().estimate_idf(np.array([1]), np.ones(4, dtype=np.bool_), vectors, SCOPE)  # type: ignore[arg-type]
    assert rarity == pytest.approx(np.log1p((4 - 2 + 0.5) / (2 + 0.5)))
    nothing = await TokenSample().estimate_idf(np.array([1, 2]), np.zeros(4, dtype=np.bool_), vectors, SCOPE)  # type: ignore[arg-type]
    assert nothing.tolist() == [1.0, 1.0]


def test_days_are_split_and_always_matches_no_date() -> None:
    made = build_columns(
        row(0, "a", 0, valid_from=to_micros(datetime(2024, 2, 29, 23, tzinfo=UTC))), row(1, "a", 1, valid_from=None)
    )
    days, place = UserCache().distinct_days(made)
    parts = {name: part[place].tolist() for name, part in split_days(days).items()}
    assert parts == {"year": [2024, -1], "month": [2, -1], "day": [29, -1]}


def test_the_users_seen_last_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentmem.recall.cache.MAX_CACHED_ROWS", 1)
    keep, made = RankingCache(CacheStats()), build_columns(row(0, "a", 0))
    first = keep.for_user("alice")
    first.all_neighbors(made)
    keep.for_user("bob").all_neighbors(made)
    assert keep.for_user("bob") is keep.for_user("bob")
    assert keep.for_user("alice") is not first
    again = keep.for_user("alice")
    keep.drop_user("alice")
    assert keep.for_user("alice") is not again


def test_a_conversation_lends_the_mean_of_its_three_best() -> None:
    made = build_columns(*(row(ordinal, name, ordinal) for ordinal, name in enumerate("aaaabbc")))
    scores = np.array([4.0, 1.0, 4.0, 1.0, 2.0, 0.0, 9.0])
    turns = np.array([True] * 6 + [False])
    prior = conversation_prior(scores, turns, made)
    assert prior == pytest.approx([1, 1, 1, 1, 0, 0, 0])  # means 3 and 1, scaled; what is hidden lends nothing
    assert conversation_prior(scores, ~every(made), made).tolist() == [0.0] * 7
