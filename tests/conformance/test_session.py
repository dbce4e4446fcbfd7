"""The session cache on every backend: values that live for a while, lists, counters; nothing depends on any of them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from agentmem.core.scope import Scope
from agentmem.errors import Closed, InvalidRecord
from agentmem.stores import redis as redis_store
from agentmem.stores import sqlite as sqlite_store
from agentmem.stores.protocols import SessionStore
from tests.conformance.stores import ManualClock

ANN, BOB = Scope("ann"), Scope("bob")
OpenSession = Callable[[], Awaitable[SessionStore]]
BACKENDS = ["sqlite", pytest.param("redis", marks=pytest.mark.server("redis"))]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=BACKENDS)
async def open_session(
    request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock
) -> AsyncIterator[OpenSession]:
    """Opens the test's cache; called again, once more, as another process would. All are closed in the end."""
    opened: list[SessionStore] = []
    url = request.getfixturevalue("redis_database") if request.param == "redis" else ""

    async def open_one() -> SessionStore:
        made = redis_store.open_session(url, clock) if url else sqlite_store.open_session(tmp_path / "s.db", clock)
        opened.append(await made)
        return opened[-1]

    yield open_one
    for session in opened:
        await session.close()


@pytest.fixture
async def session(open_session: OpenSession) -> SessionStore:
    return await open_session()


async def test_values_are_json(session: SessionStore) -> None:
    value = {"goal": "Grüße 🙂", "n": [1, 2.5, None, True]}
    await session.set(ANN, "k", value, ttl=60)
    assert await session.get(ANN, "k") == value
    assert await session.get(BOB, "k") is None
    await session.delete(ANN, "k")
    await session.delete(ANN, "k")
    assert await session.get(ANN, "k") is None


@pytest.mark.parametrize("value", [{1, 2}, object(), float("nan"), b"bytes"])
async def test_what_is_no_json_is_refused(session: SessionStore, value: object) -> None:
    with pytest.raises(InvalidRecord, match="'k'") as caught:
        await session.set(ANN, "k", value, ttl=60)
    assert caught.value.field == "value"


@pytest.mark.parametrize("ttl", [0, -1, float("nan"), float("inf")])
async def test_a_time_to_live_is_positive(session: SessionStore, ttl: float) -> None:
    with pytest.raises(InvalidRecord) as caught:
        await session.set(ANN, "k", 1, ttl=ttl)
    assert caught.value.field == "ttl"


async def test_values_expire_by_the_given_clock(session: SessionStore, clock: ManualClock) -> None:
    await session.set(ANN, "k", 1, ttl=10)
    await session.set(ANN, "l", 1, ttl=20)
    clock.advance(9.9)
    assert await session.items(ANN, "") == {"k": 1, "l": 1}
    clock.advance(0.1)
    assert await session.get(ANN, "k") is None
    assert await session.items(ANN, "") == {"l": 1}


async def test_the_time_to_live_of_a_key_may_begin_anew(session: SessionStore, clock: ManualClock) -> None:
    await session.set(ANN, "k", 1, ttl=10)
    await session.set(ANN, "l", 1, ttl=10)
    for _ in range(5):
        clock.advance(9)
        assert await session.get(ANN, "k") == 1
        await session.renew(ANN, "k", ttl=10)
        await session.renew(ANN, "missing", ttl=10)
    assert await session.get(ANN, "l") is None, "a read alone begins nothing"
    assert await session.get(ANN, "missing") is None
    clock.advance(0.5)
    await session.renew(ANN, "k", ttl=10)  # nine tenths of the time are left: nothing is written
    clock.advance(9.5)
    await session.renew(ANN, "k", ttl=10)
    assert await session.get(ANN, "k") is None, "what ended does not come back"


