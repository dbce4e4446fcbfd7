"""The session cache: values with a time to live, in Redis, which may evict any of them at any time.

`working:{alice}:_global:talk:turns` is the key `working:_global:talk:turns` of the user alice: the user's name comes
behind the first part, percent-encoded, in braces. These are Redis Cluster's hash tag: a user's keys lie on one node.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any
from urllib.parse import quote, unquote

from agentmem.errors import InvalidRecord
from agentmem.model.clock import Clock, micros
from agentmem.model.scope import Scope
from agentmem.stores.redis.connection import Connections
from agentmem.text.blocks import load_blocks

AT_ONCE = 500  # keys in one request: a longer one would hold up the server
LONGEST_TTL = 100 * 365 * 24 * 3600.0  # seconds


async def open_session(url: str, clock: Clock) -> RedisSession:
    """The session cache at `redis://user:password@host:6379/0`, or `rediss://` with TLS.

    Nothing is sent yet: a server that is down fails no opening, only what is asked of it. Raises ConfigError for a URL
    that cannot work, and when the driver is not installed.
    """
    return RedisSession(Connections(url), clock)


class RedisSession:
    """A SessionStore over one Redis; see the protocol for its promises.

    Every key has a time to live by the server's clock, and ends by the injected one when that is earlier.
    """

    shared = True

    def __init__(self, connections: Connections, clock: Clock) -> None:
        self._connections, self._clock = connections, clock

    async def push(self, scope: Scope, key: str, value: Any, *, keep: int, ttl: float) -> None:
        """Append to a list, of which the last `keep` values stay; every push renews the time to live (seconds)."""
        text, times = _json(key, value), self._times(ttl)
        if keep < 1:
            raise InvalidRecord(f"keep must be at least 1, got {keep}", field="keep")
        await self._run("push", scope, [_place(scope, key)], *times, text, keep, again=False)

    async def tail(self, scope: Scope, key: str, n: int) -> list[Any]:
        """The last `n` values pushed, oldest first; [] when there is no list."""
        (found,) = await self._run("read", scope, [_place(scope, key)], -max(n, 1))
        values = _value(found)
        return values[-n:] if isinstance(values, list) and n > 0 else []

    async def set(self, scope: Scope, key: str, value: Any, *, ttl: float) -> None:
        """Keep a JSON value for `ttl` seconds."""
        text, times = _json(key, value), self._times(ttl)
        await self._run("set", scope, [_place(scope, key)], *times, text)

    async def get(self, scope: Scope, key: str) -> Any:
        """The value of a key, None when there is none."""
        (found,) = await self._run("read", scope, [_place(scope, key)], 0)
        return _value(found)

    async def delete(self, scope: Scope, key: str) -> None:
        """Forget a key."""
        await self._run("forget", scope, [_place(scope, key)])

    async def items(self, scope: Scope, prefix: str) -> dict[str, Any]:
        """Keys that begin with a prefix, in order, with their values."""
        out: dict[str, Any] = {}
        for places in _parts(sorted(await self._indexed(scope, prefix), key=_name)):
            texts = await self._run("read", scope, places, 0)
            out.update(
                (_name(place), _value(text)) for place, text in zip(places, texts, strict=True) if text is not None
            )
        return out

    async def clear(self, scope: Scope, prefix: str = "") -> None:
        """Forget all keys of the user that begin with a prefix.

        Without a prefix the whole database is searched, too, for keys that outlived an evicted index: they can be read
        no more, but what is erased must be gone.
        """
        for places in _parts(await self._indexed(scope, prefix)):
            await self._run("forget", scope, places)
        if not prefix:
            await self._sweep(scope)

    async def increment(self, scope: Scope, key: str, *, ttl: float) -> int:
        """Add one and return the sum. The time to live (seconds) begins with the first one and is not renewed."""
        return int(await self._run("increment", scope, [_place(scope, key)], *self._times(ttl), again=False))

    async def server(self) -> dict[str, str]:
        """The server's `version`, and its `policy` when memory is full; StoreUnavailable when it cannot be reached."""
        info = await self._connections.ask(lambda redis: redis.info(), again=True)
        return {"version": str(info["redis_version"]), "policy": str(info["maxmemory_policy"])}

    async def close(self) -> None:
        """Close the connections."""
        await self._connections.close()

    def _times(self, ttl: float) -> tuple[int, int]:
        """When a value ends by the injected clock, in microseconds; and its time to live in milliseconds."""
        if not 0 < ttl < float("inf"):
            raise InvalidRecord(f"ttl must be a positive number of seconds, got {ttl}", field="ttl")
        seconds = min(ttl, LONGEST_TTL)
        return micros(self._clock.now()) + round(seconds * 1_000_000), math.ceil(seconds * 1000)

    async def _run(self, name: str, scope: Scope, places: Sequence[str], *values: Any, again: bool = True) -> Any:
        script = f"{_lua()['shared']}\n{_lua()[name]}"
        keys = (_index(scope), *places)
        words = (script, len(keys), *keys, micros(self._clock.now()), *values)
        return await self._connections.ask(lambda redis: redis.execute_command("EVAL", *words), again=again)

    async def _indexed(self, scope: Scope, prefix: str) -> list[str]:
        index = _index(scope)
        found = await self._connections.ask(lambda redis: redis.zrange(index, 0, -1), again=True)
        return [place for place in found if _name(place).startswith(prefix)]

    async def _sweep(self, scope: Scope) -> None:
        """Remove all that is the user's, found by SCAN; the index too."""
        tag, cursor = _tag(scope), 0
        while True:
            scan = partial(_scan, cursor=cursor, match=f"*{tag}*")
            cursor, found = await self._connections.ask(scan, again=True)
            # In keys of others the tag may stand further behind.
            places = [place for place in found if place[place.find("{") :].startswith(tag)]
            if places:
                await self._connections.ask(partial(_unlink, places=places), again=True)
            if cursor == 0:
                return


def _scan(redis: Any, *, cursor: int, match: str) -> Any:
    return redis.scan(cursor, match=match, count=1000)


def _unlink(redis: Any, *, places: Sequence[str]) -> Any:
    return redis.unlink(*places)


def _tag(scope: Scope) -> str:
    return f"{{{quote(scope.user_id, safe='')}}}"


def _index(scope: Scope) -> str:
    return f"{_tag(scope)}:index"  # no key looks like this: all have a part before the braces, or a colon


def _place(scope: Scope, key: str) -> str:
    # The first part is quoted, so that the first brace is the user's, whatever the key.
    head, colon, rest = key.partition(":")
    return f"{quote(head, safe='')}:{_tag(scope)}{colon}{rest}"


def _name(place: str) -> str:
    head, _, rest = place.partition(":{")
    return unquote(head) + rest.partition("}")[2]


def _json(key: str, value: Any) -> str:
    try:
        return json.dumps(value, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InvalidRecord(f"the value of {key!r} must be JSON: {error}", field="value") from error


def _value(found: Any) -> Any:
    if isinstance(found, list):
        return [json.loads(text) for text in found]
    return None if found is None else json.loads(found)


def _parts(places: Sequence[str]) -> Iterator[Sequence[str]]:
    return (places[at : at + AT_ONCE] for at in range(0, len(places), AT_ONCE))


def _lua() -> Mapping[str, str]:
    return load_blocks(__package__, "session.lua")
