"""One SQLite file: where it may lie, its writer's thread, readers, transactions and errors.

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
from types import CoroutineType
from typing import Any, TypeVar

import apsw

from agentmem.errors import AgentMemError, Closed, ConfigError, Conflict, CorruptStore, StoreError, StoreUnavailable
from agentmem.stores.sql.connection import Principal, Work, finish
from agentmem.stores.sqlite.connection import SqliteConnection
from agentmem.stores.sqlite.file_guard import FileGuard

FILE_MODE = 0o600
FOLDER_MODE = 0o700
_NETWORK_FILE_SYSTEMS = (
    "9p afs beegfs ceph cifs davfs fuse.glusterfs fuse.rclone fuse.s3fs fuse.sshfs glusterfs "
    "gpfs lustre ncpfs nfs nfs4 smb3 smbfs"
)
NETWORK_FILE_SYSTEMS = frozenset(_NETWORK_FILE_SYSTEMS.split())
_MOUNTS = Path("/proc/mounts")

T = TypeVar("T")
BUSY_TIMEOUT_MS = 10_000
READER_THREADS = 4  # a recall has two scans and a look-up of words side by side
_MAX_WAL_BYTES = 64 * 1024 * 1024
# until they are moved into the file: a turn takes 40. Up to 4062, one index serves all of them.
_WAL_CHECKPOINT_PAGES = 4000
_WRITE_ERRORS = (
    apsw.SQLITE_IOERR_WRITE,
    apsw.SQLITE_IOERR_FSYNC,
    apsw.SQLITE_IOERR_TRUNCATE,
    apsw.SQLITE_IOERR_SHMOPEN,
    apsw.SQLITE_IOERR_SHMSIZE,
)
_TRUNCATE_TIMEOUT_MS = 200
_LOCK_FILE_BYTES = 32 * 1024  # of one that a process has used; a smaller one could not be made


def prepare_folder(path: Path) -> None:
    """Make the folder of a store's file, readable by its owner only. An existing folder is left as it is.

    Raises ConfigError on a network file system and where the folder cannot be made.
    """
    try:
        path.parent.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"the folder {path.parent} cannot be made: {error}; set AGENTMEM_HOME to another one"
        ) from error
    if path.is_dir():
        raise ConfigError(f"{path} is a folder; name a file in it")
    kind = file_system(path.parent.resolve())
    if kind in NETWORK_FILE_SYSTEMS:
        raise ConfigError(
            f"{path} lies on a network file system ({kind}), where locks are not kept and data can be lost; "
            "choose a local folder with AGENTMEM_HOME"
        )


def is_missing(path: Path) -> bool:
    """Whether there is no file yet."""
    return not path.exists()


def make_private(path: Path) -> None:
    """Let only the owner read and write the file, made empty when it is missing.

    SQLite gives the files beside it the same permissions, so this comes before the first connection.
    """
    try:
        path.touch(FILE_MODE)
        path.chmod(FILE_MODE)
    except OSError as error:
        raise StoreUnavailable(f"the permissions of {path} cannot be set: {error}") from error


def check_permissions(path: Path) -> list[str]:
    """Which of the store's files others can read or write; [] when none."""
    beside = [path.with_name(path.name + ending) for ending in ("", "-wal", "-shm", "-guard")]
    modes = [(file, file.stat().st_mode & 0o777) for file in beside if file.exists()]
    return [
        f"{file} can be used by others (mode {mode:o}); run: chmod 600 {file}" for file, mode in modes if mode & 0o077
    ]


def file_system(folder: Path, mounts: Path = _MOUNTS) -> str:
    """The type of the file system that holds a folder, from the list of mounts; "" where the system has none."""
    try:
        lines = mounts.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    found, depth = "", -1
    for line in lines:
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        point = Path(os.fsdecode(fields[1].encode().decode("unicode_escape").encode("latin-1")))  # a space is \040
        if folder.is_relative_to(point) and len(point.parts) >= depth:
            found, depth = fields[2], len(point.parts)
    return found


