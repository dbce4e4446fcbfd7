"""The log on a Postgres server (16 or newer): journal, records, words, usage and audit, walled off by user."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from agentmem.core.clock import Clock
from agentmem.core.lifecycle import LifecyclePolicy
from agentmem.core.scope import SYSTEM_USER
from agentmem.stores.due_updates import DEFAULT_POLICY
from agentmem.stores.postgres.admin import PostgresAdmin
from agentmem.stores.postgres.database import PostgresDatabase
from agentmem.stores.postgres.log import PostgresLog
from agentmem.stores.postgres.migrations import check_schema, find_missing_roles, migrate
from agentmem.stores.postgres.vectors import open_vectors
from agentmem.text.templates import load_migrations

__all__ = ["PostgresAdmin", "PostgresLog", "find_missing_roles", "migrate", "open_log", "open_vectors"]


async def open_log(
    url: str,
    clock: Clock,
    *,
    policy: LifecyclePolicy = DEFAULT_POLICY,
    schema: Path | None = None,
    hook: Callable[[str], None] | None = None,
) -> PostgresLog:
    """Open the log of a database that `migrate` has brought to this version's schema.

    `policy` say when records are due for a job. `schema` is a folder of schema files in place of the package's own,
    `hook` is called for every step of an append once its statements were sent, without waiting for the server; both are
    for tests. Raises ConfigError for a URL that cannot work, SchemaMismatch for a database at another schema,
    StoreUnavailable when it cannot be reached.
    """
    database, steps = PostgresDatabase(url), load_migrations("postgres", schema)
    try:
        await database.query(SYSTEM_USER, lambda db: check_schema(db, database.address, steps))
    except BaseException:
        await database.close()
        raise
    return PostgresLog(database, clock, policy=policy, **({} if hook is None else {"hook": hook}))
