"""The worker over Postgres, Neo4j and Redis, with the right of a worker and without."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agentmem import AsyncAgentMemory
from agentmem.jobs.worker import ConsolidationWorker
from tests.flows.test_servers import PATIENT
from tests.servers.stack import Stack


def opened(home: Path, stack: Stack, user: str, **more: Any) -> AsyncAgentMemory:
    return AsyncAgentMemory(stack.user(user), home=home, **{"embedder": "hash", **stack.urls, **PATIENT, **more})


@pytest.mark.timeout(300)
async def test_two_workers_read_each_turn_once_and_every_job_runs(home: Path, stack: Stack) -> None:
    users = [stack.user(f"user {number}") for number in range(3)]
    async with opened(home, stack, "operator") as memory, opened(home, stack, "another") as other:
        for user in users:
            await memory.scoped(user_id=user).store_turn("My sister Anna lives in Porto. I work at Initech.")
        both = [ConsolidationWorker(each.engine) for each in (memory, other)]
        ran = set()
        for _ in range(2):
            found = await asyncio.gather(*(worker.run_once() for worker in both))
            for reports in found:
                assert {report.job: report.failed for report in reports if report.failed} == {}
                ran |= {report.job for report in reports}
        assert ran == {*both[0].jobs}
        await both[0].run_once()  # two that meet at a user may note that turns are left; a run alone ends it
        for user in users:
            view = memory.scoped(user_id=user)
            glosses = [
                entry
                for entry in await memory.engine.log.changes(view.scope, 0, 1000)
                if any(stored.record.kind == "Gloss" for stored in entry.upserts)
            ]
            assert len(glosses) == 1
            claims = [fact.claim for fact in await view.semantic.facts()]
            assert sorted(claims) == sorted({*claims})
            assert "The user works at Initech" in claims
            states = await memory.engine.job_queue.states(view.scope)
            assert {state.attempts for state in states} == {0}
            shown = await memory.engine.session.get(view.scope, "consolidation:job:consolidate")
            assert shown["pending"] == 0
