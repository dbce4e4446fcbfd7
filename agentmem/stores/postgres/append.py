"""One write: all its changes in one transaction, the journal first, then what is made from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from typing import TYPE_CHECKING

from agentmem.errors import Conflict
from agentmem.model.changes import JournalEntry
from agentmem.model.clock import micros
from agentmem.model.outline import OutlineRow
from agentmem.stores import fading, restoring
from agentmem.stores.appending import Appending
from agentmem.stores.draft import Draft
from agentmem.stores.entries import compared
from agentmem.stores.outlines import NO_FEATURES, outline_row
from agentmem.stores.postgres import journal, words
from agentmem.stores.postgres.audit import insert
from agentmem.stores.postgres.columns import as_uuid, kept_key, rows_text
from agentmem.stores.postgres.connection import rows
from agentmem.stores.postgres.state import Found, lock_and_read
from agentmem.stores.postgres.usage import settle, usage
from agentmem.stores.upkeep import Reach
from agentmem.text.blocks import load_blocks
from agentmem.text.features import read_words

if TYPE_CHECKING:
    from agentmem.stores.postgres.connection import Connection

STEPS = ("checked", "journal", "records", "words", "audit", "vectors", "committed")
_CHANGE = ("seq", "change_id", "operation_id", "operation", "actor", "cause", "payload", "at")
_VERSION = ("slot", "seq", "kind", "id", "channel", "recorded_at", "payload", "format", "erased", "part")
_RECORD = (*OutlineRow._fields, "unique_key", "conversation_uuid")


class Append(Appending):
    """`apply` inside the transaction, which may run again."""

    def prepare(self) -> None:
        """See Appending; also Conflict for one id that stands for two things."""
        super().prepare()
        self._wanted: dict[str, str] = {}
        for change in self.changes:
            if self._wanted.setdefault(change.change_id, change.payload) != change.payload:
                raise Conflict("one id or idempotency_key is used for two different things in this write")

    async def apply(self, db: Connection) -> list[JournalEntry]:
        """Do the write, the journal before what is made from it."""
        found = await lock_and_read(db, self.user_id, self.changes, self._fence)
        done = compared(self._wanted, found.applied)
        fresh = {change.change_id: change for change in self.changes if change.change_id not in done}
        if not fresh:
            return await self._answer(db, done, [])
        draft = Draft(self.user_id, found.state, micros(self._clock.now()))
        for change in fresh.values():
            draft.add(change)
        self._hook("checked")
        reach = Reach(draft.state.head, draft.state.slots, 0, draft.at)
        await put_journal(db, self.user_id, draft.changes, [(*row, False) for row in draft.versions], reach)
        self._hook("journal")
        await self._put_records(db, draft)
        self._hook("records")
        await self._put_dues(db, draft, found.put_away)
        await self._put_words(db, draft, found)
        self._hook("words")
        if self._audit is not None:
            await insert(db, [self._audit], self._clock)
        self._hook("audit")
        return await self._answer(db, done, draft.entries)

    async def _answer(
        self, db: Connection, done: Mapping[str, int], entries: Sequence[JournalEntry]
    ) -> list[JournalEntry]:  # fmt: skip
        found = {entry.change_id: entry for entry in entries}
        if done:
            for entry in await journal.entries_among(db, self.user_id, sorted(done.values())):
                found[entry.change_id] = replace(entry, repeated=True)
        return [found[change.change_id] for change in self.changes]

    async def _put_records(self, db: Connection, draft: Draft) -> None:
        replaced = sorted(draft.was_current & (draft.written.keys() | draft.left.keys()))
        made = []
        for slot, stored in draft.written.items():
            features, _ = self._read.get(id(draft.given[slot]), (NO_FEATURES, None))
            made.append((outline_row(slot, stored.record, features), stored.record.unique()))
        await put_records(db, self.user_id, replaced, made)

    async def _put_dues(self, db: Connection, draft: Draft, put_away: Set[str]) -> None:
        """Note when what was written is due for a job, and that what left is due no more."""
        keys = fading.known(draft)
        used = await usage(db, self.user_id, keys) if keys else {}
        dues = fading.written(draft, used, self._laws)
        await settle(db, self.user_id, dues)
        sql = load_blocks(__package__, "usage.sql")
        away = put_away | {due.id for due in dues if due.kind == "Conversation" and due.due_at is None}
        if names := [name for name in fading.went_on(draft) if name in away]:
            await db.execute(sql["went_on"], {"user_id": self.user_id, "ids": names, "at": draft.at})
        if gone := fading.left(draft):
            await db.execute(sql["never_due"], {"user_id": self.user_id, **journal.columns(gone)})

    async def _put_words(self, db: Connection, draft: Draft, found: Found) -> None:
        """Index what is new or reads differently now. What was retracted keeps its words, for `known_at`."""
        known = sorted(draft.was_known & draft.written.keys())
        before = await texts_before(db, self.user_id, known, draft.entries[0].seq) if known else {}
        texts = {slot: stored.record.searchable() for slot, stored in draft.written.items()}
        changed = {slot: text for slot, text in texts.items() if text != before.get(slot, "")}
        counts = {slot: self._read[id(draft.given[slot])][1] for slot, text in changed.items() if text}
        is_new = draft.new() >= changed.keys()
        await replace_words(db, self.user_id, {slot: before.get(slot, "") for slot in changed}, counts,
                            tail=found.tail if is_new else None)  # fmt: skip


async def put_journal(
    db: Connection, user_id: str, changes: Sequence[Sequence[object]], versions: Sequence[Sequence[object]],
    reach: Reach,
) -> None:  # fmt: skip
    """Write rows of the journal, which begin with the user, and how far it goes with them.

    Versions end with whether they are erased.
    """
    values = {
        "changes": rows_text(_CHANGE, (row[1:] for row in changes), free=_CHANGE[2:6]),
        "versions": rows_text(_VERSION, ((*row[1:], part) for part, row in enumerate(versions, 1))),
    }
    await db.execute(_sql()["put_journal"], {"user_id": user_id, **reach._asdict(), **values})


async def put_records(
    db: Connection, user_id: str, replaced: Sequence[int], made: Sequence[tuple[OutlineRow, str]]
) -> None:  # fmt: skip
    """Take slots out of the current records, and put rows with their unique values in."""
    if replaced:
        await db.execute(_sql()["drop_records"], {"user_id": user_id, "slots": list(replaced)})
    if made:
        given = ((*row, kept_key(key), as_uuid(user_id, row.conversation_id)) for row, key in made)
        await db.execute(
            _sql()["put_records"], {"user_id": user_id, "records": rows_text(_RECORD, given, free=("speaker",))}
        )


async def texts_before(db: Connection, user_id: str, slots: Sequence[int], seq: int) -> dict[int, str]:
    """The searchable text of each slot's latest after-image before a position; slots without one left out."""
    found = await rows(db, _sql()["last_payloads"], {"user_id": user_id, "slots": list(slots), "before": seq})
    return restoring.texts(user_id, found)


async def replace_words(
    db: Connection, user_id: str, before: Mapping[int, str], after: Mapping[int, Mapping[str, int]], *,
    tail: int | None = None,
) -> None:  # fmt: skip
    """Take the words of the old texts out of the index and put the new counts in; `tail` as for `words.write`."""
    removals = [(slot, tuple(read_words(text)[1])) for slot, text in before.items() if text]
    if removals:
        await words.remove(db, user_id, removals)
    await words.write(db, user_id, sorted(after.items()), tail=tail)


def _sql() -> Mapping[str, str]:
    return load_blocks(__package__, "append.sql")
