"""A backup of the embedded file as one file, made while others write, and its way back."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from agentmem.core.clock import Stopwatch, SystemClock
from agentmem.engine.engine import Engine
from agentmem.errors import ConfigError, Conflict, CorruptStore, SchemaMismatch, StoreUnavailable
from agentmem.settings.settings import Settings
from agentmem.text.templates import load_migrations

HEADER = b"SQLite format 3\0"  # as in sqlite.org/fileformat.html, section 1.3
LOCK_TIMEOUT_MS = 1000


@dataclass(frozen=True, slots=True)
class BackupReport:
    """The file of the backup and its bytes."""

    path: Path
    bytes: int


@dataclass(frozen=True, slots=True)
class RestoreReport:
    """The file of the memory, its bytes, and where the one that lay there before is now; None when there was none."""

    path: Path
    bytes: int
    replaced: Path | None


async def back_up(engine: Engine, target: Path, *, overwrite: bool = False) -> BackupReport:
    """Copy the whole store to a file that its owner alone can read, while others read and write it.

    The copy is checked before it takes its name. Raises Conflict when the target exists, unless it may be overwritten,
    and ConfigError when the log is a server.
    """
    engine.check_open()
    _check_target(target, overwrite)
    watch = Stopwatch(engine.clock)
    with _make_part(target) as part:
        await engine.admin.copy_to(part)
        _check_integrity(part, engine.settings.database)
        size = _finish(part, target)
    row = engine.auditor.build_system_entry("backup", latency_ms=watch.milliseconds(), metadata={"bytes": size})
    await engine.write_read_audit(row)
    return BackupReport(target, size)


def restore_backup(settings: Settings, backup: Path) -> RestoreReport:
    """Replace the embedded store with a backup; the old store is kept beside it under another name.

    The backup is checked first. Raises ConfigError when the log is a server, CorruptStore for a damaged backup,
    SchemaMismatch for one of a newer version, and StoreUnavailable while a process has the memory open.
    """
    from agentmem.stores.sqlite.database import prepare_folder
    from agentmem.stores.sqlite.migrations import check_file

    if settings.log_server_url is not None:
        raise ConfigError("log_url is a server: restore its database with pg_restore, from a backup made by pg_dump")
    path = settings.database
    if path.exists() and backup.samefile(path):
        raise ConfigError(f"{backup} is the memory itself; name a backup of it")
    with backup.open("rb") as file:
        if file.read(len(HEADER)) != HEADER:
            raise CorruptStore(
                f"{backup} is not a backup of a memory. To read an export, use: agentmem import {backup}"
            )
    prepare_folder(path)
    with _make_part(path) as part:
        _check_integrity(backup, backup)
        _copy(backup, part)
        try:
            check_file(part, load_migrations("sqlite"))
        except SchemaMismatch as error:
            raise SchemaMismatch(str(error).replace(str(part), str(backup))) from error
        replaced = _replace_store(settings, path, part)
    return RestoreReport(path, path.stat().st_size, replaced)


def _check_target(target: Path, overwrite: bool) -> None:
    if target.exists() and not (overwrite and target.is_file()):
        raise Conflict(f"{target} exists; choose another name, or use --force to overwrite a file")


def _finish(part: Path, target: Path) -> int:
    os.replace(part, target)
    return target.stat().st_size


@contextmanager
def _make_part(target: Path) -> Iterator[Path]:
    """A private file beside the target, which takes its name when it is complete."""
    descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent)
    os.close(descriptor)
    part = Path(name)
    try:
        yield part
    finally:
        for ending in ("", "-wal", "-shm"):
            _beside(part, ending).unlink(missing_ok=True)


def _beside(path: Path, ending: str) -> Path:
    return path.with_name(path.name + ending)


def _copy(backup: Path, part: Path) -> None:
    from agentmem.stores.sqlite.database import connect, translate_errors
    from agentmem.stores.sqlite.diagnostics import open_read_only

    with open_read_only(backup) as source, translate_errors(backup):
        copy = connect(part)
        try:
            with copy.backup("main", source, "main") as work:
                work.step()
        finally:
            copy.close()


def _check_integrity(path: Path, name: Path) -> None:
    from agentmem.stores.sqlite.diagnostics import open_read_only

    try:
        with open_read_only(path) as db:
            found = db.execute("PRAGMA integrity_check(1)").get
    except CorruptStore as error:
        found = error.__cause__
    if found != "ok":
        raise CorruptStore(f"{name} is damaged: {found}. Nothing was overwritten")


def _replace_store(settings: Settings, path: Path, part: Path) -> Path | None:
    """Move the old files aside and the new one in. The guard file goes last, so that a crash before it is noticed."""
    from agentmem.stores.sqlite.file_guard import guard_path

    aside = _beside(path, f".before-restore-{(settings.clock or SystemClock()).now():%Y%m%dT%H%M%S%f}")
    was_there = path.exists()
    with _lock_out_others(path):
        for ending in ("-wal", ""):
            if _beside(path, ending).exists():
                os.replace(_beside(path, ending), _beside(aside, ending))
        _beside(path, "-shm").unlink(missing_ok=True)
        os.replace(part, path)
        if settings.session_file is not None:
            for ending in ("", "-wal", "-shm"):
                _beside(settings.session_file, ending).unlink(missing_ok=True)
        if guard_path(path).exists():
            os.replace(guard_path(path), guard_path(aside))
    return aside if was_there else None


@contextmanager
def _lock_out_others(path: Path) -> Iterator[None]:
    """Take the exclusive lock and move the write-ahead log into the store. A damaged store cannot be in use."""
    from agentmem.stores.sqlite.database import connect, translate_errors

    if not path.exists() or not path.stat().st_size:
        yield
        return
    try:
        db = connect(path)
    except CorruptStore:
        yield
        return
    try:
        with translate_errors(path):
            db.set_busy_timeout(LOCK_TIMEOUT_MS)
            db.pragma("locking_mode", "EXCLUSIVE")
            db.pragma("journal_mode", "delete")  # needs a lock that no other connection lets it have
    except StoreUnavailable as error:
        db.close()
        raise StoreUnavailable(f"{path} is open in another process; stop it, then restore the backup") from error
    try:
        yield
    finally:
        db.close()
