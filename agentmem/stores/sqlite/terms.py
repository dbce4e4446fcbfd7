"""The user's own word index: a row per recent record, folded by and by into packed postings per term.

All functions but `SqliteTermIndex.match` run inside the caller's transaction.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from agentmem.core.scope import Scope
from agentmem.stores import postings
from agentmem.stores.postings import BYTES_PER_POSTING, MERGED_RECORDS_TERM, DeltaRow, DeltaSegmentCache
from agentmem.stores.sqlite.database import Connection, SqliteDatabase
from agentmem.stores.values import Postings
from agentmem.text.templates import load_templates
from agentmem.text.tokenizer import tokenizer_fingerprint

_SQL = load_templates(__package__, "terms.sql")

_encode_json = json.JSONEncoder(ensure_ascii=False).encode


def write(
    db: Connection, user_id: str, rows: Sequence[tuple[int, Mapping[str, int]]], *, all_new: bool = False
) -> None:
    """Index records by their term counts. The words that a record had before are replaced.

    `all_new` says that all of these ordinals are higher than any used before: that is not looked up then.

    Words that lie in blocks should be taken out first (`remove`, which knows the terms); the index is right without
    that too, but folding then looks through all of the user's blocks.
    """
    if not rows:
        return
    keys = {"user_id": user_id}
    last = None if all_new else db.execute(_SQL["last_of_tail"], keys).get
    moved = last is not None and min(ordinal for ordinal, _ in rows) <= int(last)
    db.executemany(_SQL["put"], [(user_id, ordinal, _encode_json(dict(counts))) for ordinal, counts in rows])
    if moved:
        tail = _recount_delta(db, user_id)
    else:
        added = {"added": len({ordinal for ordinal, _ in rows}), "tokenizer": tokenizer_fingerprint()}
        tail = int(db.execute(_SQL["lengthen"], {**keys, **added}).get)
    if postings.needs_merge(tail, len(rows)):
        merge_delta(db, user_id)


def remove(db: Connection, user_id: str, rows: Sequence[tuple[int, Collection[str]]]) -> None:
    """Take records out of the index, given the terms that each may have by this tokenizer.

    Words that another tokenizer read are looked for in all blocks.
    """
    if not rows:
        return
    ordinals = {ordinal for ordinal, _ in rows}
    db.execute(_SQL["take"], {"user_id": user_id, "slots": json.dumps(sorted(ordinals))})
    left_tail = bool(db.changes())
    is_ours = db.execute(_SQL["tokenizer"], {"user_id": user_id}).get == tokenizer_fingerprint()
    terms = {MERGED_RECORDS_TERM}.union(*(terms for _, terms in rows)) if is_ours else None
    _remove_from_blocks(db, user_id, ordinals, terms)
    if left_tail:
        _recount_delta(db, user_id)


def erase(db: Connection, user_id: str, ordinals: Collection[int]) -> None:
    """Take records out of the whole index, whatever terms they had: another version may have read other ones."""
    db.execute(_SQL["take"], {"user_id": user_id, "slots": json.dumps(sorted(ordinals))})
    _remove_from_blocks(db, user_id, ordinals, None)
    _recount_delta(db, user_id)


def merge_delta(db: Connection, user_id: str) -> int:
    """Fold the tail into blocks; returns how many rows it had."""
    keys = {"user_id": user_id}
    rows = list(_read_delta_after(db, user_id, -1))
    if not rows:
        return 0
    listed = _read_blocks(db, user_id, [MERGED_RECORDS_TERM]).get(MERGED_RECORDS_TERM, [])
    if twice := set(postings.unpack_blocks(listed)[0].tolist()) & {ordinal for ordinal, _ in rows}:
        _remove_from_blocks(db, user_id, twice, None)
    _extend_blocks(db, user_id, postings.invert_rows(rows))
    db.execute(_SQL["take_tail"], keys)
    _recount_delta(db, user_id)
    return len(rows)


def erase_user(db: Connection, user_id: str) -> None:
    """Take out all words of a user; the next ones are this tokenizer's.

    The generation grows, so that no cache takes a later tail for this one.
    """
    db.execute(_SQL["take_tail"], {"user_id": user_id})
    db.execute(_SQL["erase_blocks"], {"user_id": user_id})
    _recount_delta(db, user_id)
    db.execute(_SQL["set_tokenizer"], {"user_id": user_id, "tokenizer": tokenizer_fingerprint()})


def _recount_delta(db: Connection, user_id: str) -> int:
    """Rows left the tail or were rewritten: count it again, and let caches of it go. Returns its rows."""
    return int(db.execute(_SQL["note"], {"user_id": user_id, "tokenizer": tokenizer_fingerprint()}).get)


def _generation(db: Connection, user_id: str) -> int:
    found = db.execute(_SQL["state"], {"user_id": user_id}).fetchone()
    return 0 if found is None else int(found[1])


def _remove_from_blocks(db: Connection, user_id: str, ordinals: Collection[int], terms: Collection[str] | None) -> None:
    """Take ordinals out of the blocks of these terms; None: of all."""
    if terms is None:
        found = db.execute(_SQL["all_blocks"], {"user_id": user_id})
    else:
        found = db.execute(_SQL["blocks_of"], {"user_id": user_id, "terms": json.dumps(sorted(terms))})
    rewritten, empty = postings.remove_ordinals((((term, block), held) for term, block, held in found), ordinals)
    db.executemany(_SQL["rewrite"], [(held, user_id, *key) for key, held in rewritten])
    db.executemany(_SQL["empty"], [(user_id, *key) for key in empty])


def _extend_blocks(db: Connection, user_id: str, postings_by_term: Mapping[str, tuple[list[int], list[int]]]) -> None:
    """Add postings behind those that are there: into the last block of each term, then into new ones."""
    asked = {
        "user_id": user_id,
        "terms": json.dumps(list(postings_by_term), ensure_ascii=False),
        "full": postings.POSTINGS_PER_BLOCK * BYTES_PER_POSTING,
    }
    last = {term: (block, size, old) for term, block, size, old in db.execute(_SQL["last_blocks"], asked)}
    grown, added = postings.extend_blocks(postings_by_term, last)
    db.executemany(_SQL["rewrite"], [(held, user_id, term, block) for term, block, held in grown])
    db.executemany(_SQL["add"], [(user_id, *block) for block in added])


def _read_blocks(db: Connection, user_id: str, terms: Iterable[str]) -> dict[str, list[bytes]]:
    found: dict[str, list[bytes]] = {}
    asked = {"user_id": user_id, "terms": json.dumps(list(terms), ensure_ascii=False)}
    for term, block in db.execute(_SQL["blocks"], asked):
        found.setdefault(term, []).append(block)
    return found


def _read_delta_after(db: Connection, user_id: str, ordinal: int) -> Iterator[DeltaRow]:
    rows: Any = db.execute(_SQL["tail_after"], {"user_id": user_id, "after": ordinal})
    return ((ordinal, json.loads(terms)) for ordinal, terms in rows)


class SqliteTermIndex:
    """The TermIndex over one file. Keeps the parsed tails of the users seen last."""

    def __init__(self, database: SqliteDatabase) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._deltas = DeltaSegmentCache()

    async def match(self, terms: Sequence[str], scope: Scope) -> dict[str, Postings]:
        """Postings of each term over the user's records, in the order asked; terms that no record has are left out."""
        wanted = [term for term in dict.fromkeys(terms) if term]
        if not wanted:
            return {}
        return await self._database.read(lambda db: self._match(db, scope.user_id, wanted))

    def _match(self, db: Connection, user_id: str, terms: Sequence[str]) -> dict[str, Postings]:
        blocks, generation = _read_blocks(db, user_id, terms), _generation(db, user_id)
        with self._lock:
            tail = self._deltas.get_or_create(user_id, generation)
        with tail.lock:
            tail.add(_read_delta_after(db, user_id, tail.last_ordinal))
            return tail.match(terms, blocks)
