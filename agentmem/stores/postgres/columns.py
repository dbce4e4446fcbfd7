"""Columns as the server's binary format has them: rows of records, and vectors in bulk."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from agentmem.core.columns import Floats
from agentmem.stores.codec import sanitize_text
from agentmem.stores.values import ChunkScores, VectorRow
from agentmem.stores.vectors.matrix import VectorColumns, build_orders
from agentmem.stores.vectors.quantization import Float16Rows
from agentmem.stores.vectors.search import VectorSearch, combine_by_row

if TYPE_CHECKING:
    from psycopg.adapt import Dumper

    from agentmem.stores.postgres.connection import PostgresConnection


_encode_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=str).encode

T = TypeVar("T")
INT4_OID = 23  # the number of the type integer
UNKNOWN_OID = 0  # of an extension's type, whose number differs between databases and is not looked at
BINARY_SCORE_TYPES = (">i4", ">i4", "?", "?", ">i2")  # of computed scores: ordinals, parts, asks, whole, units
# numbers; a millisecond of arithmetic at most, and a busy loop keeps a thread waiting longer than that
MAX_ON_LOOP_VALUES = 1 << 21


def render_rows(names: Sequence[str], rows: Iterable[Sequence[Any]], *, text_columns: Collection[str] = ()) -> str:
    """Rows as the JSON that `json_populate_recordset` takes; the columns in `text_columns` may hold any text."""
    given = [dict(zip(names, row, strict=True)) for row in rows]
    for row in given:
        row.update({name: sanitize_text(row[name]) for name in text_columns})
    return _encode_json(given)


def to_columns(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> dict[str, list[Any]]:
    """Rows as one list per column, as the statements that write many rows take them."""
    turned = list(zip(*rows, strict=True)) or [()] * len(names)
    return {name: list(column) for name, column in zip(names, turned, strict=True)}


class BinaryValue(bytes):
    """A value in the server's own binary form; the statement says by a cast what it is."""


@cache
def _build_dumper() -> type[Dumper]:
    from psycopg.types.string import BytesBinaryDumper

    return type("SentDumper", (BytesBinaryDumper,), {"oid": 0})


def register_binary(db: PostgresConnection) -> None:
    """Let statements of this connection take `BinaryValue` values."""
    db.adapters.register_dumper(BinaryValue, _build_dumper())


def encode_query_vector(vector: Floats) -> BinaryValue:
    """A query as a halfvec; its length does not matter, and is made to fit."""
    wide = np.asarray(vector, dtype=np.float64)
    return BinaryValue(_encode_vectors(wide[None] / (np.abs(wide).max(initial=0.0) or 1.0)).tobytes())


def encode_columns(vector_rows: Sequence[VectorRow]) -> dict[str, Any]:
    """Passages as the arrays that are bound to `insert` and `put`."""
    vectors = _encode_vectors(np.stack([p.vector for p in vector_rows]))
    return {
        "slots": _encode_ints([p.ordinal for p in vector_rows]),
        "parts": _encode_ints([p.part for p in vector_rows]),
        "starts": _encode_ints([p.span[0] for p in vector_rows]),
        "ends": _encode_ints([p.span[1] for p in vector_rows]),
        "asks": [p.is_question for p in vector_rows],
        "kinds": [p.kind for p in vector_rows],
        "channels": [p.channel for p in vector_rows],
        "grains": [p.granularity for p in vector_rows],
        "vectors": _encode_array(vectors, UNKNOWN_OID),
    }


def decode_halfvecs(blobs: Sequence[bytes], dimensions: int) -> Float16Rows:
    """What `halfvec_send` made of these vectors, as rows."""
    kind = np.dtype([("head", "V4"), ("numbers", ">f2", (dimensions,))])
    return np.frombuffer(b"".join(blobs), dtype=kind)["numbers"].astype(np.float16)


async def offload_if_large(value_count: int, work: Callable[[], T]) -> T:
    """Run work over so many numbers: at once, or, when these are many, off the loop."""
    return work() if value_count <= MAX_ON_LOOP_VALUES else await run_in_thread(work)


async def run_in_thread(work: Callable[[], T]) -> T:
    """Run off the loop. Cancelled, it goes on only when the work has ended, which may be changing a matrix."""
    running = asyncio.get_running_loop().run_in_executor(None, work)
    try:
        return await asyncio.shield(running)
    finally:
        await asyncio.wait([running])


def rank_server_scores(search: VectorSearch, columns: Sequence[bytes | None]) -> list[ChunkScores]:
    """The scores of a search that the server computed, from their columns as sent."""
    ordinals, parts, asks, whole, units = (
        np.frombuffer(column or b"", dtype=kind) for column, kind in zip(columns, BINARY_SCORE_TYPES, strict=True)
    )
    none = np.zeros(len(ordinals), dtype=np.int32)
    held = VectorColumns(ordinals.astype(np.int64), ordinals.astype(np.int64), parts.astype(np.int32), none, none, asks)
    first, second = held.select(whole), held.select(~whole)
    layouts = build_orders((np.arange(len(first.ids)), first), (np.arange(len(second.ids)), second))
    return search.rank_exact(layouts, combine_by_row(units[whole].astype(np.int32), units[~whole].astype(np.int32)))


def _encode_vectors(rows: NDArray[np.floating[Any]]) -> NDArray[np.void]:
    kind = np.dtype([("dimensions", ">i2"), ("unused", ">i2"), ("numbers", ">f2", (rows.shape[1],))])
    out = np.zeros(len(rows), dtype=kind)
    out["dimensions"], out["numbers"] = rows.shape[1], rows
    return out


def _encode_ints(values: Sequence[int]) -> BinaryValue:
    return _encode_array(np.array(values, dtype=">i4"), INT4_OID)


def _encode_array(values: NDArray[Any], type_number: int) -> BinaryValue:
    """A one-dimensional array without NULLs: a head, then each value with its size before it."""
    head = np.array([1, 0, type_number, len(values), 1], dtype=">i4")
    sized = np.empty(len(values), dtype=[("size", ">i4"), ("value", values.dtype)])
    sized["size"], sized["value"] = values.dtype.itemsize, values
    return BinaryValue(head.tobytes() + sized.tobytes())
