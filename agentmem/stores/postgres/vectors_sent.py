"""Vectors in the form in which Postgres sends and takes them, whole columns at once; and numpy off the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from agentmem.model.outline import Floats
from agentmem.stores import Passage, Scores
from agentmem.stores.vectors.matrix import Columns, laid_out
from agentmem.stores.vectors.planes import Halves
from agentmem.stores.vectors.search import Search, by_row

if TYPE_CHECKING:
    from psycopg.adapt import Dumper

    from agentmem.stores.postgres.connection import Connection

T = TypeVar("T")
INT4 = 23  # the number of the type integer
ANY_TYPE = 0  # of an extension's type, whose number differs between databases and is not looked at
SENT_COLUMNS = (">i4", ">i4", "?", "?", ">i2")  # of computed scores: slots, parts, asks, whole, units
FEW = 1 << 21  # numbers; a millisecond of arithmetic at most, and a busy loop keeps a thread waiting longer than that


class Sent(bytes):
    """A value in the server's own binary form; the statement says by a cast what it is."""


@cache
def _dumper() -> type[Dumper]:
    from psycopg.types.string import BytesBinaryDumper

    return type("SentDumper", (BytesBinaryDumper,), {"oid": 0})


def accept_sent(db: Connection) -> None:
    """Let statements of this connection take `Sent` values."""
    db.adapters.register_dumper(Sent, _dumper())


def sent_vector(vector: Floats) -> Sent:
    """A query as a halfvec; its length does not matter, and is made to fit."""
    wide = np.asarray(vector, dtype=np.float64)
    return Sent(_vectors(wide[None] / (np.abs(wide).max(initial=0.0) or 1.0)).tobytes())


def columns(passages: Sequence[Passage]) -> dict[str, Any]:
    """Passages as the arrays that are bound to `insert` and `put`."""
    vectors = _vectors(np.stack([p.vector for p in passages]))
    return {
        "slots": _ints([p.slot for p in passages]),
        "parts": _ints([p.part for p in passages]),
        "starts": _ints([p.span[0] for p in passages]),
        "ends": _ints([p.span[1] for p in passages]),
        "asks": [p.asks for p in passages],
        "kinds": [p.kind for p in passages],
        "channels": [p.channel for p in passages],
        "grains": [p.grain for p in passages],
        "vectors": _array(vectors, ANY_TYPE),
    }


def halves_of(blobs: Sequence[bytes], dimensions: int) -> Halves:
    """What `halfvec_send` made of these vectors, as rows."""
    kind = np.dtype([("head", "V4"), ("numbers", ">f2", (dimensions,))])
    return np.frombuffer(b"".join(blobs), dtype=kind)["numbers"].astype(np.float16)


async def computed(numbers: int, work: Callable[[], T]) -> T:
    """Run work over so many numbers: at once, or, when these are many, off the loop."""
    return work() if numbers <= FEW else await in_thread(work)


async def in_thread(work: Callable[[], T]) -> T:
    """Run off the loop. Cancelled, it goes on only when the work has ended, which may be changing a matrix."""
    running = asyncio.get_running_loop().run_in_executor(None, work)
    try:
        return await asyncio.shield(running)
    finally:
        await asyncio.wait([running])


def ranked(search: Search, found: Sequence[bytes | None]) -> list[Scores]:
    """The scores of a search that the server computed, from their columns as sent."""
    slots, parts, asks, whole, units = (
        np.frombuffer(column or b"", dtype=kind) for column, kind in zip(found, SENT_COLUMNS, strict=True)
    )
    none = np.zeros(len(slots), dtype=np.int32)
    held = Columns(slots.astype(np.int64), slots.astype(np.int64), parts.astype(np.int32), none, none, asks)
    first, second = held.only(whole), held.only(~whole)
    layouts = laid_out((np.arange(len(first.ids)), first), (np.arange(len(second.ids)), second))
    return search.scored(layouts, by_row(units[whole].astype(np.int32), units[~whole].astype(np.int32)))


def _vectors(rows: NDArray[np.floating[Any]]) -> NDArray[np.void]:
    kind = np.dtype([("dimensions", ">i2"), ("unused", ">i2"), ("numbers", ">f2", (rows.shape[1],))])
    out = np.zeros(len(rows), dtype=kind)
    out["dimensions"], out["numbers"] = rows.shape[1], rows
    return out


def _ints(values: Sequence[int]) -> Sent:
    return _array(np.array(values, dtype=">i4"), INT4)


def _array(values: NDArray[Any], type_number: int) -> Sent:
    """A one-dimensional array without NULLs: a head, then each value with its size before it."""
    head = np.array([1, 0, type_number, len(values), 1], dtype=">i4")
    sized = np.empty(len(values), dtype=[("size", ">i4"), ("value", values.dtype)])
    sized["size"], sized["value"] = values.dtype.itemsize, values
    return Sent(head.tobytes() + sized.tobytes())
