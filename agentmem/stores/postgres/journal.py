"""Reading the journal: entries in order, versions of records, and what stood at a position."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from agentmem.core.changes import JournalEntry
from agentmem.core.clock import to_micros
from agentmem.core.record import Key, Record
from agentmem.stores.codec import RecordMetadata, decode
from agentmem.stores.postgres.database import fetch_rows
from agentmem.stores.values import Head
from agentmem.stores.write_plan import build_entries, check_idempotency
from agentmem.text.templates import load_templates

if TYPE_CHECKING:
    from agentmem.stores.postgres.database import Connection

_SQL = load_templates(__package__, "journal.sql")


async def head(db: Connection, user_id: str) -> Head:
    """How far the user's journal reaches; all 0 for a user never seen."""
    embedder, seq, erasures, at, marks = (await fetch_rows(db, _SQL["head"], {"user_id": user_id}))[0]
    return Head(seq or 0, erasures or 0, at or 0, embedder or "", marks or {})


async def seq_at_time(db: Connection, user_id: str, moment: datetime) -> int:
    """The last position recorded at or before a moment; 0 before the first."""
    found = await fetch_rows(db, _SQL["seq_at"], {"user_id": user_id, "at": to_micros(moment)})
    return int(found[0][0]) if found else 0


async def entries_after(db: Connection, user_id: str, after_seq: int, limit: int) -> list[JournalEntry]:
    """Up to `limit` entries after a position, in order."""
    return await _entries(db, user_id, "after", {"user_id": user_id, "after": after_seq, "limit": limit})


async def entries_at(db: Connection, user_id: str, seqs: Iterable[int]) -> list[JournalEntry]:
    """The entries at these positions, in order."""
    return await _entries(db, user_id, "among", {"user_id": user_id, "seqs": list(seqs)})


async def operation(db: Connection, user_id: str, operation_id: str) -> list[JournalEntry]:
    """The entries of one operation, in order."""
    found = await fetch_rows(db, _SQL["operation"], {"user_id": user_id, "operation_id": operation_id})
    return await entries_at(db, user_id, [seq for (seq,) in found])


async def find_applied(db: Connection, user_id: str, request_hashes: Mapping[str, str]) -> dict[str, int]:
    """Where these changes stand in the journal, by change_id; absent ones left out. See `check_idempotency`."""
    return check_idempotency(
        request_hashes,
        await fetch_rows(db, _SQL["applied"], {"user_id": user_id, "change_ids": list(request_hashes)}),
    )


async def versions(db: Connection, user_id: str, key: Key) -> list[Record]:
    """All kept versions of a record, oldest first; departures have none."""
    asked = {"user_id": user_id, "kind": key[0], "id": key[1]}
    return [_record(user_id, row) for row in await fetch_rows(db, _SQL["history"], asked)]


async def snapshot_at(db: Connection, user_id: str, keys: Sequence[Key] | None, through_seq: int) -> dict[Key, Record]:
    """These records (None: all changed after `through_seq`) as they stood at a position; absent ones left out."""
    if keys is None:
        keys = await fetch_rows(db, _SQL["changed_keys"], {"user_id": user_id, "after": through_seq})
    found = await fetch_rows(db, _SQL["states"], {"user_id": user_id, "through": through_seq, **key_columns(keys)})
    return {record.key: record for record in (_record(user_id, row) for row in found)}


async def changed_keys_since(db: Connection, user_id: str, keys: Sequence[Key], after_seq: int) -> dict[Key, int]:
    """Which of these records changed after a position, with the latest `seq`, in the order asked."""
    found = await fetch_rows(db, _SQL["touched_since"], {"user_id": user_id, "after": after_seq, **key_columns(keys)})
    return {(kind, record_id): seq for kind, record_id, seq in found}


def key_columns(keys: Iterable[Key]) -> dict[str, list[str]]:
    """Keys as two lists, as statements take them."""
    listed = list(keys)
    return {"kinds": [kind for kind, _ in listed], "ids": [record_id for _, record_id in listed]}


def _record(user_id: str, row: tuple[str, str, str, str, int, int, str]) -> Record:
    kind, payload, record_id, channel, recorded_at, seq, operation_id = row
    return decode(kind, payload, RecordMetadata(user_id, record_id, channel, recorded_at, seq, operation_id))


async def _entries(db: Connection, user_id: str, selection: str, params: Mapping[str, Any]) -> list[JournalEntry]:
    changes = await db.execute(_SQL[f"changes_{selection}"], params)
    versions = await db.execute(_SQL[f"versions_{selection}"], params)
    return build_entries(user_id, await changes.fetchall(), await versions.fetchall())
