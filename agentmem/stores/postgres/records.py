"""Reading current records, and the outline that ranking works on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from agentmem.errors import InvalidRecord
from agentmem.model.outline import MAX_TIME, MIN_TIME, RecordColumnBatch
from agentmem.model.records import Record
from agentmem.stores.outlines import build_column_row
from agentmem.stores.payload import RecordMetadata, decode
from agentmem.stores.postgres.connection import fetch_rows
from agentmem.stores.postgres.where import compile_order, compile_where
from agentmem.stores.values import Where
from agentmem.text.blocks import load_templates

if TYPE_CHECKING:
    from agentmem.stores.postgres.connection import Connection

# The columns of the statement `read_columns` as they are sent; those without a type are arrays of strings.
_COLUMN_TYPES = (
    ("slot", ">i4"), ("seq", ">i8"), ("kind", ""), ("id", ""), ("channel", ""), ("status", ""), ("conversation_id", ""),
    ("position", ">i4"), ("speaker", ""), ("valid_from", ">i8"), ("valid_to", ">i8"), ("recorded_at", ">i8"),
    ("superseded_at", ">i8"), ("words", ">i4"), ("length", ">i4"), ("asks", ">i4"), ("salience", ">f8"),
    ("confidence", ">f8"), ("turn_id", ""),
)  # fmt: skip


def _sql() -> Mapping[str, str]:
    return load_templates(__package__, "records.sql")


async def read_records(db: Connection, user_id: str, kind: str, ids: Sequence[str]) -> list[Record]:
    """The current records of these ids in the order asked, missing ones left out."""
    found = await fetch_rows(db, _sql()["get"], {"user_id": user_id, "kind": kind, "ids": list(ids)})
    return [record for _, record in _decode_rows(user_id, found)]


async def read_by_ordinal(
    db: Connection, user_id: str, ordinals: Sequence[int], through_seq: int | None = None
) -> list[tuple[int, Record]]:
    """(slot, record) of these slots in the order asked, missing ones left out; as of `through_seq` when given."""
    statement = _sql()["by_slot" if through_seq is None else "by_slot_through"]
    values = {"user_id": user_id, "slots": [int(ordinal) for ordinal in ordinals], "through": through_seq}
    return list(_decode_rows(user_id, await fetch_rows(db, statement, values)))


async def find(
    db: Connection, user_id: str, where: Where, order: tuple[str, bool], page: tuple[int, int]
) -> list[Record]:  # fmt: skip
    """Current records that match. `order` is a name and whether it descends, `page` a limit and an offset."""
    for name, value in zip(("limit", "offset"), page, strict=True):
        if value < 0:
            raise InvalidRecord(f"{name} must be 0 or more, got {value}", field=name)
    condition, values = compile_where(user_id, where)
    text = _sql()["find"].format(where=condition, order=compile_order(*order))
    found = await fetch_rows(db, text, {**values, "limit": page[0], "offset": page[1]})
    return [record for _, record in _decode_rows(user_id, found)]


async def count(db: Connection, user_id: str, where: Where) -> int:
    """How many current records match."""
    condition, values = compile_where(user_id, where)
    return int((await fetch_rows(db, _sql()["count"].format(where=condition), values))[0][0])


async def read_columns(db: Connection, user_id: str, after_seq: int) -> tuple[RecordColumnBatch, list[int]]:
    """Rows of the records changed after a position, and slots that left since."""
    asked = {"user_id": user_id, "after": after_seq, "always": MIN_TIME, "never": MAX_TIME}
    changed = await db.execute(_sql()["outline"], asked, binary=True)
    gone = await db.execute(_sql()["gone_after"], asked) if after_seq > 0 else None
    sent = zip(_COLUMN_TYPES, (await changed.fetchall())[0], strict=True)
    columns = {name: np.frombuffer(data or b"", kind) if kind else data or () for (name, kind), data in sent}
    return RecordColumnBatch(columns), [ordinal for (ordinal,) in await gone.fetchall()] if gone else []


async def read_columns_patch(db: Connection, user_id: str, through_seq: int) -> tuple[RecordColumnBatch, list[int]]:
    """Earlier rows of what changed after `through_seq`, and the slots that held nothing then."""
    changed = [
        ordinal
        for (ordinal,) in await fetch_rows(db, _sql()["changed_slots"], {"user_id": user_id, "after": through_seq})
    ]
    found = [
        build_column_row(ordinal, record)
        for ordinal, record in await read_by_ordinal(db, user_id, changed, through_seq)
    ]
    return RecordColumnBatch.from_rows(found), sorted(set(changed) - {row.slot for row in found})


def _decode_rows(user_id: str, rows: Iterable[tuple[Any, ...]]) -> Iterable[tuple[int, Record]]:
    for ordinal, kind, payload, *stamp in rows:
        yield ordinal, decode(kind, payload, RecordMetadata(user_id, *stamp))
