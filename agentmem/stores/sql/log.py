"""LogStore over a relational store: what a file and a server do alike; each dialect adds the rest.

`hook` is called at each step of a write, for tests.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, ClassVar, Generic, TypeVar

from agentmem.core.changes import AuditEntry, JournalEntry
from agentmem.core.clock import Clock, add_time, to_micros
from agentmem.core.columns import RecordColumnBatch
from agentmem.core.lifecycle import LifecyclePolicy
from agentmem.core.record import Key, Record
from agentmem.core.scope import SYSTEM_USER, Operator, Scope
from agentmem.errors import InvalidRecord
from agentmem.stores.due_updates import DEFAULT_POLICY, UsageEvent
from agentmem.stores.sql import audit, journal, meta, records, terms, usage
from agentmem.stores.sql.connection import Principal, SqlConnection, SqlDatabase
from agentmem.stores.values import DeadLetter, Head, RecordUsage, Where

T = TypeVar("T")
D = TypeVar("D", bound=SqlDatabase)
USAGE_RECEIPT_RETENTION = timedelta(days=30)  # a receipt sent again after that counts again
MAINTENANCE_SECONDS = 600.0
MAINTENANCE_OPERATOR = Operator("maintenance")


def _ignore_step(step: str) -> None: ...


class SqlLog(ABC, Generic[D]):
    """The part of a LogStore that both relational stores share; see LogStore for what each method does."""

    uses_durable_counts: ClassVar[bool]  # whether a use is on the disk before it is acknowledged; a delivery never is

    def __init__(
        self,
        database: D,
        clock: Clock,
        *,
        policy: LifecyclePolicy = DEFAULT_POLICY,
        hook: Callable[[str], None] = _ignore_step,
    ) -> None:
        self.database = database
        self._clock = clock
        self._policy = policy
        self._hook = hook

    async def _read(self, principal: Principal, function: Callable[..., Coroutine[Any, Any, T]], *arguments: Any) -> T:
        return await self.database.query(principal, lambda db: function(db, *arguments))

    async def _write(self, principal: Principal, function: Callable[..., Coroutine[Any, Any, T]], *arguments: Any) -> T:
        return await self.database.commit(principal, lambda db: function(db, *arguments))

    async def write_audit(self, entries: Sequence[AuditEntry]) -> None:
        if entries:
            await self._write(audit.owner(entries[0]), audit.insert_of_many, entries, self._clock)

    async def record_usage(
        self,
        keys: Sequence[Key],
        scope: Scope,
        receipt_id: str,
        *,
        used: bool = False,
        used_at: datetime,
        context_tags: Sequence[str] = (),
        boost: float = 0.0,
        touched: bool = False,
    ) -> None:
        event = UsageEvent(receipt_id, used, used_at, tuple(context_tags), boost, touched)
        await self.database.commit(
            scope,
            lambda db: usage.record_usage(db, scope, keys, event, self._policy),
            durable=used and self.uses_durable_counts,
        )

    # -- reading the journal

    async def find_applied(self, change_id: str, request_hash: str, scope: Scope) -> JournalEntry | None:
        async def read(db: SqlConnection) -> JournalEntry | None:
            seqs = await journal.find_applied(db, scope.user_id, {change_id: request_hash})
            found = await journal.entries_at(db, scope.user_id, seqs.values())
            return replace(found[0], already_applied=True) if found else None

        return await self.database.query(scope, read)

    async def head(self, scope: Scope, after_seq: int = 0) -> Head:
        return await self._read(scope, journal.head, scope.user_id, after_seq)

    async def seq_at_time(self, scope: Scope, moment: datetime) -> int:
        return await self._read(scope, self._find_seq_at_time, scope.user_id, moment)

    async def changes(self, scope: Scope, after_seq: int, limit: int) -> list[JournalEntry]:
        return await self._read(scope, journal.entries_after, scope.user_id, after_seq, limit)

    async def versions(self, key: Key, scope: Scope) -> list[Record]:
        return await self._read(scope, journal.versions, scope.user_id, key)

    async def snapshot_at(self, keys: Sequence[Key] | None, scope: Scope, through_seq: int) -> dict[Key, Record]:
        return await self._read(scope, journal.snapshot_at, scope.user_id, keys, through_seq)

    async def operation(self, operation_id: str, scope: Scope) -> list[JournalEntry]:
        return await self._read(scope, journal.operation, scope.user_id, operation_id)

    async def changed_keys_since(self, keys: Sequence[Key], scope: Scope, after_seq: int) -> dict[Key, int]:
        return await self._read(scope, journal.changed_keys_since, scope.user_id, keys, after_seq)

    # -- reading records

    async def read_records(self, kind: str, ids: Sequence[str], scope: Scope) -> list[Record]:
        return await self._read(scope, records.read_records, scope.user_id, kind, ids)

    async def read_by_ordinal(
        self, ordinals: Sequence[int], scope: Scope, through_seq: int | None = None
    ) -> list[Record]:
        found = await self._read(scope, records.read_by_ordinal, scope.user_id, ordinals, through_seq)
        return [record for _, record in found]

    async def find(
        self,
        scope: Scope,
        where: Where,
        *,
        order: str = "seq",
        descending: bool = False,
        limit: int = 100,
        offset: int = 0,
    ) -> list[Record]:
        return await self._read(scope, records.find, scope.user_id, where, (order, descending), (limit, offset))

    async def find_field(self, scope: Scope, where: Where, field: str, *, limit: int) -> list[tuple[int, str]]:
        return await self._read(scope, records.find_field, scope.user_id, where, field, limit)

    async def count(self, scope: Scope, where: Where) -> int:
        return await self._read(scope, records.count, scope.user_id, where)

    async def read_columns(self, scope: Scope, after_seq: int) -> tuple[RecordColumnBatch, list[int], Head]:
        async def read(db: SqlConnection) -> tuple[RecordColumnBatch, list[int], Head]:
            changed, gone = await self._read_columns(db, scope.user_id, after_seq)
            return changed, gone, await journal.head(db, scope.user_id, after_seq)

        return await self.database.query(scope, read)

    async def read_columns_patch(self, scope: Scope, through_seq: int) -> tuple[RecordColumnBatch, list[int]]:
        return await self._read(scope, records.read_columns_patch, scope.user_id, through_seq)

    async def audit_rows(self, scope: Scope, **filters: Any) -> list[dict[str, Any]]:
        return await self._read(scope, audit.audit_rows, scope.user_id, filters)

    async def write_receipt(
        self, scope: Scope, receipt_id: str, receipt: str, created_at: datetime, seen_seq: int | None = None
    ) -> None:
        await self._write(scope, audit.write_receipt, (scope.user_id, receipt_id), receipt, created_at, seen_seq)

    async def find_receipt(self, receipt_id: str, scope: Scope) -> str | None:
        return await self._read(scope, audit.find_receipt, scope.user_id, receipt_id)

    async def usage(self, keys: Sequence[Key], scope: Scope) -> dict[Key, RecordUsage]:
        return await self._read(scope, usage.usage, scope.user_id, keys)

    # -- the store as a whole

    async def users(self, operator: Operator, limit: int = 1000, after: str = "") -> list[str]:
        return await self._read(operator, meta.users, limit, after)

    async def lagging_users(self, projection: str, operator: Operator, limit: int = 100) -> list[str]:
        return await self._read(operator, meta.lagging_users, projection, limit)

    async def write_watermark_hints(self, projection: str, watermarks: Mapping[str, int]) -> None:
        if watermarks:
            await self._write(min(watermarks), meta.write_watermark_hints, projection, watermarks)

    async def write_dead_letter(self, dead_letter: DeadLetter) -> None:
        await self._write(dead_letter.user_id, meta.write_dead_letter, dead_letter)

    async def dead_letters(self, scope: Scope | Operator) -> list[DeadLetter]:
        return await self._read(scope, meta.dead_letters, scope)

    async def meta(self) -> dict[str, str]:
        return await self._read(SYSTEM_USER, meta.meta)

    async def set_meta(self, values: Mapping[str, str]) -> None:
        await self._write(SYSTEM_USER, meta.set_meta, values)

    async def init_meta(self, values: Mapping[str, str]) -> dict[str, str]:
        return await self.database.commit(SYSTEM_USER, lambda db: meta.set_meta(db, values, overwrite=False))

    async def increment_openings(self) -> int:
        return await self._write(SYSTEM_USER, meta.increment_openings)

    async def acquire_lease(self, name: str, ttl: float, owner: str) -> int | None:
        return await self._write(SYSTEM_USER, meta.acquire_lease, name, ttl, owner)

    async def release_lease(self, name: str, owner: str) -> None:
        await self._write(SYSTEM_USER, meta.release_lease, name, owner)

    async def maintain(self, now: datetime, keep_audit_days: int) -> dict[str, int]:
        if keep_audit_days < 1:
            raise InvalidRecord(f"keep_audit_days must be 1 or more, got {keep_audit_days}", field="keep_audit_days")
        done = {"words_folded": 0}
        for (user_id,) in await self.database.query(MAINTENANCE_OPERATOR, lambda db: db.rows("meta.users_with_delta")):
            merge = partial(terms.lock_and_merge, user_id=user_id)
            done["words_folded"] += await self.database.commit(user_id, merge, timeout_seconds=MAINTENANCE_SECONDS)

        async def drop(db: SqlConnection) -> dict[str, int]:
            receipts = add_time(now, -timedelta(days=keep_audit_days)), add_time(now, -USAGE_RECEIPT_RETENTION)
            return {
                "audit_rows_dropped": await self._drop_audit_days(db, now, keep_audit_days),
                "receipts_dropped": await db.change("audit.drop_receipts", before=to_micros(receipts[0])),
                "usage_receipts_dropped": await db.change("usage.drop_receipts", before=to_micros(receipts[1])),
            }

        return done | await self.database.commit(MAINTENANCE_OPERATOR, drop, timeout_seconds=MAINTENANCE_SECONDS)

    async def close(self) -> None:
        """Close the connections; a second call does nothing."""
        await self.database.close()

    # -- what each dialect adds

    @abstractmethod
    async def _find_seq_at_time(self, db: Any, user_id: str, moment: datetime) -> int:
        """The last position recorded at or before a moment; 0 before the first."""

    @abstractmethod
    async def _read_columns(self, db: Any, user_id: str, after_seq: int) -> tuple[RecordColumnBatch, list[int]]:
        """Rows of the records changed after a position, and ordinals that left since."""

    @abstractmethod
    async def _drop_audit_days(self, db: Any, now: datetime, keep_days: int) -> int:
        """Drop the rows of whole days (UTC) more than `keep_days` before today; returns how many rows went."""
