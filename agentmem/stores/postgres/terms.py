"""The user's own word index: a row per recent record, folded by and by into packed postings per term.

The functions run inside the caller's transaction and under the user's lock.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from agentmem.core.scope import Scope
from agentmem.stores import postings
from agentmem.stores.postgres.columns import to_columns
from agentmem.stores.postgres.database import PostgresDatabase, fetch_rows
from agentmem.stores.postings import BYTES_PER_POSTING, MERGED_RECORDS_TERM, DeltaRow
from agentmem.stores.values import Postings
from agentmem.text.templates import load_templates
from agentmem.text.tokenizer import tokenizer_fingerprint

if TYPE_CHECKING:
    from agentmem.stores.postgres.database import Connection

_SQL = load_templates(__package__, "terms.sql")

_BLOCK_COLUMNS = ("terms", "blocks", "postings")
_PACKED_PART, _DELTA_PART = 0, 1  # parts of the statement `matching`
_encode_json = json.JSONEncoder(ensure_ascii=False).encode


async def write(db: Connection, user_id: str, records: Sequence[DeltaRow], *, delta_size: int | None = None) -> None:
    """Index records by their term counts. The words that a record had before are replaced.

    `delta_size` is how many rows the tail has, and says that none of these ordinals was used before; both are looked up
    without it. Words that lie in blocks should be taken out first (`remove`, which knows the terms); the index is right
    without that too, but folding then looks through all of the user's blocks.
    """
    if not records:
        return
    terms = [_encode_json(dict(counts)) for _, counts in records]
    given: dict[str, Any] = {"user_id": user_id, "slots": [ordinal for ordinal, _ in records], "terms": terms}
    if delta_size is None:
        await db.execute(_SQL["put"], given)
    else:
        await db.execute(_SQL["put_new"], {**given, "tokenizer": tokenizer_fingerprint()})
    delta_size = await _recount_delta(db, user_id) if delta_size is None else delta_size + len(records)
    if postings.needs_merge(delta_size, len(records)):
        await merge_delta(db, user_id)


async def remove(db: Connection, user_id: str, removals: Sequence[tuple[int, Collection[str]]]) -> None:
    """Take records out of the index, given the terms that each may have by this tokenizer.

    Words that another tokenizer read are looked for in all blocks.
    """
    if not removals:
        return
    ordinals = [ordinal for ordinal, _ in removals]
    read_by = await fetch_rows(db, _SQL["take"], {"user_id": user_id, "slots": ordinals})
    is_ours = read_by == [(tokenizer_fingerprint(),)]
    terms = {MERGED_RECORDS_TERM}.union(*(terms for _, terms in removals)) if is_ours else None
    await _remove_from_blocks(db, user_id, ordinals, terms)
    await _recount_delta(db, user_id)


async def erase(db: Connection, user_id: str, ordinals: Sequence[int]) -> None:
    """Take records out of the whole index, whatever terms they had: another version may have read other ones."""
    if not ordinals:
        return
    await db.execute(_SQL["take"], {"user_id": user_id, "slots": list(ordinals)})
    await _remove_from_blocks(db, user_id, ordinals, None)
    await _recount_delta(db, user_id)


async def lock_and_merge(db: Connection, user_id: str) -> int:
    """`merge_delta` on its own, waiting for the user's writers."""
    await db.execute(_SQL["lock"], {"user_id": user_id})
    return await merge_delta(db, user_id)


async def merge_delta(db: Connection, user_id: str) -> int:
    """Fold the tail into blocks; returns how many rows it had."""
    keys = {"user_id": user_id}
    tail: list[DeltaRow] = await fetch_rows(db, _SQL["tail_after"], {**keys, "after": -1})
    if not tail:
        return 0
    listed = await fetch_rows(db, _SQL["blocks"], {**keys, "terms": [MERGED_RECORDS_TERM]})
    twice = set(postings.unpack_blocks([block for _, block in listed])[0].tolist()) & {ordinal for ordinal, _ in tail}
    if twice:
        await _remove_from_blocks(db, user_id, twice, None)
    await _extend_blocks(db, user_id, postings.invert_rows(tail))
    await db.execute(_SQL["take_tail"], keys)
    await _recount_delta(db, user_id)
    return len(tail)


