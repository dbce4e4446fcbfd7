"""SQLite through apsw: the only importer of the driver. One writer thread, a few reader threads, one connection each.

Never open the file by any other means in this process: closing a second descriptor drops the POSIX locks of the first.
"""

from __future__ import annotations

import asyncio
import functools
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

import apsw

from agentmem.errors import AgentMemError, Closed, Conflict, CorruptStore, StoreError, StoreUnavailable

T = TypeVar("T")
Connection = apsw.Connection
BUSY_MS = 10_000
READERS = 4  # a recall has two scans and a look-up of words side by side
_WAL_BYTES_KEPT = 64 * 1024 * 1024
_WAL_PAGES = 4000  # until they are moved into the file: a turn takes 40. Up to 4062, one index serves all of them.
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
            db.pragma("wal_autocheckpoint", _WAL_PAGES)
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
    except apsw.Error as error:
        raise _translation(path, error) from error


def _translation(path: Path, error: apsw.Error) -> AgentMemError:
    if isinstance(error, apsw.CorruptError | apsw.NotADBError):
        return CorruptStore(
            f"{path} is damaged: {error}. Nothing was overwritten; restore a backup or move the file away"
        )
    if isinstance(error, apsw.FullError):
        return StoreUnavailable(f"{path}: no room left to write; free some space and try again")
    if isinstance(error, apsw.BusyError):
        return StoreUnavailable(f"{path}: another process kept the file locked for {BUSY_MS // 1000} s; try again")
    if isinstance(error, apsw.IOError) and getattr(error, "extendedresult", 0) in _WRITING:
        return StoreUnavailable(
            f"{path}: writing failed ({error}); is the disk full, or a limit on the size of files reached?"
        )
    if isinstance(error, apsw.IOError | apsw.CantOpenError | apsw.ReadOnlyError | apsw.PermissionsError):
        return StoreUnavailable(f"{path} cannot be read or written: {error}")
    if isinstance(error, apsw.ConstraintError):
        return Conflict(f"{path}: {error}")
    return StoreError(f"{path}: {error}")


class Threads(Executor):
    """Up to so many threads that run calls for event loops, in order; started as they are needed.

    A ThreadPoolExecutor takes twice the time to hand over a call: two chained futures, and a semaphore in Python.
    """

    def __init__(self, most: int, name: str) -> None:
        self._most, self._name = most, name
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._idle: SimpleQueue[None] = SimpleQueue()  # one for each thread that waits for a call
        self._threads: list[threading.Thread] = []
        # When the interpreter ends, too: a thread must not be cut off inside SQLite.
        self._end = weakref.finalize(self, _end, self._calls, self._threads)

    async def run(self, call: Callable[[], T]) -> T:
        """What a call returns or raises on one of the threads."""
        loop = asyncio.get_running_loop()
        if type(loop).run_in_executor is not asyncio.BaseEventLoop.run_in_executor:  # it has a way of its own
            return await loop.run_in_executor(self, call)
        future: asyncio.Future[T] = loop.create_future()
        self._put(functools.partial(_answer, future, call))
        return await future

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """See Executor."""
        future: Future[T] = Future()
        self._put(functools.partial(_fulfil, future, functools.partial(fn, *args, **kwargs)))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Finish what was asked for, then end the threads."""
        self._end()

    def _put(self, call: Callable[[], None]) -> None:
        if not self._end.alive:
            raise RuntimeError("the threads have ended")
        self._calls.put(call)
        try:
            self._idle.get_nowait()
        except Empty:
            if len(self._threads) < self._most:
                thread = threading.Thread(target=_work, args=(self._calls, self._idle), name=self._name, daemon=True)
                self._threads.append(thread)
                thread.start()


def _work(calls: SimpleQueue[Callable[[], None] | None], idle: SimpleQueue[None]) -> None:
    while (call := calls.get()) is not None:
        call()
        del call  # nothing that it holds waits for the next one
        idle.put(None)


def _end(calls: SimpleQueue[Callable[[], None] | None], threads: Sequence[threading.Thread]) -> None:
    for _ in threads:
        calls.put(None)
    for thread in threads:
        if thread is not threading.current_thread():
            thread.join()


def _answer(future: asyncio.Future[T], call: Callable[[], T]) -> None:
    if future.cancelled():
        return
    try:
        result = call()
    except BaseException as error:  # noqa: BLE001  whoever awaits it gets it
        _tell(future, future.set_exception, error)
    else:
        _tell(future, future.set_result, result)


def _tell(future: asyncio.Future[T], settle: Callable[[Any], None], outcome: object) -> None:
    try:
        future.get_loop().call_soon_threadsafe(_settle, future, settle, outcome)
    except RuntimeError:
        return  # the loop was closed meanwhile: nobody waits any more


def _settle(future: asyncio.Future[T], settle: Callable[[Any], None], outcome: object) -> None:
    if not future.cancelled():
        settle(outcome)


def _fulfil(future: Future[T], call: Callable[[], T]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(call())
    except BaseException as error:  # noqa: BLE001  whoever awaits it gets it
        future.set_exception(error)


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
        self._writer = Threads(1, "agentmem-write")
        self._readers = Threads(READERS, "agentmem-read")

    def _pools(self) -> tuple[Threads, Threads]:
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
        return await self._pools()[1].run(functools.partial(self._read, function))

    async def write(
        self,
        function: Callable[[Connection], T],
        *,
        durable: bool | None = None,
        before: Callable[[], None] | None = None,
        after: Callable[[], None] | None = None,
    ) -> T:
        """Run inside BEGIN IMMEDIATE … COMMIT; any error rolls everything back.

        `before` runs first, on the same thread, while the file is not yet locked; `after` once it is committed, even if
        nobody waits any more. `durable=False` leaves the sync to the next durable commit, for data whose last moments
        may be lost in a power cut.
        """

        def call() -> T:
            if before is not None:
                before()
            result = self._write(function, self._durable if durable is None else durable)
            if after is not None:
                after()
            return result

        return await self._pools()[0].run(call)

    async def outside(self, function: Callable[[Connection], T]) -> T:
        """Run on the writer thread without a transaction (VACUUM, checkpoints)."""

        def call() -> T:
            with translated(self.path):
                return function(self._connection())

        return await self._pools()[0].run(call)

    def _read(self, function: Callable[[Connection], T]) -> T:
        try:
            db = self._connection(reading=True)
            db.execute("BEGIN")
            try:
                return function(db)
            finally:
                if db.in_transaction:
                    db.execute("COMMIT")
        except apsw.Error as error:
            raise _translation(self.path, error) from error

    def _write(self, function: Callable[[Connection], T], durable: bool) -> T:
        try:
            db = self._connection()
            if self._local.durable != durable:
                db.pragma("synchronous", "FULL" if durable else "NORMAL")
                self._local.durable = durable
            return self.transact(db, function)
        except apsw.Error as error:
            raise _translation(self.path, error) from error

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

    @staticmethod
    def attempt(db: Connection, function: Callable[[Connection], None]) -> Exception | None:
        """Run within a transaction what may fail without it: then nothing of it is done, and the rest goes on.

        Returns what it failed with, None when it did not.
        """
        failed = None
        db.execute("SAVEPOINT attempt")
        try:
            function(db)
        except Exception as error:
            if not db.in_transaction:  # the engine undid everything, as for a full disk
                raise
            db.execute("ROLLBACK TO attempt")
            failed = error
        db.execute("RELEASE attempt")
        return failed

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

    def _close(self, pools: tuple[Threads, Threads]) -> None:
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
