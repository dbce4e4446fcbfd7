"""`verify isolation` on servers: the proof is made on others, and those in use are only read."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentmem.admin.export_import import export_user
from agentmem.core.scope import Operator
from agentmem.errors import ConfigError
from agentmem.facade.async_memory import AsyncAgentMemory
from agentmem.facade.isolation import verify_isolation
from tests.flows.test_servers import PATIENT
from tests.flows.test_upkeep_isolation import filled
from tests.scale import scaled
from tests.servers.stack import Stack, prepare


async def test_the_servers_in_use_are_no_place_for_strangers(home: Path, stack: Stack) -> None:
    async with AsyncAgentMemory(stack.user(), home=home, embedder="hash", **stack.urls, **PATIENT) as memory:
        with pytest.raises(ConfigError, match="scratch"):
            await verify_isolation(memory.engine, memory.scope, strangers=10)
        in_use = (stack.log_url, stack.graph_url)
        with pytest.raises(ConfigError, match="in use"):
            await verify_isolation(memory.engine, memory.scope, strangers=10, scratch_urls=in_use)


@pytest.mark.nightly  # by day test_strangers_change_nothing_and_the_live_store_is_untouched, in a file
@pytest.mark.timeout(300)
async def test_strangers_come_to_other_servers_and_change_nothing(
    home: Path, stack: Stack, postgres_database: str, empty_neo4j: str
) -> None:
    await prepare(postgres_database, empty_neo4j, None)
    async with AsyncAgentMemory(stack.user(), home=home, embedder="hash", **stack.urls, **PATIENT) as memory:
        await filled(memory)
        before: list[str] = []
        await export_user(memory.engine, memory.scope, before.append)
        report = await verify_isolation(
            memory.engine,
            memory.scope,
            strangers=scaled(300, least=20),
            scratch_urls=(postgres_database, empty_neo4j),
        )
        assert (report.queries, report.identical, report.differences) == (9, True, ())
        after: list[str] = []
        await export_user(memory.engine, memory.scope, after.append)
        assert after == before
        assert await memory.engine.log.users(Operator()) == [stack.user()]
    scratch = {"log_url": postgres_database, "graph_url": empty_neo4j}
    async with AsyncAgentMemory(stack.user(), home=home, embedder="hash", **scratch) as memory:
        assert await memory.engine.log.users(Operator()) == []
