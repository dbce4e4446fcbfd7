"""Columns of records, and positions by time, as a server sends them."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import numpy as np

from agentmem.core.clock import to_micros
from agentmem.core.columns import MAX_TIME, MIN_TIME, RecordColumnBatch

if TYPE_CHECKING:
    from agentmem.stores.postgres.connection import PostgresConnection

# The columns of the statement `read_columns` as they are sent; those without a type are arrays of strings.
_COLUMN_TYPES = (
    ("slot", ">i4"),
    ("seq", ">i8"),
    ("kind", ""),
    ("id", ""),
    ("channel", ""),
    ("status", ""),
    ("conversation_id", ""),
    ("position", ">i4"),
    ("speaker", ""),
    ("valid_from", ">i8"),
    ("valid_to", ">i8"),
    ("recorded_at", ">i8"),
    ("superseded_at", ">i8"),
    ("words", ">i4"),
    ("length", ">i4"),
    ("asks", ">i4"),
    ("salience", ">f8"),
    ("confidence", ">f8"),
    ("turn_id", ""),
)


async def read_columns(db: PostgresConnection, user_id: str, after_seq: int) -> tuple[RecordColumnBatch, list[int]]:
    """Rows of the records changed after a position, and ordinals that left since."""
    asked = {"user_id": user_id, "after": after_seq, "always": MIN_TIME, "never": MAX_TIME}
    changed = await db.execute(db.text("records.columns"), asked, binary=True)
    gone = await db.execute(db.text("records.gone_after"), asked) if after_seq > 0 else None
    sent = zip(_COLUMN_TYPES, (await changed.fetchall())[0], strict=True)
    columns = {name: np.frombuffer(data or b"", kind) if kind else data or () for (name, kind), data in sent}
    return RecordColumnBatch(columns), [ordinal for (ordinal,) in await gone.fetchall()] if gone else []


async def find_seq_at_time(db: PostgresConnection, user_id: str, moment: datetime) -> int:
    """The last position recorded at or before a moment; 0 before the first."""
    return int(await db.value("journal.seq_at", user_id=user_id, at=to_micros(moment)) or 0)
