"""Passages and their vectors on the way into a store and out of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from agentmem.errors import InvalidRecord
from agentmem.model.outline import Bools, Floats, Ints, StringInterner
from agentmem.stores.values import VectorRow
from agentmem.stores.vectors.matrix import RowOrders, RowsView, UserMatrix, VectorColumns
from agentmem.stores.vectors.planes import Float16Rows, dequantize

CACHE_BUDGET_BYTES = 512 * 1024 * 1024  # bytes of cached matrices
ROW_BATCH_SIZE = 2048
FLOAT16 = np.dtype("<f2")

TokenVectors = tuple[NDArray[np.int32], NDArray[np.int8]]


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
    """Rows (id, slot, part, asks, whole, kind, channel, …), at least one, with codes by the matrix's names."""
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
    """The token vectors of those records that have some: slot, ids and vectors, as stored."""
    kept = {p.ordinal: p.tokens for p in rows if p.tokens is not None}
    return [
        (ordinal, ids.astype("<i4").tobytes(), vectors.astype(np.int8).tobytes())
        for ordinal, (ids, vectors) in kept.items()
    ]


def unpack_tokens(ids: bytes, vectors: bytes) -> TokenVectors:
    """What `pack_tokens` made of one record's."""
    pieces = np.frombuffer(ids, dtype="<i4").astype(np.int32)
    return pieces, np.frombuffer(vectors, dtype=np.int8).reshape(len(pieces), -1 if len(pieces) else 0)
