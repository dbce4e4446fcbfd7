"""One search among a user's passages: which of them it may see, their scores, and the best of those."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from agentmem.errors import InvalidRecord
from agentmem.model.outline import Bools, Floats, Ints
from agentmem.model.scope import Scope
from agentmem.stores.values import SENTENCE, WHOLE, Scores, Where
from agentmem.stores.vectors.matrix import Beside, Columns, Layout, Layouts, UserMatrix, View
from agentmem.stores.vectors.planes import UNITS, Planes, Probe, Units, exact

RESCORED = 200


class Search:
    """What is asked of a user's passages. Of `where` it heeds kinds and channels."""

    def __init__(
        self, vector: Floats, dimensions: int, scope: Scope, where: Where, grains: Sequence[str], k: int | None
    ) -> None:
        """Raises InvalidRecord for a grain that is none, a negative `k`, or a vector of other dimensions."""
        if unknown := set(grains) - {WHOLE, SENTENCE}:
            raise InvalidRecord(f"grain must be {WHOLE!r} or {SENTENCE!r}, got {min(unknown)!r}", field="grain")
        if k is not None and k < 0:
            raise InvalidRecord(f"k must not be negative, got {k}", field="k")
        if np.shape(vector) != (dimensions,) or not np.isfinite(vector).all():
            raise InvalidRecord(
                f"vector must hold {dimensions} finite numbers, got shape {np.shape(vector)}", field="vector"
            )
        self.vector, self.probe, self.grains, self.k = vector, Probe(vector), grains, k
        self.user_id, self.kinds = scope.user_id, where.kinds
        readable = scope.readable()
        self.channels = readable if where.channels is None else tuple(set(readable) & set(where.channels))

    def in_matrix(self, beside: Beside, matrix: UserMatrix, held: tuple[Layouts, View, View]) -> list[Scores]:
        """Scores for each grain, from what was in a matrix at one moment: layouts, whole passages, sentences."""
        layouts, whole, sentences = held
        asked = [layouts[grain != WHOLE] for grain in self.grains]
        seen = [self._seen(layout, matrix) for layout in asked]
        every = any(one is other for one, other in zip(seen, asked, strict=True))
        wanted = [None if every else _wanted(seen, whole=grain) for grain in (True, False)]
        first = whole.units(self.probe, wanted[0], fine=True)
        scored = beside.each([*first, *sentences.units(self.probe, wanted[1], fine=False)])
        units = by_row(one_below_the_other(scored[: len(first)]), one_below_the_other(scored[len(first) :]))
        return [self._scores(layout, units, sentences.take) for layout in seen]

    def among(self, layouts: Layouts, names: UserMatrix, units: Units, take: Callable[[Ints], Planes]) -> list[Scores]:
        """The same from scores by row. `take` gives the planes of sentences by ascending row."""
        seen = [self._seen(layouts[grain != WHOLE], names) for grain in self.grains]
        return [self._scores(layout, units, take) for layout in seen]

    def scored(self, layouts: Layouts, units: Units) -> list[Scores]:
        """The same where the layouts hold only what may be seen and every score is exact."""
        return [
            self._ranked(layout.passages, units[layout.rows]) for layout in (layouts[g != WHOLE] for g in self.grains)
        ]

    def _seen(self, layout: Layout, names: UserMatrix) -> Layout:
        kinds = names.kinds.values if self.kinds is None else self.kinds
        return layout.seen(names.channels.among(self.channels), names.kinds.among(kinds))

    def _scores(self, layout: Layout, scored: Units, take: Callable[[Ints], Planes]) -> Scores:
        units = scored[layout.rows]
        again = to_rescore(units, layout.rows >= 0, RESCORED)
        if len(again):
            again = again[np.argsort(layout.rows[again])]
            units[again] = exact(take(layout.rows[again]), self.probe)
        return self._ranked(layout.passages, units)

    def _ranked(self, passages: Columns, units: Units) -> Scores:
        """All in order, or the best `k`, ties in order."""
        if self.k is not None:
            best = best_of(units, self.k)
            units, passages = units[best], passages.only(best)
        scores = units.astype(np.float32) / np.float32(UNITS)
        return Scores(slots=passages.slots, parts=passages.parts, scores=scores, asks=passages.asks)


def _wanted(seen: Sequence[Layout], *, whole: bool) -> Ints:
    """The rows of one table that some layout asks for."""
    rows = [layout.rows for layout in seen]
    return np.unique(np.concatenate([~row[row < 0] if whole else row[row >= 0] for row in rows]))


def one_below_the_other(units: Sequence[Units]) -> Units:
    """All of them as one array."""
    return np.concatenate([*units, np.zeros(0, dtype=np.int32)])


def by_row(whole: Units, sentences: Units) -> Units:
    """Both as one array that a layout's rows point into: ~row counts from the end."""
    return np.concatenate([sentences, whole[::-1]])


def to_rescore(units: Units, approximate: Bools, best: int) -> Ints:
    """Where among the best a score is approximate.

    Ties at the cut are taken in together, and left out together where there are very many: so the choice does not
    depend on the order of rows.
    """
    if not approximate.any():
        return np.zeros(0, dtype=np.int64)
    if len(units) > best:
        edge = np.partition(units, -best)[-best]
        chosen = units >= edge
        if int(chosen.sum()) > 4 * best:
            chosen = units > edge
        return np.flatnonzero(chosen & approximate)
    return np.flatnonzero(approximate)


def best_of(units: Units, k: int) -> Ints:
    """Where the best `k` are, best first, equal ones in order."""
    rows = np.arange(len(units))
    if 0 < k < len(rows):
        rows = np.flatnonzero(units >= np.partition(units, -k)[-k])
    return rows[np.argsort(-units[rows], kind="stable")][:k]
