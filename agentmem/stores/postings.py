"""Postings of the word index, packed and parsed: what every backend of it does in memory.

A block holds int32 ordinals and then as many uint16 counts, so that a common word of a large memory is a few reads and
no work per row. A tail holds what was written last, a row per record, until it is folded into blocks.
"""

from __future__ import annotations

import struct
import threading
from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from agentmem.stores.values import Postings

BULK_WRITE_ROWS = 64
MAX_DELTA_ROWS_BULK, MAX_DELTA_ROWS = 1024, 4096  # rows; a bulk write is slow anyway, so it folds earlier
POSTINGS_PER_BLOCK = 4096
BYTES_PER_POSTING = 6  # of one posting
MAX_TERM_COUNT = 0xFFFF  # larger counts are kept as this
MERGED_RECORDS_TERM = ""  # the term whose blocks list every record that is in blocks; no text has it
MAX_CACHED_ROWS = 65_536  # rows of tails that are kept parsed, over all users
_ORDINAL_DTYPE, _COUNT_DTYPE = np.dtype("<i4"), np.dtype("<u2")
_POSTING_DTYPE = np.dtype([("ordinal", _ORDINAL_DTYPE), ("count", _COUNT_DTYPE)])
_pack_posting = struct.Struct("<iH").pack

Ordinals = NDArray[np.int32]
Counts = NDArray[np.uint16]
_NO_POSTINGS: tuple[Ordinals, Counts] = np.empty(0, dtype=_ORDINAL_DTYPE), np.empty(0, dtype=_COUNT_DTYPE)
DeltaRow = tuple[int, Mapping[str, int]]  # a record's ordinal and how often it has each term
K = TypeVar("K")  # what a backend calls a block by


def needs_merge(delta_rows: int, written_rows: int) -> bool:
    """Whether a tail of so many rows is to be folded after a write of so many."""
    return delta_rows > (MAX_DELTA_ROWS_BULK if written_rows >= BULK_WRITE_ROWS else MAX_DELTA_ROWS)


def pack_block(ordinals: Ordinals, counts: Counts) -> bytes:
    """One block."""
    return ordinals.tobytes() + counts.tobytes()


