"""Reading current records, and the outline that ranking works on."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from agentmem.errors import InvalidRecord
from agentmem.model.outline import OutlineRows
from agentmem.model.records import Record
from agentmem.stores import Where
from agentmem.stores.outlines import outline_row
from agentmem.stores.payload import Stamp, decode
from agentmem.stores.sqlite.connection import Connection
from agentmem.stores.sqlite.where import compile_order, compile_where, index_for
from agentmem.text.blocks import load_blocks


def _sql() -> Mapping[str, str]:
    return load_blocks(__package__, "records.sql")


def get(db: Connection, user_id: str, kind: str, ids: Sequence[str]) -> list[Record]:
    """The current records of these ids in the order asked, missing ones left out."""
    return [
        record for _, record in _records(user_id, db.execute(_sql()["get"], (user_id, kind, json.dumps(list(ids)))))
    ]


def by_slot(db: Connection, user_id: str, slots: Sequence[int], through: int | None = None) -> list[tuple[int, Record]]:
    """(slot, record) of these slots in the order asked, missing ones left out; as of `through` when given."""
    wanted = json.dumps([int(slot) for slot in slots])
    if through is None:
        rows = db.execute(_sql()["by_slot"], (user_id, wanted))
    else:
        rows = db.execute(_sql()["by_slot_through"], (user_id, wanted, through))
    return list(_records(user_id, rows))


def find(
    db: Connection, user_id: str, where: Where, order: tuple[str, bool], page: tuple[int, int]
) -> list[Record]:  # fmt: skip
    """Current records that match. `order` is a name and whether it descends, `page` a limit and an offset."""
    for name, value in zip(("limit", "offset"), page, strict=True):
        if value < 0:
            raise InvalidRecord(f"{name} must be 0 or more, got {value}", field=name)
    condition, values = compile_where(user_id, where)
    index = index_for(where, order[0])
    text = _sql()["find"].format(where=condition, order=compile_order(*order), index=index)
    return [record for _, record in _records(user_id, db.execute(text, (*values, *page)))]


def count(db: Connection, user_id: str, where: Where) -> int:
    """How many current records match."""
    condition, values = compile_where(user_id, where)
    return int(db.execute(_sql()["count"].format(where=condition, index=index_for(where)), values).get)


def outline(db: Connection, user_id: str, after: int) -> tuple[OutlineRows, list[int]]:
    """Rows of the records changed after a position, and slots that left since."""
    if after <= 0:
        return OutlineRows.of(db.execute(_sql()["outline"], (user_id,))), []
    rows = OutlineRows.of(db.execute(_sql()["outline_after"], (user_id, after)))
    return rows, [slot for (slot,) in db.execute(_sql()["gone_after"], (user_id, after))]


def outline_at(db: Connection, user_id: str, through: int) -> tuple[OutlineRows, list[int]]:
    """Earlier rows of what changed after `through`, and the slots that held nothing then."""
    changed = [slot for (slot,) in db.execute(_sql()["changed_slots"], (user_id, through))]
    rows = [outline_row(slot, record) for slot, record in by_slot(db, user_id, changed, through)]
    return OutlineRows.of(rows), sorted(set(changed) - {row.slot for row in rows})


def _records(user_id: str, rows: Iterable[tuple[Any, ...]]) -> Iterable[tuple[int, Record]]:
    for slot, kind, payload, *stamp in rows:
        yield slot, decode(kind, payload, Stamp(user_id, *stamp))
