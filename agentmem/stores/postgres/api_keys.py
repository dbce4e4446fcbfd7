"""Keys of the server on Postgres, walled off by user; see `agentmem.stores.api_keys` for the promises."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from agentmem.core.api_keys import ApiKey
from agentmem.core.clock import to_micros
from agentmem.core.scope import SYSTEM_USER, Operator
from agentmem.stores.api_keys import KEYS_MADE, FoundKey, from_row, to_row
from agentmem.stores.postgres import meta
from agentmem.stores.postgres.database import PostgresDatabase, fetch_rows, set_user
from agentmem.text.templates import load_templates

if TYPE_CHECKING:
    from agentmem.stores.postgres.database import Connection

_SQL = load_templates(__package__, "api_keys.sql")


class PostgresApiKeys:
    """An ApiKeyStore on a server."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database

    async def add(self, key: ApiKey, secret_hash: str) -> None:
        """Store a key, and note that this store has had one."""

        async def write(db: Connection) -> None:
            await meta.set_meta(db, {KEYS_MADE: "yes"})
            await set_user(db, key.user_id)
            await db.execute(_SQL["add"], to_row(key, secret_hash))

        await self._database.write(SYSTEM_USER, write)

    async def find(self, secret_hash: str) -> FoundKey | None:
        """The key with the secret of this hash; None when there is none."""
        asked = {"secret_hash": secret_hash}

        async def read(db: Connection) -> list[Any]:
            await db.execute(_SQL["present"], asked)
            return await fetch_rows(db, _SQL["find"], asked)

        rows = await self._database.read(SYSTEM_USER, read)
        return FoundKey(from_row(rows[0][1:]), rows[0][0]) if rows else None

    async def list_keys(self, user_id: str | None = None) -> list[ApiKey]:
        """The keys of one user, or of all, latest first. Those of all need a worker's role."""
        principal = Operator("keys") if user_id is None else user_id
        asked = {"user_id": user_id}
        rows = await self._database.read(principal, lambda db: fetch_rows(db, _SQL["list"], asked))
        return [from_row(row) for row in rows]

    async def revoke(self, key: ApiKey, revoked_at: datetime) -> None:
        """End a key. One that was revoked before keeps that moment."""
        asked = {"user_id": key.user_id, "id": key.id, "at": to_micros(revoked_at)}
        await self._database.write(key.user_id, lambda db: db.execute(_SQL["revoke"], asked))

    async def note_use(self, key: ApiKey, used_at: datetime) -> None:
        """Note when a key was used last. When the server fails, the last ones may be lost."""
        asked = {"user_id": key.user_id, "id": key.id, "at": to_micros(used_at)}
        await self._database.write_relaxed(key.user_id, lambda db: db.execute(_SQL["use"], asked))

    async def were_made(self) -> bool:
        """Whether this store ever had a key."""
        asked = {"name": KEYS_MADE}
        return bool(await self._database.read(SYSTEM_USER, lambda db: fetch_rows(db, _SQL["made"], asked)))


def open_api_keys(database: PostgresDatabase) -> PostgresApiKeys:
    """The keys of an opened database."""
    return PostgresApiKeys(database)
