"""The journal out of the store as it is, and back in: positions, slots, times and ids stay what they were."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from agentmem.stores import restoring
from agentmem.stores.restoring import Counts, Piece
from agentmem.stores.sqlite import graph, words
from agentmem.stores.sqlite.connection import Connection
from agentmem.stores.upkeep import RawChange, RawUsage, Reach
from agentmem.text.blocks import load_blocks
from agentmem.text.features import read_words


def _sql(name: str) -> Mapping[str, str]:
    return load_blocks(__package__, name)


def reach(db: Connection, user_id: str) -> Reach:
    """How far the user's journal goes; all zero for a user never seen."""
    row: Any = db.execute(_sql("restore.sql")["reach"], (user_id,)).fetchone()
    return Reach(*row) if row else Reach(0, 0, 0, 0)


def raw_changes(db: Connection, user_id: str, after: int, limit: int) -> list[RawChange]:
    """Up to `limit` changes after a position, with their versions in the order written."""
    sql = _sql("restore.sql")
    rows: Any = db.execute(sql["changes"], (user_id, after, limit)).fetchall()
    if not rows:
        return []
    versions: Any = db.execute(sql["versions"], (user_id, rows[0][0], rows[-1][0]))
    return restoring.assembled(rows, versions)


def raw_usage(db: Connection, user_id: str, after: tuple[str, str], limit: int) -> list[RawUsage]:
    """Up to `limit` usage rows after a (kind, id)."""
    rows: Any = db.execute(_sql("restore.sql")["usage"], (user_id, *after, limit))
    return [RawUsage._make([*row[:6], tuple(json.loads(row[6])), *row[7:]]) for row in rows]


def put_usage(db: Connection, user_id: str, rows: Sequence[RawUsage]) -> None:
    """Put usage rows back as they were, over those that are there."""
    listed = [(user_id, *row[:6], json.dumps(row.conversations, ensure_ascii=False), *row[7:]) for row in rows]
    db.executemany(_sql("restore.sql")["put_usage"], listed)


def settle(db: Connection, user_id: str, wanted: Reach) -> None:
    """Set the user's counters to those of the journal that was put back. Conflict when it ends elsewhere."""
    restoring.check_settled(user_id, reach(db, user_id), wanted)
    db.execute(_sql("restore.sql")["settle"], (user_id, *wanted))
    db.execute(_sql("restore.sql")["look_again"], (user_id,))


def put_back(db: Connection, piece: Piece) -> None:
    """Write a piece of journal, then what is made from it. Conflict when it does not continue the user's journal."""
    if not piece.changes:
        return
    sql, user_id, before = _sql("restore.sql"), piece.user_id, reach(db, piece.user_id)
    piece.check_follows(before)
    db.executemany(sql["put_change"], piece.rows())
    db.executemany(sql["put_version"], piece.versions)
    db.executemany(_sql("append.sql")["drop_record"], [(user_id, slot) for slot in piece.last])
    records = [(unique, user_id, *row) for row, unique in piece.records()]
    db.executemany(_sql("append.sql")["put_record"], records)
    gone, come = piece.words(texts_before(db, user_id, sorted(piece.images), piece.changes[0].seq))
    replace_words(db, user_id, gone, come)
    graph.apply(db, user_id, [image.stored for image in piece.current()], piece.left())
    db.execute(sql["settle"], (user_id, *piece.reached(before)))


def texts_before(db: Connection, user_id: str, slots: Sequence[int], seq: int) -> dict[int, str]:
    """The searchable text of each slot's latest after-image before a position; slots without one left out."""
    rows: Any = db.execute(_sql("append.sql")["last_payloads"], (user_id, json.dumps(list(slots)), seq))
    return restoring.texts(user_id, rows)


def replace_words(
    db: Connection, user_id: str, before: Mapping[int, str], after: Mapping[int, Counts], *, new: bool = False
) -> None:
    """Take the words of the old texts out of the index and put the new counts in; `new` as for `words.write`."""
    removals = [(slot, tuple(read_words(text)[1])) for slot, text in before.items() if text]
    if removals:
        words.remove(db, user_id, removals)
    words.write(db, user_id, sorted(after.items()), new=new)
