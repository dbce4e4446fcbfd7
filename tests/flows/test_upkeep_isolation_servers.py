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


@pytest.mark.timeout(300)
async def test_strangers_come_to_other_servers_and_change_nothing(
    home: Path, stack: Stack, postgres_database: str, empty_neo4j: str
) -> None:
    await prepare(postgres_database, empty_neo4j, None)
    async with AsyncAgentMemory(stack.user(), home=home, embedder="hash", **stack.urls, **PATIENT) as memory:
        await filled(memory)
        before: list[str] = []
        await export_user(memory.engine, memory.scope, before.append)
        with pytest.raises(ConfigError, match="scratch"):
            await verify_isolation(memory.engine, memory.scope, strangers=10)
        with pytest.raises(ConfigError, match="in use"):
            await verify_isolation(memory.engine, memory.scope, strangers=10, scratch_urls=(stack.log_url, empty_neo4j))
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
