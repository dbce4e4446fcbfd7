"""The steps of a write on the writer's thread: what stands there, journal, records, dates, terms, graph, vectors."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain

from agentmem.core.changes import Change, JournalEntry
from agentmem.core.clock import to_micros
from agentmem.core.record import Key
from agentmem.core.records import Turn
from agentmem.core.telemetry import WARNING, log_event
from agentmem.errors import Conflict, LeaseLost
from agentmem.stores import due_updates
from agentmem.stores.codec import NO_FEATURES, build_column_row
from agentmem.stores.sql.write import PreparedWrite
from agentmem.stores.sqlite import graph, journal
from agentmem.stores.sqlite.audit import insert
from agentmem.stores.sqlite.database import Connection, SqliteDatabase
from agentmem.stores.sqlite.restore import read_texts_before, replace_terms
from agentmem.stores.sqlite.usage import set_due_dates, usage
from agentmem.stores.sqlite.vectors import SqliteVectors
from agentmem.stores.write_plan import CurrentVersion, InlineVectors, ReadSet, WritePlan
from agentmem.text.templates import load_templates

STEPS = ("checked", "journal", "records", "words", "graph", "audit", "vectors", "committed")


def read_state(db: Connection, user_id: str, changes: Sequence[Change]) -> ReadSet:
    """What these changes touch: their keys, whoever shares their unique values, and the ends of their conversations."""
    sql = load_templates(__package__, "write.sql")
    row = db.execute(sql["user"], (user_id,)).fetchone()
    if row is None:
        return ReadSet()
    state = ReadSet(*row)
    records = [record for change in changes for record in (*change.upserts, *change.inserts_if_absent)]
    for key in dict.fromkeys(
        chain((record.key for record in records), *((*c.deletes, *c.expected_versions) for c in changes))
    ):
        _read_version(db, user_id, state, key)
    for kind, channel, unique in {(r.kind, r.channel, unique) for r in records if (unique := r.dedup_key())}:
        ordinals = db.execute(sql["holders"], (user_id, kind, channel, unique))
        state.ordinals_by_dedup_key[kind, channel, unique].update(ordinal for (ordinal,) in ordinals)
    for kind in {kind for change in changes for kind in change.no_new_since}:
        state.last_seq_by_kind[kind] = db.execute(sql["newest"], (user_id, kind)).get
    turns = [record for record in records if isinstance(record, Turn)]
    for conversation in {turn.conversation_id for turn in turns}:
        for position, ordinal in db.execute(sql["last_turn"], (user_id, conversation)):
            state.last_position_by_conversation[conversation] = position
            state.ordinal_by_position[conversation, position] = ordinal
    for place in {turn.position_key() for turn in turns if turn.index >= 0}:
        for (ordinal,) in db.execute(sql["at_position"], (user_id, *place)):
            state.ordinal_by_position[place] = ordinal
    return state


def _read_version(db: Connection, user_id: str, read_set: ReadSet, key: Key) -> None:
    row = db.execute(load_templates(__package__, "write.sql")["held"], (user_id, *key)).fetchone()
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

    def write(self, db: Connection, entries: Sequence[JournalEntry]) -> None:
        """Put the vectors of what was just written beside it. When that fails they follow later, as a model's do."""
        served, index = self._source, self._index
        fresh = list({entry.seq: entry for entry in entries if not entry.already_applied}.values())
        if served is None or index is None or not fresh:
            return

        def attempt(db: Connection) -> None:
            batch = served.embed_now(fresh)
            removed = None if batch is None else index.write_batch(db, fresh[0].user_id, batch)[1]
            if removed is not None:
                self._commit_callbacks = [partial(index.evict_removed, removed), partial(served.on_committed, fresh)]

        if (error := self._database.try_in_savepoint(db, attempt)) is not None:
            log_event(WARNING, "vectors_follow", user_id=fresh[0].user_id, error=type(error).__name__)

    def on_committed(self) -> None:
        """Have it remembered, which nobody may before the commit."""
        for remember in self._commit_callbacks:
            remember()


