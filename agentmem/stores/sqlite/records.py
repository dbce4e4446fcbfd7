"""Current records, and the compiler from a filter to SQL."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from agentmem.core.clock import to_micros
from agentmem.core.columns import RecordColumnBatch
from agentmem.core.plain_values import describe_value
from agentmem.core.record import Record
from agentmem.errors import InvalidRecord
from agentmem.stores.codec import RecordMetadata, build_column_row, decode
from agentmem.stores.sqlite.database import Connection
from agentmem.stores.values import Where, prefix_range
from agentmem.text.templates import load_templates

_SQL = load_templates(__package__, "records.sql")

_ORDERS = {
    "seq": "r.seq {0}, r.kind, r.id",
    "time": "r.valid_from {0}, r.kind, r.id",
    "position": "r.conversation_id {0}, r.position {0}, r.kind, r.id",
    "id": "r.id {0}, r.kind",
}


def compile_where(user_id: str, where: Where) -> tuple[str, list[object]]:
    """The condition and its values, in order. A record whose world time has no beginning began before any `until`."""
    parts: list[str] = ["r.user_id = ?"]
    values: list[object] = [user_id]
    lists = {
        "r.kind": where.kinds,
        "r.channel": where.channels,
        "r.status": where.status,
        "r.unique_key": where.dedup_keys,
        "r.id": where.ids,
    }
    for column, wanted in lists.items():
        if wanted is not None:
            parts.append(_build_in_condition(column, wanted, values))
    if where.dedup_prefix is not None:
        parts.append("r.unique_key >= ? AND r.unique_key < ?")
        values += prefix_range(where.dedup_prefix)
    if where.dedup_keys is not None or where.dedup_prefix is not None:
        parts.append("r.unique_key <> ''")  # lets the partial index on unique keys be used
    if where.conversation_id is not None:
        parts.append("r.conversation_id = ? AND r.kind = 'Turn'")  # only turns have a place; lets their index be used
        values.append(where.conversation_id)
    if where.after_id is not None:
        parts.append("r.id > ?")
        values.append(where.after_id)
    if where.after is not None:
        parts.append("r.seq >= ? AND (r.seq, r.kind, r.id) > (?, ?, ?)")  # the first part is what an index serves
        values += [where.after[0], *where.after]
    if where.since is not None:
        parts.append("r.valid_from >= ?")
        values.append(to_micros(where.since))
    if where.until is not None:
        parts.append("(r.valid_from < ? OR r.valid_from IS NULL)")
        values.append(to_micros(where.until))
    return " AND ".join(parts), values


def compile_order(order: str, descending: bool) -> str:
    """The ORDER BY terms of `seq`, `time`, `position` or `id`, ties by kind and id. InvalidRecord for another."""
    if order not in _ORDERS:
        raise InvalidRecord(f"order must be one of {', '.join(_ORDERS)}, got {describe_value(order)}", field="order")
    return _ORDERS[order].format("DESC" if descending else "ASC")


def choose_index(where: Where, order: str = "seq") -> str:
    """The index that leaves the fewest records to look at.

    It is named because a planner without statistics takes a user for ten records, and reads all of a large one.
    """
    if where.conversation_id is not None:
        return "memory_records_position"
    if where.ids is not None or order == "id":
        return "memory_records_key"
    if where.dedup_keys is not None or where.dedup_prefix is not None:
        return "memory_records_unique"
    if order == "time" or where.since is not None or where.until is not None:
        return "memory_records_time"
    return "memory_records_kind" if where.kinds is not None else "memory_records_seq"


def _build_in_condition(column: str, options: Sequence[str], values: list[object]) -> str:
    if len(options) == 1:  # an equality keeps the order of an index
        values.append(options[0])
        return f"{column} = ?"
    values.append(json.dumps(list(options)))
    return f"{column} IN (SELECT value FROM json_each(?))"


def read_records(db: Connection, user_id: str, kind: str, ids: Sequence[str]) -> list[Record]:
    """The current records of these ids in the order asked, missing ones left out."""
    return [
        record for _, record in _decode_rows(user_id, db.execute(_SQL["get"], (user_id, kind, json.dumps(list(ids)))))
    ]


def read_by_ordinal(
    db: Connection, user_id: str, ordinals: Sequence[int], through_seq: int | None = None
) -> list[tuple[int, Record]]:
    """(ordinal, record) of these ordinals in the order asked, missing ones left out; as of `through_seq` when given."""
    wanted = json.dumps([int(ordinal) for ordinal in ordinals])
    if through_seq is None:
        rows = db.execute(_SQL["by_slot"], (user_id, wanted))
    else:
        rows = db.execute(_SQL["by_slot_through"], (user_id, wanted, through_seq))
    return list(_decode_rows(user_id, rows))


def find(db: Connection, user_id: str, where: Where, order: tuple[str, bool], page: tuple[int, int]) -> list[Record]:
    """Current records that match. `order` is a name and whether it descends, `page` a limit and an offset."""
    for name, value in zip(("limit", "offset"), page, strict=True):
        if value < 0:
            raise InvalidRecord(f"{name} must be 0 or more, got {value}", field=name)
    condition, values = compile_where(user_id, where)
    index = choose_index(where, order[0])
    text = _SQL["find"].format(where=condition, order=compile_order(*order), index=index)
    return [record for _, record in _decode_rows(user_id, db.execute(text, (*values, *page)))]


def count(db: Connection, user_id: str, where: Where) -> int:
    """How many current records match."""
    condition, values = compile_where(user_id, where)
    return int(db.execute(_SQL["count"].format(where=condition, index=choose_index(where)), values).get)


def read_columns(db: Connection, user_id: str, after_seq: int) -> tuple[RecordColumnBatch, list[int]]:
    """Rows of the records changed after a position, and ordinals that left since."""
    if after_seq <= 0:
        return RecordColumnBatch.from_rows(db.execute(_SQL["columns"], (user_id,))), []
    rows = RecordColumnBatch.from_rows(db.execute(_SQL["columns_after"], (user_id, after_seq)))
    return rows, [ordinal for (ordinal,) in db.execute(_SQL["gone_after"], (user_id, after_seq))]


def read_columns_patch(db: Connection, user_id: str, through_seq: int) -> tuple[RecordColumnBatch, list[int]]:
    """Earlier rows of what changed after `through_seq`, and the ordinals that held nothing then."""
    changed = [ordinal for (ordinal,) in db.execute(_SQL["changed_slots"], (user_id, through_seq))]
    rows = [build_column_row(ordinal, record) for ordinal, record in read_by_ordinal(db, user_id, changed, through_seq)]
    return RecordColumnBatch.from_rows(rows), sorted(set(changed) - {row.slot for row in rows})


def _decode_rows(user_id: str, rows: Iterable[tuple[Any, ...]]) -> Iterable[tuple[int, Record]]:
    for ordinal, kind, payload, *stamp in rows:
        yield ordinal, decode(kind, payload, RecordMetadata(user_id, *stamp))
