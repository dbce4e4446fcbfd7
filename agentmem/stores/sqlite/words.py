"""The user's own word index: a row per recent record, folded by and by into packed postings per term.

A block holds int32 slots and then as many uint16 counts, so that a common word of a large memory is a few reads and no
work per row. All functions but `SqliteWords.match` run inside the caller's transaction.
"""

from __future__ import annotations

import json
import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentmem.model.outline import Ints
from agentmem.model.scope import Scope
from agentmem.stores import Postings
from agentmem.stores.sqlite.connection import Connection, Database
from agentmem.text.blocks import load_blocks

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


def write(db: Connection, user_id: str, rows: Sequence[tuple[int, Mapping[str, int]]]) -> None:
    """Index records by their term counts. The words that a record had before are replaced.

    Words that lie in blocks should be taken out first (`remove`, which knows the terms); the index is right without
    that too, but folding then looks through all of the user's blocks.
    """
    if not rows:
        return
    keys = {"user_id": user_id}
    last = db.execute(_sql()["last_of_tail"], keys).get
    moved = last is not None and min(slot for slot, _ in rows) <= int(last)
    db.executemany(
        _sql()["put"], [(user_id, slot, json.dumps(dict(counts), ensure_ascii=False)) for slot, counts in rows]
    )
    tail = _note(db, user_id, moved=moved, added=None if moved else len({slot for slot, _ in rows}))
    if tail > (TAIL_OF_BULK if len(rows) >= MANY else TAIL_OF_SINGLE):
        compact(db, user_id)


def remove(db: Connection, user_id: str, rows: Sequence[tuple[int, Collection[str]]]) -> None:
    """Take records out of the index, given the terms that each may have."""
    if not rows:
        return
    slots = {slot for slot, _ in rows}
    db.execute(_sql()["take"], {"user_id": user_id, "slots": json.dumps(sorted(slots))})
    left_tail = bool(db.changes())
    _drop(db, user_id, slots, {FOLDED}.union(*(terms for _, terms in rows)))
    if left_tail:
        _note(db, user_id, moved=True)


def compact(db: Connection, user_id: str) -> int:
    """Fold the tail into blocks; returns how many rows it had."""
    keys = {"user_id": user_id}
    rows: list[Any] = db.execute(_sql()["tail_after"], {**keys, "after": -1}).fetchall()
    if not rows:
        return 0
    slots = np.array([slot for slot, _ in rows], dtype=_SLOT)
    twice = set(np.intersect1d(slots, _unpacked(_blocks(db, user_id, [FOLDED]).get(FOLDED, []))[0]).tolist())
    if twice:
        _drop(db, user_id, twice, None)
    postings: dict[str, tuple[list[int], list[int]]] = {FOLDED: (slots.tolist(), [1] * len(rows))}
    for slot, terms in rows:
        for term, count in json.loads(terms).items():
            into = postings.setdefault(term, ([], []))
            into[0].append(slot)
            into[1].append(min(count, MOST))
    _extend(db, user_id, postings)
    db.execute(_sql()["take_tail"], keys)
    _note(db, user_id, moved=True)
    return len(rows)


def erase_user(db: Connection, user_id: str) -> None:
    """Take out all words of a user. The generation grows, so that no cache takes a later tail for this one."""
    db.execute(_sql()["take_tail"], {"user_id": user_id})
    db.execute(_sql()["erase_blocks"], {"user_id": user_id})
    _note(db, user_id, moved=True)


def _note(db: Connection, user_id: str, *, moved: bool, added: int | None = None) -> int:
    keys = {"user_id": user_id}
    tail = int(db.execute(_sql()["tail_size"], keys).get) if added is None else _state(db, user_id)[0] + added
    db.execute(_sql()["note"], {**keys, "tail": tail, "moved": int(moved)})
    return tail


def _state(db: Connection, user_id: str) -> tuple[int, int]:
    found = db.execute(_sql()["state"], {"user_id": user_id}).fetchone()
    return (0, 0) if found is None else (found[0], found[1])


def _drop(db: Connection, user_id: str, slots: Collection[int], terms: Collection[str] | None) -> None:
    """Take slots out of the blocks of these terms; None: of all."""
    gone = np.array(sorted(slots), dtype=_SLOT)
    if terms is None:
        found = db.execute(_sql()["all_blocks_with_rowid"], {"user_id": user_id})
    else:
        found = db.execute(_sql()["blocks_with_rowid"], {"user_id": user_id, "terms": json.dumps(sorted(terms))})
    rewritten: list[tuple[bytes, int]] = []
    empty: list[tuple[int]] = []
    for rowid, block in found:
        held, counts = _unpacked([block])
        kept = ~np.isin(held, gone)
        if not kept.any():
            empty.append((rowid,))
        elif not kept.all():
            rewritten.append((_packed(held[kept], counts[kept]), rowid))
    db.executemany(_sql()["rewrite"], rewritten)
    db.executemany(_sql()["empty"], empty)