async def test_lists_keep_their_last_values(session: SessionStore, clock: ManualClock) -> None:
    for n in range(5):
        await session.push(ANN, "turns", {"n": n}, keep=3, ttl=10)
        clock.advance(4)
    assert await session.tail(ANN, "turns", 10) == [{"n": 2}, {"n": 3}, {"n": 4}]
    assert await session.tail(ANN, "turns", 2) == [{"n": 3}, {"n": 4}]
    assert await session.tail(ANN, "turns", 0) == await session.tail(ANN, "nothing", 3) == []
    await session.push(ANN, "turns", "last", keep=1, ttl=10)
    assert await session.tail(ANN, "turns", 10) == ["last"]
    clock.advance(10)
    await session.push(ANN, "turns", "new", keep=3, ttl=10)
    assert await session.tail(ANN, "turns", 10) == ["new"]
    await session.set(ANN, "turns", "no list", ttl=10)
    assert await session.tail(ANN, "turns", 10) == []
    with pytest.raises(InvalidRecord, match="keep"):
        await session.push(ANN, "turns", 1, keep=0, ttl=10)


async def test_the_oldest_make_room_for_what_is_written(session: SessionStore, clock: ManualClock) -> None:
    for name in "abcd":
        await session.set(ANN, name, name * 290, ttl=60, max_bytes=1000)
        await session.set(BOB, name, name * 290, ttl=60, max_bytes=9000)
        clock.advance(1)
        await session.renew(ANN, "a", ttl=90)  # a read makes nothing younger
    assert list(await session.items(ANN, "")) == ["b", "c", "d"]
    await session.set(ANN, "not counted", "x" * 2000, ttl=60)
    await session.set(ANN, "b", "b" * 290, ttl=60, max_bytes=1000)
    clock.advance(1)
    await session.set(ANN, "e", "e" * 290, ttl=60, max_bytes=1000)
    assert list(await session.items(ANN, "")) == ["b", "d", "e", "not counted"]
    clock.advance(1)
    await session.set(ANN, "larger than all", "x" * 2000, ttl=60, max_bytes=1000)
    assert list(await session.items(ANN, "")) == ["larger than all", "not counted"], "what was just written stays"
    assert len(await session.items(BOB, "")) == 4


async def test_what_ended_or_was_deleted_takes_no_room(session: SessionStore, clock: ManualClock) -> None:
    await session.set(ANN, "a", "a" * 290, ttl=60, max_bytes=1000)
    clock.advance(1)
    await session.set(ANN, "short", "s" * 290, ttl=5, max_bytes=1000)
    await session.set(ANN, "gone", "g" * 290, ttl=60, max_bytes=1000)
    await session.delete(ANN, "gone")
    clock.advance(5)
    await session.set(ANN, "b", "b" * 590, ttl=60, max_bytes=1000)
    assert list(await session.items(ANN, "")) == ["a", "b"]


async def test_the_oldest_values_of_a_list_make_room(session: SessionStore, clock: ManualClock) -> None:
    await session.set(ANN, "k", "k" * 290, ttl=60, max_bytes=1000)
    for letter in "abc":
        clock.advance(1)
        await session.push(ANN, "l", letter * 290, keep=9, ttl=60, max_bytes=1000)
    assert await session.items(ANN, "") == {"l": [letter * 290 for letter in "abc"]}, (
        "what was written before goes first"
    )
    await session.push(ANN, "l", "d" * 290, keep=9, ttl=60, max_bytes=1000)
    assert await session.tail(ANN, "l", 9) == [letter * 290 for letter in "bcd"]


async def test_counters_count_within_their_window(session: SessionStore, clock: ManualClock) -> None:
    assert [await session.increment(ANN, "n", ttl=10) for _ in range(3)] == [1, 2, 3]
    clock.advance(9)
    assert await session.increment(ANN, "n", ttl=10) == 4
    clock.advance(1)
    assert await session.increment(ANN, "n", ttl=10) == 1
    await session.set(ANN, "n", "text", ttl=10)
    assert await session.increment(ANN, "n", ttl=10) == 1


async def test_prefixes_are_literal(session: SessionStore) -> None:
    for key in ("a%:x", "a%:y", "ab:x", "a", "a%"):
        await session.set(ANN, key, key, ttl=60)
    await session.set(BOB, "a%:x", "bob", ttl=60)
    assert await session.items(ANN, "a%:") == {"a%:x": "a%:x", "a%:y": "a%:y"}
    await session.clear(ANN, "a%:")
    assert list(await session.items(ANN, "")) == ["a", "a%", "ab:x"]
    await session.clear(ANN)
    assert await session.items(ANN, "") == {}
    assert await session.items(BOB, "") == {"a%:x": "bob"}


