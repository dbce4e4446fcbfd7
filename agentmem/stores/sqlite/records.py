"""Columns of records, and positions by time, as a file reads them."""

from __future__ import annotations

from datetime import datetime

from agentmem.core.clock import is_wrong_time, to_micros
from agentmem.core.columns import RecordColumnBatch
from agentmem.stores.sql.journal import head
from agentmem.stores.sqlite.connection import SqliteConnection
from agentmem.text.templates import load_statement


async def read_columns(db: SqliteConnection, user_id: str, after_seq: int) -> tuple[RecordColumnBatch, list[int]]:
    """Rows of the records changed after a position, and ordinals that left since."""
    values = {"user_id": user_id, "after": after_seq}
    if after_seq <= 0:
        return RecordColumnBatch.from_rows(db.execute(load_statement(__package__, "records.columns"), values)), []
    rows = RecordColumnBatch.from_rows(db.execute(load_statement(__package__, "records.columns_after"), values))
    return rows, [ordinal for (ordinal,) in await db.rows("records.gone_after", **values)]


async def find_seq_at_time(db: SqliteConnection, user_id: str, moment: datetime) -> int:
    """The last position recorded at or before a moment; 0 before the first."""
    through, found, above = to_micros(moment), 0, (await head(db, user_id)).seq + 1
    while above - found > 1:  # times grow with positions, but for wrong ones: halve what is between
        middle = (found + above) // 2
        rows = await db.rows("journal.seq_at", user_id=user_id, through=middle)
        if not rows or rows[0][1] <= through or is_wrong_time(rows[0][1], through):
            found = middle
        else:
            above = rows[0][0]
    return int(await db.value("journal.last_seq_until", user_id=user_id, through=found, at=through) or 0)
