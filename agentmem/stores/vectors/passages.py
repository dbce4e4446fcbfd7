"""Passages and their vectors on the way into a store and out of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from agentmem.errors import InvalidRecord
from agentmem.model.outline import Bools, Floats, Ints, Names
from agentmem.stores.values import Passage
from agentmem.stores.vectors.matrix import Columns, Layouts, UserMatrix, View
from agentmem.stores.vectors.planes import Halves, joined

BUDGET = 512 * 1024 * 1024  # bytes of cached matrices
ROWS_AT_ONCE = 2048
HALF = np.dtype("<f2")

Tokens = tuple[NDArray[np.int32], NDArray[np.int8]]


def projection_name(identity: str) -> str:
    """The name under which an embedder's vectors keep their watermarks."""
    return f"vectors/{identity}"


def check(passages: Sequence[Passage], identity: str, dimensions: int) -> None:
    """Raise InvalidRecord when a vector has not this many finite numbers."""
    for p in passages:
        if p.vector.shape != (dimensions,) or not np.isfinite(p.vector).all():
            message = f"{identity} takes vectors of {dimensions} finite numbers, got shape {p.vector.shape}"
            raise InvalidRecord(message, field="vector")


class Part(NamedTuple):
    """Some passages as they come from a store: columns, vectors, and which of them are whole."""

    columns: Columns
    halves: Halves
    whole: Bools


def part_of(rows: Sequence[tuple[Any, ...]], halves: Halves, names: UserMatrix) -> Part:
    """Rows (id, slot, part, asks, whole, kind, channel, …), at least one, with codes by the matrix's names."""
    ids, slots, parts, asks, whole, kinds, channels, *_ = zip(*rows, strict=True)
    columns = Columns(
        ids=np.array(ids, dtype=np.int64),
        slots=np.array(slots, dtype=np.int64),
        parts=np.array(parts, dtype=np.int32),
        kinds=_coded(names.kinds, kinds),
        channels=_coded(names.channels, channels),
        asks=np.array(asks, dtype=np.bool_),
    )
    return Part(columns, halves, np.array(whole, dtype=np.bool_))


def _coded(names: Names, values: Sequence[str]) -> NDArray[np.int32]:
    codes = {value: names.code(value) for value in dict.fromkeys(values)}
    return np.fromiter(map(codes.__getitem__, values), dtype=np.int32, count=len(values))


def pair_cosines(pairs: Ints, known: Ints, rows: Floats) -> Floats:
    """Cosines of pairs of records, shape (2, n), rounded to 1e-4; NaN where one is not among the ascending `known`.

    `rows` are of unit length, one for each of `known`.
    """
    out = np.full(pairs.shape[1], np.nan, dtype=np.float32)
    if len(known):
        at = np.minimum(np.searchsorted(known, pairs), len(known) - 1)
        both = (known[at] == pairs).all(axis=0)
        # einsum sums each row by itself: a pair's cosine does not depend on which others are asked for with it
        out[both] = np.round(np.einsum("ij,ij->i", rows[at[0][both]], rows[at[1][both]]), 4)
    return out


def held_cosines(pairs: Ints, held: tuple[Layouts, View, View]) -> Floats:
    """The same from what was in a matrix at one moment: layouts, whole passages, sentences."""
    (layout, _), whole, _ = held
    asked = np.flatnonzero((layout.passages.parts == 0) & np.isin(layout.passages.slots, pairs))
    asked = asked[np.argsort(~layout.rows[asked])]  # the order in which a view gives them
    slots, rows = layout.passages.slots[asked], joined(whole.take(~layout.rows[asked]))
    order = np.argsort(slots)
    return pair_cosines(pairs, slots[order], rows[order])


def packed_tokens(passages: Sequence[Passage]) -> list[tuple[int, bytes, bytes]]:
    """The token vectors of those records that have some: slot, ids and vectors, as stored."""
    kept = {p.slot: p.tokens for p in passages if p.tokens is not None}
    return [
        (slot, ids.astype("<i4").tobytes(), vectors.astype(np.int8).tobytes()) for slot, (ids, vectors) in kept.items()
    ]


def unpacked_tokens(ids: bytes, vectors: bytes) -> Tokens:
    """What `packed_tokens` made of one record's."""
    pieces = np.frombuffer(ids, dtype="<i4").astype(np.int32)
    return pieces, np.frombuffer(vectors, dtype=np.int8).reshape(len(pieces), -1 if len(pieces) else 0)
