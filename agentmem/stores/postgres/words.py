"""The user's own word index: a row per recent record, folded by and by into packed postings per term.

The functions run inside the caller's transaction and under the user's lock.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from agentmem.model.scope import Scope
from agentmem.stores import postings
from agentmem.stores.postgres.columns import columnar
from agentmem.stores.postgres.connection import Database, rows
from agentmem.stores.postings import BYTES, FOLDED, Row
from agentmem.stores.values import Postings
from agentmem.text.blocks import load_blocks

if TYPE_CHECKING:
    from agentmem.stores.postgres.connection import Connection

_BLOCK = ("terms", "blocks", "postings")
_PACKED, _RECENT = 0, 1  # parts of the statement `matching`
_json = json.JSONEncoder(ensure_ascii=False).encode


async def write(db: Connection, user_id: str, written: Sequence[Row], *, tail: int | None = None) -> None:
    """Index records by their term counts. The words that a record had before are replaced.

    `tail` is how many rows the tail has, and says that none of these slots was used before; both are looked up without
    it. Words that lie in blocks should be taken out first (`remove`, which knows the terms); the index is right without
    that too, but folding then looks through all of the user's blocks.
    """
    if not written:
        return
    terms = [_json(dict(counts)) for _, counts in written]
    given = {"user_id": user_id, "slots": [slot for slot, _ in written], "terms": terms}
    await db.execute(_sql()["put" if tail is None else "put_new"], given)
    tail = await _note(db, user_id) if tail is None else tail + len(written)
    if postings.is_full(tail, len(written)):
        await compact(db, user_id)


async def remove(db: Connection, user_id: str, gone: Sequence[tuple[int, Collection[str]]]) -> None:
    """Take records out of the index, given the terms that each may have."""
    if not gone:
        return
    slots = [slot for slot, _ in gone]
    await db.execute(_sql()["take"], {"user_id": user_id, "slots": slots})
    await _drop(db, user_id, slots, {FOLDED}.union(*(terms for _, terms in gone)))
    await _note(db, user_id)


async def fold(db: Connection, user_id: str) -> int:
    """`compact` on its own, waiting for the user's writers."""
    await db.execute(_sql()["lock"], {"user_id": user_id})
    return await compact(db, user_id)


async def compact(db: Connection, user_id: str) -> int:
    """Fold the tail into blocks; returns how many rows it had."""
    keys = {"user_id": user_id}
    tail: list[Row] = await rows(db, _sql()["tail_after"], {**keys, "after": -1})
    if not tail:
        return 0
    listed = await rows(db, _sql()["blocks"], {**keys, "terms": [FOLDED]})
    twice = set(postings.unpacked([block for _, block in listed])[0].tolist()) & {slot for slot, _ in tail}
    if twice:
        await _drop(db, user_id, twice, None)
    await _extend(db, user_id, postings.inverted(tail))
    await db.execute(_sql()["take_tail"], keys)
    await _note(db, user_id)
    return len(tail)


async def erase_user(db: Connection, user_id: str) -> None:
    """Take out all words of a user. The generation grows, so that no cache takes a later tail for this one."""
    await db.execute(_sql()["take_tail"], {"user_id": user_id})
    await db.execute(_sql()["erase_blocks"], {"user_id": user_id})
    await _note(db, user_id)


async def _note(db: Connection, user_id: str) -> int:
    """Rows left the tail or were rewritten: count it again, and let caches of it go. Returns its rows."""
    return int((await rows(db, _sql()["note"], {"user_id": user_id}))[0][0])


async def _drop(db: Connection, user_id: str, slots: Collection[int], terms: Collection[str] | None) -> None:
    """Take slots out of the blocks of these terms; None: of all."""
    asked: dict[str, Any] = {"user_id": user_id, "terms": sorted(terms or ())}
    found = await rows(db, _sql()["all_blocks" if terms is None else "blocks_of"], asked)
    rewritten, empty = postings.without((((term, block), held) for term, block, held in found), slots)
    await _put(db, user_id, "rewrite", [(*key, block) for key, block in rewritten])
    if empty:
        await db.execute(_sql()["empty"], {"user_id": user_id, **columnar(_BLOCK[:2], empty)})


async def _extend(db: Connection, user_id: str, found: Mapping[str, tuple[list[int], list[int]]]) -> None:
    """Add postings behind those that are there: into the last block of each term, then into new ones."""
    asked = {"user_id": user_id, "terms": list(found), "full": postings.FULL * BYTES}
    last = {term: (block, size, old) for term, block, size, old in await rows(db, _sql()["last_blocks"], asked)}
    grown, added = postings.extended(found, last)
    await _put(db, user_id, "rewrite", grown)
    await _put(db, user_id, "add", added)


async def _put(db: Connection, user_id: str, statement: str, blocks: Sequence[tuple[str, int, bytes]]) -> None:
    if blocks:
        await db.execute(_sql()[statement], {"user_id": user_id, **columnar(_BLOCK, blocks)})


class PostgresWords:
    """The WordIndex of a database. The tail is searched by the server: to send it whole would take far longer."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def match(self, terms: Sequence[str], scope: Scope) -> dict[str, Postings]:
        """Postings of each term over the user's records, in the order asked; terms that no record has are left out."""
        wanted = [term for term in dict.fromkeys(terms) if term]
        if not wanted:
            return {}
        return await self._database.read(scope, lambda db: self._match(db, scope.user_id, wanted))

    async def _match(self, db: Connection, user_id: str, terms: Sequence[str]) -> dict[str, Postings]:
        cursor = await db.execute(_sql()["matching"], {"user_id": user_id, "terms": list(terms)}, binary=True)
        blocks: dict[str, list[bytes]] = {}
        recent, tail = {}, _numbers(b"")
        for part, term, _, first, second in await cursor.fetchall():
            if part == _PACKED:
                blocks.setdefault(term, []).append(first)
            elif part == _RECENT:
                recent[term] = _numbers(first), np.minimum(_numbers(second), postings.MOST).astype(np.uint16)
            else:
                tail = _numbers(first or b"")
        return postings.matched(terms, blocks, recent, tail)


def _numbers(sent: bytes) -> postings.Slots:
    return np.frombuffer(sent, dtype=">i4").astype(np.int32)


def _sql() -> Mapping[str, str]:
    return load_blocks(__package__, "words.sql")
