"""The embedded backend: log, projections and session cache in SQLite files. One SqliteDatabase object per file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from agentmem.core.clock import Clock
from agentmem.core.lifecycle import LifecyclePolicy
from agentmem.stores.due_updates import DEFAULT_POLICY
from agentmem.stores.sqlite.admin import open_admin
from agentmem.stores.sqlite.api_keys import open_api_keys
from agentmem.stores.sqlite.database import SqliteDatabase, is_missing, make_private, prepare_folder
from agentmem.stores.sqlite.graph import open_graph
from agentmem.stores.sqlite.jobs import open_job_queue
from agentmem.stores.sqlite.log import SqliteLog
from agentmem.stores.sqlite.migrations import check_schema, migrate
from agentmem.stores.sqlite.session import open_session
from agentmem.stores.sqlite.vectors import open_vectors
from agentmem.text.templates import load_migrations

__all__ = [
    "SqliteLog",
    "open_admin",
    "open_api_keys",
    "open_graph",
    "open_job_queue",
    "open_log",
    "open_session",
    "open_vectors",
]


async def open_log(
    path: Path,
    clock: Clock,
    *,
    policy: LifecyclePolicy = DEFAULT_POLICY,
    schema: Path | None = None,
    hook: Callable[[str], None] | None = None,
) -> SqliteLog:
    """Open the main file, made when it is missing, and bring its schema up to this version's.

    `policy` say when records are due for a job. `schema` is a folder of schema files in place of the package's own,
    `hook` is told of every step of a write; both are for tests. Raises ConfigError for a place that cannot work,
    SchemaMismatch for a newer file or another program's, and CorruptStore for a damaged one; those files are left as
    they are.
    """
    prepare_folder(path)
    steps = load_migrations("sqlite", schema)
    check_schema(path, steps)
    is_new = is_missing(path)
    if is_new:
        make_private(path)
    database = SqliteDatabase(path)
    try:
        await database.read(lambda db: None)
        await migrate(database, steps, clock.now())
    except BaseException:
        await database.close()
        raise
    return SqliteLog(database, clock, policy=policy, **({} if hook is None else {"hook": hook}))
