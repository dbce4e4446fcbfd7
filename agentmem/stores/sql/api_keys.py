"""Keys of the server in the log's database; see `agentmem.stores.api_keys` for the promises."""

from __future__ import annotations

from datetime import datetime

from agentmem.core.api_keys import ApiKey
from agentmem.core.clock import to_micros
from agentmem.core.scope import SYSTEM_USER, Operator
from agentmem.stores.api_keys import KEYS_MADE, FoundKey, from_row, to_row
from agentmem.stores.sql.connection import SqlConnection, SqlDatabase
from agentmem.stores.sql.meta import set_meta


class SqlApiKeys:
    """An ApiKeyStore over either relational store."""

    def __init__(self, database: SqlDatabase) -> None:
        self._database = database

    async def add(self, key: ApiKey, secret_hash: str) -> None:
        async def write(db: SqlConnection) -> None:
            await set_meta(db, {KEYS_MADE: "yes"})
            await db.set_user(key.user_id)
            await db.run("api_keys.add", **to_row(key, secret_hash))

        await self._database.commit(SYSTEM_USER, write)

    async def find(self, secret_hash: str) -> FoundKey | None:
        # A server shows the row of a key only to a session that has the hash of its secret.
        statements = "api_keys.present", "api_keys.find"
        _, rows = await self._database.query(SYSTEM_USER, lambda db: db.rows_of(*statements, secret_hash=secret_hash))
        return FoundKey(from_row(rows[0][1:]), rows[0][0]) if rows else None

    async def list_keys(self, user_id: str | None = None) -> list[ApiKey]:
        principal = Operator("keys") if user_id is None else user_id
        rows = await self._database.query(principal, lambda db: db.rows("api_keys.list", user_id=user_id))
        return [from_row(row) for row in rows]

    async def revoke(self, key: ApiKey, revoked_at: datetime) -> None:
        values = {"user_id": key.user_id, "id": key.id, "at": to_micros(revoked_at)}
        await self._database.commit(key.user_id, lambda db: db.run("api_keys.revoke", **values))

    async def note_use(self, key: ApiKey, used_at: datetime) -> None:
        values = {"user_id": key.user_id, "id": key.id, "at": to_micros(used_at)}
        await self._database.commit(key.user_id, lambda db: db.run("api_keys.set_last_use", **values), durable=False)

    async def were_made(self) -> bool:
        return bool(await self._database.query(SYSTEM_USER, lambda db: db.rows("api_keys.were_made", name=KEYS_MADE)))
