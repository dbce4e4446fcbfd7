"""Reading the journal: entries in order, versions of records, and what stood at a position."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from agentmem.core.changes import JournalEntry
from agentmem.core.clock import is_wrong_time, to_micros
from agentmem.core.record import Key, Record
from agentmem.stores.codec import RecordMetadata, decode
from agentmem.stores.sqlite.database import Connection
from agentmem.stores.values import Head
from agentmem.stores.write_plan import build_entries, check_idempotency
from agentmem.text.templates import load_templates

_SQL = load_templates(__package__, "journal.sql")


def head(db: Connection, user_id: str) -> Head:
    """How far the user's journal reaches; all 0 for a user never seen."""
    embedder, seq, erasures, at = db.execute(_SQL["head"], (user_id,)).get
    return Head(seq or 0, erasures or 0, at or 0, embedder or "")


def seq_at_time(db: Connection, user_id: str, moment: datetime) -> int:
    """The last position recorded at or before a moment; 0 before the first."""
    through, found, above = to_micros(moment), 0, head(db, user_id).seq + 1
    while above - found > 1:  # times grow with positions, but for wrong ones: halve what is between
        middle = (found + above) // 2
        row = db.execute(_SQL["seq_at"], (user_id, middle)).fetchone()
        if row is None or row[1] <= through or is_wrong_time(row[1], through):
            found = middle
        else:
            above = row[0]
    return int(db.execute(_SQL["last_seq_until"], (user_id, found, through)).get or 0)


def entries_after(db: Connection, user_id: str, after_seq: int, limit: int) -> list[JournalEntry]:
    """Up to `limit` entries after a position, in order."""
    return _entries(db, user_id, list(db.execute(_SQL["changes_after"], (user_id, after_seq, limit))))


def entries_at(db: Connection, user_id: str, seqs: Iterable[int]) -> list[JournalEntry]:
    """The entries at these positions, in order."""
    return _entries(db, user_id, list(db.execute(_SQL["changes_among"], (user_id, json.dumps(list(seqs))))))


def operation(db: Connection, user_id: str, operation_id: str) -> list[JournalEntry]:
    """The entries of one operation, in order."""
    seqs = [seq for (seq,) in db.execute(_SQL["operation"], (user_id, operation_id))]
    return entries_at(db, user_id, seqs)


def find_applied(db: Connection, user_id: str, request_hashes: Mapping[str, str]) -> dict[str, int]:
    """Where these changes stand in the journal, by change_id; absent ones left out.

    `request_hashes` maps change_ids to payload fingerprints. Raises Conflict when one was applied with another payload;
    what was erased since has none to compare.
    """
    statement = _SQL["applied"]
    rows = ((change_id, db.execute(statement, (user_id, change_id)).fetchone()) for change_id in request_hashes)
    return check_idempotency(request_hashes, ((change_id, *row) for change_id, row in rows if row is not None))


def versions(db: Connection, user_id: str, key: Key) -> list[Record]:
    """All kept versions of a record, oldest first; departures have none."""
    return [_record(user_id, row) for row in db.execute(_SQL["history"], (user_id, *key))]


def snapshot_at(db: Connection, user_id: str, keys: Sequence[Key] | None, through_seq: int) -> dict[Key, Record]:
    """These records (None: all changed after `through_seq`) as they stood at a position; absent ones left out."""
    if keys is None:
        keys = list(db.execute(_SQL["changed_keys"], (user_id, through_seq)))
    rows = db.execute(_SQL["states"], (user_id, json.dumps(list(keys)), through_seq))
    return {record.key: record for record in (_record(user_id, row) for row in rows)}


def changed_keys_since(db: Connection, user_id: str, keys: Sequence[Key], after_seq: int) -> dict[Key, int]:
    """Which of these records changed after a position, with the latest `seq`."""
    rows = db.execute(_SQL["touched_since"], (user_id, json.dumps(list(keys)), after_seq))
    return {(kind, record_id): seq for kind, record_id, seq in rows}


def _record(user_id: str, row: tuple[str, str, str, str, int, int, str]) -> Record:
    kind, payload, record_id, channel, recorded_at, seq, operation_id = row
    return decode(kind, payload, RecordMetadata(user_id, record_id, channel, recorded_at, seq, operation_id))


def _entries(
    db: Connection, user_id: str, changes: Sequence[tuple[int, str, str, str, str, str, int]]
) -> list[JournalEntry]:
    seqs = json.dumps([row[0] for row in changes])
    return build_entries(user_id, changes, db.execute(_SQL["versions_among"], (user_id, seqs)))
