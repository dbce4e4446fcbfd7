"""Detects a store's file that was deleted, replaced, emptied or set back to an earlier state.

Beside `memory.db` lies `memory.db-guard`: the store's id, and how many commits the store has acknowledged. The table
`store_guard` holds the same two values. A commit is on disk before the guard file names it, so a store with fewer
commits than its guard file has lost some. While a store is open, every write compares the files that are open with
those at their paths.
"""

from __future__ import annotations

import os
import re
import threading
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apsw

from agentmem.core.telemetry import WARNING, log_event
from agentmem.errors import CorruptStore, StoreUnavailable
from agentmem.text.templates import load_templates

_SQL = load_templates(__package__, "file_guard.sql")

_RECORD = re.compile(rb"agentmem store ([0-9a-f-]{36}) commits ([0-9]{20})\n")
_RECORD_BYTES = 81
_FILE_MODE = 0o600
_ENDINGS = ("", "-wal", "-shm")
# Of a write-ahead log, as in sqlite.org/fileformat.html, section 4: frames of a header and a page follow its header.
_WAL_HEADER_BYTES, _WAL_FRAME_HEADER_BYTES = 32, 24


@dataclass(frozen=True, slots=True)
class GuardRecord:
    """The id of a store and how many commits it has acknowledged."""

    store_id: str
    commits: int


def guard_path(path: Path) -> Path:
    """Where the guard file of a store lies."""
    return path.with_name(path.name + "-guard")


def read_guard(path: Path) -> GuardRecord | None:
    """The guard file of a store; None when there is none, or none that can be read."""
    try:
        with guard_path(path).open("rb") as file:
            found = _RECORD.fullmatch(file.read(_RECORD_BYTES + 1))
    except OSError:
        return None
    return None if found is None else GuardRecord(found[1].decode(), int(found[2]))


def check_files(path: Path, guard: GuardRecord | None) -> None:
    """Compare the files with the guard before SQLite opens them: an empty file makes it delete the write-ahead log.

    Raises CorruptStore when the main file is missing or empty although it held something, and when the write-ahead log
    beside it belongs to another store.
    """
    size = path.stat().st_size if path.exists() else None
    log = path.with_name(path.name + "-wal")
    if not size and guard is not None and guard.commits:
        raise CorruptStore(
            f"{path} is {'missing' if size is None else 'empty'}, but it held store {guard.store_id} with "
            f"{guard.commits:,} commits. Put it back, or restore a backup; to begin a new store, delete "
            f"{guard_path(path)}"
        )
    if not size and log.exists() and log.stat().st_size > _WAL_HEADER_BYTES:
        raise CorruptStore(
            f"{path} is {'missing' if size is None else 'empty'}, but its write-ahead log {log} is not. Put the file "
            "back, or restore a backup; to begin a new store, move the log away"
        )
    if guard is not None and _is_foreign_log(log, guard.store_id):
        raise CorruptStore(
            f"{log} belongs to another store than {path}, store {guard.store_id}; opening them together would mix "
            "both. Put the right log back, or move this one away"
        )


def check_store(db: apsw.Connection, path: Path, guard: GuardRecord | None) -> None:
    """Compare what a file holds with its guard file, read before. Raises CorruptStore for another or an older store."""
    found = read_commits(db)
    if guard is None or found is None:
        return
    keep = f"to go on with what is there, delete {guard_path(path)}"
    if found.store_id != guard.store_id:
        raise CorruptStore(
            f"{path} is store {found.store_id}, but the file here was store {guard.store_id}: it was replaced. "
            f"Put that file back, or {keep}"
        )
    if found.commits < guard.commits:
        raise CorruptStore(
            f"{path} holds {found.commits:,} of the {guard.commits:,} commits that were acknowledged: it is an older "
            f"copy, or its write-ahead log is missing. Put the file or {path.name}-wal back, or {keep}"
        )


def read_commits(db: apsw.Connection) -> GuardRecord | None:
    """What the store itself says; None before its first counted commit."""
    if not db.execute(_SQL["is_guarded"]).get:
        return None
    row: Any = db.execute(_SQL["guard"]).fetchone()
    return None if row is None else GuardRecord(*row)


