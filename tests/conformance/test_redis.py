"""What is special about the session cache in Redis: its keys, its requests, and what is evicted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import redis
from redis.crc import key_slot

from agentmem.core.scope import Scope
from agentmem.errors import StoreUnavailable
from agentmem.stores.redis import RedisSession
from agentmem.stores.redis.session import MAX_CONNECTIONS
from tests.conformance.caches import ANN, BOB, open_memory_with_session, open_redis_session, write_sample_keys
from tests.servers.local import LocalServer
from tests.servers.redis import Redis


@pytest.fixture
async def session(redis_database: str) -> AsyncIterator[RedisSession]:
    async with open_redis_session(redis_database) as made:
        yield made


@pytest.fixture
def inside(redis_database: str) -> Iterator[redis.Redis]:
    """A look into the test's database by the driver alone."""
    with redis.Redis.from_url(redis_database, decode_responses=True) as client:
        yield client


# -- keys


async def test_working_memory_has_the_documents_keys(session: RedisSession, inside: redis.Redis, home: Path) -> None:
    async with open_memory_with_session(home, session, conversation_id="talk", channel="a:b") as memory:
        await memory.store_turn("Hello there.")
        await memory.engine.drain_background()
        await memory.working.set("city", {"name": "Oslo"})
        await memory.working.push_thought("ask about the harbour")
        user = "{ann%3Ab%20%7Bc%7D}"
        assert {key: inside.type(key) for key in inside.scan_iter()} == {
            f"working:{user}:a%3Ab:talk:turns": "list",
            f"working:{user}:a%3Ab:talk:thoughts": "list",
            f"working:{user}:a%3Ab:talk:context:city": "string",
            f"{user}:index": "zset",
            f"{user}:order": "zset",
        }
        assert "ask about the harbour" in await memory.working.current_markdown()
        await memory.erase()
    assert inside.keys() == []


@pytest.mark.parametrize(
    "key, place",
    [
        ("identity", "identity:{ann}"),
        ("context", "context:{ann}"),
        ("session:s1:recalls", "session:{ann}:s1:recalls"),
        ("working:_global:-:turns", "working:{ann}:_global:-:turns"),
    ],
)
async def test_a_key_has_the_user_behind_its_first_part(
    session: RedisSession, inside: redis.Redis, key: str, place: str
) -> None:
    await session.set(ANN, key, 1, ttl=60)
    assert sorted(inside.keys()) == sorted([place, "{ann}:index"])


async def test_every_key_has_a_time_to_live(session: RedisSession, inside: redis.Redis) -> None:
    await write_sample_keys(session)
    keys = list(inside.scan_iter())
    with inside.pipeline(transaction=True) as moment:  # the server's clock stands still within it
        for key in keys:
            moment.pttl(key)
        times = dict(zip(keys, moment.execute(), strict=True))
    assert len(times) == 5
    assert min(times.values()) > 0
    assert times["{ann}:index"] >= max(times.values()) > 60_000
    await session.push(ANN, "working:_global:talk:turns", 2, keep=3, ttl=1000)
    assert inside.pttl("{ann}:index") > 120_000
    await session.set(ANN, "identity", 1, ttl=1e30)
    assert inside.pttl("identity:{ann}") > 1e12


async def test_all_keys_of_a_user_lie_in_one_slot(session: RedisSession, inside: redis.Redis) -> None:
    for user in ("ann", "}{", "a{b}c", "ö"):
        for key in ("plain", "a:b", "{x}:y", "}", ""):
            await session.set(Scope(user), key, 1, ttl=60)
        await write_sample_keys(session, Scope(user))
        assert inside.dbsize() > 5
        assert len({key_slot(key.encode()) for key in inside.scan_iter()}) == 1
        await session.clear(Scope(user))
        assert inside.keys() == []


# -- what is asked of the server


async def test_it_never_looks_through_all_keys_at_once(own_redis: LocalServer) -> None:
    async with open_redis_session(own_redis.url) as session:
        await write_sample_keys(session)
        for letter in "ab":
            await session.set(ANN, letter, letter, ttl=60, max_bytes=15)
            await session.push(ANN, "l", letter, keep=2, ttl=60, max_bytes=15)
        await session.clear(ANN)
    with redis.Redis.from_url(own_redis.url) as client:
        stats = client.info("commandstats")
    used = {name.removeprefix("cmdstat_").partition("|")[0] for name in stats}
    inside_scripts = {"set", "get", "incr", "rpush", "ltrim", "lrange", "llen", "strlen", "type", "pexpire", "pttl"}
    index = {"zadd", "zrem", "zscore", "zremrangebyscore", "zrange", "zrevrange"}
    assert {"scan", "eval", "zrange"} <= used
    assert used <= {"eval", "scan", "unlink", "select", "client", "hello", "info", "ping", *inside_scripts, *index}


