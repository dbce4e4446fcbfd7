"""A connection to a Postgres server; see `stores.sql.connection` for what each method does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from agentmem.stores.codec import render_json, shorten_key
from agentmem.stores.sql.connection import Dialect, Keys, Row
from agentmem.text.templates import load_statement

if TYPE_CHECKING:
    from psycopg import AsyncConnection

    _DriverConnection = AsyncConnection[Any]
else:
    _DriverConnection = object  # the driver is an extra: `build_connection_class` joins the two

DIALECT = Dialect("%({})s", "{} = ANY(%({})s::text[])", shorten_key)


class PostgresConnection(_DriverConnection):
    """A connection of the pool, or one of its own.

    Inside a pipeline a statement is sent without waiting for those before it; reading rows waits.
    """

    dialect = DIALECT

    def text(self, statement: str, /) -> str:
        """The SQL of a statement."""
        return load_statement(__package__, statement)

    async def select(self, text: str, values: Mapping[str, Any], /) -> list[Row]:
        """The rows of a query that was put together."""
        return await (await self.execute(text, _bind(values))).fetchall()

    async def rows(self, statement: str, /, **values: Any) -> list[Row]:
        """The rows of a statement."""
        return await (await self.execute(load_statement(__package__, statement), _bind(values))).fetchall()

    async def rows_of(self, *statements: str, **values: Any) -> list[list[Row]]:
        """The rows of several statements with the same values, in one round trip."""
        bound = _bind(values)
        sent = [await self.execute(load_statement(__package__, statement), bound) for statement in statements]
        return [await cursor.fetchall() for cursor in sent]

    async def dicts(self, statement: str, /, **values: Any) -> list[dict[str, Any]]:
        """The rows of a statement, by column."""
        cursor = await self.execute(load_statement(__package__, statement), _bind(values))
        found = await cursor.fetchall()
        names = [column.name for column in cursor.description or ()]
        return [dict(zip(names, row, strict=True)) for row in found]

    async def value(self, statement: str, /, **values: Any) -> Any:
        """The first column of the first row; None without one."""
        row = await (await self.execute(load_statement(__package__, statement), _bind(values))).fetchone()
        return None if row is None else row[0]

    async def run(self, statement: str, /, **values: Any) -> None:
        """Send a statement."""
        await self.execute(load_statement(__package__, statement), _bind(values))

    async def run_each(self, statement: str, rows: Sequence[Mapping[str, Any]], /, **values: Any) -> None:
        """Send a statement once, with an array for each name of the rows; nothing without rows."""
        if rows:
            columns = {name: [_encode(row[name]) for row in rows] for name in rows[0]}
            await self.execute(load_statement(__package__, statement), {**_bind(values), **columns})

    async def change(self, statement: str, /, **values: Any) -> int:
        """Run a statement that returns in its first row how many rows it changed."""
        return int(await self.value(statement, **values))

    async def set_user(self, user_id: str, /) -> None:
        """Go on with the rows of another user, in the same transaction."""
        await self.run("database.user", user_id=user_id)

    async def lock_user(self, user_id: str, /) -> None:
        """Wait for the user's writers, and keep others waiting up to the end of the transaction."""
        await self.run("write.lock", user_id=user_id)


@cache
def build_connection_class() -> type[PostgresConnection]:
    """The class of connections that the driver opens."""
    import psycopg

    return type("PostgresDriverConnection", (PostgresConnection, psycopg.AsyncConnection), {})


def _bind(values: Mapping[str, Any]) -> dict[str, Any]:
    bound: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Keys):
            bound |= {"kinds": [kind for kind, _ in value], "ids": [record_id for _, record_id in value]}
        else:
            bound[name] = _encode(value)
    return bound


def _encode(value: Any) -> Any:
    if isinstance(value, dict):
        return render_json(value)
    return list(value) if isinstance(value, tuple) else value
