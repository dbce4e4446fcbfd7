"""Current records, and the compiler from a filter to SQL."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from agentmem.core.clock import to_micros
from agentmem.core.columns import RecordColumnBatch
from agentmem.core.plain_values import describe_value
from agentmem.core.record import Record
from agentmem.errors import InvalidRecord
from agentmem.stores.codec import RecordMetadata, build_column_row, decode
from agentmem.stores.sql.connection import Dialect, Row, SqlConnection
from agentmem.stores.values import Where, prefix_range

PREFIX_INDEX = "memory_records_unique"
MANY = 1_000  # records that share a prefix: to sort them costs more than to walk through all of their kind
_ORDERS = {
    "seq": "r.seq {0}, r.kind, r.id",
    "time": "r.valid_from {0} NULLS {1}, r.kind, r.id",
    "position": "r.conversation_id {0}, r.position {0}, r.kind, r.id",
    "id": "r.id {0}, r.kind",
}


def compile_where(user_id: str, where: Where, dialect: Dialect) -> tuple[str, dict[str, Any]]:
    """The condition and its values. A record whose world time has no beginning began before any `until`."""
    parts, values = ["r.user_id = {user_id}"], dict[str, Any](user_id=user_id)
    keys = None if where.dedup_keys is None else tuple(map(dialect.shorten_key, where.dedup_keys))
    lists = {
        "kind": where.kinds,
        "channel": where.channels,
        "status": where.status,
        "unique_key": keys,
        "id": where.ids,
    }
    for column, wanted in lists.items():
        if wanted is not None:  # an equality keeps the order of an index
            is_one = len(wanted) == 1
            parts.append(f"r.{column} = {{{column}}}" if is_one else dialect.in_list.format(f"r.{column}", column))
            values[column] = wanted[0] if is_one else list(wanted)
    if where.dedup_prefix is not None:
        parts.append("r.unique_key >= {prefix} AND r.unique_key < {after_prefix}")
        values |= zip(("prefix", "after_prefix"), prefix_range(where.dedup_prefix), strict=True)
    if where.dedup_keys is not None or where.dedup_prefix is not None:
        parts.append("r.unique_key <> ''")  # lets the partial index on unique keys be used
    if where.conversation_id is not None:
        parts.append("r.conversation_id = {conversation} AND r.kind = 'Turn'")  # only turns have a place
        values["conversation"] = where.conversation_id
    if where.after_id is not None:
        parts.append("r.id > {after_id}")
        values["after_id"] = where.after_id
    if where.after is not None:  # the first part is what an index serves
        parts.append("r.seq >= {after_seq} AND (r.seq, r.kind, r.id) > ({after_seq}, {after_kind}, {after_key})")
        values |= zip(("after_seq", "after_kind", "after_key"), where.after, strict=True)
    if where.since is not None:
        parts.append("r.valid_from >= {since}")
        values["since"] = to_micros(where.since)
    if where.until is not None:
        parts.append("(r.valid_from < {until} OR r.valid_from IS NULL)")
        values["until"] = to_micros(where.until)
    if where.ends_after is not None:
        parts.append("(r.valid_to > {ends_after} OR r.valid_to IS NULL)")
        values["ends_after"] = to_micros(where.ends_after)
    names = {name: dialect.parameter.format(name) for name in values}
    return " AND ".join(parts).format_map(names), values


def compile_order(order: str, descending: bool) -> str:
    """The ORDER BY terms of `seq`, `time`, `position` or `id`, ties by kind and id. InvalidRecord for another."""
    if order not in _ORDERS:
        raise InvalidRecord(f"order must be one of {', '.join(_ORDERS)}, got {describe_value(order)}", field="order")
    return _ORDERS[order].format(*(("DESC", "LAST") if descending else ("ASC", "FIRST")))


def choose_index(where: Where, order: str = "seq") -> str:
    """The index of a file that leaves the fewest records to look at.

    It is named because a planner without statistics takes a user for ten records, and reads all of a large one.
    """
    if where.conversation_id is not None:
        return "memory_records_position"
    if where.ids is not None or order == "id":
        return "memory_records_key"
    if where.dedup_keys is not None or where.dedup_prefix is not None:
        return PREFIX_INDEX
    if order == "time" or where.since is not None or where.until is not None:
        return "memory_records_time"
    return "memory_records_kind" if where.kinds is not None else "memory_records_seq"


async def read_records(db: SqlConnection, user_id: str, kind: str, ids: Sequence[str]) -> list[Record]:
    """The current records of these ids in the order asked, missing ones left out."""
    found = await db.rows("records.by_id", user_id=user_id, kind=kind, ids=list(ids))
    return [record for _, record in _decode_rows(user_id, found)]


async def read_by_ordinal(
    db: SqlConnection, user_id: str, ordinals: Sequence[int], through_seq: int | None = None
) -> list[tuple[int, Record]]:
    """(ordinal, record) of these ordinals in the order asked, missing ones left out; as of `through_seq` when given."""
    values = {"user_id": user_id, "ordinals": [int(ordinal) for ordinal in ordinals]}
    if through_seq is None:
        found = await db.rows("records.by_ordinal", **values)
    else:
        found = await db.rows("records.by_ordinal_through", **values, through=through_seq)
    return list(_decode_rows(user_id, found))


async def find(
    db: SqlConnection, user_id: str, where: Where, order: tuple[str, bool], page: tuple[int, int]
) -> list[Record]:
    """Current records that match. `order` is a name and whether it descends, `page` a limit and an offset."""
    for name, value in zip(("limit", "offset"), page, strict=True):
        if value < 0:
            raise InvalidRecord(f"{name} must be 0 or more, got {value}", field=name)
    condition, values = compile_where(user_id, where, db.dialect)
    is_last = order == ("seq", True)
    index = await _choose_index_for_last(db, where, (condition, values), page[0]) if is_last else ""
    index = index or choose_index(where, order[0])
    text = db.text("records.find").format(where=condition, order=compile_order(*order), index=index)
    found = await db.select(text, {**values, "limit": page[0], "offset": page[1]})
    return [record for _, record in _decode_rows(user_id, found)]


async def find_field(db: SqlConnection, user_id: str, where: Where, field: str, limit: int) -> list[tuple[int, str]]:
    """One field of the last written records that match, oldest first; see `LogStore.find_field`."""
    condition, values = compile_where(user_id, where, db.dialect)
    order = compile_order("seq", descending=True)
    index = await _choose_index_for_last(db, where, (condition, values), limit)
    text = db.text("records.find_field").format(where=condition, order=order, index=index)
    return [(ordinal, found) for ordinal, found in await db.select(text, {**values, "limit": limit, "field": field})]


async def _choose_index_for_last(
    db: SqlConnection, where: Where, condition: tuple[str, dict[str, Any]], limit: int
) -> str:
    """The index of a file for the last written records: where many share a prefix, the one that has them in order."""
    index = choose_index(where)
    if index != PREFIX_INDEX or limit >= MANY or "INDEXED BY" not in db.text("records.find"):
        return index
    text = db.text("records.is_many").format(where=condition[0])
    ((found,),) = await db.select(text, {**condition[1], "many": MANY})
    return "memory_records_kind" if found == MANY and where.kinds is not None else index


async def count(db: SqlConnection, user_id: str, where: Where) -> int:
    """How many current records match."""
    condition, values = compile_where(user_id, where, db.dialect)
    ((found,),) = await db.select(db.text("records.count").format(where=condition, index=choose_index(where)), values)
    return int(found)


async def read_columns_patch(db: SqlConnection, user_id: str, through_seq: int) -> tuple[RecordColumnBatch, list[int]]:
    """Earlier rows of what changed after `through_seq`, and the ordinals that held nothing then."""
    changed = [row[0] for row in await db.rows("records.changed_ordinals", user_id=user_id, after=through_seq)]
    before = await read_by_ordinal(db, user_id, changed, through_seq)
    rows = [build_column_row(ordinal, record) for ordinal, record in before]
    return RecordColumnBatch.from_rows(rows), sorted(set(changed) - {row.slot for row in rows})


def _decode_rows(user_id: str, rows: Iterable[Row]) -> Iterable[tuple[int, Record]]:
    for ordinal, kind, payload, *stamp in rows:
        yield ordinal, decode(kind, payload, RecordMetadata(user_id, *stamp))
