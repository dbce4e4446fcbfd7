"""A log that is put back to an earlier backup under running agents: every projection notices and is right again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from agentmem.facade.async_memory import AsyncAgentMemory
from tests.flows.test_servers import PATIENT
from tests.servers.stack import Stack


@dataclass
class Backup:
    """The log of a stack as it was at one moment, put back under those who use it."""

    admin: psycopg.Connection[tuple[()]]
    database: str

    @property
    def name(self) -> str:
        return f"backup_of_{self.database}"

    def take(self) -> None:
        self.admin.execute(f"ALTER DATABASE {self.database} ALLOW_CONNECTIONS false")  # a template may have none
        self.admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [self.database])
        self.admin.execute(f"CREATE DATABASE {self.name} TEMPLATE {self.database}")
        self.admin.execute(f"ALTER DATABASE {self.database} ALLOW_CONNECTIONS true")

    def restore(self) -> None:
        self.admin.execute(f"DROP DATABASE {self.database} WITH (FORCE)")
        self.admin.execute(f"CREATE DATABASE {self.database} TEMPLATE {self.name}")


@pytest.fixture
def backup(stack: Stack, postgres_url: str) -> Iterator[Backup]:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        taken = Backup(connection, stack.log_url.rpartition("/")[2].partition("?")[0])
        yield taken
        connection.execute(f"DROP DATABASE IF EXISTS {taken.name} WITH (FORCE)")


def opened(home: Path, stack: Stack) -> AsyncAgentMemory:
    return AsyncAgentMemory(stack.user(), home=home, embedder="hash", **stack.urls, **PATIENT)


async def say(memory: AsyncAgentMemory, text: str, count: int) -> set[str]:
    return {(await memory.store_turn(f"{text}, {n}.")).id for n in range(count)}


async def find(memory: AsyncAgentMemory, query: str) -> set[str]:
    return {turn.id for turn in (await memory.remember(query, top_k=100)).turns}


@pytest.mark.parametrize("later", [10, 40])
async def test_a_running_agent_reads_a_restored_log(home: Path, stack: Stack, backup: Backup, later: int) -> None:
    async with opened(home / "a", stack) as agent:
        kept = await say(agent, "Bees sleep in winter", 5)
        await agent.flush()
        backup.take()
        ghosts = await say(agent, "Bees dance in May", 30)
        assert kept | ghosts <= await find(agent, "bees")
        backup.restore()
        async with opened(home / "b", stack) as other:
            told = await say(other, "Bees swarm in June", later)
            assert await find(agent, "bees") == kept | told
            own = await agent.store_turn("Bees fly in summer.")
            assert await find(agent, "bees") == kept | told | {own.id}
