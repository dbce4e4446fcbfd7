"""Postgres through psycopg: the only importer of the driver. Transactions of one user each, the package's own errors.

Statements of a transaction are sent without waiting for one another; reading a result waits for it and for all before
it, so that work which sends several statements and then reads has one round trip. An error shows at the next result
that is read, at the latest when the transaction ends.
"""

from __future__ import annotations

import asyncio
import os
import socket
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, nullcontext, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from agentmem.core.redaction import failure_reason
from agentmem.core.scope import Operator
from agentmem.errors import (
    AuthenticationFailed,
    Closed,
    ConfigError,
    Conflict,
    CorruptStore,
    SchemaMismatch,
    ScopeError,
    StoreError,
    StoreUnavailable,
)
from agentmem.stores.sql.connection import Principal, Work
from agentmem.text.templates import load_templates

if TYPE_CHECKING:
    import psycopg
    from psycopg_pool import AsyncConnectionPool

    from agentmem.stores.postgres.connection import PostgresConnection

    Pool: TypeAlias = AsyncConnectionPool[PostgresConnection]

T = TypeVar("T")
SCHEMES = ("postgresql://", "postgres://")
MAX_CONNECTIONS = 8  # eight recalls at once wait for their event loop rather than for a connection
CONNECT_SECONDS = 5.0  # to connect, and for a free connection
TRANSACTION_SECONDS = 10.0  # for one transaction
GRACE_SECONDS = 2.0  # beyond that, until a server that hangs is given up
IDLE_SECONDS = 300.0
MAX_ATTEMPTS = 4  # of a transaction that others or a broken connection made impossible
MAX_PREPARED_STATEMENTS = 256  # kept prepared by each connection
# A setting of the session that the server takes from whoever connects. A pooler, whose clients share sessions, refuses
# or drops it.
DIRECT_SETTING = "agentmem.direct"
READ_MODES = ("read", "lookup")  # of a transaction; the others are "write" and "note"
_DATA_ERROR_CLASS = "22"  # the class of errors whose first line quotes a value
_CORRUPTION_CODES = ("XX001", "XX002")
# of what our statements name, something is not there
_MISSING_OBJECT_CODES = ("3F000", "42703", "42704", "42883", "42P01")


