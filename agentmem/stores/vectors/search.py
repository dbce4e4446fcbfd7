"""Searching a user's vectors among visible rows, and rows in and out of a store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from agentmem.core.columns import Bools, Floats, Ints, StringInterner
from agentmem.core.scope import Scope
from agentmem.errors import InvalidRecord
from agentmem.stores.values import SENTENCE, WHOLE, ChunkScores, VectorRow, Where
from agentmem.stores.vectors.matrix import RowOrder, RowOrders, RowsView, ScoringThread, UserMatrix, VectorColumns
from agentmem.stores.vectors.quantization import (
    FIXED_POINT_SCALE,
    FixedPoint,
    Float16Rows,
    QuantizedQuery,
    QuantizedRows,
    dequantize,
    score_exact,
)

RESCORE_LIMIT = 200

CACHE_BUDGET_BYTES = 512 * 1024 * 1024  # bytes of cached matrices
ROW_BATCH_SIZE = 2048
FLOAT16 = np.dtype("<f2")

TokenVectors = tuple[NDArray[np.int32], NDArray[np.int8]]


class VectorSearch:
    """What is asked of a user's passages. Of `where` it heeds kinds and channels."""

    def __init__(
        self,
        vector: Floats,
        dimensions: int,
        scope: Scope,
        where: Where,
        granularities: Sequence[str],
        top_k: int | None,
    ) -> None:
        """Raises InvalidRecord for an unknown granularity, a negative `top_k`, or a vector of other dimensions."""
        if unknown := set(granularities) - {WHOLE, SENTENCE}:
            raise InvalidRecord(
                f"granularity must be {WHOLE!r} or {SENTENCE!r}, got {min(unknown)!r}", field="granularity"
            )
        if top_k is not None and top_k < 0:
            raise InvalidRecord(f"top_k must not be negative, got {top_k}", field="top_k")
        if np.shape(vector) != (dimensions,) or not np.isfinite(vector).all():
            raise InvalidRecord(
                f"vector must hold {dimensions} finite numbers, got shape {np.shape(vector)}", field="vector"
            )
        self.vector, self.quantized_query, self.granularities, self.top_k = (
            vector,
            QuantizedQuery(vector),
            granularities,
            top_k,
        )
        self.user_id, self.kinds = scope.user_id, where.kinds
        readable = scope.readable_channels()
        self.channels = readable if where.channels is None else tuple(set(readable) & set(where.channels))

    def search_matrix(
        self, scoring_thread: ScoringThread, matrix: UserMatrix, snapshot: tuple[RowOrders, RowsView, RowsView]
    ) -> list[ChunkScores]:
        """Scores for each grain, from what was in a matrix at one moment: layouts, whole passages, sentences."""
        layouts, whole, sentences = snapshot
        asked = [layouts[granularity != WHOLE] for granularity in self.granularities]
        seen = [self._select_visible(layout, matrix) for layout in asked]
        every = any(one is other for one, other in zip(seen, asked, strict=True))
        wanted = [None if every else _rows_asked_for(seen, is_whole=granularity) for granularity in (True, False)]
        first = whole.build_scoring_tasks(self.quantized_query, wanted[0], is_exact=True)
        scored = scoring_thread.run_all(
            [*first, *sentences.build_scoring_tasks(self.quantized_query, wanted[1], is_exact=False)]
        )
        units = combine_by_row(concat_scores(scored[: len(first)]), concat_scores(scored[len(first) :]))
        return [self._rescore(layout, units, sentences.select) for layout in seen]

    def rank_approximate(
        self, orders: RowOrders, matrix: UserMatrix, scores: FixedPoint, select: Callable[[Ints], QuantizedRows]
    ) -> list[ChunkScores]:
        """The same from scores by row. `select` gives the planes of sentences by ascending row."""
        seen = [self._select_visible(orders[granularity != WHOLE], matrix) for granularity in self.granularities]
        return [self._rescore(layout, scores, select) for layout in seen]

    def rank_exact(self, orders: RowOrders, scores: FixedPoint) -> list[ChunkScores]:
        """The same where the layouts hold only what may be seen and every score is exact."""
        return [
            self._build_scores(layout.columns, scores[layout.rows])
            for layout in (orders[g != WHOLE] for g in self.granularities)
        ]

    def _select_visible(self, order: RowOrder, matrix: UserMatrix) -> RowOrder:
        kinds = matrix.kinds.values if self.kinds is None else self.kinds
        return order.select_visible(matrix.channels.mask_for(self.channels), matrix.kinds.mask_for(kinds))

    def _rescore(self, order: RowOrder, scores: FixedPoint, select: Callable[[Ints], QuantizedRows]) -> ChunkScores:
        units = scores[order.rows]
        again = select_for_rescore(units, order.rows >= 0, RESCORE_LIMIT)
        if len(again):
            again = again[np.argsort(order.rows[again])]
            units[again] = score_exact(select(order.rows[again]), self.quantized_query)
        return self._build_scores(order.columns, units)

    def _build_scores(self, columns: VectorColumns, units: FixedPoint) -> ChunkScores:
        """All in order, or the best `top_k`, ties in order."""
        if self.top_k is not None:
            best = top_k_rows(units, self.top_k)
            units, columns = units[best], columns.select(best)
        scores = units.astype(np.float32) / np.float32(FIXED_POINT_SCALE)
        return ChunkScores(
            ordinals=columns.ordinals, parts=columns.parts, scores=scores, is_question=columns.is_question
        )


def _rows_asked_for(orders: Sequence[RowOrder], *, is_whole: bool) -> Ints:
    """The rows of one table that some layout asks for."""
    rows = [layout.rows for layout in orders]
    return np.unique(np.concatenate([~row[row < 0] if is_whole else row[row >= 0] for row in rows]))


