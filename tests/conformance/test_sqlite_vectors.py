"""Vectors in the store's file: what is read a part at a time, what people can query, and by which indexes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agentmem.stores import SENTENCE, WHOLE
from agentmem.stores.sqlite import nearest, vectors
from agentmem.stores.sqlite.vectors import SqliteVectors
from tests.conformance.indexes import (
    ANN,
    BOB,
    DIMENSIONS,
    TINY,
    InFile,
    add,
    passage,
    place_in,
    record,
    rows,
    search,
    vector,
)
from tests.conformance.stores import fact, plan, put, scans, turn


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[InFile]:
    async with place_in(tmp_path) as made:
        yield made


@pytest.fixture
async def index(place: InFile) -> SqliteVectors:
    return await place.open()


@pytest.mark.parametrize("rows_at_once", [7, 2048])
async def test_streaming_gives_the_same_as_the_cache(
    place: InFile, rows_at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nearest, "ROWS_AT_ONCE", rows_at_once)
    cached = await place.open()
    streamed = await place.open(budget=TINY)
    for start in range(0, 600, 150):
        await add(cached, ANN, [p for slot in range(start, start + 150) for p in record(slot, slot % 4)])
        await search(cached)
    for grain in (WHOLE, SENTENCE):
        for k in (None, 7):
            assert rows(await search(streamed, k, grain)) == rows(await search(cached, k, grain))
    assert len(streamed._cache) == 0


async def test_people_can_query_the_documents_view(index: SqliteVectors, place: InFile) -> None:
    await put(place.log, ANN, turn("t0", 0, session_id="s1"), fact("f", memory_type="preference", importance=0.9))
    await add(index, ANN, [*record(0, 2), passage(1, kind="Fact")])
    columns = "id, user_id, session_id, content, memory_type, importance, access_count"
    sql = f"SELECT {columns} FROM memories_24 ORDER BY id"
    assert await place.database.read(lambda db: db.execute(sql).fetchall()) == [
        ("f", "ann", None, "claim f", "preference", 0.9, 0),
        ("t0", "ann", "s1", "text t0", "turn", 0.5, 0),
    ]
    sql = "SELECT embedding, created_at FROM memories_24 WHERE id = 't0'"
    ((embedding, created_at),) = await place.database.read(lambda db: db.execute(sql).fetchall())
    assert embedding == vector(0, 0, len(WHOLE)).tobytes()
    assert str(created_at).startswith("2026-03-01T12:00")


@pytest.mark.parametrize("analysed", [False, True])
async def test_every_statement_goes_through_an_index(index: SqliteVectors, place: InFile, analysed: bool) -> None:
    for scope in (ANN, BOB):
        await add(index, scope, [p for slot in range(200) for p in record(slot, 2)])
    if analysed:
        await place.database.write(lambda db: db.execute("ANALYZE").fetchall())
    values = {"user_id": "ann", "embedder": 1, "slots": "[1]", "ids": "[1]", "after": 0, "projection": "p"}
    hot = ("state", "remove", "remove_tokens", "counts", "passages_after", "ids", "by_id", "tokens", "whole_of")
    statements = vectors.statements(DIMENSIONS)

    found = await place.database.read(lambda db: {name: scans(plan(db, statements[name], values)) for name in hot})
    assert found == {name: [] for name in hot}
