"""Brings the stores to this version's schema, which on servers happens only when somebody asks for it."""

from __future__ import annotations

from dataclasses import dataclass

from agentmem.model.clock import SystemClock
from agentmem.settings import Settings


@dataclass(frozen=True, slots=True)
class MigrateReport:
    """How many steps each server lacked, none of them for an embedded file, which opening brings along; whose it is."""

    applied: dict[str, int]
    store_id: str


async def migrate(settings: Settings) -> MigrateReport:
    """Apply what is missing, the log first; again does nothing. An embedded file is brought along by opening it.

    Run it with the URLs of users who own the tables. Raises ConfigError for a URL that cannot work, SchemaMismatch for
    a store of a newer version, of another program or of another log, StoreUnavailable when one cannot be reached.
    """
    clock = settings.clock or SystemClock()
    if settings.log_server is None or settings.graph_server is None:
        return await _embedded(settings)
    from agentmem.stores import neo4j, postgres  # lazy: extras

    applied = {"log": await postgres.migrate(settings.log_server, clock.now())}
    log = await postgres.open_log(settings.log_server, clock)
    try:
        store_id = (await log.meta())["store_id"]
    finally:
        await log.close()
    applied["graph"] = await neo4j.migrate(settings.graph_server, clock.now(), store_id=store_id)
    return MigrateReport(applied, store_id)


async def _embedded(settings: Settings) -> MigrateReport:
    from agentmem.stores import sqlite  # lazy: loads the driver

    log = await sqlite.open_log(settings.database, settings.clock or SystemClock())
    try:
        return MigrateReport({}, (await log.meta())["store_id"])
    finally:
        await log.close()
