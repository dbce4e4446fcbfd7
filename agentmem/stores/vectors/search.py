"""One search among a user's passages: which of them it may see, their scores, and the best of those."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from agentmem.errors import InvalidRecord
from agentmem.model.outline import Bools, Floats, Ints
from agentmem.model.scope import Scope
from agentmem.stores.values import SENTENCE, WHOLE, ChunkScores, Where
from agentmem.stores.vectors.matrix import RowOrder, RowOrders, RowsView, ScoringThread, UserMatrix, VectorColumns
from agentmem.stores.vectors.planes import FIXED_POINT_SCALE, FixedPoint, QuantizedQuery, QuantizedRows, score_exact

RESCORE_LIMIT = 200


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
        """Raises InvalidRecord for a grain that is none, a negative `top_k`, or a vector of other dimensions."""
        if unknown := set(granularities) - {WHOLE, SENTENCE}:
            raise InvalidRecord(f"grain must be {WHOLE!r} or {SENTENCE!r}, got {min(unknown)!r}", field="grain")
        if top_k is not None and top_k < 0:
            raise InvalidRecord(f"k must not be negative, got {top_k}", field="k")
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