def _extend(db: Connection, user_id: str, postings: Mapping[str, tuple[list[int], list[int]]]) -> None:
    """Add postings behind those that are there: into the last block of each term, then into new ones."""
    asked = {"user_id": user_id, "terms": json.dumps(list(postings), ensure_ascii=False), "full": FULL * BYTES}
    last = {
        term: (block, rowid, size, old) for term, block, rowid, size, old in db.execute(_sql()["last_blocks"], asked)
    }
    grown: list[tuple[bytes, int]] = []
    added: list[tuple[str, str, int, bytes]] = []
    for term, (slots, counts) in postings.items():
        new_slots, new_counts = np.array(slots, dtype=_SLOT), np.array(counts, dtype=_COUNT)
        block, rowid, size, old = last.get(term, (-1, 0, FULL * BYTES, None))
        room = max(0, FULL - size // BYTES)
        if old is not None:
            old_slots, old_counts = _unpacked([old])
            both = np.concatenate((old_slots, new_slots[:room])), np.concatenate((old_counts, new_counts[:room]))
            grown.append((_packed(*both), rowid))
        for number, start in enumerate(range(room, len(new_slots), FULL), block + 1):
            span = slice(start, start + FULL)
            added.append((user_id, term, number, _packed(new_slots[span], new_counts[span])))
    db.executemany(_sql()["rewrite"], grown)
    db.executemany(_sql()["add"], added)


def _packed(slots: Slots, counts: Counts) -> bytes:
    return slots.tobytes() + counts.tobytes()


def _unpacked(blocks: Sequence[bytes]) -> tuple[Slots, Counts]:
    if not blocks:
        return np.empty(0, dtype=_SLOT), np.empty(0, dtype=_COUNT)
    sizes = [len(block) // BYTES for block in blocks]
    slots = [np.frombuffer(block, dtype=_SLOT, count=n) for block, n in zip(blocks, sizes, strict=True)]
    counts = [np.frombuffer(block, dtype=_COUNT, count=n, offset=n * 4) for block, n in zip(blocks, sizes, strict=True)]
    return (slots[0], counts[0]) if len(blocks) == 1 else (np.concatenate(slots), np.concatenate(counts))


def _blocks(db: Connection, user_id: str, terms: Iterable[str]) -> dict[str, list[bytes]]:
    found: dict[str, list[bytes]] = {}
    asked = {"user_id": user_id, "terms": json.dumps(list(terms), ensure_ascii=False)}
    for term, block in db.execute(_sql()["blocks"], asked):
        found.setdefault(term, []).append(block)
    return found


class _Tail:
    """The parsed tail of one user, in order of slot."""

    def __init__(self, generation: int) -> None:
        self.generation = generation
        self.slots: list[int] = []
        self.terms: dict[str, tuple[list[int], list[int]]] = {}
        self.lock = threading.Lock()

    def top_up(self, db: Connection, user_id: str) -> None:
        after = self.slots[-1] if self.slots else -1
        for slot, terms in db.execute(_sql()["tail_after"], {"user_id": user_id, "after": after}):
            self.slots.append(slot)
            for term, count in json.loads(terms).items():
                slots, counts = self.terms.setdefault(term, ([], []))
                slots.append(slot)
                counts.append(min(count, MOST))

    def postings(self, term: str) -> tuple[Slots, Counts]:
        slots, counts = self.terms.get(term, ((), ()))
        return np.array(slots, dtype=_SLOT), np.array(counts, dtype=_COUNT)


class SqliteWords:
    """The WordIndex over one file. Keeps the parsed tails of the users seen last."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._tails: OrderedDict[str, _Tail] = OrderedDict()

    async def match(self, terms: Sequence[str], scope: Scope) -> dict[str, Postings]:
        """Postings of each term over the user's records, in the order asked; terms that no record has are left out."""
        wanted = [term for term in dict.fromkeys(terms) if term]
        if not wanted:
            return {}
        return await self._database.read(lambda db: self._match(db, scope.user_id, wanted))

    def _match(self, db: Connection, user_id: str, terms: Sequence[str]) -> dict[str, Postings]:
        blocks = _blocks(db, user_id, terms)
        tail = self._tail(db, user_id)
        with tail.lock:
            tail.top_up(db, user_id)
            recent = {term: tail.postings(term) for term in terms}
            packed = {term: _unpacked(blocks.get(term, [])) for term in terms}
            last = max((int(slots.max()) for slots, _ in packed.values() if len(slots)), default=-1)
            rewritten = np.array(tail.slots[: bisect_right(tail.slots, last)], dtype=_SLOT)
        found = {}
        for term in terms:
            slots, counts = _together(packed[term], recent[term], rewritten)
            if len(slots):
                found[term] = Postings(slots=slots, counts=counts.astype(np.float32))
        return found

    def _tail(self, db: Connection, user_id: str) -> _Tail:
        generation = _state(db, user_id)[1]
        with self._lock:
            tail = self._tails.get(user_id)
            if tail is not None and tail.generation == generation:
                self._tails.move_to_end(user_id)
                return tail
            fresh = _Tail(generation)
            if tail is None or tail.generation < generation:  # else this transaction began before another one's fold
                self._tails[user_id] = fresh
                self._tails.move_to_end(user_id)
                self._let_go()
            return fresh

    def _let_go(self) -> None:
        rows = sum(len(tail.slots) for tail in self._tails.values())
        while rows > CACHED_ROWS and len(self._tails) > 1:
            rows -= len(self._tails.popitem(last=False)[1].slots)


def _together(packed: tuple[Slots, Counts], recent: tuple[Slots, Counts], rewritten: Slots) -> tuple[Ints, Counts]:
    """Postings of blocks and tail in order of slot. What a rewritten record had in blocks no longer counts."""
    slots, counts = packed
    if len(rewritten) and len(slots):
        kept = ~np.isin(slots, rewritten)
        slots, counts = slots[kept], counts[kept]
    slots, counts = np.concatenate((slots, recent[0])), np.concatenate((counts, recent[1]))
    if len(slots) > 1 and not (slots[1:] > slots[:-1]).all():
        order = np.argsort(slots, kind="stable")
        slots, counts = slots[order], counts[order]
    return slots.astype(np.int64), counts


def _sql() -> Mapping[str, str]:
    return load_blocks(__package__, "words.sql")
