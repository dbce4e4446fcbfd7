"""The vectors of one write, inside its transaction: where no model makes them, a second one would only cost time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from agentmem.errors import AgentMemError, Conflict, StoreError, StoreUnavailable
from agentmem.events import WARNING, log_event
from agentmem.model.changes import JournalEntry
from agentmem.stores.instant import InlineVectors
from agentmem.stores.postgres.connection import PostgresDatabase
from agentmem.stores.postgres.vectors import PostgresVectors

if TYPE_CHECKING:
    from psycopg import AsyncCursor

    from agentmem.stores.postgres.connection import Connection


class PostgresInlineVectorWriter:
    """Sends the vectors that are `served`; none when there are none, or when they lie in another database.

    Nobody waits for another because of them. The user's lock, which the write has by then, keeps erasures and the
    user's other writes out. Those who change vectors without it (whoever follows, clears, or takes an embedder out)
    hold the user's watermark, and `put` passes over a watermark that is held: then these vectors follow. It comes last,
    so an append that holds a watermark waits for nothing any more, and closes no circle of such waits.
    """

    def __init__(self, database: PostgresDatabase, source: InlineVectors | None) -> None:
        index = None if source is None else source.index
        self._source = source
        self._index = index if isinstance(index, PostgresVectors) and index.shares_database(database) else None
        self._new_entries: list[JournalEntry] = []
        self._cursor: AsyncCursor[Any] | None = None

    async def write(
        self, db: Connection, work: Callable[[Connection], Awaitable[list[JournalEntry]]]
    ) -> list[JournalEntry]:
        """Do a write and send its vectors after it, last of all. The transaction may run again."""
        self._cursor = None
        entries = await work(db)
        self._new_entries = list({entry.seq: entry for entry in entries if not entry.already_applied}.values())
        values = self._build_values()
        if values is not None and self._index is not None:
            self._cursor = await self._index.write_small_batch(db, values)
        return entries

    def _build_values(self) -> dict[str, Any] | None:
        """What `put` is given; None where there is nothing to put at once."""
        served, index, fresh = self._source, self._index, self._new_entries
        if served is None or index is None or not fresh:
            return None
        try:
            batch = served.embed_now(fresh)
            return None if batch is None else index.build_small_batch(fresh[0].user_id, batch)
        except Exception as error:  # noqa: BLE001  whatever it is, it costs no write
            self._log_deferral(error)
            return None

    def should_retry_without_vectors(self, error: AgentMemError) -> bool:
        """Whether a write that the server refused might pass without its vectors."""
        refused = isinstance(error, StoreError | Conflict) and not isinstance(error, StoreUnavailable)
        if refused and self._cursor is not None:
            self._log_deferral(error)
            return True
        return False

    def _log_deferral(self, error: Exception) -> None:
        log_event(WARNING, "vectors_follow", user_id=self._new_entries[0].user_id, error=type(error).__name__)

    async def on_committed(self) -> None:
        """Have it remembered, which nobody may before the commit; nothing when the vectors stood elsewhere."""
        if self._cursor is not None and self._source is not None and await self._cursor.fetchall():
            self._source.on_committed(self._new_entries)
