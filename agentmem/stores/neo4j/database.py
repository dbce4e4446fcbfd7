"""Neo4j through its driver: the only importer of it. Transactions with a deadline, errors as the package's own.

Opening needs no running server: the first call connects and checks the graph's owner; the first call after a failure
connects again.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast
from urllib.parse import unquote, urlsplit

from agentmem.core.redaction import SecretText, failure_reason
from agentmem.errors import (
    AgentMemError,
    AuthenticationFailed,
    Closed,
    ConfigError,
    SchemaMismatch,
    StoreError,
    StoreUnavailable,
)

if TYPE_CHECKING:
    from neo4j import AsyncDriver, AsyncResult

T = TypeVar("T")
SCHEMES = ("neo4j", "neo4j+s", "neo4j+ssc", "bolt", "bolt+s", "bolt+ssc")
MIN_SERVER_VERSION = (5, 26)  # labels and types as values came with it
CONNECT_SECONDS = 5.0
RETRY_SECONDS = 5.0
READ_SECONDS = 10.0
WRITE_SECONDS = 60.0
BACKOFF_SECONDS = 1.0  # without tries after a connection failed
LIVENESS_CHECK_SECONDS = 30.0  # after which a connection is tried before it is used
MAX_CONNECTIONS = 20
# What a statement of ours meets in data that the graph cannot hold.
_DATA_ERROR_CODES = (
    "Neo.ClientError.Statement.TypeError",
    "Neo.ClientError.Statement.ArgumentError",
    "Neo.ClientError.Schema.ConstraintValidationFailed",
)
_TRANSIENT_ERROR_PREFIXES = ("Neo.ClientError.Transaction.", "Neo.ClientError.Database.", "Neo.ClientError.General.")


class Transaction(Protocol):
    """Where statements run: the driver's transaction, or a session, which commits each of them."""

    async def run(self, query: str, parameters: dict[str, Any] | None = None) -> AsyncResult:
        """Run a statement."""
        ...


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server is and who asks. `display_uri` is the address for messages, without the options of `uri`."""

    uri: str = field(repr=False)
    user: str
    password: str = field(repr=False)
    database: str | None

    @property
    def display_uri(self) -> str:
        """Scheme, host and port."""
        return self.uri.partition("?")[0]


def parse_address(url: str, credentials: Mapping[str, str] | None = None) -> Address:
    """Take `neo4j://user:password@host:port/database` apart; `credentials` has user and password when the URL has not.

    Raises ConfigError for anything else, without quoting what may be a password.
    """
    credentials = credentials or {}
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:  # its text may quote the password
        raise ConfigError("graph_url: the host or port cannot be read; encode / ? # @ in the password") from None
    if parts.scheme not in SCHEMES or not host:
        raise ConfigError(f"graph_url must be like neo4j://user:password@host:7687, got {parts.scheme or 'no scheme'}")
    user = unquote(parts.username or "") or credentials.get("user", "")
    password = unquote(parts.password or "") or credentials.get("password", "")
    if bool(user) != bool(password):
        raise ConfigError("graph_url: give both the user and the password, or neither")
    uri = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}" + (f"?{parts.query}" if parts.query else "")
    return Address(SecretText(uri), user, SecretText(password), parts.path.strip("/") or None)


@contextmanager
def translate_errors(address: Address) -> Iterator[None]:
    """Turn the driver's errors into the package's, once, without the cause and the server's words, which quote values.

    The server's words are kept where it only could not answer.
    """
    from neo4j.exceptions import DriverError, Neo4jError

    try:
        yield
    except AgentMemError:
        raise
    except Neo4jError as error:
        code, message = error.code or "", _first_line(error.message or str(error))
        if code.startswith("Neo.ClientError.Security."):
            raise AuthenticationFailed(
                f"{address.display_uri}: authentication failed; check user and password in graph_url or "
                f"graph_password_file ({code})"
            ) from None
        if code in _DATA_ERROR_CODES:
            raise StoreError(f"{address.display_uri} cannot hold what was to be written ({code})") from None
        if code.startswith("Neo.ClientError.") and not code.startswith(_TRANSIENT_ERROR_PREFIXES):
            raise SchemaMismatch(f"{address.display_uri} refused a statement of this version ({code})") from None
        raise StoreUnavailable(f"{address.display_uri} could not answer ({code}): {message}") from None
    except TimeoutError:
        raise StoreUnavailable(f"{address.display_uri} did not answer in time") from None
    except DriverError as error:
        raise StoreUnavailable(f"{address.display_uri} cannot be reached: {_first_line(str(error))}") from None
    except OSError as error:
        raise StoreUnavailable(f"{address.display_uri} cannot be reached: {failure_reason(error)}") from None
    except (ValueError, TypeError, OverflowError) as error:  # of the driver, when it packs a value
        kind = type(error).__name__
        raise StoreError(f"{address.display_uri} cannot hold what was to be written ({kind})") from None


def _first_line(text: str) -> str:
    return text.partition("\n")[0].strip().rstrip(":")


class UnusableGraph(SchemaMismatch, StoreUnavailable):
    """The server answers, but the graph is another store's, or at another schema; memory goes on without it."""


