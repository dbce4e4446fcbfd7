"""Opening a file: whose it is, which schema it has, and how an older one becomes the current one."""

from __future__ import annotations

import os
import uuid
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import apsw

from agentmem.errors import SchemaMismatch
from agentmem.stores.sqlite.connection import SqliteConnection
from agentmem.stores.sqlite.database import BUSY_TIMEOUT_MS, SqliteDatabase, translate_errors
from agentmem.stores.sqlite.file_guard import check_files, check_store, read_guard
from agentmem.text.templates import Migration, load_templates

APPLICATION_ID = 0x61676D31  # "agm1" in the file's header, so that another program's file is never taken for ours


def check_file(path: Path, steps: Sequence[Migration]) -> None:
    """Refuse a file that is not ours, is damaged, was written by a newer schema, or has lost acknowledged commits.

    Comes before anything is written to it. Raises CorruptStore or SchemaMismatch. A new file is fine.
    """
    guard = read_guard(path)  # before the store: others may write meanwhile
    check_files(path, guard)
    if not path.exists() or path.stat().st_size == 0:
        return
    with translate_errors(path):
        # A process that can write moves a write-ahead log into the file when closing it.
        log = path.with_name(path.name + "-wal")
        is_logged = log.exists() and log.stat().st_size > 0
        db = SqliteConnection(str(path), flags=apsw.SQLITE_OPEN_READONLY if is_logged else apsw.SQLITE_OPEN_READWRITE)
        try:
            db.set_busy_timeout(BUSY_TIMEOUT_MS)
            db.execute("BEGIN")  # one state for all questions: another process may be making the file right now
            _check_owner_and_version(db, path, steps)
            check_store(db, path, guard)
        finally:
            db.close()


async def check_for_reading(database: SqliteDatabase, steps: Sequence[Migration]) -> None:
    """Refuse what `check_file` refuses, and an older schema, which cannot be migrated where nothing can be written."""
    guard = read_guard(database.path)
    check_files(database.path, guard)

    def check(db: SqliteConnection) -> None:
        _check_owner_and_version(db, database.path, steps)
        check_store(db, database.path, guard)
        if (found := _schema_version(db)) < len(steps):
            raise SchemaMismatch(
                f"{database.path} has schema {found} and must be brought to schema {len(steps)}, but "
                f"{database.write_obstacle}"
            )

    await database.read(check)


async def migrate(database: SqliteDatabase, steps: Sequence[Migration], now: datetime) -> int:
    """Apply the steps that the file lacks, all in one transaction, and return how many; 0 for a current file.

    Two processes that open at once take turns: the second finds the work done.
    """

    def apply(db: SqliteConnection) -> int:
        _check_owner_and_version(db, database.path, steps)
        before = _schema_version(db)
        for step in steps[before:]:
            db.execute(step.text)
            db.execute(
                load_templates(__package__, "migrations.sql")["applied"], (step.version, step.name, now.isoformat())
            )
        if before == 0:
            store_id = str(uuid.UUID(bytes=os.urandom(16), version=4))
            db.execute(load_templates(__package__, "migrations.sql")["identity"], (store_id,))
            db.pragma("application_id", APPLICATION_ID)
        return len(steps) - before

    if await database.read(_schema_version) == len(steps):
        return 0
    return await database.write(apply)


def _check_owner_and_version(db: SqliteConnection, path: Path, steps: Sequence[Migration]) -> None:
    blocks = load_templates(__package__, "migrations.sql")
    if db.pragma("application_id") != APPLICATION_ID and db.execute(blocks["tables"]).get:
        raise SchemaMismatch(f"{path} is the database of another program; choose another file or home")
    if (found := _schema_version(db)) > len(steps):
        raise SchemaMismatch(
            f"{path} has schema {found}, written by a newer version; this one knows schema {len(steps)}. "
            "Upgrade with: pip install --upgrade agentmem-graph"
        )


def _schema_version(db: SqliteConnection) -> int:
    blocks = load_templates(__package__, "migrations.sql")
    return int(db.execute(blocks["version"]).get) if db.execute(blocks["is_versioned"]).get else 0