def _is_foreign_log(log: Path, store_id: str) -> bool:
    """Whether a write-ahead log has commits, none of which names the store. Stops at the first one that does.

    The log is opened beside SQLite, which is safe for this file alone: SQLite locks the two others, never the log.
    """
    has_commits = names_store = False
    try:
        with log.open("rb") as file:
            header = file.read(_WAL_HEADER_BYTES)
            salts, frame_bytes = header[16:24], _WAL_FRAME_HEADER_BYTES + int.from_bytes(header[8:12], "big")
            while len(frame := file.read(frame_bytes)) == frame_bytes and frame[8:16] == salts:
                names_store = names_store or store_id.encode() in frame
                if any(frame[4:8]):  # the size of the database after a commit: this frame ends one
                    has_commits = True
                    if names_store:
                        return False
    except OSError:
        return False
    return has_commits


def _inode(file: str) -> int | None:
    try:
        return os.stat(file).st_ino  # a Path takes three times as long, and every read asks
    except OSError:
        return None


class FileGuard:
    """Watches the files of an open store, counts its commits, and keeps its guard file.

    `count_commit` and `note` are for the writer's thread alone.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._is_guarded = False  # once the schema has the table
        self._file: int | None = None
        self._closing: weakref.finalize[Any, Any] | None = None
        self._last_commits = 0
        self._inodes: dict[str, int | None] = {}
        self._is_reported = False
        self._lock = threading.Lock()

    def watch(self, db: apsw.Connection) -> None:
        """Note the files that the first connection opened."""
        db.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchall()  # opens those beside the main file
        with self._lock:
            if not self._inodes:
                self._inodes = {file: _inode(file) for file in (f"{self._path}{ending}" for ending in _ENDINGS)}

    def check_in_place(self) -> None:
        """Raise StoreUnavailable when other files lie where the open ones were: a commit into those would be lost."""
        gone = [file for file, inode in self._inodes.items() if _inode(file) != inode]
        if gone:
            if not self._is_reported:
                log_event(WARNING, "store_file_moved", files=gone)
                self._is_reported = True
            raise StoreUnavailable(
                f"{' and '.join(gone)} was deleted, moved or replaced while it was open; nothing is read or stored "
                "until it is put back. To use what lies there now, close this memory and open it again"
            )

    def count_commit(self, db: apsw.Connection) -> GuardRecord | None:
        """Count one more commit, within its transaction; None when the schema has no table for it yet."""
        self._is_guarded = self._is_guarded or bool(db.execute(_SQL["is_guarded"]).get)
        row: Any = db.execute(_SQL["count_commit"]).fetchone() if self._is_guarded else None
        if row is None:
            return None
        record = GuardRecord(*row)
        if record.commits <= self._last_commits:
            raise StoreUnavailable(
                f"{self._path} was overwritten while it was open: it holds {record.commits:,} commits, of "
                f"{self._last_commits:,}; nothing was stored. Close this memory, restore the file, and open it again"
            )
        return record

    def note(self, record: GuardRecord) -> None:
        """Write what is on disk now to the guard file. It says too little where that fails, which loses nothing."""
        self._last_commits = record.commits
        try:
            if self._file is None:
                self._file = _open_guard(guard_path(self._path))
                self._closing = weakref.finalize(self, os.close, self._file)
            os.lseek(self._file, 0, os.SEEK_SET)
            os.write(self._file, f"agentmem store {record.store_id} commits {record.commits:020d}\n".encode())
        except OSError as error:
            log_event(WARNING, "guard_not_written", file=str(guard_path(self._path)), error=type(error).__name__)

    def close(self) -> None:
        """Close the guard file."""
        if self._closing is not None:
            self._closing()
        self._file = self._closing = None


def _open_guard(path: Path) -> int:
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
    file = os.open(path, flags, _FILE_MODE)
    if os.fstat(file).st_size != _RECORD_BYTES:  # another format, or the beginning of a write
        os.truncate(file, 0)
    return file
