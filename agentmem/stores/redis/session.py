"""The session cache in Redis: its keys, a bounded pool, time limits.

`working:{alice}:_global:talk:turns` is the key `working:_global:talk:turns` of the user alice: the user's name comes
behind the first part, percent-encoded, in braces. These are Redis Cluster's hash tag: a user's keys lie on one node.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote, unquote

from agentmem.core.clock import Clock, to_micros
from agentmem.core.outage import Outage
from agentmem.core.redaction import failure_reason
from agentmem.core.scope import Scope
from agentmem.errors import AuthenticationFailed, Closed, ConfigError, InvalidRecord, StoreUnavailable
from agentmem.text.templates import load_templates

if TYPE_CHECKING:
    from redis.asyncio import Redis

_LUA = load_templates(__package__, "session.lua")


T = TypeVar("T")
Request = Callable[[Any], Awaitable[T]]
MAX_CONNECTIONS = 16
IO_TIMEOUT_SECONDS = 0.5  # seconds to connect, for a free connection, for an answer: a cache must not hold up a write
REQUEST_TIMEOUT_SECONDS = 1.0
RENEW_BELOW_TTL_FRACTION = 0.9  # remaining share of a key's time to live below which a read restarts it
HEALTH_CHECK_SECONDS = 30  # seconds after which a connection is tried before it is trusted with a request

KEY_BATCH_SIZE = 500  # keys in one request: a longer one would hold up the server
MAX_TTL_SECONDS = 100 * 365 * 24 * 3600.0  # seconds


class RedisClient:
    """One Redis. Opening does not contact the server, so a server that is down fails only calls that need it.

    Raises ConfigError for a URL that cannot work, and when the driver is not installed. Used after a fork, it connects
    again.
    """

    def __init__(self, url: str, notices: list[str] | None = None) -> None:
        self._url = url
        self._outage = Outage("session", "Short-lived values cannot be kept", [] if notices is None else notices)
        self._closed = False
        self._inherited: list[Any] = []
        self._start()

    def _start(self) -> None:
        self._pid = os.getpid()
        self._client = _build_client(self._url)
        pool = self._client.connection_pool
        self.address = "{host}:{port}".format(**{"host": "localhost", "port": 6379, **pool.connection_kwargs})

    def __repr__(self) -> str:
        return f"RedisClient({self.address!r})"

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
                    answer = await request(client)
                except redis.AuthenticationError:
                    raise
                except redis.ConnectionError:
                    if not is_idempotent:
                        raise
                    answer = await request(client)
        except (redis.RedisError, OSError) as error:
            kind = AuthenticationFailed if isinstance(error, redis.AuthenticationError) else StoreUnavailable
            failure = kind(f"Redis at {self.address} cannot be used: {_describe_error(error)}")
            self._outage.begin(failure)
            raise failure from None
        self._outage.end()
        return answer

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
            url,
            max_connections=MAX_CONNECTIONS,
            timeout=IO_TIMEOUT_SECONDS,
            socket_connect_timeout=IO_TIMEOUT_SECONDS,
            socket_timeout=IO_TIMEOUT_SECONDS,
            health_check_interval=HEALTH_CHECK_SECONDS,
            retry=Retry(NoBackoff(), 0),
            protocol=2,
            decode_responses=True,
            **checked,
        )
        pool.connection_class(**pool.connection_kwargs)  # an option that does not exist shows here
    except (ValueError, TypeError):
        # The driver's words may hold a piece of the password.
        raise ConfigError(
            "session_url must be a Redis URL: write redis://user:password@host:6379/0 (rediss:// with TLS), "
            "special characters percent-encoded, and as options only those of the driver redis-py"
        ) from None
    return Redis.from_pool(pool)


async def open_session(url: str, clock: Clock, notices: list[str] | None = None) -> RedisSession:
    """The session cache at `redis://user:password@host:6379/0`, or `rediss://` with TLS.

    Nothing is sent yet: a server that is down fails no opening, only what is asked of it. While it refuses user or
    password, `notices` has a line that says so. Raises ConfigError for a URL that cannot work, and when the driver is
    not installed.
    """
    return RedisSession(RedisClient(url, notices), clock)


class RedisSession:
    """A SessionStore over one Redis; see the protocol for its promises.

    Every key has a time to live by the server's clock, and ends by the injected one when that is earlier.
    """

    is_shared = True

    def __init__(self, client: RedisClient, clock: Clock) -> None:
        self._client, self._clock = client, clock

    async def push(
        self, scope: Scope, key: str, value: Any, *, keep: int, ttl: float, max_bytes: int | None = None
    ) -> None:
        """Append to a list, of which the last `keep` values stay; every push renews the time to live (seconds)."""
        text, times = _encode_json(key, value), self._expiry(ttl)
        if keep < 1:
            raise InvalidRecord(f"keep must be at least 1, got {keep}", field="keep")
        place, words = _build_redis_key(scope, key), (*times, text, max_bytes or 0, keep)
        await self._run_script("push", scope, [place], *words, is_idempotent=False)

    async def tail(self, scope: Scope, key: str, limit: int) -> list[Any]:
        """The last `limit` values pushed, oldest first; [] when there is no list."""
        (found,) = await self._run_script("read", scope, [_build_redis_key(scope, key)], -max(limit, 1))
        values = _decode_value(found)
        return values[-limit:] if isinstance(values, list) and limit > 0 else []

    async def set(self, scope: Scope, key: str, value: Any, *, ttl: float, max_bytes: int | None = None) -> None:
        """Keep a JSON value for `ttl` seconds; of the keys with a `max_bytes` the oldest make room."""
        text, times = _encode_json(key, value), self._expiry(ttl)
        await self._run_script("set", scope, [_build_redis_key(scope, key)], *times, text, max_bytes or 0)

    async def get(self, scope: Scope, key: str) -> Any:
        """The value of a key, None when there is none."""
        (found,) = await self._run_script("read", scope, [_build_redis_key(scope, key)], 0)
        return _decode_value(found)

    async def renew(self, scope: Scope, key: str, *, ttl: float) -> None:
        """Let a key that is there live for `ttl` seconds from now, unless it has nine tenths of that left."""
        enough = self._expiry(ttl * RENEW_BELOW_TTL_FRACTION)[0]
        await self._run_script("renew", scope, [_build_redis_key(scope, key)], *self._expiry(ttl), enough)

    async def delete(self, scope: Scope, key: str) -> None:
        """Forget a key."""
        await self._run_script("forget", scope, [_build_redis_key(scope, key)])

    async def items(self, scope: Scope, prefix: str) -> dict[str, Any]:
        """Keys that begin with a prefix, in order, with their values."""
        out: dict[str, Any] = {}
        for places in _batches(sorted(await self._indexed_keys(scope, prefix), key=_parse_redis_key)):
            texts = await self._run_script("read", scope, places, 0)
            out.update(
                (_parse_redis_key(place), _decode_value(text))
                for place, text in zip(places, texts, strict=True)
                if text is not None
            )
        return out

    async def clear(self, scope: Scope, prefix: str = "") -> None:
        """Forget all keys of the user that begin with a prefix.

        Without a prefix the whole database is searched, too, for keys that outlived an evicted index: they can be read
        no more, but what is erased must be gone.
        """
        for places in _batches(await self._indexed_keys(scope, prefix)):
            await self._run_script("forget", scope, places)
        if not prefix:
            await self._delete_all_keys(scope)

    async def increment(self, scope: Scope, key: str, *, ttl: float) -> int:
        """Add one and return the sum. The time to live (seconds) begins with the first one and is not renewed."""
        return int(
            await self._run_script(
                "increment", scope, [_build_redis_key(scope, key)], *self._expiry(ttl), is_idempotent=False
            )
        )

    async def server_info(self) -> dict[str, str]:
        """The server's `version`, and its `policy` when memory is full; StoreUnavailable when it cannot be reached."""
        info = await self._client.execute(lambda redis: redis.info(), is_idempotent=True)
        return {"version": str(info["redis_version"]), "policy": str(info["maxmemory_policy"])}

    async def probe(self) -> None:
        """Find out whether it can be used, for the notices; raises nothing when it cannot."""
        with suppress(StoreUnavailable):
            await self._client.execute(lambda redis: redis.ping(), is_idempotent=True)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    def _expiry(self, ttl: float) -> tuple[int, int]:
        """When a value ends by the injected clock, in microseconds; and its time to live in milliseconds."""
        if not 0 < ttl < float("inf"):
            raise InvalidRecord(f"ttl must be a positive number of seconds, got {ttl}", field="ttl")
        seconds = min(ttl, MAX_TTL_SECONDS)
        return to_micros(self._clock.now()) + round(seconds * 1_000_000), math.ceil(seconds * 1000)

    async def _run_script(
        self, name: str, scope: Scope, redis_keys: Sequence[str], *values: Any, is_idempotent: bool = True
    ) -> Any:
        script = f"{_LUA['shared']}\n{_LUA[name]}"
        keys = (_index_key(scope), _order_key(scope), *redis_keys)
        words = (script, len(keys), *keys, to_micros(self._clock.now()), *values)
        return await self._client.execute(
            lambda redis: redis.execute_command("EVAL", *words), is_idempotent=is_idempotent
        )

    async def _indexed_keys(self, scope: Scope, prefix: str) -> list[str]:
        index = _index_key(scope)
        found = await self._client.execute(lambda redis: redis.zrange(index, 0, -1), is_idempotent=True)
        return [place for place in found if _parse_redis_key(place).startswith(prefix)]

    async def _delete_all_keys(self, scope: Scope) -> None:
        """Remove all that is the user's, found by SCAN; the index too."""
        tag, cursor = _hash_tag(scope), 0
        while True:
            scan = partial(_scan, cursor=cursor, match=f"*{tag}*")
            cursor, found = await self._client.execute(scan, is_idempotent=True)
            # In keys of others the tag may be further behind.
            places = [place for place in found if place[place.find("{") :].startswith(tag)]
            if places:
                await self._client.execute(partial(_unlink, redis_keys=places), is_idempotent=True)
            if cursor == 0:
                return