async def erase_user(db: Connection, user_id: str) -> None:
    """Take out all words of a user; the next ones are this tokenizer's.

    The generation grows, so that no cache takes a later tail for this one.
    """
    await db.execute(_SQL["take_tail"], {"user_id": user_id})
    await db.execute(_SQL["erase_blocks"], {"user_id": user_id})
    await _recount_delta(db, user_id)
    await db.execute(_SQL["set_tokenizer"], {"user_id": user_id, "tokenizer": tokenizer_fingerprint()})


async def _recount_delta(db: Connection, user_id: str) -> int:
    """Rows left the tail or were rewritten: count it again, and let caches of it go. Returns its rows."""
    given = {"user_id": user_id, "tokenizer": tokenizer_fingerprint()}
    return int((await fetch_rows(db, _SQL["note"], given))[0][0])


async def _remove_from_blocks(
    db: Connection, user_id: str, ordinals: Collection[int], terms: Collection[str] | None
) -> None:
    """Take ordinals out of the blocks of these terms; None: of all."""
    asked: dict[str, Any] = {"user_id": user_id, "terms": sorted(terms or ())}
    found = await fetch_rows(db, _SQL["all_blocks" if terms is None else "blocks_of"], asked)
    rewritten, empty = postings.remove_ordinals((((term, block), held) for term, block, held in found), ordinals)
    await _write_blocks(db, user_id, "rewrite", [(*key, block) for key, block in rewritten])
    if empty:
        await db.execute(_SQL["empty"], {"user_id": user_id, **to_columns(_BLOCK_COLUMNS[:2], empty)})


async def _extend_blocks(
    db: Connection, user_id: str, postings_by_term: Mapping[str, tuple[list[int], list[int]]]
) -> None:
    """Add postings behind those that are there: into the last block of each term, then into new ones."""
    asked = {
        "user_id": user_id,
        "terms": list(postings_by_term),
        "full": postings.POSTINGS_PER_BLOCK * BYTES_PER_POSTING,
    }
    last = {term: (block, size, old) for term, block, size, old in await fetch_rows(db, _SQL["last_blocks"], asked)}
    grown, added = postings.extend_blocks(postings_by_term, last)
    await _write_blocks(db, user_id, "rewrite", grown)
    await _write_blocks(db, user_id, "add", added)


async def _write_blocks(db: Connection, user_id: str, statement: str, blocks: Sequence[tuple[str, int, bytes]]) -> None:
    if blocks:
        await db.execute(_SQL[statement], {"user_id": user_id, **to_columns(_BLOCK_COLUMNS, blocks)})


class PostgresTermIndex:
    """The TermIndex of a database. The tail is searched by the server: to send it whole would take far longer."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database

    async def match(self, terms: Sequence[str], scope: Scope) -> dict[str, Postings]:
        """Postings of each term over the user's records, in the order asked; terms that no record has are left out."""
        wanted = [term for term in dict.fromkeys(terms) if term]
        if not wanted:
            return {}
        return await self._database.read(scope, lambda db: self._match(db, scope.user_id, wanted))

    async def _match(self, db: Connection, user_id: str, terms: Sequence[str]) -> dict[str, Postings]:
        cursor = await db.execute(_SQL["matching"], {"user_id": user_id, "terms": list(terms)}, binary=True)
        blocks: dict[str, list[bytes]] = {}
        recent, tail = {}, _decode_ints(b"")
        for part, term, _, first, second in await cursor.fetchall():
            if part == _PACKED_PART:
                blocks.setdefault(term, []).append(first)
            elif part == _DELTA_PART:
                recent[term] = (
                    _decode_ints(first),
                    np.minimum(_decode_ints(second), postings.MAX_TERM_COUNT).astype(np.uint16),
                )
            else:
                tail = _decode_ints(first or b"")
        return postings.match_postings(terms, blocks, recent, tail)


def _decode_ints(data: bytes) -> postings.Ordinals:
    return np.frombuffer(data, dtype=">i4").astype(np.int32)
