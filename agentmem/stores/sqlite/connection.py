"""SQLite through apsw: the only importer of the driver. One writer thread, a few reader threads, one connection each.

Never open the file by any other means in this process: closing a second descriptor drops the POSIX locks of the first.
"""

from __future__ import annotations

import asyncio
import functools
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import apsw

from agentmem.errors import Closed, Conflict, CorruptStore, StoreError, StoreUnavailable

T = TypeVar("T")
Connection = apsw.Connection
BUSY_MS = 10_000
READERS = 4  # a recall has two scans and a look-up of words side by side
_WAL_BYTES_KEPT = 64 * 1024 * 1024
_WRITING = (apsw.SQLITE_IOERR_WRITE, apsw.SQLITE_IOERR_FSYNC, apsw.SQLITE_IOERR_TRUNCATE, apsw.SQLITE_IOERR_SHMSIZE)
_TRUNCATE_MS = 200


def connect(path: Path, *, durable: bool = True) -> Connection:
    """Open a connection with the settings that every connection of this package has.

    WAL, FULL (NORMAL for a cache), foreign keys, secure delete, 10 s busy time-out. Raises the package's own errors.
    """
    with translated(path):
        db = apsw.Connection(str(path))
        try:
            db.set_busy_timeout(BUSY_MS)
            # Without it the planner looks at bound values, and plans a statement anew for each: 5 to 50 µs every time.
            db.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
            _pragma_with_retry(db, "journal_mode", "wal")
            db.pragma("synchronous", "FULL" if durable else "NORMAL")
            db.pragma("fullfsync", durable)  # macOS: a plain fsync leaves data in the drive's cache
            db.pragma("checkpoint_fullfsync", True)
            db.pragma("foreign_keys", True)
            db.pragma("secure_delete", True)
            db.pragma("temp_store", "MEMORY")
            db.pragma("journal_size_limit", _WAL_BYTES_KEPT)
        except BaseException:
            db.close()
            raise
        return db


