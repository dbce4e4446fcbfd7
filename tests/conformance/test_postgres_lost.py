"""What a failing Postgres takes with it of vectors, whose commits do not wait for the disk."""

from __future__ import annotations

import psycopg
import pytest

from agentmem.stores.postgres.vectors import PostgresVectors
from agentmem.stores.values import WHOLE
from tests.conformance.indexes import ANN, apply_batch, build_record_rows, open_postgres_backend, score_rows, search

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
    async with open_postgres_backend(postgres_database) as place, open_postgres_backend(postgres_database) as elsewhere:
        knew = await place.open()
        await apply_batch(knew, ANN, build_record_rows(1))
        await apply_batch(knew, ANN, [passage for ordinal in (2, 3) for passage in build_record_rows(ordinal)])
        assert (await search(knew)).ordinals.tolist() == [1, 2, 3]
        async with await psycopg.AsyncConnection.connect(postgres_database, autocommit=True) as owner:
            await owner.execute(LOST)
            await owner.execute(BREAK)
        other: PostgresVectors = await elsewhere.open()
        await apply_batch(other, ANN, build_record_rows(2))
        await apply_batch(other, ANN, build_record_rows(4))
        assert score_rows(await search(knew)) == score_rows(await search(other))
        assert sorted((await search(knew, None, WHOLE)).ordinals.tolist()) == [1, 2, 4]
