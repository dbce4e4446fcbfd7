"""The filter compiler: a Where becomes a condition over `memory_records r`. Every value is bound."""

from __future__ import annotations

from typing import Any

from agentmem.errors import InvalidRecord
from agentmem.model.clock import to_micros
from agentmem.stores.postgres.columns import shorten_key
from agentmem.stores.values import Where

_ORDERS = {
    "seq": "r.seq {0}, r.kind, r.id",
    "time": "r.valid_from {0} NULLS {1}, r.kind, r.id",
    "position": "r.conversation_id {0}, r.position {0}, r.kind, r.id",
    "id": "r.id {0}, r.kind",
}


def compile_where(user_id: str, where: Where) -> tuple[str, dict[str, Any]]:
    """The condition and its values. A record whose world time has no beginning began before any `until`."""
    parts = ["r.user_id = %(user_id)s"]
    values: dict[str, Any] = {"user_id": user_id}
    keys = None if where.dedup_keys is None else tuple(map(shorten_key, where.dedup_keys))
    lists = {
        "kind": where.kinds, "channel": where.channels, "status": where.status, "unique_key": keys, "id": where.ids,
    }  # fmt: skip
    for column, wanted in lists.items():
        if wanted is not None:
            parts.append(
                f"r.{column} = ANY(%({column})s::text[])" if len(wanted) != 1 else f"r.{column} = %({column})s"
            )
            values[column] = list(wanted) if len(wanted) != 1 else wanted[0]
    if where.dedup_keys is not None:
        parts.append("r.unique_key <> ''")  # lets the partial index on unique keys be used
    if where.conversation_id is not None:
        parts.append("r.conversation_id = %(conversation)s AND r.kind = 'Turn'")  # only turns have a place
        values["conversation"] = where.conversation_id
    if where.after_id is not None:
        parts.append("r.id > %(after_id)s")
        values["after_id"] = where.after_id
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
        raise InvalidRecord(f"order must be one of {', '.join(_ORDERS)}, got {order!r}", field="order")
    return _ORDERS[order].format(*(("DESC", "LAST") if descending else ("ASC", "FIRST")))
