"""The user's own word index: a row per recent record, folded by and by into packed postings per term.

All functions but `SqliteWords.match` run inside the caller's transaction.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from agentmem.model.scope import Scope
from agentmem.stores import postings
from agentmem.stores.postings import BYTES, FOLDED, Row, Tails
from agentmem.stores.sqlite.connection import Connection, Database
from agentmem.stores.values import Postings
from agentmem.text.blocks import load_blocks

_json = json.JSONEncoder(ensure_ascii=False).encode


def write(db: Connection, user_id: str, rows: Sequence[tuple[int, Mapping[str, int]]], *, new: bool = False) -> None:
    """Index records by their term counts. The words that a record had before are replaced.

    `new` says that all of these slots are higher than any used before: that is not looked up then.

    Words that lie in blocks should be taken out first (`remove`, which knows the terms); the index is right without
    that too, but folding then looks through all of the user's blocks.
    """
    if not rows:
        return
    keys = {"user_id": user_id}
    last = None if new else db.execute(_sql()["last_of_tail"], keys).get
    moved = last is not None and min(slot for slot, _ in rows) <= int(last)
    db.executemany(_sql()["put"], [(user_id, slot, _json(dict(counts))) for slot, counts in rows])
    if moved:
        tail = _note(db, user_id)
    else:
        tail = int(db.execute(_sql()["lengthen"], {**keys, "added": len({slot for slot, _ in rows})}).get)
    if postings.is_full(tail, len(rows)):
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
        _note(db, user_id)


def compact(db: Connection, user_id: str) -> int:
    """Fold the tail into blocks; returns how many rows it had."""
    keys = {"user_id": user_id}
    rows = list(_tail_after(db, user_id, -1))
    if not rows:
        return 0
    listed = _blocks(db, user_id, [FOLDED]).get(FOLDED, [])
    if twice := set(postings.unpacked(listed)[0].tolist()) & {slot for slot, _ in rows}:
        _drop(db, user_id, twice, None)
    _extend(db, user_id, postings.inverted(rows))
    db.execute(_sql()["take_tail"], keys)
    _note(db, user_id)
    return len(rows)


def erase_user(db: Connection, user_id: str) -> None:
    """Take out all words of a user. The generation grows, so that no cache takes a later tail for this one."""
    db.execute(_sql()["take_tail"], {"user_id": user_id})
    db.execute(_sql()["erase_blocks"], {"user_id": user_id})
    _note(db, user_id)


def _note(db: Connection, user_id: str) -> int:
    """Rows left the tail or were rewritten: count it again, and let caches of it go. Returns its rows."""
    return int(db.execute(_sql()["note"], {"user_id": user_id}).get)


def _generation(db: Connection, user_id: str) -> int:
    found = db.execute(_sql()["state"], {"user_id": user_id}).fetchone()
    return 0 if found is None else int(found[1])


def _drop(db: Connection, user_id: str, slots: Collection[int], terms: Collection[str] | None) -> None:
    """Take slots out of the blocks of these terms; None: of all."""
    if terms is None:
        found = db.execute(_sql()["all_blocks"], {"user_id": user_id})
    else:
        found = db.execute(_sql()["blocks_of"], {"user_id": user_id, "terms": json.dumps(sorted(terms))})
    rewritten, empty = postings.without((((term, block), held) for term, block, held in found), slots)
    db.executemany(_sql()["rewrite"], [(held, user_id, *key) for key, held in rewritten])
    db.executemany(_sql()["empty"], [(user_id, *key) for key in empty])


def _extend(db: Connection, user_id: str, found: Mapping[str, tuple[list[int], list[int]]]) -> None:
    """Add postings behind those that are there: into the last block of each term, then into new ones."""
    asked = {"user_id": user_id, "terms": json.dumps(list(found), ensure_ascii=False), "full": postings.FULL * BYTES}
    last = {term: (block, size, old) for term, block, size, old in db.execute(_sql()["last_blocks"], asked)}
    grown, added = postings.extended(found, last)
    db.executemany(_sql()["rewrite"], [(held, user_id, term, block) for term, block, held in grown])
    db.executemany(_sql()["add"], [(user_id, *block) for block in added])


def _blocks(db: Connection, user_id: str, terms: Iterable[str]) -> dict[str, list[bytes]]:
    found: dict[str, list[bytes]] = {}
    asked = {"user_id": user_id, "terms": json.dumps(list(terms), ensure_ascii=False)}
    for term, block in db.execute(_sql()["blocks"], asked):
        found.setdefault(term, []).append(block)
    return found


def _tail_after(db: Connection, user_id: str, slot: int) -> Iterator[Row]:
    rows: Any = db.execute(_sql()["tail_after"], {"user_id": user_id, "after": slot})
    return ((slot, json.loads(terms)) for slot, terms in rows)


class SqliteWords:
    """The WordIndex over one file. Keeps the parsed tails of the users seen last."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._tails = Tails()

    async def match(self, terms: Sequence[str], scope: Scope) -> dict[str, Postings]:
        """Postings of each term over the user's records, in the order asked; terms that no record has are left out."""
        wanted = [term for term in dict.fromkeys(terms) if term]
        if not wanted:
            return {}
        return await self._database.read(lambda db: self._match(db, scope.user_id, wanted))

    def _match(self, db: Connection, user_id: str, terms: Sequence[str]) -> dict[str, Postings]:
        blocks, generation = _blocks(db, user_id, terms), _generation(db, user_id)
        with self._lock:
            tail = self._tails.of(user_id, generation)
        with tail.lock:
            tail.add(_tail_after(db, user_id, tail.last))
            return tail.matches(terms, blocks)


def _sql() -> Mapping[str, str]:
    return load_blocks(__package__, "words.sql")