def unpack_blocks(blocks: Sequence[bytes]) -> tuple[Ordinals, Counts]:
    """The postings of some blocks of one term, one behind the other."""
    if not blocks:
        return _NO_POSTINGS
    sizes = [len(block) // BYTES_PER_POSTING for block in blocks]
    ordinals = [np.frombuffer(block, dtype=_ORDINAL_DTYPE, count=n) for block, n in zip(blocks, sizes, strict=True)]
    counts = [
        np.frombuffer(block, dtype=_COUNT_DTYPE, count=n, offset=n * 4) for block, n in zip(blocks, sizes, strict=True)
    ]
    return (ordinals[0], counts[0]) if len(blocks) == 1 else (np.concatenate(ordinals), np.concatenate(counts))


def remove_ordinals(
    blocks: Iterable[tuple[K, bytes]], ordinals: Collection[int]
) -> tuple[list[tuple[K, bytes]], list[K]]:
    """The changed blocks after removing ordinals: shorter ones, and those left empty."""
    slots = np.array(sorted(ordinals), dtype=_ORDINAL_DTYPE)
    rewritten: list[tuple[K, bytes]] = []
    empty: list[K] = []
    for key, block in blocks:
        held, counts = unpack_blocks([block])
        kept = ~np.isin(held, slots)
        if not kept.any():
            empty.append(key)
        elif not kept.all():
            rewritten.append((key, pack_block(held[kept], counts[kept])))
    return rewritten, empty


def invert_rows(rows: Sequence[DeltaRow]) -> dict[str, tuple[list[int], list[int]]]:
    """The rows of a tail by term, with the term that lists them all."""
    found: dict[str, tuple[list[int], list[int]]] = {
        MERGED_RECORDS_TERM: ([ordinal for ordinal, _ in rows], [1] * len(rows))
    }
    for ordinal, terms in rows:
        for term, count in terms.items():
            into = found.setdefault(term, ([], []))
            into[0].append(ordinal)
            into[1].append(min(count, MAX_TERM_COUNT))
    return found


def extend_blocks(
    postings: Mapping[str, tuple[list[int], list[int]]], last_blocks: Mapping[str, tuple[int, int, bytes | None]]
) -> tuple[list[tuple[str, int, bytes]], list[tuple[str, int, bytes]]]:
    """Postings put behind those that are there: last blocks that grow, and new blocks, as (term, block, postings).

    `last_blocks` has, for each term with blocks, the number and the size in bytes of the last one, and itself when not
    full.
    """
    grown: list[tuple[str, int, bytes]] = []
    added: list[tuple[str, int, bytes]] = []
    for term, (ordinals, counts) in postings.items():
        new_slots, new_counts = np.array(ordinals, dtype=_ORDINAL_DTYPE), np.array(counts, dtype=_COUNT_DTYPE)
        block, size, old = last_blocks.get(term, (-1, POSTINGS_PER_BLOCK * BYTES_PER_POSTING, None))
        room = max(0, POSTINGS_PER_BLOCK - size // BYTES_PER_POSTING)
        if old is not None:
            old_slots, old_counts = unpack_blocks([old])
            both = np.concatenate((old_slots, new_slots[:room])), np.concatenate((old_counts, new_counts[:room]))
            grown.append((term, block, pack_block(*both)))
        for number, start in enumerate(range(room, len(new_slots), POSTINGS_PER_BLOCK), block + 1):
            span = slice(start, start + POSTINGS_PER_BLOCK)
            added.append((term, number, pack_block(new_slots[span], new_counts[span])))
    return grown, added


class DeltaSegment:
    """The parsed delta of one user, by ordinal. Rows are only appended; any other change makes a new generation.

    The postings of a term are bytes, which garbage collection passes over: with lists it took twice as long.
    """

    def __init__(self, generation: int) -> None:
        self.generation = generation
        self.lock = threading.Lock()  # for a backend that reads on threads
        self.ordinals: list[int] = []
        self._terms: dict[str, bytearray] = {}

    @property
    def last_ordinal(self) -> int:
        """The highest ordinal in it; -1 when it is empty."""
        return self.ordinals[-1] if self.ordinals else -1

    def add(self, rows: Iterable[DeltaRow]) -> None:
        """Put rows behind those that are there; what is there already is left out."""
        after = self.last_ordinal
        for ordinal, terms in rows:
            if ordinal <= after:
                continue
            self.ordinals.append(ordinal)
            for term, count in terms.items():
                self._terms.setdefault(term, bytearray()).extend(_pack_posting(ordinal, min(count, MAX_TERM_COUNT)))

    def match(self, terms: Sequence[str], blocks: Mapping[str, Sequence[bytes]]) -> dict[str, Postings]:
        """See `match_postings`."""
        recent = {term: self._postings(term) for term in terms if term in self._terms}
        return match_postings(terms, blocks, recent, np.array(self.ordinals, dtype=_ORDINAL_DTYPE))

    def _postings(self, term: str) -> tuple[Ordinals, Counts]:
        rows = np.frombuffer(bytes(self._terms[term]), dtype=_POSTING_DTYPE)  # a copy: bytes in use cannot grow
        return np.ascontiguousarray(rows["ordinal"]), np.ascontiguousarray(rows["count"])


def match_postings(
    terms: Sequence[str],
    blocks: Mapping[str, Sequence[bytes]],
    delta_postings: Mapping[str, tuple[Ordinals, Counts]],
    delta_ordinals: Ordinals,
) -> dict[str, Postings]:
    """The postings of each term in its blocks and in a tail, in order of ordinal; terms that have none are left out.

    `delta_ordinals` are all ordinals of the tail and `delta_postings` the postings of terms in it, each in order of
    ordinal.
    """
    in_blocks = {term: unpack_blocks(blocks.get(term, ())) for term in terms}
    highest = max((int(ordinals.max()) for ordinals, _ in in_blocks.values() if len(ordinals)), default=-1)
    rewritten = delta_ordinals[: np.searchsorted(delta_ordinals, highest, side="right")]
    found = {}
    for term in terms:
        ordinals, counts = _merge_postings(in_blocks[term], delta_postings.get(term, _NO_POSTINGS), rewritten)
        if len(ordinals):
            found[term] = Postings(ordinals=ordinals.astype(np.int64), counts=counts.astype(np.float32))
    return found


def _merge_postings(
    packed: tuple[Ordinals, Counts], delta: tuple[Ordinals, Counts], rewritten: Ordinals
) -> tuple[Ordinals, Counts]:
    """Postings of blocks and tail in order of ordinal. What a rewritten record had in blocks no longer counts."""
    ordinals, counts = packed
    if len(rewritten) and len(ordinals):
        kept = ~np.isin(ordinals, rewritten)
        ordinals, counts = ordinals[kept], counts[kept]
    ordinals, counts = np.concatenate((ordinals, delta[0])), np.concatenate((counts, delta[1]))
    if len(ordinals) > 1 and not (ordinals[1:] > ordinals[:-1]).all():
        order = np.argsort(ordinals, kind="stable")
        ordinals, counts = ordinals[order], counts[order]
    return ordinals, counts


class DeltaSegmentCache:
    """The parsed tails of the users seen last, bounded by the rows that they hold together."""

    def __init__(self) -> None:
        self._segments: OrderedDict[str, DeltaSegment] = OrderedDict()

    def find(self, user_id: str) -> DeltaSegment | None:
        """The tail of a user that is kept, whatever its generation."""
        return self._segments.get(user_id)

    def get_or_create(self, user_id: str, generation: int) -> DeltaSegment:
        """The user's tail of this generation: the one that is kept, or an empty one.

        An empty one is kept in place of an older one; one older than what is kept belongs to a reader that began
        before the last fold, and is its own.
        """
        tail = self._segments.get(user_id)
        if tail is not None and tail.generation == generation:
            self._segments.move_to_end(user_id)
            return tail
        fresh = DeltaSegment(generation)
        if tail is None or tail.generation < generation:
            self._segments[user_id] = fresh
            self._segments.move_to_end(user_id)
            self._evict()
        return fresh

    def _evict(self) -> None:
        rows = sum(len(tail.ordinals) for tail in self._segments.values())
        while rows > MAX_CACHED_ROWS and len(self._segments) > 1:
            rows -= len(self._segments.popitem(last=False)[1].ordinals)
