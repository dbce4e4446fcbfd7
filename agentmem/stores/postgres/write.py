"""A write under the user's lock on a server: what it reads first, in one answer, and how rows and vectors are sent."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from agentmem.core.changes import Change, JournalEntry
from agentmem.core.columns import RecordRow
from agentmem.core.records import Turn
from agentmem.core.telemetry import WARNING, log_event
from agentmem.errors import AgentMemError, Conflict, LeaseLost, StoreError, StoreUnavailable
from agentmem.stores.codec import shorten_key, to_uuid
from agentmem.stores.postgres.columns import render_rows, to_columns
from agentmem.stores.postgres.database import PostgresDatabase
from agentmem.stores.postgres.vectors import PostgresVectors
from agentmem.stores.protocols import InlineVectors
from agentmem.stores.sql.write import LEASE_LOST, JournalRows, LockedReadSet, RecordRows, SqlWrite
from agentmem.stores.write_plan import CurrentVersion, ReadSet
from agentmem.text.templates import load_templates

if TYPE_CHECKING:
    from psycopg import AsyncCursor

    from agentmem.stores.postgres.connection import PostgresConnection

_SQL = load_templates(__package__, "write.sql")


STEPS = ("checked", "journal", "records", "words", "graph", "audit", "vectors", "committed")
_CHANGE_COLUMNS = ("seq", "change_id", "operation_id", "operation", "actor", "cause", "payload", "at")
_VERSION_COLUMNS = ("slot", "seq", "kind", "id", "channel", "recorded_at", "payload", "format", "erased", "part")
_RECORD_COLUMNS = (*RecordRow._fields, "unique_key", "conversation_uuid")


class PostgresRowWriter:
    """A RowWriter of a server. Rows are sent as JSON: an array for each column costs the client four times as much."""

    async def write_journal(self, db: PostgresConnection, user_id: str, rows: JournalRows) -> None:
        changes, versions, counters = rows
        values = {
            "changes": render_rows(_CHANGE_COLUMNS, (row[1:] for row in changes), text_columns=_CHANGE_COLUMNS[2:6]),
            "versions": render_rows(_VERSION_COLUMNS, ((*row[1:], part) for part, row in enumerate(versions, 1))),
        }
        await db.execute(_SQL["put_journal"], {"user_id": user_id, **counters._asdict(), **values})

    async def write_records(
        self, db: PostgresConnection, user_id: str, ordinals: Sequence[int], rows: RecordRows
    ) -> None:
        if ordinals:
            await db.run("write.drop_records", user_id=user_id, ordinals=list(ordinals))
        if rows:
            given = ((*row, shorten_key(key), to_uuid(user_id, row.conversation_id)) for row, key in rows)
            records = render_rows(_RECORD_COLUMNS, given, text_columns=("speaker",))
            await db.execute(_SQL["put_records"], {"user_id": user_id, "records": records})


class PostgresWrite(SqlWrite):
    """One write to a server."""

    rows = PostgresRowWriter()

    async def _lock_and_read(self, db: PostgresConnection) -> LockedReadSet:
        fence, asked = self._fence, {"user_id": self.user_id, **_build_read_params(self.changes)}
        while True:
            lock = await db.execute(_SQL["lock"], asked)
            fenced = None if fence is None else await db.execute(_SQL["fence"], {"fence": fence})
            answer = await db.execute(_SQL["state"], asked)
            row = await lock.fetchone()
            if fenced is not None and await fenced.fetchone() is None:
                raise LeaseLost(LEASE_LOST)
            if row is not None:
                return _build_locked_read_set(ReadSet(*row), *await answer.fetchall())
            # The first write of a user. What was asked above was asked without a lock, so it is asked again.
            await db.execute(_SQL["add_user"], asked)


def _build_read_params(changes: Sequence[Change]) -> dict[str, Any]:
    """What `state` is asked: all that these changes name."""
    records = [record for change in changes for record in (*change.upserts, *change.inserts_if_absent)]
    keys = dict.fromkeys(
        chain((record.key for record in records), *((*c.deletes, *c.expected_versions) for c in changes))
    )
    uniques = {(r.kind, r.channel, shorten_key(unique)) for r in records if (unique := r.dedup_key())}
    turns = [record for record in records if isinstance(record, Turn)]
    return {
        "kinds": [kind for kind, _ in keys],
        "ids": [record_id for _, record_id in keys],
        **to_columns(("sharing", "channels", "keys"), uniques),
        "since": sorted({kind for change in changes for kind in change.no_new_since}),
        "conversations": list(dict.fromkeys(turn.conversation_id for turn in turns)),
        **to_columns(("places", "positions"), {turn.position_key() for turn in turns if turn.index >= 0}),
        "change_ids": [change.change_id for change in changes],
    }


def _build_locked_read_set(read_set: ReadSet, row: Sequence[Any]) -> LockedReadSet:
    *lists, tail = row
    held, sharing, newest, last, taken, applied, away = (rows or [] for rows in lists)
    for kind, record_id, ordinal, recorded_at, seq, channel, unique, conversation, position in held:
        known = read_set.versions[kind, record_id] = CurrentVersion(ordinal, recorded_at)
        if seq is not None:
            known.seq, known.channel, known.dedup_key, known.position_key = (
                seq,
                channel,
                unique,
                (conversation, position),
            )
            read_set.claim(kind, known)
    for kind, channel, unique, ordinal in sharing:
        read_set.ordinals_by_dedup_key[kind, channel, unique].add(ordinal)
    for kind, seq in newest:
        read_set.last_seq_by_kind[kind] = seq
    for conversation, position, ordinal in last:
        read_set.last_position_by_conversation[conversation] = max(
            read_set.last_position_by_conversation.get(conversation, -1), position
        )
        read_set.ordinal_by_position[conversation, position] = ordinal
    for conversation, position, ordinal in taken:
        read_set.ordinal_by_position[conversation, position] = ordinal
    done = [(change_id, seq, payload) for change_id, seq, payload in applied]
    return LockedReadSet(read_set, done, frozenset(away), tail or 0)


class PostgresInlineVectorWriter:
    """Sends the vectors of `source`; none when there are none, or when they are in another database.

    It blocks no other writer. The write already holds the user's lock, which excludes erasures and the user's other
    writes. Other changes of vectors (following, clearing, removing an embedder) hold the user's watermark, and `put`
    skips a locked watermark: then these vectors follow. It runs last, so an append that holds a watermark waits for no
    lock and cannot deadlock.
    """

    def __init__(self, database: PostgresDatabase, source: InlineVectors | None) -> None:
        index = None if source is None else source.index
        self._source = source
        self._index = index if isinstance(index, PostgresVectors) and index.shares_database(database) else None
        self._new_entries: list[JournalEntry] = []
        self._cursor: AsyncCursor[Any] | None = None

    async def write(self, db: PostgresConnection, entries: Sequence[JournalEntry]) -> None:
        """Send the vectors of what was just written, last of all. The transaction may run again."""
        self._cursor = None
        self._new_entries = list({entry.seq: entry for entry in entries if not entry.already_applied}.values())
        values = self._build_values()
        if values is not None and self._index is not None:
            self._cursor = await self._index.write_small_batch(db, values)

    def _build_values(self) -> dict[str, Any] | None:
        """What `put` is given; None where there is nothing to put at once."""
        served, index, fresh = self._source, self._index, self._new_entries
        if served is None or index is None or not fresh:
            return None
        try:
            batch = served.embed_now(fresh)
            return None if batch is None else index.build_small_batch(fresh[0].user_id, batch)
        except Exception as error:  # noqa: BLE001  whatever it is, it costs no write
            self._log_deferral(error)
            return None

    def should_retry_without_vectors(self, error: AgentMemError) -> bool:
        """Whether a write that the server refused might pass without its vectors."""
        refused = isinstance(error, StoreError | Conflict) and not isinstance(error, StoreUnavailable)
        if refused and self._cursor is not None:
            self._log_deferral(error)
            return True
        return False

    def _log_deferral(self, error: Exception) -> None:
        log_event(WARNING, "vectors_follow", user_id=self._new_entries[0].user_id, error=type(error).__name__)

    async def on_committed(self) -> None:
        """Update the cache, which is valid only after the commit; nothing when the vectors are elsewhere."""
        if self._cursor is not None and self._source is not None and await self._cursor.fetchall():
            self._source.on_committed(self._new_entries)
