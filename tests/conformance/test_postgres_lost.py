"""What a failing Postgres takes with it of vectors, whose commits do not wait for the disk."""

from __future__ import annotations

import psycopg
import pytest

from agentmem.stores import WHOLE
from agentmem.stores.postgres.vectors import PostgresVectors
from tests.conformance.indexes import ANN, add, place_on, record, rows, search

# Both go back to what was on the disk: the user's vectors with their watermark, and the ids that are given out next.
LOST = """
WITH gone AS (DELETE FROM passages_24 WHERE slot > 1 RETURNING id), back AS (UPDATE projection_watermarks SET seq = 1)
SELECT setval(pg_get_serial_sequence('passages_24', 'id'), min(id), false) FROM gone
"""
BREAK = """
SELECT count(*) FILTER (WHERE pg_terminate_backend(pid)) FROM pg_stat_activity
WHERE datname = current_database() AND starts_with(usename, 'vectors_')
"""


@pytest.mark.server("postgres")
async def test_ids_that_a_failing_postgres_gives_out_again_are_seen_by_those_who_knew_them(
    postgres_database: str,
) -> None:
    async with place_on(postgres_database) as place, place_on(postgres_database) as elsewhere:
        knew = await place.open()
        await add(knew, ANN, record(1))
        await add(knew, ANN, [passage for slot in (2, 3) for passage in record(slot)])
        assert (await search(knew)).slots.tolist() == [1, 2, 3]
        async with await psycopg.AsyncConnection.connect(postgres_database, autocommit=True) as owner:
            await owner.execute(LOST)
            await owner.execute(BREAK)
        other: PostgresVectors = await elsewhere.open()
        await add(other, ANN, record(2))
        await add(other, ANN, record(4))
        assert rows(await search(knew)) == rows(await search(other))
        assert sorted((await search(knew, None, WHOLE)).slots.tolist()) == [1, 2, 4]
