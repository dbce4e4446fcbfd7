"""The embedded backend: log, projections and session cache in SQLite files. One SqliteDatabase object per file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from agentmem.core.clock import Clock
from agentmem.core.lifecycle import LifecyclePolicy
from agentmem.core.telemetry import INFO, log_event
from agentmem.errors import StoreUnavailable
from agentmem.stores.due_updates import DEFAULT_POLICY
from agentmem.stores.sqlite.admin import SqliteAdmin
from agentmem.stores.sqlite.database import (
    SqliteDatabase,
    find_write_obstacle,
    is_missing,
    is_out_of_room,
    make_private,
    prepare_folder,
)
from agentmem.stores.sqlite.file_guard import FileGuard
from agentmem.stores.sqlite.log import SqliteLog
from agentmem.stores.sqlite.migrations import check_file, check_for_reading, migrate
from agentmem.stores.sqlite.session import open_session
from agentmem.stores.sqlite.vectors import open_vectors
from agentmem.text.templates import Migration, load_migrations

__all__ = [
    "SqliteAdmin",
    "SqliteLog",
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

    Where it cannot be written, it is opened for reading, and every write raises StoreUnavailable with the reason.
    `policy` say when records are due for a job. `schema` is a folder of schema files in place of the package's own,
    `hook` is called for every step of a write; both are for tests. Raises ConfigError for a place that cannot work,
    SchemaMismatch for a newer file or another program's, and CorruptStore for a damaged one, or one that is missing,
    empty, replaced or older than what was acknowledged; those files are left as they are.
    """
    prepare_folder(path)
    steps = load_migrations("sqlite", schema)
    obstacle = find_write_obstacle(path)
    try:
        database = await (
            _open_for_reading(path, steps, obstacle) if obstacle else _open_for_writing(path, steps, clock)
        )
    except StoreUnavailable as error:
        if obstacle or is_missing(path) or not is_out_of_room(error):
            raise
        database = await _open_for_reading(path, steps, "there is no room left to write")
    return SqliteLog(database, clock, policy=policy, **({} if hook is None else {"hook": hook}))


async def _open_for_writing(path: Path, steps: Sequence[Migration], clock: Clock) -> SqliteDatabase:
    check_file(path, steps)
    if is_missing(path):
        make_private(path)
    database = SqliteDatabase(path, guard=FileGuard(path))
    try:
        await database.read(lambda db: None)
        await migrate(database, steps, clock.now())
    except BaseException:
        await database.close()
        raise
    return database


async def _open_for_reading(path: Path, steps: Sequence[Migration], obstacle: str) -> SqliteDatabase:
    database = SqliteDatabase(path, write_obstacle=obstacle)
    try:
        await check_for_reading(database, steps)
    except BaseException:
        await database.close()
        raise
    log_event(INFO, "store_opened_for_reading", path=str(path), reason=obstacle)
    return database
