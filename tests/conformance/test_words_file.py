"""The word index in a file: no statement walks a whole table."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agentmem.stores.sql import terms
from agentmem.stores.sqlite import SqliteLog
from agentmem.stores.sqlite.connection import SqliteConnection
from agentmem.text.templates import load_templates
from tests.conformance.stores import explain_query, find_full_scans, open_sqlite_log

SQL = load_templates("agentmem.stores.sqlite", "terms.sql")


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[SqliteLog]:
    async with open_sqlite_log(tmp_path / "memory.db") as made:
        yield made


@pytest.mark.parametrize("analysed", [False, True])
async def test_every_statement_goes_through_an_index(log: SqliteLog, analysed: bool) -> None:
    values = {"user_id": "ann", "terms": '["a", "b"]', "ordinals": "[1, 2]", "after": 3, "full": 9, "ordinal": 1}
    values |= {"tokenizer": "0123456789ab", "term": "a", "block": 1, "postings": b""}

    async def write(db: SqliteConnection) -> list[str]:
        for user_id in ("ann", "bob"):
            await terms.write(db, user_id, [(ordinal, {"a": 1, f"t{ordinal}": 1}) for ordinal in range(1500)])
        await terms.write(db, "ann", [(ordinal, {"a": 1}) for ordinal in range(2000, 2030)])
        if analysed:
            db.execute("ANALYZE")
        statements = [part for text in SQL.values() for part in text.split(";") if part.strip()]
        return [line for text in statements for line in find_full_scans(explain_query(db, text, values))]

    assert await log.database.commit("ann", write) == []