async def test_values_outlive_the_process(session: SessionStore, open_session: OpenSession) -> None:
    await session.set(ANN, "k", 1, ttl=60)
    await session.close()
    with pytest.raises(Closed):
        await session.get(ANN, "k")
    assert await (await open_session()).get(ANN, "k") == 1


async def test_lists_are_values_too(session: SessionStore) -> None:
    await session.push(ANN, "l", "ü", keep=3, ttl=60)
    await session.push(ANN, "l", None, keep=3, ttl=60)
    assert await session.get(ANN, "l") == ["ü", None]
    assert await session.items(ANN, "") == {"l": ["ü", None]}
    assert await session.increment(ANN, "l", ttl=60) == 1


async def test_many_at_once_lose_nothing(session: SessionStore, open_session: OpenSession) -> None:
    other = await open_session()
    both = [session, other] * 10
    counts = await asyncio.gather(*[one.increment(ANN, "n", ttl=60) for one in both])
    assert sorted(counts) == list(range(1, 21))
    await asyncio.gather(*[one.push(ANN, "l", n, keep=15, ttl=60) for n, one in enumerate(both)])
    assert len(await session.tail(ANN, "l", 99)) == 15


@pytest.mark.parametrize("user", ["ann:b", "{ann}", "a*n?[n]", "Ännchen 🙂", "a%3Ab", "x" * 200, "}{"])
async def test_any_user_has_keys_of_its_own(session: SessionStore, user: str) -> None:
    for key in ("plain", "a:b", ":", "a:", "{ann}:x", "*", ""):
        await session.set(Scope(user), key, key, ttl=60)
        await session.set(ANN, key, "hers", ttl=60)
        assert await session.get(Scope(user), key) == key
    assert await session.items(Scope(user), "a") == {"a:": "a:", "a:b": "a:b"}
    await session.clear(Scope(user))
    assert await session.items(Scope(user), "") == {}
    assert len(await session.items(ANN, "")) == 7


def any_step(random_: random.Random) -> tuple[str, Callable[[SessionStore], Awaitable[Any]]]:
    """A request to a store, with its name."""
    scope, key = random_.choice([ANN, BOB]), random_.choice(["a", "a:b", "a:c", "b:c"])
    ttl, n = random_.choice([1, 5, 30]), random_.randrange(1, 5)
    value = random_.choice([n, -7, True, None, 1.5, "12", "text", {"k": [n]}, 10**14])
    steps: dict[str, Callable[[SessionStore], Awaitable[Any]]] = {
        "set": lambda store: store.set(scope, key, value, ttl=ttl),
        "get": lambda store: store.get(scope, key),
        "push": lambda store: store.push(scope, key, value, keep=n, ttl=ttl),
        "tail": lambda store: store.tail(scope, key, n),
        "increment": lambda store: store.increment(scope, key, ttl=ttl),
        "delete": lambda store: store.delete(scope, key),
        "items": lambda store: store.items(scope, key[: n - 1]),
        "clear": lambda store: store.clear(scope, key[:n]),
    }
    name = random_.choice([*steps, "set", "push", "push", "items"])
    return name, steps[name]


@pytest.mark.parametrize("seed", range(10))
async def test_any_history_reads_the_same_on_both(
    tmp_path: Path, redis_database: str, clock: ManualClock, seed: int
) -> None:
    dice = random.Random(seed)
    embedded = await sqlite_store.open_session(tmp_path / "s.db", clock)
    server = await redis_store.open_session(redis_database, clock)
    try:
        for number in range(150):
            name, step = any_step(dice)
            assert await step(embedded) == await step(server), f"step {number}: {name}"
            clock.advance(dice.choice([0, 0, 0.3, 1, 4]))
    finally:
        await embedded.close()
        await server.close()
