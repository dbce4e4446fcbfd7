"""The journal out of the store as it is, and back in: positions, slots, times and ids stay what they were."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentmem.errors import Conflict, InvalidRecord, SchemaMismatch
from agentmem.model.changes import Gone, Stored
from agentmem.stores.outlines import NO_FEATURES, outline_row
from agentmem.stores.payload import FORMAT, Stamp, decode, encode
from agentmem.stores.sqlite import graph, words
from agentmem.stores.sqlite.connection import Connection
from agentmem.stores.upkeep import RawChange, RawUsage, RawVersion, Reach
from agentmem.text.blocks import load_blocks
from agentmem.text.features import Features, read_words


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
    versions: dict[int, list[RawVersion]] = {row[0]: [] for row in rows}
    found: Any = db.execute(sql["versions"], (user_id, rows[0][0], rows[-1][0]))
    for seq, *fields, erased in found:
        versions[seq].append(RawVersion._make([*fields, bool(erased)]))
    return [RawChange._make([*row, tuple(versions[row[0]])]) for row in rows]


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
    if (found := reach(db, user_id).head) != wanted.head:
        raise Conflict(f"the journal of {user_id} ends at {found}, not at {wanted.head}; import the whole file again")
    db.execute(_sql("restore.sql")["settle"], (user_id, *wanted))


@dataclass(frozen=True, slots=True)
class _Image:
    """An after-image as it will be stored, with what was read of its text."""

    stored: Stored
    text: str
    features: Features
    counts: Mapping[str, int]


class Restore:
    """Puts a piece of journal back: `prepare` before the file is locked, `apply` inside the transaction."""

    def __init__(self, user_id: str, changes: Sequence[RawChange]) -> None:
        self.user_id = user_id
        self.changes = changes
        self._rows: list[tuple[object, ...]] = []
        self._last: dict[int, _Image | Gone] = {}  # what each slot holds in the end
        self._images: dict[int, _Image] = {}  # the last after-image of each slot, whose words stay

    def prepare(self) -> None:
        """Read every after-image; InvalidRecord for one that does not fit, Conflict where positions have gaps."""
        for before, change in enumerate(self.changes, self.changes[0].seq if self.changes else 0):
            if change.seq != before:
                raise Conflict(f"the journal has a gap: position {before} is missing before {change.seq}")
            for version in change.versions:
                self._take(change, version)

    def _take(self, change: RawChange, version: RawVersion) -> None:
        slot, kind, record_id, channel, recorded_at, form, record, erased = version
        if form > FORMAT:
            raise InvalidRecord(f"{kind} {record_id!r} has format {form}, this version knows {FORMAT}", field="format")
        text = None
        if record is None:
            self._last[slot] = Gone(slot, kind, record_id, erased)
        else:
            stamp = Stamp(self.user_id, record_id, channel, recorded_at, change.seq, change.operation_id)
            try:
                full = decode(kind, record, stamp)
            except SchemaMismatch as error:
                raise InvalidRecord(str(error), field="record") from error
            text = encode(full)
            features, counts = read_words(full.searchable()) if full.searchable() else (NO_FEATURES, {})
            self._last[slot] = self._images[slot] = _Image(Stored(slot, full), full.searchable(), features, counts)
        row = (self.user_id, change.seq, slot, kind, record_id, channel, recorded_at, form, text, int(erased))
        self._rows.append(row)

    def apply(self, db: Connection) -> None:
        """Write the journal, then what is made from it. Conflict when it does not continue the user's journal."""
        if not self.changes:
            return
        sql, user_id, before = _sql("restore.sql"), self.user_id, reach(db, self.user_id)
        if before.head + 1 != self.changes[0].seq:
            first = self.changes[0].seq
            raise Conflict(f"the journal of {user_id} ends at {before.head}; position {first} does not follow")
        db.executemany(sql["put_change"], [(user_id, *change[:8]) for change in self.changes])
        db.executemany(sql["put_version"], self._rows)
        self._put_records(db)
        self._put_words(db)
        left = [item for item in self._last.values() if isinstance(item, Gone)]
        graph.apply(db, user_id, [image.stored for image in self._current()], left)
        last, slots = self.changes[-1], max((slot + 1 for slot in self._last), default=0)
        db.execute(sql["settle"], (user_id, last.seq, slots, before.erasures, last.at))

    def _current(self) -> list[_Image]:
        return [item for item in self._last.values() if isinstance(item, _Image)]

    def _put_records(self, db: Connection) -> None:
        sql = _sql("append.sql")
        db.executemany(sql["drop_record"], [(self.user_id, slot) for slot in self._last])
        rows = []
        for image in self._current():
            row = outline_row(image.stored.slot, image.stored.record, image.features)
            rows.append((image.stored.record.unique(), self.user_id, *row))
        db.executemany(sql["put_record"], rows)

    def _put_words(self, db: Connection) -> None:
        before = texts_before(db, self.user_id, sorted(self._images), self.changes[0].seq)
        changed = {slot: image for slot, image in self._images.items() if image.text != before.get(slot, "")}
        replace_words(db, self.user_id, {slot: before.get(slot, "") for slot in changed}, {
            slot: image.counts for slot, image in changed.items() if image.text
        })  # fmt: skip


def texts_before(db: Connection, user_id: str, slots: Sequence[int], seq: int) -> dict[int, str]:
    """The searchable text of each slot's latest after-image before a position; slots without one left out."""
    rows: Any = db.execute(_sql("append.sql")["last_payloads"], (user_id, json.dumps(list(slots)), seq))
    return {
        slot: decode(kind, payload, Stamp._make([user_id, *stamp, ""])).searchable()
        for slot, kind, payload, *stamp in rows
    }


def replace_words(
    db: Connection, user_id: str, before: Mapping[int, str], after: Mapping[int, Mapping[str, int]], *,
    new: bool = False,
) -> None:  # fmt: skip
    """Take the words of the old texts out of the index and put the new counts in; `new` as for `words.write`."""
    removals = [(slot, tuple(read_words(text)[1])) for slot, text in before.items() if text]
    if removals:
        words.remove(db, user_id, removals)
    words.write(db, user_id, sorted(after.items()), new=new)
