"""The journal out of the database as it is, and back in: positions, ordinals, times and ids stay what they were."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from agentmem.errors import InvalidRecord
from agentmem.stores import raw_import
from agentmem.stores.admin import JournalCounters, RawChange, RawUsage
from agentmem.stores.postgres.columns import render_json, sanitize_text, to_columns
from agentmem.stores.postgres.database import fetch_rows
from agentmem.stores.postgres.write import read_texts_before, replace_terms, write_journal, write_records
from agentmem.stores.raw_import import JournalSegment
from agentmem.text.templates import load_templates

if TYPE_CHECKING:
    from agentmem.stores.postgres.database import Connection

_SQL = load_templates(__package__, "restore.sql")


async def journal_counters(db: Connection, user_id: str) -> JournalCounters:
    """How far the user's journal goes; all zero for a user never seen."""
    found = await fetch_rows(db, _SQL["reach"], {"user_id": user_id})
    return JournalCounters(*found[0]) if found else JournalCounters(0, 0, 0, 0)


async def lock_user(db: Connection, user_id: str) -> JournalCounters | None:
    """Take the user's lock; how far the journal goes then, None for a user never seen."""
    found = await fetch_rows(db, _SQL["hold"], {"user_id": user_id})
    return JournalCounters(*found[0]) if found else None


async def _lock_or_add_user(db: Connection, user_id: str) -> JournalCounters:
    """`lock_user`, with a user never seen added."""
    await db.execute(load_templates(__package__, "write.sql")["add_user"], {"user_id": user_id})
    return await lock_user(db, user_id) or JournalCounters(0, 0, 0, 0)


async def raw_changes(db: Connection, user_id: str, after_seq: int, limit: int) -> list[RawChange]:
    """Up to `limit` changes after a position, with their versions in the order written."""
    asked = {"user_id": user_id, "after": after_seq, "limit": limit}
    changes, versions = await db.execute(_SQL["changes"], asked), await db.execute(_SQL["versions"], asked)
    return raw_import.build_raw_changes(await changes.fetchall(), await versions.fetchall())


async def raw_usage(db: Connection, user_id: str, after: tuple[str, str], limit: int) -> list[RawUsage]:
    """Up to `limit` usage rows after a (kind, id)."""
    asked = {"user_id": user_id, "kind": after[0], "id": after[1], "limit": limit}
    return [RawUsage._make([*row[:6], tuple(row[6]), *row[7:]]) for row in await fetch_rows(db, _SQL["usage"], asked)]


async def import_usage(db: Connection, user_id: str, usage_rows: Sequence[RawUsage]) -> None:
    """Put usage rows back as they were, over those that are there; of two for one record the last counts."""
    last = {row[:2]: (*row[:6], render_json(row.conversations), *row[7:]) for row in usage_rows}
    if last:
        await db.execute(_SQL["put_usage"], {"user_id": user_id, **to_columns(RawUsage._fields, last.values())})


async def set_counters(db: Connection, user_id: str, counters: JournalCounters) -> None:
    """Set the user's counters to those of the journal that was put back. Conflict when it ends elsewhere."""
    raw_import.check_counters(user_id, await _lock_or_add_user(db, user_id), counters)
    await db.execute(_SQL["settle"], {"user_id": user_id, **counters._asdict()})
    await db.execute(_SQL["look_again"], {"user_id": user_id})


def check_text(changes: Sequence[RawChange]) -> None:
    """Raise InvalidRecord for ids and names that a text column cannot hold."""
    for change in changes:
        named = [("change_id", change.change_id), ("payload", change.payload)]
        for version in change.versions:
            named += [("kind", version.kind), ("id", version.id), ("channel", version.channel)]
        for name, text in named:
            if sanitize_text(text) != text:
                raise InvalidRecord(f"{name} of change {change.seq} holds what a Postgres cannot keep", field=name)


async def import_segment(db: Connection, segment: JournalSegment) -> None:
    """Write a piece of journal, then what is made from it. Conflict when it does not continue the user's journal."""
    user_id, before = segment.user_id, await _lock_or_add_user(db, segment.user_id)
    segment.check_continues(before)
    await write_journal(db, user_id, segment.change_rows(), segment.version_rows, segment.counters_after(before))
    await write_records(db, user_id, sorted(segment.final_by_ordinal), segment.record_rows())
    gone, come = segment.diff_terms(
        await read_texts_before(db, user_id, sorted(segment.images_by_ordinal), segment.changes[0].seq)
    )
    await replace_terms(db, user_id, gone, come)
