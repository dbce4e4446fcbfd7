"""Current records, and the compiler from a filter to SQL."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from agentmem.core.clock import to_micros
from agentmem.core.columns import MAX_TIME, MIN_TIME, RecordColumnBatch
from agentmem.core.plain_values import describe_value
from agentmem.core.record import Record
from agentmem.errors import InvalidRecord
from agentmem.stores.codec import RecordMetadata, build_column_row, decode
from agentmem.stores.postgres.columns import shorten_key
from agentmem.stores.postgres.database import fetch_rows
from agentmem.stores.values import Where, prefix_range
from agentmem.text.templates import load_templates

if TYPE_CHECKING:
    from agentmem.stores.postgres.database import Connection

_SQL = load_templates(__package__, "records.sql")


_ORDERS = {
    "seq": "r.seq {0}, r.kind, r.id",
    "time": "r.valid_from {0} NULLS {1}, r.kind, r.id",
    "position": "r.conversation_id {0}, r.position {0}, r.kind, r.id",
    "id": "r.id {0}, r.kind",
}

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


def compile_where(user_id: str, where: Where) -> tuple[str, dict[str, Any]]:
    """The condition and its values. A record whose world time has no beginning began before any `until`."""
    parts = ["r.user_id = %(user_id)s"]
    values: dict[str, Any] = {"user_id": user_id}
    keys = None if where.dedup_keys is None else tuple(map(shorten_key, where.dedup_keys))
    lists = {
        "kind": where.kinds,
        "channel": where.channels,
        "status": where.status,
        "unique_key": keys,
        "id": where.ids,
    }
    for column, wanted in lists.items():
        if wanted is not None:
            parts.append(
                f"r.{column} = ANY(%({column})s::text[])" if len(wanted) != 1 else f"r.{column} = %({column})s"
            )
            values[column] = list(wanted) if len(wanted) != 1 else wanted[0]
    if where.dedup_prefix is not None:
        parts.append("r.unique_key >= %(prefix)s AND r.unique_key < %(after_prefix)s")
        values |= zip(("prefix", "after_prefix"), prefix_range(where.dedup_prefix), strict=True)
    if where.dedup_keys is not None or where.dedup_prefix is not None:
        parts.append("r.unique_key <> ''")  # lets the partial index on unique keys be used
    if where.conversation_id is not None:
        parts.append("r.conversation_id = %(conversation)s AND r.kind = 'Turn'")  # only turns have a place
        values["conversation"] = where.conversation_id
    if where.after_id is not None:
        parts.append("r.id > %(after_id)s")
        values["after_id"] = where.after_id
    if where.after is not None:
        parts.append(
            "r.seq >= %(after_seq)s AND (r.seq, r.kind, r.id) > (%(after_seq)s, %(after_kind)s, %(after_key)s)"
        )
        values |= zip(("after_seq", "after_kind", "after_key"), where.after, strict=True)
    if where.since is not None:
        parts.append("r.valid_from >= %(since)s")
        values["since"] = to_micros(where.since)
    if where.until is not None:
        parts.append("(r.valid_from < %(until)s OR r.valid_from IS NULL)")
        values["until"] = to_micros(where.until)
    return " AND ".join(parts), values


def compile_order(order: str, descending: bool) -> str:
    """The ORDER BY terms of `seq`, `time`, `position` or `id`, ties by kind and id. InvalidRecord for another."""
    if order not in _ORDERS:
        raise InvalidRecord(f"order must be one of {', '.join(_ORDERS)}, got {describe_value(order)}", field="order")
    return _ORDERS[order].format(*(("DESC", "LAST") if descending else ("ASC", "FIRST")))


async def read_records(db: Connection, user_id: str, kind: str, ids: Sequence[str]) -> list[Record]:
    """The current records of these ids in the order asked, missing ones left out."""
    found = await fetch_rows(db, _SQL["get"], {"user_id": user_id, "kind": kind, "ids": list(ids)})
    return [record for _, record in _decode_rows(user_id, found)]


async def read_by_ordinal(
    db: Connection, user_id: str, ordinals: Sequence[int], through_seq: int | None = None
) -> list[tuple[int, Record]]:
    """(ordinal, record) of these ordinals in the order asked, missing ones left out; as of `through_seq` when given."""
    statement = _SQL["by_slot" if through_seq is None else "by_slot_through"]
    values = {"user_id": user_id, "slots": [int(ordinal) for ordinal in ordinals], "through": through_seq}
    return list(_decode_rows(user_id, await fetch_rows(db, statement, values)))


async def find(
    db: Connection, user_id: str, where: Where, order: tuple[str, bool], page: tuple[int, int]
) -> list[Record]:
    """Current records that match. `order` is a name and whether it descends, `page` a limit and an offset."""
    for name, value in zip(("limit", "offset"), page, strict=True):
        if value < 0:
            raise InvalidRecord(f"{name} must be 0 or more, got {value}", field=name)
    condition, values = compile_where(user_id, where)
    text = _SQL["find"].format(where=condition, order=compile_order(*order))
    found = await fetch_rows(db, text, {**values, "limit": page[0], "offset": page[1]})
    return [record for _, record in _decode_rows(user_id, found)]


async def count(db: Connection, user_id: str, where: Where) -> int:
    """How many current records match."""
    condition, values = compile_where(user_id, where)
    return int((await fetch_rows(db, _SQL["count"].format(where=condition), values))[0][0])


async def read_columns(db: Connection, user_id: str, after_seq: int) -> tuple[RecordColumnBatch, list[int]]:
    """Rows of the records changed after a position, and ordinals that left since."""
    asked = {"user_id": user_id, "after": after_seq, "always": MIN_TIME, "never": MAX_TIME}
    changed = await db.execute(_SQL["columns"], asked, binary=True)
    gone = await db.execute(_SQL["gone_after"], asked) if after_seq > 0 else None
    sent = zip(_COLUMN_TYPES, (await changed.fetchall())[0], strict=True)
    columns = {name: np.frombuffer(data or b"", kind) if kind else data or () for (name, kind), data in sent}
    return RecordColumnBatch(columns), [ordinal for (ordinal,) in await gone.fetchall()] if gone else []


async def read_columns_patch(db: Connection, user_id: str, through_seq: int) -> tuple[RecordColumnBatch, list[int]]:
    """Earlier rows of what changed after `through_seq`, and the ordinals that held nothing then."""
    changed = [
        ordinal
        for (ordinal,) in await fetch_rows(db, _SQL["changed_slots"], {"user_id": user_id, "after": through_seq})
    ]
    found = [
        build_column_row(ordinal, record)
        for ordinal, record in await read_by_ordinal(db, user_id, changed, through_seq)
    ]
    return RecordColumnBatch.from_rows(found), sorted(set(changed) - {row.slot for row in found})


def _decode_rows(user_id: str, rows: Iterable[tuple[Any, ...]]) -> Iterable[tuple[int, Record]]:
    for ordinal, kind, payload, *stamp in rows:
        yield ordinal, decode(kind, payload, RecordMetadata(user_id, *stamp))
