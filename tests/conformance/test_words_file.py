"""The word index in a file: no statement walks a whole table."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agentmem.stores.sqlite import SqliteLog, words
from agentmem.stores.sqlite.connection import Connection
from agentmem.text.blocks import load_blocks
from tests.conformance.stores import opened, plan, scans

SQL = load_blocks("agentmem.stores.sqlite", "words.sql")


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[SqliteLog]:
    async with opened(tmp_path / "memory.db") as made:
        yield made


@pytest.mark.parametrize("analysed", [False, True])
async def test_every_statement_goes_through_an_index(log: SqliteLog, analysed: bool) -> None:
    values = {"user_id": "ann", "terms": '["a", "b"]', "slots": "[1, 2]", "after": 3, "full": 9, "added": 1}

    def write(db: Connection) -> list[str]:
        for user_id in ("ann", "bob"):
            words.write(db, user_id, [(slot, {"a": 1, f"t{slot}": 1}) for slot in range(1500)])
        words.write(db, "ann", [(slot, {"a": 1}) for slot in range(2000, 2030)])
        if analysed:
            db.execute("ANALYZE")
        statements = {name: text for name, text in SQL.items() if "?" not in text}
        return [line for text in statements.values() for line in scans(plan(db, text, values))]

    assert await log.database.write(write) == []
