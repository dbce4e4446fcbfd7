"""A log that is put back to an earlier backup under running agents: every projection notices and is right again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from agentmem.core.scope import Scope
from agentmem.engine.engine import NOTICE_RESTORED
from agentmem.errors import NotFound
from agentmem.facade.async_memory import AsyncAgentMemory
from agentmem.jobs.builtin.sync_projections import sync_projections
from agentmem.stores.neo4j.database import fetch_rows
from agentmem.stores.neo4j.graph import Neo4jGraph
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


async def held(memory: AsyncAgentMemory) -> set[str]:
    following = memory.engine.graph_projection
    assert following is not None
    return set(await following.graph.record_seqs("Turn", memory.scope))


@pytest.mark.parametrize("later", [0, 10, 40])
@pytest.mark.parametrize("running", [True, False])
async def test_graph_and_erasures_outlive_a_restore(
    home: Path, stack: Stack, backup: Backup, later: int, running: bool
) -> None:
    async with AsyncExitStack() as agents:
        agent = await agents.enter_async_context(opened(home / "a", stack))
        secret = await agent.store_turn("The code of the safe is heron.")
        told = await agent.learn_fact("The safe opens with heron", source_turn_ids=[secret.id])
        kept = await say(agent, "Bees sleep in winter", 5)
        await agent.flush()
        backup.take()
        await agent.forget(secret.id, hard=True)
        ghosts = await say(agent, "Bees dance in May", 30)
        await agent.flush()
        assert await held(agent) == kept | ghosts
        if not running:
            await agents.aclose()
        backup.restore()
        if not running:
            agent = await agents.enter_async_context(opened(home / "a", stack))
        async with opened(home / "b", stack) as other:
            kept |= await say(other, "Bees swarm in June", later)
            found = await agent.remember("heron safe")
            assert {turn.id for turn in found.turns} & {secret.id} == set()
            assert {fact.id for fact in found.facts} & {told.id} == set()
            assert NOTICE_RESTORED in found.notices or (await other.remember("bees")).notices
            await agent.flush()
            assert await held(agent) == kept
            assert set((await agent.lag()).values()) == {0}
            with pytest.raises(NotFound):
                await agent.semantic.get_fact(told.id)


async def test_a_worker_finds_a_restored_log_of_the_length_that_the_graph_followed(
    home: Path, stack: Stack, backup: Backup
) -> None:
    async with opened(home / "a", stack) as agent:
        kept = await say(agent, "Bees sleep in winter", 5)
        await agent.flush()
    backup.take()
    async with opened(home / "a", stack) as agent:
        await say(agent, "Bees dance in May", 7)
        await agent.flush()
    backup.restore()
    async with AsyncAgentMemory(stack.user(), home=home / "b", embedder="hash", log_url=stack.log_url) as other:
        kept |= await say(other, "Bees swarm in June", 7)
    async with AsyncAgentMemory(stack.user("bob"), home=home / "c", embedder="hash", **stack.urls, **PATIENT) as worker:
        done = await sync_projections(worker.engine)
        assert done.lag_reasons == ()
        following = worker.engine.graph_projection
        assert following is not None
        assert set(await following.graph.record_seqs("Turn", Scope(stack.user()))) == kept


async def test_a_graph_of_an_older_version_learns_whose_journal_it_followed(home: Path, stack: Stack) -> None:
    async with opened(home, stack) as agent:
        await say(agent, "Bees sleep in winter", 2)
        await agent.flush()
        following = agent.engine.graph_projection
        assert following is not None
        assert isinstance(following.graph, Neo4jGraph)
        values = {"user_id": agent.scope.user_id}
        text = "MATCH (p:Projection {user_id: $user_id, name: 'graph'}) REMOVE p.operation_id"
        await following.graph.database.write(lambda tx: fetch_rows(tx, text, **values))
    async with opened(home, stack) as agent:
        await agent.flush()
        following = agent.engine.graph_projection
        assert following is not None
        head = await agent.engine.log.head(agent.scope)
        assert (await following.graph.positions([agent.scope.user_id])).popitem()[1] == (head.seq, head.operation_id)
