"""Reading current records, and the outline that ranking works on."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from agentmem.errors import InvalidRecord
from agentmem.model.outline import RecordColumnBatch
from agentmem.model.records import Record
from agentmem.stores import Where
from agentmem.stores.outlines import build_column_row
from agentmem.stores.payload import RecordMetadata, decode
from agentmem.stores.sqlite.connection import Connection
from agentmem.stores.sqlite.where import choose_index, compile_order, compile_where
from agentmem.text.blocks import load_templates


def _sql() -> Mapping[str, str]:
    return load_templates(__package__, "records.sql")


def read_records(db: Connection, user_id: str, kind: str, ids: Sequence[str]) -> list[Record]:
    """The current records of these ids in the order asked, missing ones left out."""
    return [
        record for _, record in _decode_rows(user_id, db.execute(_sql()["get"], (user_id, kind, json.dumps(list(ids)))))
    ]


def read_by_ordinal(
    db: Connection, user_id: str, ordinals: Sequence[int], through_seq: int | None = None
) -> list[tuple[int, Record]]:
    """(slot, record) of these slots in the order asked, missing ones left out; as of `through_seq` when given."""
    wanted = json.dumps([int(ordinal) for ordinal in ordinals])
    if through_seq is None:
        rows = db.execute(_sql()["by_slot"], (user_id, wanted))
    else:
        rows = db.execute(_sql()["by_slot_through"], (user_id, wanted, through_seq))
    return list(_decode_rows(user_id, rows))


def find(
    db: Connection, user_id: str, where: Where, order: tuple[str, bool], page: tuple[int, int]
) -> list[Record]:  # fmt: skip
    """Current records that match. `order` is a name and whether it descends, `page` a limit and an offset."""
    for name, value in zip(("limit", "offset"), page, strict=True):
        if value < 0:
            raise InvalidRecord(f"{name} must be 0 or more, got {value}", field=name)
    condition, values = compile_where(user_id, where)
    index = choose_index(where, order[0])
    text = _sql()["find"].format(where=condition, order=compile_order(*order), index=index)
    return [record for _, record in _decode_rows(user_id, db.execute(text, (*values, *page)))]


def count(db: Connection, user_id: str, where: Where) -> int:
    """How many current records match."""
    condition, values = compile_where(user_id, where)
    return int(db.execute(_sql()["count"].format(where=condition, index=choose_index(where)), values).get)


def read_columns(db: Connection, user_id: str, after_seq: int) -> tuple[RecordColumnBatch, list[int]]:
    """Rows of the records changed after a position, and slots that left since."""
    if after_seq <= 0:
        return RecordColumnBatch.from_rows(db.execute(_sql()["outline"], (user_id,))), []
    rows = RecordColumnBatch.from_rows(db.execute(_sql()["outline_after"], (user_id, after_seq)))
    return rows, [ordinal for (ordinal,) in db.execute(_sql()["gone_after"], (user_id, after_seq))]


def read_columns_patch(db: Connection, user_id: str, through_seq: int) -> tuple[RecordColumnBatch, list[int]]:
    """Earlier rows of what changed after `through_seq`, and the slots that held nothing then."""
    changed = [ordinal for (ordinal,) in db.execute(_sql()["changed_slots"], (user_id, through_seq))]
    rows = [build_column_row(ordinal, record) for ordinal, record in read_by_ordinal(db, user_id, changed, through_seq)]
    return RecordColumnBatch.from_rows(rows), sorted(set(changed) - {row.slot for row in rows})


def _decode_rows(user_id: str, rows: Iterable[tuple[Any, ...]]) -> Iterable[tuple[int, Record]]:
    for ordinal, kind, payload, *stamp in rows:
        yield ordinal, decode(kind, payload, RecordMetadata(user_id, *stamp))