def connect(path: Path, *, durable: bool = True, in_memory: bool = False) -> SqliteConnection:
    """Open a connection with the settings that every connection of this package has.

    `in_memory` keeps what is at the path, which names it, in this process.
    WAL, FULL (NORMAL for a cache), foreign keys, secure delete, 10 s busy time-out. Raises the package's own errors.
    """
    with translate_errors(path):
        # Without CREATE: a file that was deleted is not made again.
        db = SqliteConnection(str(path), flags=apsw.SQLITE_OPEN_READWRITE, vfs="memdb" if in_memory else None)
        try:
            db.set_busy_timeout(BUSY_TIMEOUT_MS)
            # Without it the planner reads bound values, and plans a statement again for each: 5 to 50 µs every time.
            db.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
            _pragma_with_retry(db, "journal_mode", "wal")
            db.pragma("synchronous", "FULL" if durable else "NORMAL")
            db.pragma("fullfsync", durable)  # macOS: a plain fsync leaves data in the drive's cache
            db.pragma("checkpoint_fullfsync", True)
            db.pragma("foreign_keys", True)
            db.pragma("secure_delete", True)
            db.pragma("temp_store", "MEMORY")
            db.pragma("journal_size_limit", _MAX_WAL_BYTES)
            db.pragma("wal_autocheckpoint", _WAL_CHECKPOINT_PAGES)
        except BaseException:
            db.close()
            raise
        return db


def choose_read_mode(path: Path) -> str:
    """How `connect_read_only` reads the file as it is now, as parameters of its URI.

    No file can be created beside it, so: with the log and the lock file of another process, as usual; with only a log,
    without locks, for no process has it open; with neither, as an immutable file.
    """
    log, lock = (file_bytes(path.with_name(path.name + ending)) for ending in ("-wal", "-shm"))
    if log is not None and lock is not None and lock >= _LOCK_FILE_BYTES:
        return ""
    return "&vfs=unix-none" if log else "&immutable=1"


def file_bytes(path: Path) -> int | None:
    """The size of a file; None when there is none."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return None


def connect_read_only(path: Path, mode: str) -> SqliteConnection:
    """Open a connection that writes nothing, not even a lock file. Raises the driver's errors."""
    uri = f"{path.resolve().as_uri()}?mode=ro{mode}"
    db = SqliteConnection(uri, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
    db.set_busy_timeout(BUSY_TIMEOUT_MS)
    db.pragma("temp_store", "MEMORY")
    if "vfs" in mode:
        db.pragma("locking_mode", "EXCLUSIVE")  # keeps the index of the log in memory
    return db


def find_write_obstacle(path: Path) -> str:
    """Why a store that is there can only be read; "" when it can be written, or is not there."""
    if not path.exists() or path.stat().st_size == 0:
        return ""
    for place in (path, path.parent):
        if not os.access(place, os.W_OK):
            return f"{place} cannot be written"
    return ""


def is_out_of_room(error: StoreError) -> bool:
    """Whether a store failed because the disk is full, or a limit on the size of files was reached."""
    cause = error.__cause__
    return isinstance(cause, apsw.FullError) or getattr(cause, "extendedresult", 0) in _WRITE_ERRORS


def _pragma_with_retry(db: SqliteConnection, name: str, value: str) -> None:
    # Switching a new file to WAL needs an exclusive lock that the busy handler does not wait for.
    deadline = time.monotonic() + BUSY_TIMEOUT_MS / 1000
    while True:
        try:
            db.pragma(name, value)
            return
        except apsw.BusyError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)


@contextmanager
def translate_errors(path: Path) -> Iterator[None]:
    """Turn the driver's errors into the package's, once, keeping the cause."""
    try:
        yield
    except apsw.Error as error:
        raise _to_store_error(path, error) from error


