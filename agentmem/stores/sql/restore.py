"""The journal out of the store as it is, and back in: positions, ordinals, times and ids stay what they were."""

from __future__ import annotations

import json
from collections.abc import Sequence

from agentmem.stores import raw_import
from agentmem.stores.admin import JournalCounters, RawChange, RawUsage
from agentmem.stores.codec import render_json
from agentmem.stores.raw_import import JournalSegment
from agentmem.stores.sql import graph, terms
from agentmem.stores.sql.connection import SqlConnection
from agentmem.stores.sql.write import JournalRows, RowWriter, read_texts_before

NO_JOURNAL = JournalCounters(0, 0, 0, 0)


async def journal_counters(db: SqlConnection, user_id: str) -> JournalCounters:
    """How far the user's journal goes; all zero for a user never seen."""
    found = await db.rows("restore.counters", user_id=user_id)
    return JournalCounters(*found[0]) if found else NO_JOURNAL


async def _lock_or_add_user(db: SqlConnection, user_id: str) -> JournalCounters:
    await db.run("restore.add_user", user_id=user_id)
    await db.lock_user(user_id)
    return await journal_counters(db, user_id)


async def raw_changes(db: SqlConnection, user_id: str, after_seq: int, limit: int) -> list[RawChange]:
    """Up to `limit` changes after a position, with their versions in the order written."""
    statements = "restore.changes", "restore.versions"
    changes, versions = await db.rows_of(*statements, user_id=user_id, after=after_seq, limit=limit)
    return raw_import.build_raw_changes(changes, versions)


async def raw_usage(db: SqlConnection, user_id: str, after: tuple[str, str], limit: int) -> list[RawUsage]:
    """Up to `limit` usage rows after a (kind, id)."""
    found = await db.rows("restore.usage", user_id=user_id, kind=after[0], id=after[1], limit=limit)
    return [RawUsage._make([*row[:6], _decode_conversations(row[6]), *row[7:]]) for row in found]


def _decode_conversations(value: str | list[str]) -> tuple[str, ...]:
    return tuple(json.loads(value) if isinstance(value, str) else value)


async def import_usage(db: SqlConnection, user_id: str, rows: Sequence[RawUsage]) -> None:
    """Put usage rows back as they were, over those that are there; of two for one record the last counts."""
    last = {row[:2]: {**row._asdict(), "conversations": render_json(row.conversations)} for row in rows}
    await db.run_each("restore.put_usage", list(last.values()), user_id=user_id)


async def set_counters(db: SqlConnection, user_id: str, counters: JournalCounters) -> None:
    """Set the user's counters to those of the journal that was put back. Conflict when it ends elsewhere."""
    raw_import.check_counters(user_id, await _lock_or_add_user(db, user_id), counters)
    await db.run("restore.raise_counters", user_id=user_id, **counters._asdict())
    await db.run("restore.make_due", user_id=user_id)


async def import_segment(db: SqlConnection, segment: JournalSegment, rows: RowWriter) -> None:
    """Write a piece of journal, then what is made from it. Conflict when it does not continue the user's journal."""
    user_id, before = segment.user_id, await _lock_or_add_user(db, segment.user_id)
    segment.check_continues(before)
    journal = JournalRows(segment.change_rows(), segment.version_rows, segment.counters_after(before))
    await rows.write_journal(db, user_id, journal)
    await rows.write_records(db, user_id, sorted(segment.final_by_ordinal), segment.record_rows())
    first, ordinals = segment.changes[0].seq, sorted(segment.images_by_ordinal)
    gone, come = segment.diff_terms(await read_texts_before(db, user_id, ordinals, first))
    await terms.replace(db, user_id, gone, come)
    current = [image.stored for image in segment.current_images()]
    await graph.update_edges(db, user_id, current, segment.removed_records())
