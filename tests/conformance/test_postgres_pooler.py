"""The log behind PgBouncer in transaction mode, which gives a connection to another client after every transaction."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg

from agentmem import AsyncAgentMemory
from agentmem.stores.postgres import migrate, open_log
from agentmem.stores.values import Where
from tests.conformance.writing import START, SettableClock, build_turn_changes, record_ids
from tests.flows.given import bundle_ids

if TYPE_CHECKING:
    from agentmem.core.scope import Scope
    from tests.servers.pgbouncer import PgBouncer
    from tests.servers.stack import Stack

ROUNDS = 25  # of each of two memories
SETTINGS = (
    "default_transaction_read_only",
    "default_transaction_isolation",
    "jit",
    "plan_cache_mode",
    "enable_seqscan",
    "synchronous_commit",
    "statement_timeout",
    "lock_timeout",
)


async def live(memory: AsyncAgentMemory) -> None:
    for number in range(ROUNDS):
        turn = await memory.store_turn(f"The password of room {number} is moon{number}.")
        fact = await memory.learn_fact(f"Room {number} is painted color{number}")
        assert {turn.id, fact.id} <= bundle_ids(await memory.remember(f"room {number} moon{number} color{number}"))
        await memory.forget(turn.id)
    erased = await memory.forget(fact.id, hard=True)
    assert erased.scan is not None
    assert dict(erased.scan.leftovers) == {}


async def test_two_memories_at_once_share_the_connections_of_a_pooler(
    home: Path, stack: Stack, pgbouncer: PgBouncer
) -> None:
    urls = replace(stack, log_url=pgbouncer.reach(stack.log_url)).urls
    async with (
        AsyncAgentMemory(stack.user("ann"), home=home / "ann", embedder="hash", catch_up_ms=0, **urls) as ann,
        AsyncAgentMemory(stack.user("bob"), home=home / "bob", embedder="hash", catch_up_ms=0, **urls) as bob,
    ):
        await asyncio.gather(live(ann), live(bob))


async def test_other_clients_of_a_pooler_find_the_settings_of_the_server(
    postgres_copy: str, pgbouncer: PgBouncer, scope: Scope
) -> None:
    log = await open_log(pgbouncer.reach(postgres_copy), SettableClock())
    try:
        await asyncio.gather(*(log.append(build_turn_changes(scope, f"{n}")) for n in range(4)))
        await asyncio.gather(*(log.head(scope) for _ in range(4)))
    finally:
        await log.close()
    with psycopg.connect(postgres_copy) as direct:
        expected = read_settings(direct)
    assert expected[0] == "off"
    with psycopg.connect(pgbouncer.reach(postgres_copy), prepare_threshold=None) as first:
        found = [read_settings(first)]
        with psycopg.connect(pgbouncer.reach(postgres_copy), prepare_threshold=None) as second:  # while the first waits
            found.append(read_settings(second))
    assert found == [expected, expected]


def read_settings(connection: psycopg.Connection) -> list[str]:
    """The settings, and whose rows the connection sees."""
    text = "SELECT coalesce(current_setting(name, true), '') FROM unnest(%s::text[]) name"
    return [value for (value,) in connection.execute(text, [[*SETTINGS, "agentmem.user_id", "agentmem.operator"]])]


async def test_a_database_is_migrated_through_a_pooler(
    postgres_database: str, pgbouncer: PgBouncer, scope: Scope
) -> None:
    url = pgbouncer.reach(postgres_database)
    with psycopg.connect(url, autocommit=True) as other:
        other.execute("SET default_transaction_read_only = on")  # the session stays so for those who come later
    assert await migrate(url, START) > 0
    assert await migrate(url, START) == 0
    log = await open_log(url, SettableClock())
    await log.append(build_turn_changes(scope, "a"))
    assert record_ids(await log.find(scope, Where(kinds=("Turn",)))) == ["a"]
    await log.close()
