"""The journal out of the store as it is, and back in: positions, ordinals, times and ids stay what they were."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from agentmem.stores import raw_import
from agentmem.stores.admin import JournalCounters, RawChange, RawUsage
from agentmem.stores.raw_import import JournalSegment, TermCounts
from agentmem.stores.sqlite import graph, terms
from agentmem.stores.sqlite.database import Connection
from agentmem.text.templates import load_templates
from agentmem.text.tokenizer import extract_features_and_terms

_SQL = load_templates(__package__, "restore.sql")
_WRITE_SQL = load_templates(__package__, "write.sql")


def journal_counters(db: Connection, user_id: str) -> JournalCounters:
    """How far the user's journal goes; all zero for a user never seen."""
    row: Any = db.execute(_SQL["reach"], (user_id,)).fetchone()
    return JournalCounters(*row) if row else JournalCounters(0, 0, 0, 0)


def raw_changes(db: Connection, user_id: str, after_seq: int, limit: int) -> list[RawChange]:
    """Up to `limit` changes after a position, with their versions in the order written."""
    sql = _SQL
    rows: Any = db.execute(sql["changes"], (user_id, after_seq, limit)).fetchall()
    if not rows:
        return []
    versions: Any = db.execute(sql["versions"], (user_id, rows[0][0], rows[-1][0]))
    return raw_import.build_raw_changes(rows, versions)


def raw_usage(db: Connection, user_id: str, after: tuple[str, str], limit: int) -> list[RawUsage]:
    """Up to `limit` usage rows after a (kind, id)."""
    rows: Any = db.execute(_SQL["usage"], (user_id, *after, limit))
    return [RawUsage._make([*row[:6], tuple(json.loads(row[6])), *row[7:]]) for row in rows]


def import_usage(db: Connection, user_id: str, rows: Sequence[RawUsage]) -> None:
    """Put usage rows back as they were, over those that are there."""
    listed = [(user_id, *row[:6], json.dumps(row.conversations, ensure_ascii=False), *row[7:]) for row in rows]
    db.executemany(_SQL["put_usage"], listed)


def set_counters(db: Connection, user_id: str, counters: JournalCounters) -> None:
    """Set the user's counters to those of the journal that was put back. Conflict when it ends elsewhere."""
    raw_import.check_counters(user_id, journal_counters(db, user_id), counters)
    db.execute(_SQL["settle"], (user_id, *counters))
    db.execute(_SQL["look_again"], (user_id,))


def import_segment(db: Connection, segment: JournalSegment) -> None:
    """Write a piece of journal, then what is made from it. Conflict when it does not continue the user's journal."""
    if not segment.changes:
        return
    sql, user_id, before = _SQL, segment.user_id, journal_counters(db, segment.user_id)
    segment.check_continues(before)
    db.executemany(sql["put_change"], segment.change_rows())
    db.executemany(sql["put_version"], segment.version_rows)
    db.executemany(_WRITE_SQL["drop_record"], [(user_id, ordinal) for ordinal in segment.final_by_ordinal])
    records = [(unique, user_id, *row) for row, unique in segment.record_rows()]
    db.executemany(_WRITE_SQL["put_record"], records)
    gone, come = segment.diff_terms(
        read_texts_before(db, user_id, sorted(segment.images_by_ordinal), segment.changes[0].seq)
    )
    replace_terms(db, user_id, gone, come)
    graph.apply(db, user_id, [image.stored for image in segment.current_images()], segment.removed_records())
    db.execute(sql["settle"], (user_id, *segment.counters_after(before)))


def read_texts_before(db: Connection, user_id: str, ordinals: Sequence[int], seq: int) -> dict[int, str]:
    """The searchable text of each ordinal's latest after-image before a position; ordinals without one left out."""
    rows: Any = db.execute(_WRITE_SQL["last_payloads"], (user_id, json.dumps(list(ordinals)), seq))
    return raw_import.decode_texts(user_id, rows)


def replace_terms(
    db: Connection,
    user_id: str,
    old_texts: Mapping[int, str],
    new_counts: Mapping[int, TermCounts],
    *,
    all_new: bool = False,
) -> None:
    """Take the words of the old texts out of the index and put the new counts in; `all_new` as for `words.write`."""
    removals = [(ordinal, tuple(extract_features_and_terms(text)[1])) for ordinal, text in old_texts.items() if text]
    if removals:
        terms.remove(db, user_id, removals)
    terms.write(db, user_id, sorted(new_counts.items()), all_new=all_new)
