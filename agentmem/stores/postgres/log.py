"""LogStore on a Postgres server: appending, erasing and what else differs from a file. The rest is in `SqlLog`.

The hook is called when a step's statements were sent, which the server may not have run yet, and again where a
transaction is tried again.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from agentmem.core.changes import AuditEntry, Change, JournalEntry
from agentmem.core.clock import to_utc
from agentmem.core.columns import RecordColumnBatch
from agentmem.core.record import Key
from agentmem.core.scope import Operator, Scope
from agentmem.errors import AgentMemError
from agentmem.stores.postgres import records
from agentmem.stores.postgres.database import PostgresDatabase
from agentmem.stores.postgres.erase import PostgresErasure
from agentmem.stores.postgres.terms import PostgresTermIndex
from agentmem.stores.postgres.write import PostgresInlineVectorWriter, PostgresWrite
from agentmem.stores.protocols import InlineVectors
from agentmem.stores.sql import meta
from agentmem.stores.sql.log import SqlLog
from agentmem.stores.values import ErasureScan, Postings

if TYPE_CHECKING:
    from agentmem.stores.postgres.connection import PostgresConnection

PARTITION_DAYS_AHEAD = 7  # partitions made by maintenance
ERASE_SECONDS = 300.0
DEFERRED_REMOVALS = (
    "dead rows: until the server's vacuum has gone over the tables",
    "write-ahead log: until the server has let go of the files written before the erasure, archived ones too",
    "backups and replicas: those made before the erasure hold what was erased",
)


class PostgresLog(SqlLog[PostgresDatabase]):
    """A LogStore over one database."""

    uses_durable_counts = True

    def __init__(self, database: PostgresDatabase, *arguments: Any, **options: Any) -> None:
        super().__init__(database, *arguments, **options)
        self._term_index = PostgresTermIndex(database)

    async def append(
        self,
        changes: Sequence[Change],
        audit: AuditEntry | None = None,
        fence: int | None = None,
        vectors: InlineVectors | None = None,
    ) -> list[JournalEntry]:
        """See LogStore."""
        if not changes:
            return []
        inline = PostgresInlineVectorWriter(self.database, vectors)
        work = PostgresWrite(changes, audit, fence, self._clock, self._hook, policy=self._policy, vectors=inline)
        work.prepare()
        commit = partial(self.database.commit, work.user_id, work.apply, timeout_seconds=10 + len(changes) / 50)
        try:
            entries = await commit()
        except AgentMemError as error:
            if not inline.should_retry_without_vectors(error):
                raise
            # nothing was committed; they follow
            work.vectors = PostgresInlineVectorWriter(self.database, None)
            entries = await commit()
        else:
            await inline.on_committed()
        self._hook("committed")
        return entries

    async def erase(
        self,
        scope: Scope,
        keys: Sequence[Key] | None,
        *,
        operation_id: str,
        erased_at: datetime,
        seen_seq: int | None = None,
        pruned: Sequence[Key] = (),
    ) -> ErasureScan:
        """See LogStore. Unknown keys are passed over; what only the server and its owner can remove is `deferred`."""
        work = PostgresErasure(scope, keys, operation_id, erased_at, self._hook, seen_seq, pruned)
        await self.database.commit(scope, work.apply, timeout_seconds=ERASE_SECONDS)
        places, remnants = await self.database.query(scope, work.find_leftovers, timeout_seconds=ERASE_SECONDS)
        return ErasureScan(places, remnants, DEFERRED_REMOVALS if work.has_erased else ())

    async def match(self, terms: Sequence[str], scope: Scope) -> dict[str, Postings]:
        """See TermIndex."""
        return await self._term_index.match(terms, scope)

    async def stats(self, operator: Operator) -> dict[str, Any]:
        """Size of the database and counts of what is in it, over all users."""
        return {"place": self.database.address, **await self.database.query(operator, meta.count_rows)}

    async def check(self, operator: Operator) -> list[str]:
        """See LogStore. Looks at indexes too."""

        async def read(db: PostgresConnection) -> list[str]:
            fix = "the index {0} is not valid; run: REINDEX INDEX CONCURRENTLY {0}"
            return await meta.check(db) + [fix.format(name) for (name,) in await db.rows("meta.index_problems")]

        return await self.database.query(operator, read)

    async def _find_seq_at_time(self, db: PostgresConnection, user_id: str, moment: datetime) -> int:
        return await records.find_seq_at_time(db, user_id, moment)

    async def _read_columns(
        self, db: PostgresConnection, user_id: str, after_seq: int
    ) -> tuple[RecordColumnBatch, list[int]]:
        return await records.read_columns(db, user_id, after_seq)

    async def _drop_audit_days(self, db: PostgresConnection, now: datetime, keep_days: int) -> int:
        """Drops partitions, and creates those of the days ahead."""
        today = to_utc(now).astimezone(UTC).date()
        await db.value("audit.make_days", days=PARTITION_DAYS_AHEAD, today=today)
        return await db.change("audit.drop_old_days", days=keep_days, today=today)
