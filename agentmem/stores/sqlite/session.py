"""The session cache: values with a time to live, in a SQLite file of its own that may be lost at any time."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

from agentmem.core.clock import Clock, to_micros
from agentmem.core.scope import Scope
from agentmem.errors import Closed, InvalidRecord, StoreError, StoreUnavailable
from agentmem.stores.sqlite.connection import SqliteConnection
from agentmem.stores.sqlite.database import SqliteDatabase, make_private, prepare_folder
from agentmem.text.templates import load_templates

_SQL = load_templates(__package__, "session.sql")

T = TypeVar("T")
_IN_MEMORY_NUMBERS = itertools.count()
RENEW_BELOW_TTL_FRACTION = 0.9  # remaining share of a key's time to live below which a read restarts it
SESSION_BUSY_TIMEOUT_MS = 500  # for another process's lock: a cache must not hold up a write
SWEEP_INTERVAL_MICROS = timedelta(minutes=1) // timedelta(microseconds=1)


async def open_session(path: Path | None, clock: Clock) -> SqliteSession:
    """Open the session cache at a path, creating a missing file and replacing a damaged one; None: in this process.

    Raises StoreUnavailable when the file can be neither read nor created.
    """
    if path is not None:
        prepare_folder(path)
    session = SqliteSession(path, clock)
    await session.start()
    return session


class SqliteSession:
    """A SessionStore over one file; see the protocol for its promises."""

    is_shared = False

    def __init__(self, path: Path | None, clock: Clock) -> None:
        self._in_memory, self._clock = path is None, clock
        self._path = path or Path(f"/agentmem-session-{next(_IN_MEMORY_NUMBERS)}")
        self._database: SqliteDatabase | None = None
        self._last_sweep_at: int | None = None
        self._closed = False
        self._open_lock = asyncio.Lock()

    async def start(self) -> None:
        """Open the file."""
        await self._run_with_recovery(lambda database: database.read(lambda db: None))

    async def push(
        self, scope: Scope, key: str, value: Any, *, keep: int, ttl: float, max_bytes: int | None = None
    ) -> None:
        """Append to a list, of which the last `keep` values stay; every push renews the time to live (seconds)."""
        text, until = _encode_json(key, value), self._expiry(ttl)
        if keep < 1:
            raise InvalidRecord(f"keep must be at least 1, got {keep}", field="keep")

        def write(db: SqliteConnection) -> None:
            values = self._read_value(db, scope, key)
            kept = values[1 - keep :] if isinstance(values, list) and keep > 1 else []
            texts = [*(_encode_json(key, each) for each in kept), text]
            while max_bytes is not None and len(texts) > 1 and len(key.encode()) + _count_bytes(texts) > max_bytes:
                del texts[0]
            self._write_value(db, scope, key, f"[{','.join(texts)}]", until, max_bytes)

        await self._write(write)

    async def tail(self, scope: Scope, key: str, limit: int) -> list[Any]:
        """The last `limit` values pushed, oldest first; [] when there is no list."""
        values = await self.get(scope, key)
        return values[-limit:] if isinstance(values, list) and limit > 0 else []

    async def set(self, scope: Scope, key: str, value: Any, *, ttl: float, max_bytes: int | None = None) -> None:
        """Keep a JSON value for `ttl` seconds; of the keys with a `max_bytes` the oldest make room."""
        text, until = _encode_json(key, value), self._expiry(ttl)
        await self._write(lambda db: self._write_value(db, scope, key, text, until, max_bytes))

    async def get(self, scope: Scope, key: str) -> Any:
        """The value of a key, None when there is none."""
        return await self._run_with_recovery(
            lambda database: database.read(lambda db: self._read_value(db, scope, key))
        )

    async def renew(self, scope: Scope, key: str, *, ttl: float) -> None:
        """Let a key that is there live for `ttl` seconds from now, unless it has nine tenths of that left."""
        until, enough = self._expiry(ttl), self._expiry(ttl * RENEW_BELOW_TTL_FRACTION)
        asked: dict[str, str | int] = {"user_id": scope.user_id, "key": key, "now": self._now()}
        row: Any = await self._run_with_recovery(
            lambda database: database.read(lambda db: db.execute(_SQL["get"], asked).fetchone())
        )
        if row is not None and row[1] < enough:
            await self._write(lambda db: _execute(db, "renew", until=until, **asked))

    async def delete(self, scope: Scope, key: str) -> None:
        """Forget a key."""
        await self._write(lambda db: _execute(db, "delete", user_id=scope.user_id, key=key))

    async def items(self, scope: Scope, prefix: str) -> dict[str, Any]:
        """Keys that begin with a prefix, in order, with their values."""
        asked = {"user_id": scope.user_id, "prefix": prefix, "now": self._now()}
        rows: list[Any] = await self._run_with_recovery(
            lambda file: file.read(lambda db: db.execute(_SQL["items"], asked).fetchall())
        )
        return {key: json.loads(value) for key, value in rows}

    async def clear(self, scope: Scope, prefix: str = "") -> None:
        """Forget all keys of the user that begin with a prefix, in the file and in its journal."""
        await self._write(lambda db: _execute(db, "clear", user_id=scope.user_id, prefix=prefix))
        # What is cleared may be under erasure. While another process reads, the journal stays until that one writes.
        await self._run_with_recovery(lambda database: database.rewrite())
        await self._run_with_recovery(lambda database: database.truncate_wal(attempts=3))
        await self._run_with_recovery(lambda database: database.run_without_transaction(_shorten_busy_timeout))

    async def increment(self, scope: Scope, key: str, *, ttl: float) -> int:
        """Add one and return the sum. The time to live (seconds) begins with the first one and is not renewed."""
        until = self._expiry(ttl)

        def write(db: SqliteConnection) -> int:
            row = db.execute(_SQL["get"], {"user_id": scope.user_id, "key": key, "now": self._now()}).fetchone()
            value = json.loads(row[0]) if row is not None else 0
            count = value + 1 if type(value) is int else 1
            self._write_value(db, scope, key, str(count), until if count == 1 or row is None else row[1])
            return count

        return await self._write(write)

    async def close(self) -> None:
        """Close the file."""
        self._closed = True
        if self._database is not None:
            await self._database.close()

    def _now(self) -> int:
        return to_micros(self._clock.now())

    def _expiry(self, ttl: float) -> int:
        if not 0 < ttl < float("inf"):
            raise InvalidRecord(f"ttl must be a positive number of seconds, got {ttl}", field="ttl")
        return self._now() + round(ttl * 1_000_000)

    def _read_value(self, db: SqliteConnection, scope: Scope, key: str) -> Any:
        row = db.execute(_SQL["get"], {"user_id": scope.user_id, "key": key, "now": self._now()}).fetchone()
        return None if row is None else json.loads(row[0])

    def _write_value(
        self, db: SqliteConnection, scope: Scope, key: str, text: str, expires_at: int, max_bytes: int | None = None
    ) -> None:
        named, now = {"user_id": scope.user_id, "key": key}, self._now()
        _execute(db, "set", **named, value=text, until=expires_at, written=None if max_bytes is None else now)
        if max_bytes is not None:
            _execute(db, "make_room", **named, now=now, max_bytes=max_bytes)

    async def _write(self, function: Callable[[SqliteConnection], T]) -> T:
        def swept(db: SqliteConnection) -> T:
            now = self._now()
            if self._last_sweep_at is None or not 0 <= now - self._last_sweep_at < SWEEP_INTERVAL_MICROS:
                _execute(db, "sweep", now=now)
                self._last_sweep_at = now
            return function(db)

        return await self._run_with_recovery(lambda database: database.write(swept))

    async def _run_with_recovery(self, call: Callable[[SqliteDatabase], Awaitable[T]]) -> T:
        """Call on the open file; a damaged one is replaced, once."""
        database = await self._ensure_database()
        try:
            return await call(database)
        except (StoreUnavailable, InvalidRecord):
            raise
        except (StoreError, Closed):
            if self._closed:
                raise
        return await call(await self._recreate_database(database))

    async def _ensure_database(self) -> SqliteDatabase:
        if self._closed:
            raise Closed(f"{self._path} was closed")
        async with self._open_lock:
            if self._database is None:
                try:
                    self._database = await self._open_database()
                except StoreUnavailable:
                    raise
                except StoreError:
                    self._remove_files()
                    self._database = await self._open_database()
            return self._database

    async def _recreate_database(self, damaged: SqliteDatabase) -> SqliteDatabase:
        async with self._open_lock:
            if self._database is damaged:  # else another call has mended it meanwhile
                self._database = None
                await damaged.close()
                self._remove_files()
        return await self._ensure_database()

    async def _open_database(self) -> SqliteDatabase:
        if not self._in_memory:
            make_private(self._path)
        database = SqliteDatabase(self._path, durable=False, in_memory=self._in_memory)

        def prepare(db: SqliteConnection) -> None:
            _shorten_busy_timeout(db)
            db.execute(_SQL["create"])
            if db.execute(_SQL["is_old"]).get:
                db.execute(_SQL["upgrade"])

        try:
            await database.run_without_transaction(prepare)
        except StoreError:
            await database.close()
            raise
        return database

    def _remove_files(self) -> None:
        for suffix in ("", "-wal", "-shm"):
            try:
                self._path.with_name(self._path.name + suffix).unlink(missing_ok=True)
            except OSError as error:
                raise StoreUnavailable(f"{self._path} is damaged and cannot be removed: {error}") from error


def _shorten_busy_timeout(db: SqliteConnection) -> None:
    db.set_busy_timeout(SESSION_BUSY_TIMEOUT_MS)


def _execute(db: SqliteConnection, name: str, **values: str | int | None) -> None:
    db.execute(_SQL[name], values)


def _count_bytes(texts: list[str]) -> int:
    return sum(len(text.encode()) for text in texts)


def _encode_json(key: str, value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InvalidRecord(f"the value of {key!r} must be JSON: {error}", field="value") from error