class PostgresDatabase:
    """One database of a server. `query` and `commit` run a function inside a transaction, which may run it again.

    Opening does not contact the server. Raises ConfigError for a URL that cannot work and when the driver is not
    installed. Used after a fork, it connects anew.
    """

    def __init__(self, url: str) -> None:
        self._conninfo, self.address = parse_url(url)
        self._closed = False
        self._inherited: list[Pool | None] = []
        self._start()

    def _start(self) -> None:
        self._pid = os.getpid()
        self._pool: Pool | None = None
        self._is_pooled = False  # by a pooler that may give a connection to others after each transaction
        self._lock = asyncio.Lock()
        self._return_tasks: set[asyncio.Task[None]] = set()
        self.break_count = 0

    def __repr__(self) -> str:
        return f"PostgresDatabase({self.address!r})"

    async def query(
        self, principal: Principal, work: Work[T], *, timeout_seconds: float | None = None, by_key: bool = False
    ) -> T:
        """Run work that only reads; all its statements see the same state, and only this user's rows.

        An Operator sees all users. Raises StoreUnavailable when the server is away.
        """
        mode = "lookup" if by_key else "read"
        return await self._run_with_retry(mode, principal, work, timeout_seconds or TRANSACTION_SECONDS)

    async def commit(
        self, principal: Principal, work: Work[T], *, timeout_seconds: float | None = None, durable: bool = True
    ) -> T:
        """Run work and commit; any error rolls everything back.

        What is not `durable` does not wait for the disk: if the server fails within a second, it is lost.
        """
        mode = "write" if durable else "note"
        return await self._run_with_retry(mode, principal, work, timeout_seconds or TRANSACTION_SECONDS)

    async def run_dedicated(
        self, principal: Principal, work: Callable[[PostgresConnection], Awaitable[T]], *, timeout_seconds: float
    ) -> T:
        """Run a function and commit, on a connection of its own that waits for each statement (scripts, COPY)."""
        from agentmem.stores.postgres.connection import build_connection_class

        if self._closed:
            raise Closed(f"the connection to {self.address} was closed")
        sql = load_templates(__package__, "database.sql")
        with self._translate_errors():
            connection = await build_connection_class().connect(self._conninfo, prepare_threshold=None)
            async with _closing(connection), connection:
                await connection.set_read_only(False)  # whatever others set for a session that a pooler shares
                await connection.execute(sql["limits"], _session_settings(principal, timeout_seconds, "alone"))
                return await work(connection)

    async def _run_with_retry(
        self,
        mode: str,
        principal: Principal,
        work: Callable[[PostgresConnection], Awaitable[T]],
        timeout_seconds: float,
    ) -> T:
        import psycopg

        for attempt in range(1, MAX_ATTEMPTS + 1):
            last = attempt == MAX_ATTEMPTS
            try:
                with self._translate_errors():
                    return await self._run_once(mode, principal, work, timeout_seconds)
            except (psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected):
                if last:
                    raise StoreUnavailable(f"{self.address} had too many writers at once; try again") from None
                await asyncio.sleep(0.01 * attempt)
            except _NotCommitted as error:
                if last:
                    raise StoreUnavailable(f"{self.address} ended the connection: {error}") from None
                await self._drop_broken_connections()
        raise AssertionError("the last attempt returns or raises")

    async def _run_once(
        self,
        mode: str,
        principal: Principal,
        work: Callable[[PostgresConnection], Awaitable[T]],
        timeout_seconds: float,
    ) -> T:
        async with self._acquire_connection() as connection:
            limit = _DeadlineKiller(connection, timeout_seconds + GRACE_SECONDS)
            try:
                return await self._transact(connection, mode, principal, work, timeout_seconds)
            except _NotCommitted:
                if limit.has_expired:
                    raise StoreUnavailable(f"{self.address} did not answer in {timeout_seconds:g} s") from None
                raise
            finally:
                limit.cancel()

    async def _transact(
        self,
        connection: PostgresConnection,
        mode: str,
        principal: Principal,
        work: Callable[[PostgresConnection], Awaitable[T]],
        timeout_seconds: float,
    ) -> T:
        import psycopg

        ending, ended, canceled = False, False, False
        try:
            # A pooler may hold a server's connection for a client whose pipeline has ended.
            async with nullcontext() if self._is_pooled else connection.pipeline() as pipeline:
                try:
                    await self._begin(connection, mode, principal, timeout_seconds)
                    result = await work(connection)
                    ending = mode not in READ_MODES
                    if ending or self._is_pooled:
                        await connection.execute(load_templates(__package__, "database.sql")["commit"])
                except BaseException:
                    with suppress(psycopg.Error):  # what follows an error in a pipeline fails too
                        if pipeline is not None:
                            await pipeline.sync()
                    ended = True
                    raise
            ended = True
            return result
        except psycopg.OperationalError as error:
            if connection.closed and not ending:
                raise _NotCommitted(_describe_error(error)) from None
            raise
        except asyncio.CancelledError as error:
            # A driver that is canceled before it has sent the end of the transaction takes it for ended.
            canceled = not ended
            _end_driver_steps(error)
            raise
        finally:
            if connection.closed:
                self.break_count += 1
            elif canceled:
                await connection.close()
            elif connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
                await connection.rollback()

    async def _begin(
        self, connection: PostgresConnection, mode: str, principal: Principal, timeout_seconds: float
    ) -> None:
        sql, is_read = load_templates(__package__, "database.sql"), mode in READ_MODES
        if not is_read or self._is_pooled:
            await connection.execute(sql["read" if is_read else "write"])
        await connection.execute(sql["limits"], _session_settings(principal, timeout_seconds, mode, self._is_pooled))
        if isinstance(principal, Operator):
            await self._check_operator(connection)

    async def _check_operator(self, connection: PostgresConnection) -> None:
        cursor = await connection.execute(load_templates(__package__, "database.sql")["may_operate"])
        if await cursor.fetchone() != (True,):
            user = connection.info.user
            raise ScopeError(
                f'{self.address}: {user} may not read over all users; run: GRANT agentmem_worker TO "{user}"'
            )

    # -- the pool

    @asynccontextmanager
    async def _acquire_connection(self) -> AsyncIterator[PostgresConnection]:
        """A connection of the pool, returned to it at the end; an error says why none is free."""
        import psycopg_pool

        pool = await self._ensure_pool()
        try:
            connection = await pool.getconn()
        except psycopg_pool.PoolTimeout as error:
            now = pool.get_stats()
            raise StoreUnavailable(
                f"{self.address} had no connection free within {CONNECT_SECONDS:g} s: {now.get('pool_size', 0)} open "
                f"of "
                f"{MAX_CONNECTIONS}, {now.get('requests_waiting', 0)} others waiting, "
                f"{now.get('connections_errors', 0)} attempts to connect failed"
            ) from error
        try:
            yield connection
        finally:
            # In a task of its own: the pool loses a connection whose return is cancelled, and recalls have deadlines.
            returned = asyncio.ensure_future(pool.putconn(connection))
            self._return_tasks.add(returned)
            returned.add_done_callback(self._return_tasks.discard)
            await asyncio.sleep(0)  # most often it is back then; to wait for the task would be three rounds of the loop

    async def _ensure_pool(self) -> Pool:
        if self._closed:
            raise Closed(f"the connection to {self.address} was closed")
        if os.getpid() != self._pid:
            self._inherited.append(self._pool)  # kept, not closed: the parent is using its sockets
            self._start()
        if self._pool is None:
            async with self._lock:
                if self._pool is None:
                    self._pool = await self._open_pool()
        return self._pool

    async def _open_pool(self) -> Pool:
        import psycopg_pool

        from agentmem.stores.postgres.connection import build_connection_class

        async with asyncio.timeout(2 * CONNECT_SECONDS):
            self._is_pooled, can_prepare = await _detect_pooler(self._conninfo)
        pool: Pool = psycopg_pool.AsyncConnectionPool(
            self._conninfo,
            connection_class=build_connection_class(),
            kwargs={"autocommit": True, **({} if can_prepare else {"prepare_threshold": None})},
            configure=partial(_configure, is_pooled=self._is_pooled),
            min_size=1,
            max_size=MAX_CONNECTIONS,
            timeout=CONNECT_SECONDS,
            max_idle=IDLE_SECONDS,
            reconnect_timeout=CONNECT_SECONDS,
            open=False,
            name=f"agentmem {self.address}",
        )
        await pool.open()
        return pool

    async def _drop_broken_connections(self) -> None:
        """Take connections out of the pool that a restart of the server has broken."""
        if self._pool is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(CONNECT_SECONDS):
                    await self._pool.check()

    async def close(self) -> None:
        """Close every connection of this process; calling it again does nothing."""
        pool, self._closed, self._pool = self._pool, True, None
        if pool is not None and os.getpid() == self._pid:
            if self._return_tasks:
                await asyncio.wait(self._return_tasks)
            await pool.close()

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Turn the driver's errors into the package's, once, without the cause, which quotes what was being written."""
        import psycopg

        try:
            yield
        except (psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected):
            raise
        except psycopg.Error as error:
            raise self._to_store_error(error) from None
        except OSError as error:
            raise StoreUnavailable(f"{self.address} cannot be reached: {failure_reason(error)}") from None

    def _to_store_error(self, error: psycopg.Error) -> StoreError | Conflict:
        import psycopg

        code, said = error.sqlstate or "", _describe_error(error)
        if code in _CORRUPTION_CODES:
            return CorruptStore(f"{self.address} is damaged: {said}. Nothing was overwritten; restore a backup")
        if code in _MISSING_OBJECT_CODES:
            return SchemaMismatch(
                f"{self.address}: its schema is missing or older ({said}); run: agentmem admin migrate"
            )
        if isinstance(error, psycopg.errors.QueryCanceled | psycopg.errors.LockNotAvailable):
            return StoreUnavailable(f"{self.address} did not answer in time: {said}")
        if code.startswith(_DATA_ERROR_CLASS):
            return StoreError(f"{self.address} cannot hold a value that was to be written (SQLSTATE {code})")
        if isinstance(error, psycopg.IntegrityError):
            return Conflict(f"{self.address}: {said}")
        if "authentication failed" in said:
            return AuthenticationFailed(f"{self.address} cannot be used: {said}")
        if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
            return StoreUnavailable(f"{self.address} cannot be used: {said}")
        return StoreError(f"{self.address}: {said}")


class _NotCommitted(Exception):
    """The connection broke before anything was committed: the same transaction can be tried on another one."""


class _DeadlineKiller:
    """Breaks a connection after a deadline, even if the server hangs."""

    def __init__(self, connection: PostgresConnection, timeout_seconds: float) -> None:
        self.has_expired = False
        self._connection = connection
        self._timer = asyncio.get_running_loop().call_later(timeout_seconds, self._expire)

    def cancel(self) -> None:
        """Let the connection be."""
        self._timer.cancel()

    def _expire(self) -> None:
        self.has_expired = True
        with suppress(OSError), socket.socket(fileno=os.dup(self._connection.fileno())) as copy:
            copy.shutdown(socket.SHUT_RDWR)


@asynccontextmanager
async def _closing(connection: psycopg.AsyncConnection[Any]) -> AsyncIterator[None]:
    """Close a connection at the end; the driver leaves one open whose commit is canceled."""
    try:
        yield
    finally:
        await connection.close()


async def fetch_rows(
    connection: PostgresConnection, statement: str, values: Mapping[str, Any] | None = None
) -> list[Any]:
    """Run a statement and return its rows."""
    return await (await connection.execute(statement, values)).fetchall()


async def set_user(connection: PostgresConnection, user_id: str) -> None:
    """Go on with the rows of another user, in the same transaction."""
    await connection.execute(load_templates(__package__, "database.sql")["user"], {"user_id": user_id})


def parse_url(url: str) -> tuple[str, str]:
    """The connection string of a URL, and the place without user and password, for messages. Raises ConfigError."""
    try:
        import psycopg
        import psycopg_pool  # noqa: F401
        from psycopg.conninfo import conninfo_to_dict, make_conninfo
    except ImportError as error:
        raise ConfigError("log_url postgresql:// needs its driver: pip install 'agentmem-graph[postgres]'") from error
    try:
        if not url.startswith(SCHEMES):
            raise ValueError
        known = conninfo_to_dict(url)
        wanted = {
            "connect_timeout": str(int(CONNECT_SECONDS)),
            "application_name": "agentmem",
            "keepalives_idle": "30",
            "keepalives_interval": "10",
            "keepalives_count": "3",
            # Else PGHOSTADDR of the environment would send the password elsewhere than the URL says.
            **({"hostaddr": ""} if known.get("host") else {}),
        }
        conninfo = make_conninfo(url, **{name: value for name, value in wanted.items() if name not in known})
    except (psycopg.ProgrammingError, ValueError):  # the driver's words may hold a piece of the password
        raise ConfigError(
            "log_url must be a PostgreSQL URL: write postgresql://user:password@host:5432/database, special characters "
            "percent-encoded, and as options only those of libpq"
        ) from None
    return conninfo, f"{known.get('host', 'localhost')}:{known.get('port', 5432)}/{known.get('dbname', '')}"


async def _detect_pooler(conninfo: str) -> tuple[bool, bool]:
    """Whether a pooler stands before the server, and whether connections can prepare statements.

    Raises what the driver says when nobody can be reached: a pool of connections does not say why it has none.
    """
    import psycopg
    from psycopg.conninfo import conninfo_to_dict

    options = f"{conninfo_to_dict(conninfo).get('options', '')} -c {DIRECT_SETTING}=on"
    try:
        connection = await psycopg.AsyncConnection.connect(conninfo, options=options)
    except psycopg.OperationalError as error:
        if "option" not in str(error):
            raise
        connection = await psycopg.AsyncConnection.connect(conninfo)
    sql = load_templates(__package__, "database.sql")
    async with _closing(connection), connection:
        cursor = await connection.execute(sql["is_direct"], {"setting": DIRECT_SETTING})
        if await cursor.fetchone() == (True,):
            return False, True
        try:
            cursor = await connection.execute(sql["prepared_as"], prepare=True)
            names = [name for (name,) in await cursor.fetchall()]
        except psycopg.errors.DuplicatePreparedStatement:  # of another client
            await connection.rollback()
            return True, False
        own = [name for name in names if name.startswith("_pg3_")]
        for name in own:
            await connection.execute(psycopg.sql.SQL("DEALLOCATE {}").format(psycopg.sql.Identifier(name)))
        return True, not own and psycopg.capabilities.has_send_close_prepared()


def _session_settings(
    principal: Principal, timeout_seconds: float, mode: str, is_pooled: bool = False
) -> dict[str, str | bool]:
    user_id = "" if isinstance(principal, Operator) else principal if isinstance(principal, str) else principal.user_id
    operator = "on" if isinstance(principal, Operator) else "off"
    ways = {
        "lasting": mode != "note",
        "keyed": mode != "read" and user_id != "",
        "lookup": mode == "lookup",
        "pooled": is_pooled,
    }
    return {"user_id": user_id, "operator": operator, "patience": str(int(timeout_seconds * 1000)), **ways}


async def _configure(connection: PostgresConnection, *, is_pooled: bool) -> None:
    connection.prepared_max = MAX_PREPARED_STATEMENTS
    if not is_pooled:  # the server, too, notices within a minute that a client is lost, and gives up what it had locked
        await connection.execute(load_templates(__package__, "database.sql")["session"])


def _end_driver_steps(error: BaseException | None) -> None:
    """Let go of what the driver was about to do, while its connection is still there."""
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__context__


def _describe_error(error: psycopg.Error) -> str:
    """What went wrong, in one line, with the server's advice; its other lines quote what was being written."""
    first = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return f"{first} ({error.diag.message_hint})" if error.diag.message_hint else first
