"""The upkeep face of a database; see `agentmem.stores.admin` for its promises."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from agentmem.core.clock import from_micros
from agentmem.core.record import Key
from agentmem.core.scope import SYSTEM_USER, Operator, Scope
from agentmem.errors import ConfigError
from agentmem.stores import raw_import
from agentmem.stores.admin import JournalCounters, ProjectionLag, RawChange, RawUsage
from agentmem.stores.postgres import restore, terms, vectors
from agentmem.stores.postgres.columns import run_in_thread
from agentmem.stores.postgres.database import PostgresDatabase, fetch_rows, set_user
from agentmem.stores.postgres.meta import MAINTENANCE_OPERATOR, MAINTENANCE_SECONDS
from agentmem.stores.raw_import import TermCounts
from agentmem.stores.vectors.search import projection_name
from agentmem.text.templates import load_templates

if TYPE_CHECKING:
    from agentmem.stores.postgres.database import Connection

_SQL = load_templates(__package__, "admin.sql")

INDEX_BATCH_SIZE = 1000
SWITCH_SECONDS = 3.0  # all writers wait for a switch


def open_admin(database: PostgresDatabase) -> PostgresAdmin:
    """The upkeep face of an opened database."""
    return PostgresAdmin(database)


class PostgresAdmin:
    """An Upkeep over one database."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database

    async def journal_counters(self, scope: Scope) -> JournalCounters:
        """How far the user's journal goes; all zero for a user never seen."""
        return await self._database.read(scope, lambda db: restore.journal_counters(db, scope.user_id))

    async def raw_changes(self, scope: Scope, after_seq: int, limit: int) -> list[RawChange]:
        """The journal after a position as it is stored."""
        return await self._database.read(scope, lambda db: restore.raw_changes(db, scope.user_id, after_seq, limit))

    async def raw_usage(self, scope: Scope, after: tuple[str, str], limit: int) -> list[RawUsage]:
        """Usage rows after a (kind, id)."""
        return await self._database.read(scope, lambda db: restore.raw_usage(db, scope.user_id, after, limit))

    async def import_changes(self, scope: Scope, changes: Sequence[RawChange]) -> None:
        """Put raw changes back, in one transaction. What a text column cannot hold is InvalidRecord."""
        if not changes:
            return
        piece = raw_import.JournalSegment(scope.user_id, changes)
        await run_in_thread(piece.parse)
        restore.check_text(changes)
        await self._database.write(
            scope, lambda db: restore.import_segment(db, piece), timeout_seconds=MAINTENANCE_SECONDS
        )

    async def import_usage(self, scope: Scope, rows: Sequence[RawUsage]) -> None:
        """Put usage rows back as they were."""
        await self._database.write(
            scope, lambda db: restore.import_usage(db, scope.user_id, rows), timeout_seconds=MAINTENANCE_SECONDS
        )

    async def set_counters(self, scope: Scope, counters: JournalCounters) -> None:
        """Set the user's counters; Conflict when the journal ends elsewhere."""
        await self._database.write(scope, lambda db: restore.set_counters(db, scope.user_id, counters))

    async def rebuild_terms(self, scope: Scope) -> int:
        """Make the user's word index again from the last after-image of each record."""
        user_id = scope.user_id

        async def read(db: Connection) -> tuple[JournalCounters, dict[int, TermCounts | None]]:
            return await restore.journal_counters(db, user_id), await _term_counts(db, user_id, 0)

        before, found = await self._database.read(scope, read, timeout_seconds=MAINTENANCE_SECONDS)

        async def write(db: Connection) -> int:
            # Texts were read while nothing was locked; only what was written since is read now.
            held = await restore.lock_user(db, user_id)
            if held is None:
                return 0
            still = held.erasures == before.erasures
            since = await _term_counts(db, user_id, before.head if still else 0)
            listed = raw_import.build_index_rows({**(found if still else {}), **since})
            await terms.erase_user(db, user_id)
            for start in range(0, len(listed), INDEX_BATCH_SIZE):
                await terms.write(db, user_id, listed[start : start + INDEX_BATCH_SIZE])
            return len(listed)

        return await self._database.write(scope, write, timeout_seconds=MAINTENANCE_SECONDS)

    async def requeue_dead_letters(self, projection: str, scope: Scope) -> int:
        """Forget which changes of the user were parked."""
        return await self._database.write(scope, lambda db: _requeue_dead_letters(db, projection, scope.user_id))

    async def lagging_projections(
        self, projections: Collection[str], operator: Operator, limit: int = 100
    ) -> list[ProjectionLag]:
        """Users of whom a projection is not at the head, furthest behind first."""
        asked = {"projections": list(projections), "limit": limit}
        return [
            ProjectionLag(*row)
            for row in await self._database.read(operator, lambda db: fetch_rows(db, _SQL["lagging"], asked))
        ]

    async def heads(
        self, operator: Operator, users: Collection[str] | None = None, *, after: str = "", limit: int = 1000
    ) -> dict[str, int]:
        """The last journal position of these users, or of all, by name."""
        asked = {"users": list(users or ()), "after": after, "limit": limit}
        statement = _SQL["heads" if users is None else "heads_of"]
        return dict(await self._database.read(operator, lambda db: fetch_rows(db, statement, asked)))

    async def tombstones(self, scope: Scope, after: Key = ("", ""), limit: int = 1000) -> dict[Key, datetime]:
        """A page of the user's tombstones, by kind and id."""
        asked = {"user_id": scope.user_id, "kind": after[0], "id": after[1], "limit": limit}
        found = await self._database.read(scope, lambda db: fetch_rows(db, _SQL["erased"], asked))
        return {(kind, name): from_micros(at) for kind, name, at in found}

    async def start_embedder(self, identity: str) -> None:
        """Record which embedder is being built."""
        values = {"name": "embedder_next", "value": identity}
        await self._database.write(SYSTEM_USER, lambda db: db.execute(_SQL["set_meta"], values))

    async def switch_embedder(self, identity: str, max_lag: int = 0) -> bool:
        """Make an embedder the recorded one, when its vectors are at most `max_lag` changes from complete.

        All writers wait meanwhile. StoreUnavailable when one that is at work does not end within a few seconds.
        """
        asked = {"projection": projection_name(identity)}

        async def lacks(db: Connection) -> bool:
            return int((await fetch_rows(db, _SQL["behind"], asked))[0][0]) > max_lag

        async def write(db: Connection) -> bool:
            ((served, building),) = await fetch_rows(db, _SQL["meta"])
            if raw_import.is_switch_done(identity, served or "", building or ""):
                return True
            if await lacks(db):  # asked once more below: no writer is kept waiting for a switch that cannot be
                return False
            await db.execute(_SQL["no_writes"])
            if await lacks(db):
                return False
            await db.execute(_SQL["set_meta"], {"name": "embedder", "value": identity})
            await db.execute(_SQL["drop_meta"], {"name": "embedder_next"})
            return True

        return await self._database.write(MAINTENANCE_OPERATOR, write, timeout_seconds=SWITCH_SECONDS)

    async def drop_embedders(self, keep: Collection[str]) -> list[str]:
        """Take out the vectors of every embedder but these; the identities taken out."""
        known = await self._database.read(SYSTEM_USER, vectors.list_embedders)
        gone = [identity for identity in known if identity not in keep]
        for identity in gone:
            projection = projection_name(identity)
            # The notes first: cut off between the two, a second call still finds the embedder.
            await self._database.write(
                MAINTENANCE_OPERATOR,
                partial(_requeue_all_dead_letters, projection=projection),
                timeout_seconds=MAINTENANCE_SECONDS,
            )
            await vectors.drop(self._database, identity, MAINTENANCE_OPERATOR)
        return gone

    async def counts(self, scope: Scope) -> Mapping[str, Mapping[str, int]]:
        """How many of what the user has. Edges lie elsewhere."""
        return await self._database.read(scope, lambda db: _counts(db, scope.user_id))

    async def sizes(self) -> dict[str, int]:
        """Bytes of the database; its unused space and its write-ahead log are the server's own and count 0."""
        found = await self._database.read(SYSTEM_USER, lambda db: fetch_rows(db, _SQL["size"]))
        return {"store": int(found[0][0]), "unused": 0, "write_ahead_log": 0}

    async def compact(self) -> bool:
        """Nothing to do for a client: the server's vacuum keeps unused space for what comes."""
        return True

    async def copy_to(self, path: Path) -> None:
        """Raises ConfigError: a server's database is copied with its own tools."""
        raise ConfigError(f"{self._database.address} is a server; copy its database with pg_dump instead")


