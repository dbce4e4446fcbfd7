"""The job that looks for entities stored as two that may be one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agentmem import AsyncAgentMemory, JobReport
from agentmem.jobs.builtin import link_entities
from tests.flows.meanwhile import run_once_before, run_once_before_append


@asynccontextmanager
async def opened(home: Path, **more: Any) -> AsyncIterator[AsyncAgentMemory]:
    async with AsyncAgentMemory("ann", home=home, **{"embedder": "hash", **more}) as memory:
        yield memory


async def run(memory: AsyncAgentMemory, **more: Any) -> JobReport:
    (report,) = await memory.consolidate("entity_linking", **more)
    return report


async def names(memory: AsyncAgentMemory) -> list[str]:
    return sorted(entity.name for entity in await memory.semantic.entities())


async def test_a_thing_known_by_the_others_alias_is_merged_into_the_older(tmp_path: Path) -> None:
    async with opened(tmp_path) as memory:
        old = await memory.upsert_entity({"name": "New York", "type": "place"})
        young = await memory.upsert_entity({"name": "Big Apple", "type": "place"})
        fact = await memory.learn_fact("Ann loves the Big Apple", entity_ids=[young.id])
        await memory.upsert_entity({"name": "New York", "type": "place", "aliases": ["Big Apple"]})
        assert (await run(memory, dry_run=True)).counts == {"merged": 1}
        assert await names(memory) == ["Big Apple", "New York"]
        assert (await run(memory)).counts == {"merged": 1}
        assert await names(memory) == ["New York"]
        (moved,) = await memory.semantic.facts({"id": fact.id})
        assert moved.entity_ids == (old.id,)
        assert (await run(memory)).counts == {}


async def test_people_are_asked_about_and_once(tmp_path: Path) -> None:
    async with opened(tmp_path) as memory:
        await memory.upsert_entity({"name": "Anna Berg", "type": "person"})
        await memory.upsert_entity({"name": "Anna", "type": "person"})
        await memory.upsert_entity({"name": "Anna Berg", "type": "person", "aliases": ["Anna"]})
        report = await run(memory)
        reviews = await memory.semantic.reviews()
        assert len(reviews) == report.counts.get("review", 0) == 1
        assert await names(memory) == ["Anna", "Anna Berg"]
        await memory.semantic.resolve_review(reviews[0].id, "keep_apart")
        await memory.upsert_entity({"name": "Anna Berg", "type": "person", "description": "from work"})
        assert (await run(memory)).counts == {}
        assert await memory.semantic.reviews() == []


async def test_what_is_alike_is_asked_about_and_never_merged(tmp_path: Path) -> None:
    async with opened(tmp_path, embedder="local") as memory:
        for name in ("football club of the village", "the village football club", "dentist"):
            await memory.upsert_entity({"name": name, "type": "organisation"})
        await memory.flush()
        report = await run(memory)
        assert report.counts == {"review": 1}
        assert len(await names(memory)) == 3
        (review,) = await memory.semantic.reviews()
        await memory.semantic.resolve_review(review.id, "merge")
        assert len(await names(memory)) == 2


async def test_channels_are_kept_apart(tmp_path: Path) -> None:
    async with opened(tmp_path) as memory:
        await memory.upsert_entity({"name": "Atlas", "type": "project", "aliases": ["A1"]})
        await memory.scoped(channel="work").upsert_entity({"name": "A1", "type": "project"})
        assert (await run(memory)).counts == {}


@pytest.mark.parametrize("moment", ["build", "append"])
@pytest.mark.parametrize("fate", ["erased", "forgotten", "merged"])
async def test_nobody_is_asked_about_one_that_went_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str, fate: str
) -> None:
    async with opened(tmp_path) as memory:
        people = (
            {"name": "Anna Berg"},
            {"name": "Anna"},
            {"name": "Ann B."},
            {"name": "Anna Berg", "aliases": ["Anna"]},
        )
        _, young, third, _ = [await memory.upsert_entity({**each, "type": "person"}) for each in people]

        async def take_away() -> None:
            if fate == "merged":
                await memory.semantic.merge_entities(third.id, young.id)
            else:
                await memory.forget(young.id, hard=fate == "erased")

        if moment == "build":
            done = run_once_before(monkeypatch, link_entities._LinkEntitiesRun, "_request_review", take_away)
        else:
            done = run_once_before_append(monkeypatch, memory.engine, "entity_linking", take_away)
        report = await run(memory)
        assert (len(done), report.counts, report.operation_ids) == (1, {}, [])
        assert [review.question for review in await memory.semantic.reviews()] == []


async def test_one_that_gained_a_description_meanwhile_is_asked_about(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path) as memory:
        for each in ({"name": "Anna Berg"}, {"name": "Anna"}, {"name": "Anna Berg", "aliases": ["Anna"]}):
            await memory.upsert_entity({**each, "type": "person"})
        told = {"name": "Anna Berg", "type": "person", "description": "from work"}
        done = run_once_before_append(monkeypatch, memory.engine, "entity_linking", lambda: memory.upsert_entity(told))
        report = await run(memory)
        assert (len(done), report.counts, report.notes) == (1, {"review": 1}, [])
        assert len(await memory.semantic.reviews()) == 1
