"""What an erasure takes out of a file besides what every store has: the vectors."""

from __future__ import annotations

from collections.abc import Collection

from agentmem.stores.sql.erase import SqlErasure
from agentmem.stores.sqlite import audit, vectors
from agentmem.stores.sqlite.connection import SqliteConnection


class SqliteErasure(SqlErasure):
    """One erasure in a file."""

    async def _erase_vectors(self, db: SqliteConnection, ordinals: Collection[int] | None) -> None:
        vectors.erase(db, self.scope.user_id, ordinals)

    async def _redact_user_audit(self, db: SqliteConnection) -> None:
        await audit.redact_user(db, self.scope.user_id)

    async def _redact_audit_rows(
        self, db: SqliteConnection, keys: Collection[str], settings_keys: Collection[str]
    ) -> None:
        await audit.redact_rows(db, self.scope.user_id, keys, settings_keys)

    async def _vector_tables(self, db: SqliteConnection) -> list[str]:
        return vectors.vector_tables(db)
