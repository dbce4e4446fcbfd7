"""The word index of each backend with its inner functions, as the tests of words use it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

from agentmem.stores.protocols import LogStore, TermIndex

Rows = Sequence[tuple[int, Mapping[str, int]]]


class TermIndexBackend(Protocol):
    """A log, and what its transactions do with the words of a user."""

    log: LogStore

    async def write(self, user_id: str, rows: Rows) -> None: ...

    async def remove(self, user_id: str, rows: Sequence[tuple[int, Collection[str]]]) -> None: ...

    async def compact(self, user_id: str) -> None: ...

    async def erase_user(self, user_id: str) -> None: ...

    async def count_delta_rows(self, user_id: str) -> int:
        """How many rows are not folded."""
        ...

    async def count_bad_segments(self, user_id: str, size: int) -> int:
        """How many blocks have no posting, or more bytes than this."""
        ...

    def open_cold_index(self) -> TermIndex:
        """The index as a process sees it that has just begun."""
        ...


class SqliteTermBackend:
    """Words in the file of an embedded log."""

    def __init__(self, log: Any) -> None:
        from agentmem.stores.sqlite import terms

        self.log, self._database, self._words = log, log.database, terms

    async def write(self, user_id: str, rows: Rows) -> None:
        await self._database.write(lambda db: self._words.write(db, user_id, rows))

    async def remove(self, user_id: str, rows: Sequence[tuple[int, Collection[str]]]) -> None:
        await self._database.write(lambda db: self._words.remove(db, user_id, rows))

    async def compact(self, user_id: str) -> None:
        await self._database.write(lambda db: self._words.merge_delta(db, user_id))

    async def erase_user(self, user_id: str) -> None:
        await self._database.write(lambda db: self._words.erase_user(db, user_id))

    async def count_delta_rows(self, user_id: str) -> int:
        return await self._count("SELECT count(*) FROM word_tail WHERE user_id = ?", user_id)

    async def count_bad_segments(self, user_id: str, size: int) -> int:
        sizes = "SELECT count(*) FROM word_blocks WHERE user_id = ? AND (length(postings) > ? OR postings = '')"
        return await self._count(sizes, user_id, size)

    async def _count(self, statement: str, *values: Any) -> int:
        return await self._database.read(lambda db: int(db.execute(statement, values).get))

    def open_cold_index(self) -> TermIndex:
        return self._words.SqliteTermIndex(self._database)


class PostgresTermBackend:
    """Words in the database of a log on a server."""

    def __init__(self, log: Any) -> None:
        from agentmem.stores.postgres import terms

        self.log, self._database, self._words = log, log.database, terms

    async def write(self, user_id: str, rows: Rows) -> None:
        await self._database.write(user_id, lambda db: self._words.write(db, user_id, rows))

    async def remove(self, user_id: str, rows: Sequence[tuple[int, Collection[str]]]) -> None:
        await self._database.write(user_id, lambda db: self._words.remove(db, user_id, rows))

    async def compact(self, user_id: str) -> None:
        await self._database.write(user_id, lambda db: self._words.merge_delta(db, user_id))

    async def erase_user(self, user_id: str) -> None:
        await self._database.write(user_id, lambda db: self._words.erase_user(db, user_id))

    async def count_delta_rows(self, user_id: str) -> int:
        return await self._count(user_id, "SELECT count(*) FROM word_tail")

    async def count_bad_segments(self, user_id: str, size: int) -> int:
        sizes = "SELECT count(*) FROM word_blocks WHERE length(postings) > %(size)s OR postings = ''"
        return await self._count(user_id, sizes, size=size)

    async def _count(self, user_id: str, statement: str, **values: Any) -> int:
        from agentmem.stores.postgres.database import fetch_rows

        ((count,),) = await self._database.read(user_id, lambda db: fetch_rows(db, statement, values))
        return int(count)

    def open_cold_index(self) -> TermIndex:
        return self._words.PostgresTermIndex(self._database)


def term_backend_of(log: LogStore) -> TermIndexBackend:
    """The words of an opened log."""
    from agentmem.stores.sqlite import SqliteLog

    return SqliteTermBackend(log) if isinstance(log, SqliteLog) else PostgresTermBackend(log)
