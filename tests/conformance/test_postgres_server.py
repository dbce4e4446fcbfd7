"""The log and its server: down at opening, killed and back, standing still, refusing, owned by a user without power."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import timedelta

import psycopg
import pytest

from agentmem.core.changes import AuditEntry
from agentmem.core.scope import Operator, Scope
from agentmem.errors import AuthenticationFailed, StoreError, StoreUnavailable
from agentmem.stores.postgres import PostgresLog, migrate, open_log
from agentmem.stores.postgres import database as postgres_database
from agentmem.stores.sql.graph import SqlGraph
from agentmem.stores.values import Where
from tests.conformance.conftest import database_url
from tests.conformance.writing import START, SettableClock, build_turn_changes, record_ids
from tests.servers.local import LocalServer

SCOPE = Scope("alice")
KIND = """
SELECT current_setting('synchronous_commit'), current_setting('transaction_isolation'),
       current_setting('transaction_read_only')
"""


@pytest.fixture
async def alone(own_postgres: LocalServer, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[PostgresLog]:
    """A log on a server of its own, of a client that is not patient."""
    monkeypatch.setattr(postgres_database, "CONNECT_SECONDS", 2.0)
    monkeypatch.setattr(postgres_database, "GRACE_SECONDS", 0.5)
    await migrate(own_postgres.url, START)
    log = await open_log(own_postgres.url, SettableClock())
    yield log
    await log.close()


async def test_a_killed_server_costs_errors_and_nothing_acknowledged(
    alone: PostgresLog, own_postgres: LocalServer
) -> None:
    await asyncio.gather(*(alone.append(build_turn_changes(SCOPE, f"before {n}")) for n in range(8)))
    own_postgres.kill()
    for work in (alone.append(build_turn_changes(SCOPE, "during")), alone.head(SCOPE)):
        with pytest.raises(StoreUnavailable):
            await asyncio.wait_for(work, 15)
    with pytest.raises(StoreUnavailable):
        await open_log(own_postgres.url, SettableClock())
    own_postgres.start()
    await asyncio.gather(*(alone.append(build_turn_changes(SCOPE, f"after {n}")) for n in range(8)))
    found = record_ids(await alone.find(SCOPE, Where(kinds=("Turn",))))
    assert sorted(found) == sorted([*(f"after {n}" for n in range(8)), *(f"before {n}" for n in range(8))])


async def test_a_restart_between_two_calls_goes_unnoticed(alone: PostgresLog, own_postgres: LocalServer) -> None:
    await asyncio.gather(*(alone.append(build_turn_changes(SCOPE, f"before {n}")) for n in range(8)))
    own_postgres.restart()
    await asyncio.gather(*(alone.append(build_turn_changes(SCOPE, f"after {n}")) for n in range(8)))
    assert (await alone.head(SCOPE)).seq == 16


async def test_a_server_that_stands_still_is_given_up(alone: PostgresLog, own_postgres: LocalServer) -> None:
    await alone.append(build_turn_changes(SCOPE, "a"))
    own_postgres.pause()
    try:
        began = time.monotonic()
        with pytest.raises(StoreUnavailable, match="did not answer"):
            await alone.database.query(SCOPE, _ask, timeout_seconds=1)
        waited = time.monotonic() - began
    finally:
        own_postgres.resume()
    assert waited > 1
    assert (await alone.append(build_turn_changes(SCOPE, "b")))[0].seq == 2


async def _ask(db: postgres_database.Connection) -> list[object]:
    return await postgres_database.fetch_rows(db, "SELECT 1")


async def test_a_wrong_password_is_said_and_not_shown(postgres_url: str) -> None:
    with pytest.raises(AuthenticationFailed, match="authentication failed") as refused:
        await open_log(database_url(postgres_url, "postgres", "postgres:not-the-password"), SettableClock())
    assert "not-the-password" not in str(refused.value)


async def test_a_statement_that_takes_too_long_is_ended(postgres_url: str) -> None:
    database = postgres_database.PostgresDatabase(postgres_url)
    with pytest.raises(StoreUnavailable, match="in time"):
        await database.query(
            SCOPE, lambda db: postgres_database.fetch_rows(db, "SELECT pg_sleep(60)"), timeout_seconds=0.2
        )
    assert await database.query(SCOPE, _ask) == [(1,)]
    await database.close()


async def test_only_a_note_does_not_wait_for_the_disk_and_what_reads_cannot_write(postgres_url: str) -> None:
    database = postgres_database.PostgresDatabase(postgres_url)

    async def kind(db: postgres_database.Connection) -> list[object]:
        return await postgres_database.fetch_rows(db, KIND)

    assert await database.commit(SCOPE, kind) == [("on", "read committed", "off")]
    assert await database.commit(SCOPE, kind, durable=False) == [("off", "read committed", "off")]
    assert await database.commit(SCOPE, kind) == [("on", "read committed", "off")]
    assert await database.query(SCOPE, kind) == [("on", "repeatable read", "on")]
    with pytest.raises(StoreError, match="read-only transaction"):
        await database.query(SCOPE, lambda db: postgres_database.fetch_rows(db, "CREATE TABLE never (a int)"))
    await database.close()


async def test_all_statements_of_a_read_are_one_transaction_for_one_user(postgres_url: str) -> None:
    database = postgres_database.PostgresDatabase(postgres_url)

    async def twice(db: postgres_database.Connection) -> list[object]:
        text = "SELECT now(), current_setting('agentmem.user_id', true) FROM pg_sleep(0.01)"
        return [*await postgres_database.fetch_rows(db, text), *await postgres_database.fetch_rows(db, text)]

    first, second = await database.query(SCOPE, twice)
    assert first == second
    assert first[1] == "alice"
    async with database._acquire_connection() as left:
        cursor = await left.execute("SELECT coalesce(current_setting('agentmem.user_id', true), '')")
        assert await cursor.fetchall() == [("",)]
    await database.close()


async def test_callers_who_give_up_cost_no_connection(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_database, "MAX_CONNECTIONS", 4)
    database, chance = postgres_database.PostgresDatabase(postgres_url), random.Random(7)

    async def hurried() -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(chance.random() / 50):
                await database.query(SCOPE, _ask)

    for _ in range(120):
        await asyncio.gather(*(hurried() for _ in range(30)))
    together = asyncio.Barrier(4)  # all four connections are there still: each read waits for the other three
    await asyncio.gather(*(database.query(SCOPE, lambda _: together.wait()) for _ in range(4)))
    await database.close()


async def test_a_read_canceled_while_it_ends_leaves_no_open_transaction(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_database, "MAX_CONNECTIONS", 1)
    monkeypatch.setattr(psycopg.waiting, "MAX_BUSY_TIME", 0.0)  # as on a busy loop: the driver waits before it sends
    database, reading = postgres_database.PostgresDatabase(postgres_url), list[asyncio.Task[object]]()

    async def ask_and_be_canceled(db: postgres_database.Connection) -> list[object]:
        rows = await _ask(db)
        asyncio.get_running_loop().call_soon(reading[-1].cancel)
        return rows

    for _ in range(3):
        reading.append(asyncio.create_task(database.query(SCOPE, ask_and_be_canceled)))
        with pytest.raises(asyncio.CancelledError):
            await reading[-1]
        assert await database.commit(SCOPE, _ask) == [(1,)]
    await database.close()


@pytest.mark.parametrize("way", ["the first use", "a connection of its own"])
async def test_a_canceled_commit_leaves_no_connection_open(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    opened = list[psycopg.AsyncConnection[object]]()

    async def commit_and_be_canceled(connection: psycopg.AsyncConnection[object]) -> None:
        opened.append(connection)
        raise asyncio.CancelledError

    monkeypatch.setattr(psycopg.AsyncConnection, "commit", commit_and_be_canceled)
    database = postgres_database.PostgresDatabase(postgres_url)
    own = way == "a connection of its own"
    asked = database.run_dedicated(SCOPE, _ask, timeout_seconds=5) if own else database.query(SCOPE, _ask)
    with pytest.raises(asyncio.CancelledError):
        await asked
    assert [connection.closed for connection in opened] == [True]
    await database.close()


async def test_without_a_free_connection_the_reason_is_said(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_database, "MAX_CONNECTIONS", 1)
    database = postgres_database.PostgresDatabase(postgres_url)
    held, done = asyncio.Event(), asyncio.Event()

    async def hold(_: postgres_database.Connection) -> bool:
        held.set()
        return await done.wait()

    holding = asyncio.create_task(database.query(SCOPE, hold))
    await held.wait()
    monkeypatch.setattr(postgres_database, "CONNECT_SECONDS", 0.3)
    monkeypatch.setattr(await database._ensure_pool(), "timeout", 0.3)
    with pytest.raises(StoreUnavailable, match=r"no connection free within 0\.3 s: 1 open of 1"):
        await database.query(SCOPE, _ask)
    done.set()
    assert await holding
    await database.close()


async def test_an_owner_without_any_power_migrates_and_uses_it(own_postgres: LocalServer) -> None:
    url = database_url(own_postgres.url, "mine")
    with psycopg.connect(own_postgres.url, autocommit=True) as owner:
        owner.execute("CREATE ROLE plain LOGIN PASSWORD 'x'")
        owner.execute("CREATE DATABASE mine OWNER plain")
    with psycopg.connect(url) as owner:
        owner.execute("CREATE EXTENSION vector")  # the one thing that needs a superuser
    login = database_url(own_postgres.url, "mine", "plain:x")
    assert await migrate(login, START) > 0
    log = await open_log(login, SettableClock())
    await log.append(build_turn_changes(SCOPE, "a"), AuditEntry(operation="store", memory_type="episodic", scope=SCOPE))
    assert (await log.users(Operator()), await log.check(Operator())) == (["alice"], [])
    await _check_that_migrating_makes_edges(log, login)
    assert (await log.maintain(START + timedelta(days=9), 1))["audit_rows_dropped"] == 1
    assert (await log.erase(SCOPE, None, operation_id="e", erased_at=START)).leftovers == {}
    await log.close()


async def _check_that_migrating_makes_edges(log: PostgresLog, login: str) -> None:
    """Take the edges out and leave the mark that the schema leaves in a store of before there were any, and migrate."""
    graph = SqlGraph(log.database, SettableClock())
    edges = await graph.edges([("Turn", "a")], SCOPE)
    assert [edge.edge_kind for edge in edges] == ["HAS_TURN"]
    with psycopg.connect(login) as owner:
        owner.execute("SET agentmem.user_id = 'alice'")
        owner.execute("DELETE FROM graph_edges")
        owner.execute("INSERT INTO projection_watermarks (user_id, projection, seq) VALUES ('alice', 'edges', 0)")
    assert await migrate(login, START) == 0
    assert await graph.edges([("Turn", "a")], SCOPE) == edges


async def test_a_write_that_is_given_up_leaves_nothing(alone: PostgresLog, own_postgres: LocalServer) -> None:
    await alone.append(build_turn_changes(SCOPE, "before"))
    with psycopg.connect(own_postgres.url) as other, psycopg.connect(own_postgres.url, autocommit=True) as looking:
        other.execute("UPDATE memory_users SET head = head")
        work = asyncio.create_task(alone.append(build_turn_changes(SCOPE, "during")))
        while looking.execute("SELECT count(*) FROM pg_locks WHERE NOT granted").fetchone() == (0,):
            await asyncio.sleep(0.01)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
    assert (await alone.append(build_turn_changes(SCOPE, "after")))[0].seq == 2
