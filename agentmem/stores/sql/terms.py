"""The user's own word index: a delta of a row per recent record, merged from time to time into packed blocks per term.

The functions run inside the caller's transaction and under the user's lock.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence

from agentmem.stores import postings
from agentmem.stores.postings import BYTES_PER_POSTING, MERGED_RECORDS_TERM, DeltaRow
from agentmem.stores.sql.connection import SqlConnection
from agentmem.text.tokenizer import extract_features_and_terms, tokenizer_fingerprint

_encode_json = json.JSONEncoder(ensure_ascii=False).encode


async def write(db: SqlConnection, user_id: str, rows: Sequence[DeltaRow], *, delta_size: int | None = None) -> None:
    """Index records by their term counts. The words that a record had before are replaced.

    `delta_size` is how many rows the delta has, and says that all of these ordinals are higher than any used before;
    both are looked up without it. Words that are in blocks should be taken out first (`remove`, which knows the terms);
    the index is right without that too, but merging then looks through all of the user's blocks.
    """
    if not rows:
        return
    given = [{"ordinal": ordinal, "terms": _encode_json(dict(counts))} for ordinal, counts in rows]
    if delta_size is None:
        await db.run_each("terms.put", given, user_id=user_id)
        delta_size = await _recount_delta(db, user_id)
    else:
        await db.run_each("terms.put_new", given, user_id=user_id, tokenizer=tokenizer_fingerprint())
        delta_size += len(rows)
    if postings.needs_merge(delta_size, len(rows)):
        await merge_delta(db, user_id)


async def remove(db: SqlConnection, user_id: str, rows: Sequence[tuple[int, Collection[str]]]) -> None:
    """Take records out of the index, given the terms that each may have by this tokenizer.

    Words that another tokenizer read are looked for in all blocks.
    """
    if not rows:
        return
    ordinals = sorted({ordinal for ordinal, _ in rows})
    read_by, taken = await db.rows_of("terms.tokenizer", "terms.take", user_id=user_id, ordinals=ordinals)
    is_ours = read_by == [(tokenizer_fingerprint(),)]
    terms = {MERGED_RECORDS_TERM}.union(*(terms for _, terms in rows)) if is_ours else None
    await _remove_from_blocks(db, user_id, ordinals, terms)
    if taken:
        await _recount_delta(db, user_id)


async def replace(
    db: SqlConnection,
    user_id: str,
    old_texts: Mapping[int, str],
    new_counts: Mapping[int, Mapping[str, int]],
    *,
    delta_size: int | None = None,
) -> None:
    """Take the words of the old texts out of the index and put the new counts in; `delta_size` as for `write`."""
    removals = [(ordinal, tuple(extract_features_and_terms(text)[1])) for ordinal, text in old_texts.items() if text]
    await remove(db, user_id, removals)
    await write(db, user_id, sorted(new_counts.items()), delta_size=delta_size)


async def erase(db: SqlConnection, user_id: str, ordinals: Sequence[int]) -> None:
    """Take records out of the whole index, whatever terms they had: another version may have read other ones."""
    if ordinals:
        await db.rows("terms.take", user_id=user_id, ordinals=list(ordinals))
        await _remove_from_blocks(db, user_id, ordinals, None)
        await _recount_delta(db, user_id)


async def lock_and_merge(db: SqlConnection, user_id: str) -> int:
    """`merge_delta` on its own, waiting for the user's writers."""
    await db.lock_user(user_id)
    return await merge_delta(db, user_id)


async def merge_delta(db: SqlConnection, user_id: str) -> int:
    """Merge the delta into blocks; returns how many rows it had."""
    delta = await read_delta_after(db, user_id, -1)
    if not delta:
        return 0
    listed = await db.rows("terms.blocks", user_id=user_id, terms=[MERGED_RECORDS_TERM])
    twice = set(postings.unpack_blocks([block for _, block in listed])[0].tolist()) & {ordinal for ordinal, _ in delta}
    if twice:
        await _remove_from_blocks(db, user_id, twice, None)
    await _extend_blocks(db, user_id, postings.invert_rows(delta))
    await db.run("terms.take_delta", user_id=user_id)
    await _recount_delta(db, user_id)
    return len(delta)


async def erase_user(db: SqlConnection, user_id: str) -> None:
    """Take out all words of a user; the next ones are this tokenizer's.

    The generation grows, so that no cache takes a later delta for this one.
    """
    await db.run("terms.take_delta", user_id=user_id)
    await db.run("terms.erase_blocks", user_id=user_id)
    await _recount_delta(db, user_id)
    await db.run("terms.set_tokenizer", user_id=user_id, tokenizer=tokenizer_fingerprint())


async def read_delta_after(db: SqlConnection, user_id: str, ordinal: int) -> list[DeltaRow]:
    """The rows of the delta behind an ordinal, in order."""
    found = await db.rows("terms.delta_after", user_id=user_id, after=ordinal)
    return [(ordinal, json.loads(terms) if isinstance(terms, str) else terms) for ordinal, terms in found]


async def _recount_delta(db: SqlConnection, user_id: str) -> int:
    """Rows left the delta or were rewritten: count it again, and let caches of it go. Returns its rows."""
    return int(await db.value("terms.recount", user_id=user_id, tokenizer=tokenizer_fingerprint()))


async def _remove_from_blocks(
    db: SqlConnection, user_id: str, ordinals: Collection[int], terms: Collection[str] | None
) -> None:
    """Take ordinals out of the blocks of these terms; None: of all."""
    if terms is None:
        found = await db.rows("terms.all_blocks", user_id=user_id)
    else:
        found = await db.rows("terms.blocks_of", user_id=user_id, terms=sorted(terms))
    rewritten, empty = postings.remove_ordinals((((term, block), held) for term, block, held in found), ordinals)
    await _write_blocks(db, user_id, "terms.rewrite", [(*key, block) for key, block in rewritten])
    await db.run_each("terms.empty", [{"term": term, "block": block} for term, block in empty], user_id=user_id)


async def _extend_blocks(
    db: SqlConnection, user_id: str, postings_by_term: Mapping[str, tuple[list[int], list[int]]]
) -> None:
    """Add postings behind those that are there: into the last block of each term, then into new ones."""
    full = postings.POSTINGS_PER_BLOCK * BYTES_PER_POSTING
    found = await db.rows("terms.last_blocks", user_id=user_id, terms=list(postings_by_term), full=full)
    last = {term: (block, size, old) for term, block, size, old in found}
    grown, added = postings.extend_blocks(postings_by_term, last)
    await _write_blocks(db, user_id, "terms.rewrite", grown)
    await _write_blocks(db, user_id, "terms.add", added)


async def _write_blocks(
    db: SqlConnection, user_id: str, statement: str, blocks: Sequence[tuple[str, int, bytes]]
) -> None:
    rows = [{"term": term, "block": block, "postings": held} for term, block, held in blocks]
    await db.run_each(statement, rows, user_id=user_id)
