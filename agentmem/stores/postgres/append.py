"""One write: all its changes in one transaction, the journal first, then what is made from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from typing import TYPE_CHECKING

from agentmem.errors import Conflict
from agentmem.model.changes import JournalEntry
from agentmem.model.clock import to_micros
from agentmem.model.outline import RecordRow
from agentmem.stores import fading, restoring
from agentmem.stores.appending import PreparedWrite
from agentmem.stores.draft import WritePlan
from agentmem.stores.entries import check_idempotency
from agentmem.stores.outlines import NO_FEATURES, build_column_row
from agentmem.stores.postgres import journal, words
from agentmem.stores.postgres.audit import insert
from agentmem.stores.postgres.columns import render_rows, shorten_key, to_uuid
from agentmem.stores.postgres.connection import fetch_rows
from agentmem.stores.postgres.state import LockedReadSet, lock_and_read
from agentmem.stores.postgres.usage import set_due_dates, usage
from agentmem.stores.upkeep import JournalCounters
from agentmem.text.blocks import load_templates
from agentmem.text.features import extract_features_and_terms

if TYPE_CHECKING:
    from agentmem.stores.postgres.connection import Connection

STEPS = ("checked", "journal", "records", "words", "audit", "vectors", "committed")
_CHANGE_COLUMNS = ("seq", "change_id", "operation_id", "operation", "actor", "cause", "payload", "at")
_VERSION_COLUMNS = ("slot", "seq", "kind", "id", "channel", "recorded_at", "payload", "format", "erased", "part")
_RECORD_COLUMNS = (*RecordRow._fields, "unique_key", "conversation_uuid")


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
    ) -> list[JournalEntry]:  # fmt: skip
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
        keys = fading.keys_needing_usage(plan)
        used = await usage(db, self.user_id, keys) if keys else {}
        dues = fading.compute_due_after_write(plan, used, self._policy)
        await set_due_dates(db, self.user_id, dues)
        sql = load_templates(__package__, "usage.sql")
        away = archived | {due.id for due in dues if due.kind == "Conversation" and due.due_at is None}
        if names := [name for name in fading.list_continued_conversations(plan) if name in away]:
            await db.execute(sql["went_on"], {"user_id": self.user_id, "ids": names, "at": plan.recorded_at})
        if gone := fading.list_removed_due_keys(plan):
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
        await replace_terms(db, self.user_id, {ordinal: before.get(ordinal, "") for ordinal in changed}, counts,
                            delta_size=locked.delta_size if is_new else None)  # fmt: skip


async def write_journal(
    db: Connection, user_id: str, changes: Sequence[Sequence[object]], versions: Sequence[Sequence[object]],
    counters: JournalCounters,
) -> None:  # fmt: skip
    """Write rows of the journal, which begin with the user, and how far it goes with them.

    Versions end with whether they are erased.
    """
    values = {
        "changes": render_rows(_CHANGE_COLUMNS, (row[1:] for row in changes), text_columns=_CHANGE_COLUMNS[2:6]),
        "versions": render_rows(_VERSION_COLUMNS, ((*row[1:], part) for part, row in enumerate(versions, 1))),
    }
    await db.execute(_sql()["put_journal"], {"user_id": user_id, **counters._asdict(), **values})


async def write_records(
    db: Connection, user_id: str, ordinals: Sequence[int], new_rows: Sequence[tuple[RecordRow, str]]
) -> None:  # fmt: skip
    """Take slots out of the current records, and put rows with their unique values in."""
    if ordinals:
        await db.execute(_sql()["drop_records"], {"user_id": user_id, "slots": list(ordinals)})
    if new_rows:
        given = ((*row, shorten_key(key), to_uuid(user_id, row.conversation_id)) for row, key in new_rows)
        await db.execute(
            _sql()["put_records"],
            {"user_id": user_id, "records": render_rows(_RECORD_COLUMNS, given, text_columns=("speaker",))},
        )


async def read_texts_before(db: Connection, user_id: str, ordinals: Sequence[int], seq: int) -> dict[int, str]:
    """The searchable text of each slot's latest after-image before a position; slots without one left out."""
    found = await fetch_rows(db, _sql()["last_payloads"], {"user_id": user_id, "slots": list(ordinals), "before": seq})
    return restoring.decode_texts(user_id, found)


async def replace_terms(
    db: Connection, user_id: str, old_texts: Mapping[int, str], new_counts: Mapping[int, Mapping[str, int]], *,
    delta_size: int | None = None,
) -> None:  # fmt: skip
    """Take the words of the old texts out of the index and put the new counts in; `delta_size` as for `words.write`."""
    removals = [(ordinal, tuple(extract_features_and_terms(text)[1])) for ordinal, text in old_texts.items() if text]
    if removals:
        await words.remove(db, user_id, removals)
    await words.write(db, user_id, sorted(new_counts.items()), delta_size=delta_size)


def _sql() -> Mapping[str, str]:
    return load_templates(__package__, "append.sql")