class Neo4jDatabase:
    """One database of a server. `read` and `write` run a function in a managed transaction, which may run it again.

    `check_schema` looks at the database before the first of them and after a failure. `retry_seconds` limits how long a
    transaction is retried. Used after a fork, it connects again.
    """

    def __init__(
        self,
        address: Address,
        check_schema: Callable[[Transaction], Awaitable[None]] | None = None,
        *,
        retry_seconds: float = RETRY_SECONDS,
    ) -> None:
        self.address = address
        self._check_schema = check_schema
        self._retry_seconds = retry_seconds
        self._closed = False
        self._inherited: list[AsyncDriver | None] = []
        self._start()

    def _start(self) -> None:
        self._pid = os.getpid()
        self._current_driver: AsyncDriver | None = None
        self._lock = asyncio.Lock()
        self._is_checked = False
        self._failed_at, self._failure = float("-inf"), StoreUnavailable()

    async def read(self, work: Callable[[Transaction], Awaitable[T]]) -> T:
        """Run a function in a read transaction."""
        await self.ensure_ready()
        return await self._transact("execute_read", work, READ_SECONDS)

    async def write(self, work: Callable[[Transaction], Awaitable[T]], timeout_seconds: float = WRITE_SECONDS) -> T:
        """Run a function in a write transaction; any error rolls everything back."""
        await self.ensure_ready()
        return await self._transact("execute_write", work, timeout_seconds)

    async def ensure_ready(self) -> None:
        """Make sure that the server is there and the graph is ours.

        Raises StoreUnavailable, and at once the same again while it is less than a second old. It is
        AuthenticationFailed or UnusableGraph where the server answers and somebody has to act.
        """
        driver = self.ensure_driver()
        if not self._is_checked:
            async with self._lock:
                await self._check_once(driver)

    async def _check_once(self, driver: AsyncDriver) -> None:
        now = asyncio.get_running_loop().time
        if self._is_checked:  # since somebody else had the lock
            return
        if now() - self._failed_at < BACKOFF_SECONDS:
            raise type(self._failure)(str(self._failure))
        try:
            await self._check_server(driver)
        except StoreUnavailable as error:
            self._failed_at, self._failure = now(), error
            raise
        self._is_checked = True

    async def _check_server(self, driver: AsyncDriver) -> None:
        with translate_errors(self.address):
            # Not managed: a retry would make every caller wait for a server that is away.
            async with asyncio.timeout(CONNECT_SECONDS), driver.session(database=self.address.database) as session:
                server = (await (await session.run("RETURN 1 LIMIT 1")).consume()).server
                _check_server_version(self.address, server.agent)
                if self._check_schema is not None:
                    await self._check_schema(session)

    async def _transact(self, mode: str, work: Callable[[Transaction], Awaitable[T]], timeout_seconds: float) -> T:
        from neo4j import unit_of_work

        driver = self.ensure_driver()
        bookmarks = driver.execute_query_bookmark_manager  # so that a process reads what it wrote, on a cluster too
        limited = unit_of_work(metadata={"application": "agentmem"}, timeout=timeout_seconds)(work)
        try:
            with translate_errors(self.address):
                async with (
                    asyncio.timeout(timeout_seconds),
                    driver.session(database=self.address.database, bookmark_manager=bookmarks) as session,
                ):
                    return cast("T", await getattr(session, mode)(limited))
        except StoreUnavailable:
            self._is_checked = False
            raise

    def ensure_driver(self) -> AsyncDriver:
        """The driver of this process, made at the first call. Raises Closed and ConfigError."""
        if self._closed:
            raise Closed(f"the connection to {self.address.display_uri} was closed")
        if os.getpid() != self._pid:
            self._inherited.append(self._current_driver)  # kept, not closed: the parent is using its sockets
            self._start()
        if self._current_driver is None:
            self._current_driver = _open_driver(self.address, self._retry_seconds)
        return self._current_driver

    async def close(self) -> None:
        """Close every connection of this process; calling it again does nothing."""
        opened, self._closed, self._current_driver = self._current_driver, True, None
        if opened is not None and os.getpid() == self._pid:
            await opened.close()


async def fetch_rows(tx: Transaction, statement: str, **values: Any) -> list[list[Any]]:
    """Run a statement and return its rows."""
    result = await tx.run(statement, values)
    return await result.values()


def _open_driver(address: Address, retry_seconds: float) -> AsyncDriver:
    try:
        import neo4j
    except ImportError as error:
        raise ConfigError("graph_url needs the Neo4j driver: pip install 'agentmem-graph[neo4j]'") from error
    if (logger := logging.getLogger("neo4j")).level == logging.NOTSET:
        logger.setLevel(logging.CRITICAL)  # of a server that is away it logs every try; the errors here say the same
    try:
        return neo4j.AsyncGraphDatabase.driver(
            address.uri,
            auth=(address.user, address.password) if address.user else None,
            connection_timeout=CONNECT_SECONDS,
            connection_acquisition_timeout=CONNECT_SECONDS,
            max_transaction_retry_time=retry_seconds,
            max_connection_pool_size=MAX_CONNECTIONS,
            liveness_check_timeout=LIVENESS_CHECK_SECONDS,
            notifications_min_severity="OFF",
            user_agent="agentmem",
        )
    except neo4j.exceptions.DriverError as error:
        raise ConfigError(f"graph_url: the driver does not take it ({type(error).__name__})") from None


def _check_server_version(address: Address, agent: str) -> None:
    version = re.match(r"Neo4j/(\d+)\.(\d+)", agent)
    if version is None or (int(version[1]), int(version[2])) < MIN_SERVER_VERSION:
        wanted = ".".join(map(str, MIN_SERVER_VERSION))
        raise UnusableGraph(f"{address.display_uri} is {agent}; the graph needs Neo4j {wanted} or newer")
