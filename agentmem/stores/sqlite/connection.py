"""A connection to a SQLite file; see `stores.sql.connection` for what each method does."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import apsw

from agentmem.stores.codec import format_timestamp, render_json, sanitize_text
from agentmem.stores.sql.connection import Dialect, Row
from agentmem.text.templates import load_statement

DIALECT = Dialect(":{}", "{} IN (SELECT value FROM json_each(:{}))", str)
_BOUND_AS_THEY_ARE = frozenset({str, int, float, bool, bytes, type(None)})
_encode_list = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class SqliteConnection(apsw.Connection):
    """A connection of one thread."""

    dialect = DIALECT

    def text(self, statement: str, /) -> str:
        """The SQL of a statement."""
        return load_statement(__package__, statement)

    async def select(self, text: str, values: Mapping[str, Any], /) -> list[Row]:
        """The rows of a query that was put together."""
        return list(self.execute(text, _bind(values)))

    async def rows(self, statement: str, /, **values: Any) -> list[Row]:
        """The rows of a statement."""
        return list(self.execute(load_statement(__package__, statement), _bind(values)))

    async def rows_of(self, *statements: str, **values: Any) -> list[list[Row]]:
        """The rows of several statements."""
        bound = _bind(values)
        return [list(self.execute(load_statement(__package__, statement), bound)) for statement in statements]

    async def dicts(self, statement: str, /, **values: Any) -> list[dict[str, Any]]:
        """The rows of a statement, by column."""
        cursor = self.execute(load_statement(__package__, statement), _bind(values))
        return [dict(zip((column[0] for column in cursor.get_description()), row, strict=True)) for row in cursor]

    async def value(self, statement: str, /, **values: Any) -> Any:
        """The first column of the first row."""
        row = self.execute(load_statement(__package__, statement), _bind(values)).fetchone()
        return None if row is None else row[0]

    async def run(self, statement: str, /, **values: Any) -> None:
        """Run a statement."""
        self.execute(load_statement(__package__, statement), _bind(values))

    async def run_each(self, statement: str, rows: Sequence[Mapping[str, Any]], /, **values: Any) -> None:
        """Run a statement for each row."""
        shared = _bind(values)
        self.executemany(load_statement(__package__, statement), [{**shared, **_bind(row)} for row in rows])

    async def change(self, statement: str, /, **values: Any) -> int:
        """Run a statement; how many rows it changed."""
        self.execute(load_statement(__package__, statement), _bind(values))
        return self.changes()

    async def set_user(self, user_id: str, /) -> None:
        """Nothing to do: a file has no walls between users."""

    async def lock_user(self, user_id: str, /) -> None:
        """Nothing to do: a file has one writer."""


def _bind(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value if type(value) in _BOUND_AS_THEY_ARE else _encode(value) for name, value in values.items()}


def _encode(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return sanitize_text(_encode_list(value))
    if isinstance(value, dict):
        return render_json(value)
    return format_timestamp(value) if isinstance(value, datetime) else value
