"""The embedded backend: log, projections and session cache in SQLite files. One Database object per file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from agentmem.model.clock import Clock
from agentmem.model.dues import Laws
from agentmem.stores.fading import DEFAULT
from agentmem.stores.sqlite.connection import Database
from agentmem.stores.sqlite.graph import open_graph
from agentmem.stores.sqlite.jobs import open_jobs
from agentmem.stores.sqlite.log import SqliteLog
from agentmem.stores.sqlite.migrations import examine, migrate
from agentmem.stores.sqlite.place import is_missing, make_private, prepare_folder
from agentmem.stores.sqlite.session import open_session
from agentmem.stores.sqlite.upkeep import open_upkeep
from agentmem.stores.sqlite.vectors import open_vectors
from agentmem.text.blocks import load_schema

__all__ = ["SqliteLog", "open_graph", "open_jobs", "open_log", "open_session", "open_upkeep", "open_vectors"]


async def open_log(
    path: Path, clock: Clock, *, laws: Laws = DEFAULT, schema: Path | None = None,
    hook: Callable[[str], None] | None = None,
) -> SqliteLog:  # fmt: skip
    """Open the main file, made when it is missing, and bring its schema up to this version's.

    `laws` say when records are due for a job. `schema` is a folder of schema files in place of the package's own,
    `hook` is told of every step of a write; both are for tests. Raises ConfigError for a place that cannot work,
    SchemaMismatch for a newer file or another program's, and CorruptStore for a damaged one; those files are left as
    they are.
    """
    prepare_folder(path)
    steps = load_schema("sqlite", schema)
    examine(path, steps)
    is_new = is_missing(path)
    if is_new:
        make_private(path)
    database = Database(path)
    try:
        await database.read(lambda db: None)
        await migrate(database, steps, clock.now())
    except BaseException:
        await database.close()
        raise
    return SqliteLog(database, clock, laws=laws, **({} if hook is None else {"hook": hook}))
