"""The steps of a write: what is there, journal, records, due dates, words, and what each dialect adds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Protocol, TypeAlias

from agentmem.core.changes import AuditEntry, Change, JournalEntry
from agentmem.core.clock import Clock, to_micros
from agentmem.core.columns import RecordRow
from agentmem.core.lifecycle import LifecyclePolicy
from agentmem.errors import Conflict, InvalidRecord
from agentmem.stores import due_updates, raw_import
from agentmem.stores.admin import JournalCounters
from agentmem.stores.codec import NO_FEATURES, build_column_row
from agentmem.stores.sql import audit, graph, journal, terms
from agentmem.stores.sql.connection import Keys, Row, SqlConnection
from agentmem.stores.sql.jobs import set_due_dates
from agentmem.stores.sql.usage import usage
from agentmem.stores.write_plan import ReadSet, WritePlan, check_idempotency, check_records
from agentmem.text.tokenizer import TextFeatures, extract_features_and_terms

RecordRows: TypeAlias = Sequence[tuple[RecordRow, str]]
LEASE_LOST = "the lease of this writer has passed to another; nothing was written"


@dataclass(frozen=True, slots=True)
class LockedReadSet:
    """The state that some changes touch, which of them the journal has, and how many rows the delta of the words has.

    `archived` are the conversations of their turns that are due for nothing; None when that was not read.
    """

    read_set: ReadSet
    applied_rows: Iterable[Row]  # change_id, seq, payload fingerprint
    archived: Set[str] | None
    delta_size: int


class JournalRows(NamedTuple):
    """Rows of the journal, which begin with the user, and how far it goes then; versions end with `erased`."""

    changes: Sequence[Sequence[Any]]
    versions: Sequence[Sequence[Any]]
    counters: JournalCounters


class RowWriter(Protocol):
    """How a dialect writes many rows at once."""

    async def write_journal(self, db: Any, user_id: str, rows: JournalRows) -> None:
        """Write rows of the journal, and its new end."""
        ...

    async def write_records(self, db: Any, user_id: str, ordinals: Sequence[int], rows: RecordRows) -> None:
        """Take ordinals out of the current records, and put rows with their unique values in."""
        ...


class VectorWriter(Protocol):
    """Writes the vectors of what was just written, in the same transaction."""

    async def write(self, db: Any, entries: Sequence[JournalEntry]) -> None:
        """Write the vectors of entries that were not applied before; nothing where they follow."""
        ...


class SqlWrite(ABC):
    """The work of one `append`: `prepare` before the user's lock is taken, `apply` inside the transaction.

    `apply` may run again where the connection broke. `hook` is called at each step, `policy` says when records are due.
    """

    rows: ClassVar[RowWriter]

    def __init__(
        self,
        changes: Sequence[Change],
        audit: AuditEntry | None,
        fence: int | None,
        clock: Clock,
        hook: Callable[[str], None],
        *,
        policy: LifecyclePolicy,
        vectors: VectorWriter,
    ) -> None:
        self.changes = changes
        self.vectors = vectors
        self.user_id = changes[0].scope.user_id
        self._audit = audit
        self._fence = fence
        self._clock = clock
        self._hook = hook
        self._policy = policy
        self._text_features: dict[int, tuple[TextFeatures, Mapping[str, int]]] = {}
        self._request_hashes: dict[str, str] = {}

    def prepare(self) -> None:
        """Check the records and read their texts. Raises InvalidRecord, and Conflict for one id of two changes."""
        for change in self.changes:
            if change.scope.user_id != self.user_id:
                raise InvalidRecord("one write belongs to one user", field="user_id")
            if self._request_hashes.setdefault(change.change_id, change.request_hash) != change.request_hash:
                raise Conflict("one id or idempotency_key is used for two different things in this write")
            check_records(self.user_id, (*change.upserts, *change.inserts_if_absent))
            for record in (*change.upserts, *change.inserts_if_absent):
                if text := record.search_text():
                    self._text_features[id(record)] = extract_features_and_terms(text)

    async def apply(self, db: Any) -> list[JournalEntry]:
        """Do the write, vectors last."""
        entries = await self._write_changes(db)
        await self.vectors.write(db, entries)
        self._hook("vectors")
        return entries

    async def _write_changes(self, db: Any) -> list[JournalEntry]:
        """Write step by step, the journal before what is made from it."""
        locked = await self._lock_and_read(db)
        applied = check_idempotency(
            self._request_hashes, ((name, seq, mark) for name, seq, mark in locked.applied_rows)
        )
        fresh = {change.change_id: change for change in self.changes if change.change_id not in applied}
        if not fresh:
            return await self._collect_entries(db, applied, [])
        plan = WritePlan(self.user_id, locked.read_set, to_micros(self._clock.now()))
        for change in fresh.values():
            plan.add(change)
        self._hook("checked")
        counters = JournalCounters(plan.read_set.head, plan.read_set.next_ordinal, 0, plan.recorded_at)
        versions = [(*row, False) for row in plan.version_rows]
        await self.rows.write_journal(db, self.user_id, JournalRows(plan.change_rows, versions, counters))
        self._hook("journal")
        await self._write_records(db, plan)
        self._hook("records")
        await self._write_due_dates(db, plan, locked.archived)
        await self._write_terms(db, plan, locked.delta_size)
        self._hook("words")
        await graph.update_edges(
            db,
            self.user_id,
            list(plan.upserts.values()),
            list(plan.removed.values()),
            new_ordinals=plan.new_ordinals(),
            known_ordinals=plan.read_set.ordinals_by_key(),
        )
        self._hook("graph")
        if self._audit is not None:
            await audit.insert(db, [self._audit], self._clock)
        self._hook("audit")
        return await self._collect_entries(db, applied, plan.entries)

    @abstractmethod
    async def _lock_and_read(self, db: Any) -> LockedReadSet:
        """Take the user's lock and read what the changes touch. Raises LeaseLost for a fence that no lease has."""

    async def _collect_entries(
        self, db: SqlConnection, applied: Mapping[str, int], entries: Sequence[JournalEntry]
    ) -> list[JournalEntry]:
        found = {entry.change_id: entry for entry in entries}
        for entry in await journal.entries_at(db, self.user_id, sorted(applied.values())):
            found[entry.change_id] = replace(entry, already_applied=True)
        return [found[change.change_id] for change in self.changes]

    async def _write_records(self, db: SqlConnection, plan: WritePlan) -> None:
        replaced = sorted(plan.current_before & (plan.upserts.keys() | plan.removed.keys()))
        made = []
        for ordinal, stored in plan.upserts.items():
            features, _ = self._text_features.get(id(plan.originals[ordinal]), (NO_FEATURES, None))
            made.append((build_column_row(ordinal, stored.record, features), stored.record.dedup_key()))
        await self.rows.write_records(db, self.user_id, replaced, made)

    async def _write_due_dates(self, db: SqlConnection, plan: WritePlan, archived: Set[str] | None) -> None:
        """Write when what was written is due for a job, and that what left is due no more."""
        keys = due_updates.keys_needing_usage(plan)
        used = await usage(db, self.user_id, keys) if keys else {}
        dues = due_updates.compute_due_after_write(plan, used, self._policy)
        await set_due_dates(db, self.user_id, dues)
        names = due_updates.list_continued_conversations(plan)
        if archived is not None:
            away = archived | {due.id for due in dues if due.kind == "Conversation" and due.due_at is None}
            names = [name for name in names if name in away]
        if names:
            await db.run("usage.continue_conversations", user_id=self.user_id, ids=names, at=plan.recorded_at)
        if gone := due_updates.list_removed_due_keys(plan):
            await db.run("usage.clear_due_dates", user_id=self.user_id, keys=Keys(gone))

    async def _write_terms(self, db: SqlConnection, plan: WritePlan, delta_size: int) -> None:
        """Index what is new or reads differently now. What was retracted keeps its words, for `known_at`."""
        known = sorted(plan.known_before & plan.upserts.keys())
        before = await read_texts_before(db, self.user_id, known, plan.entries[0].seq) if known else {}
        texts = {ordinal: stored.record.search_text() for ordinal, stored in plan.upserts.items()}
        changed = {ordinal: text for ordinal, text in texts.items() if text != before.get(ordinal, "")}
        counts = {
            ordinal: self._text_features[id(plan.originals[ordinal])][1] for ordinal, text in changed.items() if text
        }
        old = {ordinal: before.get(ordinal, "") for ordinal in changed}
        is_new = plan.new_ordinals() >= changed.keys()
        await terms.replace(db, self.user_id, old, counts, delta_size=delta_size if is_new else None)


async def read_texts_before(db: SqlConnection, user_id: str, ordinals: Sequence[int], seq: int) -> dict[int, str]:
    """The searchable text of each ordinal's latest after-image before a position; ordinals without one left out."""
    found = await db.rows("write.last_payloads", user_id=user_id, ordinals=list(ordinals), before=seq)
    return raw_import.decode_texts(user_id, found)