async def _requeue_dead_letters(db: Connection, projection: str, user_id: str) -> int:
    return int((await fetch_rows(db, _SQL["unpark"], {"projection": projection, "user_id": user_id}))[0][0])


async def _requeue_all_dead_letters(db: Connection, projection: str) -> None:
    for (user_id,) in await fetch_rows(db, _SQL["parked_for"], {"projection": projection}):
        await set_user(db, user_id)
        await _requeue_dead_letters(db, projection, user_id)


async def _term_counts(db: Connection, user_id: str, after_seq: int) -> dict[int, TermCounts | None]:
    """The term counts (None without text) of ordinals whose last after-image came since."""
    found = await fetch_rows(db, _SQL["last_images"], {"user_id": user_id, "after": after_seq})
    return await run_in_thread(partial(raw_import.term_counts, user_id, found))


async def _counts(db: Connection, user_id: str) -> dict[str, dict[str, int]]:
    asked = {"user_id": user_id}
    out = {name: dict(await fetch_rows(db, _SQL[f"by_{name}"], asked)) for name in ("kind", "status", "channel")}
    for name in ("journal", "words"):
        cursor = await db.execute(_SQL[name], asked)
        (row,) = await cursor.fetchall()
        out[name] = {column.name: int(value) for column, value in zip(cursor.description or (), row, strict=True)}
    out["passages"] = {}
    for identity, number, size in await fetch_rows(db, _SQL["embedders"]):
        counted = _SQL["passages"].replace("{dimensions}", str(size))
        out["passages"][identity] = int((await fetch_rows(db, counted, {**asked, "number": number}))[0][0])
    return out
