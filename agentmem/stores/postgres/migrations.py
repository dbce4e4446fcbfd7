"""Brings a database to this version's schema when it is asked to, and refuses one that is not at it.

A client never migrates. All steps are one transaction; two migrations at once take turns, and the second finds the work
done.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from agentmem.core.clock import SystemClock
from agentmem.core.scope import SYSTEM_USER, Scope
from agentmem.core.telemetry import WARNING, log_event
from agentmem.errors import SchemaMismatch
from agentmem.stores.postgres.database import PostgresDatabase, fetch_rows
from agentmem.stores.postgres.log import PARTITION_DAYS_AHEAD
from agentmem.stores.sql.graph import SqlGraph
from agentmem.text.templates import Migration, load_migrations, load_templates

if TYPE_CHECKING:
    from agentmem.stores.postgres.connection import PostgresConnection

_SQL = load_templates(__package__, "migrations.sql")

MIN_SERVER_VERSION = 160000  # its number: partitions, security_invoker and STORAGE in CREATE TABLE as we use them
USER_PAGE_SIZE = 1000
MIGRATION_SECONDS = 600.0  # for one index over all that is there


async def migrate(url: str, now: datetime, *, schema: Path | None = None) -> int:
    """Apply the steps that the database lacks and return how many; 0 for a current one.

    `schema` is a folder of schema files in place of the package's own. Raises ConfigError for a URL that cannot work,
    SchemaMismatch for a database of a newer version or of another program, StoreUnavailable when it cannot be reached.
    """
    steps = load_migrations("postgres", schema)
    database = PostgresDatabase(url)

    async def apply(connection: PostgresConnection) -> int:
        await connection.execute(_SQL["lock"])
        await connection.execute(_SQL["search_path"])
        await _check_server_version(connection, database.address)
        before = await _schema_version(connection)
        _check_not_newer(before, steps, database.address)
        if before == 0 and (await fetch_rows(connection, _SQL["tables"]))[0][0]:
            raise SchemaMismatch(f"{database.address} is the database of another program; create one for agentmem")
        for step in steps[before:]:
            await connection.execute(step.text)
            done = {"version": step.version, "description": step.name, "at": now}
            await connection.execute(_SQL["applied"], done)
        if before == 0:
            store_id = str(uuid.UUID(bytes=os.urandom(16), version=4))
            await connection.execute(_SQL["identity"], {"store_id": store_id})
            await connection.execute(_SQL["partitions"], {"days": PARTITION_DAYS_AHEAD})
        await _grant_roles(connection, database.address)
        return len(steps) - before

    done = await database.run_dedicated(SYSTEM_USER, apply, timeout_seconds=MIGRATION_SECONDS)
    try:
        await _make_edges(database)
    finally:
        await database.close()
    return done


async def _grant_roles(connection: PostgresConnection, address: str) -> None:
    """Make roles and grants that are missing, as in a restored database; a warning says what an administrator runs."""
    if (await fetch_rows(connection, _SQL["has_roles"]))[0][0]:
        ((commands,),) = await fetch_rows(connection, _SQL["grant_roles"])
        if commands:
            fix = f"as an administrator run: {commands}; then: agentmem admin migrate"
            log_event(WARNING, "roles_missing", address=address, fix=fix)


async def find_missing_roles(url: str) -> list[str]:
    """Which of agentmem's roles the cluster lacks: they are not in a dump, so a restored database may find none."""
    database = PostgresDatabase(url)
    try:
        return [role for (role,) in await database.query(SYSTEM_USER, lambda db: fetch_rows(db, _SQL["missing_roles"]))]
    finally:
        await database.close()


async def _make_edges(database: PostgresDatabase) -> None:
    """Make the edges of users whose records were written before there were any; what is cut off goes on next time."""
    graph = SqlGraph(database, SystemClock())
    while users := await database.query(SYSTEM_USER, lambda db: db.rows("graph.cleared_users", limit=USER_PAGE_SIZE)):
        for (user_id,) in users:
            await graph.rebuild(Scope(user_id))


async def check_schema(connection: PostgresConnection, address: str, steps: Sequence[Migration]) -> None:
    """Raise SchemaMismatch unless the database is at the schema of these steps."""
    found = await _schema_version(connection)
    _check_not_newer(found, steps, address)
    if found < len(steps):
        raise SchemaMismatch(
            f"{address} has schema {found}, this version needs {len(steps)}; run: agentmem admin migrate"
        )


async def _schema_version(connection: PostgresConnection) -> int:
    if not (await fetch_rows(connection, _SQL["is_versioned"]))[0][0]:
        return 0
    return int((await fetch_rows(connection, _SQL["version"]))[0][0])


async def _check_server_version(connection: PostgresConnection, address: str) -> None:
    found = int((await fetch_rows(connection, _SQL["server"]))[0][0])
    if found < MIN_SERVER_VERSION:
        raise SchemaMismatch(
            f"{address} is Postgres {found // 10000}; agentmem needs {MIN_SERVER_VERSION // 10000} or newer"
        )


def _check_not_newer(version: int, steps: Sequence[Migration], address: str) -> None:
    if version > len(steps):
        raise SchemaMismatch(
            f"{address} has schema {version}, written by a newer version; this one knows schema {len(steps)}. "
            "Upgrade with: pip install --upgrade agentmem-graph"
        )
