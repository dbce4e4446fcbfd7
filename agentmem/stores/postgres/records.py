"""Reading current records, and the outline that ranking works on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from agentmem.errors import InvalidRecord
from agentmem.model.outline import ALWAYS, NEVER, OutlineRows
from agentmem.model.records import Record
from agentmem.stores.outlines import outline_row
from agentmem.stores.payload import Stamp, decode
from agentmem.stores.postgres.connection import rows
from agentmem.stores.postgres.where import compile_order, compile_where
from agentmem.stores.values import Where
from agentmem.text.blocks import load_blocks

if TYPE_CHECKING:
    from agentmem.stores.postgres.connection import Connection

# The columns of the statement `outline` as they are sent; those without a type are arrays of strings.
_OUTLINE = (
    ("slot", ">i4"), ("seq", ">i8"), ("kind", ""), ("id", ""), ("channel", ""), ("status", ""), ("conversation_id", ""),
    ("position", ">i4"), ("speaker", ""), ("valid_from", ">i8"), ("valid_to", ">i8"), ("recorded_at", ">i8"),
    ("superseded_at", ">i8"), ("words", ">i4"), ("length", ">i4"), ("asks", ">i4"), ("salience", ">f8"),
    ("confidence", ">f8"), ("turn_id", ""),
)  # fmt: skip


def _sql() -> Mapping[str, str]:
    return load_blocks(__package__, "records.sql")


async def get(db: Connection, user_id: str, kind: str, ids: Sequence[str]) -> list[Record]:
    """The current records of these ids in the order asked, missing ones left out."""
    found = await rows(db, _sql()["get"], {"user_id": user_id, "kind": kind, "ids": list(ids)})
    return [record for _, record in _records(user_id, found)]


async def by_slot(
    db: Connection, user_id: str, slots: Sequence[int], through: int | None = None
) -> list[tuple[int, Record]]:
    """(slot, record) of these slots in the order asked, missing ones left out; as of `through` when given."""
    statement = _sql()["by_slot" if through is None else "by_slot_through"]
    values = {"user_id": user_id, "slots": [int(slot) for slot in slots], "through": through}
    return list(_records(user_id, await rows(db, statement, values)))


async def find(
    db: Connection, user_id: str, where: Where, order: tuple[str, bool], page: tuple[int, int]
) -> list[Record]:  # fmt: skip
    """Current records that match. `order` is a name and whether it descends, `page` a limit and an offset."""
    for name, value in zip(("limit", "offset"), page, strict=True):
        if value < 0:
            raise InvalidRecord(f"{name} must be 0 or more, got {value}", field=name)
    condition, values = compile_where(user_id, where)
    text = _sql()["find"].format(where=condition, order=compile_order(*order))
    found = await rows(db, text, {**values, "limit": page[0], "offset": page[1]})
    return [record for _, record in _records(user_id, found)]


async def count(db: Connection, user_id: str, where: Where) -> int:
    """How many current records match."""
    condition, values = compile_where(user_id, where)
    return int((await rows(db, _sql()["count"].format(where=condition), values))[0][0])


async def outline(db: Connection, user_id: str, after: int) -> tuple[OutlineRows, list[int]]:
    """Rows of the records changed after a position, and slots that left since."""
    asked = {"user_id": user_id, "after": after, "always": ALWAYS, "never": NEVER}
    changed = await db.execute(_sql()["outline"], asked, binary=True)
    gone = await db.execute(_sql()["gone_after"], asked) if after > 0 else None
    sent = zip(_OUTLINE, (await changed.fetchall())[0], strict=True)
    columns = {name: np.frombuffer(data or b"", kind) if kind else data or () for (name, kind), data in sent}
    return OutlineRows(columns), [slot for (slot,) in await gone.fetchall()] if gone else []


async def outline_at(db: Connection, user_id: str, through: int) -> tuple[OutlineRows, list[int]]:
    """Earlier rows of what changed after `through`, and the slots that held nothing then."""
    changed = [slot for (slot,) in await rows(db, _sql()["changed_slots"], {"user_id": user_id, "after": through})]
    found = [outline_row(slot, record) for slot, record in await by_slot(db, user_id, changed, through)]
    return OutlineRows.of(found), sorted(set(changed) - {row.slot for row in found})


def _records(user_id: str, found: Iterable[tuple[Any, ...]]) -> Iterable[tuple[int, Record]]:
    for slot, kind, payload, *stamp in found:
        yield slot, decode(kind, payload, Stamp(user_id, *stamp))
