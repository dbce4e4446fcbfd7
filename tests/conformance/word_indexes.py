"""The word index of a log with its inner functions, as the tests of words use it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any

from agentmem.stores.protocols import LogStore, TermIndex
from agentmem.stores.sql import terms

Rows = Sequence[tuple[int, Mapping[str, int]]]


class TermIndexBackend:
    """A log, and what its transactions do with the words of a user."""

    def __init__(self, log: Any) -> None:
        self.log: LogStore = log
        self._database = log.database

    async def write(self, user_id: str, rows: Rows) -> None:
        await self._database.commit(user_id, lambda db: terms.write(db, user_id, rows))

    async def remove(self, user_id: str, rows: Sequence[tuple[int, Collection[str]]]) -> None:
        await self._database.commit(user_id, lambda db: terms.remove(db, user_id, rows))

    async def compact(self, user_id: str) -> None:
        await self._database.commit(user_id, partial(terms.merge_delta, user_id=user_id))

    async def erase_user(self, user_id: str) -> None:
        await self._database.commit(user_id, partial(terms.erase_user, user_id=user_id))

    async def count_delta_rows(self, user_id: str) -> int:
        """How many rows are not merged."""
        return await self._count(user_id, f"SELECT count(*) FROM word_tail WHERE user_id = '{user_id}'")

    async def count_bad_segments(self, user_id: str, size: int) -> int:
        """How many blocks have no posting, or more bytes than this."""
        bad = f"user_id = '{user_id}' AND (length(postings) > {size} OR postings = '')"
        return await self._count(user_id, f"SELECT count(*) FROM word_blocks WHERE {bad}")

    async def _count(self, user_id: str, statement: str) -> int:
        ((count,),) = await self._database.query(user_id, lambda db: db.select(statement, {}))
        return int(count)

    def open_cold_index(self) -> TermIndex:
        """The index as a process sees it that has just begun."""
        from agentmem.stores.postgres.terms import PostgresTermIndex
        from agentmem.stores.sqlite.database import SqliteDatabase
        from agentmem.stores.sqlite.terms import SqliteTermIndex

        is_file = isinstance(self._database, SqliteDatabase)
        return SqliteTermIndex(self._database) if is_file else PostgresTermIndex(self._database)
