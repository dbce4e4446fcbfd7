"""Which embedders a Postgres keeps vectors of: opened by many at once, and taken out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from agentmem.errors import ConfigError, StoreError
from agentmem.stores.values import VectorBatch
from tests.conformance.indexes import (
    ANN,
    BOB,
    IDENTITY,
    PostgresVectorBackend,
    apply_batch,
    build_record_rows,
    open_postgres_backend,
    score_rows,
    search,
)


@pytest.fixture
async def place(postgres_copy: str) -> AsyncIterator[PostgresVectorBackend]:
    async with open_postgres_backend(postgres_copy) as made:
        yield made


async def test_openers_at_once_agree(place: PostgresVectorBackend) -> None:
    names = [f"hash:{n % 3}:{size}" for n in range(6) for size in (24, 25)]
    await asyncio.gather(*(place.open(name, int(name[-2:])) for name in names))
    assert sorted(await place.list_embedders()) == sorted(set(names))
    refused = await asyncio.gather(*(place.open("x:y:9", size) for size in (9, 10)), return_exceptions=True)
    assert sum(isinstance(each, ConfigError) for each in refused) == 1


async def test_an_embedder_goes_with_the_vectors_of_all_users(place: PostgresVectorBackend) -> None:
    index, second = await place.open(), await place.open("hash:other:24")
    for made in (index, second):
        for scope in (ANN, BOB):
            await apply_batch(made, scope, build_record_rows(0, 2))
    assert await place.drop(IDENTITY) == 6
    assert await place.count_rows("ann") == {"passages_24": 3, "passage_tokens": 0}
    assert await place.count_rows("bob") == {"passages_24": 3, "passage_tokens": 0}
    again = await place.open()
    assert await again.watermark("ann") == 0
    assert score_rows(await search(again)) == []


async def test_a_small_batch_for_an_embedder_that_was_taken_out_is_refused(place: PostgresVectorBackend) -> None:
    """Though it takes no lock against that: its watermark was reset."""
    index = await place.open()
    await apply_batch(index, ANN, build_record_rows(0))
    await place.drop(IDENTITY)
    batch = VectorBatch(after_seq=1, through_seq=2, rows=build_record_rows(1))
    with pytest.raises(StoreError, match="taken out"):
        await index.apply({"ann": batch})
    await place.open()
    assert await index.apply({"ann": batch}) == {"ann": 0}
    assert await place.count_rows("ann") == {"passages_24": 0, "passage_tokens": 0}
