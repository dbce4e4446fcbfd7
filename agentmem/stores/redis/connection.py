"""Redis through redis-py: the only importer of the driver. A bounded pool, a time limit for every request."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

from agentmem.errors import Closed, ConfigError, StoreUnavailable
from agentmem.redaction import failure_reason

if TYPE_CHECKING:
    from redis.asyncio import Redis

T = TypeVar("T")
Request = Callable[[Any], Awaitable[T]]
MAX_CONNECTIONS = 16
IO_TIMEOUT_SECONDS = 0.5  # seconds to connect, for a free connection, for an answer: a cache must not hold up a write
REQUEST_TIMEOUT_SECONDS = 1.0  # seconds for one request with all of these
HEALTH_CHECK_SECONDS = 30  # seconds after which a connection is tried before it is trusted with a request


class RedisClient:
    """One Redis. Opened without a word to the server, so that one that is down fails only what asks it.

    Raises ConfigError for a URL that cannot work, and when the driver is not installed. Used after a fork, it connects
    anew.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._closed = False
        self._inherited: list[Any] = []
        self._start()

    def _start(self) -> None:
        self._pid = os.getpid()
        self._client = _build_client(self._url)
        pool = self._client.connection_pool
        self.address = "{host}:{port}".format(**{"host": "localhost", "port": 6379, **pool.connection_kwargs})

    def __repr__(self) -> str:
        return f"Connections({self.address!r})"

    async def execute(self, request: Request[T], *, is_idempotent: bool) -> T:
        """The answer to a request. `is_idempotent`: one that may be done twice is sent once more when its connection
        broke.

        Raises StoreUnavailable, which never holds the password, and Closed.
        """
        import redis

        client = self._ensure_client()
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT_SECONDS):
                try:
                    return await request(client)
                except redis.AuthenticationError:
                    raise
                except redis.ConnectionError:
                    if not is_idempotent:
                        raise
                return await request(client)
        except (redis.RedisError, OSError) as error:
            raise StoreUnavailable(f"Redis at {self.address} cannot be used: {_describe_error(error)}") from None

    async def close(self) -> None:
        """Close the connections."""
        if self._pid == os.getpid() and not self._closed:
            await self._client.aclose()
        self._closed = True

    def _ensure_client(self) -> Any:
        if self._closed:
            raise Closed(f"the session cache at {self.address} was closed")
        if self._pid != os.getpid():
            # Closing what was inherited would take the parent's sockets off the event queue that both share.
            self._inherited.append(self._client)
            self._start()
        return self._client


def _describe_error(error: Exception) -> str:
    """Why a request failed. What the server answers is not quoted: it may repeat arguments of a command."""
    import redis

    if isinstance(error, TimeoutError):
        return f"no answer within {REQUEST_TIMEOUT_SECONDS} s"
    if isinstance(error, redis.AuthenticationError):
        return "authentication failed; check user and password in session_url or session_password_file"
    if isinstance(error, redis.OutOfMemoryError):
        return "it has used up its maxmemory"
    if isinstance(error, redis.ResponseError):
        code = re.match(r"[A-Z]{2,20}\b", str(error))  # such as NOPERM
        return f"it refused the request ({code[0] if code else type(error).__name__})"
    return str(error) if type(error) in (redis.ConnectionError, redis.TimeoutError) else failure_reason(error)


def _build_client(url: str) -> Redis:
    try:
        from redis.asyncio import BlockingConnectionPool, Redis
        from redis.asyncio.retry import Retry
        from redis.backoff import NoBackoff
    except ImportError as error:
        raise ConfigError("session_url redis:// needs its driver: pip install 'agentmem-graph[redis]'") from error
    checked = {"ssl_check_hostname": True} if url.startswith("rediss:") else {}  # older drivers leave it to the caller
    try:
        pool = BlockingConnectionPool.from_url(
            url, max_connections=MAX_CONNECTIONS, timeout=IO_TIMEOUT_SECONDS, socket_connect_timeout=IO_TIMEOUT_SECONDS,
            socket_timeout=IO_TIMEOUT_SECONDS, health_check_interval=HEALTH_CHECK_SECONDS, retry=Retry(NoBackoff(), 0),
            protocol=2, decode_responses=True, **checked,
        )  # fmt: skip
        pool.connection_class(**pool.connection_kwargs)  # an option that does not exist shows here
    except (ValueError, TypeError):
        # The driver's words may hold a piece of the password.
        raise ConfigError(
            "session_url is no URL of a Redis; write redis://user:password@host:6379/0 (rediss:// with TLS), "
            "special characters percent-encoded, and as options only those of the driver redis-py"
        ) from None
    return Redis.from_pool(pool)