def _scan(redis: Any, *, cursor: int, match: str) -> Any:
    return redis.scan(cursor, match=match, count=1000)


def _unlink(redis: Any, *, redis_keys: Sequence[str]) -> Any:
    return redis.unlink(*redis_keys)


def _hash_tag(scope: Scope) -> str:
    return f"{{{quote(scope.user_id, safe='')}}}"


def _index_key(scope: Scope) -> str:
    return f"{_hash_tag(scope)}:index"  # no key looks like this: all have a part before the braces, or a colon


def _order_key(scope: Scope) -> str:
    return f"{_hash_tag(scope)}:order"


def _build_redis_key(scope: Scope, key: str) -> str:
    # The first part is quoted, so that the first brace is the user's, whatever the key.
    head, colon, rest = key.partition(":")
    return f"{quote(head, safe='')}:{_hash_tag(scope)}{colon}{rest}"


def _parse_redis_key(redis_key: str) -> str:
    head, _, rest = redis_key.partition(":{")
    return unquote(head) + rest.partition("}")[2]


def _encode_json(key: str, value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InvalidRecord(f"the value of {key!r} must be JSON: {error}", field="value") from error


def _decode_value(stored: Any) -> Any:
    if isinstance(stored, list):
        return [json.loads(text) for text in stored]
    return None if stored is None else json.loads(stored)


def _batches(redis_keys: Sequence[str]) -> Iterator[Sequence[str]]:
    return (redis_keys[at : at + KEY_BATCH_SIZE] for at in range(0, len(redis_keys), KEY_BATCH_SIZE))