async def test_every_step_is_one_request(own_redis: LocalServer) -> None:
    async with open_redis_session(own_redis.url) as session:
        with redis.Redis.from_url(own_redis.url) as client:
            for step in (
                session.push(ANN, "l", 1, keep=2, ttl=60),
                session.set(ANN, "k", 1, ttl=60),
                session.increment(ANN, "n", ttl=60),
                session.get(ANN, "k"),
                session.tail(ANN, "l", 5),
                session.delete(ANN, "k"),
            ):
                client.config_resetstat()
                await step
                assert client.info("commandstats")["cmdstat_eval"]["calls"] == 1


async def test_connections_are_few_and_kept(own_redis: LocalServer) -> None:
    async with open_redis_session(own_redis.url) as session:
        await asyncio.gather(*[session.increment(ANN, "n", ttl=60) for _ in range(5 * MAX_CONNECTIONS)])
        assert await session.get(ANN, "n") == 5 * MAX_CONNECTIONS
        with redis.Redis.from_url(own_redis.url) as client:
            assert client.info("stats")["total_connections_received"] <= MAX_CONNECTIONS + 10


async def test_long_lists_of_keys_are_read_in_parts(session: RedisSession, inside: redis.Redis) -> None:
    names = [f"k:{n:04}" for n in range(1200)]
    await asyncio.gather(*[session.set(ANN, names[at], at, ttl=60) for at in range(50)])
    for at in range(50, 1200):
        inside.set(f"k:{{ann}}:{at:04}", str(at), ex=60)
        inside.zadd("{ann}:index", {f"k:{{ann}}:{at:04}": 9e15})
    assert await session.items(ANN, "k:") == {name: at for at, name in enumerate(names)}
    await session.clear(ANN, "k:")
    assert inside.keys("k:*") == []


# -- keys that are not there any more


async def test_whatever_is_evicted_is_just_gone(session: RedisSession, inside: redis.Redis) -> None:
    await write_sample_keys(session)
    inside.delete("working:{ann}:_global:talk:context:city")
    assert await session.items(ANN, "working:") == {"working:_global:talk:turns": [{"n": 1}]}
    assert await session.get(ANN, "working:_global:talk:context:city") is None
    inside.delete("session:{ann}:s1:recalls")
    assert await session.increment(ANN, "session:s1:recalls", ttl=60) == 1


async def test_an_evicted_index_takes_all_with_it(session: RedisSession, inside: redis.Redis) -> None:
    await write_sample_keys(session)
    await write_sample_keys(session, BOB)
    await session.set(BOB, "of:{ann}:x", "Bob's own", ttl=60)
    inside.delete("{ann}:index")
    assert await session.items(ANN, "") == {}
    assert await session.get(ANN, "identity") is None
    await session.push(ANN, "working:_global:talk:turns", {"n": 2}, keep=3, ttl=60)
    assert await session.tail(ANN, "working:_global:talk:turns", 5) == [{"n": 2}]
    assert await session.increment(ANN, "session:s1:recalls", ttl=60) == 1
    before = await session.items(BOB, "")
    assert inside.exists("identity:{ann}"), "it can be read no more, and yet it is there"
    await session.clear(ANN)
    assert [key for key in inside.scan_iter() if "{ann}" in key] == ["of:{bob}:{ann}:x"]
    assert await session.items(BOB, "") == before


async def test_an_evicting_server_fails_nothing(redis_url: str) -> None:
    with Redis("--maxmemory", "3mb", "--maxmemory-policy", "allkeys-lru") as server:
        async with open_redis_session(server.url) as session:
            text = "x" * 20_000
            for n in range(300):
                await session.set(ANN, f"k:{n}", text, ttl=60)
                await session.push(BOB, "l", text, keep=5, ttl=60)
                assert await session.get(ANN, f"k:{n}") in (text, None)
                assert await session.tail(BOB, "l", 5) in [[text] * kept for kept in range(6)]
            assert len(await session.items(ANN, "")) < 200
            assert (await session.server_info())["policy"] == "allkeys-lru"
        with redis.Redis.from_url(server.url) as client:
            assert client.info("stats")["evicted_keys"] > 50


async def test_a_full_server_is_unavailable(redis_url: str) -> None:
    with Redis("--maxmemory", "3mb", "--maxmemory-policy", "noeviction") as server:
        async with open_redis_session(server.url) as session:
            many = (session.set(ANN, f"k:{n}", "x" * 20_000, ttl=60) for n in range(300))
            with pytest.raises(StoreUnavailable, match="maxmemory"):
                [await one for one in many]
            assert len(await session.get(ANN, "k:0")) == 20_000
