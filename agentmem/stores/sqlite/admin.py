"""The upkeep of a file that a server does by itself: sizes, unused space, a copy; see `agentmem.stores.admin`."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import apsw

from agentmem.stores.sql.admin import SqlAdmin
from agentmem.stores.sql.log import MAINTENANCE_OPERATOR
from agentmem.stores.sqlite import vectors
from agentmem.stores.sqlite.connection import SqliteConnection
from agentmem.stores.sqlite.database import SqliteDatabase, make_private, translate_errors
from agentmem.stores.sqlite.write import SqliteRowWriter
from agentmem.stores.vectors.search import projection_name


class SqliteAdmin(SqlAdmin[SqliteDatabase]):
    """A StoreAdmin over one file."""

    rows = SqliteRowWriter()

    async def drop_embedders(self, keep: Collection[str]) -> list[str]:
        """Take out the vectors of every embedder but these; the identities taken out."""

        async def write(db: SqliteConnection) -> list[str]:
            gone = [identity for identity in vectors.list_embedders(db) if identity not in keep]
            for identity in gone:
                vectors.drop(db, identity)
                await db.run("admin.drop_watermarks", projection=projection_name(identity))
                await db.run("admin.drop_all_dead_letters", projection=projection_name(identity))
            return gone

        return await self._database.commit(MAINTENANCE_OPERATOR, write)

    async def sizes(self) -> dict[str, int]:
        """Bytes of the file and its write-ahead log, and how many of them are unused."""

        def read(db: SqliteConnection) -> dict[str, int]:
            page = int(db.pragma("page_size"))
            wal = self._database.path.with_name(self._database.path.name + "-wal")
            return {
                "store": page * int(db.pragma("page_count")),
                "unused": page * int(db.pragma("freelist_count")),
                "write_ahead_log": wal.stat().st_size if wal.exists() else 0,
            }

        return await self._database.read(read)

    async def compact(self) -> bool:
        """Rewrite the file without unused pages and cut the write-ahead log."""
        await self._database.rewrite()
        return await self._database.truncate_wal()

    async def copy_to(self, path: Path) -> None:
        """Copy the whole file page by page; the copy is readable by its owner only."""

        def read(db: SqliteConnection) -> None:
            with translate_errors(path):
                copy = apsw.Connection(str(path))
                try:
                    make_private(path)
                    with copy.backup("main", db, "main") as work:
                        work.step()
                finally:
                    copy.close()

        await self._database.read(read)
