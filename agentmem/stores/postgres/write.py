"""The steps of a write under the user's lock: what stands there, journal, records, dates, terms, vectors, audit."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any

from agentmem.core.changes import Change, JournalEntry
from agentmem.core.clock import to_micros
from agentmem.core.columns import RecordRow
from agentmem.core.records import Turn
from agentmem.core.telemetry import WARNING, log_event
from agentmem.errors import AgentMemError, Conflict, LeaseLost, StoreError, StoreUnavailable
from agentmem.stores import due_updates, raw_import
from agentmem.stores.admin import JournalCounters
from agentmem.stores.codec import NO_FEATURES, build_column_row
from agentmem.stores.postgres import journal, terms
from agentmem.stores.postgres.audit import insert
from agentmem.stores.postgres.columns import render_rows, shorten_key, to_columns, to_uuid
from agentmem.stores.postgres.database import PostgresDatabase, fetch_rows
from agentmem.stores.postgres.journal import key_columns
from agentmem.stores.postgres.usage import set_due_dates, usage
from agentmem.stores.postgres.vectors import PostgresVectors
from agentmem.stores.sql.write import PreparedWrite
from agentmem.stores.write_plan import CurrentVersion, InlineVectors, ReadSet, WritePlan, check_idempotency
from agentmem.text.templates import load_templates
from agentmem.text.tokenizer import extract_features_and_terms

if TYPE_CHECKING:
    from psycopg import AsyncCursor

    from agentmem.stores.postgres.database import Connection

_SQL = load_templates(__package__, "write.sql")


STEPS = ("checked", "journal", "records", "words", "audit", "vectors", "committed")
_CHANGE_COLUMNS = ("seq", "change_id", "operation_id", "operation", "actor", "cause", "payload", "at")
_VERSION_COLUMNS = ("slot", "seq", "kind", "id", "channel", "recorded_at", "payload", "format", "erased", "part")
_RECORD_COLUMNS = (*RecordRow._fields, "unique_key", "conversation_uuid")


@dataclass(frozen=True, slots=True)
class LockedReadSet:
    """The state that some changes touch, which of them the journal has, and how long the tail of the words is.

    `archived` are the conversations of their turns that are due for nothing.
    """

    read_set: ReadSet
    applied_rows: list[tuple[str, int, str]]  # change_id, seq, payload fingerprint
    archived: frozenset[str]
    delta_size: int


async def lock_and_read(db: Connection, user_id: str, changes: Sequence[Change], fence: int | None) -> LockedReadSet:
    """Take the user's lock and read what these changes touch. Raises LeaseLost for a fence that no lease has."""
    asked = {"user_id": user_id, **_build_read_params(changes)}
    while True:
        lock = await db.execute(_SQL["lock"], asked)
        fenced = None if fence is None else await db.execute(_SQL["fence"], {"fence": fence})
        answer = await db.execute(_SQL["state"], asked)
        row = await lock.fetchone()
        if fenced is not None and await fenced.fetchone() is None:
            raise LeaseLost("the lease of this writer has passed to another; nothing was written")
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
        **key_columns(keys),
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
    """Sends the vectors of `source`; none when there are none, or when they lie in another database.

    Nobody waits for another because of them. The user's lock, which the write has by then, keeps erasures and the
    user's other writes out. Those who change vectors without it (whoever follows, clears, or takes an embedder out)
    hold the user's watermark, and `put` passes over a watermark that is held: then these vectors follow. It comes last,
    so an append that holds a watermark waits for nothing any more, and closes no circle of such waits.
    """

    def __init__(self, database: PostgresDatabase, source: InlineVectors | None) -> None:
        index = None if source is None else source.index
        self._source = source
        self._index = index if isinstance(index, PostgresVectors) and index.shares_database(database) else None
        self._new_entries: list[JournalEntry] = []
        self._cursor: AsyncCursor[Any] | None = None

    async def write(
        self, db: Connection, work: Callable[[Connection], Awaitable[list[JournalEntry]]]
    ) -> list[JournalEntry]:
        """Do a write and send its vectors after it, last of all. The transaction may run again."""
        self._cursor = None
        entries = await work(db)
        self._new_entries = list({entry.seq: entry for entry in entries if not entry.already_applied}.values())
        values = self._build_values()
        if values is not None and self._index is not None:
            self._cursor = await self._index.write_small_batch(db, values)
        return entries

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
        """Have it remembered, which nobody may before the commit; nothing when the vectors stood elsewhere."""
        if self._cursor is not None and self._source is not None and await self._cursor.fetchall():
            self._source.on_committed(self._new_entries)


