"""What an erasure takes out of a file besides what every store has: the graph's edges and the vectors."""

from __future__ import annotations

from collections.abc import Collection

from agentmem.core.changes import RemovedRecord
from agentmem.stores.sql.erase import SqlErasure
from agentmem.stores.sqlite import audit, graph, vectors
from agentmem.stores.sqlite.connection import SqliteConnection


class SqliteErasure(SqlErasure):
    """One erasure in a file."""

    more_scanned_tables = ("graph_edges",)

    async def _erase_projections(self, db: SqliteConnection) -> None:
        user_id = self.scope.user_id
        if self.keys is None:
            graph.erase_user(db, user_id)
            vectors.erase(db, user_id, None)
        else:
            graph.apply(
                db,
                user_id,
                (),
                [RemovedRecord(ordinal, kind, name, erased=True) for ordinal, kind, name in self.targets],
            )
            vectors.erase(db, user_id, self._ordinals)

    async def _redact_user_audit(self, db: SqliteConnection) -> None:
        await audit.redact_user(db, self.scope.user_id)

    async def _redact_audit_rows(
        self, db: SqliteConnection, keys: Collection[str], settings_keys: Collection[str]
    ) -> None:
        await audit.redact_rows(db, self.scope.user_id, keys, settings_keys)

    async def _vector_tables(self, db: SqliteConnection) -> list[str]:
        return vectors.vector_tables(db)
