"""The upkeep of a database on a server that differs from a file's; see `agentmem.stores.admin` for the promises."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from agentmem.core.scope import SYSTEM_USER
from agentmem.errors import ConfigError, InvalidRecord
from agentmem.stores.admin import RawChange
from agentmem.stores.codec import sanitize_text
from agentmem.stores.postgres import vectors
from agentmem.stores.postgres.database import PostgresDatabase
from agentmem.stores.postgres.write import PostgresRowWriter
from agentmem.stores.sql.admin import SqlAdmin
from agentmem.stores.sql.log import MAINTENANCE_OPERATOR, MAINTENANCE_SECONDS
from agentmem.stores.vectors.search import projection_name

if TYPE_CHECKING:
    from agentmem.stores.postgres.connection import PostgresConnection


class PostgresAdmin(SqlAdmin[PostgresDatabase]):
    """A StoreAdmin over one database."""

    rows = PostgresRowWriter()

    def _check_text(self, changes: Sequence[RawChange]) -> None:
        for change in changes:
            named = [("change_id", change.change_id), ("payload", change.payload)]
            for version in change.versions:
                named += [("kind", version.kind), ("id", version.id), ("channel", version.channel)]
            for name, text in named:
                if sanitize_text(text) != text:
                    raise InvalidRecord(f"{name} of change {change.seq} holds what a Postgres cannot keep", field=name)

    async def drop_embedders(self, keep: Collection[str]) -> list[str]:
        """Take out the vectors of every embedder but these; the identities taken out."""
        known = await self._database.query(SYSTEM_USER, vectors.list_embedders)
        gone = [identity for identity in known if identity not in keep]
        for identity in gone:
            # The dead letters first: cut off between the two, a second call still finds the embedder.
            await self._database.commit(
                MAINTENANCE_OPERATOR,
                partial(_drop_all_dead_letters, projection=projection_name(identity)),
                timeout_seconds=MAINTENANCE_SECONDS,
            )
            await vectors.drop(self._database, identity, MAINTENANCE_OPERATOR)
        return gone

    async def sizes(self) -> dict[str, int]:
        """Bytes of the database; its unused space and its write-ahead log are the server's own and count 0."""
        found = await self._database.query(SYSTEM_USER, lambda db: db.value("admin.size"))
        return {"store": int(found), "unused": 0, "write_ahead_log": 0}

    async def compact(self) -> bool:
        """Nothing to do for a client: the server's vacuum keeps unused space for what comes."""
        return True

    async def copy_to(self, path: Path) -> None:
        """Raises ConfigError: a server's database is copied with its own tools."""
        raise ConfigError(f"{self._database.address} is a server; copy its database with pg_dump instead")


async def _drop_all_dead_letters(db: PostgresConnection, projection: str) -> None:
    for (user_id,) in await db.rows("admin.users_with_dead_letters", projection=projection):
        await db.set_user(user_id)
        await db.change("admin.drop_dead_letters", projection=projection, user_id=user_id)