class PostgresWrite(PreparedWrite):
    """`apply` inside the transaction, which may run again."""

    def prepare(self) -> None:
        """See PreparedWrite; also Conflict for one id that stands for two things."""
        super().prepare()
        self._request_hashes: dict[str, str] = {}
        for change in self.changes:
            if self._request_hashes.setdefault(change.change_id, change.request_hash) != change.request_hash:
                raise Conflict("one id or idempotency_key is used for two different things in this write")

    async def apply(self, db: Connection) -> list[JournalEntry]:
        """Do the write, the journal before what is made from it."""
        found = await lock_and_read(db, self.user_id, self.changes, self._fence)
        done = check_idempotency(self._request_hashes, found.applied_rows)
        fresh = {change.change_id: change for change in self.changes if change.change_id not in done}
        if not fresh:
            return await self._collect_entries(db, done, [])
        draft = WritePlan(self.user_id, found.read_set, to_micros(self._clock.now()))
        for change in fresh.values():
            draft.add(change)
        self._hook("checked")
        reach = JournalCounters(draft.read_set.head, draft.read_set.next_ordinal, 0, draft.recorded_at)
        await write_journal(db, self.user_id, draft.change_rows, [(*row, False) for row in draft.version_rows], reach)
        self._hook("journal")
        await self._write_records(db, draft)
        self._hook("records")
        await self._write_due_dates(db, draft, found.archived)
        await self._write_terms(db, draft, found)
        self._hook("words")
        if self._audit is not None:
            await insert(db, [self._audit], self._clock)
        self._hook("audit")
        return await self._collect_entries(db, done, draft.entries)

    async def _collect_entries(
        self, db: Connection, applied: Mapping[str, int], entries: Sequence[JournalEntry]
    ) -> list[JournalEntry]:
        found = {entry.change_id: entry for entry in entries}
        if applied:
            for entry in await journal.entries_at(db, self.user_id, sorted(applied.values())):
                found[entry.change_id] = replace(entry, already_applied=True)
        return [found[change.change_id] for change in self.changes]

    async def _write_records(self, db: Connection, plan: WritePlan) -> None:
        replaced = sorted(plan.current_before & (plan.upserts.keys() | plan.removed.keys()))
        made = []
        for ordinal, stored in plan.upserts.items():
            features, _ = self._text_features.get(id(plan.originals[ordinal]), (NO_FEATURES, None))
            made.append((build_column_row(ordinal, stored.record, features), stored.record.dedup_key()))
        await write_records(db, self.user_id, replaced, made)

    async def _write_due_dates(self, db: Connection, plan: WritePlan, archived: Set[str]) -> None:
        """Note when what was written is due for a job, and that what left is due no more."""
        keys = due_updates.keys_needing_usage(plan)
        used = await usage(db, self.user_id, keys) if keys else {}
        dues = due_updates.compute_due_after_write(plan, used, self._policy)
        await set_due_dates(db, self.user_id, dues)
        sql = load_templates(__package__, "usage.sql")
        away = archived | {due.id for due in dues if due.kind == "Conversation" and due.due_at is None}
        if names := [name for name in due_updates.list_continued_conversations(plan) if name in away]:
            await db.execute(sql["went_on"], {"user_id": self.user_id, "ids": names, "at": plan.recorded_at})
        if gone := due_updates.list_removed_due_keys(plan):
            await db.execute(sql["never_due"], {"user_id": self.user_id, **journal.key_columns(gone)})

    async def _write_terms(self, db: Connection, plan: WritePlan, locked: LockedReadSet) -> None:
        """Index what is new or reads differently now. What was retracted keeps its words, for `known_at`."""
        known = sorted(plan.known_before & plan.upserts.keys())
        before = await read_texts_before(db, self.user_id, known, plan.entries[0].seq) if known else {}
        texts = {ordinal: stored.record.search_text() for ordinal, stored in plan.upserts.items()}
        changed = {ordinal: text for ordinal, text in texts.items() if text != before.get(ordinal, "")}
        counts = {
            ordinal: self._text_features[id(plan.originals[ordinal])][1] for ordinal, text in changed.items() if text
        }
        is_new = plan.new_ordinals() >= changed.keys()
        await replace_terms(
            db,
            self.user_id,
            {ordinal: before.get(ordinal, "") for ordinal in changed},
            counts,
            delta_size=locked.delta_size if is_new else None,
        )


async def write_journal(
    db: Connection,
    user_id: str,
    changes: Sequence[Sequence[object]],
    versions: Sequence[Sequence[object]],
    counters: JournalCounters,
) -> None:
    """Write rows of the journal, which begin with the user, and how far it goes with them.

    Versions end with whether they are erased.
    """
    values = {
        "changes": render_rows(_CHANGE_COLUMNS, (row[1:] for row in changes), text_columns=_CHANGE_COLUMNS[2:6]),
        "versions": render_rows(_VERSION_COLUMNS, ((*row[1:], part) for part, row in enumerate(versions, 1))),
    }
    await db.execute(_SQL["put_journal"], {"user_id": user_id, **counters._asdict(), **values})


async def write_records(
    db: Connection, user_id: str, ordinals: Sequence[int], new_rows: Sequence[tuple[RecordRow, str]]
) -> None:
    """Take ordinals out of the current records, and put rows with their unique values in."""
    if ordinals:
        await db.execute(_SQL["drop_records"], {"user_id": user_id, "slots": list(ordinals)})
    if new_rows:
        given = ((*row, shorten_key(key), to_uuid(user_id, row.conversation_id)) for row, key in new_rows)
        await db.execute(
            _SQL["put_records"],
            {"user_id": user_id, "records": render_rows(_RECORD_COLUMNS, given, text_columns=("speaker",))},
        )


async def read_texts_before(db: Connection, user_id: str, ordinals: Sequence[int], seq: int) -> dict[int, str]:
    """The searchable text of each ordinal's latest after-image before a position; ordinals without one left out."""
    found = await fetch_rows(db, _SQL["last_payloads"], {"user_id": user_id, "slots": list(ordinals), "before": seq})
    return raw_import.decode_texts(user_id, found)


async def replace_terms(
    db: Connection,
    user_id: str,
    old_texts: Mapping[int, str],
    new_counts: Mapping[int, Mapping[str, int]],
    *,
    delta_size: int | None = None,
) -> None:
    """Take the words of the old texts out of the index and put the new counts in; `delta_size` as for `words.write`."""
    removals = [(ordinal, tuple(extract_features_and_terms(text)[1])) for ordinal, text in old_texts.items() if text]
    if removals:
        await terms.remove(db, user_id, removals)
    await terms.write(db, user_id, sorted(new_counts.items()), delta_size=delta_size)
