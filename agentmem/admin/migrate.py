"""Brings the stores to this version's schema, which on servers happens only when somebody asks for it."""

from __future__ import annotations

from dataclasses import dataclass

from agentmem.core.clock import SystemClock
from agentmem.engine.opening import open_recorded_embedders
from agentmem.models.protocols import parse_dimensions
from agentmem.settings.settings import Settings
from agentmem.stores.protocols import LogStore


@dataclass(frozen=True, slots=True)
class MigrateReport:
    """How many steps each server lacked, none of them for an embedded file, which opening brings along; whose it is.

    With the setting `graph_vectors` also how many vector indexes. On Postgres also which roles were made, and which an
    administrator still has to make.
    """

    applied: dict[str, int]
    store_id: str
    created_roles: tuple[str, ...] = ()
    missing_roles: tuple[str, ...] = ()


async def migrate(settings: Settings) -> MigrateReport:
    """Apply what is missing, the log first; again does nothing. An embedded file is brought along by opening it.

    Run it with the URLs of users who own the tables. Raises ConfigError for a URL that cannot work, SchemaMismatch for
    a store of a newer version, of another program or of another log, StoreUnavailable when one cannot be reached.
    """
    clock = settings.clock or SystemClock()
    if settings.log_server_url is None:
        return await _migrate_embedded(settings)
    from agentmem.stores import postgres  # lazy: an extra

    before = await postgres.find_missing_roles(settings.log_server_url)
    applied = {"log": await postgres.migrate(settings.log_server_url, clock.now())}
    missing = tuple(await postgres.find_missing_roles(settings.log_server_url))
    created = tuple(role for role in before if role not in missing)
    log = await postgres.open_log(settings.log_server_url, clock)
    try:
        store_id = (await log.meta())["store_id"]
        dimensions = await _read_dimensions(settings, log) if settings.graph_vectors else 0
    finally:
        await log.close()
    if settings.graph_server_url is None:
        return MigrateReport(applied, store_id, created, missing)
    from agentmem.stores import neo4j  # lazy: an extra

    applied["graph"] = await neo4j.migrate(settings.graph_server_url, clock.now(), store_id=store_id)
    if dimensions:
        applied["graph vectors"] = await neo4j.create_indexes(settings.graph_server_url, dimensions)
    return MigrateReport(applied, store_id, created, missing)


async def _read_dimensions(settings: Settings, log: LogStore) -> int:
    """Of the recorded embedder's vectors; a new store records now what it would at its first opening."""
    recorded = (await log.meta()).get("embedder")
    if recorded is None:
        (model,) = await open_recorded_embedders(settings, log, [])
        recorded = model.identity
        await model.close()
    return parse_dimensions(recorded)


async def _migrate_embedded(settings: Settings) -> MigrateReport:
    from agentmem.stores import sqlite  # lazy: loads the driver

    log = await sqlite.open_log(settings.database, settings.clock or SystemClock())
    try:
        return MigrateReport({}, (await log.meta())["store_id"])
    finally:
        await log.close()