class SqliteWrite(PreparedWrite):
    """`apply` inside the transaction."""

    def apply(self, db: Connection) -> list[JournalEntry]:
        """Do the write, step by step, the journal before what is made from it."""
        sql = load_templates(__package__, "write.sql")
        if self._fence is not None and db.execute(sql["fence"], (self._fence,)).fetchone() is None:
            raise LeaseLost("the lease of this writer has passed to another; nothing was written")
        done, fresh = self._split_applied(db)
        if not fresh:
            return self._collect_entries(db, done, [])
        draft = WritePlan(self.user_id, read_state(db, self.user_id, fresh), to_micros(self._clock.now()))
        for change in fresh:
            draft.add(change)
        self._hook("checked")
        db.executemany(sql["put_change"], draft.change_rows)
        db.executemany(sql["put_version"], draft.version_rows)
        self._hook("journal")
        self._write_records(db, draft)
        self._hook("records")
        self._write_due_dates(db, draft)
        self._write_terms(db, draft)
        self._hook("words")
        puts, gone = list(draft.upserts.values()), list(draft.removed.values())
        graph.apply(
            db,
            self.user_id,
            puts,
            gone,
            new_ordinals=draft.new_ordinals(),
            known_ordinals=draft.read_set.ordinals_by_key(),
        )
        self._hook("graph")
        state = draft.read_set
        db.execute(sql["put_user"], (self.user_id, state.head, state.next_ordinal, draft.recorded_at))
        if self._audit is not None:
            insert(db, [self._audit], self._clock)
        self._hook("audit")
        return self._collect_entries(db, done, draft.entries)

    def _split_applied(self, db: Connection) -> tuple[dict[str, int], list[Change]]:
        """Where repeated changes stand already, and the new ones, each once."""
        wanted: dict[str, str] = {}
        for change in self.changes:
            if wanted.setdefault(change.change_id, change.request_hash) != change.request_hash:
                raise Conflict("one id or idempotency_key is used for two different things in this write")
        done = journal.find_applied(db, self.user_id, wanted)
        fresh = {change.change_id: change for change in self.changes if change.change_id not in done}
        return done, list(fresh.values())

    def _collect_entries(
        self, db: Connection, applied: Mapping[str, int], entries: Sequence[JournalEntry]
    ) -> list[JournalEntry]:
        found = {entry.change_id: entry for entry in entries}
        if applied:
            for entry in journal.entries_at(db, self.user_id, sorted(applied.values())):
                found[entry.change_id] = replace(entry, already_applied=True)
        return [found[change.change_id] for change in self.changes]

    def _write_records(self, db: Connection, plan: WritePlan) -> None:
        sql = load_templates(__package__, "write.sql")
        if replaced := sorted(plan.current_before & (plan.upserts.keys() | plan.removed.keys())):
            db.executemany(sql["drop_record"], [(self.user_id, ordinal) for ordinal in replaced])
        rows = []
        for ordinal, stored in plan.upserts.items():
            features, _ = self._text_features.get(id(plan.originals[ordinal]), (NO_FEATURES, None))
            row = build_column_row(ordinal, stored.record, features)
            rows.append((stored.record.dedup_key(), self.user_id, *row))
        db.executemany(sql["put_record"], rows)

    def _write_due_dates(self, db: Connection, plan: WritePlan) -> None:
        """Note when what was written is due for a job, and that what left is due no more."""
        keys = due_updates.keys_needing_usage(plan)
        used = usage(db, self.user_id, keys) if keys else {}
        set_due_dates(db, self.user_id, due_updates.compute_due_after_write(plan, used, self._policy))
        sql = load_templates(__package__, "usage.sql")
        if names := due_updates.list_continued_conversations(plan):
            db.execute(sql["went_on"], (self.user_id, json.dumps(names), plan.recorded_at))
        if gone := due_updates.list_removed_due_keys(plan):
            db.execute(sql["never_due"], (self.user_id, json.dumps(gone)))

    def _write_terms(self, db: Connection, plan: WritePlan) -> None:
        """Index what is new or reads differently now. What was retracted keeps its words, for `known_at`."""
        known = sorted(plan.known_before & plan.upserts.keys())
        before = read_texts_before(db, self.user_id, known, plan.entries[0].seq) if known else {}
        old: dict[int, str] = {}
        counts: dict[int, Mapping[str, int]] = {}
        for ordinal, stored in plan.upserts.items():
            text = stored.record.search_text()
            if text != before.get(ordinal, ""):
                old[ordinal] = before.get(ordinal, "")
                if text:
                    counts[ordinal] = self._text_features[id(plan.originals[ordinal])][1]
        replace_terms(db, self.user_id, old, counts, all_new=plan.new_ordinals() >= counts.keys())
