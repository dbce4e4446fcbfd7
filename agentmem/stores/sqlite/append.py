"""One write: all its changes in one transaction, the journal first, then what is made from it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

from agentmem.errors import Conflict, LeaseLost
from agentmem.model.changes import Change, JournalEntry
from agentmem.model.clock import micros
from agentmem.stores import fading
from agentmem.stores.appending import Appending
from agentmem.stores.draft import Draft
from agentmem.stores.outlines import NO_FEATURES, outline_row
from agentmem.stores.sqlite import graph, journal
from agentmem.stores.sqlite.audit import insert
from agentmem.stores.sqlite.connection import Connection
from agentmem.stores.sqlite.restore import replace_words, texts_before
from agentmem.stores.sqlite.state import read_state
from agentmem.stores.sqlite.usage import settle, usage
from agentmem.text.blocks import load_blocks

STEPS = ("checked", "journal", "records", "words", "graph", "audit", "vectors", "committed")


class Append(Appending):
    """`apply` inside the transaction."""

    def apply(self, db: Connection) -> list[JournalEntry]:
        """Do the write, step by step, the journal before what is made from it."""
        sql = load_blocks(__package__, "append.sql")
        if self._fence is not None and db.execute(sql["fence"], (self._fence,)).fetchone() is None:
            raise LeaseLost("the lease of this writer has passed to another; nothing was written")
        done, fresh = self._sorted_out(db)
        if not fresh:
            return self._answer(db, done, [])
        draft = Draft(self.user_id, read_state(db, self.user_id, fresh), micros(self._clock.now()))
        for change in fresh:
            draft.add(change)
        self._hook("checked")
        db.executemany(sql["put_change"], draft.changes)
        db.executemany(sql["put_version"], draft.versions)
        self._hook("journal")
        self._put_records(db, draft)
        self._hook("records")
        self._put_dues(db, draft)
        self._put_words(db, draft)
        self._hook("words")
        puts, gone = list(draft.written.values()), list(draft.left.values())
        graph.apply(db, self.user_id, puts, gone, new=draft.new(), known=draft.state.slots_by_key())
        self._hook("graph")
        state = draft.state
        db.execute(sql["put_user"], (self.user_id, state.head, state.slots, draft.at))
        if self._audit is not None:
            insert(db, [self._audit], self._clock)
        self._hook("audit")
        return self._answer(db, done, draft.entries)

    def _sorted_out(self, db: Connection) -> tuple[dict[str, int], list[Change]]:
        """Where repeated changes stand already, and the new ones, each once."""
        wanted: dict[str, str] = {}
        for change in self.changes:
            if wanted.setdefault(change.change_id, change.payload) != change.payload:
                raise Conflict("one id or idempotency_key is used for two different things in this write")
        done = journal.applied(db, self.user_id, wanted)
        fresh = {change.change_id: change for change in self.changes if change.change_id not in done}
        return done, list(fresh.values())

    def _answer(self, db: Connection, done: Mapping[str, int], entries: Sequence[JournalEntry]) -> list[JournalEntry]:
        found = {entry.change_id: entry for entry in entries}
        if done:
            for entry in journal.entries_among(db, self.user_id, sorted(done.values())):
                found[entry.change_id] = replace(entry, repeated=True)
        return [found[change.change_id] for change in self.changes]

    def _put_records(self, db: Connection, draft: Draft) -> None:
        sql = load_blocks(__package__, "append.sql")
        if replaced := sorted(draft.was_current & (draft.written.keys() | draft.left.keys())):
            db.executemany(sql["drop_record"], [(self.user_id, slot) for slot in replaced])
        rows = []
        for slot, stored in draft.written.items():
            features, _ = self._read.get(id(draft.given[slot]), (NO_FEATURES, None))
            row = outline_row(slot, stored.record, features)
            rows.append((stored.record.unique(), self.user_id, *row))
        db.executemany(sql["put_record"], rows)

    def _put_dues(self, db: Connection, draft: Draft) -> None:
        """Note when what was written is due for a job, and that what left is due no more."""
        keys = fading.known(draft)
        used = usage(db, self.user_id, keys) if keys else {}
        settle(db, self.user_id, fading.written(draft, used, self._laws))
        sql = load_blocks(__package__, "usage.sql")
        if names := fading.went_on(draft):
            db.execute(sql["went_on"], (self.user_id, json.dumps(names), draft.at))
        if gone := fading.left(draft):
            db.execute(sql["never_due"], (self.user_id, json.dumps(gone)))

    def _put_words(self, db: Connection, draft: Draft) -> None:
        """Index what is new or reads differently now. What was retracted keeps its words, for `known_at`."""
        known = sorted(draft.was_known & draft.written.keys())
        before = texts_before(db, self.user_id, known, draft.entries[0].seq) if known else {}
        old: dict[int, str] = {}
        counts: dict[int, Mapping[str, int]] = {}
        for slot, stored in draft.written.items():
            text = stored.record.searchable()
            if text != before.get(slot, ""):
                old[slot] = before.get(slot, "")
                if text:
                    counts[slot] = self._read[id(draft.given[slot])][1]
        replace_words(db, self.user_id, old, counts, new=draft.new() >= counts.keys())
