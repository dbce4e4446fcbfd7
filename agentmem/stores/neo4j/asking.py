"""Queries that people ask: narrowed to a scope, read only, limited in time and rows, answered in plain values."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from agentmem.core.scope import Scope
from agentmem.errors import InvalidRecord
from agentmem.stores.neo4j.database import Neo4jDatabase, Transaction
from agentmem.stores.neo4j.scoped_cypher import RESERVED_PREFIX, narrow_query
from agentmem.stores.neo4j.write import HIDDEN, JSON_PROPERTIES, MACHINERY_PROPERTIES
from agentmem.stores.values import GraphRows


async def ask(
    database: Neo4jDatabase, scope: Scope, text: str, parameters: Mapping[str, Any], max_rows: int
) -> GraphRows:
    """The rows of a query over what the scope may read, at most `max_rows` of them.

    Raises InvalidRecord for a query that cannot be narrowed, or that the server does not understand.
    """
    from neo4j.exceptions import ClientError

    query = narrow_query(text)
    if reserved := [name for name in parameters if name.startswith(RESERVED_PREFIX)]:
        raise InvalidRecord(f"parameters: names that begin with __ are reserved, got {reserved[0]}", field="parameters")
    narrowing = {"__user_id": scope.user_id, "__channels": list(scope.readable_channels()), "__hidden": HIDDEN}

    async def work(tx: Transaction) -> GraphRows:
        try:
            result = await tx.run(query, {**parameters, **narrowing})
            rows = await result.fetch(max_rows + 1)
        except ClientError as error:
            if not (error.code or "").startswith("Neo.ClientError.Statement."):
                raise
            said = (error.message or "").partition("\n")[0]
            raise InvalidRecord(f"query: the server does not understand it: {said}", field="query") from None
        except OverflowError:
            raise InvalidRecord("parameters: a whole number must fit into 64 bits", field="parameters") from None
        columns = _name_columns(result.keys())
        found = tuple({name: _to_plain(row[place]) for place, name in columns.items()} for row in rows[:max_rows])
        return GraphRows(tuple(columns.values()), found, len(rows) > max_rows)

    return await database.read(work)


def _name_columns(names: Sequence[str]) -> dict[int, str]:
    """The columns by their places, without what the narrowing added to `RETURN *`.

    A column without a name of its own has the text of its expression: one with a narrowed pattern is numbered.
    """
    return {
        place: f"column {place + 1}" if RESERVED_PREFIX in name else name
        for place, name in enumerate(names)
        if not name.startswith(RESERVED_PREFIX)
    }


def _to_plain(value: Any) -> Any:
    """A value of the driver as Python's own: nodes and relationships as dictionaries, times as datetime."""
    from neo4j.graph import Node, Path, Relationship

    if isinstance(value, Node):
        return {"kind": next(iter(value.labels - {"Record"}), ""), **_to_properties(value)}
    if isinstance(value, Relationship):
        return {"type": value.type, **_to_properties(value)}
    if isinstance(value, Path):
        return {name: [_to_plain(each) for each in getattr(value, name)] for name in ("nodes", "relationships")}
    if isinstance(value, Mapping):
        return {str(name): _to_plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple) and not hasattr(value, "iso_format"):  # a duration is a tuple
        return [_to_plain(each) for each in value]
    if hasattr(value, "to_native"):
        return value.to_native()
    return value if value is None or isinstance(value, str | bool | int | float) else str(value)


def _to_properties(entity: Any) -> dict[str, Any]:
    """The properties that have a meaning; JSON text of maps as maps."""
    return {
        name: json.loads(value) if name in JSON_PROPERTIES and isinstance(value, str) else _to_plain(value)
        for name, value in sorted(entity.items())
        if name not in MACHINERY_PROPERTIES
    }
