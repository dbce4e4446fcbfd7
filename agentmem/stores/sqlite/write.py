"""A write on the thread of a file's writer: what it reads first, and how rows and vectors are written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain

from agentmem.core.changes import Change, JournalEntry
from agentmem.core.record import Key
from agentmem.core.records import Turn
from agentmem.core.telemetry import WARNING, log_event
from agentmem.errors import LeaseLost
from agentmem.stores.protocols import InlineVectors
from agentmem.stores.sql.write import LEASE_LOST, JournalRows, LockedReadSet, RecordRows, SqlWrite
from agentmem.stores.sqlite.connection import SqliteConnection
from agentmem.stores.sqlite.database import SqliteDatabase
from agentmem.stores.sqlite.vectors import SqliteVectors
from agentmem.stores.write_plan import CurrentVersion, ReadSet
from agentmem.text.templates import load_templates

STEPS = ("checked", "journal", "records", "words", "graph", "audit", "vectors", "committed")
_SQL = load_templates(__package__, "write.sql")


class SqliteRowWriter:
    """A RowWriter of a file. Rows are bound by position: many at once."""

    async def write_journal(self, db: SqliteConnection, user_id: str, rows: JournalRows) -> None:
        changes, versions, counters = rows
        db.executemany(_SQL["put_change"], changes)
        db.executemany(_SQL["put_version"], versions)
        await db.run("write.put_user", user_id=user_id, **counters._asdict())

    async def write_records(
        self, db: SqliteConnection, user_id: str, ordinals: Sequence[int], rows: RecordRows
    ) -> None:
        if ordinals:
            db.executemany(_SQL["drop_record"], [(user_id, ordinal) for ordinal in ordinals])
        db.executemany(_SQL["put_record"], [(unique, user_id, *row) for row, unique in rows])


class SqliteWrite(SqlWrite):
    """One write to a file."""

    rows = SqliteRowWriter()

    async def _lock_and_read(self, db: SqliteConnection) -> LockedReadSet:
        if self._fence is not None and db.execute(_SQL["fence"], (self._fence,)).fetchone() is None:
            raise LeaseLost(LEASE_LOST)
        applied = await db.rows("journal.applied", user_id=self.user_id, change_ids=list(self._request_hashes))
        delta_size = await db.value("terms.delta_size", user_id=self.user_id)
        return LockedReadSet(read_state(db, self.user_id, self.changes), applied, None, delta_size or 0)


def read_state(db: SqliteConnection, user_id: str, changes: Sequence[Change]) -> ReadSet:
    """Read the records that these changes affect: their keys, shared unique values, and the ends of their
    conversations.
    """
    row = db.execute(_SQL["user"], (user_id,)).fetchone()
    if row is None:
        return ReadSet()
    state = ReadSet(*row)
    records = [record for change in changes for record in (*change.upserts, *change.inserts_if_absent)]
    for key in dict.fromkeys(
        chain((record.key for record in records), *((*c.deletes, *c.expected_versions) for c in changes))
    ):
        _read_version(db, user_id, state, key)
    for kind, channel, unique in {(r.kind, r.channel, unique) for r in records if (unique := r.dedup_key())}:
        ordinals = db.execute(_SQL["holders"], (user_id, kind, channel, unique))
        state.ordinals_by_dedup_key[kind, channel, unique].update(ordinal for (ordinal,) in ordinals)
    for kind in {kind for change in changes for kind in change.no_new_since}:
        state.last_seq_by_kind[kind] = db.execute(_SQL["newest"], (user_id, kind)).get
    turns = [record for record in records if isinstance(record, Turn)]
    for conversation in {turn.conversation_id for turn in turns}:
        for position, ordinal in db.execute(_SQL["last_turn"], (user_id, conversation)):
            state.last_position_by_conversation[conversation] = position
            state.ordinal_by_position[conversation, position] = ordinal
    for place in {turn.position_key() for turn in turns if turn.index >= 0}:
        for (ordinal,) in db.execute(_SQL["at_position"], (user_id, *place)):
            state.ordinal_by_position[place] = ordinal
    return state


def _read_version(db: SqliteConnection, user_id: str, read_set: ReadSet, key: Key) -> None:
    row = db.execute(_SQL["held"], (user_id, *key)).fetchone()
    if row is None:
        return
    ordinal, recorded_at, seq, channel, unique, conversation, position = row
    held = read_set.versions[key] = CurrentVersion(ordinal, recorded_at)
    if seq is not None:
        held.seq, held.channel, held.dedup_key, held.position_key = seq, channel, unique, (conversation, position)
        read_set.claim(key[0], held)


class SqliteInlineVectorWriter:
    """Writes the vectors that are `served`; nothing when there are none, or when they lie in another database."""

    def __init__(self, database: SqliteDatabase, source: InlineVectors | None) -> None:
        index = None if source is None else source.index
        self._database, self._source = database, source
        self._index = index if isinstance(index, SqliteVectors) and index.shares_database(database) else None
        self._commit_callbacks: list[Callable[[], None]] = []

    async def write(self, db: SqliteConnection, entries: Sequence[JournalEntry]) -> None:
        """Put the vectors of what was just written beside it. When that fails they follow later, as a model's do."""
        served, index = self._source, self._index
        fresh = list({entry.seq: entry for entry in entries if not entry.already_applied}.values())
        if served is None or index is None or not fresh:
            return

        def attempt(db: SqliteConnection) -> None:
            batch = served.embed_now(fresh)
            removed = None if batch is None else index.write_batch(db, fresh[0].user_id, batch)[1]
            if removed is not None:
                self._commit_callbacks = [partial(index.evict_removed, removed), partial(served.on_committed, fresh)]

        if (error := self._database.try_in_savepoint(db, attempt)) is not None:
            log_event(WARNING, "vectors_follow", user_id=fresh[0].user_id, error=type(error).__name__)

    def on_committed(self) -> None:
        """Update the cache, which is valid only after the commit."""
        for remember in self._commit_callbacks:
            remember()
