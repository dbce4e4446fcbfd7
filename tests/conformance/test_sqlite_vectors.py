"""Vectors in the store's file: what is read a part at a time, what people can query, and by which indexes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agentmem.stores.sqlite import vectors
from agentmem.stores.sqlite.vectors import SqliteVectors
from agentmem.stores.values import SENTENCE, WHOLE
from tests.conformance.indexes import (
    ANN,
    BOB,
    DIMENSIONS,
    TINY_BUDGET,
    SqliteVectorBackend,
    apply_batch,
    build_record_rows,
    build_vector_row,
    open_sqlite_backend,
    random_unit_vector,
    score_rows,
    search,
)
from tests.conformance.stores import build_fact, build_turn, explain_query, find_full_scans, write_records


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[SqliteVectorBackend]:
    async with open_sqlite_backend(tmp_path) as made:
        yield made


@pytest.fixture
async def index(place: SqliteVectorBackend) -> SqliteVectors:
    return await place.open()


@pytest.mark.parametrize("rows_at_once", [7, 2048])
async def test_streaming_gives_the_same_as_the_cache(
    place: SqliteVectorBackend, rows_at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vectors, "ROW_BATCH_SIZE", rows_at_once)
    cached = await place.open()
    streamed = await place.open(budget=TINY_BUDGET)
    for start in range(0, 600, 150):
        await apply_batch(
            cached, ANN, [p for ordinal in range(start, start + 150) for p in build_record_rows(ordinal, ordinal % 4)]
        )
        await search(cached)
    for granularity in (WHOLE, SENTENCE):
        for k in (None, 7):
            assert score_rows(await search(streamed, k, granularity)) == score_rows(
                await search(cached, k, granularity)
            )
    assert len(streamed._cache) == 0


async def test_people_can_query_the_documents_view(index: SqliteVectors, place: SqliteVectorBackend) -> None:
    await write_records(
        place.log, ANN, build_turn("t0", 0, session_id="s1"), build_fact("f", memory_type="preference", importance=0.9)
    )
    await apply_batch(index, ANN, [*build_record_rows(0, 2), build_vector_row(1, kind="Fact")])
    columns = "id, user_id, session_id, content, memory_type, importance, access_count"
    sql = f"SELECT {columns} FROM memories_24 ORDER BY id"
    assert await place.database.read(lambda db: db.execute(sql).fetchall()) == [
        ("f", "ann", None, "claim f", "preference", 0.9, 0),
        ("t0", "ann", "s1", "text t0", "turn", 0.5, 0),
    ]
    sql = "SELECT embedding, created_at FROM memories_24 WHERE id = 't0'"
    ((embedding, created_at),) = await place.database.read(lambda db: db.execute(sql).fetchall())
    assert embedding == random_unit_vector(0, 0, len(WHOLE)).tobytes()
    assert str(created_at).startswith("2026-03-01T12:00")


@pytest.mark.parametrize("analysed", [False, True])
async def test_every_statement_goes_through_an_index(
    index: SqliteVectors, place: SqliteVectorBackend, analysed: bool
) -> None:
    for scope in (ANN, BOB):
        await apply_batch(index, scope, [p for ordinal in range(200) for p in build_record_rows(ordinal, 2)])
    if analysed:
        await place.database.write(lambda db: db.execute("ANALYZE").fetchall())
    values = {"user_id": "ann", "embedder": 1, "slots": "[1]", "ids": "[1]", "after": 0, "projection": "p"}
    hot = ("state", "remove", "remove_tokens", "counts", "passages_after", "ids", "by_id", "tokens", "whole_of")
    statements = vectors.statements(DIMENSIONS)

    found = await place.database.read(
        lambda db: {name: find_full_scans(explain_query(db, statements[name], values)) for name in hot}
    )
    assert found == {name: [] for name in hot}
