"""What an erasure takes out of a server's database besides what every store has: the vectors."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from agentmem.stores.postgres import vectors
from agentmem.stores.sql.erase import SqlErasure

if TYPE_CHECKING:
    from agentmem.stores.postgres.connection import PostgresConnection


class PostgresErasure(SqlErasure):
    """One erasure on a server."""

    async def _erase_vectors(self, db: PostgresConnection, ordinals: Collection[int] | None) -> None:
        await vectors.erase(db, self.scope.user_id, ordinals)

    async def _redact_user_audit(self, db: PostgresConnection) -> None:
        await db.run("audit.blank", texts=None, settings=None)

    async def _redact_audit_rows(
        self, db: PostgresConnection, keys: Collection[int], settings_keys: Collection[int]
    ) -> None:
        await db.run("audit.blank", texts=sorted(keys), settings=sorted(settings_keys))

    async def _vector_tables(self, db: PostgresConnection) -> list[str]:
        return await vectors.vector_tables(db)
