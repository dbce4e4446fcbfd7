"""Postings of the word index, packed and parsed: what every backend of it does in memory.

A block holds int32 slots and then as many uint16 counts, so that a common word of a large memory is a few reads and no
work per row. A tail holds what was written last, a row per record, until it is folded into blocks.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from agentmem.stores.values import Postings

MANY = 64  # rows of one write that make it a bulk write
TAIL_OF_BULK, TAIL_OF_SINGLE = 1024, 4096  # rows; a bulk write is slow anyway, so it folds earlier
FULL = 4096  # postings of a block
BYTES = 6  # of one posting
MOST = 0xFFFF  # larger counts are kept as this
FOLDED = ""  # the term whose blocks list every record that is in blocks; no text has it
CACHED_ROWS = 65_536  # rows of tails that are kept parsed, over all users
_SLOT, _COUNT = np.dtype("<i4"), np.dtype("<u2")

Slots = NDArray[np.int32]
Counts = NDArray[np.uint16]
_NOTHING: tuple[Slots, Counts] = np.empty(0, dtype=_SLOT), np.empty(0, dtype=_COUNT)
Row = tuple[int, Mapping[str, int]]  # a record's slot and how often it has each term
K = TypeVar("K")  # what a backend calls a block by


def is_full(tail: int, written: int) -> bool:
    """Whether a tail of so many rows is to be folded after a write of so many."""
    return tail > (TAIL_OF_BULK if written >= MANY else TAIL_OF_SINGLE)


def packed(slots: Slots, counts: Counts) -> bytes:
    """One block."""
    return slots.tobytes() + counts.tobytes()


def unpacked(blocks: Sequence[bytes]) -> tuple[Slots, Counts]:
    """The postings of some blocks of one term, one behind the other."""
    if not blocks:
        return _NOTHING
    sizes = [len(block) // BYTES for block in blocks]
    slots = [np.frombuffer(block, dtype=_SLOT, count=n) for block, n in zip(blocks, sizes, strict=True)]
    counts = [np.frombuffer(block, dtype=_COUNT, count=n, offset=n * 4) for block, n in zip(blocks, sizes, strict=True)]
    return (slots[0], counts[0]) if len(blocks) == 1 else (np.concatenate(slots), np.concatenate(counts))


def without(blocks: Iterable[tuple[K, bytes]], gone: Collection[int]) -> tuple[list[tuple[K, bytes]], list[K]]:
    """The blocks that change when slots are taken out: those that keep something, anew, and those left empty."""
    slots = np.array(sorted(gone), dtype=_SLOT)
    rewritten: list[tuple[K, bytes]] = []
    empty: list[K] = []
    for key, block in blocks:
        held, counts = unpacked([block])
        kept = ~np.isin(held, slots)
        if not kept.any():
            empty.append(key)
        elif not kept.all():
            rewritten.append((key, packed(held[kept], counts[kept])))
    return rewritten, empty


def inverted(rows: Sequence[Row]) -> dict[str, tuple[list[int], list[int]]]:
    """The rows of a tail by term, with the term that lists them all."""
    found: dict[str, tuple[list[int], list[int]]] = {FOLDED: ([slot for slot, _ in rows], [1] * len(rows))}
    for slot, terms in rows:
        for term, count in terms.items():
            into = found.setdefault(term, ([], []))
            into[0].append(slot)
            into[1].append(min(count, MOST))
    return found


def extended(
    postings: Mapping[str, tuple[list[int], list[int]]], last: Mapping[str, tuple[int, int, bytes | None]]
) -> tuple[list[tuple[str, int, bytes]], list[tuple[str, int, bytes]]]:
    """Postings put behind those that are there: last blocks that grow, and new blocks, as (term, block, postings).

    `last` has, for each term with blocks, the number and the size in bytes of the last one, and itself when not full.
    """
    grown: list[tuple[str, int, bytes]] = []
    added: list[tuple[str, int, bytes]] = []
    for term, (slots, counts) in postings.items():
        new_slots, new_counts = np.array(slots, dtype=_SLOT), np.array(counts, dtype=_COUNT)
        block, size, old = last.get(term, (-1, FULL * BYTES, None))
        room = max(0, FULL - size // BYTES)
        if old is not None:
            old_slots, old_counts = unpacked([old])
            both = np.concatenate((old_slots, new_slots[:room])), np.concatenate((old_counts, new_counts[:room]))
            grown.append((term, block, packed(*both)))
        for number, start in enumerate(range(room, len(new_slots), FULL), block + 1):
            span = slice(start, start + FULL)
            added.append((term, number, packed(new_slots[span], new_counts[span])))
    return grown, added


class Tail:
    """The parsed tail of one user, in order of slot. Rows only come behind it; any other change is a new generation."""

    def __init__(self, generation: int) -> None:
        self.generation = generation
        self.lock = threading.Lock()  # for a backend that reads on threads
        self.slots: list[int] = []
        self._terms: dict[str, tuple[list[int], list[int]]] = {}

    @property
    def last(self) -> int:
        """The highest slot in it; -1 when it is empty."""
        return self.slots[-1] if self.slots else -1

    def add(self, rows: Iterable[Row]) -> None:
        """Put rows behind those that are there; what is there already is left out."""
        after = self.last
        for slot, terms in rows:
            if slot <= after:
                continue
            self.slots.append(slot)
            for term, count in terms.items():
                slots, counts = self._terms.setdefault(term, ([], []))
                slots.append(slot)
                counts.append(min(count, MOST))

    def matches(self, terms: Sequence[str], blocks: Mapping[str, Sequence[bytes]]) -> dict[str, Postings]:
        """See `matched`."""
        recent = {term: self._postings(term) for term in terms if term in self._terms}
        return matched(terms, blocks, recent, np.array(self.slots, dtype=_SLOT))

    def _postings(self, term: str) -> tuple[Slots, Counts]:
        slots, counts = self._terms[term]
        return np.array(slots, dtype=_SLOT), np.array(counts, dtype=_COUNT)


def matched(
    terms: Sequence[str], blocks: Mapping[str, Sequence[bytes]], recent: Mapping[str, tuple[Slots, Counts]], tail: Slots
) -> dict[str, Postings]:
    """The postings of each term in its blocks and in a tail, in order of slot; terms that have none are left out.

    `tail` are all slots of the tail and `recent` the postings of terms in it, each in order of slot.
    """
    in_blocks = {term: unpacked(blocks.get(term, ())) for term in terms}
    highest = max((int(slots.max()) for slots, _ in in_blocks.values() if len(slots)), default=-1)
    rewritten = tail[: np.searchsorted(tail, highest, side="right")]
    found = {}
    for term in terms:
        slots, counts = _together(in_blocks[term], recent.get(term, _NOTHING), rewritten)
        if len(slots):
            found[term] = Postings(slots=slots.astype(np.int64), counts=counts.astype(np.float32))
    return found


def _together(packed: tuple[Slots, Counts], recent: tuple[Slots, Counts], rewritten: Slots) -> tuple[Slots, Counts]:
    """Postings of blocks and tail in order of slot. What a rewritten record had in blocks no longer counts."""
    slots, counts = packed
    if len(rewritten) and len(slots):
        kept = ~np.isin(slots, rewritten)
        slots, counts = slots[kept], counts[kept]
    slots, counts = np.concatenate((slots, recent[0])), np.concatenate((counts, recent[1]))
    if len(slots) > 1 and not (slots[1:] > slots[:-1]).all():
        order = np.argsort(slots, kind="stable")
        slots, counts = slots[order], counts[order]
    return slots, counts


class Tails:
    """The parsed tails of the users seen last, bounded by the rows that they hold together."""

    def __init__(self) -> None:
        self._held: OrderedDict[str, Tail] = OrderedDict()

    def held(self, user_id: str) -> Tail | None:
        """The tail of a user that is kept, whatever its generation."""
        return self._held.get(user_id)

    def of(self, user_id: str, generation: int) -> Tail:
        """The user's tail of this generation: the one that is kept, or an empty one.

        An empty one is kept in place of an older one; one older than what is kept belongs to a reader that began
        before the last fold, and is its own.
        """
        tail = self._held.get(user_id)
        if tail is not None and tail.generation == generation:
            self._held.move_to_end(user_id)
            return tail
        fresh = Tail(generation)
        if tail is None or tail.generation < generation:
            self._held[user_id] = fresh
            self._held.move_to_end(user_id)
            self._let_go()
        return fresh

    def _let_go(self) -> None:
        rows = sum(len(tail.slots) for tail in self._held.values())
        while rows > CACHED_ROWS and len(self._held) > 1:
            rows -= len(self._held.popitem(last=False)[1].slots)
