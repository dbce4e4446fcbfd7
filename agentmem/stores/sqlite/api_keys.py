"""Keys of the server in the embedded file; see `agentmem.stores.api_keys` for the promises."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from agentmem.core.api_keys import ApiKey
from agentmem.core.clock import to_micros
from agentmem.stores.api_keys import KEYS_MADE, FoundKey, from_row, to_row
from agentmem.stores.sqlite import meta
from agentmem.stores.sqlite.database import Connection, SqliteDatabase
from agentmem.text.templates import load_templates

_SQL = load_templates(__package__, "api_keys.sql")


class SqliteApiKeys:
    """An ApiKeyStore in one file."""

    def __init__(self, database: SqliteDatabase) -> None:
        self._database = database

    async def add(self, key: ApiKey, secret_hash: str) -> None:
        """Store a key, and note that this store has had one."""

        def write(db: Connection) -> None:
            meta.set_meta(db, {KEYS_MADE: "yes"})
            db.execute(_SQL["add"], to_row(key, secret_hash))

        await self._database.write(write)

    async def find(self, secret_hash: str) -> FoundKey | None:
        """The key with the secret of this hash; None when there is none."""
        asked = {"secret_hash": secret_hash}
        row: Any = await self._database.read(lambda db: db.execute(_SQL["find"], asked).fetchone())
        return None if row is None else FoundKey(from_row(row[1:]), row[0])

    async def list_keys(self, user_id: str | None = None) -> list[ApiKey]:
        """The keys of one user, or of all, latest first."""
        asked = {"user_id": user_id}
        rows: Any = await self._database.read(lambda db: db.execute(_SQL["list"], asked).fetchall())
        return [from_row(row) for row in rows]

    async def revoke(self, key: ApiKey, revoked_at: datetime) -> None:
        """End a key. One that was revoked before keeps that moment."""
        asked = {"user_id": key.user_id, "id": key.id, "at": to_micros(revoked_at)}
        await self._database.write(lambda db: db.execute(_SQL["revoke"], asked))

    async def note_use(self, key: ApiKey, used_at: datetime) -> None:
        """Note when a key was used last. In a power cut the last ones may be lost, so it waits for no disk."""
        asked = {"user_id": key.user_id, "id": key.id, "at": to_micros(used_at)}
        await self._database.write(lambda db: db.execute(_SQL["use"], asked), durable=False)

    async def were_made(self) -> bool:
        """Whether this store ever had a key."""
        asked = {"name": KEYS_MADE}
        return await self._database.read(lambda db: db.execute(_SQL["made"], asked).fetchone() is not None)


def open_api_keys(database: SqliteDatabase) -> SqliteApiKeys:
    """The keys of an opened file."""
    return SqliteApiKeys(database)
