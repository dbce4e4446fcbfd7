"""Reading the journal: entries in order, versions of records, and what stood at a position."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from agentmem.model.changes import JournalEntry
from agentmem.model.clock import micros
from agentmem.model.records import Key, Record
from agentmem.stores.entries import compared, entries
from agentmem.stores.payload import Stamp, decode
from agentmem.stores.postgres.connection import rows
from agentmem.stores.values import Head
from agentmem.text.blocks import load_blocks

if TYPE_CHECKING:
    from agentmem.stores.postgres.connection import Connection


def _sql() -> Mapping[str, str]:
    return load_blocks(__package__, "journal.sql")


async def head(db: Connection, user_id: str) -> Head:
    """How far the user's journal reaches; all 0 for a user never seen."""
    embedder, seq, erasures, at, marks = (await rows(db, _sql()["head"], {"user_id": user_id}))[0]
    return Head(seq or 0, erasures or 0, at or 0, embedder or "", marks or {})


async def seq_at(db: Connection, user_id: str, moment: datetime) -> int:
    """The last position recorded at or before a moment; 0 before the first."""
    found = await rows(db, _sql()["seq_at"], {"user_id": user_id, "at": micros(moment)})
    return int(found[0][0]) if found else 0


async def entries_after(db: Connection, user_id: str, after: int, limit: int) -> list[JournalEntry]:
    """Up to `limit` entries after a position, in order."""
    return await _entries(db, user_id, "after", {"user_id": user_id, "after": after, "limit": limit})


async def entries_among(db: Connection, user_id: str, seqs: Iterable[int]) -> list[JournalEntry]:
    """The entries at these positions, in order."""
    return await _entries(db, user_id, "among", {"user_id": user_id, "seqs": list(seqs)})


async def operation(db: Connection, user_id: str, operation_id: str) -> list[JournalEntry]:
    """The entries of one operation, in order."""
    found = await rows(db, _sql()["operation"], {"user_id": user_id, "operation_id": operation_id})
    return await entries_among(db, user_id, [seq for (seq,) in found])


async def applied(db: Connection, user_id: str, wanted: Mapping[str, str]) -> dict[str, int]:
    """Where these changes stand in the journal, by change_id; absent ones left out. See `compared`."""
    return compared(wanted, await rows(db, _sql()["applied"], {"user_id": user_id, "change_ids": list(wanted)}))


async def versions(db: Connection, user_id: str, key: Key) -> list[Record]:
    """All kept versions of a record, oldest first; departures have none."""
    asked = {"user_id": user_id, "kind": key[0], "id": key[1]}
    return [_record(user_id, row) for row in await rows(db, _sql()["history"], asked)]


async def states(db: Connection, user_id: str, keys: Sequence[Key] | None, through: int) -> dict[Key, Record]:
    """These records (None: all changed after `through`) as they stood at a position; absent ones left out."""
    if keys is None:
        keys = await rows(db, _sql()["changed_keys"], {"user_id": user_id, "after": through})
    found = await rows(db, _sql()["states"], {"user_id": user_id, "through": through, **columns(keys)})
    return {record.key: record for record in (_record(user_id, row) for row in found)}


async def touched_since(db: Connection, user_id: str, keys: Sequence[Key], after: int) -> dict[Key, int]:
    """Which of these records changed after a position, with the latest `seq`, in the order asked."""
    found = await rows(db, _sql()["touched_since"], {"user_id": user_id, "after": after, **columns(keys)})
    return {(kind, record_id): seq for kind, record_id, seq in found}


def columns(keys: Iterable[Key]) -> dict[str, list[str]]:
    """Keys as two lists, as statements take them."""
    listed = list(keys)
    return {"kinds": [kind for kind, _ in listed], "ids": [record_id for _, record_id in listed]}


def _record(user_id: str, row: tuple[str, str, str, str, int, int, str]) -> Record:
    kind, payload, record_id, channel, recorded_at, seq, operation_id = row
    return decode(kind, payload, Stamp(user_id, record_id, channel, recorded_at, seq, operation_id))


async def _entries(db: Connection, user_id: str, which: str, asked: Mapping[str, Any]) -> list[JournalEntry]:
    changes = await db.execute(_sql()[f"changes_{which}"], asked)
    versions = await db.execute(_sql()[f"versions_{which}"], asked)
    return entries(user_id, await changes.fetchall(), await versions.fetchall())
