"""Reading the journal: entries in order, versions of records, and what was current at a position."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from agentmem.core.changes import JournalEntry
from agentmem.core.record import Key, Record
from agentmem.stores.codec import RecordMetadata, decode
from agentmem.stores.sql.connection import Keys, Row, SqlConnection
from agentmem.stores.values import Head
from agentmem.stores.write_plan import build_entries, check_idempotency


async def head(db: SqlConnection, user_id: str, after_seq: int = 0) -> Head:
    """How far the user's journal reaches; all 0 for a user never seen."""
    ((embedder, seq, erasures, at, watermarks, *operations),) = await db.rows(
        "journal.head", user_id=user_id, after=after_seq
    )
    last, after = (operation_id or "" for operation_id in operations)
    return Head(seq or 0, erasures or 0, at or 0, embedder or "", watermarks or {}, last, after)


async def entries_after(db: SqlConnection, user_id: str, after_seq: int, limit: int) -> list[JournalEntry]:
    """Up to `limit` entries after a position, in order."""
    return await _entries(db, user_id, "after", after=after_seq, limit=limit)


async def entries_at(db: SqlConnection, user_id: str, seqs: Iterable[int]) -> list[JournalEntry]:
    """The entries at these positions, in order."""
    listed = list(seqs)
    return await _entries(db, user_id, "among", seqs=listed) if listed else []


async def _entries(db: SqlConnection, user_id: str, selection: str, **values: Any) -> list[JournalEntry]:
    statements = f"journal.changes_{selection}", f"journal.versions_{selection}"
    changes, versions = await db.rows_of(*statements, user_id=user_id, **values)
    return build_entries(user_id, changes, versions)


async def operation(db: SqlConnection, user_id: str, operation_id: str) -> list[JournalEntry]:
    """The entries of one operation, in order."""
    found = await db.rows("journal.operation", user_id=user_id, operation_id=operation_id)
    return await entries_at(db, user_id, [seq for (seq,) in found])


async def find_applied(db: SqlConnection, user_id: str, request_hashes: Mapping[str, str]) -> dict[str, int]:
    """The positions of these changes in the journal, by change_id; absent ones left out.

    `request_hashes` maps change_ids to payload fingerprints. Raises Conflict when one was applied with another payload;
    erased changes have none to compare.
    """
    found = await db.rows("journal.applied", user_id=user_id, change_ids=list(request_hashes))
    return check_idempotency(request_hashes, found)


async def versions(db: SqlConnection, user_id: str, key: Key) -> list[Record]:
    """All kept versions of a record, oldest first; departures have none."""
    found = await db.rows("journal.history", user_id=user_id, kind=key[0], id=key[1])
    return [_record(user_id, row) for row in found]


async def snapshot_at(
    db: SqlConnection, user_id: str, keys: Sequence[Key] | None, through_seq: int
) -> dict[Key, Record]:
    """These records (None: all changed after `through_seq`) as they were at a position; absent ones left out."""
    if keys is None:
        changed = await db.rows("journal.changed_keys", user_id=user_id, after=through_seq)
        keys = [(kind, record_id) for kind, record_id in changed]
    found = await db.rows("journal.states", user_id=user_id, through=through_seq, keys=Keys(keys))
    return {record.key: record for record in (_record(user_id, row) for row in found)}


async def changed_keys_since(db: SqlConnection, user_id: str, keys: Sequence[Key], after_seq: int) -> dict[Key, int]:
    """Which of these records changed after a position, with the latest `seq`, in the order asked."""
    found = await db.rows("journal.changed_since", user_id=user_id, after=after_seq, keys=Keys(keys))
    return {(kind, record_id): seq for kind, record_id, seq in found}


def _record(user_id: str, row: Row) -> Record:
    kind, payload, record_id, channel, recorded_at, seq, operation_id = row
    return decode(kind, payload, RecordMetadata(user_id, record_id, channel, recorded_at, seq, operation_id))
