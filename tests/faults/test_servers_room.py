"""Servers without room: Postgres on a full disk refuses the write whole, Redis throws away what it likes."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import redis
from psycopg.sql import SQL, Literal

from agentmem.errors import StoreUnavailable
from agentmem.facade.async_memory import AsyncAgentMemory
from tests.faults import checks, servers_checks
from tests.servers.local import LocalServer
from tests.servers.redis import Redis
from tests.servers.stack import STORE_ID, Stack, database_of, prepare

WORDS = [f"word{number}" for number in range(3000)]
MOST = 1000
KEPT = "x" * 50_000
SPARE = 1_000_000  # bytes that are left on the disk


@contextmanager
def small_disk(folder: Path, owner: str | None) -> Iterator[None]:
    """A file system of 32 MB in the folder. Needs the right to mount."""
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32m,mode=700", "tmpfs", folder], check=True)
    try:
        if owner is not None:
            shutil.chown(folder, owner)
        yield
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def crammed(server: LocalServer, folder: Path) -> str:
    """The URL of a database whose tables and indexes lie in the folder, and whose write-ahead log does not."""
    with psycopg.connect(server.url, autocommit=True) as db:
        db.execute(SQL("CREATE TABLESPACE small LOCATION {}").format(Literal(str(folder))))
        db.execute("CREATE DATABASE crammed TABLESPACE small")
    return database_of(server.url, "crammed")


def long_text(number: int) -> str:
    """Text that fills pages."""
    return f"number {number} " + " ".join(random.Random(number).choices(WORDS, k=600))


async def test_postgres_on_a_full_disk_refuses_the_write_whole(
    own_postgres: LocalServer, neo4j_url: str, redis_database: str, home: Path
) -> None:
    folder = own_postgres.folder / "small"
    with small_disk(folder, own_postgres.user):
        url, filler = crammed(own_postgres, folder), folder / "filler"
        await prepare(url, neo4j_url, STORE_ID)
        urls = {"log_url": url, "graph_url": neo4j_url, "session_url": redis_database}
        async with servers_checks.build_memory(f"ann {os.urandom(4).hex()}", urls, home) as memory:
            await memory.store_turn(long_text(0), turn_id="t0")
            filler.write_bytes(bytes(shutil.disk_usage(folder).free - SPARE))
            count, said = await fill(memory)
            assert "No space left on device" in said
            turns = await memory.episodic.get_conversation("talk")
            assert [turn.id for turn in turns] == [f"t{number}" for number in range(count)]
            assert (await memory.remember("number 0")).turns
            filler.unlink()
            assert (await memory.store_turn(long_text(count), turn_id=f"t{count}")).index == count
            await checks.check_settled(memory)
            await servers_checks.check_complete(memory.engine, memory.scope)
        own_postgres.stop()


async def fill(memory: AsyncAgentMemory) -> tuple[int, str]:
    """Store turns until there is no room; how many there are then, and what was said."""
    for number in range(1, MOST):
        try:
            await memory.store_turn(long_text(number), turn_id=f"t{number}")
        except StoreUnavailable as error:
            return number, str(error)
    raise AssertionError("the disk was never full")


async def test_redis_that_throws_away_what_it_likes_costs_nothing_but_time(
    stack: Stack, redis_url: str, home: Path
) -> None:
    conversations = [f"talk {number}" for number in range(60)]
    with Redis("--maxmemory", "3mb", "--maxmemory-policy", "allkeys-lru") as server:
        urls = {**stack.urls, "session_url": server.url}
        async with servers_checks.build_memory(stack.user(), urls, home) as memory:
            for name in conversations:
                view = memory.scoped(conversation_id=name)
                await view.working.set("kept", KEPT)
                said = [long_text(number) for number in range(4)]
                await view.store_turns([{"turn_id": f"{name} {n}", "content": text} for n, text in enumerate(said)])
            await memory.engine.drain_background()
            with redis.Redis.from_url(server.url) as client:
                assert int(client.info("stats")["evicted_keys"]) > 0
            kept = [await memory.scoped(conversation_id=name).working.get("kept") for name in conversations]
            assert None in kept
            assert set(kept) <= {None, KEPT}
            for name in conversations:
                view = memory.scoped(conversation_id=name)
                assert [turn.id for turn in await view.working.turns()] == [f"{name} {n}" for n in range(4)]
            assert (await memory.remember("number 3")).turns
            await checks.check_settled(memory)
            await servers_checks.check_complete(memory.engine, memory.scope)
