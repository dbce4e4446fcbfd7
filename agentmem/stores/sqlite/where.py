"""The filter compiler: a Where becomes a condition over `memory_records r`. Every value is bound."""

from __future__ import annotations

import json
from collections.abc import Sequence

from agentmem.errors import InvalidRecord
from agentmem.model.clock import to_micros
from agentmem.stores import Where

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
        "r.kind": where.kinds, "r.channel": where.channels, "r.status": where.status, "r.unique_key": where.dedup_keys,
        "r.id": where.ids,
    }  # fmt: skip
    for column, wanted in lists.items():
        if wanted is not None:
            parts.append(_build_in_condition(column, wanted, values))
    if where.dedup_keys is not None:
        parts.append("r.unique_key <> ''")  # lets the partial index on unique keys be used
    if where.conversation_id is not None:
        parts.append("r.conversation_id = ? AND r.kind = 'Turn'")  # only turns have a place; lets their index be used
        values.append(where.conversation_id)
    if where.after_id is not None:
        parts.append("r.id > ?")
        values.append(where.after_id)
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
        raise InvalidRecord(f"order must be one of {', '.join(_ORDERS)}, got {order!r}", field="order")
    return _ORDERS[order].format("DESC" if descending else "ASC")


def choose_index(where: Where, order: str = "seq") -> str:
    """The index that leaves the fewest records to look at.

    It is named because a planner without statistics takes a user for ten records, and reads all of a large one.
    """
    if where.conversation_id is not None:
        return "memory_records_position"
    if where.ids is not None or order == "id":
        return "memory_records_key"
    if where.dedup_keys is not None:
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
