"""A log that was restored from an earlier backup: the graph is found to be ahead, and what was erased stays erased."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest

from agentmem.admin.erasures import ErasureLine, erase_again_from_list
from agentmem.admin.rebuild import rebuild
from agentmem.errors import NotFound
from agentmem.facade.async_memory import AsyncAgentMemory
from tests.flows.test_servers import PATIENT
from tests.servers.stack import Stack, database_of


@pytest.fixture
def backup(stack: Stack, postgres_url: str) -> Iterator[Stack]:
    """The stack with the log as it is when `taken` is called."""
    name = f"backup_{stack.user_suffix}"
    yield replace(stack, log_url=database_of(postgres_url, name))
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


def take(stack: Stack, backup: Stack, postgres_url: str) -> None:
    names = [one.log_url.rpartition("/")[2].partition("?")[0] for one in (backup, stack)]
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {names[0]} TEMPLATE {names[1]}")


def opened(home: Path, stack: Stack) -> AsyncAgentMemory:
    return AsyncAgentMemory(stack.user(), home=home, embedder="hash", **stack.urls, **PATIENT)


async def test_a_restored_log_is_cleaned_again_and_its_graph_made_anew(
    home: Path, stack: Stack, backup: Stack, postgres_url: str
) -> None:
    async with opened(home, stack) as memory:
        secret = await memory.store_turn("The code of the safe is heron.")
        told = await memory.learn_fact("The safe opens with heron", source_turn_ids=[secret.id])
        kept = await memory.store_turn("Bees sleep in winter.")
        await memory.flush()
    take(stack, backup, postgres_url)
    async with opened(home, stack) as memory:
        await memory.forget(secret.id, hard=True)
        for n in range(5):
            await memory.store_turn(f"Said after the backup, {n}.")
        await memory.flush()
    async with opened(home, backup) as memory:
        await memory.flush()
        assert set((await memory.lag()).values()) == {0}
        found = await memory.remember("heron safe")
        assert {turn.id for turn in found.turns} & {secret.id} == set()
        assert [fact.id for fact in found.facts if fact.id == told.id] == []
        with pytest.raises(NotFound):
            await memory.semantic.get_fact(told.id)
        following = memory.engine.graph_projection
        assert following is not None
        assert list(await following.graph.record_seqs("Turn", memory.scope)) == [kept.id]
        again = await rebuild(memory.engine, [memory.scope.user_id], targets=["graph"])
        assert again.notes == ()


async def test_what_a_list_erases_again_leaves_the_graph_too(home: Path, stack: Stack) -> None:
    async with opened(home, stack) as memory:
        secret = await memory.store_turn("The code of the safe is heron.")
        kept = await memory.store_turn("Bees sleep in winter.")
        await memory.flush()
        line = ErasureLine(user_id=stack.user(), kind="Turn", id=secret.id, erased_at=datetime(2999, 1, 1, tzinfo=UTC))
        done = await erase_again_from_list(memory.engine, [line.model_dump_json()])
        assert list(done.erased) == [stack.user()]
        following = memory.engine.graph_projection
        assert following is not None
        assert list(await following.graph.record_seqs("Turn", memory.scope)) == [kept.id]
        assert set((await memory.lag()).values()) == {0}