def _pragma_with_retry(db: Connection, name: str, value: str) -> None:
    # Switching a new file to WAL needs an exclusive lock that the busy handler does not wait for.
    deadline = time.monotonic() + BUSY_MS / 1000
    while True:
        try:
            db.pragma(name, value)
            return
        except apsw.BusyError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Turn the driver's errors into the package's, once, keeping the cause."""
    try:
        yield
    except (apsw.CorruptError, apsw.NotADBError) as error:
        raise CorruptStore(
            f"{path} is damaged: {error}. Nothing was overwritten; restore a backup or move the file away"
        ) from error
    except apsw.FullError as error:
        raise StoreUnavailable(f"{path}: no room left to write; free some space and try again") from error
    except apsw.BusyError as error:
        raise StoreUnavailable(
            f"{path}: another process kept the file locked for {BUSY_MS // 1000} s; try again"
        ) from error
    except apsw.IOError as error:
        if getattr(error, "extendedresult", 0) in _WRITING:
            message = f"{path}: writing failed ({error}); is the disk full, or a limit on the size of files reached?"
            raise StoreUnavailable(message) from error
        raise StoreUnavailable(f"{path} cannot be read or written: {error}") from error
    except (apsw.CantOpenError, apsw.ReadOnlyError, apsw.PermissionsError) as error:
        raise StoreUnavailable(f"{path} cannot be read or written: {error}") from error
    except apsw.ConstraintError as error:
        raise Conflict(f"{path}: {error}") from error
    except apsw.Error as error:
        raise StoreError(f"{path}: {error}") from error


class Database:
    """One file. `write` runs a function inside BEGIN IMMEDIATE on the writer thread, `read` one on a reader thread.

    Functions take the connection and must not keep it. A Database used after fork opens new connections.
    """

    def __init__(self, path: Path, *, durable: bool = True) -> None:
        self.path = path
        self.closed = False
        self._durable = durable
        self._lock = threading.Lock()
        self._inherited: list[list[Connection]] = []
        self._open: list[Connection] = []
        self._start()

    def _start(self) -> None:
        self._pid = os.getpid()
        self._local = threading.local()
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="agentmem-write")
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="agentmem-read")

    def _pools(self) -> tuple[ThreadPoolExecutor, ThreadPoolExecutor]:
        if self.closed:
            raise Closed(f"{self.path} was closed")
        if os.getpid() != self._pid:
            # Neither connections nor threads survive a fork. The parent's connections are kept, not closed: closing
            # them here would touch a file that the parent is using.
            self._inherited.append(self._open)
            self._open, self._lock = [], threading.Lock()
            self._start()
        return self._writer, self._readers

    def _connection(self, *, reading: bool = False) -> Connection:
        db: Connection | None = getattr(self._local, "db", None)
        if db is None:
            db = connect(self.path, durable=self._durable)
            db.pragma("query_only", reading)
            self._local.db, self._local.durable = db, self._durable
            with self._lock:
                self._open.append(db)
        return db

    async def read(self, function: Callable[[Connection], T]) -> T:
        """Run inside one read transaction, so that all statements see the same state."""
        return await asyncio.get_running_loop().run_in_executor(self._pools()[1], self._read, function)

    async def write(
        self,
        function: Callable[[Connection], T],
        *,
        durable: bool | None = None,
        before: Callable[[], None] | None = None,
    ) -> T:
        """Run inside BEGIN IMMEDIATE … COMMIT; any error rolls everything back.

        `before` runs first, on the same thread, while the file is not yet locked. `durable=False` leaves the sync to
        the next durable commit, for data whose last moments may be lost in a power cut.
        """
        call = functools.partial(self._write, function, self._durable if durable is None else durable, before)
        return await asyncio.get_running_loop().run_in_executor(self._pools()[0], call)

    async def outside(self, function: Callable[[Connection], T]) -> T:
        """Run on the writer thread without a transaction (VACUUM, checkpoints)."""

        def call() -> T:
            with translated(self.path):
                return function(self._connection())

        return await asyncio.get_running_loop().run_in_executor(self._pools()[0], call)

    def _read(self, function: Callable[[Connection], T]) -> T:
        with translated(self.path):
            db = self._connection(reading=True)
            db.execute("BEGIN")
            try:
                return function(db)
            finally:
                if db.in_transaction:
                    db.execute("COMMIT")

    def _write(self, function: Callable[[Connection], T], durable: bool, before: Callable[[], None] | None) -> T:
        if before is not None:
            before()
        with translated(self.path):
            db = self._connection()
            if self._local.durable != durable:
                db.pragma("synchronous", "FULL" if durable else "NORMAL")
                self._local.durable = durable
            return self.transact(db, function)

    @staticmethod
    def transact(db: Connection, function: Callable[[Connection], T]) -> T:
        """Run a function inside BEGIN IMMEDIATE … COMMIT on a connection of one's own thread."""
        db.execute("BEGIN IMMEDIATE")
        try:
            result = function(db)
            db.execute("COMMIT")
            return result
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise

    async def truncate_log(self, attempts: int = 5) -> bool:
        """Move the write-ahead log into the file and cut it to nothing; False while a reader holds on to it."""
        for attempt in range(attempts):
            if attempt:
                await asyncio.sleep(0.05 * attempt)
            if await self.outside(_truncated):
                return True
        return False

    async def close(self) -> None:
        """Finish what runs, then close every connection."""
        if self.closed:
            return
        pools = self._pools()
        self.closed = True
        await asyncio.get_running_loop().run_in_executor(None, self._close, pools)

    def _close(self, pools: tuple[ThreadPoolExecutor, ThreadPoolExecutor]) -> None:
        for pool in pools:
            pool.shutdown()
        with translated(self.path):
            for db in self._open:
                db.close()
        self._open.clear()


def _truncated(db: Connection) -> bool:
    db.set_busy_timeout(_TRUNCATE_MS)
    try:
        db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        return True
    except (apsw.BusyError, apsw.LockedError):
        return False
    finally:
        db.set_busy_timeout(BUSY_MS)
