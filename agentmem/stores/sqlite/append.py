"""One write: all its changes in one transaction, the journal first, then what is made from it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

from agentmem.errors import Conflict, LeaseLost
from agentmem.model.changes import Change, JournalEntry
from agentmem.model.clock import to_micros
from agentmem.stores import fading
from agentmem.stores.appending import PreparedWrite
from agentmem.stores.draft import WritePlan
from agentmem.stores.outlines import NO_FEATURES, build_column_row
from agentmem.stores.sqlite import graph, journal
from agentmem.stores.sqlite.audit import insert
from agentmem.stores.sqlite.connection import Connection
from agentmem.stores.sqlite.restore import read_texts_before, replace_terms
from agentmem.stores.sqlite.state import read_state
from agentmem.stores.sqlite.usage import set_due_dates, usage
from agentmem.text.blocks import load_templates

STEPS = ("checked", "journal", "records", "words", "graph", "audit", "vectors", "committed")


class SqliteWrite(PreparedWrite):
    """`apply` inside the transaction."""

    def apply(self, db: Connection) -> list[JournalEntry]:
        """Do the write, step by step, the journal before what is made from it."""
        sql = load_templates(__package__, "append.sql")
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
        sql = load_templates(__package__, "append.sql")
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
        keys = fading.keys_needing_usage(plan)
        used = usage(db, self.user_id, keys) if keys else {}
        set_due_dates(db, self.user_id, fading.compute_due_after_write(plan, used, self._policy))
        sql = load_templates(__package__, "usage.sql")
        if names := fading.list_continued_conversations(plan):
            db.execute(sql["went_on"], (self.user_id, json.dumps(names), plan.recorded_at))
        if gone := fading.list_removed_due_keys(plan):
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