def concat_scores(scores: Sequence[FixedPoint]) -> FixedPoint:
    """All of them as one array."""
    return np.concatenate([*scores, np.zeros(0, dtype=np.int32)])


def combine_by_row(whole: FixedPoint, sentences: FixedPoint) -> FixedPoint:
    """Both as one array that a layout's rows point into: ~row counts from the end."""
    return np.concatenate([sentences, whole[::-1]])


def select_for_rescore(scores: FixedPoint, approximate: Bools, limit: int) -> Ints:
    """Where among the best a score is approximate.

    Ties at the cut are taken in together, and left out together where there are very many: so the choice does not
    depend on the order of rows.
    """
    if not approximate.any():
        return np.zeros(0, dtype=np.int64)
    if len(scores) > limit:
        edge = np.partition(scores, -limit)[-limit]
        chosen = scores >= edge
        if int(chosen.sum()) > 4 * limit:
            chosen = scores > edge
        return np.flatnonzero(chosen & approximate)
    return np.flatnonzero(approximate)


def top_k_rows(scores: FixedPoint, top_k: int) -> Ints:
    """Where the best `top_k` are, best first, equal ones in order."""
    rows = np.arange(len(scores))
    if 0 < top_k < len(rows):
        rows = np.flatnonzero(scores >= np.partition(scores, -top_k)[-top_k])
    return rows[np.argsort(-scores[rows], kind="stable")][:top_k]


def projection_name(identity: str) -> str:
    """The name under which an embedder's vectors keep their watermarks."""
    return f"vectors/{identity}"


def check_vectors(rows: Sequence[VectorRow], identity: str, dimensions: int) -> None:
    """Raise InvalidRecord when a vector has not this many finite numbers."""
    for p in rows:
        if p.vector.shape != (dimensions,) or not np.isfinite(p.vector).all():
            message = f"{identity} takes vectors of {dimensions} finite numbers, got shape {p.vector.shape}"
            raise InvalidRecord(message, field="vector")


class LoadedRows(NamedTuple):
    """Some passages as they come from a store: columns, vectors, and which of them are whole."""

    columns: VectorColumns
    vectors: Float16Rows
    is_whole: Bools


def build_loaded_rows(rows: Sequence[tuple[Any, ...]], vectors: Float16Rows, matrix: UserMatrix) -> LoadedRows:
    """Rows (id, ordinal, part, asks, whole, kind, channel, …), at least one, with codes by the matrix's names."""
    ids, ordinals, parts, asks, whole, kinds, channels, *_ = zip(*rows, strict=True)
    columns = VectorColumns(
        ids=np.array(ids, dtype=np.int64),
        ordinals=np.array(ordinals, dtype=np.int64),
        parts=np.array(parts, dtype=np.int32),
        kinds=_encode_names(matrix.kinds, kinds),
        channels=_encode_names(matrix.channels, channels),
        is_question=np.array(asks, dtype=np.bool_),
    )
    return LoadedRows(columns, vectors, np.array(whole, dtype=np.bool_))


def _encode_names(interner: StringInterner, values: Sequence[str]) -> NDArray[np.int32]:
    codes = {value: interner.intern(value) for value in dict.fromkeys(values)}
    return np.fromiter(map(codes.__getitem__, values), dtype=np.int32, count=len(values))


def pair_cosines(pairs: Ints, ordinals: Ints, rows: Floats) -> Floats:
    """Cosines of pairs of records, shape (2, n), rounded to 1e-4; NaN where one is not among the ascending `ordinals`.

    `rows` are of unit length, one for each of `ordinals`.
    """
    out = np.full(pairs.shape[1], np.nan, dtype=np.float32)
    if len(ordinals):
        at = np.minimum(np.searchsorted(ordinals, pairs), len(ordinals) - 1)
        both = (ordinals[at] == pairs).all(axis=0)
        # einsum sums each row by itself: a pair's cosine does not depend on which others are asked for with it
        out[both] = np.round(np.einsum("ij,ij->i", rows[at[0][both]], rows[at[1][both]]), 4)
    return out


def matrix_pair_cosines(pairs: Ints, snapshot: tuple[RowOrders, RowsView, RowsView]) -> Floats:
    """The same from what was in a matrix at one moment: layouts, whole passages, sentences."""
    (layout, _), whole, _ = snapshot
    asked = np.flatnonzero((layout.columns.parts == 0) & np.isin(layout.columns.ordinals, pairs))
    asked = asked[np.argsort(~layout.rows[asked])]  # the order in which a view gives them
    ordinals, rows = layout.columns.ordinals[asked], dequantize(whole.select(~layout.rows[asked]))
    order = np.argsort(ordinals)
    return pair_cosines(pairs, ordinals[order], rows[order])


def pack_tokens(rows: Sequence[VectorRow]) -> list[tuple[int, bytes, bytes]]:
    """The token vectors of those records that have some: ordinal, ids and vectors, as stored."""
    kept = {p.ordinal: p.tokens for p in rows if p.tokens is not None}
    return [
        (ordinal, ids.astype("<i4").tobytes(), vectors.astype(np.int8).tobytes())
        for ordinal, (ids, vectors) in kept.items()
    ]


def unpack_tokens(ids: bytes, vectors: bytes) -> TokenVectors:
    """What `pack_tokens` made of one record's."""
    pieces = np.frombuffer(ids, dtype="<i4").astype(np.int32)
    return pieces, np.frombuffer(vectors, dtype=np.int8).reshape(len(pieces), -1 if len(pieces) else 0)