def _to_store_error(path: Path, error: apsw.Error) -> AgentMemError:
    if isinstance(error, apsw.CorruptError | apsw.NotADBError):
        return CorruptStore(
            f"{path} is damaged: {error}. Nothing was overwritten; restore a backup or move the file away"
        )
    if isinstance(error, apsw.FullError):
        return StoreUnavailable(f"{path}: no room left to write; free some space and try again")
    if isinstance(error, apsw.BusyError):
        return StoreUnavailable(
            f"{path}: another process kept the file locked for {BUSY_TIMEOUT_MS // 1000} s; try again"
        )
    if isinstance(error, apsw.IOError) and getattr(error, "extendedresult", 0) in _WRITE_ERRORS:
        return StoreUnavailable(
            f"{path}: writing failed ({error}); is the disk full, or a limit on the size of files reached?"
        )
    if isinstance(error, apsw.IOError | apsw.CantOpenError | apsw.ReadOnlyError | apsw.PermissionsError):
        return StoreUnavailable(f"{path} cannot be read or written: {error}")
    if isinstance(error, apsw.ConstraintError):
        return Conflict(f"{path}: {error}")
    return StoreError(f"{path}: {error}")


class WorkerThreads(Executor):
    """Up to so many threads that run calls for event loops, in order; started as they are needed.

    A ThreadPoolExecutor takes twice the time to hand over a call: two chained futures, and a semaphore in Python.
    """

    def __init__(self, max_threads: int, name: str) -> None:
        self._max_threads, self._name = max_threads, name
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._idle: SimpleQueue[None] = SimpleQueue()  # one for each thread that waits for a call
        self._threads: list[threading.Thread] = []
        # When the interpreter ends, too: a thread must not be cut off inside SQLite.
        self._finalizer = weakref.finalize(self, _stop_threads, self._calls, self._threads)

    async def run(self, call: Callable[[], T]) -> T:
        """What a call returns or raises on one of the threads."""
        loop = asyncio.get_running_loop()
        if type(loop).run_in_executor is not asyncio.BaseEventLoop.run_in_executor:  # it has a way of its own
            return await loop.run_in_executor(self, call)
        future: asyncio.Future[T] = loop.create_future()
        self._enqueue(functools.partial(_resolve_on_loop, future, call))
        return await future

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """See Executor."""
        future: Future[T] = Future()
        self._enqueue(functools.partial(_resolve, future, functools.partial(fn, *args, **kwargs)))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Finish what was asked for, then end the threads."""
        self._finalizer()

    def _enqueue(self, call: Callable[[], None]) -> None:
        if not self._finalizer.alive:
            raise RuntimeError("the threads have ended")
        self._calls.put(call)
        try:
            self._idle.get_nowait()
        except Empty:
            if len(self._threads) < self._max_threads:
                thread = threading.Thread(
                    target=_run_calls, args=(self._calls, self._idle), name=self._name, daemon=True
                )
                self._threads.append(thread)
                thread.start()


def _run_calls(calls: SimpleQueue[Callable[[], None] | None], idle: SimpleQueue[None]) -> None:
    while (call := calls.get()) is not None:
        call()
        del call  # nothing that it holds waits for the next one
        idle.put(None)


def _stop_threads(calls: SimpleQueue[Callable[[], None] | None], threads: Sequence[threading.Thread]) -> None:
    for _ in threads:
        calls.put(None)
    for thread in threads:
        if thread is not threading.current_thread():
            thread.join()


def _resolve_on_loop(future: asyncio.Future[T], call: Callable[[], T]) -> None:
    if future.cancelled():
        return
    try:
        result = call()
    except BaseException as error:  # noqa: BLE001  the awaiting call gets it
        _post_outcome(future, future.set_exception, error)
    else:
        _post_outcome(future, future.set_result, result)


def _post_outcome(future: asyncio.Future[T], setter: Callable[[Any], None], outcome: object) -> None:
    try:
        future.get_loop().call_soon_threadsafe(_set_unless_cancelled, future, setter, outcome)
    except RuntimeError:
        return  # the loop was closed meanwhile: no call waits any more


def _set_unless_cancelled(future: asyncio.Future[T], setter: Callable[[Any], None], outcome: object) -> None:
    if not future.cancelled():
        setter(outcome)


def _resolve(future: Future[T], call: Callable[[], T]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(call())
    except BaseException as error:  # noqa: BLE001  the awaiting call gets it
        future.set_exception(error)


class SqliteDatabase:
    """One file. `write` runs a function inside BEGIN IMMEDIATE on the writer thread, `read` one on a reader thread.

    Functions take the connection and must not keep it. A Database used after fork opens new connections. With a `guard`
    a call raises StoreUnavailable when the file was deleted, moved or replaced meanwhile. With a `write_obstacle` the
    file is opened for reading, and a write raises StoreUnavailable with that reason. `in_memory` keeps what is at the
    path in this process, until it is closed.
    """

    def __init__(
        self,
        path: Path,
        *,
        durable: bool = True,
        guard: FileGuard | None = None,
        write_obstacle: str = "",
        in_memory: bool = False,
    ) -> None:
        self.path, self.write_obstacle, self._in_memory = path, write_obstacle, in_memory
        self.closed = False
        self._durable, self._guard = durable, guard
        self._lock = threading.Lock()
        self._inherited: list[list[SqliteConnection]] = []
        self._connections: list[SqliteConnection] = []
        self._start()

    def _start(self) -> None:
        self._pid = os.getpid()
        self._local = threading.local()
        self._writer = WorkerThreads(1, "agentmem-write")
        self._readers = WorkerThreads(READER_THREADS, "agentmem-read")

    def _pools(self) -> tuple[WorkerThreads, WorkerThreads]:
        if self.closed:
            raise Closed(f"{self.path} was closed")
        if os.getpid() != self._pid:
            # Neither connections nor threads survive a fork. The parent's connections are kept, not closed: closing
            # them here would touch a file that the parent is using.
            self._inherited.append(self._connections)
            self._connections, self._lock = [], threading.Lock()
            if self._guard is not None:
                self._guard.close()
                self._guard = FileGuard(self.path)
            self._start()
        return self._writer, self._readers

    def _connection(self, *, read_only: bool = False) -> SqliteConnection:
        if self.write_obstacle:
            return self._connection_without_writes(read_only)
        if self._guard is not None:
            self._guard.check_in_place()
        db: SqliteConnection | None = getattr(self._local, "db", None)
        if db is None:
            db = connect(self.path, durable=self._durable, in_memory=self._in_memory)
            with self._lock:
                self._connections.append(db)
            if self._guard is not None:
                self._guard.watch(db)
            db.pragma("query_only", read_only)
            self._local.db, self._local.durable = db, self._durable
        return db

    def _connection_without_writes(self, read_only: bool) -> SqliteConnection:
        if not read_only:
            raise StoreUnavailable(
                f"{self.path} is open for reading only, because {self.write_obstacle}; nothing was stored. Mend that, "
                "then close this memory and open it again"
            )
        mode = choose_read_mode(self.path)
        if getattr(self._local, "mode", None) != mode:  # another process opened the store, or closed it
            db = connect_read_only(self.path, mode)
            with self._lock:
                self._connections.append(db)
            self._local.db, self._local.mode = db, mode
        opened: SqliteConnection = self._local.db
        return opened

    async def read(self, function: Callable[[SqliteConnection], T]) -> T:
        """Run inside one read transaction, so that all statements see the same state."""
        return await self._pools()[1].run(functools.partial(self._read, function))

    async def write(
        self,
        function: Callable[[SqliteConnection], T],
        *,
        durable: bool | None = None,
        prepare: Callable[[], None] | None = None,
        on_committed: Callable[[], None] | None = None,
    ) -> T:
        """Run inside BEGIN IMMEDIATE … COMMIT; any error rolls everything back.

        `prepare` runs first, on the same thread, while the file is not yet locked; `on_committed` after the commit,
        even if no call waits any more. `durable=False` leaves the sync to the next durable commit, for data whose last
        moments may be lost in a power cut.
        """
        lasting = self._durable if durable is None else durable
        return await self._pools()[0].run(functools.partial(self._write, function, lasting, prepare, on_committed))

    async def query(
        self, principal: Principal, work: Work[T], *, timeout_seconds: float | None = None, by_key: bool = False
    ) -> T:
        """See SqlDatabase. A file has no walls between users, no deadline, and one plan for a statement."""
        return await self._pools()[1].run(functools.partial(self._read, work))

    async def commit(
        self,
        principal: Principal,
        work: Work[T],
        *,
        timeout_seconds: float | None = None,
        durable: bool = True,
        prepare: Callable[[], None] | None = None,
        on_committed: Callable[[], None] | None = None,
    ) -> T:
        """See SqlDatabase and `write`. On a full disk once more, after the write-ahead log gave back what it took."""
        call = functools.partial(self._write, work, self._durable and durable, prepare, on_committed)
        try:
            return await self._pools()[0].run(call)
        except StoreUnavailable as error:
            if not await self._make_room(error):
                raise
            return await self._pools()[0].run(call)

    async def _make_room(self, error: StoreError) -> bool:
        """On a full disk, move the write-ahead log into the file, which gives back what it took; True when it did."""
        if not is_out_of_room(error):
            return False
        try:
            return await self.truncate_wal(attempts=1)
        except StoreUnavailable:  # the file would have to grow for it
            return False

    async def run_without_transaction(self, function: Callable[[SqliteConnection], T]) -> T:
        """Run on the writer thread without a transaction (VACUUM, checkpoints)."""

        def call() -> T:
            with translate_errors(self.path):
                return function(self._connection())

        return await self._pools()[0].run(call)

    def _read(self, function: Callable[[SqliteConnection], Any]) -> Any:
        try:
            db = self._connection(read_only=True)
            db.execute("BEGIN")
            try:
                return _finish(function(db))
            finally:
                if db.in_transaction:
                    db.execute("COMMIT")
        except apsw.Error as error:
            raise _to_store_error(self.path, error) from error

    def _write(
        self,
        function: Callable[[SqliteConnection], Any],
        durable: bool,
        prepare: Callable[[], None] | None,
        on_committed: Callable[[], None] | None,
    ) -> Any:
        """Acknowledge a commit only while the files at their paths are those that it went into."""
        if prepare is not None:
            prepare()
        guard, record = self._guard, None
        try:
            db = self._connection()
            if self._local.durable != durable:
                db.pragma("synchronous", "FULL" if durable else "NORMAL")
                self._local.durable = durable
            db.execute("BEGIN IMMEDIATE")
            try:
                changes = db.total_changes()
                result = _finish(function(db))
                if guard is not None:
                    record = guard.count_commit(db) if db.total_changes() != changes else None
                    guard.check_in_place()
                db.execute("COMMIT")
            except BaseException:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise
        except apsw.Error as error:
            raise _to_store_error(self.path, error) from error
        if guard is not None:
            guard.check_in_place()
            if record is not None and durable:  # else a power cut could take back what the guard file names
                guard.note(record)
        if on_committed is not None:
            on_committed()
        return result

    @staticmethod
    def try_in_savepoint(db: SqliteConnection, function: Callable[[SqliteConnection], None]) -> Exception | None:
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

    async def rewrite(self) -> None:
        """Rewrite the file without unused pages and parts of pages (VACUUM). Takes its size in memory meanwhile."""
        await self.run_without_transaction(lambda db: db.execute("VACUUM"))

    async def truncate_wal(self, attempts: int = 5) -> bool:
        """Move the write-ahead log into the file and cut it to nothing; False while a reader holds on to it."""
        for attempt in range(attempts):
            if attempt:
                await asyncio.sleep(0.05 * attempt)
            if await self.run_without_transaction(_truncate_wal):
                return True
        return False

    async def close(self) -> None:
        """Finish what runs, then close every connection."""
        if self.closed:
            return
        pools = self._pools()
        self.closed = True
        await asyncio.get_running_loop().run_in_executor(None, self._close, pools)

    def _close(self, pools: tuple[WorkerThreads, WorkerThreads]) -> None:
        for pool in pools:
            pool.shutdown()
        with translate_errors(self.path):
            for db in self._connections:
                db.close()
        self._connections.clear()
        if self._guard is not None:
            self._guard.close()


def _finish(result: Any) -> Any:
    return finish(result) if isinstance(result, CoroutineType) else result


def _truncate_wal(db: SqliteConnection) -> bool:
    db.set_busy_timeout(_TRUNCATE_TIMEOUT_MS)
    try:
        db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        return True
    except (apsw.BusyError, apsw.LockedError):
        return False
    finally:
        db.set_busy_timeout(BUSY_TIMEOUT_MS)
